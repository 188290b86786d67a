"""Repository of checks, reviews and repairs in the link registry: a row is the last check of a capture at a level.

A check by machine keeps the person's review, which is better evidence than another version of the program. Each change
is recorded in a WARC, too: a row is returned by `list_unrecorded` until `mark_recorded`, and again after each change.
A page that is broken at several levels is captured again once; a capture made as a repair is never repaired itself.

Each listing by one column and the verdict has an index in its order, so that a page of it costs the same at any
position; other filters are applied to the rows read. Fault conditions are literals in the SQL text, or no partial index
could be used. Counting needs no rows, except those of a host and of recent checks.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, Double, Integer, Text, func, literal_column

from core.errors import InvariantError
from core.playback_check import PlaybackFault, QaVerdict
from core.timestamps import unix_milliseconds
from crawler.status.collection_status import WINDOWS_MIN, CopyCheckSummary
from links.registry.database import RegistryStore
from links.registry.schema import FAULT_BITS, has_fault, quality
from links.registry.statements import Reader, SqlStatement, many, merge, one
from qa.check_table import (
    LONGEST_NAME,
    LONGEST_NOTE,
    NOT_COMPARED,
    REPAIR_STATES,
    REPLACED_COLUMNS,
    VERDICT_ORDER,
    CheckedPage,
    CheckFilter,
    CheckKey,
    CheckPosition,
    RepairState,
    parse_row,
    row_values,
    storable_text,
    url_key,
)

ENDED_STATES = frozenset({RepairState.DONE_BETTER, RepairState.DONE_NOT_BETTER, RepairState.FAILED})
MOST_COUNTED = 1_000_000  # checks of each verdict, or unrecorded ones
_BATCH = 1_000
_LEVELS = 8  # at most so many rows of one page
_NUMBERS = {state: number for number, state in enumerate(REPAIR_STATES)}
_ROW = sa.select(*quality.c)
_IS_ROW = (quality.c.page_id == one("of"), quality.c.level == one("at"))
_IS_OPEN = sa.text("repair IN (1, 2)")
_IN_STATE = quality.c.repair == one("is_now")
_OF_LISTED = quality.c.page_id.in_(many("ids"))
_BECOMES = {"repair": one("becomes"), "repair_ms": one("now_ms")}
# A change is always later than the previous one: of two records the newer counts.
_CHANGED = sa.case(
    (quality.c.changed_ms >= one("now_ms"), quality.c.changed_ms + literal_column("1")), else_=one("now_ms")
)
# A capture that was made to repair another is not repaired in its turn.
_repairs = quality.alias("repairs")
_IS_REPAIR = (
    sa.select(_repairs.c.page_id)
    .where(_repairs.c.repair_page_id == quality.c.page_id, sa.text("repairs.repair_page_id <> ''"))
    .limit(literal_column("1"))
    .scalar_subquery()
)
_IS_BROKEN = quality.c.standing == one("broken")
_WANT_REPAIRS, _WANT_NO_REPAIRS = (
    SqlStatement(sa.update(quality).where(_OF_LISTED, quality.c.repair == one("was"), *of).values(**_BECOMES), "ids")
    for of in ((_IS_BROKEN, _IS_REPAIR.is_(None)), (~_IS_BROKEN,))
)


def update_wanted_repairs(connection: Connection, page_ids: Collection[str], now: datetime) -> None:
    """Mark a repair as wanted for broken pages that had none; withdraw it for pages not broken."""
    none, wanted = _NUMBERS[RepairState.NONE], _NUMBERS[RepairState.WANTED]
    broken, now_ms = VERDICT_ORDER.index(QaVerdict.BROKEN), unix_milliseconds(now)
    for statement, was, becomes in ((_WANT_REPAIRS, none, wanted), (_WANT_NO_REPAIRS, wanted, none)):
        values = {"was": was, "becomes": becomes, "broken": broken, "now_ms": now_ms}
        statement.run_each(connection, "ids", sorted(page_ids), **values)


_WANT_REPAIR = SqlStatement(sa.update(quality).where(*_IS_ROW).values(**_BECOMES, repair_page_id=""))


def want_repair(connection: Connection, page_id: str, level: str, *, now: datetime) -> bool:
    """Mark a repair as wanted on request, even after an earlier one; False: unknown page."""
    becomes = {"becomes": _NUMBERS[RepairState.WANTED], "now_ms": unix_milliseconds(now)}
    return bool(_WANT_REPAIR.run(connection, {"of": page_id, "at": level, **becomes}))


_IN_REPAIR = SqlStatement(
    _ROW.where(_IS_OPEN, _IN_STATE).order_by(quality.c.repair_ms, quality.c.page_id).limit(one("most"))
)


def list_repairs(reader: Reader, state: RepairState, limit: int) -> list[CheckedPage]:
    """List pages whose repair is wanted or has begun, the oldest first; each once, at one level."""
    pages: dict[str, CheckedPage] = {}
    rows = _IN_REPAIR.rows(reader, {"is_now": _NUMBERS[state], "most": limit * _LEVELS})
    for row in map(parse_row, rows):
        pages.setdefault(row.check.page_id, row)
        if len(pages) == limit:
            break
    return list(pages.values())


_BEGIN_REPAIR = SqlStatement(
    sa.update(quality)
    .where(quality.c.page_id == one("of"), quality.c.repair == one("was"))
    .values(**_BECOMES, repair_page_id=one("new_page"))
)


def begin_repair(connection: Connection, page_id: str, repair_page_id: str = "", *, now: datetime) -> bool:
    """Mark a wanted repair as begun; False: none was wanted, or another process has begun it."""
    states = {"was": _NUMBERS[RepairState.WANTED], "becomes": _NUMBERS[RepairState.BEGUN]}
    values = {"of": page_id, **states, "now_ms": unix_milliseconds(now), "new_page": repair_page_id}
    return bool(_BEGIN_REPAIR.run(connection, values))


_NEW_PAGE = sa.case((one("new_page", Text()) != "", one("new_page", Text())), else_=quality.c.repair_page_id)
_IS_BETTER = one("is_better", Integer()) == 1
_END_REPAIR = SqlStatement(
    sa.update(quality)
    .where(quality.c.page_id == one("of"), _IS_OPEN)
    .values(
        **_BECOMES,
        repair_page_id=_NEW_PAGE,
        better=sa.case((_IS_BETTER, _NEW_PAGE), else_=quality.c.better),
        changed_ms=sa.case((_IS_BETTER, _CHANGED), else_=quality.c.changed_ms),
        is_recorded=sa.case((_IS_BETTER, sa.false()), else_=quality.c.is_recorded),
    )
)


def end_repair(
    connection: Connection, page_id: str, state: RepairState, repair_page_id: str = "", *, now: datetime
) -> bool:
    """Record the result of a repair (NONE: nothing to repair after all); False: none was wanted or had begun."""
    if state not in ENDED_STATES | {RepairState.NONE}:
        raise InvariantError(f"No repair ends as {state}.")
    becomes = {"becomes": _NUMBERS[state], "is_better": int(state is RepairState.DONE_BETTER)}
    values = {"of": page_id, **becomes, "now_ms": unix_milliseconds(now), "new_page": repair_page_id}
    return bool(_END_REPAIR.run(connection, values))


_CHECKED_SINCE = SqlStatement(
    sa.select(quality.c.verdict, func.count()).where(quality.c.checked_ms >= one("since")).group_by(quality.c.verdict)
)


def count_checked_since(reader: Reader, moment: datetime) -> Mapping[QaVerdict, int]:
    """Count copies checked since that time, by the machine's verdict."""
    rows = _CHECKED_SINCE.rows(reader, {"since": unix_milliseconds(moment)})
    return {VERDICT_ORDER[number]: count for number, count in rows}


