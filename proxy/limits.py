"""Byte and time limits for a response, a visit and a run.

The counter file holds one 64-bit number for each proxy; a proxy adds to its own and reads all, so
no lock is needed.

Bytes are counted while they arrive, since responses that matter here may never end.
"""

import mmap
import threading
from dataclasses import dataclass
from pathlib import Path

from core.config.settings import ProxySettings
from core.errors import DiskFullError, WeboidError
from proxy.visit_registry import VisitSession
from warc.local_storage import DiskReserve

_SLOT_BYTES = 8


def create_counter_file(path: Path, proxies: int) -> None:
    """Create the counter file for that number of proxies."""
    path.write_bytes(bytes(_SLOT_BYTES * proxies))


class ByteCounter:
    """Counter of one proxy; without a file it counts on its own. Thread-safe; `close` it."""

    def __init__(self, path: Path | None = None, slot: int = 0) -> None:
        self._slot = slot
        self._lock = threading.Lock()
        if path is None:
            self._map = mmap.mmap(-1, _SLOT_BYTES)
        else:
            with path.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), 0)
        self._numbers = memoryview(self._map).cast("Q")

    def add(self, count: int) -> int:
        """Add bytes; return the total of all proxies."""
        with self._lock:
            self._numbers[self._slot] += count
        return self.total()

    def total(self) -> int:
        """Return the bytes received by all proxies."""
        return sum(self._numbers)

    def close(self) -> None:
        """Release the memory map."""
        self._numbers.release()
        self._map.close()


_VISIT = "limit: visit_limit_bytes"
_CRAWL = "limit: crawl_limit_bytes"


@dataclass(frozen=True, slots=True)
class LimitExcess:
    """A limit that was reached."""

    truncated: str  # the WARC-Truncated of the record (WARC/1.1, 5.13)
    reason: str  # name of the limit, for the log
    failure: WeboidError | None = None  # set when the whole visit failed and should be repeated


class ReceiveLimits:
    """Limits of a proxy process. Thread-safe."""

    def __init__(self, settings: ProxySettings, tally: ByteCounter, disk: DiskReserve) -> None:
        self._body_bytes = settings.body_limit_bytes
        self._visit_bytes = settings.visit_limit_bytes
        self._crawl_bytes = settings.crawl_limit_bytes
        self._seconds = settings.response_limit_s
        self._tally = tally
        self._disk = disk

    def count(self, visit: VisitSession, received: int) -> None:
        """Add bytes that a visit received."""
        visit.receive(received)
        if self._crawl_bytes:
            self._tally.add(received)

    def crawl_is_over(self) -> bool:
        """Return whether the run has reached its byte limit."""
        return bool(self._crawl_bytes) and self._tally.total() >= self._crawl_bytes

    def refusal(self, visit: VisitSession) -> str:
        """Return the reason to refuse a new request of the visit; empty when it is allowed."""
        if visit.received >= self._visit_bytes:
            return _VISIT
        return _CRAWL if self.crawl_is_over() else ""

    def excess(self, visit: VisitSession, body_bytes: int, seconds: float) -> LimitExcess | None:
        """Return the limit that a response of that size and duration has reached; None if none."""
        if body_bytes >= self._body_bytes:
            return LimitExcess("length", "limit: body_limit_bytes")
        if seconds > self._seconds:
            return LimitExcess("time", "limit: response_limit_s")
        used_up = self.refusal(visit)
        if used_up:
            return LimitExcess("length", used_up)
        if self._disk.is_low():
            failure = DiskFullError("Half of the reserve is used: free some space, then resume.")
            return LimitExcess("unspecified", "limit: disk_reserve_bytes", failure)
        return None

    def room(self, body_bytes: int) -> int:
        """Return the number of bytes of the body that may still be stored."""
        return self._body_bytes - body_bytes
