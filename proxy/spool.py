"""Bytes kept until they are written: in memory while few, in a file when many."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MEMORY_LIMIT_BYTES = 1 << 20
READ_BYTES = 1 << 18


class Spool:
    """A response as it came. Written by one thread, then read by another, then closed."""

    __slots__ = ("_file", "_folder", "_pieces", "size")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pieces: list[bytes] = []
        self._file: BinaryIO | None = None
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Keep the piece.

        Raises:
            OSError: the file that holds long bodies cannot be written.
        """
        self.size += len(piece)
        if self._file is not None:
            self._file.write(piece)
            return
        self._pieces.append(piece)
        if self.size > MEMORY_LIMIT_BYTES:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 closed by close()
            self._file.write(b"".join(self._pieces))
            self._pieces.clear()

    def pieces(self) -> Iterator[bytes]:
        """All that was added, in order, in pieces."""
        if self._file is None:
            yield from self._pieces
            return
        self._file.seek(0)
        while piece := self._file.read(READ_BYTES):
            yield piece

    def close(self) -> None:
        """Let go of the memory and the file."""
        self._pieces.clear()
        if self._file is not None:
            self._file.close()
            self._file = None
