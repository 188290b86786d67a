"""Result of a playback check: a row of the registry (`qa.check_store`), and a ``urn:pageinfo:`` record with an id.

The captures index takes `choice_penalty` from the record, which also has browsertrix's `comparison` for its QA tools.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from core.errors import InputError
from core.json_values import read_json
from core.page_manifest import PAGEINFO_VERSION, PageInfo, parse_pageinfo

LONGEST_ID = 128  # characters of a page id or a level
MOST_LOST = 50  # resources named in a record
MOST_CHARACTERS = 500  # of a reason


class QaVerdict(StrEnum):
    """Verdict on a copy; a later one is worse."""

    UNCHECKED = ""  # nothing could be compared: artifacts are missing, or nothing may be shown
    GOOD = "good"
    DOUBTFUL = "doubtful"  # a person should look
    BROKEN = "broken"  # a reader is not shown what the visitor saw


class PlaybackFault(StrEnum):
    """Machine-detected fault of a copy; the registry stores places in this order, so new ones come last."""

    NOT_SHOWN = "not-shown"  # playback answers with an error, or never
    BLANK = "blank"  # nothing is drawn where something was
    LOST = "lost"  # parts that were drawn are not
    LAYOUT = "layout"  # content is elsewhere on the page: a style sheet is missing
    OTHER = "other"  # much of the content is replaced by other content
    COVERED = "covered"  # an overlay covers much of the page
    TEXT = "text"  # the words are others
    RESOURCES = "resources"  # parts that loaded at capture do not load at playback
    DAMAGED = "damaged"  # the archive lacks captured data
    UNFINISHED = "unfinished"  # the capture itself shows a page that was not drawn, or was loading


class VerdictSource(StrEnum):
    """Source of a verdict."""

    MACHINE = "machine"
    PERSON = "person"


class LostPart(NamedTuple):
    """Resource that was recorded at capture and is missing or different at playback."""

    url: str  # as the page requested it
    # A constant, and its detail after a colon: ``status: 404``, ``digest``, ``missing``.
    reason: str


@dataclass(frozen=True, slots=True)
class PlaybackCheck:
    """Check of one page at one level. Scores go from 0 (different) to 1 (equal); None: not compared."""

    page_id: str  # of the page that was checked
    url: str  # its URL, as it was requested
    captured_at: str  # WARC-Date of its visit
    level: str  # the checked playback level (`playback.access.levels`)
    checked_at: str  # WARC-Date of the check
    engine: str  # versions of the playback and comparison code: results of different engines are not comparable
    verdict: QaVerdict
    judge: VerdictSource = VerdictSource.MACHINE
    score: float | None = None  # the least of the following
    picture: float | None = None  # share of the picture that is still drawn (`qa.compare.picture_comparison`)
    text: float | None = None  # share of the text that is present (`qa.compare.content_comparison`)
    resources: float | None = None  # share of the resources that are present (`qa.compare.content_comparison`)
    faults: tuple[PlaybackFault, ...] = ()
    lost: tuple[LostPart, ...] = ()  # the missing resources; the first `MOST_LOST`
    reason: str = ""  # a sentence for people; empty without faults
    seconds: float = 0.0
    better: str = ""  # page id of another capture of the URL that is offered instead; empty: none
    note: str = ""  # of the person who judged
    parts_seen: int = 0  # resources recorded at capture that this level shows
    parts_shown: int = 0  # of these, those received at playback


def choice_penalty(check: PlaybackCheck) -> int:
    """Return the penalty added to `class_rank`: 1 broken, 2 a better capture is known; 0 if a person judged it good."""
    if check.verdict is QaVerdict.GOOD and check.judge is VerdictSource.PERSON:
        return 0
    if check.better:
        return 2
    return 1 if check.verdict is QaVerdict.BROKEN else 0


def check_record(check: PlaybackCheck, page_id: str) -> bytes:
    """Encode the check as the JSON of a ``urn:pageinfo:`` record; `page_id` is the record's own."""
    own = {name: getattr(check, name) for name in PlaybackCheck.__slots__}
    own["lost"] = check.lost[:MOST_LOST]
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
    """Parse a check of `check_record`, or raise InputError; None when the record is not a check."""
    try:
        document = json.loads(data)
        own = document["checked"]
    except (ValueError, TypeError, KeyError):
        return None
    return check_from_json(own)


def parse_manifest(data: bytes) -> PageInfo | PlaybackCheck:
    """Parse a ``urn:pageinfo:`` record: the manifest of a visit, or a check; InputError otherwise."""
    try:
        return parse_pageinfo(data)  # most are, and a long one takes long to read
    except InputError:
        check = parse_check(data)
        if check is None:
            raise
        return check


def check_from_json(values: Mapping[str, Any]) -> PlaybackCheck:
    """Build a check from its JSON fields, or raise InputError; unknown fields are ignored."""
    check = read_json(PlaybackCheck, values, name="check")
    scores = check.score, check.picture, check.text, check.resources
    if not all(each is None or 0 <= each <= 1 for each in scores):
        raise InputError("Not a check of a page: a score is not between 0 and 1.")
    return check


def validate_check_ids(page_id: str, level: str) -> None:
    """Raise InputError unless a path made of page id and level stays in its folder."""
    is_plain = (page_id + level).isascii() and page_id.replace("-", "").isalnum() and level.isalpha()
    if not is_plain or max(len(page_id), len(level)) > LONGEST_ID:
        raise InputError(f"Not a page ID: {page_id[:100]!r}.")


PICTURES = ("seen", "shown", "heat")


def picture_name(page_id: str, level: str, kind: str) -> str:
    """Return the path of a check picture of `PICTURES`; InputError if an argument could leave the folder."""
    validate_check_ids(page_id, level)
    if kind not in PICTURES:
        raise InputError(f"Not a picture of a check: {kind!r}.")
    return f"{page_id[:2]}/{page_id}.{level}.{kind}.webp"
