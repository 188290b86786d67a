"""The pixels of a PNG of 8-bit colours, whoever wrote it, four times as fast as Pillow.

The reader is the one of Rust's image libraries (kornia-rs): it undoes a row's filter with the processor's
wide instructions, and is stricter than Pillow. What it will not read is left to Pillow, and so is every
PNG that says more of its pixels than their colours: transparency beside them, turns, animation.
"""

from collections.abc import Iterator

import numpy as np
from kornia_rs import io
from numpy.typing import NDArray

from render.compare.scanlines import LEFT_OUT, SIGNATURE

_MODES = {b"\x08\x02": "rgb", b"\x08\x06": "rgba"}  # depth and colour: PNG, 3rd edition, table 11.1


def read_colours(data: bytes) -> NDArray[np.uint8] | None:
    """Its pixels, rows by columns by RGB or RGBA; None when it is a PNG of another sort, or damaged.

    The size that it claims must have been judged before.
    """
    mode = _MODES.get(data[24:26])
    if not data.startswith(SIGNATURE) or mode is None or LEFT_OUT & set(_names(data)):
        return None
    size = (int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big"))
    try:
        found: NDArray[np.uint8] = io.decode_image_png_u8(data, size, mode)
    except Exception:  # noqa: BLE001 # the reader has no class of its own for what it cannot read
        return None
    return found


def _names(data: bytes) -> Iterator[bytes]:
    """Of which parts it is made."""
    at = len(SIGNATURE)
    while at + 8 <= len(data):
        yield data[at + 4 : at + 8]
        at += 12 + int.from_bytes(data[at : at + 4], "big")
