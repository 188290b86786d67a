"""Index rows derived from the records of a WARC file."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from core.captures import (
    LOGIN_HEADER,
    ArtifactKind,
    Capture,
    RecordLocation,
    RecordType,
    dedup_bucket,
    parse_artifact_uri,
)
from core.errors import InputError
from core.page_manifest import PageInfo
from core.playback_check import PlaybackCheck, parse_manifest
from core.timestamps import parse_warc_date, truncate_to_milliseconds, unix_milliseconds
from warc.dedup.payloads import OriginalRecord, PayloadKey
from warc.file_reader import REPLAYED, Reading, WarcMember, walk_records
from warc.index.protocol import CaptureIndex, QualityRow, key_or_empty, quality_row

_NOT_MODIFIED = 304  # has no payload of its own to play back


@dataclass(slots=True)
class IndexingResult:
    """Rows added to the index for a file."""

    rows: int = 0
    payloads: dict[PayloadKey, OriginalRecord] = field(default_factory=dict)
    damaged: list[int] = field(default_factory=list)  # offsets of what is no readable record


def index_file(  # noqa: PLR0913 a part of a file, and what a profile says of dedup
    path: Path,
    filename: str,
    index: CaptureIndex,
    *,
    bucket: str,
    min_bytes: int,
    start: int = 0,
    end: int | None = None,
) -> IndexingResult:
    """Add the file's records to the index, which then covers the whole file; nothing without a readable record.

    Logins have dedup buckets within `bucket`; payloads shorter than `min_bytes` are not added. Raises OSError.
    """
    result = IndexingResult()
    is_covered = start == end
    with index.transaction():
        for member in walk_records(path, start=start, end=end, reading=Reading.CONTENT):
            if not isinstance(member, WarcMember) or not member.is_sound:
                result.damaged.append(member.offset)
                continue
            is_covered = True
            if member.kind in REPLAYED and member.status != _NOT_MODIFIED:
                _add(member, RecordLocation(filename, member.offset, member.length),
                     index, bucket, min_bytes, result)  # fmt: skip
        if is_covered:
            index.cover(filename, path.stat().st_size)
    return result


def _add(
    member: WarcMember,
    at: RecordLocation,
    index: CaptureIndex,
    bucket: str,
    min_bytes: int,
    result: IndexingResult,
) -> None:
    headers = member.headers
    login = headers.get(LOGIN_HEADER.lower(), "")
    own = dedup_bucket(bucket, login)
    digest = headers.get("warc-payload-digest") or "-"
    is_revisit = member.kind == RecordType.REVISIT
    original = index.original_spelled(digest, own) if is_revisit else None
    original_at = None
    if original is not None:
        original_at = RecordLocation(original.filename, original.offset, original.length)
    mime = member.mime or headers.get("content-type", "").partition(";")[0].strip().lower()
    # The manifest or the check in the record; another tool's is kept, but not read.
    named = parse_artifact_uri(member.url)
    page: PageInfo | None = None
    quality: QualityRow | None = None
    if member.data is not None and named is not None and named[0] is ArtifactKind.PAGEINFO:
        with suppress(InputError):
            manifest = parse_manifest(bytes(member.data))
            if isinstance(manifest, PlaybackCheck):
                quality = quality_row(manifest, at)
            else:
                page = manifest
    capture = Capture(
        url=member.url,
        urlkey="" if quality is not None else key_or_empty(member.url),  # a check is no capture
        captured_at=truncate_to_milliseconds(parse_warc_date(headers["warc-date"])),
        record_type=RecordType(member.kind),
        mime=mime or "application/octet-stream",
        status=member.status,
        digest=digest,
        location=at,
        original=original_at,
        page_id=headers.get("warc-page-id"),
        # A revisit always has it: its payload is in the record that it refers to (6.7.2).
        truncated=None if is_revisit else headers.get("warc-truncated"),
        login=login or None,
    )
    index.add_captures((capture,))
    result.rows += 1
    has_payload = member.kind == RecordType.RESPONSE and member.content and not capture.truncated
    if has_payload and member.payload_size >= min_bytes:
        key = PayloadKey(member.content, own)
        moment = unix_milliseconds(capture.captured_at)
        record = OriginalRecord(digest, member.url, moment, at.filename, at.offset, at.length)
        index.add_payloads({key: record})  # a revisit in this file may refer to it
        result.payloads.setdefault(key, record)
    if page is not None:
        index.add_page(page)
    elif quality is not None:
        index.add_qualities((quality,))
