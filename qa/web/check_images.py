"""Pictures of checks as the web server sends them, with thumbnails.

They are files left by checks of broken and doubtful copies (`core.playback_check.picture_name`). Their content comes
from the web: they are sent only as pictures, cached only by the reader's browser, and revalidated each time, so that a
take-down takes effect at once. What is missing, damaged or no picture raises HTTPException 404.
"""

import io
import threading
from functools import lru_cache
from pathlib import Path

from PIL import Image
from starlette.exceptions import HTTPException

from core.errors import InputError
from core.playback_check import PICTURES, picture_name

MOST_BYTES = 16_000_000
MEDIA_TYPE = "image/webp"
THUMBNAIL_SIZE = (224, 140)  # twice what lists show, for dense screens
_MOST_PIXELS = 40_000_000
_MOST_SMALL = 2_000  # kept in memory, about 5 kB each


class CheckPictureFolder:
    """Pictures in a folder, which need not exist. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._making = threading.BoundedSemaphore(2)  # decoding takes a core and 30 MB each
        self._thumbnail = lru_cache(_MOST_SMALL)(self._make_thumbnail)

    def kinds(self, page_id: str, level: str) -> frozenset[str]:
        """Return the kinds of pictures that a check has."""
        try:
            names = {kind: picture_name(page_id, level, kind) for kind in PICTURES}
        except InputError:
            return frozenset()
        return frozenset(kind for kind, name in names.items() if (self._folder / name).is_file())

    def whole(self, page_id: str, level: str, kind: str) -> bytes:
        """Return a picture as stored."""
        return self._read(self._path(page_id, level, kind))

    def small(self, page_id: str, level: str, kind: str) -> bytes:
        """Return a thumbnail of a picture's upper part, for lists."""
        path = self._path(page_id, level, kind)
        try:
            status = path.stat()
        except OSError:
            raise HTTPException(404) from None
        return self._thumbnail(path, status.st_mtime_ns, status.st_size)

    def _make_thumbnail(self, path: Path, _modified_ns: int, _size: int) -> bytes:
        with self._making:
            return make_thumbnail(self._read(path))

    def _path(self, page_id: str, level: str, kind: str) -> Path:
        try:
            return self._folder / picture_name(page_id, level, kind)
        except InputError:
            raise HTTPException(404) from None

    def _read(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                body = file.read(MOST_BYTES + 1)
        except OSError:
            raise HTTPException(404) from None
        if len(body) > MOST_BYTES or body[:4] != b"RIFF" or body[8:12] != b"WEBP":
            raise HTTPException(404)
        return body


def make_thumbnail(body: bytes) -> bytes:
    """Scale the upper part of a WebP picture to `THUMBNAIL_SIZE`, as WebP."""
    try:
        with Image.open(io.BytesIO(body), formats=["WEBP"]) as image:
            wide, high = image.size
            if wide * high > _MOST_PIXELS:
                raise HTTPException(404)
            upper = image.convert("RGB").crop((0, 0, wide, min(high, wide * THUMBNAIL_SIZE[1] // THUMBNAIL_SIZE[0])))
            upper.thumbnail(THUMBNAIL_SIZE)
            with io.BytesIO() as buffer:
                upper.save(buffer, "WEBP", quality=70)
                return buffer.getvalue()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        raise HTTPException(404) from None
