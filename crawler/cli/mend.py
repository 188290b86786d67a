"""`weboid frontier retry` and `purge`: items put right by hand."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import timedelta

import click

from core.clock import SystemClock
from core.errors import InputError
from core.urls import fetch_key
from crawler.cli.exits import Exit
from crawler.cli.selections import (
    dry_option,
    host_option,
    job_option,
    match_option,
    reason_option,
    selection_of,
)
from crawler.cli.where import Where, where_options
from crawler.frontier.base import Frontier, ItemRecord, ItemState, NewItem
from crawler.selecting import Selection, select

_CLOCK = SystemClock()


@click.command("retry")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option("--state", type=click.Choice(["dead", "skipped"]), help="All in this state.")
@host_option
@job_option
@reason_option
@match_option
@dry_option
@where_options
def retry(
    *,
    urls: tuple[str, ...],
    state: str | None,
    host: str | None,
    job: str | None,
    reason: str,
    match: str | None,
    dry_run: bool,
    where: Where,
    as_json: bool,
) -> int:
    """Queue dead or skipped items once more.

    They get fresh attempts; lane, hops, way and job stay. What the rules are against is skipped
    again: `weboid policy` and the job's scope say so.
    """
    if bool(urls) == bool(state):
        raise InputError("Say which: URLs, or --state dead or --state skipped.")
    selection = selection_of(host, job, reason, match)
    with where.frontier() as frontier:
        if urls:
            batches, left = _named(frontier, urls)
        else:
            left = []
            batches = select(frontier, ItemState(str(state)), selection)
        seen: set[int] = set()
        count = sum(retried(frontier, batch, seen, dry_run=dry_run) for batch in batches)
    for text in left:
        click.echo(text, err=True)
    _say_count(count, "queued again", dry_run=dry_run, as_json=as_json)
    return Exit.SOME_FAILED if left else Exit.OK


@click.command("purge")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@host_option
@job_option
@match_option
@click.option("--reason", default="purged by an operator", help="What the books say of it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_option
@where_options
def purge(
    *,
    urls: tuple[str, ...],
    host: str | None,
    job: str | None,
    match: str | None,
    reason: str,
    yes: bool,
    dry_run: bool,
    where: Where,
    as_json: bool,
) -> int:
    """Skip queued items unvisited.

    They stay in the books, and `retry --state skipped` brings them back. Pages in work are
    finished. What is only due again later is taken off that list when it is named by its URL.
    """
    selection = selection_of(host, job, "", match)
    if bool(urls) != selection.is_empty:
        raise InputError("Say which: URLs, or at least one of --host, --job and --match.")
    count = 0
    with where.frontier() as frontier:
        if dry_run or not yes:
            count = _would_skip(frontier, urls, selection)
        if not dry_run and (yes or _agreed(count)):
            count = _purged(frontier, urls, selection, reason)
    _say_count(count, "skipped", dry_run=dry_run, as_json=as_json)
    return Exit.OK


def _named(frontier: Frontier, urls: Sequence[str]) -> tuple[Iterable[list[ItemRecord]], list[str]]:
    """The records of the URLs that can be tried again, and why the others cannot."""
    found, left = [], []
    for url in urls:
        record = frontier.find(fetch_key(url))
        if record is None:
            left.append(f"{url}: the frontier does not know it; `weboid enqueue` adds it.")
        elif record.state in {ItemState.DEAD, ItemState.SKIPPED}:
            found.append(record)
        elif record.state is ItemState.DONE:
            left.append(f"{url}: it is done; `weboid enqueue --again` visits it once more.")
        else:
            left.append(f"{url}: it is {record.state} already.")
    return ([found] if found else []), left


def retried(
    frontier: Frontier, batch: Sequence[ItemRecord], seen: set[int], *, dry_run: bool
) -> int:
    """Queue the records again; one that failed once more meanwhile is not met a second time."""
    batch = [each for each in batch if hash(each.item.url) not in seen]
    seen.update(hash(each.item.url) for each in batch)
    if dry_run:
        return len(batch)
    items = [
        NewItem(
            url=each.item.url,
            lane=each.item.lane,
            hops=each.item.hops,
            via=each.item.via,
            job=each.item.job,
            hops_off=each.item.hops_off,
            host=each.item.host,
        )
        for each in batch
    ]
    return frontier.add(items, now=_CLOCK.now(), again=timedelta(0)).requeued


def _would_skip(frontier: Frontier, urls: Sequence[str], selection: Selection) -> int:
    if not urls:
        return sum(map(len, select(frontier, ItemState.QUEUED, selection)))
    found = (frontier.find(fetch_key(url)) for url in urls)
    return sum(
        record.state is ItemState.QUEUED
        or (record.state is ItemState.DONE and record.due_at is not None)
        for record in found
        if record is not None
    )


def _purged(frontier: Frontier, urls: Sequence[str], selection: Selection, reason: str) -> int:
    if urls:
        return frontier.discard(map(fetch_key, urls), now=_CLOCK.now(), reason=reason)
    return sum(
        frontier.discard([each.item.url for each in batch], now=_CLOCK.now(), reason=reason)
        for batch in select(frontier, ItemState.QUEUED, selection)
    )


def _agreed(count: int) -> bool:
    """Whether somebody at a terminal says so; there is nobody to ask about nothing."""
    if not count:
        return False
    if not sys.stdin.isatty():
        raise InputError(f"{count} items would be skipped: say --yes, or --dry-run.")
    return click.confirm(f"{count} items will be skipped unvisited. Go on?", abort=True, err=True)


def _say_count(count: int, what: str, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({what.replace(" ", "_"): count, "dry_run": dry_run}))
    else:
        click.echo(f"{count} {'would be ' if dry_run else ''}{what}.")
