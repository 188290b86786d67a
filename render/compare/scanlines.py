"""The pixels of a PNG as the browser writes it, several times as fast as a reader of any PNG.

Chromium's fast PNGs have 8 bits a channel and no alpha, and each row is told by its difference to the
row above (PNG, 3rd edition, 9.2: Up); parts that `render.tiles` joined begin with a row as it is. Both
are undone by adding each row to the next. Everything else is left to Pillow.
"""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB8 = b"\x08\x02\x00\x00\x00"  # depth, colour, packing, filters, interlacing: table 11.1
_LEFT_OUT = {b"tRNS", b"acTL"}  # transparency, animation: they change what is seen
_AS_IS, _UP = 0, 2


def read_rows(data: bytes) -> NDArray[np.uint8] | None:
    """Its pixels, rows by columns by RGB; None when it is a PNG of another sort, or damaged.

    The size that it claims must have been judged before.
    """
    if not data.startswith(_SIGNATURE) or data[24:29] != _RGB8:
        return None
    width, height = struct.unpack(">II", data[16:24])
    row = 1 + 3 * width
    try:
        packed = b"".join(_packed(data))
        unpacker = isal_zlib.decompressobj()
        raw = unpacker.decompress(packed, row * height + 1)
    except (isal_zlib.error, ValueError):  # type: ignore[misc] # the stub makes it an instance
        return None
    if not unpacker.eof or len(raw) != row * height:
        return None
    return _unfiltered(np.frombuffer(raw, np.uint8).reshape(height, row))


def _unfiltered(rows: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    kinds = rows[:, 0]
    if ((kinds != _UP) & (kinds != _AS_IS)).any():
        return None
    height, width = len(rows), (rows.shape[1] - 1) // 3
    pixels = rows[:, 1:].copy()
    # Row by row they stay in the cache: `np.add.accumulate` takes twenty times as long.
    for above, row, kind in zip(pixels[:-1], pixels[1:], kinds[1:].tolist(), strict=True):
        if kind == _UP:
            np.add(above, row, out=row)
    return pixels.reshape(height, width, 3)


def _packed(data: bytes) -> Iterator[bytes]:
    """What is packed in it.

    Raises:
        ValueError: a part is damaged, missing or not known here.
    """
    at = 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        told = int.from_bytes(data[at + 8 + length : at + 12 + length], "big")
        if name in _LEFT_OUT or told != zlib.crc32(data[at + 4 : at + 8 + length]):
            raise ValueError
        if name == b"IEND":
            return
        if name == b"IDAT":
            yield body
        at += 12 + length
    raise ValueError
