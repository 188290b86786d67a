"""`weboid crawl`: runs from seeds along links."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from core.config.settings import SCOPE_KINDS, Settings
from core.errors import InputError
from crawler.frontier.base import Lane
from crawler.jobs.crawl_orders import Job, jobs_of_groups
from crawler.jobs.list_files import ListFile, parse_lines, unique_urls
from crawler.jobs.scope import Scope, SeedTerritory, describe_scope, describe_span
from crawler.profiles import profile_sets
from crawler.run.job_run import describe_budgets, run_crawl_jobs
from weboid.app.collection_config import read_config, seeds_by_scope
from weboid.app.operator_identity import collection_settings
from weboid.cli.support import options
from weboid.cli.support.commands import (
    CLOCK,
    COMMANDS,
    ExitCode,
    LazyGroupWithDefault,
    argument,
    cli_command,
    option,
    option_dict,
)
from weboid.cli.support.options import output
from weboid.cli.support.run_options import QA, STORE, run_with_reports, with_store
from weboid.cli.support.run_output import format_size, run_exit_code

SEEDS_SHOWN = 20


_SCOPE_OPTIONS: dict[str, Any] = {
    "kind": option(
        "Scope of the crawl around each seed: the page alone, its folder, its host, its host with subdomains, or "
        "anything.  [default: prefix]",
        "--scope",
        choices=SCOPE_KINDS,
    ),
    "depth": option("Maximum distance from a seed, in links.  [default: any number]", within=(-1, None), metavar="N"),
    "extra_hops": option("Number of links to follow beyond the scope.", within=(0, None), metavar="N"),
    "include": option("RE2 pattern; URLs that match are in scope, too.", multiple=True, metavar="RX"),
    "exclude": option("RE2 pattern; URLs that match are never visited.", multiple=True, metavar="RX"),
    "pages": option("Stop after N pages.", "--limit", within=(1, None), metavar="N"),
    "bytes": option("Stop after this size: 5GB.", "--size-limit", type=options.SIZE),
    "seconds": option("Stop after this time: 2h.", "--time-limit", type=options.DURATION),
    "host_pages": option("At most N pages of each host.", "--host-limit", within=(1, None), metavar="N"),
    "sitemaps": option(
        "Read the sitemaps of the seeds' hosts.  [default: no]", "--sitemaps/--no-sitemaps", default=None
    ),
    "link_decisions": option(
        "Log the decision on each link into reports/decisions-JOB.jsonl.  [default: no]",
        "--link-decisions/--no-link-decisions",
        default=None,
    ),
    "robots": option("Treatment of robots.txt in this crawl.  [default: obey]", choices=("obey", "ignore")),
}


@cli_command("crawl", cls=LazyGroupWithDefault, commands_at=COMMANDS["crawl"], invoke_without_command=True)
def crawl_command(
    *,
    seeds: tuple[str, ...] = argument("[SEED]..."),
    list_file: str | None = option(
        "One seed per line; - is standard input.", "--list", metavar="FILE", type=click.Path(allow_dash=True)
    ),
    named: tuple[str, ...] = option(None, "--url", "--seeds", hidden=True),
    scope: dict[str, Any] = option_dict(_SCOPE_OPTIONS),
    lane: str = option(
        "Priority of its pages relative to others.", choices=[lane.name.lower() for lane in Lane], default="standard"
    ),
    name: str | None = option("Name of the crawl.  [default: made from the seeds]", "--job", metavar="JOB"),
    title: str = option("Title of the crawl, written to the warcinfo records.", default=""),
    description: str = option("Description of the crawl, written to the warcinfo records.", default=""),
    collection: Path = options.COLLECTION,
    shared: options.SharedStores = options.SHARED,
    profile: str = options.PROFILE,
    workers: int = options.WORKERS,
    continuous: bool = option("Keep running when the queue is empty: visit due pages again, and added URLs."),
    store: str | None = STORE,
    qa: bool | None = QA,
    dry_run: bool = option("Show what would be crawled."),
) -> int:
    """Archive the pages of sites, from seeds along their links.

    Without seeds those of the collection's weboid.toml are crawled, each with its own scope. Every page is rendered in a real browser, and the links of the rendered page that are in scope
    are followed. The same command run again continues where it stopped; with other options it
    changes the crawl. With --frontier it hands the crawl to the workers there. Ctrl-C finishes the
    pages in progress and stops; a second one stops at once.
    """
    seeds += named
    configured = () if seeds or list_file else read_config(collection).seeds()
    urls = tuple(each.url for each in configured) or seeds
    if list_file is None and not urls:
        raise InputError("Name what to crawl: seeds, --list FILE, or [[seed]] in the collection's weboid.toml.")
    lines = [*parse_lines(urls, source="the command line")]
    if list_file is not None:
        with ListFile(list_file) as file:
            if not (listed := list(file)):
                raise file.empty()
        lines += listed
    seed_urls, problems = unique_urls(lines)
    for problem in problems:
        click.echo(f"{problem}", err=True)
    if not seed_urls:
        raise InputError("There is nothing to crawl: no line is a URL.")
    if scope["sitemaps"] and (files := [each for each in seeds if each.endswith((".xml", ".xml.gz"))]):
        raise InputError(f"{files[0]} is no seed: --sitemaps itself reads the sitemaps of the seeds' hosts.")
    settings = shared.applied_to(settings_of(profile, collection, continuous=continuous, scoping=scope))
    settings = with_store(settings, store)
    if settings.frontier.url and (title or description):
        raise InputError(
            "The proxies of a cluster write the warcinfo records: set title and description in [proxy] of their profile."
        )
    title, description = title or settings.proxy.title, description or settings.proxy.description
    settings = replace(settings, proxy=replace(settings.proxy, title=title, description=description))
    groups = seeds_by_scope(configured, settings.scope) if configured else {settings.scope: seed_urls}
    jobs = jobs_of_groups(groups, settings, Lane[lane.upper()], name or "", now=CLOCK.now())
    if dry_run:
        for job in jobs:
            _preview(job, collection)
        return ExitCode.SOME_FAILED if problems else ExitCode.OK
    options.warn_missing_contact(settings.visit.contact)
    run, names = partial(run_crawl_jobs, jobs), [job.name for job in jobs]
    summary = run_with_reports(run, collection, settings, workers, qa=qa, stays=continuous, jobs=names)
    return run_exit_code(summary, bad=len(problems))


def settings_of(profile: str, collection: Path, *, continuous: bool, scoping: dict[str, Any]) -> Settings:
    """Return the profile as changed by the options; patterns are added. Unless set, robots.txt is obeyed.

    A continuous crawl visits due pages again.
    """
    scope = {key: value for key, value in scoping.items() if value is not None}
    robots = scope.pop("robots", None)
    settings = collection_settings(profile, collection, unattended=True, robots=robots)
    for name in ("include", "exclude"):
        scope[name] = (*getattr(settings.scope, name), *scope[name])
    if "seconds" in scope:
        scope["seconds"] = scope["seconds"].total_seconds()
    settings = replace(settings, scope=replace(settings.scope, **scope))
    is_set = settings.recrawl.every or profile_sets(profile, "recrawl", "enabled")
    if continuous and not is_set:
        settings = replace(settings, recrawl=replace(settings.recrawl, enabled=True))
    return settings


def _preview(job: Job, collection: Path) -> None:
    settings = job.settings.scope
    scope = Scope(SeedTerritory(settings.kind, job.seeds), settings)
    seeds = [
        {"url": seed, "spans": describe_span(settings.kind, seed), "excluded": scope.excluded(seed)}
        for seed in job.seeds
    ]
    facts: dict[str, Any] = {
        "job": job.name,
        "collection": str(collection),
        "seeds": seeds,
        "scope": describe_scope(settings, len(job.seeds)),
        "budgets": describe_budgets(settings, format_size),
        "sitemaps": settings.sitemaps,
        "robots": job.settings.policy.robots,
        "lane": job.lane.name.lower(),
    }
    where = "the shared frontier" if job.settings.frontier.url else facts["collection"]
    lines = [f"The crawl {job.name} would go into {where}."]
    for seed in seeds[:SEEDS_SHOWN]:
        seed_scope = f"never visited: {seed['excluded']} is found in it" if seed["excluded"] else seed["spans"]
        lines.append(f"  Seed      {seed['url']}\n            {seed_scope}")
    if len(seeds) > SEEDS_SHOWN:
        lines.append(f"            … and {len(seeds) - SEEDS_SHOWN} more")
    lines += [
        f"  Scope     {facts['scope']}",
        f"  Budget    {', '.join(facts['budgets']) or 'none'}",
        f"  Sitemaps  {'read' if facts['sitemaps'] else 'not read'}",
        f"  Robots    {'obeyed' if facts['robots'] == 'obey' else 'ignored'}",
        f"  Lane      {facts['lane']}",
    ]
    output.show(facts, lines)
