"""Result of a playback check, as kept in the registry and in WARC records.

A check opens the copy of one page at one level and holds it against what was kept at capture: the
picture, the text, the parts. It is written twice: as a row of the registry (`qa.check_store`), where
people look, and as a ``urn:pageinfo:`` record of its own in a WARC, from which the captures index takes
what counts for choosing among captures (`choice_penalty`) and can be made again.

The record has a page id of its own, since it is no page; which page was checked stands in it. Beside our
figures it has browsertrix's `comparison`, so that tools for its QA archives find theirs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.errors import InputError
from core.page_manifest import PAGEINFO_VERSION, PageInfo, parse_pageinfo

LONGEST_ID = 128  # characters of a page id or a level
MOST_LOST = 50  # resources named in a record
MOST_CHARACTERS = 500  # of a reason


class QaVerdict(StrEnum):
    """What is to be thought of a copy."""

    UNCHECKED = ""  # nothing could be compared: artifacts are missing, or nothing may be shown
    GOOD = "good"
    DOUBTFUL = "doubtful"  # a person should look
    BROKEN = "broken"  # a reader is not shown what the visitor saw


class PlaybackFault(StrEnum):
    """What is wrong with a copy, as far as a machine can tell."""

    NOT_SHOWN = "not-shown"  # playback answers with an error, or never
    BLANK = "blank"  # nothing is drawn where something was
    LOST = "lost"  # parts that were drawn are not
    LAYOUT = "layout"  # what was drawn stands elsewhere: a style sheet is missing
    OTHER = "other"  # something else is drawn in the place of much
    COVERED = "covered"  # something lies over much of the page
    TEXT = "text"  # the words are others
    RESOURCES = "resources"  # parts that came at capture do not come at playback
    DAMAGED = "damaged"  # the archive does not hold what was captured


class VerdictSource(StrEnum):
    """Whose word a verdict is."""

    MACHINE = "machine"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class LostPart:
    """A part of the page that came at capture and does not come, or not the same, at playback.

    Attributes:
        url: as the page asked for it.
        reason: a constant, and its detail after a colon: ``status: 404``, ``digest``, ``missing``.
    """

    url: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlaybackCheck:
    """A check of one page at one level. Scores go from 0 (nothing alike) to 1 (alike); None: not compared.

    Attributes:
        page_id: of the page that was checked.
        url: its URL, as it was asked for.
        captured_at: WARC-Date of its visit.
        level: the level of playback that was looked at (`playback.access.levels`).
        checked_at: WARC-Date of the check.
        engine: versions of what shows and compares: a check by another engine says nothing of this one.
        verdict: what to think of it.
        judge: whose word that is.
        score: the least of the following.
        picture: how much of what was drawn is still drawn (`qa.compare.picture_comparison`).
        text: how much of the text is there (`qa.compare.text_comparison`).
        resources: share of the parts that are there (`qa.compare.resource_comparison`).
        faults: what is wrong.
        lost: which parts are missing; the first `MOST_LOST`.
        reason: a sentence for people; empty when all is well.
        seconds: how long the check took.
        better: page id of another capture of the URL that is offered in its stead; empty: none.
        note: of the person who judged.
        parts_seen: parts that came at capture and that this level shows.
        parts_shown: of these, those that came at playback.
    """

    page_id: str
    url: str
    captured_at: str
    level: str
    checked_at: str
    engine: str
    verdict: QaVerdict
    judge: VerdictSource = VerdictSource.MACHINE
    score: float | None = None
    picture: float | None = None
    text: float | None = None
    resources: float | None = None
    faults: tuple[PlaybackFault, ...] = ()
    lost: tuple[LostPart, ...] = ()
    reason: str = ""
    seconds: float = 0.0
    better: str = ""
    note: str = ""
    parts_seen: int = 0
    parts_shown: int = 0


def choice_penalty(check: PlaybackCheck) -> int:
    """How far the check moves the capture away from being offered, added to `core.page_classes.class_rank`.

    0: not at all; 1: it is broken; 2: a better capture is known. What a person finds good stays.
    """
    if check.verdict is QaVerdict.GOOD and check.judge is VerdictSource.PERSON:
        return 0
    if check.better:
        return 2
    return 1 if check.verdict is QaVerdict.BROKEN else 0


def check_record(check: PlaybackCheck, page_id: str) -> bytes:
    """The check as the JSON of a ``urn:pageinfo:`` record; `page_id` is the record's own."""
    own = {name: getattr(check, name) for name in PlaybackCheck.__slots__}
    own["lost"] = [[each.url, each.reason] for each in check.lost[:MOST_LOST]]
    own["reason"] = check.reason[:MOST_CHARACTERS]
    document = {
        "version": PAGEINFO_VERSION,
        "pageid": page_id,
        "url": check.url,
        "ts": check.checked_at,
        "comparison": {
            "screenshotMatch": check.picture,
            "textMatch": check.text,
            "resourceCounts": {
                "crawlGood": check.parts_seen,
                "crawlBad": 0,
                "replayGood": check.parts_shown,
                "replayBad": check.parts_seen - check.parts_shown,
            },
        },
        "checked": own,
    }
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


