"""Bytes received by all proxies of a run, counted in memory that they share.

A file of one 64-bit number a proxy; each adds to its own and reads all, so nobody waits for a lock.
"""

import mmap
import threading
from pathlib import Path

_SLOT_BYTES = 8


def make_tally(path: Path, proxies: int) -> None:
    """Make the file that so many proxies count in."""
    path.write_bytes(bytes(_SLOT_BYTES * proxies))


class Tally:
    """One proxy's place in the count; without a file it counts alone. Thread-safe; `close` it."""

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
        """Add bytes; how many there are in all."""
        with self._lock:
            self._numbers[self._slot] += count
        return self.total()

    def total(self) -> int:
        """How many bytes all proxies have received."""
        return sum(self._numbers)

    def close(self) -> None:
        """Let go of the memory."""
        self._numbers.release()
        self._map.close()
