"""Rows of the table of checks in the link registry: their types and their codec."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from core.errors import BadUrlError, InputError, InvariantError
from core.page_classes import PageClass, parse_page_class
from core.playback_check import (
    LONGEST_ID,
    MOST_CHARACTERS,
    MOST_LOST,
    LostPart,
    PlaybackCheck,
    PlaybackFault,
    QaVerdict,
    VerdictSource,
    validate_check_ids,
)
from core.storable_text import storable
from core.timestamps import from_unix_milliseconds, parse_warc_date, unix_milliseconds, warc_date_at
from core.urls import identity_key
from links.registry.schema import FAULT_BITS, quality
from links.url_parts import key_of

COLUMN_NAMES: Final = tuple(quality.c.keys())
# Columns that only a new check sets, not shared with reviews and repairs.
REPLACED_COLUMNS: Final = (
    *("url_key", "url", "host", "page_class", "captured_ms", "checked_ms", "engine", "verdict"),
    *("score", "picture", "text", "resources", "faults", "lost", "parts_seen", "parts_shown"),
    *("reason", "seconds"),
)
# By their numbers in the registry, the worst first.
VERDICT_ORDER: Final = (QaVerdict.BROKEN, QaVerdict.DOUBTFUL, QaVerdict.GOOD, QaVerdict.UNCHECKED)
NOT_COMPARED = -1.0  # in the place of a score
LONGEST_NAME = 255  # characters, of hosts, people, engines: an index takes 2,700 bytes
_LONGEST_URL = 2_000  # of a lost part; pages' own are kept whole
LONGEST_NOTE = 2_000


class RepairState(StrEnum):
    """State of the repair of a broken capture."""

    NONE = "none"
    WANTED = "wanted"
    BEGUN = "begun"
    DONE_BETTER = "done-better"
    DONE_NOT_BETTER = "done-not-better"
    FAILED = "failed"  # there is no new capture


REPAIR_STATES: Final = tuple(RepairState)  # by their numbers in the registry


class CheckKey(NamedTuple):
    """Key of a row with the time of its change; a later change gives another key."""

    page_id: str
    level: str
    changed_ms: int


class CheckPosition(NamedTuple):
    """Position of a row in worst-first order; `str` and `parse_position` are inverses."""

    standing: int
    score: float
    page_id: str
    level: str

    def __str__(self) -> str:
        return f"{self.standing}:{self.score!r}:{self.page_id}:{self.level}"


class CheckedPage(NamedTuple):
    """Check of a copy with its page's data, review and repair."""

    check: PlaybackCheck  # check by machine; its faults in the order of `PlaybackFault`
    host: str  # canonical host of its URL
    page_class: PageClass = PageClass.UNJUDGED  # class of the page that was captured
    review: QaVerdict = QaVerdict.UNCHECKED  # a person's verdict; UNCHECKED: none
    reviewed_by: str = ""
    reviewed_at: datetime | None = None  # time at which the review was given or withdrawn; None: never
    note: str = ""
    repair: RepairState = RepairState.NONE
    repair_page_id: str = ""  # page id of the new capture; empty: none
    changed_at: datetime | None = None  # the latest of all times. The default means unknown: the row was never stored.
    is_recorded: bool = False  # True when a WARC holds the check in its present form

    @property
    def verdict(self) -> QaVerdict:
        """Return the effective verdict."""
        return self.review or self.check.verdict

    @property
    def place(self) -> CheckPosition:
        """Return the position in worst-first order."""
        score = NOT_COMPARED if self.check.score is None else self.check.score
        return CheckPosition(VERDICT_ORDER.index(self.verdict), score, self.check.page_id, self.check.level)

    @property
    def key(self) -> CheckKey:
        """Return the key of the row in its present form."""
        assert self.changed_at is not None
        return CheckKey(self.check.page_id, self.check.level, unix_milliseconds(self.changed_at))

    @property
    def effective_check(self) -> PlaybackCheck:
        """Return the check to record in a WARC: the effective verdict, as of the last change."""
        check = self.check
        if self.changed_at is not None:
            check = replace(check, checked_at=warc_date_at(unix_milliseconds(self.changed_at)))
        if self.review is QaVerdict.UNCHECKED:
            return check
        return replace(check, verdict=self.review, judge=VerdictSource.PERSON, note=self.note)