def parse_check(data: bytes) -> PlaybackCheck | None:
    """The check that `check_record` wrote; None when the record is no check, e.g. a page's manifest.

    Raises:
        InputError: it is a check that cannot be read.
    """
    try:
        document = json.loads(data)
        own = document["checked"]
    except (ValueError, TypeError, KeyError):
        return None
    return check_from_json(own)


def parse_manifest(data: bytes) -> PageInfo | PlaybackCheck:
    """What a ``urn:pageinfo:`` record says: what a visit found, or what a check did.

    Raises:
        InputError: it is neither.
    """
    try:
        return parse_pageinfo(data)  # most are, and a long one takes long to read
    except InputError:
        check = parse_check(data)
        if check is None:
            raise
        return check


def check_from_json(values: Mapping[str, Any]) -> PlaybackCheck:
    """The check of its fields as JSON has them; fields that it does not know are left out.

    Raises:
        InputError: one is missing or is none.
    """
    try:
        known = {name: values[name] for name in PlaybackCheck.__slots__ if name in values}
        known["verdict"] = QaVerdict(known["verdict"])
        known["judge"] = VerdictSource(known.get("judge", VerdictSource.MACHINE))
        known["faults"] = tuple(map(PlaybackFault, known.get("faults", ())))
        known["lost"] = tuple(LostPart(str(url), str(why)) for url, why in known.get("lost", ()))
        return _validated(PlaybackCheck(**known))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"Not a check of a page: {error}.") from error


_TEXTS = (
    *("page_id", "url", "captured_at", "level", "checked_at", "engine", "reason", "better", "note"),
)


def _validated(check: PlaybackCheck) -> PlaybackCheck:
    """The check, whose JSON anybody may have written.

    Raises:
        InputError: a value is of another kind than it should be.
    """
    scores: tuple[object, ...] = (check.score, check.picture, check.text, check.resources)
    texts: tuple[object, ...] = tuple(getattr(check, name) for name in _TEXTS)
    is_scored = all(
        each is None or (isinstance(each, int | float) and 0 <= each <= 1) for each in scores
    )
    if not is_scored or not all(isinstance(each, str) for each in texts):
        raise InputError("Not a check of a page: a value is of the wrong kind.")
    return check


def validate_check_ids(page_id: str, level: str) -> None:
    """Hold a page id and a level against their form, which leads to no other file.

    Raises:
        InputError: one has another form, or is too long.
    """
    is_plain = (
        (page_id + level).isascii() and page_id.replace("-", "").isalnum() and level.isalpha()
    )
    if not is_plain or max(len(page_id), len(level)) > LONGEST_ID:
        raise InputError(f"No page's id: {page_id[:100]!r}.")


PICTURES = ("seen", "shown", "heat")


def picture_name(page_id: str, level: str, kind: str) -> str:
    """Where in the folder of a collection's checks a picture of one lies; `kind` is one of `PICTURES`.

    Raises:
        InputError: `page_id` or `level` could lead elsewhere.

    >>> picture_name("0f3c-91", "images", "heat")
    '0f/0f3c-91.images.heat.webp'
    """
    validate_check_ids(page_id, level)
    if kind not in PICTURES:
        raise InputError(f"No picture of a check: {kind!r}.")
    return f"{page_id[:2]}/{page_id}.{level}.{kind}.webp"
