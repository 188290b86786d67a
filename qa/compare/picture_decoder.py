"""Decoder of untrusted PNG, JPEG and WebP pictures into RGB arrays.

A PNG is read by Rust's image libraries (kornia-rs), which reverse row filters with SIMD
instructions and are stricter than Pillow: a screenshot takes a third of the time. They are not used
for a PNG with additional chunks that change its appearance: transparency, orientation, animation.
Pillow reads all others.

The size of a picture is read from its first bytes and checked before decompression: a small file
may declare a picture that exceeds memory.
"""

import io
import struct
import warnings

import numpy as np
from kornia_rs import io as kornia_io
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from core.errors import PictureError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LEFT_OUT = {b"tRNS", b"acTL", b"eXIf"}  # transparency, animation, turns: they change what is seen
_MODES = {b"\x08\x02": "rgb", b"\x08\x06": "rgba"}  # depth and colour: PNG, 3rd edition, table 11.1


def decode_8bit_png(data: bytes) -> NDArray[np.uint8] | None:
    """Decode to rows by columns by RGB or RGBA; None for another kind of PNG, or a damaged one.

    The declared size must have been checked before.
    """
    mode = _MODES.get(data[24:26])
    if not data.startswith(SIGNATURE) or mode is None:
        return None
    at = len(SIGNATURE)
    while at + 8 <= len(data):
        if data[at + 4 : at + 8] in LEFT_OUT:
            return None
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    width, height = struct.unpack(">II", data[16:24])
    try:
        found: NDArray[np.uint8] = kornia_io.decode_image_png_u8(data, (height, width), mode)
    except Exception:  # noqa: BLE001 # the reader has no class of its own for what it cannot read
        return None
    return found


Pixels = NDArray[np.uint8]  # rows by columns by RGB

FORMATS = ("PNG", "JPEG", "WEBP")
MOST_PIXELS = 60_000_000
MOST_BYTES = 120_000_000
LONGEST_SIDE_PX = 65_535
_UNREADABLE = (OSError, ValueError, SyntaxError, LookupError, struct.error)
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
            width, height = image.size
            if max(width, height) > LONGEST_SIDE_PX or width * height > MOST_PIXELS:
                raise PictureError(
                    f"The picture is {width:,} by {height:,} pixels; at most {MOST_PIXELS:,} pixels"
                    f" and {LONGEST_SIDE_PX:,} on a side are compared."
                )
            pixels = decode_8bit_png(data) if image.format == "PNG" else None
            if pixels is not None:
                if pixels.shape[2] == 3:
                    return pixels
                if pixels[..., 3].min() == 255:
                    return np.ascontiguousarray(pixels[..., :3])
                return np.asarray(_opaque(Image.fromarray(pixels)))
            image.load()
            return np.asarray(_opaque(_turned(_of_8_bits(image))))
    except UnidentifiedImageError as error:
        raise PictureError("This is no PNG, JPEG or WebP picture.") from error
    except Image.DecompressionBombError as error:
        raise PictureError(
            f"The picture is too large: at most {MOST_PIXELS:,} pixels are compared."
        ) from error
    except (*_UNREADABLE, EOFError, OverflowError) as error:
        raise PictureError(f"The picture is damaged: {error}.") from error


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
    except (*_UNREADABLE, TypeError):
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
