"""`weboid enqueue`: URLs into a frontier, also while it is being crawled."""

import asyncio
import json
from contextlib import ExitStack
from datetime import timedelta

import click

from core.clock import SystemClock
from core.durations import LONGEST, parse_duration
from core.errors import InputError
from crawler.archiving import add_all
from crawler.cli.exits import Exit
from crawler.cli.where import Where, where_options
from crawler.composing import turns_for
from crawler.frontier.base import AddResult, Frontier, Lane, NewItem
from crawler.job import JOB_ORDER
from crawler.urllist import GivenUrls

_CLOCK = SystemClock()


@click.command("enqueue")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option("--list", "list_file", metavar="FILE", help="One URL a line; - is standard input.")
@click.option(
    "--priority",
    type=click.Choice([lane.name.lower() for lane in Lane]),
    default="standard",
    show_default=True,
    help="now: somebody is waiting; high: before the big crawl.",
)
@click.option("--again", is_flag=True, help="Queue also what was visited before.")
@click.option(
    "--older-than",
    type=parse_duration,
    metavar="LENGTH",
    help="Queue what was visited before, if that was so long ago: 30d, 12h.",
)
@click.option("--job", default="", metavar="NAME", help="The crawl whose scope and budget hold.")
@where_options
def command(
    *,
    urls: tuple[str, ...],
    list_file: str | None,
    priority: str,
    again: bool,
    older_than: timedelta | None,
    job: str,
    where: Where,
    as_json: bool,
) -> int:
    """Add URLs, also to a running crawl.

    Whoever works on the frontier sees them within a second. A known URL that still waits is moved
    to the priority asked for when that is higher; one that was visited is left alone without
    --again or --older-than.
    """
    if again and older_than is not None:
        raise InputError("Say --again or --older-than, not both.")
    lane = Lane[priority.upper()]
    # Nothing was visited a century ago, so that only moves what still waits to a higher lane.
    age = timedelta(0) if again else LONGEST if older_than is None else older_than
    turns = turns_for(where.settings)
    with ExitStack() as stack:
        given = stack.enter_context(
            GivenUrls(urls, list_file, told=lambda text: click.echo(text, err=True))
        )
        frontier = stack.enter_context(where.frontier(make=True))
        _require_job(frontier, job)
        items = (NewItem(url, lane, job=job) for url in given)
        result = asyncio.run(add_all(frontier, turns, items, now=_CLOCK.now, again=age))
        given.require_some()
        _say(result, frontier, where, as_json=as_json)
    return Exit.SOME_FAILED if given.bad else Exit.OK


def _require_job(frontier: Frontier, job: str) -> None:
    if not job:
        return
    known = frontier.orders(JOB_ORDER)
    if job not in known:
        names = ", ".join(list(known)[:20]) or "none"
        raise InputError(f"There is no job {job!r}; known: {names}. `weboid crawl` makes one.")


def _say(result: AddResult, frontier: Frontier, where: Where, *, as_json: bool) -> None:
    now = _CLOCK.now()
    stats, worked_on = frontier.stats(now), where.is_worked_on(frontier, now=now)
    if as_json:
        facts = {
            "added": result.added,
            "duplicates": result.duplicates,
            "requeued": result.requeued,
            "queued": stats.queued,
            "paused": stats.paused,
            "worked_on": worked_on,
        }
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    parts = [f"{result.added} added"]
    if result.duplicates:
        parts.append(f"{result.duplicates} known already")
    if result.requeued:
        parts.append(f"{result.requeued} queued again")
    click.echo(f"{', '.join(parts)}; {stats.queued} in the queue.")
    if stats.paused is not None:
        click.echo(f"The frontier is paused ({stats.paused}): `weboid resume` lets pages begin.")
    elif not worked_on:
        how = "`weboid worker`" if where.is_shared else "`weboid archive`"
        click.echo(f"Nobody works on {where.name} now: {how} does.")
