"""Repository of checks, reviews and repairs in the link registry.

A row is the last check of one capture at one level. A check by machine replaces the previous one
and keeps the person's review, which is better evidence than another version of the program. The
effective verdict is the person's, else the machine's.

Each change is recorded in a WARC, too, from which the captures index gets it: a row is returned by
`list_unrecorded` until `mark_recorded`, and again after each change. The record holds the effective
verdict (`CheckedPage.effective_check`) and the time of the last change.

A repair is wanted when a check or a person finds a capture broken. It begins when the page is
queued in the frontier, and ends when the new capture was checked, or there is none. A page that is
broken at several levels is captured again once for all of them. A capture made as a repair is never
repaired itself.

Each count reads an index only. Counts of recent checks are made of rows: a copy that was checked
twice in the interval counts once.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Final, Self, TypeVar

from sqlalchemy import ColumnElement, Connection, case, func

from core.errors import InvariantError
from core.layout import Layout
from core.playback_check import QaVerdict
from core.timestamps import unix_milliseconds
from crawler.status.collection_status import WINDOWS_MIN, CopyCheckSummary
from links.registry.database import RegistryStore, open_registry_read_only
from links.registry.schema import FAULT_BITS, quality
from links.registry.statements import Reader, batches, merge
from qa.check_table import (
    BEGIN_REPAIR,
    BY_ENGINE,
    CHECKED_SINCE,
    COUNT_UNRECORDED,
    COUNTED,
    END_REPAIR,
    FORGET,
    IN_REPAIR,
    LISTINGS,
    LONGEST_NAME,
    LONGEST_NOTE,
    NOT_COMPARED,
    OF_PAGES,
    OF_URLS,
    RECORDED,
    REPAIR_STATES,
    REPAIRS_SINCE,
    REPLACED_COLUMNS,
    REVIEW,
    UNRECORDED,
    VERDICT_ORDER,
    WANT_NO_REPAIRS,
    WANT_REPAIR,
    WANT_REPAIRS,
    CheckedPage,
    CheckFilter,
    CheckKey,
    CheckPosition,
    RepairState,
    counting,
    parse_row,
    row_values,
    storable_text,
    url_key,
)

ENDED_STATES = frozenset({RepairState.DONE_BETTER, RepairState.DONE_NOT_BETTER, RepairState.FAILED})
_LEVELS = 8  # at most so many rows of one page


def update_wanted_repairs(connection: Connection, page_ids: Collection[str], now: datetime) -> None:
    """Mark a repair as wanted for broken pages that had none; withdraw it for pages not broken."""
    none, wanted = map(REPAIR_STATES.index, (RepairState.NONE, RepairState.WANTED))
    parameters = {"broken": VERDICT_ORDER.index(QaVerdict.BROKEN), "now_ms": unix_milliseconds(now)}
    for batch in batches(sorted(page_ids)):
        values = {**parameters, "ids": batch}
        WANT_REPAIRS.run(connection, {**values, "was": none, "becomes": wanted})
        WANT_NO_REPAIRS.run(connection, {**values, "was": wanted, "becomes": none})


def want_repair(connection: Connection, page_id: str, level: str, *, now: datetime) -> bool:
    """Mark a repair as wanted on request, even after an earlier one; False: unknown page."""
    parameters = {"of": page_id, "at": level, "becomes": REPAIR_STATES.index(RepairState.WANTED)}
    return bool(WANT_REPAIR.run(connection, {**parameters, "now_ms": unix_milliseconds(now)}))


def list_repairs(reader: Reader, state: RepairState, limit: int) -> list[CheckedPage]:
    """List pages whose repair is wanted or has begun, the oldest first; each once, at one level."""
    parameters = {"is_now": REPAIR_STATES.index(state), "most": limit * _LEVELS}
    pages: dict[str, CheckedPage] = {}
    for row in map(parse_row, IN_REPAIR.rows(reader, parameters)):
        pages.setdefault(row.check.page_id, row)
        if len(pages) == limit:
            break
    return list(pages.values())


def begin_repair(
    connection: Connection, page_id: str, repair_page_id: str = "", *, now: datetime
) -> bool:
    """Mark a wanted repair as begun; False: none was wanted, or another process has begun it."""
    parameters = {
        "of": page_id,
        "was": REPAIR_STATES.index(RepairState.WANTED),
        "becomes": REPAIR_STATES.index(RepairState.BEGUN),
        "now_ms": unix_milliseconds(now),
        "new_page": repair_page_id,
    }
    return bool(BEGIN_REPAIR.run(connection, parameters))


def end_repair(
    connection: Connection,
    page_id: str,
    state: RepairState,
    repair_page_id: str = "",
    *,
    now: datetime,
) -> bool:
    """Record the result of a repair; False: none was wanted or had begun.

    `state` is NONE when there is nothing to repair after all. When the new capture is better, the check
    refers to it from now on and has to be recorded again.

    Raises:
        InvariantError: the state is not final.
    """
    if state not in ENDED_STATES | {RepairState.NONE}:
        raise InvariantError(f"No repair ends as {state}.")
    parameters = {
        "of": page_id,
        "becomes": REPAIR_STATES.index(state),
        "now_ms": unix_milliseconds(now),
        "new_page": repair_page_id,
        "is_better": int(state is RepairState.DONE_BETTER),
    }
    return bool(END_REPAIR.run(connection, parameters))


MOST_COUNTED = 1_000_000  # checks of each verdict, or unrecorded ones


def count_checked_since(reader: Reader, moment: datetime) -> Mapping[QaVerdict, int]:
    """Count copies checked since that time, by the machine's verdict."""
    rows = CHECKED_SINCE.rows(reader, {"since": unix_milliseconds(moment)})
    return {VERDICT_ORDER[number]: count for number, count in rows}


