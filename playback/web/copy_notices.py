"""Notices about a copy: threats, temporal drift, device and language of the capture (RFC 9110, 3.2).

Replay computes the drift, as it knows the subresources of a copy; no notice when it does not answer in time.
"""

import http.client
import logging
import re
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urlsplit

import cachetools

from core.captures import ArtifactKind
from core.config.stored_level import DEFAULT_STORED_LEVEL
from playback.access.control import AccessControl
from playback.access.holds import ScanVerdict, UnscannedPolicy
from playback.access.threat_lists import ListEffect, ListHit
from playback.url_paths import Memento, MementoModifier, memento_path
from playback.web.page_store import CapturedPage, PageRecords

_COPY_VIEWS = ("page", "beside")
PASSED_VIEW = "as-captured"  # the view of a reader who continued after the warning


@dataclass(frozen=True, slots=True)
class CopyWarning:
    """Warnings for a page, shown before its copy."""

    threat: ScanVerdict | None = None  # scan verdict of its document; the copy is never shown
    listed: ListHit | None = None
    scan: ScanVerdict | None = None  # verdict of a file to download; None: not scanned
    is_unscanned_held: bool = False  # whether such a file is held until it is scanned

    def holds(self, view: str, *, is_download: bool) -> bool:
        """Return True when a notice replaces the copy."""
        if self.threat is not None:
            return view in (*_COPY_VIEWS, PASSED_VIEW, "text")
        if view not in _COPY_VIEWS:
            return False
        if self.listed is not None and self.listed.on.effect is ListEffect.HOLD:
            return True
        return is_download and self.is_unscanned_held and self.scan is None


class CopyWarnings:
    """Look-up of warnings for pages. Thread-safe."""

    def __init__(self, permits: AccessControl) -> None:
        self._permits = permits

    def of(self, page: CapturedPage) -> CopyWarning:
        """Return the warnings for a page."""
        holds = self._permits.holds
        return CopyWarning(
            threat=self._permits.threats((page.page_id,)).get(page.page_id),
            listed=holds.listed(page.url, page.final_url),
            scan=self._permits.scan(page.page_id) if page.is_download else None,
            is_unscanned_held=holds.unscanned is UnscannedPolicy.HOLD,
        )

    def of_url(self, url: str) -> ListHit | None:
        """Return the list entry of a URL, for the warning before a link to the live web."""
        return self._permits.holds.listed(url)


_MOST_CACHED = 5_000
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CaptureRepresentation:
    """Device, viewport, language and login of a capture."""

    is_phone: bool  # captured with a phone profile; else desktop
    width: int  # of the viewport, in CSS pixels; 0: not known
    height: int  # of the viewport, in CSS pixels
    language: str  # the browser's first Accept-Language; empty when not recorded
    is_logged_in: bool  # the page was visited with a login
    stored: str = str(DEFAULT_STORED_LEVEL)  # stored level (`core.config.stored_level`)
    imported_from: str = ""  # name of the file that another program made; empty when we captured it
    software: str = ""  # that program, as the file states it


def representations(records: PageRecords) -> Callable[[CapturedPage], CaptureRepresentation | None]:
    """Return a function that reads a page's representation from its manifest, None without one. Thread-safe.

    None also when it names no viewport, everything was stored, and it is not an import.
    """

    # A manifest may have ten thousand resources.
    @cachetools.cached(cachetools.LRUCache(_MOST_CACHED), key=lambda page: page.page_id, lock=threading.Lock())
    def read(page: CapturedPage) -> CaptureRepresentation | None:
        manifest = records.manifest(page) if ArtifactKind.PAGEINFO in page.artifacts else None
        if manifest is None:
            return None
        screen, stored, origin = manifest.screen, manifest.stored, manifest.imported
        if screen is None and stored == DEFAULT_STORED_LEVEL and origin is None:
            return None
        of_screen: tuple[bool, int, int, str, bool] = (False, 0, 0, "", False)
        if screen is not None:
            of_screen = (screen.mobile, screen.width, screen.height, manifest.language, bool(manifest.login))
        imported = (origin.source.partition("!")[0], origin.software) if origin is not None else ("", "")
        return CaptureRepresentation(*of_screen, stored, *imported)

    return read


MOST_DRIFTS_LISTED = 10  # longest list with skews by default
_PATIENCE_S = 2.0
_MOST_BYTES = 1_000
_MOST_ASKING = 8  # of the front's threads; a page is shown without its skew rather than late
_FACT = re.compile(rb"(shown|other|earlier|later) (\d{1,15})\n")


@dataclass(frozen=True, slots=True)
class TemporalDrift:
    """Difference in time between a copy and its subresources."""

    shown: int  # number of subresources shown
    other: int  # how many of them come from another visit
    earlier: int  # seconds by which the oldest of these precedes the page; 0: none does
    later: int  # seconds by which the newest of these follows the page; 0: none does


class DriftClient:
    """HTTP client for replay's drift counts. Thread-safe."""

    def __init__(self, replay_origin: str, *, inner: str = "") -> None:
        """Store replay's public origin, and the internal one if it differs."""
        self._host = urlsplit(replay_origin).netloc
        self._inner = urlsplit(inner or replay_origin)
        self._connections = threading.BoundedSemaphore(_MOST_ASKING)

    def of(self, url: str, timestamp: str) -> TemporalDrift | None:
        """Return the drift of a copy; None when replay does not provide it."""
        place = self._inner
        make = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
        path = memento_path(Memento(timestamp, MementoModifier.SKEW, url))
        if not self._connections.acquire(blocking=False):
            return None
        try:
            with closing(make(place.hostname or "", place.port, timeout=_PATIENCE_S)) as connection:
                connection.request("GET", path, headers={"Host": self._host})
                response = connection.getresponse()
                body = response.read(_MOST_BYTES) if response.status == 200 else b""
        except (OSError, http.client.HTTPException, ValueError) as error:
            _LOG.info("front.skew_unknown: %s", error)
            return None
        finally:
            self._connections.release()
        facts = {name.decode(): int(number) for name, number in _FACT.findall(body)}
        return TemporalDrift(**facts) if len(facts) == 4 else None


def rough_distance(seconds: int) -> tuple[str, int]:
    """Return a duration in rounded form: the unit, and the number of units.

    >>> rough_distance(40), rough_distance(3 * 86_400 + 60), rough_distance(90)
    (('second', 40), ('day', 3), ('minute', 2))
    """
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return unit, (seconds * 2 + size) // (2 * size)
    return "second", seconds
