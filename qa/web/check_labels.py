"""Translated labels of verdicts, faults, page classes, levels and repairs."""

import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from core.page_classes import PageClass
from core.playback_check import LostPart, PlaybackFault, QaVerdict
from playback.access.levels import Level
from playback.web.i18n import noop, translate
from qa.check_table import RepairState
from qa.web.check_query import verdict_name

VERDICTS: Final[Mapping[QaVerdict, str]] = {
    QaVerdict.BROKEN: noop("Broken"),
    QaVerdict.DOUBTFUL: noop("Doubtful"),
    QaVerdict.GOOD: noop("Good"),
    QaVerdict.UNCHECKED: noop("Not compared"),
}
# The classes that style.css and quality.css colour.
MARKS: Final[Mapping[QaVerdict, str]] = {
    QaVerdict.BROKEN: "broken",
    QaVerdict.DOUBTFUL: "doubtful",
    QaVerdict.GOOD: "fine",
    QaVerdict.UNCHECKED: "unchecked",
}
FAULTS: Final[Mapping[PlaybackFault, str]] = {
    PlaybackFault.NOT_SHOWN: noop("Not shown"),
    PlaybackFault.BLANK: noop("Blank"),
    PlaybackFault.LOST: noop("Missing content"),
    PlaybackFault.LAYOUT: noop("Layout"),
    PlaybackFault.OTHER: noop("Different content"),
    PlaybackFault.COVERED: noop("Covered"),
    PlaybackFault.TEXT: noop("Different text"),
    PlaybackFault.RESOURCES: noop("Missing resources"),
    PlaybackFault.UNFINISHED: noop("Captured unfinished"),
    PlaybackFault.DAMAGED: noop("Archive damaged"),
}
CLASSES: Final[Mapping[PageClass, str]] = {
    PageClass.OK: noop("Normal page"),
    PageClass.NEAR_EMPTY: noop("Almost empty"),
    PageClass.CONSENT_WALL: noop("Consent wall"),
    PageClass.LOGIN_WALL: noop("Login wall"),
    PageClass.SOFT_404: noop("“Not found” page"),
    PageClass.HTTP_ERROR: noop("Error page"),
    PageClass.PARKED: noop("Parked domain"),
    PageClass.CHALLENGE: noop("Bot check"),
}
LEVELS: Final[Mapping[str, str]] = {
    Level.TEXT: noop("Text only"),
    Level.LIMITED: noop("Reader view"),
    Level.HTML: noop("Without images"),
    Level.IMAGES: noop("With images"),
    Level.FULL: noop("With scripts"),
}
REPAIRS: Final[Mapping[RepairState, str]] = {
    RepairState.WANTED: noop("Queued to be captured again."),
    RepairState.BEGUN: noop("Being captured again."),
    RepairState.DONE_BETTER: noop("Captured again; the new capture is better."),
    RepairState.DONE_NOT_BETTER: noop("Captured again; the new capture is not better."),
    RepairState.FAILED: noop("Capturing again failed."),
}
_UNSEEN = frozenset({"Cc", "Cf", "Cs"})  # Unicode's categories
_LOST = {
    "missing": noop("not in the archive"),
    "digest": noop("differs from the capture"),
    "failed": noop("did not load"),
    "blocked": noop("removed from the copy"),
}


def verdict(value: QaVerdict) -> str:
    """Return the label of a verdict."""
    return translate(VERDICTS[value])


def fault(value: PlaybackFault) -> str:
    """Return the label of a fault."""
    return translate(FAULTS[value])


def level(value: str) -> str:
    """Return the label of a level; an unknown one unchanged."""
    return translate(LEVELS[value]) if value in LEVELS else value


def repair(value: RepairState) -> str:
    """Return the label of a repair state; empty when none was wanted."""
    return translate(REPAIRS[value]) if value in REPAIRS else ""


def choices() -> dict[str, Any]:
    """Return the values of the list's filters with their labels."""
    return {
        "verdicts": [(verdict_name(each), verdict(each)) for each in VERDICTS],
        "classes": [(str(each), translate(text)) for each, text in CLASSES.items()],
        "levels": [(str(each), level(each)) for each in Level],
        "faults": [(str(each), fault(each)) for each in PlaybackFault],
    }


def lost(part: LostPart) -> str:
    """Return why a part of the page is missing; an unknown reason unchanged."""
    name, _, detail = part.reason.partition(":")
    if name == "status":
        return translate(noop("status %(status)s"), status=replace_invisible(detail.strip()))
    return translate(_LOST[name]) if name in _LOST else replace_invisible(part.reason)


def replace_invisible(text: str) -> str:
    r"""Replace characters that reorder or hide others by U+FFFD in text from the web.

    >>> replace_invisible("a\u202eb") == "a\ufffdb"
    True
    """
    return "".join("\ufffd" if unicodedata.category(char) in _UNSEEN else char for char in text)


def share(score: float | None) -> str:
    """Return a score as whole per cent, rounded down, so that 100 means no difference.

    >>> share(0.999), share(1.0), share(None)
    ('99', '100', '-')
    """
    return "-" if score is None else str(int(score * 100 + 1e-9))
