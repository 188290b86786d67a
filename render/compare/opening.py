"""Pictures from bytes that nobody vouches for.

A picture's size is read from its first bytes, before anything is unpacked: a small file may claim a
picture that no memory holds.
"""

import io
import struct
import warnings

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from core.errors import PictureError
from render.compare.scanlines import read_rows

Pixels = NDArray[np.uint8]  # rows by columns by RGB

FORMATS = ("PNG", "JPEG", "WEBP")
MOST_PIXELS = 60_000_000
MOST_BYTES = 120_000_000
LONGEST_SIDE_PX = 65_535


def open_picture(data: bytes) -> Pixels:
    """The picture's pixels as RGB; what is transparent is laid on white, as a browser does.

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
            if image.format == "PNG" and (rows := read_rows(data)) is not None:
                return rows
            image.load()
            return np.asarray(_opaque(image))
    except UnidentifiedImageError as error:
        raise PictureError("This is no PNG, JPEG or WebP picture.") from error
    except Image.DecompressionBombError as error:
        raise PictureError(f"The picture is too large: {error}") from error
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


def _check_size(width: int, height: int) -> None:
    if max(width, height) > LONGEST_SIDE_PX or width * height > MOST_PIXELS:
        raise PictureError(
            f"The picture is {width:,} by {height:,} pixels; at most {MOST_PIXELS:,} pixels"
            f" and {LONGEST_SIDE_PX:,} on a side are compared."
        )


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
