"""PNG pictures of equal width joined one below the other without decoding a pixel (PNG, 3rd edition).

A PNG is one zlib stream of rows, each filtered by the rows before it in its own picture. Joined, a row
only differs in what stands above it, and that matters to the first row of a part alone: that row is
written unfiltered, and all others as they are. Memory holds one part at a time, and the result.
"""

import struct
import zlib
from collections.abc import Iterator

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHUNK_LIMIT = 1 << 31
_CHANNELS = {0: 1, 2: 3, 6: 4}  # grey, RGB, RGBA: table 11.1


class BadPngError(ValueError):
    """It is not a PNG of the sort that the browser writes, or not like the others."""


class Joiner:
    """Takes parts from top to bottom and gives one picture back."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(level=1)
        self._data: list[bytes] = []
        self._header = b""
        self.width = 0
        self.height = 0

    def add(self, png: bytes) -> None:
        """Put a part below those before it.

        Raises:
            BadPngError: it is damaged, interlaced, of other than 8 bits, or unlike those before it.
        """
        header, packed = _read(png)
        width, height = struct.unpack(">II", header[:8])
        if header[8] != 8 or header[9] not in _CHANNELS or header[10:] != b"\0\0\0":
            raise BadPngError("A PNG of a sort that the browser does not write.")
        if self._header and (width, header[8:]) != (self.width, self._header):
            raise BadPngError("A part of another width or sort than the first.")
        step = _CHANNELS[header[9]]
        try:
            rows = zlib.decompress(packed)
        except zlib.error as error:
            raise BadPngError(f"A damaged PNG: {error}.") from error
        row_bytes = 1 + width * step
        if len(rows) != row_bytes * height or height == 0:
            raise BadPngError("A PNG with other rows than it says.")
        first = b"\0" + _unfiltered_first(rows[:row_bytes], step)
        self._data.append(self._packer.compress(first))
        self._data.append(self._packer.compress(memoryview(rows)[row_bytes:]))
        self.width, self._header = width, header[8:]
        self.height += height

    def picture(self) -> bytes:
        """All parts as one PNG.

        Raises:
            BadPngError: there is none, or it would be larger than a PNG can be.
        """
        if not self._header:
            raise BadPngError("A picture without a part.")
        data = b"".join([*self._data, self._packer.flush()])
        if len(data) >= _CHUNK_LIMIT or self.height >= _CHUNK_LIMIT:
            raise BadPngError("A picture larger than a PNG can be.")
        header = struct.pack(">II", self.width, self.height) + self._header
        return b"".join(
            (SIGNATURE, *_chunk(b"IHDR", header), *_chunk(b"IDAT", data), *_chunk(b"IEND", b""))
        )


def _read(png: bytes) -> tuple[bytes, bytes]:
    """The header's fields, and the packed rows."""
    if png[:8] != SIGNATURE:
        raise BadPngError("Not a PNG.")
    header = b""
    packed: list[bytes] = []
    for name, body in _chunks(png):
        if name == b"IHDR":
            header = body
        elif name == b"IDAT":
            packed.append(body)
        elif name == b"PLTE":
            raise BadPngError("A PNG with a palette.")
    if len(header) != 13:
        raise BadPngError("A PNG without its header.")
    return header, b"".join(packed)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at + 12 <= len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length


def _chunk(name: bytes, body: bytes) -> tuple[bytes, ...]:
    crc = zlib.crc32(body, zlib.crc32(name))
    return (struct.pack(">I", len(body)), name, body, struct.pack(">I", crc))


def _unfiltered_first(row: bytes, step: int) -> bytes:
    """The bytes of a first row, above which all is zero (9.2: Sub, Up, Average, Paeth)."""
    kind, data = row[0], bytearray(row[1:])
    if kind in (0, 2):
        return bytes(data)
    if kind not in (1, 3, 4):
        raise BadPngError("A row with a filter that there is not.")
    for at in range(step, len(data)):
        # With nothing above, Paeth always predicts from the left, and Average takes half of it.
        left = data[at - step]
        data[at] = (data[at] + (left >> 1 if kind == 3 else left)) & 0xFF
    return bytes(data)
