"""Presentation of checks on pages: translated labels, and pictures with thumbnails."""

import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from starlette.exceptions import HTTPException

from core.page_classes import PageClass
from core.playback_check import PICTURES, LostPart, PlaybackFault, QaVerdict, picture_name
from core.storable_text import replace_invisible
from playback.access.levels import Level
from playback.web.i18n import noop, translate
from qa.check_table import RepairState
from qa.web.check_query import verdict_name

# With the classes that style.css and quality.css colour.
VERDICTS: Final[Mapping[QaVerdict, tuple[str, str]]] = {
    QaVerdict.BROKEN: (noop("Broken"), "broken"),
    QaVerdict.DOUBTFUL: (noop("Doubtful"), "doubtful"),
    QaVerdict.GOOD: (noop("Good"), "fine"),
    QaVerdict.UNCHECKED: (noop("Not compared"), "unchecked"),
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
_LOST = {
    "missing": noop("not in the archive"),
    "digest": noop("differs from the capture"),
    "failed": noop("did not load"),
    "blocked": noop("removed from the copy"),
}


def verdict(value: QaVerdict) -> str:
    """Return the label of a verdict."""
    return translate(VERDICTS[value][0])


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


def share(score: float | None) -> str:
    """Return a score as whole per cent, rounded down, so that 100 means no difference.

    >>> share(0.999), share(1.0), share(None)
    ('99', '100', '-')
    """
    return "-" if score is None else str(int(score * 100 + 1e-9))


MOST_BYTES = 16_000_000
MEDIA_TYPE = "image/webp"
THUMBNAIL_SIZE = (224, 140)  # twice what lists show, for dense screens
_MOST_SMALL = 2_000  # kept in memory, about 5 kB each


class CheckPictureFolder:
    """Pictures in a folder, which need not exist. Thread-safe; InputError: not an id or level of a check."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._making = threading.BoundedSemaphore(2)  # decoding takes a core and 30 MB each
        self._thumbnail = lru_cache(_MOST_SMALL)(self._make_thumbnail)

    def kinds(self, page_id: str, level: str) -> frozenset[str]:
        """Return the kinds of pictures that a check has."""
        return frozenset(kind for kind in PICTURES if (self._folder / picture_name(page_id, level, kind)).is_file())

    def whole(self, page_id: str, level: str, kind: str) -> bytes:
        """Return a picture as stored."""
        return self._read(self._folder / picture_name(page_id, level, kind))

    def small(self, page_id: str, level: str, kind: str) -> bytes:
        """Return a thumbnail of a picture's upper part, for lists."""
        path = self._folder / picture_name(page_id, level, kind)
        try:
            status = path.stat()
        except OSError:
            raise HTTPException(404) from None
        return self._thumbnail(path, status.st_mtime_ns, status.st_size)

    def _make_thumbnail(self, path: Path, _modified_ns: int, _size: int) -> bytes:
        with self._making:
            return make_thumbnail(self._read(path))

    def _read(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                body = file.read(MOST_BYTES + 1)
        except OSError:
            raise HTTPException(404) from None
        if len(body) > MOST_BYTES or body[:4] != b"RIFF" or body[8:12] != b"WEBP":
            raise HTTPException(404)
        return body


def make_thumbnail(body: bytes) -> bytes:
    """Scale the upper part of a picture to `THUMBNAIL_SIZE`, as WebP."""
    from qa.compare.picture_tiles import shrink_picture  # for the few readers who look at pictures of checks

    small = shrink_picture(body, widest=THUMBNAIL_SIZE[0], tallest=THUMBNAIL_SIZE[1], quality=70)
    if small is None:
        raise HTTPException(404)
    return small
