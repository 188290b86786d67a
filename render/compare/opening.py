"""Pictures from bytes that nobody vouches for.

A picture's size is read from its first bytes, before anything is unpacked: a small file may claim a
picture that no memory holds.
"""

import io
import struct
import warnings

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from core.errors import PictureError
from render.compare.colours import read_colours
from render.compare.scanlines import read_rows

Pixels = NDArray[np.uint8]  # rows by columns by RGB

FORMATS = ("PNG", "JPEG", "WEBP")
MOST_PIXELS = 60_000_000
MOST_BYTES = 120_000_000
LONGEST_SIDE_PX = 65_535
# What is done to a picture for each orientation of EXIF's but the first, which is as it is.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def open_picture(data: bytes) -> Pixels:
    """The picture's pixels as RGB, as a browser shows them.

    What is transparent is laid on white, what EXIF says to turn is turned, and of an animation the
    first frame counts.

    Raises:
        PictureError: it is damaged, cut off, empty, too large, or no PNG, JPEG or WebP.
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
            if image.format == "PNG" and (pixels := _quickly(data)) is not None:
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


def _quickly(data: bytes) -> Pixels | None:
    """A PNG's pixels as RGB, where a reader that is quicker than Pillow knows its sort."""
    if (rows := read_rows(data)) is not None:
        return rows
    found = read_colours(data)
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
    """The picture with 256 shades; Pillow cuts off what is above when it converts greys of 16 bits."""
    if not image.mode.startswith("I"):
        return image
    turned = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    turned.info = image.info
    return turned


def _turned(image: Image.Image) -> Image.Image:
    """The picture as its EXIF says that it stands; what is no EXIF says nothing."""
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
