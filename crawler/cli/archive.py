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
from crawler.cli.show import choose
from crawler.cli.unlocking import unlocked
from crawler.logins import NO_LOGINS
from crawler.profiles import load_profile
from crawler.running import Account
from crawler.urllist import UrlList, parse_lines, read_list


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
@qa_option
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
    qa: bool | None,
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
        load_profile(profile),
        frontier_url=frontier_url,
        database_url=database_url,
        dedup_url=dedup_url,
    )
    if no_wait:
        settings = replace(settings, proxy=replace(settings.proxy, disk_wait_s=0.0))
    is_there = stay or Layout(collection).frontier_db.exists()
    goes_on = not urls and list_file is None and is_there
    wanted = UrlList(()) if goes_on else gather(urls, list_file)
    for problem in wanted.problems:
        click.echo(f"{problem}", err=True)
    if not wanted.urls and not goes_on:
        raise InputError("There is nothing to archive: no line was a URL.")
    if dry_run:
        click.echo(f"{len(wanted.urls)} URLs would be archived into {collection}.")
        return Exit.SOME_FAILED if wanted.problems else Exit.OK
    logins = NO_LOGINS if settings.frontier.url else unlocked(settings, collection)
    older = timedelta(0) if again else older_than
    companion = companion_for(settings, qa=qa)
    order = Order(wanted.urls, collection, settings, workers, older, stay, logins, companion)
    show = choose(as_json=as_json)
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
    return exit_of(account, wanted)


def gather(urls: tuple[str, ...], list_file: str | None) -> UrlList:
    """The URLs of the command line and of the list, duplicates taken out.

    Raises:
        InputError: neither was given, or the list cannot be read or is empty.
    """
    if list_file is None:
        if not urls:
            raise InputError("Say what to archive: URLs, or --list FILE.")
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


def exit_of(account: Account, wanted: UrlList) -> Exit:
    """What the run's end means to the caller."""
    if account.stopped and account.left:
        return Exit.STOPPED
    if account.failures or wanted.problems:
        return Exit.SOME_FAILED
    return Exit.OK
