"""Index rows derived from the records of a WARC file."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from core.captures import (
    LOGIN_HEADER,
    ArtifactKind,
    Capture,
    RecordLocation,
    RecordType,
    dedup_bucket,
    parse_artifact_uri,
)
from core.digests import sha256_digest
from core.errors import InputError
from core.page_manifest import PageInfo
from core.playback_check import PlaybackCheck, parse_manifest
from core.timestamps import parse_warc_date, truncate_to_milliseconds, unix_milliseconds
from net.http1 import BodyFraming, BodyParser, ends_chunked
from warc.dedup.payloads import PayloadKey
from warc.index.protocol import CaptureIndex, key_or_empty, quality_row
from warc.record_builder import OriginalRecord

READ_BYTES = 1 << 20
_NOWHERE = RecordLocation("", 0, 0)


@dataclass(slots=True)
class IndexedCounts:
    """Numbers of rows added to the index for a file."""

    rows: int = 0
    payloads: dict[PayloadKey, OriginalRecord] = field(default_factory=dict)


def index_file(
    path: Path,
    filename: str,
    index: CaptureIndex,
    *,
    bucket: str,
    min_bytes: int,
    spans: Iterable[tuple[int, int]],
) -> IndexedCounts:
    """Add the file's records to the index, which then covers the whole file.

    Args:
        path: the file's current location.
        filename: its final name.
        index: the index to extend.
        bucket: the dedup bucket for payloads; logins have buckets within it.
        min_bytes: payloads shorter than this are not added.
        spans: (start, end) offsets of whole records.

    Raises InputError if it is not a WARC.
    """
    found = IndexedCounts()
    with index.transaction():
        try:
            for capture, payload, said in _records(path, filename, index, bucket, spans):
                index.add_captures((capture,))
                found.rows += 1
                if payload is not None and payload.size >= min_bytes:
                    key = PayloadKey(payload.digest, payload.bucket)
                    # Record that revisits of the payload refer to.
                    at, captured_ms = capture.location, unix_milliseconds(capture.captured_at)
                    original = OriginalRecord(
                        capture.digest, capture.url, captured_ms, at.filename, at.offset, at.length
                    )
                    index.add_payloads({key: original})  # a revisit in this file may refer to it
                    found.payloads.setdefault(key, original)
                if isinstance(said, PageInfo):
                    index.add_page(said)
                elif said is not None:
                    index.add_qualities((quality_row(said, capture.location),))
        except (ArchiveLoadFailed, ValueError, TypeError) as error:
            raise InputError(f"{filename} cannot be read: {error}.") from error
        index.cover(filename, path.stat().st_size)
    return found


class _RecordPayload(NamedTuple):
    digest: str
    size: int
    bucket: str


class _FileSpan:
    """Part of a file as a stream."""

    def __init__(self, file: BinaryIO, start: int, end: int) -> None:
        self._file = file
        self._left = end - start
        file.seek(start)

    def read(self, count: int) -> bytes:
        """Read at most `count` bytes; empty at the end of the part."""
        data = self._file.read(min(count, self._left))
        self._left -= len(data)
        return data


def _records(
    path: Path, filename: str, index: CaptureIndex, bucket: str, spans: Iterable[tuple[int, int]]
) -> Iterator[tuple[Capture, _RecordPayload | None, PageInfo | PlaybackCheck | None]]:
    """Yield (capture, its payload for dedup, its manifest or check) for each record."""
    with path.open("rb") as file:
        for start, end in spans:
            iterator = ArchiveIterator(_FileSpan(file, start, end))
            yield from _span_records(iterator, start, filename, index, bucket)


def _span_records(
    iterator: Any, start: int, filename: str, index: CaptureIndex, bucket: str
) -> Iterator[tuple[Capture, _RecordPayload | None, PageInfo | PlaybackCheck | None]]:
    for record in iterator:
        if record.rec_type not in ("response", "revisit", "resource"):
            continue
        headers = record.rec_headers
        said = _parse_artifact(record)
        own = dedup_bucket(bucket, headers.get_header(LOGIN_HEADER) or "")
        payload = _payload(record, own) if record.rec_type == "response" else None
        # Offset and length are known only when the record has been read to its end.
        offset = start + iterator.get_record_offset()
        location = RecordLocation(filename, offset, iterator.get_record_length())
        digest = headers.get_header("WARC-Payload-Digest") or "-"
        original = index.original_spelled(digest, own)
        capture = _capture(record, location, digest, original)
        if isinstance(said, PlaybackCheck):  # a check is not a capture
            capture = replace(capture, urlkey="")
        if capture.status != 304:
            yield capture, None if capture.truncated else payload, said


def _payload(record: Any, bucket: str) -> _RecordPayload | None:
    """Return the record's dedup payload: digest and size of the body without transfer coding."""
    lines = record.http_headers.headers if record.http_headers else ()
    sent = [
        (name.encode(errors="replace"), value.encode(errors="replace")) for name, value in lines
    ]
    if not ends_chunked(tuple((name.lower(), name, value) for name, value in sent)):
        digest = record.rec_headers.get_header("WARC-Payload-Digest")
        return _RecordPayload(digest, record.payload_length, bucket) if digest else None
    body, payload, size = BodyParser(BodyFraming.CHUNKED), hashlib.sha256(), 0
    while piece := record.raw_stream.read(READ_BYTES):
        taken = body.feed(piece)[1]
        payload.update(taken)
        size += len(taken)
    return _RecordPayload(sha256_digest(payload), size, bucket) if body.done else None


def _parse_artifact(record: Any) -> PageInfo | PlaybackCheck | None:
    named = parse_artifact_uri(record.rec_headers.get_header("WARC-Target-URI") or "")
    if record.rec_type != "resource" or named is None or named[0] is not ArtifactKind.PAGEINFO:
        return None
    try:
        said = parse_manifest(record.content_stream().read())
        if isinstance(said, PlaybackCheck):
            quality_row(said, _NOWHERE)  # an invalid one is ignored
        return said
    except InputError:
        return None  # another tool's manifest: kept, but not ours to read


def _capture(
    record: Any, location: RecordLocation, digest: str, original: OriginalRecord | None
) -> Capture:
    headers, http = record.rec_headers, record.http_headers
    url = headers.get_header("WARC-Target-URI") or ""
    content_type = http.get_header("Content-Type") if http else headers.get_header("Content-Type")
    status = http.get_statuscode() if http else None
    payload_at = None
    if record.rec_type == "revisit" and original is not None:
        payload_at = RecordLocation(original.filename, original.offset, original.length)
    return Capture(
        url=url,
        urlkey=key_or_empty(url),
        captured_at=truncate_to_milliseconds(parse_warc_date(headers.get_header("WARC-Date"))),
        record_type=RecordType(record.rec_type),
        mime=(content_type or "").partition(";")[0].strip().lower() or "application/octet-stream",
        status=int(status) if status and status.isdigit() else None,
        digest=digest,
        location=location,
        original=payload_at,
        page_id=headers.get_header("WARC-Page-ID"),
        # A revisit always has it: its payload is in the record that it refers to (6.7.2).
        truncated=headers.get_header("WARC-Truncated") if record.rec_type != "revisit" else None,
        login=headers.get_header(LOGIN_HEADER) or None,
    )
