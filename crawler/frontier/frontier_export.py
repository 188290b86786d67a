"""Export and import of frontier items as JSON lines; their selection and retry by an operator."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, BinaryIO

from core.errors import BadUrlError, InputError
from core.json_values import FactsOf, json_facts, json_value
from core.urls import fetch_key
from crawler.frontier.base import AddResult, Frontier, ItemRecord, ItemState, Lane, NewItem
from crawler.jobs.list_files import bounded_lines

_SELECT_BATCH = 1_000
_HOST_ITEMS_LIMIT = 20_000  # items of one host that are queried by its name; else all hosts' are looked through


@dataclass(frozen=True, slots=True)
class ItemSelection:
    """Filter of items; empty or None criteria are ignored."""

    host: str | None = None  # the slot key
    job: str | None = None  # the crawl that it belongs to; empty: items of plain lists
    reason: str = ""  # a substring of its outcome, ignoring case
    pattern: re.Pattern[str] | None = None  # searched for in its URL

    @property
    def is_empty(self) -> bool:
        """Return True when it selects every item."""
        return self == ItemSelection()

    def matches(self, record: ItemRecord) -> bool:
        """Return True when the item is selected."""
        item = record.item
        is_of_both = self.host in (None, item.host) and self.job in (None, item.job)
        is_for_reason = not self.reason or self.reason.casefold() in record.outcome.casefold()
        return is_of_both and is_for_reason and (self.pattern is None or self.pattern.search(item.url) is not None)


def select_items(
    frontier: Frontier,
    state: ItemState,
    selection: ItemSelection,
    *,
    scanned: Callable[[int], object] = lambda _count: None,
) -> Iterator[list[ItemRecord]]:
    """Yield selected items in that state in batches, as by `Frontier.scan`; `scanned` gets the numbers looked at."""
    if selection.host is not None:
        listed = frontier.ls(state, limit=_HOST_ITEMS_LIMIT + 1, host=selection.host)
        if len(listed) <= _HOST_ITEMS_LIMIT:
            scanned(len(listed))
            selected = [record for record in listed if selection.matches(record)]
            yield from (selected[at : at + _SELECT_BATCH] for at in range(0, len(selected), _SELECT_BATCH))
            return
    cursor = ""
    while True:
        records, cursor = frontier.scan(state, cursor=cursor, limit=_SELECT_BATCH)
        scanned(len(records))
        selected = [record for record in records if selection.matches(record)]
        if selected:
            yield selected
        if not cursor:
            return


LINE_LIMIT_BYTES = 1 << 20  # a longer one is cut, which makes it invalid JSON
_IMPORT_BATCH = 5_000
_HOPS_LIMIT = 1_000_000
_TEXT_LIMIT_CHARS = 65_536


@dataclass(slots=True)
class FrontierImport:
    """Result of an import."""

    added: AddResult  # sum of the frontier's results
    other: int  # lines about items in states that were not selected
    problems: list[str]  # descriptions of invalid lines, the first hundred
    bad: int  # number of invalid lines


def item_again(record: ItemRecord) -> NewItem:
    """Return the item as it is added once more, with its path, lane and job."""
    item = record.item
    return NewItem(item.url, item.lane, item.hops, item.via, item.job, item.hops_off, item.host)


def items_to_retry(frontier: Frontier, urls: Iterable[str]) -> tuple[list[ItemRecord], list[str]]:
    """Return the dead and skipped items of these URLs, and for each other URL a sentence why it cannot be retried."""
    records, problems = [], []
    for url in urls:
        record = frontier.find(fetch_key(url))
        if record is None:
            problems.append(f"{url}: it is not in the frontier; `weboid crawl add` adds it.")
        elif record.state in {ItemState.DEAD, ItemState.SKIPPED}:
            records.append(record)
        elif record.state is ItemState.DONE:
            problems.append(f"{url}: it is done; `weboid crawl add --again` visits it once more.")
        else:
            problems.append(f"{url}: it is already {record.state}.")
    return records, problems


def requeue(
    frontier: Frontier, batch: Sequence[ItemRecord], seen: set[int], *, now: datetime, dry_run: bool = False
) -> int:
    """Queue the records again, each at most once, even if it fails again meanwhile; return their number."""
    batch = [each for each in batch if hash(each.item.url) not in seen]
    seen.update(hash(each.item.url) for each in batch)
    if dry_run:
        return len(batch)
    return frontier.add(map(item_again, batch), now=now, again=timedelta(0)).requeued


def export_lines(
    frontier: Frontier, state: ItemState, *, scanned: Callable[[int], object] = lambda _count: None
) -> Iterator[str]:
    """Yield a JSON line for each item in that state, without its line end."""
    for batch in select_items(frontier, state, ItemSelection(), scanned=scanned):
        for record in batch:
            yield json.dumps(record_facts(record), ensure_ascii=False, separators=(",", ":"))


ItemFacts = Annotated[dict[str, Any], FactsOf(
    "ItemFacts", ItemRecord, "state added_at ended_at due_at outcome worker lease_until attempts", url=str, lane=Lane,
    host=str, job=str, hops=int, hops_off=int, via=str, id=str, memo=str,
)]  # fmt: skip


def record_facts(record: ItemRecord) -> ItemFacts:
    """Convert an item's record to JSON values; moments in ISO 8601."""
    return {
        **json_facts(record.item, "url lane host job hops hops_off via id memo"),
        **json_facts(record, "state added_at ended_at due_at outcome worker lease_until"),
        "attempts": [json_value(asdict(attempt)) for attempt in record.attempts],
    }


