"""`weboid queue`: list, show, retry and remove queue items; hosts."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import chain

import click

from core.errors import InputError
from core.json_values import json_value
from core.timestamps import format_duration
from core.urls import fetch_key
from crawler.frontier.base import Frontier, ItemRecord, ItemState
from crawler.frontier.frontier_export import ItemSelection, items_to_retry, record_facts, requeue, select_items
from weboid.app.text_table import clean, table, width
from weboid.cli.crawl.crawl_control import host_state, hosts_command
from weboid.cli.crawl.frontier_transfer import export_command, import_command, snapshot
from weboid.cli.support.command_target import DRY_RUN, HOST, JOB, MATCH, SELECTION, TARGET, CommandTarget, selection_of
from weboid.cli.support.commands import CLOCK, CommandGroup, ExitCode, argument, cli_command, option
from weboid.cli.support.options import output, table_lines

CHAIN_LIMIT = 50


def via_chain(frontier: Frontier, record: ItemRecord) -> list[str]:
    """Return the known pages through which the item was found, nearest first."""
    path: list[str] = []
    via = record.item.via
    while via and via not in path and len(path) < CHAIN_LIMIT:
        path.append(via)
        before = frontier.find(via)
        via = before.item.via if before is not None else ""
    return path


def item_table(records: Sequence[ItemRecord], now: datetime) -> list[str]:
    """Return one line per item, below a head; all items are in one state."""
    rows: list[tuple[str, ...]] = []
    head: tuple[str, ...] = ("ended", "reason", "url")
    for record in records:
        item = record.item
        if record.state is ItemState.QUEUED:
            head = ("lane", "hops>", "waits for", "url")
            wait_s = 0.0 if record.due_at is None else (record.due_at - now).total_seconds()
            wait = format_duration(wait_s) if wait_s > 0 else "-"
            rows.append((item.lane.name.lower(), str(item.hops), wait, item.url))
        elif record.state is ItemState.CLAIMED:
            head, until = ("worker", "lease", "try>", "url"), record.lease_until
            lease = format_duration((until - now).total_seconds()) if until is not None else "-"
            rows.append((record.worker, lease, str(item.attempts), item.url))
        else:
            rows.append((f"{record.ended_at:%m-%d %H:%M}" if record.ended_at else "-", record.outcome, item.url))
    return table_lines(head, rows) if rows else []


def item_details(record: ItemRecord, path: Sequence[str], now: datetime) -> Iterator[tuple[str, str]]:
    """Yield (label, text) pairs of the record; times are in UTC."""
    item = record.item
    yield "URL", item.url
    yield "State", f"{record.state}, {record.outcome}" if record.outcome else str(record.state)
    yield "Lane", item.lane.name.lower()
    if item.job:
        yield "Job", item.job
    yield "Added", _when(record.added_at, now)
    if record.worker:
        yield "Worker", record.worker
    if record.lease_until is not None:
        yield "Lease", f"until {_when(record.lease_until, now)}"
    if record.due_at is not None:
        yield "Not before" if record.state is ItemState.QUEUED else "Due", _when(record.due_at, now)
    if record.ended_at is not None:
        yield "Ended", _when(record.ended_at, now)
    yield "Page id", item.id
    if item.memo:
        yield "Memo", item.memo
    off = f", {item.hops_off} of them out of scope" if item.hops_off else ""
    yield "Hops", f"{item.hops}{off}" if item.hops else "0, a seed"
    for number, via in enumerate(path):
        yield "Found on" if not number else "  and that", via


def failed_claims(record: ItemRecord) -> list[str]:
    """Return the claims that did not complete the item, oldest first."""
    if not record.attempts:
        return []
    rows = []
    for each in record.attempts:
        took = format_duration((each.ended_at - each.claimed_at).total_seconds())
        rows.append((f"{each.claimed_at:%m-%d %H:%M:%S}", took, each.ending, each.worker, each.reason))
    endings = Counter(each.ending for each in record.attempts)
    summary = ", ".join(f"{count} {ending}" for ending, count in sorted(endings.items()))
    head = ("  began", "took>", "ending", "worker", "reason")
    return [f"{'Attempts':<10}  {summary}", *table(head, rows, columns=width(), indent="  ")]


def _when(moment: datetime, now: datetime) -> str:
    seconds = (now - moment).total_seconds()
    ago = f"{format_duration(seconds)} ago" if seconds >= 0 else f"in {format_duration(-seconds)}"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC ({ago})"


@click.group("queue", cls=CommandGroup)
def queue_group() -> None:
    """Inspect and repair the crawl queue."""


@cli_command("ls", queue_group)
def list_command(
    *,
    state: str = option(choices=ItemState, default="queued"),
    selection: ItemSelection = SELECTION,
    limit: int = option(within=(1, 1_000_000), default=20),
    where: CommandTarget = TARGET,
) -> None:
    """List items in one state.

    With --json one line per item, in the format of `export`. Queued ones are in claim order, others latest first. With
    --job, --reason or --match all items of the state are searched, and the order is undefined.
    """
    with where.frontier() as frontier:
        if selection.is_empty or selection == ItemSelection(host=selection.host):
            records = list(frontier.ls(ItemState(state), limit=limit, host=selection.host))
        else:
            # The first with different URLs.
            by_url: dict[str, ItemRecord] = {}
            for record in chain.from_iterable(select_items(frontier, ItemState(state), selection)):
                by_url.setdefault(record.item.url, record)
                if len(by_url) >= limit:
                    break
            records = list(by_url.values())
        total = frontier.counts()[ItemState(state)]
    for record in records if output.is_json else ():
        output.json(record_facts(record))
    for line in () if output.is_json else item_table(records, CLOCK.now()):
        click.echo(line)
    shown = f"{len(records)} of " if len(records) < total else ""
    output.say(f"{shown}{total} {state}.", err=True)


@cli_command("show", queue_group)
def show_command(*, url: str = argument(), where: CommandTarget = TARGET) -> None:
    """Show everything that is known of a URL.

    Its state, the path to it from its seed, its attempts with their reasons, and its host's state.
    """
    now = CLOCK.now()
    with where.frontier() as frontier:
        spellings = [url] if "://" in url else [f"https://{url}", f"http://{url}"]
        record = next(filter(None, (frontier.find(fetch_key(each)) for each in spellings)), None)
        if record is None:
            raise InputError(f"The frontier does not know {url}: `weboid crawl add` adds it.")
        path = via_chain(frontier, record)
        host = frontier.host(record.item.host, now=now)
    facts = record_facts(record) | {"via_chain": path, "slot": json_value(asdict(host)) if host else None}
    lines = [f"{name:<10}  {clean(text)}".rstrip() for name, text in item_details(record, path, now)]
    if host is not None:
        lines.append(f"{'Host':<10}  {clean(f'{host.host}: {host_state(host, now)}')}")
    output.show(facts, lines + failed_claims(record))


@cli_command("retry", queue_group)
def retry_command(
    *,
    urls: tuple[str, ...] = argument("[URL]..."),
    state: str | None = option("All in this state.", choices=("dead", "skipped")),
    selection: ItemSelection = SELECTION,
    dry_run: bool = DRY_RUN,
    where: CommandTarget = TARGET,
) -> int:
    """Queue dead or skipped items once more.

    They get fresh attempts; lane, hops, path and job stay. Items that the rules exclude are skipped
    again: see `weboid policy` and the job's scope.
    """
    if bool(urls) == bool(state):
        raise InputError("Select items: URLs, or --state dead or --state skipped.")
    with where.frontier() as frontier:
        problems: list[str] = []
        batches: Iterable[Sequence[ItemRecord]]
        if urls:
            records, problems = items_to_retry(frontier, urls)
            batches = [records] if records else []
        else:
            batches = select_items(frontier, ItemState(str(state)), selection)
        seen: set[int] = set()
        count = sum(requeue(frontier, batch, seen, now=CLOCK.now(), dry_run=dry_run) for batch in batches)
    for text in problems:
        click.echo(text, err=True)
    _show_count(count, "queued again", dry_run=dry_run)
    return ExitCode.SOME_FAILED if problems else ExitCode.OK


@cli_command("rm", queue_group)
def remove_command(
    *,
    urls: tuple[str, ...] = argument("[URL]..."),
    host: str | None = HOST,
    job: str | None = JOB,
    match: str | None = MATCH,
    reason: str = option("Reason, stored with each item.", default="purged by an operator", show_default=False),
    yes: bool = option("Do not ask."),
    dry_run: bool = DRY_RUN,
    where: CommandTarget = TARGET,
) -> None:
    """Skip queued items unvisited.

    They stay in the frontier, and `retry --state skipped` queues them again. Pages in progress finish. An item that is
    only due later is removed from that schedule when it is named by its URL.
    """
    selection = selection_of(host, job, "", match)
    if bool(urls) != selection.is_empty:
        raise InputError("Select items: URLs, or at least one of --host, --job and --match.")
    count = 0
    with where.frontier() as frontier:
        if dry_run or not yes:
            count = _count_purged(frontier, urls, selection)
        if not dry_run and not yes and count:
            if not sys.stdin.isatty():
                raise InputError(f"{count} items would be skipped: use --yes, or --dry-run.")
            click.confirm(f"{count} items will be skipped unvisited. Go on?", abort=True, err=True)
        if not dry_run and (yes or count):
            queued = select_items(frontier, ItemState.QUEUED, selection) if not urls else ()
            batches = [map(fetch_key, urls)] if urls else ([each.item.url for each in batch] for batch in queued)
            count = sum(frontier.discard(batch, now=CLOCK.now(), reason=reason) for batch in batches)
    _show_count(count, "skipped", dry_run=dry_run)


def _count_purged(frontier: Frontier, urls: Sequence[str], selection: ItemSelection) -> int:
    if not urls:
        return sum(map(len, select_items(frontier, ItemState.QUEUED, selection)))
    records = (frontier.find(fetch_key(url)) for url in urls)
    return sum(
        record.state is ItemState.QUEUED or (record.state is ItemState.DONE and record.due_at is not None)
        for record in records
        if record is not None
    )


def _show_count(count: int, verb: str, *, dry_run: bool) -> None:
    output.show({verb.replace(" ", "_"): count, "dry_run": dry_run}, f"{count} {'would be ' if dry_run else ''}{verb}.")


for _each in (export_command, import_command, snapshot, hosts_command):
    queue_group.add_command(_each)