@dataclass(frozen=True, slots=True)
class CheckFilter:
    """Filter of checks; None matches any value."""

    verdict: QaVerdict | None = None  # effective verdict
    host: str | None = None
    page_class: PageClass | None = None
    level: str | None = None
    fault: PlaybackFault | None = None
    below: float | None = None  # upper bound of the score; a copy without a score is below all
    unreviewed: bool = False  # only checks without a review


def parse_position(text: str) -> CheckPosition:
    """Parse the text form of a position.

    >>> parse_position(str(CheckPosition(0, 0.25, "0f3c-91", "images")))
    CheckPosition(standing=0, score=0.25, page_id='0f3c-91', level='images')
    """
    fault = InputError(f"Not a position in a list of checks: {text[:100]!r}.")
    try:
        standing, score, page_id, level = text.split(":")
        place = CheckPosition(int(standing), float(score), page_id, level)
    except ValueError as error:
        raise fault from error
    validate_check_ids(page_id, level)
    if place.standing not in range(len(VERDICT_ORDER)) or not -1 <= place.score <= 1:
        raise fault
    return place


def url_key(url: str) -> bytes:
    """Return the lookup key of a URL's checks."""
    try:
        return key_of(identity_key(url))
    except BadUrlError:
        return key_of(url)  # captures of any kind are included


def storable_text(text: str, most: int) -> str:
    """Return text that both databases accept: no NUL, no lone surrogate, limited length."""
    return storable(text[:most])


def row_values(row: CheckedPage) -> dict[str, Any]:
    """Return the columns of a check by machine."""
    check = row.check
    if check.judge is not VerdictSource.MACHINE:
        raise InvariantError("A person's review is not a check by a machine: store it with `record_review`.")
    validate_check_ids(check.page_id, check.level)
    lost = [
        [storable_text(each.url, _LONGEST_URL), storable_text(each.reason, MOST_CHARACTERS)]
        for each in check.lost[:MOST_LOST]
    ]
    checked = unix_milliseconds(parse_warc_date(check.checked_at))
    return {
        "page_id": check.page_id,
        "level": check.level,
        "url_key": url_key(check.url),
        "url": storable_text(check.url, len(check.url)),
        "host": storable_text(row.host, LONGEST_NAME),
        "page_class": str(row.page_class),
        "captured_ms": unix_milliseconds(parse_warc_date(check.captured_at)),
        "checked_ms": checked,
        "engine": storable_text(check.engine, LONGEST_NAME),
        "verdict": VERDICT_ORDER.index(check.verdict),
        "standing": VERDICT_ORDER.index(check.verdict),
        "score": NOT_COMPARED if check.score is None else check.score,
        **{name: getattr(check, name) for name in ("picture", "text", "resources", "seconds")},
        "faults": sum({FAULT_BITS[fault] for fault in check.faults}),
        "lost": json.dumps(lost, ensure_ascii=False),
        "parts_seen": check.parts_seen,
        "parts_shown": check.parts_shown,
        "reason": storable_text(check.reason, MOST_CHARACTERS),
        "better": check.better[:LONGEST_ID],
        "changed_ms": checked,
        "is_recorded": False,
    }


def parse_row(values: Sequence[Any]) -> CheckedPage:
    """Parse a row, its columns in the order of the table."""
    row = dict(zip(COLUMN_NAMES, values, strict=True))
    same = ("page_id", "level", "url", "engine", "picture", "text", "resources", "reason")
    check = PlaybackCheck(
        **{name: row[name] for name in (*same, "seconds", "better", "parts_seen", "parts_shown")},
        captured_at=warc_date_at(row["captured_ms"]),
        checked_at=warc_date_at(row["checked_ms"]),
        verdict=VERDICT_ORDER[row["verdict"]],
        score=None if row["score"] < 0 else row["score"],
        faults=tuple(fault for fault, bit in FAULT_BITS.items() if row["faults"] & bit),
        lost=tuple(LostPart(url, reason) for url, reason in json.loads(row["lost"])),
    )
    return CheckedPage(
        check,
        row["host"],
        parse_page_class(row["page_class"]),
        QaVerdict.UNCHECKED if row["review"] is None else VERDICT_ORDER[row["review"]],
        row["reviewed_by"],
        None if row["reviewed_ms"] is None else from_unix_milliseconds(row["reviewed_ms"]),
        row["note"],
        REPAIR_STATES[row["repair"]],
        row["repair_page_id"],
        from_unix_milliseconds(row["changed_ms"]),
        bool(row["is_recorded"]),
    )
