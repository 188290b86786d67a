"""What checks of copies found, and what people said of it (U09): the book of checks.

A row is the last check of one capture at one level. A check by machine replaces what the last one found,
and keeps what a person said: whoever looked at the copy knows better than a program of another version.
The verdict that counts is the person's, else the machine's.

Each change is written to a WARC, too, from which the captures index learns of it: a row is `unrecorded`
until somebody who did this says so (`recorded`), and is again with each change. What is written says the
verdict that counts (`CheckedPage.said`), with the moment of the last change.

What is broken is wanted to be captured again, once (`links.books.repairs`).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, case, func

from core.quality import Verdict
from core.timestamps import milliseconds
from links.books.quality_questions import (
    AHEAD,
    BY_ENGINE,
    COUNTED,
    FORGET,
    OF_PAGES,
    OF_URLS,
    RECORDED,
    REVIEW,
    UNRECORDED,
    WORST,
    counting,
)
from links.books.quality_rows import (
    LONGEST_NAME,
    LONGEST_NOTE,
    NOT_COMPARED,
    REPLACED,
    VERDICTS,
    CheckedPage,
    CheckKey,
    Filter,
    Place,
    RepairState,
    parse_place,
    plain,
    row_of,
    url_key,
    values_of,
)
from links.books.repairs import (
    awaiting_repair,
    in_repair,
    repair_begun,
    repair_ended,
    settle_repairs,
    want_repair,
)
from links.store.schema import FAULT_BITS, quality
from links.store.statements import Reader, batches
from links.store.upserts import merge

__all__ = [
    "CheckKey",
    "CheckedPage",
    "Filter",
    "Place",
    "RepairState",
    "ahead",
    "already_checked",
    "awaiting_repair",
    "checks_of",
    "checks_of_urls",
    "forget_checks",
    "in_repair",
    "keep_checks",
    "parse_place",
    "recorded",
    "repair_begun",
    "repair_ended",
    "review",
    "tally",
    "unrecorded",
    "want_repair",
    "worst",
]

_BELOW_ALL: Final = 2 * NOT_COMPARED
_ABOVE_ALL: Final = 2.0


def keep_checks(connection: Connection, rows: Iterable[CheckedPage], now: datetime) -> None:
    """Keep what machines found, in the place of what was found before; what people said stays.

    An older check changes nothing. What is broken now is wanted to be repaired, unless that was tried
    or it is a repair itself; what is not broken any more is wanted no longer.

    Args:
        connection: of a transaction that writes.
        rows: checks by machine, with host and class; all else of them is passed over.
        now: the moment that a repair is wanted from.

    Raises:
        InputError: a page id, a level or a moment is none.
        InvariantError: one is a person's word.
    """
    values = [values_of(row) for row in rows]
    # A page that was checked twice meanwhile would else be changed twice by one statement.
    newest = {(row["page_id"], row["level"]): row for row in sorted(values, key=_checked)}
    put = [
        newest[key] for key in sorted(newest)
    ]  # in one order: two writers never block each other
    merge(connection, quality, ("page_id", "level"), put, _replaced)
    settle_repairs(connection, {key[0] for key in newest}, now)


def _replaced(new: Any) -> tuple[dict[str, Any], ColumnElement[bool]]:
    """What a row becomes when a new check of the same is kept, unless that is the older one."""
    is_later = new.checked_ms > quality.c.changed_ms
    changed = {
        **{name: new[name] for name in REPLACED},
        "standing": func.coalesce(quality.c.review, new.verdict),
        "better": case((new.better != "", new.better), else_=quality.c.better),
        "changed_ms": case((is_later, new.checked_ms), else_=quality.c.changed_ms + 1),
        "is_recorded": False,
    }
    return changed, new.checked_ms >= quality.c.checked_ms


def checks_of(reader: Reader, page_ids: Iterable[str]) -> list[CheckedPage]:
    """All that is known of these captures, at each level."""
    return [
        row_of(row)
        for batch in batches(dict.fromkeys(page_ids))
        for row in OF_PAGES.rows(reader, {"ids": batch})
    ]


def checks_of_urls(reader: Reader, urls: Iterable[str]) -> list[CheckedPage]:
    """All that is known of all captures of these URLs, those of a batch the newest capture first."""
    return [
        row_of(row)
        for batch in batches(dict.fromkeys(map(url_key, urls)))
        for row in OF_URLS.rows(reader, {"keys": batch})
    ]


def already_checked(reader: Reader, page_ids: Iterable[str], level: str, engine: str) -> set[str]:
    """Those of the captures that this engine checked at the level."""
    asked = {"level": level, "engine": plain(engine, LONGEST_NAME)}
    return {
        row[0]
        for batch in batches(dict.fromkeys(page_ids))
        for row in BY_ENGINE.rows(reader, {**asked, "ids": batch})
    }


def worst(
    reader: Reader, wanted: Filter, after: Place | None = None, limit: int = 50
) -> list[CheckedPage]:
    """A page of what is wanted, from behind a place: the worst first, what nobody could check last."""
    statement = WORST[_lead(wanted)]
    found: list[CheckedPage] = []
    for standing in _standings(wanted):
        begin = Place(standing, _BELOW_ALL, "", "")
        if after is not None and after.standing > standing:
            continue
        if after is not None and after.standing == standing:
            begin = after
        asked = {
            "standing": standing,
            "after_score": begin.score,
            "after_page": begin.page_id,
            "after_level": begin.level,
            "most": limit - len(found),
        }
        found += map(row_of, statement.rows(reader, {**_asked(wanted), **asked}))
        if len(found) >= limit:
            break
    return found


def ahead(reader: Reader, wanted: Filter, place: Place, limit: int = 50) -> list[CheckedPage]:
    """What is wanted and stands before a place in the order of `worst`, the nearest first."""
    statement = AHEAD[_lead(wanted)]
    found: list[CheckedPage] = []
    for standing in reversed(_standings(wanted)):
        if standing > place.standing:
            continue
        end = place if standing == place.standing else Place(standing, _ABOVE_ALL, "", "")
        asked = {
            "standing": standing,
            "before_score": end.score,
            "before_page": end.page_id,
            "before_level": end.level,
            "most": limit - len(found),
        }
        found += map(row_of, statement.rows(reader, {**_asked(wanted), **asked}))
        if len(found) >= limit:
            break
    return found


def tally(reader: Reader, wanted: Filter, *, limit: int = 1 << 62) -> dict[Verdict, int]:
    """How many of what is wanted have which verdict; of each no more than the limit are counted."""
    given = {
        "host": wanted.host is not None,
        "page_class": wanted.page_class is not None,
        "level": wanted.level is not None,
        "faults": wanted.fault is not None,
        "below": wanted.below is not None,
        "unreviewed": wanted.unreviewed,
    }
    statement = counting(*(name for name in COUNTED if given[name]))
    asked = {**_asked(wanted), "most": limit}
    return {
        VERDICTS[standing]: statement.rows(reader, {**asked, "standing": standing})[0][0]
        for standing in _standings(wanted)
    }


def review(  # noqa: PLR0913 who, when and why belong to it
    connection: Connection,
    page_id: str,
    level: str,
    verdict: Verdict,
    *,
    by: str,
    note: str = "",
    now: datetime,
) -> bool:
    """Write a person's verdict down, in the place of the last; False: nothing is known of the capture.

    Args:
        connection: of a transaction that writes.
        page_id: which capture.
        level: at which level it was looked at.
        verdict: UNCHECKED takes the last one back.
        by: whose word it is.
        note: what they said.
        now: when.
    """
    word = None if verdict is Verdict.UNCHECKED else VERDICTS.index(verdict)
    said = {"who": plain(by, LONGEST_NAME), "why": plain(note, LONGEST_NOTE)}
    asked = {"of": page_id, "at": level, "word": word, "now_ms": milliseconds(now)}
    if not REVIEW.run(connection, {**asked, **said}):
        return False
    settle_repairs(connection, [page_id], now)
    return True


def unrecorded(reader: Reader, limit: int, after: CheckKey | None = None) -> list[CheckedPage]:
    """Some of what changed since it was last written to a WARC, from behind a key."""
    begin = after or CheckKey("", "", 0)
    asked = {"page": begin.page_id, "level": begin.level, "most": limit}
    return [row_of(row) for row in UNRECORDED.rows(reader, asked)]


def recorded(connection: Connection, keys: Iterable[CheckKey]) -> None:
    """Keep that these are in a WARC; what changed meanwhile still has to be written."""
    asked = [{"of": key.page_id, "at": key.level, "as_of": key.changed_ms} for key in keys]
    RECORDED.run(connection, asked)


def forget_checks(connection: Connection, page_ids: Iterable[str]) -> int:
    """Forget all checks of captures that were erased; how many there were."""
    return sum(FORGET.run(connection, {"ids": batch}) for batch in batches(dict.fromkeys(page_ids)))


def _lead(wanted: Filter) -> str:
    """Which of the lists answers quickest."""
    if wanted.host is not None:
        return "host"
    if wanted.fault is not None:
        return str(wanted.fault)
    if wanted.page_class is not None:
        return "page_class"
    return "level" if wanted.level is not None else ""


def _asked(wanted: Filter) -> dict[str, Any]:
    return {
        "host": wanted.host,
        "page_class": None if wanted.page_class is None else str(wanted.page_class),
        "level": wanted.level,
        "faults": 0 if wanted.fault is None else FAULT_BITS[wanted.fault],
        "below": _ABOVE_ALL if wanted.below is None else wanted.below,
        "with_reviewed": 0 if wanted.unreviewed else 1,
    }


def _standings(wanted: Filter) -> Sequence[int]:
    every = range(len(VERDICTS))
    return every if wanted.verdict is None else [VERDICTS.index(wanted.verdict)]


def _checked(row: Mapping[str, Any]) -> int:
    checked: int = row["checked_ms"]
    return checked