def count_repairs(reader: Reader, since: datetime | None = None) -> Mapping[RepairState, int]:
    """Count pages by repair state; given a time, those that entered the state since then."""
    since_ms = 0 if since is None else unix_milliseconds(since)
    parameters = {
        state: {"is_now": REPAIR_STATES.index(state), "since": since_ms}
        for state in REPAIR_STATES[1:]
    }
    return {state: REPAIRS_SINCE.rows(reader, each)[0][0] for state, each in parameters.items()}


def count_unrecorded(reader: Reader) -> int:
    """Count checks changed since they were last recorded in a WARC, up to a million."""
    parameters = {"page": "", "level": "", "most": MOST_COUNTED}
    count: int = COUNT_UNRECORDED.rows(reader, parameters)[0][0]
    return count


_BELOW_ALL: Final = 2 * NOT_COMPARED
_ABOVE_ALL: Final = 2.0


def store_checks(connection: Connection, rows: Iterable[CheckedPage], now: datetime) -> None:
    """Store checks by machine, with host and class, in place of the previous ones; reviews stay.

    A check older than the stored one has no effect. For broken copies a repair is wanted, unless it
    was tried or the capture is a repair itself; for others it is no longer wanted.

    Raises:
        InputError: a page id, level or time is invalid.
        InvariantError: one is a person's review.
    """
    values = [row_values(row) for row in rows]
    # A page that was checked twice meanwhile would else be changed twice by one statement.
    values.sort(key=lambda row: int(row["checked_ms"]))
    newest = {(row["page_id"], row["level"]): row for row in values}
    # In one order: two writers never block each other.
    put = [newest[key] for key in sorted(newest)]
    merge(connection, quality, ("page_id", "level"), put, _replaced)
    update_wanted_repairs(connection, {key[0] for key in newest}, now)


def _replaced(new: Any) -> tuple[dict[str, Any], ColumnElement[bool]]:
    """Return the column values and the condition of an upsert, which keeps a newer row."""
    is_later = new.checked_ms > quality.c.changed_ms
    changed = {
        **{name: new[name] for name in REPLACED_COLUMNS},
        "standing": func.coalesce(quality.c.review, new.verdict),
        "better": case((new.better != "", new.better), else_=quality.c.better),
        "changed_ms": case((is_later, new.checked_ms), else_=quality.c.changed_ms + 1),
        "is_recorded": False,
    }
    return changed, new.checked_ms >= quality.c.checked_ms


