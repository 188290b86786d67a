"""`weboid frontier ls` and `show`: what the books say."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import click

from core.clock import SystemClock
from core.errors import InputError
from core.urls import fetch_key
from crawler.cli.exits import Exit
from crawler.cli.hosts import state_of
from crawler.cli.records import attempts, described, listing, via_chain
from crawler.cli.selections import (
    host_option,
    job_option,
    match_option,
    reason_option,
    selection_of,
)
from crawler.cli.tables import clean
from crawler.cli.where import Where, where_options
from crawler.frontier.base import Frontier, ItemRecord, ItemState
from crawler.ledger import facts_of
from crawler.overview import plain
from crawler.selecting import Selection, select

_STATES = [str(state) for state in ItemState]
_CLOCK = SystemClock()


@click.command("ls")
@click.option("--state", type=click.Choice(_STATES), default="queued", show_default=True)
@host_option
@job_option
@reason_option
@match_option
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=20, show_default=True)
@where_options
def ls(
    *,
    state: str,
    host: str | None,
    job: str | None,
    reason: str,
    match: str | None,
    limit: int,
    where: Where,
    as_json: bool,
) -> int:
    """List items in one state.

    With --json a line each, as `export` writes them. Queued ones come as they will be claimed,
    others latest first. With --job, --reason or --match all items of the state are looked through,
    and come in no order.
    """
    selection = selection_of(host, job, reason, match)
    with where.frontier() as frontier:
        if selection.is_empty or selection == Selection(host=host):
            found = list(frontier.ls(ItemState(state), limit=limit, host=host))
        else:
            found = list(_first(_scan(frontier, ItemState(state), selection), limit))
        total = frontier.counts()[ItemState(state)]
    if as_json:
        for record in found:
            click.echo(json.dumps(facts_of(record), ensure_ascii=False))
        return Exit.OK
    for line in listing(found, _CLOCK.now()):
        click.echo(line)
    shown = f"{len(found)} of " if len(found) < total else ""
    click.echo(f"{shown}{total} {state}.", err=True)
    return Exit.OK


@click.command("show")
@click.argument("url")
@where_options
def show(*, url: str, where: Where, as_json: bool) -> int:
    """Say everything that is known of a URL.

    Its state, the way to it from its seed, its attempts with their reasons, and how its host does.
    """
    now = _CLOCK.now()
    with where.frontier() as frontier:
        record = find(frontier, url)
        chain = via_chain(frontier, record)
        host = frontier.host(record.item.host, now=now)
    if as_json:
        facts = facts_of(record) | {
            "via_chain": chain,
            "slot": plain(asdict(host)) if host else None,
        }
        click.echo(json.dumps(facts, ensure_ascii=False))
        return Exit.OK
    for name, text in described(record, chain, now):
        click.echo(f"{name:<10}  {clean(text)}".rstrip())
    if host is not None:
        click.echo(f"{'Host':<10}  {clean(f'{host.host}: {state_of(host, now)}')}")
    for line in attempts(record):
        click.echo(line)
    return Exit.OK


def find(frontier: Frontier, url: str) -> ItemRecord:
    """What the books say about the URL; one that was typed without a scheme is looked for with both.

    Raises:
        InputError: they do not know it, or it is no URL.
    """
    spellings = [url] if "://" in url else [f"https://{url}", f"http://{url}"]
    for each in spellings:
        record = frontier.find(fetch_key(each))
        if record is not None:
            return record
    raise InputError(f"The frontier does not know {url}: `weboid enqueue` adds it.")


def _scan(frontier: Frontier, state: ItemState, selection: Selection) -> Iterator[ItemRecord]:
    for batch in select(frontier, state, selection):
        yield from batch


def _first(records: Iterable[ItemRecord], limit: int) -> Iterator[ItemRecord]:
    """So many records, each URL once."""
    seen: set[str] = set()
    for record in records:
        if record.item.url not in seen:
            seen.add(record.item.url)
            yield record
        if len(seen) >= limit:
            return