# A page that is broken at several levels has a row of each.
_REPAIRS_SINCE = SqlStatement(
    sa.select(func.count(quality.c.page_id.distinct())).where(
        sa.text("repair <> 0"), _IN_STATE, quality.c.repair_ms >= one("since")
    )
)


def count_repairs(reader: Reader, since: datetime | None = None) -> Mapping[RepairState, int]:
    """Count pages by repair state; given a time, those that entered the state since then."""
    since_ms = 0 if since is None else unix_milliseconds(since)
    return {
        state: _REPAIRS_SINCE.rows(reader, {"is_now": _NUMBERS[state], "since": since_ms})[0][0]
        for state in REPAIR_STATES[1:]
    }


_IS_UNRECORDED = (
    ~quality.c.is_recorded,
    sa.tuple_(one("page", Text()), one("level", Text())) < sa.tuple_(quality.c.page_id, quality.c.level),
)
_SOME_UNRECORDED: sa.Select[Any] = sa.select(literal_column("1")).where(*_IS_UNRECORDED).limit(one("most"))
_COUNT_UNRECORDED = SqlStatement(sa.select(func.count()).select_from(_SOME_UNRECORDED.subquery()))


def count_unrecorded(reader: Reader) -> int:
    """Count checks changed since they were last recorded in a WARC, up to a million."""
    return int(_COUNT_UNRECORDED.rows(reader, {"page": "", "level": "", "most": MOST_COUNTED})[0][0])


