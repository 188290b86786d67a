"""`weboid archive`: a run over a list of URLs."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import click

from core.clock import SystemClock
from core.errors import InputError
from core.layout import Layout
from crawler.jobs.list_files import GivenUrls
from crawler.run.crawl_run import RunConfig, archive_urls
from weboid.app.operator_identity import collection_settings
from weboid.cli.support.commands import (
    ExitCode,
    argument,
    cli_command,
    option,
)
from weboid.cli.support.options import (
    COLLECTION,
    DURATION,
    OUTPUT,
    PROFILE,
    SHARED,
    WORKERS,
    CommandOutput,
    SharedStores,
)
from weboid.cli.support.run_options import (
    QA,
    SCAN,
    STORE,
    background_checks,
    open_stored_levels,
    scan_once,
    unlock_logins,
    with_store,
)
from weboid.cli.support.run_output import run_exit_code, run_reporter


@cli_command("archive")
def archive_command(
    *,
    urls: tuple[str, ...] = argument("[URL]..."),
    list_file: str | None = option("One URL a line; - is standard input.", "--list", metavar="FILE"),
    collection: Path = COLLECTION,
    shared: SharedStores = SHARED,
    profile: str = PROFILE,
    workers: int = WORKERS,
    again: bool = option("Archive again what the collection already has."),
    older_than: timedelta | None = option(
        "Archive again what was archived at least this long ago: 30d, 12h.",
        type=DURATION,
        metavar="DURATION",
    ),
    no_wait: bool = option("End the run when the disk is nearly full, rather than wait for space."),
    stay: bool = option("Keep running: wait for URLs that others add to the collection's queue."),
    robots: str | None = option(
        "Treatment of robots.txt in this run.  [default: ignore, as browsers do for what a user"
        " names; obey with --stay]",
        type=click.Choice(("obey", "ignore")),
    ),
    store: str | None = STORE,
    qa: bool | None = QA,
    scan: bool = SCAN,
    dry_run: bool = option("Read the list and show what would be done."),
    output: CommandOutput = OUTPUT,
) -> int:
    """Archive URLs into a collection.

    Every URL is rendered in a real browser through a WARC-writing proxy. The same command run again
    continues where it stopped, and does nothing twice. Without URLs it processes the collection's
    frontier, such as URLs from `weboid crawl add`. With --frontier the URLs are left to the workers
    of that frontier. Ctrl-C finishes the pages in progress and stops; a second one stops at once.
    """
    if again and older_than is not None:
        raise InputError("Use --again or --older-than, not both.")
    if stay and shared.frontier_url:
        raise InputError("--stay is for a collection's own queue: run `weboid worker` for a shared frontier.")
    settings = shared.applied_to(collection_settings(profile, collection, unattended=stay, robots=robots))
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
    with GivenUrls(urls, list_file, report=lambda text: click.echo(text, err=True), needed=not goes_on) as url_list:
        count = sum(1 for _ in url_list)  # report every error before anything is created
        if not goes_on:
            url_list.require_some()
        bad = url_list.bad
        if dry_run:
            click.echo(f"{count} URLs would be archived into {collection}.")
            return ExitCode.SOME_FAILED if bad else ExitCode.OK
        logins = None if settings.frontier.url else unlock_logins(settings, collection)
        older = timedelta(0) if again else older_than
        companion = background_checks(settings, qa=qa)
        with open_stored_levels(Layout(collection), settings.index.url) as level_of:
            run = RunConfig(collection, settings, workers, stay, logins, companion, stored_level_of=level_of)
            reporter = run_reporter(as_json=output.is_json)
            summary = asyncio.run(
                archive_urls(
                    run,
                    url_list,
                    again=older,
                    clock=SystemClock(),
                    started=reporter.started,
                    report=reporter.event,
                    stopping=reporter.stopping,
                )
            )
            reporter.ended(summary)
        if scan and not stay and not settings.frontier.url:
            scan_once(collection, settings.index.url)
        return run_exit_code(summary, bad=bad)
