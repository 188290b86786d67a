"""Items of a frontier for people: lists, and one in full."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from core.durations import told
from crawler.cli.tables import table, width
from crawler.frontier.base import Frontier, ItemRecord, ItemState

CHAIN_LIMIT = 50


def via_chain(frontier: Frontier, record: ItemRecord) -> list[str]:
    """The pages that led to the item, the nearest first, as far as the books know them."""
    chain: list[str] = []
    via = record.item.via
    while via and via not in chain and len(chain) < CHAIN_LIMIT:
        chain.append(via)
        before = frontier.find(via)
        via = before.item.via if before is not None else ""
    return chain


def listing(records: Sequence[ItemRecord], now: datetime) -> list[str]:
    """A line an item; which columns depends on what there is to say."""
    if not records:
        return []
    state = records[0].state
    head = {
        ItemState.QUEUED: ("lane", "hops>", "waits for", "url"),
        ItemState.CLAIMED: ("worker", "lease", "try>", "url"),
    }.get(state, ("ended", "reason", "url"))
    return table(head, [_row(record, now) for record in records], columns=width())


def _row(record: ItemRecord, now: datetime) -> tuple[str, ...]:
    item = record.item
    match record.state:
        case ItemState.QUEUED:
            due = record.due_at
            wait = told((due - now).total_seconds()) if due is not None and due > now else "-"
            return item.lane.name.lower(), str(item.hops), wait, item.url
        case ItemState.CLAIMED:
            until = record.lease_until
            lease = told((until - now).total_seconds()) if until is not None else "-"
            return record.worker, lease, str(item.attempts), item.url
        case _:
            ended = record.ended_at
            return f"{ended:%m-%d %H:%M}" if ended else "-", record.outcome, item.url


def described(record: ItemRecord, chain: Sequence[str], now: datetime) -> Iterator[tuple[str, str]]:
    """The record in words, line by line; moments are in UTC."""
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
    for number, via in enumerate(chain):
        yield "Found on" if not number else "  and that", via


def attempts(record: ItemRecord) -> list[str]:
    """The claims that did not complete the item, oldest first."""
    if not record.attempts:
        return []
    rows = [
        (
            f"{each.claimed_at:%m-%d %H:%M:%S}",
            told((each.ended_at - each.claimed_at).total_seconds()),
            each.ending,
            each.worker,
            each.reason,
        )
        for each in record.attempts
    ]
    endings = Counter(each.ending for each in record.attempts)
    summary = ", ".join(f"{count} {ending}" for ending, count in sorted(endings.items()))
    head = ("  began", "took>", "ending", "worker", "reason")
    return [f"{'Attempts':<10}  {summary}", *table(head, rows, columns=width(), indent="  ")]


def _when(moment: datetime, now: datetime) -> str:
    seconds = (now - moment).total_seconds()
    ago = f"{told(seconds)} ago" if seconds >= 0 else f"in {told(-seconds)}"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC ({ago})"