def import_items(
    frontier: Frontier,
    lines: BinaryIO,
    states: frozenset[ItemState],
    *,
    now: Callable[[], datetime],
    progress: Callable[[int], object] = lambda _count: None,
) -> FrontierImport:
    """Add an export's items in one of the states, without history; known URLs stay, invalid lines are reported."""
    summary = FrontierImport(AddResult(), 0, [], 0)
    batch: list[NewItem] = []
    for number, line in enumerate(bounded_lines(lines, LINE_LIMIT_BYTES), start=1):
        try:
            item = _item(line, states)
        except InputError as error:
            summary.bad += 1
            if len(summary.problems) < 100:
                summary.problems.append(f"line {number}: {error}")
            continue
        if item is None:
            summary.other += 1
            continue
        batch.append(item)
        if len(batch) >= _IMPORT_BATCH:
            summary.added += frontier.add(batch, now=now())
            batch.clear()
            progress(number)
    summary.added += frontier.add(batch, now=now())
    return summary


def _item(line: bytes, states: frozenset[ItemState]) -> NewItem | None:
    """Parse the line's item, or raise InputError; None when its state is not selected, or it is blank."""
    if not line.strip():
        return None
    try:
        facts = json.loads(line)
        state = ItemState(facts.get("state", ItemState.QUEUED))
        lane = Lane[str(facts.get("lane", Lane.STANDARD.name)).upper()]
        url = fetch_key(facts["url"])
    except BadUrlError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError("it is not a line of `weboid queue export`.") from error
    if state not in states:
        return None
    return NewItem(
        url,
        lane,
        hops=_count_value(facts, "hops"),
        via=_text_value(facts, "via"),
        job=_text_value(facts, "job"),
        hops_off=_count_value(facts, "hops_off"),
        host=_text_value(facts, "host"),
    )


def _count_value(facts: dict[str, Any], key: str) -> int:
    value = facts.get(key, 0)
    if not isinstance(value, int) or not 0 <= value <= _HOPS_LIMIT:
        raise InputError(f"{key} is not a count.")
    return value


def _text_value(facts: dict[str, Any], key: str) -> str:
    value = facts.get(key, "")
    if not isinstance(value, str) or len(value) > _TEXT_LIMIT_CHARS:
        raise InputError(f"{key} is not text.")
    return value
