"""`weboid archive` and `weboid crawl`: runs over a list of URLs, or from seeds along links."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from core.clock import SystemClock
from core.config.settings import SCOPE_KINDS, Settings
from core.errors import InputError
from core.layout import Layout
from crawler.capture.site_logins import NO_LOGINS
from crawler.frontier.base import Lane
from crawler.jobs.crawl_job import Job, check_job_name, derive_job_name
from crawler.jobs.list_files import GivenUrls, ParsedUrlList, parse_lines, read_list
from crawler.jobs.scope import Scope, SeedTerritory, describe_scope, describe_span
from crawler.profiles import profile_sets
from crawler.run.crawl_run import ArchiveOptions, RunConfig, RunSummary, archive_urls
from crawler.run.job_run import describe_budgets, run_crawl_job
from weboid.app.operator_identity import collection_settings
from weboid.cli.support.child_commands import scan_once, scan_option
from weboid.cli.support.command_base import ExitCode, LazyGroupWithDefault
from weboid.cli.support.options import (
    DURATION,
    SIZE,
    collection_option,
    database_option,
    dedup_option,
    frontier_option,
    json_option,
    profile_option,
    shared_settings,
    warn_missing_contact,
    workers_option,
)
from weboid.cli.support.run_options import (
    background_checks,
    open_stored_levels,
    qa_option,
    store_option,
    unlock_logins,
    with_store,
)
from weboid.cli.support.run_output import RunReporter, format_size, run_reporter


@click.group(
    "archive",
    cls=LazyGroupWithDefault,
    commands_at={"verify": "weboid.cli.maintenance:verify_command"},
    invoke_without_command=True,
)
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option("--list", "list_file", metavar="FILE", help="One URL a line; - is standard input.")
@collection_option
@frontier_option
@database_option
@dedup_option
@profile_option
@workers_option
@click.option("--again", is_flag=True, help="Archive also what the collection already has.")
@click.option(
    "--older-than",
    type=DURATION,
    metavar="LENGTH",
    help="Archive also what was archived so long ago: 30d, 12h.",
)
@click.option(
    "--no-wait",
    is_flag=True,
    help="End the run when the disk is nearly full, rather than wait for space.",
)
@click.option(
    "--stay",
    is_flag=True,
    help="Go on for ever: wait for what others put into the collection's frontier.",
)
@click.option(
    "--robots",
    type=click.Choice(("obey", "ignore")),
    help="Treatment of robots.txt in this run.  [default: ignore, as browsers do for what somebody"
    " names; obey with --stay]",
)
@store_option
@qa_option
@scan_option
@click.option("--dry-run", is_flag=True, help="Read the list and show what would be done.")
@json_option
def archive_command(
    *,
    urls: tuple[str, ...],
    list_file: str | None,
    collection: Path,
    frontier_url: str,
    database_url: str,
    dedup_url: str,
    profile: str,
    workers: int,
    again: bool,
    older_than: timedelta | None,
    no_wait: bool,
    stay: bool,
    robots: str | None,
    store: str | None,
    qa: bool | None,
    scan: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Archive URLs into a collection.

    Every URL is rendered in a real browser through a WARC-writing proxy. The same command run again
    continues where it stopped, and does nothing twice. Without URLs it processes the collection's
    frontier, such as URLs from `weboid enqueue`. With --frontier the URLs are left to the workers
    of that frontier. Ctrl-C finishes the pages in progress and stops; a second one stops at once.
    """
    if again and older_than is not None:
        raise InputError("Use --again or --older-than, not both.")
    if stay and frontier_url:
        raise InputError("Who stays at a shared frontier is `weboid worker`.")
    settings = shared_settings(
        collection_settings(profile, collection, unattended=stay, robots=robots),
        frontier_url=frontier_url,
        database_url=database_url,
        dedup_url=dedup_url,
    )
    settings = with_store(settings, store)
    if store is not None and settings.frontier.url:
        raise InputError(
            "The workers of a shared frontier use the stored levels: omit --store and run"
            " `weboid level set --store`, or name a crawl with `weboid crawl --store`."
        )
    if no_wait:
        settings = replace(settings, proxy=replace(settings.proxy, disk_wait_s=0.0))
    is_there = stay or Layout(collection).frontier_db.exists()
    goes_on = not urls and list_file is None and is_there
    with GivenUrls(
        urls, list_file, told=lambda text: click.echo(text, err=True), needed=not goes_on
    ) as given:
        count = sum(1 for _ in given)  # report every error before anything is created
        if not goes_on:
            given.require_some()
        bad = given.bad
        if dry_run:
            click.echo(f"{count} URLs would be archived into {collection}.")
            return ExitCode.SOME_FAILED if bad else ExitCode.OK
        logins = NO_LOGINS if settings.frontier.url else unlock_logins(settings, collection)
        older = timedelta(0) if again else older_than
        companion = background_checks(settings, qa=qa)
        with open_stored_levels(Layout(collection), settings.index.url) as level_of:
            order = ArchiveOptions(
                given,
                collection,
                settings,
                workers,
                older,
                stay,
                logins,
                companion,
                stored_level_of=level_of,
            )
            account = _run(order, run_reporter(as_json=as_json))
        if scan and not stay and not settings.frontier.url:
            scan_once(collection, settings.index.url)
        return run_exit_code(account, bad=bad)


