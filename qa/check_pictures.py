"""Stored pictures of checks, and the erasure of all check results of a page.

Pictures can be made again by another check, so they are stored in the check's cache. A check
without a fault removes those of the previous one.
"""

import io
import os
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from PIL import Image

from core.errors import InputError, PictureError
from core.layout import Layout
from core.playback_check import PICTURES, PlaybackCheck, QaVerdict, picture_name, validate_check_ids
from links.registry.database import open_registry_store
from qa.check_store import delete_checks
from qa.compare.picture_decoder import decode_picture

WIDEST_PX = 1_280
TALLEST_PX = 6_000
_QUALITY = 75
_METHOD = 2  # of 0 to 6; 4 takes three times as long for a twentieth less
_KEPT_FOR = frozenset({QaVerdict.BROKEN, QaVerdict.DOUBTFUL})


def store_pictures(folder: Path, check: PlaybackCheck, pictures: Mapping[str, bytes]) -> None:
    """Store the pictures of a broken or doubtful copy, replacing those of the previous check."""
    wanted = pictures if check.verdict in _KEPT_FOR else {}
    for kind in PICTURES:
        path = folder / picture_name(check.page_id, check.level, kind)
        data = _small(wanted[kind]) if kind in wanted else None
        if data is None:
            path.unlink(missing_ok=True)
        else:
            _write(path, data)


def delete_pictures(folder: Path, page_id: str, level: str) -> None:
    """Delete the pictures of a check, if there are any."""
    for kind in PICTURES:
        (folder / picture_name(page_id, level, kind)).unlink(missing_ok=True)


def _small(picture: bytes) -> bytes | None:
    """Encode the top of a picture as WebP of a bounded size; None when it is no picture."""
    try:
        image = Image.fromarray(decode_picture(picture))
    except PictureError:
        return None
    if image.width > WIDEST_PX:
        height = max(1, round(image.height * WIDEST_PX / image.width))
        image = image.resize((WIDEST_PX, height), Image.Resampling.BOX, reducing_gap=2.0)
    if image.height > TALLEST_PX:
        image = image.crop((0, 0, image.width, TALLEST_PX))
    out = io.BytesIO()
    image.save(out, "WEBP", quality=_QUALITY, method=_METHOD)
    return out.getvalue()


def _write(path: Path, data: bytes) -> None:
    """Write the file atomically, for concurrent readers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.new")
    partial.write_bytes(data)
    partial.replace(path)


_ANY_LEVEL = "images"


def erase_check_results(layout: Layout, database_url: str, page_ids: Iterable[str]) -> None:
    """Delete all check results of these pages; invalid ids, as found in records, are skipped.

    Raises:
        TransientError: the registry does not answer.
        OSError: a picture cannot be deleted.
    """
    pages = []
    for page_id in dict.fromkeys(page_ids):
        with suppress(InputError):
            validate_check_ids(page_id, _ANY_LEVEL)
            pages.append(page_id)
    for page_id in pages:
        for path in (layout.quality_pictures / page_id[:2]).glob(f"{page_id}.*"):
            path.unlink(missing_ok=True)
    if pages and (database_url or layout.links_db.exists()):
        with closing(open_registry_store(layout, database_url)) as store, store.writing() as rows:
            delete_checks(rows, pages)
