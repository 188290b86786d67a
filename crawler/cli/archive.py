"""`weboid archive`: a list of URLs into a collection."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import click

from core.clock import SystemClock
from core.errors import InputError
from core.layout import Layout
from crawler.archiving import Order, archive
from crawler.cli.accompany import companion_for, qa_option
from crawler.cli.exits import Exit
from crawler.cli.groups import LazyGroupWithDefault
from crawler.cli.options import (
    collection_option,
    database_option,
    dedup_option,
    frontier_option,
    json_option,
    profile_option,
    shared_settings,
    workers_option,
)
from crawler.cli.params import DURATION
from crawler.cli.scanner_process import scan_once, scan_option
from crawler.cli.show import Show, choose
from crawler.cli.stored_levels import opened_stored_levels, store_option, with_store
from crawler.cli.unlocking import unlocked
from crawler.logins import NO_LOGINS
from crawler.operator import collection_settings
from crawler.running import Account
from crawler.urllist import GivenUrls


@click.group(
    "archive",
    cls=LazyGroupWithDefault,
    commands_at={"verify": "crawler.cli.verify"},
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
    help="What robots.txt means to this run.  [default: ignore, as browsers do for what somebody"
    " names; obey with --stay]",
)
@store_option
@qa_option
@scan_option
@click.option("--dry-run", is_flag=True, help="Read the list, say what would be done, do nothing.")
@json_option
def command(
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
    goes on where it stopped, and does nothing twice. Without URLs it does what waits in the
    collection's frontier, such as what `weboid enqueue` put there. With --frontier the URLs are left
    to the workers of that frontier. Ctrl-C finishes the pages begun and stops; a second one stops at
    once.
    """
    if again and older_than is not None:
        raise InputError("Say --again or --older-than, not both.")
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
            "The workers of a shared frontier go by levels: leave out --store and say"
            " `weboid level set --store`, or name a crawl with `weboid crawl --store`."
        )
    if no_wait:
        settings = replace(settings, proxy=replace(settings.proxy, disk_wait_s=0.0))
    is_there = stay or Layout(collection).frontier_db.exists()
    goes_on = not urls and list_file is None and is_there
    with GivenUrls(
        urls, list_file, told=lambda text: click.echo(text, err=True), needed=not goes_on
    ) as given:
        count = sum(1 for _ in given)  # every fault is told before anything is made
        if not goes_on:
            given.require_some()
        bad = given.bad
        if dry_run:
            click.echo(f"{count} URLs would be archived into {collection}.")
            return Exit.SOME_FAILED if bad else Exit.OK
        logins = NO_LOGINS if settings.frontier.url else unlocked(settings, collection)
        older = timedelta(0) if again else older_than
        companion = companion_for(settings, qa=qa)
        with opened_stored_levels(Layout(collection), settings.index.url) as level_of:
            order = Order(
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
            account = _run(order, choose(as_json=as_json))
        if scan and not stay and not settings.frontier.url:
            scan_once(collection, settings.index.url)
        return exit_of(account, bad=bad)


def _run(order: Order, show: Show) -> Account:
    """Archive, and show what happens."""
    account = asyncio.run(
        archive(
            order,
            clock=SystemClock(),
            started=show.started,
            report=show.event,
            stopping=show.stopping,
        )
    )
    show.ended(account)
    return account


def exit_of(account: Account, *, bad: int) -> Exit:
    """What the run's end means to the caller."""
    if account.stopped and account.left:
        return Exit.STOPPED
    if account.failures or bad:
        return Exit.SOME_FAILED
    return Exit.OK
