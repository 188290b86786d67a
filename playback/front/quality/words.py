"""What is said of a check, in the reader's language."""

import unicodedata
from collections.abc import Mapping
from typing import Final

from core.classes import PageClass
from core.quality import Fault, LostPart, Verdict
from links.books.quality import RepairState
from playback.decisions.levels import Level
from playback.front.languages import noop, translate

VERDICTS: Final[Mapping[Verdict, str]] = {
    Verdict.BROKEN: noop("Broken"),
    Verdict.DOUBTFUL: noop("Doubtful"),
    Verdict.GOOD: noop("Good"),
    Verdict.UNCHECKED: noop("Not compared"),
}
# The classes that style.css and quality.css colour.
MARKS: Final[Mapping[Verdict, str]] = {
    Verdict.BROKEN: "broken",
    Verdict.DOUBTFUL: "doubtful",
    Verdict.GOOD: "fine",
    Verdict.UNCHECKED: "unchecked",
}
FAULTS: Final[Mapping[Fault, str]] = {
    Fault.NOT_SHOWN: noop("Not shown"),
    Fault.BLANK: noop("Blank"),
    Fault.LOST: noop("Parts gone"),
    Fault.LAYOUT: noop("Layout"),
    Fault.OTHER: noop("Something else"),
    Fault.COVERED: noop("Covered"),
    Fault.TEXT: noop("Other words"),
    Fault.RESOURCES: noop("Files missing"),
    Fault.DAMAGED: noop("Archive damaged"),
}
CLASSES: Final[Mapping[PageClass, str]] = {
    PageClass.OK: noop("A page"),
    PageClass.NEAR_EMPTY: noop("Nearly empty"),
    PageClass.CONSENT_WALL: noop("Consent wall"),
    PageClass.LOGIN_WALL: noop("Login wall"),
    PageClass.SOFT_404: noop("Says it is missing"),
    PageClass.HTTP_ERROR: noop("Error page"),
    PageClass.PARKED: noop("Parked domain"),
    PageClass.CHALLENGE: noop("Check for robots"),
}
LEVELS: Final[Mapping[str, str]] = {
    Level.TEXT: noop("Text only"),
    Level.LIMITED: noop("Reading"),
    Level.HTML: noop("No images"),
    Level.IMAGES: noop("With images"),
    Level.FULL: noop("Everything (scripts)"),
}
REPAIRS: Final[Mapping[RepairState, str]] = {
    RepairState.WANTED: noop("It waits to be captured again."),
    RepairState.BEGUN: noop("It is being captured again."),
    RepairState.DONE_BETTER: noop("It was captured again, and the new capture is better."),
    RepairState.DONE_NOT_BETTER: noop("It was captured again, but that is no better."),
    RepairState.FAILED: noop("It could not be captured again."),
}
_UNSEEN = frozenset({"Cc", "Cf", "Cs"})  # Unicode's categories
_LOST = {
    "missing": noop("not in the archive"),
    "digest": noop("not what was captured"),
    "failed": noop("did not load"),
    "blocked": noop("kept out of the copy"),
}


def verdict(found: Verdict) -> str:
    """A verdict's name."""
    return translate(VERDICTS[found])


def fault(found: Fault) -> str:
    """A fault's name."""
    return translate(FAULTS[found])


def level(found: str) -> str:
    """A level's name; one that nobody knows here as it is."""
    return translate(LEVELS[found]) if found in LEVELS else found


def repair(found: RepairState) -> str:
    """What became of the repair; empty when none was wanted."""
    return translate(REPAIRS[found]) if found in REPAIRS else ""


def lost(part: LostPart) -> str:
    """Why a part of the page is missing; a reason that nobody knows here as it is."""
    name, _, detail = part.reason.partition(":")
    if name == "status":
        return translate(noop("answers with %(status)s"), status=plain(detail.strip()))
    return translate(_LOST[name]) if name in _LOST else plain(part.reason)


def plain(text: str) -> str:
    r"""A text of the web without letters that turn or hide others: each is a mark in its place.

    >>> plain("a\u202eb") == "a\ufffdb"
    True
    """
    return "".join("\ufffd" if unicodedata.category(char) in _UNSEEN else char for char in text)


def share(score: float | None) -> str:
    """A score as people read it: whole per cent, cut off, so that 100 means that nothing differs.

    >>> share(0.999), share(1.0), share(None)
    ('99', '100', '-')
    """
    return "-" if score is None else str(int(score * 100 + 1e-9))