def find_checks(reader: Reader, page_ids: Iterable[str]) -> list[CheckedPage]:
    """Find the checks of these captures, at all levels."""
    return [
        parse_row(row)
        for batch in batches(dict.fromkeys(page_ids))
        for row in OF_PAGES.rows(reader, {"ids": batch})
    ]


def find_checks_of_urls(reader: Reader, urls: Iterable[str]) -> list[CheckedPage]:
    """Find the checks of all captures of these URLs; per batch, the newest capture first."""
    return [
        parse_row(row)
        for batch in batches(dict.fromkeys(map(url_key, urls)))
        for row in OF_URLS.rows(reader, {"keys": batch})
    ]


def already_checked(reader: Reader, page_ids: Iterable[str], level: str, engine: str) -> set[str]:
    """Return those of the captures that this engine checked at the level."""
    parameters = {"level": level, "engine": storable_text(engine, LONGEST_NAME)}
    return {
        row[0]
        for batch in batches(dict.fromkeys(page_ids))
        for row in BY_ENGINE.rows(reader, {**parameters, "ids": batch})
    }


def list_worst_first(
    reader: Reader,
    wanted: CheckFilter,
    after: CheckPosition | None = None,
    limit: int = 50,
    *,
    backward: bool = False,
) -> list[CheckedPage]:
    """List a page of matching checks after a position: the worst first, UNCHECKED last.

    With `backward` those before the position, the nearest first.
    """
    # The index that answers fastest.
    lead = "level" if wanted.level is not None else ""
    if wanted.host is not None:
        lead = "host"
    elif wanted.fault is not None:
        lead = str(wanted.fault)
    elif wanted.page_class is not None:
        lead = "page_class"
    statement = LISTINGS[lead, backward]
    rows: list[CheckedPage] = []
    for standing in sorted(_standings(wanted), reverse=backward):
        begin = CheckPosition(standing, _ABOVE_ALL if backward else _BELOW_ALL, "", "")
        if after is not None and after.standing == standing:
            begin = after
        elif after is not None and (after.standing < standing) is backward:
            continue
        parameters = {
            "standing": standing,
            "from_score": begin.score,
            "from_page": begin.page_id,
            "from_level": begin.level,
            "most": limit - len(rows),
        }
        rows += map(parse_row, statement.rows(reader, {**_filter_values(wanted), **parameters}))
        if len(rows) >= limit:
            break
    return rows


def count_by_verdict(
    reader: Reader, wanted: CheckFilter, *, limit: int = 1 << 62
) -> dict[QaVerdict, int]:
    """Count matching checks by verdict, each up to the limit."""
    in_use = {
        "host": wanted.host is not None,
        "page_class": wanted.page_class is not None,
        "level": wanted.level is not None,
        "faults": wanted.fault is not None,
        "below": wanted.below is not None,
        "unreviewed": wanted.unreviewed,
    }
    statement = counting(*(name for name in COUNTED if in_use[name]))
    parameters = {**_filter_values(wanted), "most": limit}
    return {
        VERDICT_ORDER[standing]: statement.rows(reader, {**parameters, "standing": standing})[0][0]
        for standing in _standings(wanted)
    }


def record_review(  # noqa: PLR0913 fields of a review
    connection: Connection,
    page_id: str,
    level: str,
    verdict: QaVerdict,
    *,
    by: str,
    note: str = "",
    now: datetime,
) -> bool:
    """Store a person's verdict in place of the last; UNCHECKED withdraws it. False: unknown capture."""
    word = None if verdict is QaVerdict.UNCHECKED else VERDICT_ORDER.index(verdict)
    reviewer = {"who": storable_text(by, LONGEST_NAME), "why": storable_text(note, LONGEST_NOTE)}
    parameters = {"of": page_id, "at": level, "word": word, "now_ms": unix_milliseconds(now)}
    if not REVIEW.run(connection, {**parameters, **reviewer}):
        return False
    update_wanted_repairs(connection, [page_id], now)
    return True