BEFORE_ALL: Final = CheckKey("", "", 0)
_UNRECORDED = SqlStatement(_ROW.where(*_IS_UNRECORDED).order_by(quality.c.page_id, quality.c.level).limit(one("most")))


def list_unrecorded(reader: Reader, limit: int, after: CheckKey = BEFORE_ALL) -> list[CheckedPage]:
    """List checks changed since they were last recorded in a WARC, after a key."""
    values = {"page": after.page_id, "level": after.level, "most": limit}
    return [parse_row(row) for row in _UNRECORDED.rows(reader, values)]


_RECORDED = SqlStatement(
    sa.update(quality).where(*_IS_ROW, quality.c.changed_ms == one("as_of")).values(is_recorded=True)
)


def mark_recorded(connection: Connection, keys: Iterable[CheckKey]) -> None:
    """Mark the checks as recorded in a WARC; one changed meanwhile stays unrecorded."""
    rows = [{"of": key.page_id, "at": key.level, "as_of": key.changed_ms} for key in keys]
    _RECORDED.run(connection, rows)


def store_checks(connection: Connection, rows: Iterable[CheckedPage], now: datetime) -> None:
    """Store checks by machine in place of older ones; reviews stay; broken copies want a repair that was not tried."""
    values = [row_values(row) for row in rows]
    # Otherwise a page that was checked twice in between would be changed twice by one statement.
    values.sort(key=lambda row: int(row["checked_ms"]))
    newest = {(row["page_id"], row["level"]): row for row in values}
    # In one order: two writers never block each other.
    put = [newest[key] for key in sorted(newest)]
    merge(connection, quality, ("page_id", "level"), put, _replaced)
    update_wanted_repairs(connection, {key[0] for key in newest}, now)


def _replaced(new: Any) -> tuple[dict[str, Any], sa.ColumnElement[bool]]:
    """Return the column values and the condition of an upsert, which keeps a newer row."""
    is_later = new.checked_ms > quality.c.changed_ms
    changed = {
        **{name: new[name] for name in REPLACED_COLUMNS},
        "standing": func.coalesce(quality.c.review, new.verdict),
        "better": sa.case((new.better != "", new.better), else_=quality.c.better),
        "changed_ms": sa.case((is_later, new.checked_ms), else_=quality.c.changed_ms + 1),
        "is_recorded": False,
    }
    return changed, new.checked_ms >= quality.c.checked_ms


_FORGET = SqlStatement(sa.delete(quality).where(_OF_LISTED), "ids")


def delete_checks(connection: Connection, page_ids: Iterable[str]) -> int:
    """Delete all checks of erased captures; return their number."""
    return _FORGET.run_each(connection, "ids", dict.fromkeys(page_ids))


