"""Response bodies held in memory or in a file until they are written."""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

HELD_BYTES = 16 << 20  # one body in memory
MEMORY_BYTES = 128 << 20  # all bodies in memory
READ_BYTES = 1 << 20


class SpoolSpace:
    """Folder and memory allowance shared by the spools of a process. Thread-safe."""

    def __init__(self, folder: Path, *, memory_bytes: int = MEMORY_BYTES) -> None:
        self.folder = folder
        self._left = memory_bytes
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take that much memory; return False when it is not available."""
        with self._lock:
            if self._left < size:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        """Release memory that was taken."""
        with self._lock:
            self._left += size


class BodySpool:
    """Body as received. Written by one thread, then read by another, then closed."""

    __slots__ = ("_file", "_held", "_pieces", "_space", "size")

    def __init__(self, space: SpoolSpace) -> None:
        self._space = space
        self._pieces: list[bytes | bytearray] = []
        self._held = 0
        self._file: BinaryIO | None = None
        self.size = 0

    @property
    def in_memory(self) -> bool:
        """Return whether `pieces` are all in memory."""
        return self._file is None

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
