"""Lists of hash prefixes as files: written once, then only looked up.

A file holds, for each length from 4 to 32 bytes, the prefixes of that length, sorted, one behind the
other. A look-up is a bisection in the mapped file: nothing is loaded, and ten million prefixes cost
twenty-four comparisons.

    WEBOID PREFIXES 1                           a line
    {"sections": [[4, 1000000], [32, 7]]}       a line: length and count, in the order of the data
    data
"""

import json
import mmap
import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from core.errors import InputError, TransientError

SHORTEST, LONGEST = 4, 32  # bytes
_MAGIC = b"WEBOID PREFIXES 1\n"
_LINE = re.compile(rb"[0-9A-Fa-f]+")


def hex_prefixes(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The prefixes that a text holds, one in hexadecimal a line; empty lines and ``#`` are passed over.

    Raises:
        InputError: a line is something else; the text names it.
    """
    for number, line in enumerate(lines, 1):
        text = line.partition(b"#")[0].strip()
        if not text:
            continue
        size = len(text) // 2
        if not _LINE.fullmatch(text) or len(text) % 2 or not SHORTEST <= size <= LONGEST:
            raise InputError(
                f"Line {number} is no hash prefix: 8 to 64 hexadecimal digits are, an even number."
            )
        yield bytes.fromhex(text.decode())


def binary_prefixes(data: bytes, width: int) -> Iterator[bytes]:
    """The prefixes that stand one behind the other, each of `width` bytes.

    Raises:
        InputError: the data are no multiple of it, or it is none that a prefix has.
    """
    if not SHORTEST <= width <= LONGEST:
        raise InputError(f"A prefix has {SHORTEST} to {LONGEST} bytes, not {width}.")
    if len(data) % width:
        raise InputError(f"{len(data)} bytes are no prefixes of {width} bytes each.")
    return (data[start : start + width] for start in range(0, len(data), width))


def write_prefixes(path: Path, prefixes: Iterable[bytes]) -> int:
    """Write the file, whole or not at all; how many different prefixes it holds.

    Raises:
        InputError: there are none.
        TransientError: the file cannot be written.
    """
    by_width: dict[int, set[bytes]] = {}
    for prefix in prefixes:
        by_width.setdefault(len(prefix), set()).add(prefix)
    if not by_width:
        raise InputError("The list is empty.")
    sections = [[width, len(found)] for width, found in sorted(by_width.items())]
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(_MAGIC + json.dumps({"sections": sections}).encode() + b"\n")
            for width, _ in sections:
                file.writelines(sorted(by_width.pop(width)))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise TransientError(f"The list cannot be written: {error}.") from error
    return sum(count for _, count in sections)


class PrefixFile:
    """A list that is there. From any thread; it is let go of with the last who holds it.

    Raises:
        TransientError: it is not there, or is none: playback fails closed.
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if self._data[: len(_MAGIC)] != _MAGIC:
                raise ValueError("it is none")  # noqa: TRY301 one way out
            end = self._data.find(b"\n", len(_MAGIC)) + 1
            sections = json.loads(self._data[len(_MAGIC) : end])["sections"]
            self._sections: list[tuple[int, int, int]] = []  # width, count, where it begins
            for width, count in sections:
                self._sections.append((int(width), int(count), end))
                end += int(width) * int(count)
            if end != len(self._data):
                raise ValueError("it is not whole")  # noqa: TRY301 as above
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TransientError(f"The list {path.name} cannot be read: {error}.") from error

    def find(self, full_hash: bytes) -> int:
        """How many bytes of the hash an entry of the list has; 0 when none is a beginning of it."""
        for width, count, start in reversed(self._sections):  # the longest says the most
            wanted = full_hash[:width]

            def entry(number: int, width: int = width, start: int = start) -> bytes:
                return self._data[start + number * width : start + (number + 1) * width]

            place = bisect_left(range(count), wanted, key=entry)
            if place < count and entry(place) == wanted:
                return width
        return 0