def list_unrecorded(reader: Reader, limit: int, after: CheckKey | None = None) -> list[CheckedPage]:
    """List checks changed since they were last recorded in a WARC, after a key."""
    begin = after or CheckKey("", "", 0)
    parameters = {"page": begin.page_id, "level": begin.level, "most": limit}
    return [parse_row(row) for row in UNRECORDED.rows(reader, parameters)]


def mark_recorded(connection: Connection, keys: Iterable[CheckKey]) -> None:
    """Mark the checks as recorded in a WARC; one changed meanwhile stays unrecorded."""
    parameters = [{"of": key.page_id, "at": key.level, "as_of": key.changed_ms} for key in keys]
    RECORDED.run(connection, parameters)


def delete_checks(connection: Connection, page_ids: Iterable[str]) -> int:
    """Delete all checks of erased captures; return their number."""
    return sum(FORGET.run(connection, {"ids": batch}) for batch in batches(dict.fromkeys(page_ids)))


def _filter_values(wanted: CheckFilter) -> dict[str, Any]:
    return {
        "host": wanted.host,
        "page_class": None if wanted.page_class is None else str(wanted.page_class),
        "level": wanted.level,
        "faults": 0 if wanted.fault is None else FAULT_BITS[wanted.fault],
        "below": _ABOVE_ALL if wanted.below is None else wanted.below,
        "with_reviewed": 0 if wanted.unreviewed else 1,
    }


def _standings(wanted: CheckFilter) -> Sequence[int]:
    every = range(len(VERDICT_ORDER))
    return every if wanted.verdict is None else [VERDICT_ORDER.index(wanted.verdict)]


_ENDED = tuple(state for state in REPAIR_STATES if state in ENDED_STATES)
_Name = TypeVar("_Name", QaVerdict, RepairState)


class ChecksReader(AbstractContextManager["ChecksReader"]):
    """Repeated reader of check counts; closes the registry on exit. Not thread-safe.

    The registry is opened when it exists and never created: reading changes nothing.
    """

    def __init__(self, layout: Layout, url: str) -> None:
        """Use the collection, and the URL of its index when that is on a server."""
        self._layout = layout
        self._url = url
        self._store: RegistryStore | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()

    def read(self, now: datetime) -> CopyCheckSummary | None:
        """Return the summary of checks at `now`; None when there is no registry yet."""
        if self._store is None:
            self._store = open_registry_read_only(self._layout, self._url)
        return None if self._store is None else count_checks(self._store, now=now)


def count_checks(store: RegistryStore, *, now: datetime) -> CopyCheckSummary:
    """Count the checks in the registry at `now`."""
    with store.snapshot() as reader:
        since = {minutes: now - timedelta(minutes=minutes) for minutes in WINDOWS_MIN}
        return CopyCheckSummary(
            verdicts=_named(
                count_by_verdict(reader, CheckFilter(), limit=MOST_COUNTED), VERDICT_ORDER
            ),
            per_minute={
                minutes: _each_minute(count_checked_since(reader, moment), VERDICT_ORDER, minutes)
                for minutes, moment in since.items()
            },
            repairs=_named(count_repairs(reader), REPAIR_STATES[1:]),
            repairs_per_minute={
                minutes: _each_minute(count_repairs(reader, moment), _ENDED, minutes)
                for minutes, moment in since.items()
            },
            unrecorded=count_unrecorded(reader),
        )


def _each_minute(
    counts: Mapping[_Name, int], names: Sequence[_Name], minutes: int
) -> dict[str, float]:
    return {name: count / minutes for name, count in _named(counts, names).items()}


def _named(counts: Mapping[_Name, int], names: Sequence[_Name]) -> dict[str, int]:
    """Return a count for each name, 0 by default; copies that could not be checked have no name."""
    return {str(name) or "unchecked": counts.get(name, 0) for name in names}
