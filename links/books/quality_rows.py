"""A check as the registry keeps it, and what else is known of its page (`links.books.quality`)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from core.classes import PageClass
from core.classes import page_class as class_of
from core.errors import BadUrlError, InputError, InvariantError
from core.quality import (
    LONGEST_ID,
    MOST_CHARACTERS,
    MOST_LOST,
    Check,
    Fault,
    Judge,
    LostPart,
    Verdict,
    check_ids,
)
from core.texts import storable
from core.timestamps import milliseconds, moment, parse_warc_date, warc_date_at
from core.urls import identity_key
from links.locator import key_of
from links.store.schema import FAULT_BITS, quality

NAMES: Final = tuple(quality.c.keys())
# What a new check brings, without what it has in common with people's words and with repairs.
REPLACED: Final = (
    *("url_key", "url", "host", "page_class", "captured_ms", "checked_ms", "engine", "verdict"),
    *("score", "picture", "text", "resources", "faults", "lost", "parts_seen", "parts_shown"),
    *("reason", "seconds"),
)
# By their numbers in the registry, the worst first.
VERDICTS: Final = (Verdict.BROKEN, Verdict.DOUBTFUL, Verdict.GOOD, Verdict.UNCHECKED)
NOT_COMPARED = -1.0  # in the place of a score
LONGEST_NAME = 255  # characters, of hosts, people, engines: an index takes 2,700 bytes
_LONGEST_URL = 2_000  # of a lost part; pages' own are kept whole
LONGEST_NOTE = 2_000


class RepairState(StrEnum):
    """Whether a page was captured again since its capture is broken."""

    NONE = "none"
    WANTED = "wanted"
    BEGUN = "begun"
    DONE_BETTER = "done-better"
    DONE_NOT_BETTER = "done-not-better"
    FAILED = "failed"  # no new capture came about


REPAIRS: Final = tuple(RepairState)  # by their numbers in the registry


class CheckKey(NamedTuple):
    """Which row, and as it was then: a later change makes another of it."""

    page_id: str
    level: str
    changed_ms: int


class Place(NamedTuple):
    """Where a row stands among all, the worst first; `str` and `parse_place` are each other's inverse."""

    standing: int
    score: float
    page_id: str
    level: str

    def __str__(self) -> str:
        """As it may stand in an address."""
        return f"{self.standing}:{self.score!r}:{self.page_id}:{self.level}"


