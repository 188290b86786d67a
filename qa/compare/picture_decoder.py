"""Decoder of untrusted PNG, JPEG and WebP pictures into RGB arrays.

Pillow is the fallback of two faster decoders. The first reads Chromium's fast PNGs, which have 8
bits
per channel, no alpha, and rows filtered with Up (PNG, 3rd edition, 9.2); parts joined by
`render.screenshot` begin with an unfiltered row. Both are undone by adding each row to the next.

The second is that of Rust's image libraries (kornia-rs): it reverses row filters with SIMD
instructions, and is stricter than Pillow. It is not used for a PNG with additional chunks that
change its appearance: transparency, orientation, animation.

The size of a picture is read from its first bytes and checked before decompression: a small file
may
declare a picture that exceeds memory.
"""

import io
import struct
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from isal import igzip_lib, isal_zlib
from kornia_rs import io as kornia_io
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from core.errors import PictureError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB8 = b"\x08\x02\x00\x00\x00"  # depth, colour, packing, filters, interlacing: table 11.1
LEFT_OUT = {b"tRNS", b"acTL", b"eXIf"}  # transparency, animation, turns: they change what is seen
_AS_IS, _UP = 0, 2
_AT_ONCE = 128  # rows that are unpacked together: memory is touched once, and what is touched is in the cache


def decode_browser_png(data: bytes) -> NDArray[np.uint8] | None:
    """Decode to rows by columns by RGB; None for another kind of PNG, or a damaged one.

    The declared size must have been checked before.
    """
    if not data.startswith(SIGNATURE) or data[24:29] != _RGB8:
        return None
    width, height = struct.unpack(">II", data[16:24])
    unpacker = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_ZLIB)
    pixels = np.empty((height, 3 * width), np.uint8)
    above = np.zeros(3 * width, np.uint8)
    try:
        rest = b"".join(_packed(data))
        for first in range(0, height, _AT_ONCE):
            count = min(_AT_ONCE, height - first)
            raw, rest = _unpacked(unpacker, rest, count * (1 + 3 * width)), b""
            above = _unfilter(raw.reshape(count, -1), above, pixels[first : first + count])
        if not unpacker.eof and (unpacker.decompress(rest, 1) or not unpacker.eof):
            return None
    except (igzip_lib.error, EOFError, ValueError):  # type: ignore[misc] # the stub makes it an instance
        return None
    return pixels.reshape(height, width, 3)


def _unpacked(unpacker: Any, data: bytes, size: int) -> NDArray[np.uint8]:
    """Decompress the given number of bytes.

    Raises:
        ValueError: the data is too short.
    """
    found: bytes = unpacker.decompress(data, size)
    while len(found) < size:
        more = unpacker.decompress(b"", size - len(found))
        if not more:
            raise ValueError
        found += more
    return np.frombuffer(found, np.uint8)