_OF_PAGES = SqlStatement(_ROW.where(_OF_LISTED).order_by(quality.c.page_id, quality.c.level), "ids")
_OF_URLS = SqlStatement(
    _ROW.where(quality.c.url_key.in_(many("keys"))).order_by(
        quality.c.captured_ms.desc(), quality.c.page_id, quality.c.level
    ),
    "keys",
)
_BY_ENGINE = SqlStatement(
    sa.select(quality.c.page_id).where(_OF_LISTED, quality.c.level == one("level"), quality.c.engine == one("engine")),
    "ids",
)


def find_checks(reader: Reader, page_ids: Iterable[str]) -> list[CheckedPage]:
    """Find the checks of these captures, at all levels."""
    return list(map(parse_row, _OF_PAGES.each(reader, "ids", dict.fromkeys(page_ids))))


def find_checks_of_urls(reader: Reader, urls: Iterable[str]) -> list[CheckedPage]:
    """Find the checks of all captures of these URLs; per batch, the newest capture first."""
    return list(map(parse_row, _OF_URLS.each(reader, "keys", dict.fromkeys(map(url_key, urls)))))


def already_checked(reader: Reader, page_ids: Iterable[str], level: str, engine: str) -> set[str]:
    """Return those of the captures that this engine checked at the level."""
    of = {"level": level, "engine": storable_text(engine, LONGEST_NAME)}
    return {row[0] for row in _BY_ENGINE.each(reader, "ids", dict.fromkeys(page_ids), **of)}


_BELOW_ALL: Final = 2 * NOT_COMPARED
_ABOVE_ALL: Final = 2.0
_PLACE = (quality.c.score, quality.c.page_id, quality.c.level)
_IS_STANDING = quality.c.standing == one("standing")
_HAS_FAULTS = quality.c.faults.bitwise_and(one("faults", Integer())) == one("faults", Integer())
# By what a list begins with; the first requested one of these is used.
_LEADS = {
    "host": (quality.c.host == one("host"),),
    **{str(fault): (sa.text(has_fault(fault)),) for fault in PlaybackFault},
    "page_class": (quality.c.page_class == one("page_class"),),
    "level": (quality.c.level == one("level"),),
    "": (),
}


def _listing(*lead: Any, backward: bool) -> SqlStatement:
    """Return the statement for rows of one verdict beyond a position, the nearest first."""
    position = sa.tuple_(one("from_score", Double()), one("from_page", Text()), one("from_level", Text()))
    beyond = sa.tuple_(*_PLACE) < position if backward else sa.tuple_(*_PLACE) > position
    named = {name: one(name, Text()) for name in ("page_class", "level")}
    others = (
        quality.c.score < one("below", Double()),
        *(sa.or_(value.is_(None), quality.c[name] == value) for name, value in named.items()),
        _HAS_FAULTS,
        sa.or_(one("with_reviewed", Integer()) == 1, quality.c.review.is_(None)),
    )
    listed = _ROW.where(*lead, _IS_STANDING, beyond, *others)
    order = (column.desc() if backward else column for column in _PLACE)
    return SqlStatement(listed.order_by(*order).limit(one("most")))


# By the lead and the direction, True: towards the worst.
_LISTINGS = {
    (lead, backward): _listing(*conditions, backward=backward)
    for lead, conditions in _LEADS.items()
    for backward in (False, True)
}


def list_worst_first(
    reader: Reader, wanted: CheckFilter, after: CheckPosition | None = None, limit: int = 50, *, backward: bool = False
) -> list[CheckedPage]:
    """List a page of matching checks after a position, the worst first; `backward`: before it, the nearest first."""
    # The index that answers fastest.
    lead = "level" if wanted.level is not None else ""
    if wanted.host is not None:
        lead = "host"
    elif wanted.fault is not None:
        lead = str(wanted.fault)
    elif wanted.page_class is not None:
        lead = "page_class"
    rows: list[CheckedPage] = []
    for standing in sorted(_standings(wanted), reverse=backward):
        begin = CheckPosition(standing, _ABOVE_ALL if backward else _BELOW_ALL, "", "")
        if after is not None and after.standing == standing:
            begin = after
        elif after is not None and (after.standing < standing) is backward:
            continue
        place = {"from_score": begin.score, "from_page": begin.page_id, "from_level": begin.level}
        values = {**_filter_values(wanted), "standing": standing, **place, "most": limit - len(rows)}
        rows += map(parse_row, _LISTINGS[lead, backward].rows(reader, values))
        if len(rows) >= limit:
            break
    return rows