class CheckedPage(NamedTuple):
    """A check, with what else is known of its page and what people said.

    Attributes:
        check: what the machine found; its faults in the order of `Fault`.
        host: the canonical host of its URL.
        page_class: what the visit was shown.
        review: a person's verdict; UNCHECKED: nobody's.
        reviewed_by: whose it is.
        reviewed_at: when it was given, or withdrawn; None: never.
        note: of whoever reviewed.
        repair: whether the page was captured again.
        repair_page_id: page id of the new capture; empty: none.
        repair_at: when the repair came into its state; None: never.
        changed_at: the last of all moments. The default: not known, it was never kept.
        is_recorded: it is in a WARC as it is here.
    """

    check: Check
    host: str
    page_class: PageClass = PageClass.UNJUDGED
    review: Verdict = Verdict.UNCHECKED
    reviewed_by: str = ""
    reviewed_at: datetime | None = None
    note: str = ""
    repair: RepairState = RepairState.NONE
    repair_page_id: str = ""
    repair_at: datetime | None = None
    changed_at: datetime | None = None
    is_recorded: bool = False

    @property
    def verdict(self) -> Verdict:
        """The verdict that counts."""
        return self.review or self.check.verdict

    @property
    def place(self) -> Place:
        """Where it stands among all, the worst first."""
        score = NOT_COMPARED if self.check.score is None else self.check.score
        return Place(VERDICTS.index(self.verdict), score, self.check.page_id, self.check.level)

    @property
    def key(self) -> CheckKey:
        """Which row it is, as it is now."""
        assert self.changed_at is not None
        return CheckKey(self.check.page_id, self.check.level, milliseconds(self.changed_at))

    @property
    def said(self) -> Check:
        """What is to be written to a WARC: the verdict that counts, as of the last change."""
        check = self.check
        if self.changed_at is not None:
            check = replace(check, checked_at=warc_date_at(milliseconds(self.changed_at)))
        if self.review is Verdict.UNCHECKED:
            return check
        return replace(check, verdict=self.review, judge=Judge.PERSON, note=self.note)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which checks are asked for; what is None may be anything.

    Attributes:
        verdict: the one that counts.
        host: the canonical host.
        page_class: what the visit was shown.
        level: of playback.
        fault: one of those that were found.
        below: a score; what could not be compared is below all.
        unreviewed: only what no person judged.
    """

    verdict: Verdict | None = None
    host: str | None = None
    page_class: PageClass | None = None
    level: str | None = None
    fault: Fault | None = None
    below: float | None = None
    unreviewed: bool = False


def parse_place(text: str) -> Place:
    """The place that `str` made a text of.

    Raises:
        InputError: it is none.

    >>> parse_place(str(Place(0, 0.25, "0f3c-91", "images")))
    Place(standing=0, score=0.25, page_id='0f3c-91', level='images')
    """
    parts = text.split(":")
    try:
        standing, score, page_id, level = parts
        place = Place(int(standing), float(score), page_id, level)
    except ValueError as error:
        raise InputError(f"No place in a list of checks: {text[:100]!r}.") from error
    check_ids(page_id, level)
    if place.standing not in range(len(VERDICTS)) or not -1 <= place.score <= 1:
        raise InputError(f"No place in a list of checks: {text[:100]!r}.")
    return place


def url_key(url: str) -> bytes:
    """What the checks of a URL are found by."""
    try:
        return key_of(identity_key(url))
    except BadUrlError:
        return key_of(url)  # what was captured is found, whatever it is


def plain(text: str, most: int) -> str:
    """A text that both databases take: no NUL, no half of a character, not too long."""
    return storable(text[:most])


def values_of(row: CheckedPage) -> dict[str, Any]:
    """The columns that a machine's check fills."""
    check = row.check
    if check.judge is not Judge.MACHINE:
        raise InvariantError("A person's word is no check by a machine: it is written by `review`.")
    check_ids(check.page_id, check.level)
    lost = [
        [plain(each.url, _LONGEST_URL), plain(each.reason, MOST_CHARACTERS)]
        for each in check.lost[:MOST_LOST]
    ]
    checked = milliseconds(parse_warc_date(check.checked_at))
    return {
        "page_id": check.page_id,
        "level": check.level,
        "url_key": url_key(check.url),
        "url": plain(check.url, len(check.url)),
        "host": plain(row.host, LONGEST_NAME),
        "page_class": str(row.page_class),
        "captured_ms": milliseconds(parse_warc_date(check.captured_at)),
        "checked_ms": checked,
        "engine": plain(check.engine, LONGEST_NAME),
        "verdict": VERDICTS.index(check.verdict),
        "standing": VERDICTS.index(check.verdict),
        "score": NOT_COMPARED if check.score is None else check.score,
        **{name: getattr(check, name) for name in ("picture", "text", "resources", "seconds")},
        "faults": sum({FAULT_BITS[fault] for fault in check.faults}),
        "lost": json.dumps(lost, ensure_ascii=False),
        "parts_seen": check.parts_seen,
        "parts_shown": check.parts_shown,
        "reason": plain(check.reason, MOST_CHARACTERS),
        "better": check.better[:LONGEST_ID],
        "changed_ms": checked,
        "is_recorded": False,
    }


def row_of(found: Sequence[Any]) -> CheckedPage:
    """The check of a row, its columns in the order of the table."""
    row = dict(zip(NAMES, found, strict=True))
    same = ("page_id", "level", "url", "engine", "picture", "text", "resources", "reason")
    check = Check(
        **{name: row[name] for name in (*same, "seconds", "better", "parts_seen", "parts_shown")},
        captured_at=warc_date_at(row["captured_ms"]),
        checked_at=warc_date_at(row["checked_ms"]),
        verdict=VERDICTS[row["verdict"]],
        score=None if row["score"] < 0 else row["score"],
        faults=tuple(_faults(row["faults"])),
        lost=tuple(LostPart(url, reason) for url, reason in json.loads(row["lost"])),
    )
    return CheckedPage(
        check,
        row["host"],
        class_of(row["page_class"]),
        Verdict.UNCHECKED if row["review"] is None else VERDICTS[row["review"]],
        row["reviewed_by"],
        _moment(row["reviewed_ms"]),
        row["note"],
        REPAIRS[row["repair"]],
        row["repair_page_id"],
        _moment(row["repair_ms"]),
        moment(row["changed_ms"]),
        bool(row["is_recorded"]),
    )


def _faults(bits: int) -> Iterator[Fault]:
    return (fault for fault, bit in FAULT_BITS.items() if bits & bit)


def _moment(count: int | None) -> datetime | None:
    return None if count is None else moment(count)
