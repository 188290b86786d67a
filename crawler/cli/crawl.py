"""`weboid crawl`: from seeds along their links, as far as the scope goes."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from core.clock import SystemClock
from core.errors import InputError
from core.layout import Layout
from core.settings import SCOPE_KINDS, Settings
from crawler.cli.accompany import companion_for, qa_option
from crawler.cli.archive import exit_of
from crawler.cli.exits import Exit
from crawler.cli.options import (
    collection_option,
    database_option,
    dedup_option,
    frontier_option,
    json_option,
    profile_option,
    shared_settings,
    tell_contact,
    workers_option,
)
from crawler.cli.params import DURATION, SIZE
from crawler.cli.run_lines import size
from crawler.cli.show import choose
from crawler.cli.stored_levels import opened_stored_levels, store_option, with_store
from crawler.cli.unlocking import unlocked
from crawler.crawling import budgets_in_words, crawl
from crawler.frontier.base import Lane
from crawler.job import Job, check_job_name, name_for
from crawler.logins import NO_LOGINS
from crawler.operator import collection_settings
from crawler.profiles import profile_says
from crawler.running import Run
from crawler.scope import Scope, Territory, in_words, span
from crawler.urllist import UrlList, parse_lines, read_list

SEEDS_SHOWN = 20
_CLOCK = SystemClock()


def _scope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What belongs to the crawl. Where an option is left out the profile holds."""
    for option in reversed(
        (
            click.option(
                "--scope",
                "kind",
                type=click.Choice(SCOPE_KINDS),
                help="What belongs to the crawl, seen from each seed: the page alone, its folder, its "
                "host, the host and all below it, or anything.  [default: prefix]",
            ),
            click.option(
                "--depth",
                type=click.IntRange(-1),
                metavar="N",
                help="Links followed from a seed at most.  [default: any number]",
            ),
            click.option(
                "--extra-hops",
                type=click.IntRange(0),
                metavar="N",
                help="Links followed beyond the scope.",
            ),
            click.option(
                "--include",
                multiple=True,
                metavar="RX",
                help="A pattern (RE2): a URL in which it is found is in scope, too.",
            ),
            click.option(
                "--exclude",
                multiple=True,
                metavar="RX",
                help="A pattern (RE2): a URL in which it is found is never visited.",
            ),
            click.option("--pages", type=click.IntRange(1), metavar="N", help="Archive so many."),
            click.option(
                "--bytes", "bytes_", type=SIZE, metavar="SIZE", help="Store so much: 5GB."
            ),
            click.option(
                "--time", "time_", type=DURATION, metavar="LENGTH", help="Take so long: 2h."
            ),
            click.option(
                "--host-pages", type=click.IntRange(1), metavar="N", help="So many of each host."
            ),
            click.option(
                "--sitemaps/--no-sitemaps",
                default=None,
                help="Read the sitemaps of the seeds' hosts.  [default: no]",
            ),
            click.option(
                "--link-decisions/--no-link-decisions",
                default=None,
                help="Log the decision on each link into reports/decisions-JOB.jsonl.  [default: no]",
            ),
            click.option(
                "--robots",
                type=click.Choice(("obey", "ignore")),
                help="What robots.txt means to this crawl.  [default: obey]",
            ),
        )
    ):
        command = option(command)
    return command


@click.command("crawl")
@click.argument("seeds", nargs=-1, metavar="[SEED]...")
@click.option("--list", "list_file", metavar="FILE", help="One seed a line; - is standard input.")
@_scope_options
@click.option(
    "--lane",
    type=click.Choice([lane.name.lower() for lane in Lane]),
    default="standard",
    show_default=True,
    help="How urgent its pages are beside others.",
)
@click.option("--name", metavar="JOB", help="The crawl's name.  [default: made from the seeds]")
@collection_option
@frontier_option
@database_option
@dedup_option
@profile_option
@workers_option
@click.option(
    "--continuous",
    is_flag=True,
    help="Go on when nothing is left: visit again what is due, and whatever is added.",
)
@store_option
@qa_option
@click.option("--dry-run", is_flag=True, help="Say what would be crawled, do nothing.")
@json_option
def command(
    *,
    seeds: tuple[str, ...],
    list_file: str | None,
    lane: str,
    name: str | None,
    collection: Path,
    frontier_url: str,
    database_url: str,
    dedup_url: str,
    profile: str,
    workers: int,
    continuous: bool,
    store: str | None,
    qa: bool | None,
    dry_run: bool,
    as_json: bool,
    **scope: Any,
) -> int:
    """Archive the pages of sites, from seeds along their links.

    Every page is rendered in a real browser, and the links of the rendered page that belong to the
    crawl are followed. The same command run again goes on where it stopped; with other options it
    changes the crawl. With --frontier it hands the crawl to the workers there. Ctrl-C finishes the
    pages begun and stops; a second one stops at once.
    """
    wanted = gather(seeds, list_file)
    for problem in wanted.problems:
        click.echo(f"{problem}", err=True)
    if not wanted.urls:
        raise InputError("There is nothing to crawl: no line was a URL.")
    options = Options(**scope)
    settings = shared_settings(
        settings_of(profile, collection, continuous=continuous, options=options),
        frontier_url=frontier_url,
        database_url=database_url,
        dedup_url=dedup_url,
    )
    settings = with_store(settings, store)
    job = Job(
        name=name_for(wanted.urls) if name is None else check_job_name(name),
        seeds=wanted.urls,
        settings=settings,
        lane=Lane[lane.upper()],
        made_at=_CLOCK.now(),
    )
    if dry_run:
        _preview(job, collection, as_json=as_json)
        return Exit.SOME_FAILED if wanted.problems else Exit.OK
    tell_contact(settings.visit.contact)
    logins = NO_LOGINS if settings.frontier.url else unlocked(settings, collection)
    companion = companion_for(settings, qa=qa)
    with opened_stored_levels(Layout(collection), settings.index.url) as level_of:
        run = Run(
            collection,
            settings,
            workers,
            continuous,
            logins,
            companion,
            stored_level_of=level_of,
        )
        return _crawl(job, run, wanted, as_json)


