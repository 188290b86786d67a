"""Readers of a page's manifest, text and screenshot records, cheaper than a request to replay.

The rules are replay's (P-20, P-21): only plain names inside ``archive/``, only the record that the index names, with
the digest in the index, never more than a limit.
"""

import hashlib
from dataclasses import dataclass

from core.captures import RecordType
from core.digests import Digest
from core.errors import InputError, PermanentError
from core.layout import Layout
from core.page_manifest import PageInfo, parse_pageinfo
from warc.index.database import IndexDatabase
from warc.record_reader import decode_blocks, open_record

MANIFEST_LIMIT_BYTES = 64 << 20  # ten thousand links and resources take a few MB


def manifest_place(database: IndexDatabase, page_id: str) -> tuple[str, int, int] | None:
    """Return WARC, offset and length of the page's latest manifest; None: not in the index."""
    query = (
        'SELECT filename, "offset", length FROM captures'
        " WHERE page_id = :page AND substr(url, 1, 13) = 'urn:pageinfo:'"
        " ORDER BY captured_ms DESC LIMIT 1"
    )
    rows = database.rows(query, {"page": page_id})
    return (rows[0]["filename"], rows[0]["offset"], rows[0]["length"]) if rows else None


def read_manifest(layout: Layout, database: IndexDatabase, page_id: str) -> PageInfo | None:
    """Return the page's manifest; None when it is not in the index or cannot be read."""
    place = manifest_place(database, page_id)
    return None if place is None else read_manifest_at(layout, *place)


def read_manifest_at(layout: Layout, filename: str, offset: int, length: int) -> PageInfo | None:
    """Return the manifest at that location; None when its record cannot be read."""
    try:
        with open_record(layout.archive, filename, offset, length) as record:
            return parse_pageinfo(decode_blocks(record.content, "", limit=MANIFEST_LIMIT_BYTES))
    except (PermanentError, InputError):
        return None


TEXT_LIMIT = 2_000_000  # bytes
MANIFEST_LIMIT = 16_000_000
PICTURE_LIMIT = 64_000_000


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Location of a record, from the index."""

    url: str
    filename: str
    offset: int
    length: int
    digest: str


class ArtifactReader:
    """Reader of one collection's artifacts. Thread-safe. All methods raise PermanentError for an unusable record."""

    def __init__(self, layout: Layout) -> None:
        self._folder = layout.archive

    def text(self, place: RecordPlace) -> str:
        """Return a page's visible text."""
        return self._payload(place, TEXT_LIMIT).decode(errors="replace")

    def manifest(self, place: RecordPlace) -> PageInfo:
        """Return a page's manifest; PermanentError also if its version is not supported."""
        try:
            return parse_pageinfo(self._payload(place, MANIFEST_LIMIT))
        except (InputError, RecursionError) as error:  # brackets in brackets in brackets
            raise PermanentError(f"A manifest cannot be read: {error}") from error

    def picture(self, place: RecordPlace) -> bytes:
        """Return a screenshot, as the browser made it; the image format is not validated."""
        return self._payload(place, PICTURE_LIMIT)

    def _payload(self, place: RecordPlace, limit: int) -> bytes:
        with open_record(self._folder, place.filename, place.offset, place.length) as record:
            target = record.warc.get("warc-target-uri").strip("<>")
            if record.warc.get("warc-type") != RecordType.RESOURCE or target != place.url:
                raise PermanentError("The index points to another record.")
            payload = decode_blocks(record.content, "", limit=limit)
        try:
            wanted = Digest.parse(place.digest)
        except InputError as error:
            raise PermanentError("The index has no digest.") from error
        if hashlib.new(wanted.algorithm, payload).hexdigest() != wanted.value:
            raise PermanentError("A record has changed since it was written.")
        return payload
