"""Readers of a page's manifest, text and screenshot records.

The replay server could deliver them, but it is on another origin and may be on another machine;
reading one WARC member costs less than such a request. The rules are replay's (P-20, P-21): only
plain names inside ``archive/``, only the record that the index names, with the digest in the index,
never more than a limit.
"""

import hashlib
import io
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from core.captures import RecordType
from core.digests import Digest
from core.errors import BodyTooLargeError, InputError, PermanentError
from core.layout import Layout, is_warc_name
from core.page_manifest import PageInfo, parse_pageinfo
from warc.index.protocol import CaptureIndex

MANIFEST_LIMIT_BYTES = 64 << 20  # compressed; ten thousand links and resources take a few MB


def read_manifest(layout: Layout, index: CaptureIndex, page_id: str) -> PageInfo | None:
    """Return the page's manifest; None when it is not in the index or cannot be read."""
    place = index.manifest_place(page_id)
    return None if place is None else read_manifest_at(layout, *place)


def read_manifest_at(layout: Layout, filename: str, offset: int, length: int) -> PageInfo | None:
    """Return the manifest at that location; None when its record cannot be read."""
    if length > MANIFEST_LIMIT_BYTES:
        return None
    data = _manifest_slice(layout, filename, offset, length)
    try:
        for record in ArchiveIterator(io.BytesIO(data)):
            return parse_pageinfo(record.content_stream().read())
    except (ArchiveLoadFailed, InputError, OSError, EOFError):
        return None
    return None


def _manifest_slice(layout: Layout, filename: str, offset: int, length: int) -> bytes:
    """Return these bytes of the WARC; empty when the file is not on this machine."""
    for path in layout.warc(filename):
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except OSError:
            continue
    return b""


TEXT_LIMIT = 2_000_000  # bytes
MANIFEST_LIMIT = 16_000_000
PICTURE_LIMIT = 64_000_000
_HEAD_LIMIT = 64 * 1024


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Location of a record, from the index."""

    url: str
    filename: str
    offset: int
    length: int
    digest: str


class ArtifactReader:
    """Reader of one collection's artifacts. Thread-safe."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def text(self, place: RecordPlace) -> str:
        """Return a page's visible text.

        Raises PermanentError if the record is missing, damaged, too long, or a different one.
        """
        return self._payload(place, TEXT_LIMIT).decode(errors="replace")

    def manifest(self, place: RecordPlace) -> PageInfo:
        """Return a page's manifest.

        Raises PermanentError: as for `text`; or its version is not supported.
        """
        try:
            return parse_pageinfo(self._payload(place, MANIFEST_LIMIT))
        except (InputError, RecursionError) as error:  # brackets in brackets in brackets
            raise PermanentError(f"A manifest cannot be read: {error}") from error

    def picture(self, place: RecordPlace) -> bytes:
        """Return a screenshot, as the browser made it; the image format is not validated.

        Raises PermanentError: as for `text`.
        """
        return self._payload(place, PICTURE_LIMIT)

    def _payload(self, place: RecordPlace, limit: int) -> bytes:
        member = self._member(place, limit + _HEAD_LIMIT)
        try:
            record = next(iter(ArchiveIterator(io.BytesIO(member))))
            target = (record.rec_headers.get_header("WARC-Target-URI") or "").strip("<>")
            if record.rec_type != RecordType.RESOURCE or target != place.url:
                raise PermanentError("The index points at another record.")
            payload: bytes = record.raw_stream.read(limit + 1)
        except (ArchiveLoadFailed, StopIteration, OSError, EOFError, ValueError) as error:
            raise PermanentError(f"A record is damaged: {error}.") from error
        if len(payload) > limit:
            raise BodyTooLargeError(f"A record of more than {limit} bytes is not read here.")
        digest = _digest(place.digest)
        if digest is None or hashlib.new(digest.algorithm, payload).hexdigest() != digest.value:
            raise PermanentError("A record is not what it was when it was written.")
        return payload

    def _member(self, place: RecordPlace, limit: int) -> bytes:
        """Return the record's bytes, decompressed."""
        if not is_warc_name(place.filename) or place.offset < 0 or place.length <= 0:
            raise PermanentError("The index names a place that no record has.")
        stored = _read_slice(
            self._layout.warc(place.filename), place.offset, min(place.length, limit)
        )
        if not stored.startswith(b"\x1f\x8b"):
            return stored
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            member = decoder.decompress(stored, limit)
        except zlib.error as error:
            raise PermanentError(f"A record is damaged: {error}.") from error
        if not decoder.eof:
            raise BodyTooLargeError("A record is longer than is read here, or broken off.")
        return member


def _read_slice(paths: tuple[Path, Path], offset: int, length: int) -> bytes:
    for path in paths:  # closed, or still open
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise PermanentError(f"A record cannot be read: {error}.") from error
    raise PermanentError("The WARC that the index names is not here.")


@lru_cache(maxsize=256)
def _digest(spelled: str) -> Digest | None:
    try:
        return Digest.parse(spelled)
    except InputError:
        return None