def _crawl(job: Job, run: Run, wanted: UrlList, as_json: bool) -> int:  # noqa: FBT001 an option
    show = choose(as_json=as_json)
    account = asyncio.run(
        crawl(
            job,
            run,
            clock=_CLOCK,
            started=show.started,
            report=show.event,
            stopping=show.stopping,
        )
    )
    show.ended(account)
    return exit_of(account, bad=len(wanted.problems))


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says of a crawl; None and empty where it says nothing."""

    kind: str | None = None
    depth: int | None = None
    extra_hops: int | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    pages: int | None = None
    bytes_: int | None = None
    time_: timedelta | None = None
    host_pages: int | None = None
    sitemaps: bool | None = None
    link_decisions: bool | None = None
    robots: str | None = None


def settings_of(profile: str, collection: Path, *, continuous: bool, options: Options) -> Settings:
    """The profile as the options change it; patterns join those of the profile.

    A crawl obeys robots.txt, and a continuous one visits again what is due, unless an option or the
    profile itself says otherwise.

    Raises:
        ConfigError: the profile cannot be used.
    """
    settings = collection_settings(profile, collection, unattended=True, robots=options.robots)
    changes: dict[str, Any] = {
        "kind": options.kind,
        "depth": options.depth,
        "extra_hops": options.extra_hops,
        "include": (*settings.scope.include, *options.include),
        "exclude": (*settings.scope.exclude, *options.exclude),
        "pages": options.pages,
        "bytes": options.bytes_,
        "seconds": None if options.time_ is None else options.time_.total_seconds(),
        "host_pages": options.host_pages,
        "sitemaps": options.sitemaps,
        "link_decisions": options.link_decisions,
    }
    given = {key: value for key, value in changes.items() if value is not None}
    settings = replace(settings, scope=replace(settings.scope, **given))
    is_said = settings.recrawl.every or profile_says(profile, "recrawl", "enabled")
    if continuous and not is_said:
        settings = replace(settings, recrawl=replace(settings.recrawl, enabled=True))
    return settings


def _preview(job: Job, collection: Path, *, as_json: bool) -> None:
    """Say what would be crawled."""
    settings = job.settings.scope
    scope = Scope(Territory(settings.kind, job.seeds), settings)
    seeds = [
        {"url": seed, "spans": span(settings.kind, seed), "excluded": scope.excluded(seed)}
        for seed in job.seeds
    ]
    facts: dict[str, Any] = {
        "job": job.name,
        "collection": str(collection),
        "seeds": seeds,
        "scope": in_words(settings, len(job.seeds)),
        "budgets": budgets_in_words(settings, size),
        "sitemaps": settings.sitemaps,
        "robots": job.settings.policy.robots,
        "lane": job.lane.name.lower(),
    }
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    where = "the shared frontier" if job.settings.frontier.url else facts["collection"]
    click.echo(f"The crawl {job.name} would go into {where}.")
    for seed in seeds[:SEEDS_SHOWN]:
        excluded = seed["excluded"]
        what = f"never visited: {excluded} is found in it" if excluded else seed["spans"]
        click.echo(f"  Seed      {seed['url']}\n            {what}")
    if len(seeds) > SEEDS_SHOWN:
        click.echo(f"            … and {len(seeds) - SEEDS_SHOWN} more")
    click.echo(f"  Scope     {facts['scope']}")
    click.echo(f"  Budget    {', '.join(facts['budgets']) or 'none'}")
    click.echo(f"  Sitemaps  {'read' if facts['sitemaps'] else 'not read'}")
    click.echo(f"  Robots    {'obeyed' if facts['robots'] == 'obey' else 'ignored'}")
    click.echo(f"  Lane      {facts['lane']}")


def gather(urls: tuple[str, ...], list_file: str | None) -> UrlList:
    """The URLs of the command line and of the list, duplicates taken out.

    Raises:
        InputError: neither was given, or the list cannot be read or is empty.
    """
    if list_file is None:
        if not urls:
            raise InputError("Say what to crawl: seeds, or --list FILE.")
        return parse_lines(urls, source="the command line")
    listed = read_list(list_file)
    if not urls:
        return listed
    given = parse_lines(urls, source="the command line")
    both = tuple(dict.fromkeys((*given.urls, *listed.urls)))
    twice = len(given.urls) + len(listed.urls) - len(both)
    return UrlList(
        both, (*given.problems, *listed.problems), given.duplicates + listed.duplicates + twice
    )
