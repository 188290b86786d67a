"""The address of a picture that a document or a style sheet names; drawn here when it is within it.

To be called in a maker (`playback.replay.making`) only: SVG in a ``data:`` URL is drawn on the spot.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from core.errors import PermanentError
from playback.replay.rewriting import Rewriter
from playback.replay.svg import Drawing, raster_svg

_LONGEST = 200_000  # characters; icons have a few hundred


def picture_address(value: str, rewriter: Rewriter) -> str | None:
    """Where the picture is shown from; None when it is not to be shown."""
    value = value.strip()
    if value.startswith("#"):  # a part of this very document is no picture
        return None
    if value[:18].lower() != "data:image/svg+xml":
        return rewriter.image(value)
    return _drawn(value) if rewriter.has_images and len(value) <= _LONGEST else None


def data_url(png: bytes) -> str:
    """The picture as a ``data:`` URL."""
    return f"data:image/png;base64,{b64encode(png).decode()}"


@lru_cache(maxsize=256)
def _drawn(value: str) -> str | None:
    said, comma, content = value.partition(",")
    if not comma:
        return None
    try:
        data = unquote_to_bytes(content)
        if said.lower().rstrip().endswith(";base64"):
            data = b64decode(data)
        return data_url(raster_svg(data, Drawing()))
    except (PermanentError, Base64Error, ValueError):
        return None
