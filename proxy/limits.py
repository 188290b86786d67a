"""Byte and time limits for a response, a visit and a run, while bytes arrive; memory for bodies not yet written."""

from __future__ import annotations

import mmap
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from core.config.settings import ProxySettings
from core.errors import DiskFullError, WeboidError
from warc.local_storage import DiskReserve

if TYPE_CHECKING:
    from proxy.visit_registry import VisitSession


class ByteCounter:
    """Counter of the bytes that a run's proxies receive, without locks between them. Thread-safe; `close` it.

    The memory-mapped file has an unsigned 64-bit number for each, zero at first. Without a file it counts on its own.
    """

    def __init__(self, path: Path | None = None, slot: int = 0) -> None:
        self._slot = slot
        self._lock = threading.Lock()
        if path is None:
            self._map = mmap.mmap(-1, 8)
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


@dataclass(frozen=True, slots=True)
class LimitExcess:
    """A limit that was reached."""

    truncated: str  # the WARC-Truncated of the record (WARC/1.1, 5.13)
    reason: str  # name of the limit, for the log
    failure: WeboidError | None = None  # set when the whole visit failed and should be repeated


class ReceiveLimits:
    """Limits of a proxy process. Thread-safe."""

    def __init__(self, settings: ProxySettings, tally: ByteCounter, disk: DiskReserve) -> None:
        self._settings = settings
        self._tally = tally
        self._disk = disk

    def count(self, visit: VisitSession, received: int) -> None:
        """Add bytes that a visit received."""
        visit.receive(received)
        if self._settings.crawl_limit_bytes:
            self._tally.add(received)

    def crawl_is_over(self) -> bool:
        """Return whether the run has reached its byte limit."""
        return 0 < self._settings.crawl_limit_bytes <= self._tally.total()

    def refusal(self, visit: VisitSession) -> str:
        """Return the reason to refuse a new request of the visit; empty when it is allowed."""
        if visit.received >= self._settings.visit_limit_bytes:
            return "limit: visit_limit_bytes"
        return "limit: crawl_limit_bytes" if self.crawl_is_over() else ""

    def excess(self, visit: VisitSession, body_bytes: int, seconds: float) -> LimitExcess | None:
        """Return the limit that a response of that size and duration has reached; None if none."""
        if body_bytes >= self._settings.body_limit_bytes:
            return LimitExcess("length", "limit: body_limit_bytes")
        if seconds > self._settings.response_limit_s:
            return LimitExcess("time", "limit: response_limit_s")
        if used_up := self.refusal(visit):
            return LimitExcess("length", used_up)
        if self._disk.is_low():
            failure = DiskFullError("Half of the reserve is used: free some space, then resume.")
            return LimitExcess("unspecified", "limit: disk_reserve_bytes", failure)
        return None


HELD_BYTES = 16 << 20  # one body in memory
MEMORY_BYTES = 128 << 20  # all bodies in memory
READ_BYTES = 1 << 20


class ByteAllowance:
    """Number of bytes that several may use. Thread-safe."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take that many bytes; return False when they are not available."""
        with self._lock:
            if self._left < size:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        """Return bytes that were taken."""
        with self._lock:
            self._left += size


class SpoolSpace(ByteAllowance):
    """Folder and memory allowance shared by the spools of a process."""

    def __init__(self, folder: Path, *, memory_bytes: int = MEMORY_BYTES) -> None:
        super().__init__(memory_bytes)
        self.folder = folder


class BodySpool:
    """Body as received. Written by one thread, then read by another, then closed."""

    __slots__ = ("_file", "_held", "_pieces", "_space", "size")

    def __init__(self, space: SpoolSpace) -> None:
        self._space = space
        self._pieces: list[bytes | bytearray] = []
        self._held = 0
        self._file: BinaryIO | None = None
        self.size = 0

    def add(self, piece: bytes | bytearray) -> None:
        """Append a piece. Raises OSError if the file for long bodies cannot be written."""
        size = len(piece)
        self.size += size
        if self._file is None:
            if self.size <= HELD_BYTES and self._space.take(size):
                self._pieces.append(piece)
                self._held += size
                return
            self._file = tempfile.TemporaryFile(dir=self._space.folder)  # noqa: SIM115 closed by close()
            self._file.writelines(self._pieces)
            self._let_go()
        self._file.write(piece)

    def pieces(self) -> Iterator[bytes | bytearray]:
        """Yield all pieces in order."""
        if self._file is None:
            yield from self._pieces
            return
        self._file.seek(0)
        while piece := self._file.read(READ_BYTES):
            yield piece

    def close(self) -> None:
        """Release the memory and the file."""
        self._let_go()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _let_go(self) -> None:
        self._pieces.clear()
        self._space.give_back(self._held)
        self._held = 0