def every_check(reader: Reader, wanted: CheckFilter) -> Iterator[list[CheckedPage]]:
    """Yield all matching checks in batches, the worst first."""
    after: CheckPosition | None = None
    while rows := list_worst_first(reader, wanted, after, _BATCH):
        yield rows
        after = rows[-1].place


_COUNTED = {
    "host": quality.c.host == one("host"),
    "page_class": quality.c.page_class == one("page_class"),
    "level": quality.c.level == one("level"),
    "fault": _HAS_FAULTS,
    # The plus keeps SQLite from using the index by score, which lacks the other columns.
    "below": literal_column("+link_quality.score", Double()) < one("below", Double()),
    "unreviewed": quality.c.review.is_(None),
}


@cache
def _counting(*filters: str) -> SqlStatement:
    """Return the statement that counts rows of one verdict: over a million rows, filters not in use take longest."""
    some: sa.Select[Any] = sa.select(literal_column("1")).where(_IS_STANDING, *(_COUNTED[name] for name in filters))
    return SqlStatement(sa.select(func.count()).select_from(some.limit(one("most")).subquery()))


def count_by_verdict(reader: Reader, wanted: CheckFilter, *, limit: int = 1 << 62) -> dict[QaVerdict, int]:
    """Count matching checks by verdict, each up to the limit."""
    in_use = (name for name in _COUNTED if (each := getattr(wanted, name)) is not None and each is not False)
    statement = _counting(*in_use)
    values = {**_filter_values(wanted), "most": limit}
    return {
        VERDICT_ORDER[standing]: statement.rows(reader, {**values, "standing": standing})[0][0]
        for standing in _standings(wanted)
    }


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


_REVIEW = SqlStatement(
    sa.update(quality)
    .where(*_IS_ROW)
    .values(
        review=one("word"),
        standing=func.coalesce(one("word", sa.SmallInteger()), quality.c.verdict),
        reviewed_by=one("who"),
        reviewed_ms=one("now_ms"),
        note=one("why"),
        changed_ms=_CHANGED,
        is_recorded=False,
    )
)


def record_review(  # noqa: PLR0913 fields of a review
    connection: Connection, page_id: str, level: str, verdict: QaVerdict, *, by: str, note: str = "", now: datetime
) -> bool:
    """Store a person's verdict in place of the last; UNCHECKED withdraws it. False: unknown capture."""
    values = {
        "of": page_id,
        "at": level,
        "word": None if verdict is QaVerdict.UNCHECKED else VERDICT_ORDER.index(verdict),
        "who": storable_text(by, LONGEST_NAME),
        "why": storable_text(note, LONGEST_NOTE),
        "now_ms": unix_milliseconds(now),
    }
    if not _REVIEW.run(connection, values):
        return False
    update_wanted_repairs(connection, [page_id], now)
    return True


_ENDED = tuple(state for state in REPAIR_STATES if state in ENDED_STATES)
_Name = TypeVar("_Name", QaVerdict, RepairState)


def count_checks(store: RegistryStore, *, now: datetime) -> CopyCheckSummary:
    """Count the checks in the registry at `now`."""
    with store.snapshot() as reader:
        since = {minutes: now - timedelta(minutes=minutes) for minutes in WINDOWS_MIN}
        verdicts = count_by_verdict(reader, CheckFilter(), limit=MOST_COUNTED)
        return CopyCheckSummary(
            verdicts=_named(verdicts, VERDICT_ORDER),
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


def _each_minute(counts: Mapping[_Name, int], names: Sequence[_Name], minutes: int) -> dict[str, float]:
    return {name: count / minutes for name, count in _named(counts, names).items()}


def _named(counts: Mapping[_Name, int], names: Sequence[_Name]) -> dict[str, int]:
    """Return a count for each name, 0 by default; copies that could not be checked have no name."""
    return {str(name) or "unchecked": counts.get(name, 0) for name in names}
