"""What the reader page tells of a copy's skew: parts that were captured at another moment (P-10).

Replay knows which parts a copy shows and counts them; the front asks it, and says nothing when it does
not answer soon.
"""

import http.client
import logging
import re
import threading
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from playback.addresses import Memento, Modifier, memento_path

_LOG = logging.getLogger(__name__)

SKEWS_UNASKED = 10  # pages of a list whose skews are told unasked
_PATIENCE_S = 2.0
_MOST_BYTES = 1_000
_MOST_ASKING = 8  # of the front's threads; a page is shown without its skew rather than late
_FACT = re.compile(rb"(shown|other|earlier|later) (\d{1,15})\n")


@dataclass(frozen=True, slots=True)
class Skew:
    """How far the parts of a copy are from its moment.

    Attributes:
        shown: how many parts it shows.
        other: how many of them come from another visit.
        earlier: how many seconds before the page the oldest of these was captured; 0: none was.
        later: how many seconds after it the newest was; 0: none was.
    """

    shown: int
    other: int
    earlier: int
    later: int

    def as_json(self) -> dict[str, int]:
        """The same, for JSON."""
        return asdict(self)

    @property
    def largest(self) -> timedelta:
        """The greatest distance."""
        return timedelta(seconds=max(self.earlier, self.later))


class Skews:
    """Asks replay. From any thread."""

    def __init__(self, replay_origin: str, *, inner: str = "") -> None:
        """Take replay's origin, and where it is reached from here when that is elsewhere."""
        self._host = urlsplit(replay_origin).netloc
        self._inner = urlsplit(inner or replay_origin)
        self._asking = threading.BoundedSemaphore(_MOST_ASKING)

    def of(self, url: str, timestamp: str) -> Skew | None:
        """The skew of a copy; None when replay does not tell."""
        if not self._asking.acquire(blocking=False):
            return None
        try:
            return self._asked(url, timestamp)
        finally:
            self._asking.release()

    def _asked(self, url: str, timestamp: str) -> Skew | None:
        place = self._inner
        make = (
            http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
        )
        path = memento_path(Memento(timestamp, Modifier.SKEW, url))
        try:
            with closing(make(place.hostname or "", place.port, timeout=_PATIENCE_S)) as connection:
                connection.request("GET", path, headers={"Host": self._host})
                response = connection.getresponse()
                body = response.read(_MOST_BYTES) if response.status == 200 else b""
        except (OSError, http.client.HTTPException, ValueError) as error:
            _LOG.info("front.skew_unknown: %s", error)
            return None
        facts = {name.decode(): int(number) for name, number in _FACT.findall(body)}
        return Skew(**facts) if len(facts) == 4 else None


def rough(seconds: int) -> tuple[str, int]:
    """A distance as a person says it: the unit, and how many of them, rounded.

    >>> rough(40), rough(3 * 86_400 + 60), rough(90)
    (('second', 40), ('day', 3), ('minute', 2))
    """
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return unit, (seconds * 2 + size) // (2 * size)
    return "second", seconds