def _unfilter(
    rows: NDArray[np.uint8], above: NDArray[np.uint8], pixels: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Write the pixels of some rows, given the row above; return the last row.

    Raises:
        ValueError: a row has a filter that the browser does not use.
    """
    # Row by row they stay in the cache: `np.add.accumulate` takes twenty times as long.
    for kind, row, here in zip(rows[:, 0].tolist(), rows[:, 1:], pixels, strict=True):
        if kind == _UP:
            np.add(above, row, out=here)
        elif kind == _AS_IS:
            here[:] = row
        else:
            raise ValueError
        above = here
    return above


def _packed(data: bytes) -> Iterator[memoryview]:
    """Yield the compressed image data.

    Raises:
        ValueError: a chunk is damaged, missing or unknown.
    """
    at = 8
    whole = memoryview(data)
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        name = data[at + 4 : at + 8]
        checksum = int.from_bytes(data[at + 8 + length : at + 12 + length], "big")
        if name in LEFT_OUT or checksum != isal_zlib.crc32(whole[at + 4 : at + 8 + length]):
            raise ValueError
        if name == b"IEND":
            return
        if name == b"IDAT":
            yield whole[at + 8 : at + 8 + length]
        at += 12 + length
    raise ValueError


_MODES = {b"\x08\x02": "rgb", b"\x08\x06": "rgba"}  # depth and colour: PNG, 3rd edition, table 11.1


def decode_8bit_png(data: bytes) -> NDArray[np.uint8] | None:
    """Decode to rows by columns by RGB or RGBA; None for another kind of PNG, or a damaged one.

    The declared size must have been checked before.
    """
    mode = _MODES.get(data[24:26])
    if not data.startswith(SIGNATURE) or mode is None or LEFT_OUT & set(_names(data)):
        return None
    size = (int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big"))
    try:
        found: NDArray[np.uint8] = kornia_io.decode_image_png_u8(data, size, mode)
    except Exception:  # noqa: BLE001 # the reader has no class of its own for what it cannot read
        return None
    return found


def _names(data: bytes) -> Iterator[bytes]:
    """Yield the names of the chunks."""
    at = len(SIGNATURE)
    while at + 8 <= len(data):
        yield data[at + 4 : at + 8]
        at += 12 + int.from_bytes(data[at : at + 4], "big")


Pixels = NDArray[np.uint8]  # rows by columns by RGB

FORMATS = ("PNG", "JPEG", "WEBP")
MOST_PIXELS = 60_000_000
MOST_BYTES = 120_000_000
LONGEST_SIDE_PX = 65_535
# Operation for each EXIF orientation except the first, which is the identity.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def decode_picture(data: bytes) -> Pixels:
    """Decode a picture to RGB, as a browser shows it.

    Transparency is rendered on white, the EXIF orientation is applied, and the first frame of an
    animation is used.

    Raises:
        PictureError: it is damaged, truncated, empty, too large, or no PNG, JPEG or WebP.
    """
    if not data:
        raise PictureError("The picture is empty: it has no bytes.")
    if len(data) > MOST_BYTES:
        raise PictureError(f"The picture has {len(data):,} bytes; at most {MOST_BYTES:,} are read.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its size is judged below, strictly
            image = Image.open(io.BytesIO(data), formats=FORMATS)
        with image:
            _check_size(*image.size)
            if image.format == "PNG" and (pixels := _decode_fast(data)) is not None:
                return pixels
            image.load()
            return np.asarray(_opaque(_turned(_of_8_bits(image))))
    except UnidentifiedImageError as error:
        raise PictureError("This is no PNG, JPEG or WebP picture.") from error
    except Image.DecompressionBombError as error:
        raise PictureError(
            f"The picture is too large: at most {MOST_PIXELS:,} pixels are compared."
        ) from error
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        LookupError,
        OverflowError,
        struct.error,
    ) as error:
        raise PictureError(f"The picture is damaged: {error}.") from error


def _decode_fast(data: bytes) -> Pixels | None:
    """Decode a PNG to RGB with a decoder faster than Pillow, where one supports it."""
    if (rows := decode_browser_png(data)) is not None:
        return rows
    found = decode_8bit_png(data)
    if found is None or found.shape[2] == 3:
        return found
    if found[..., 3].min() == 255:
        return np.ascontiguousarray(found[..., :3])
    return np.asarray(_opaque(Image.fromarray(found)))


def _check_size(width: int, height: int) -> None:
    if max(width, height) > LONGEST_SIDE_PX or width * height > MOST_PIXELS:
        raise PictureError(
            f"The picture is {width:,} by {height:,} pixels; at most {MOST_PIXELS:,} pixels"
            f" and {LONGEST_SIDE_PX:,} on a side are compared."
        )


def _of_8_bits(image: Image.Image) -> Image.Image:
    """Convert to 8 bits per channel; Pillow's own conversion of 16-bit greys clips."""
    if not image.mode.startswith("I"):
        return image
    turned = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    turned.info = image.info
    return turned


def _turned(image: Image.Image) -> Image.Image:
    """Apply the EXIF orientation; invalid EXIF is ignored."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            orientation = image.getexif().get(ExifTags.Base.Orientation)
    except (OSError, ValueError, SyntaxError, LookupError, TypeError, struct.error):
        return image
    how = _TURNS.get(orientation) if isinstance(orientation, int) else None
    return image if how is None else image.transpose(how)


def _opaque(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image
    if not image.has_transparency_data:
        return image.convert("RGB")
    whole = image.convert("RGBA")
    alpha = whole.getchannel("A")
    if alpha.getextrema() == (255, 255):
        return whole.convert("RGB")
    ground = Image.new("RGB", image.size, "white")
    ground.paste(whole, mask=alpha)
    return ground
