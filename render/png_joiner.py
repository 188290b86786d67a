"""Joiner of PNG parts of a high page into one picture, with one part at a time in memory.

A PNG is one zlib stream of rows, each filtered by the rows above it. Only the first row of a part has another row above
it than before: that row is written unfiltered, and all others as they are.
"""

import struct
import zlib

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHUNK_LIMIT = 1 << 31
_CHANNELS = {0: 1, 2: 3, 6: 4}  # grey, RGB, RGBA: table 11.1


class BadPngError(ValueError):
    """PNG of another format than the browser writes, or unlike the other parts."""


class PngJoiner:
    """Joiner of PNG parts, from top to bottom, into one picture."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(level=1)
        self._data: list[bytes] = []
        self._header = b""
        self.width = 0
        self.height = 0

    def add(self, png: bytes) -> None:
        """Append a part below; BadPngError: it is damaged, interlaced, not of 8 bits, or unlike the parts before it."""
        header, packed = _read_png(png)
        width, height = struct.unpack(">II", header[:8])
        if header[8] != 8 or header[9] not in _CHANNELS or header[10:] != b"\0\0\0":
            raise BadPngError("A PNG of a kind that the browser does not write.")
        if self._header and (width, header[8:]) != (self.width, self._header):
            raise BadPngError("A part of another width or kind than the first.")
        step = _CHANNELS[header[9]]
        try:
            rows = zlib.decompress(packed)
        except zlib.error as error:
            raise BadPngError(f"A damaged PNG: {error}.") from error
        row_bytes = 1 + width * step
        if len(rows) != row_bytes * height or height == 0:
            raise BadPngError("A PNG whose number of rows differs from its header.")
        self._data.append(self._packer.compress(b"\0" + _unfiltered_first(rows[:row_bytes], step)))
        self._data.append(self._packer.compress(memoryview(rows)[row_bytes:]))
        self.width, self._header = width, header[8:]
        self.height += height

    def picture(self) -> bytes:
        """Return all parts as one PNG; BadPngError: there is no part, or the picture exceeds the size limit of PNG."""
        if not self._header:
            raise BadPngError("A picture without a part.")
        data = b"".join([*self._data, self._packer.flush()])
        if len(data) >= _CHUNK_LIMIT or self.height >= _CHUNK_LIMIT:
            raise BadPngError("A picture that is too large for a PNG.")
        header = struct.pack(">II", self.width, self.height) + self._header
        return b"".join((PNG_SIGNATURE, *_chunk(b"IHDR", header), *_chunk(b"IDAT", data), *_chunk(b"IEND", b"")))


def _read_png(png: bytes) -> tuple[bytes, bytes]:
    if png[:8] != PNG_SIGNATURE:
        raise BadPngError("Not a PNG.")
    header = b""
    packed: list[bytes] = []
    at = len(PNG_SIGNATURE)
    while at + 12 <= len(png):
        length, name = int.from_bytes(png[at : at + 4], "big"), png[at + 4 : at + 8]
        body = png[at + 8 : at + 8 + length]
        at += 12 + length
        if name == b"IHDR":
            header = body
        elif name == b"IDAT":
            packed.append(body)
        elif name == b"PLTE":
            raise BadPngError("A PNG with a palette.")
    if len(header) != 13:
        raise BadPngError("A PNG without its header.")
    return header, b"".join(packed)


def _chunk(name: bytes, body: bytes) -> tuple[bytes, ...]:
    return (struct.pack(">I", len(body)), name, body, struct.pack(">I", zlib.crc32(body, zlib.crc32(name))))


def _unfiltered_first(row: bytes, step: int) -> bytes:
    """Return the bytes of a first row, above which all is zero (9.2: Sub, Up, Average, Paeth)."""
    kind, data = row[0], bytearray(row[1:])
    if kind in (0, 2):
        return bytes(data)
    if kind not in (1, 3, 4):
        raise BadPngError("A row with an unknown filter.")
    for at in range(step, len(data)):
        # With nothing above, Paeth always predicts from the left, and Average takes half of it.
        left = data[at - step]
        data[at] = (data[at] + (left >> 1 if kind == 3 else left)) & 0xFF
    return bytes(data)
