"""Pictures that no browser is handed as they are, as PNG: SVG, and the formats of old pages.

To be called in a maker (`playback.replay.making`) only, whose time and memory are bounded.
"""

import io
import struct
from typing import TYPE_CHECKING

from core.errors import PermanentError
from playback.replay.images import image_type
from playback.replay.sniffing import RasterKind, raster_kind
from playback.replay.svg import Drawing, raster_svg

if TYPE_CHECKING:
    from PIL.Image import Image

_MOST_PIXELS = 16_000_000
# What is handed to whoever asks is no larger than icons are.
_MOST_MASK_PIXELS = 512 * 512
_MASKS = ("PNG", "GIF", "WEBP", "JPEG")


def raster(data: bytes, scale: float = 1.0) -> bytes:
    """The picture as PNG; an SVG has `scale` pixels to each of its own.

    Raises:
        PermanentError: it is none of these formats, damaged, or too large.
    """
    kind = raster_kind(data)
    if kind is RasterKind.SVG:
        return raster_svg(data, Drawing(scale=scale))
    if kind is None:
        raise PermanentError("This is no picture.")
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=[kind.value]) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise PermanentError("A picture that is too large.")
            return _png(image)
    except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError) as error:
        raise PermanentError("A picture that is damaged.") from error


def mask(data: bytes) -> bytes:
    """The shape of a small picture as PNG: black, as opaque as the picture is.

    Raises:
        PermanentError: it is no picture, damaged, or too large.
    """
    if raster_kind(data) is RasterKind.SVG:
        data = raster_svg(data, Drawing())
    if image_type(data) is None:
        raise PermanentError("This is no picture.")
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=_MASKS) as image:
            if image.width * image.height > _MOST_MASK_PIXELS:
                raise PermanentError("A picture that is too large for a mask.")
            shape = Image.new("LA", image.size)
            shape.putalpha(image.convert("RGBA").getchannel("A"))
        with io.BytesIO() as buffer:
            shape.save(buffer, "PNG")
            return buffer.getvalue()
    except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError) as error:
        raise PermanentError("A picture that is damaged.") from error


def _png(image: "Image") -> bytes:
    with io.BytesIO() as buffer:
        image.convert("RGBA").save(buffer, "PNG")
        return buffer.getvalue()
