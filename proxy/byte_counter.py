"""Counter of the bytes that a run's proxies have received: a mapped file with one number each, without locks."""

import mmap
import threading
from pathlib import Path

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
