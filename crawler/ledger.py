"""A frontier as JSON lines: everything out, and what is still to be visited in again."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO

from core.errors import BadUrlError, InputError
from core.urls import fetch_key
from crawler.frontier.base import AddResult, Frontier, ItemRecord, ItemState, Lane, NewItem
from crawler.selecting import Selection, select

LINE_LIMIT_BYTES = 1 << 20
_BATCH = 5_000
_HOPS_LIMIT = 1_000_000
_TEXT_LIMIT_CHARS = 65_536


@dataclass(slots=True)
class Taken:
    """What an import did.

    Attributes:
        added: what the frontier said.
        other: lines about items in states that were not asked for.
        problems: lines that could not be used, the first hundred in words.
        bad: how many those were.
    """

    added: AddResult
    other: int
    problems: list[str]
    bad: int


def export(
    frontier: Frontier, state: ItemState, *, scanned: Callable[[int], object] = lambda _count: None
) -> Iterator[str]:
    """A line for each item in that state, without its line end."""
    for batch in select(frontier, state, Selection(), scanned=scanned):
        for record in batch:
            yield json.dumps(facts_of(record), ensure_ascii=False, separators=(",", ":"))


def facts_of(record: ItemRecord) -> dict[str, Any]:
    """All that the books say about an item, as JSON values; moments in ISO 8601."""
    item = record.item
    return {
        "url": item.url,
        "state": str(record.state),
        "lane": item.lane.name.lower(),
        "host": item.host,
        "job": item.job,
        "hops": item.hops,
        "hops_off": item.hops_off,
        "via": item.via,
        "id": item.id,
        "memo": item.memo,
        "added_at": _text(record.added_at),
        "ended_at": _text(record.ended_at),
        "due_at": _text(record.due_at),
        "outcome": record.outcome,
        "worker": record.worker,
        "lease_until": _text(record.lease_until),
        "attempts": [
            asdict(attempt)
            | {"claimed_at": _text(attempt.claimed_at), "ended_at": _text(attempt.ended_at)}
            for attempt in record.attempts
        ],
    }


def take_in(
    frontier: Frontier,
    lines: BinaryIO,
    states: frozenset[ItemState],
    *,
    now: Callable[[], datetime],
    progress: Callable[[int], object] = lambda _count: None,
) -> Taken:
    """Add the items that lines of an export tell of, when they were in one of the states.

    Known URLs are left alone, so the same import may run again. A line that cannot be used is named
    and the rest goes on. What had ended is queued when its state is asked for: a frontier takes no
    history from elsewhere.
    """
    taken = Taken(AddResult(), 0, [], 0)
    batch: list[NewItem] = []
    for number, line in enumerate(_lines(lines), start=1):
        try:
            item = _item(line, states)
        except InputError as error:
            taken.bad += 1
            if len(taken.problems) < 100:
                taken.problems.append(f"line {number}: {error}")
            continue
        if item is None:
            taken.other += 1
            continue
        batch.append(item)
        if len(batch) >= _BATCH:
            _add(frontier, batch, taken, now())
            progress(number)
    _add(frontier, batch, taken, now())
    return taken


def _add(frontier: Frontier, batch: list[NewItem], taken: Taken, now: datetime) -> None:
    told = frontier.add(batch, now=now)
    before = taken.added
    taken.added = AddResult(
        added=before.added + told.added,
        duplicates=before.duplicates + told.duplicates,
        requeued=before.requeued + told.requeued,
    )
    batch.clear()


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The file's lines; of one that is too long only the beginning, which is then no JSON."""
    while line := file.readline(LINE_LIMIT_BYTES):
        whole = line.endswith(b"\n")
        while not whole:
            more = file.readline(LINE_LIMIT_BYTES)
            if not more:
                break
            line, whole = line[:LINE_LIMIT_BYTES], more.endswith(b"\n")
        yield line


def _item(line: bytes, states: frozenset[ItemState]) -> NewItem | None:
    """The item that the line tells of; None when its state is not asked for, or the line is blank.

    Raises:
        InputError: the line tells of none.
    """
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
        raise InputError("it is no line of `weboid frontier export`.") from error
    if state not in states:
        return None
    return NewItem(
        url,
        lane,
        hops=_count(facts, "hops"),
        via=_word(facts, "via"),
        job=_word(facts, "job"),
        hops_off=_count(facts, "hops_off"),
        host=_word(facts, "host"),
    )


def _count(facts: dict[str, Any], key: str) -> int:
    value = facts.get(key, 0)
    if not isinstance(value, int) or not 0 <= value <= _HOPS_LIMIT:
        raise InputError(f"{key} is no count.")
    return value


def _word(facts: dict[str, Any], key: str) -> str:
    value = facts.get(key, "")
    if not isinstance(value, str) or len(value) > _TEXT_LIMIT_CHARS:
        raise InputError(f"{key} is no text.")
    return value


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()