def _run(order: ArchiveOptions, show: RunReporter) -> RunSummary:
    """Run the archiving job and report its events."""
    account = asyncio.run(
        archive_urls(
            order,
            clock=SystemClock(),
            started=show.started,
            report=show.event,
            stopping=show.stopping,
        )
    )
    show.ended(account)
    return account


def run_exit_code(account: RunSummary, *, bad: int) -> ExitCode:
    """Return the exit code of a finished run."""
    if account.stopped and account.left:
        return ExitCode.STOPPED
    if account.failures or bad:
        return ExitCode.SOME_FAILED
    return ExitCode.OK


SEEDS_SHOWN = 20
_CLOCK = SystemClock()


def _scope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a crawl; the profile applies where an option is omitted."""
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
    help="Priority of its pages relative to others.",
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
    help="Keep running when the queue is empty: visit due pages again, and added URLs.",
)
@store_option
@qa_option
@click.option("--dry-run", is_flag=True, help="Show what would be crawled.")
@json_option
def crawl_command(
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

    Every page is rendered in a real browser, and the links of the rendered page that are in scope
    are followed. The same command run again continues where it stopped; with other options it
    changes the crawl. With --frontier it hands the crawl to the workers there. Ctrl-C finishes the
    pages in progress and stops; a second one stops at once.
    """
    wanted = collect_seeds(seeds, list_file)
    for problem in wanted.problems:
        click.echo(f"{problem}", err=True)
    if not wanted.urls:
        raise InputError("There is nothing to crawl: no line was a URL.")
    options = CrawlOptions(**scope)
    settings = shared_settings(
        settings_of(profile, collection, continuous=continuous, options=options),
        frontier_url=frontier_url,
        database_url=database_url,
        dedup_url=dedup_url,
    )
    settings = with_store(settings, store)
    job = Job(
        name=derive_job_name(wanted.urls) if name is None else check_job_name(name),
        seeds=wanted.urls,
        settings=settings,
        lane=Lane[lane.upper()],
        made_at=_CLOCK.now(),
    )
    if dry_run:
        _preview(job, collection, as_json=as_json)
        return ExitCode.SOME_FAILED if wanted.problems else ExitCode.OK
    warn_missing_contact(settings.visit.contact)
    logins = NO_LOGINS if settings.frontier.url else unlock_logins(settings, collection)
    companion = background_checks(settings, qa=qa)
    with open_stored_levels(Layout(collection), settings.index.url) as level_of:
        run = RunConfig(
            collection,
            settings,
            workers,
            continuous,
            logins,
            companion,
            stored_level_of=level_of,
        )
        return _crawl(job, run, wanted, as_json)


def _crawl(job: Job, run: RunConfig, wanted: ParsedUrlList, as_json: bool) -> int:  # noqa: FBT001 an option
    show = run_reporter(as_json=as_json)
    account = asyncio.run(
        run_crawl_job(
            job,
            run,
            clock=_CLOCK,
            started=show.started,
            report=show.event,
            stopping=show.stopping,
        )
    )
    show.ended(account)
    return run_exit_code(account, bad=len(wanted.problems))


@dataclass(frozen=True, slots=True)
class CrawlOptions:
    """Crawl options of the command line; None and empty where an option is omitted."""

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


def settings_of(
    profile: str, collection: Path, *, continuous: bool, options: CrawlOptions
) -> Settings:
    """Return the profile as changed by the options; patterns are added to those of the profile.

    A crawl obeys robots.txt, and a continuous one visits again what is due, unless an option or the
    profile itself sets it otherwise.

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
    is_said = settings.recrawl.every or profile_sets(profile, "recrawl", "enabled")
    if continuous and not is_said:
        settings = replace(settings, recrawl=replace(settings.recrawl, enabled=True))
    return settings


def _preview(job: Job, collection: Path, *, as_json: bool) -> None:
    """Print what would be crawled."""
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


def collect_seeds(urls: tuple[str, ...], list_file: str | None) -> ParsedUrlList:
    """Return the URLs of the command line and of the list, without duplicates.

    Raises:
        InputError: neither was given, or the list cannot be read or is empty.
    """
    if list_file is None:
        if not urls:
            raise InputError("Name what to crawl: seeds, or --list FILE.")
        return parse_lines(urls, source="the command line")
    listed = read_list(list_file)
    if not urls:
        return listed
    given = parse_lines(urls, source="the command line")
    both = tuple(dict.fromkeys((*given.urls, *listed.urls)))
    twice = len(given.urls) + len(listed.urls) - len(both)
    return ParsedUrlList(
        both, (*given.problems, *listed.problems), given.duplicates + listed.duplicates + twice
    )
