"""Index rows derived from the records of a WARC file.

An imported file is not trusted: its pages get ids of their own (`core.captures.imported_page_id`), its manifests and
checks are not pages, and dedup uses only digests that were computed here.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from core import captures
from core.errors import InputError
from core.media_types import DOCUMENT_TYPES
from core.page_manifest import PageInfo
from core.playback_check import PlaybackCheck, parse_manifest
from core.timestamps import parse_warc_date, unix_milliseconds
from warc.dedup.payloads import OriginalRecord, PayloadKey
from warc.file_reader import REPLAYED, DamagedSpan, FaultKind, Reading, WarcMember, walk_records
from warc.index.protocol import CaptureIndex, CaptureRow, QualityRow, capture_row, quality_row

_NOT_MODIFIED = 304  # has no payload of its own to play back
_BATCH_ROWS = 1_000
_CHUNK_RECORDS = 50_000  # in one transaction, whose rows stay in memory until its end
_MOST_FAULTS = 1_000


@dataclass(slots=True)
class IndexingResult:
    """Rows added to the index for a file."""

    records: int = 0  # readable ones
    rows: int = 0
    damaged: int = 0  # records and spans that were passed over
    faults: dict[int, str] = field(default_factory=dict)  # offset: description, of the first few


def index_file(  # noqa: PLR0913 a part of a file, and what a profile says of dedup
    path: Path,
    filename: str,
    index: CaptureIndex,
    *,
    bucket: str,
    min_bytes: int,
    start: int = 0,
    end: int | None = None,
    on_payloads: Callable[[dict[PayloadKey, OriginalRecord]], None] | None = None,
    on_progress: Callable[[int], None] = lambda _offset: None,
) -> IndexingResult:
    """Add the file's records to the index, which then covers the whole file; nothing without a readable record.

    Logins have dedup buckets within `bucket`; payloads shorter than `min_bytes` are not added. `on_payloads` gets
    those that are. A long file is added in several transactions, each covering what it has read. Raises OSError.
    """
    result = IndexingResult()
    is_foreign = filename.startswith(captures.IMPORT_PREFIX)
    members = walk_records(path, start=start, end=end, reading=Reading.FOREIGN if is_foreign else Reading.CONTENT)
    batch = _IndexBatch(filename, index, bucket, min_bytes, on_payloads)
    is_covered, has_more = start == end, True
    while has_more:
        with index.transaction():
            has_more, at = False, 0
            for member in islice(members, _CHUNK_RECORDS):
                has_more = True
                if isinstance(member, DamagedSpan):
                    result.damaged += 1
                    _note(
                        result, member.offset, f"{member.text} {member.end - member.offset:,} bytes are not a record."
                    )
                    at = member.end
                    continue
                at = member.offset + member.length
                kinds = [each[0] for each in member.problems] if member.problems else []
                if is_foreign and kinds == [FaultKind.PAYLOAD_DIGEST]:
                    # Tools hash bodies in several ways; its bytes are those of its block and member.
                    _note(result, member.offset, f"{member.problems.pop()[1]} ({member.kind} of {member.url[:200]})")
                if not member.is_sound:
                    result.damaged += 1
                    text = member.problems[0][1] if member.problems else "It has no valid WARC-Date."
                    _note(result, member.offset, f"{text} ({member.kind} of {member.url[:200]})")
                    continue
                is_covered = True
                result.records += 1
                if member.kind in REPLAYED and member.status != _NOT_MODIFIED:
                    result.rows += 1
                    batch.add(member)
            batch.flush()
            if is_covered:
                index.cover(filename, at if has_more else path.stat().st_size)
        on_progress(at)
    return result


def _note(result: IndexingResult, offset: int, text: str) -> None:
    if len(result.faults) < _MOST_FAULTS:
        result.faults[offset] = text


def indexed_page_id(member: WarcMember, filename: str) -> str | None:
    """Return the page id in the record's row: of an imported file's derived, also for documents without one."""
    named = member.headers.get("warc-page-id")
    if not filename.startswith(captures.IMPORT_PREFIX):
        return named
    if member.url.startswith("urn:pageinfo:"):
        return None  # only our own manifests describe pages
    is_document = member.mime in DOCUMENT_TYPES and member.kind != captures.RecordType.RESOURCE
    if not named and is_document and (member.status or 0) // 100 != 3:
        named = f"{member.headers['warc-date']} {member.url}"
    return captures.imported_page_id(filename, named) if named else None


class _IndexBatch:
    def __init__(
        self,
        filename: str,
        index: CaptureIndex,
        bucket: str,
        min_bytes: int,
        on_payloads: Callable[[dict[PayloadKey, OriginalRecord]], None] | None,
    ) -> None:
        self._filename, self._index = filename, index
        self._is_foreign = filename.startswith(captures.IMPORT_PREFIX)
        self._bucket, self._min_bytes = bucket, min_bytes
        self._on_payloads = on_payloads
        self._rows: list[CaptureRow] = []
        self._pages: list[PageInfo] = []
        self._qualities: list[QualityRow] = []
        self._payloads: dict[PayloadKey, OriginalRecord] = {}
        self._spelled: dict[tuple[str, str], OriginalRecord] = {}

    def add(self, member: WarcMember) -> None:
        headers = member.headers
        at = captures.RecordLocation(self._filename, member.offset, member.length)
        login = headers.get(captures.LOGIN_HEADER.lower(), "")
        bucket = captures.dedup_bucket(self._bucket, login)
        digest = headers.get("warc-payload-digest") or "-"
        is_revisit = member.kind == captures.RecordType.REVISIT
        original = None
        if is_revisit:  # of a record in this batch, or an earlier one
            original = self._spelled.get((digest, bucket)) or self._index.original_spelled(digest, bucket)
        captured_ms = unix_milliseconds(parse_warc_date(headers["warc-date"]))
        is_check = self._add_manifest(member, at)
        mime = member.mime or headers.get("content-type", "").partition(";")[0].strip().lower()
        truncated = headers.get("warc-truncated")
        self._rows.append(
            capture_row(
                member.url,
                captured_ms,
                member.kind,
                at,
                mime=mime or "application/octet-stream",
                status=member.status,
                digest=digest,
                original=original,
                page_id=indexed_page_id(member, self._filename),
                # A revisit always has it: its payload is in the record that it refers to (6.7.2).
                truncated=None if is_revisit else truncated,
                login=login or None,
                is_findable=not is_check and not (self._is_foreign and member.url.startswith("urn:pageinfo:")),
            )
        )
        has_payload = member.kind == captures.RecordType.RESPONSE and member.content and not truncated
        if has_payload and member.payload_size >= self._min_bytes:
            record = OriginalRecord(digest, member.url, captured_ms, at.filename, at.offset, at.length)
            self._payloads.setdefault(PayloadKey(member.content, bucket), record)
            self._spelled.setdefault((digest, bucket), record)
        if len(self._rows) >= _BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        index = self._index
        index.add_rows(self._rows)
        if self._payloads:
            index.add_payloads(self._payloads)
            if self._on_payloads is not None:
                self._on_payloads(self._payloads)
        for page in self._pages:
            index.add_page(page)
        if self._qualities:
            index.add_qualities(self._qualities)
        self._rows, self._pages, self._qualities = [], [], []
        self._payloads, self._spelled = {}, {}

    def _add_manifest(self, member: WarcMember, at: captures.RecordLocation) -> bool:
        """Add the manifest or check in the record; return whether it is a check, which is not a capture."""
        named = captures.parse_artifact_uri(member.url) if member.data is not None else None
        if member.data is not None and named is not None and named[0] is captures.ArtifactKind.PAGEINFO:
            with suppress(InputError):  # another tool's is kept, but not read
                manifest = parse_manifest(bytes(member.data))
                if isinstance(manifest, PlaybackCheck):
                    self._qualities.append(quality_row(manifest, at))
                    return True
                self._pages.append(manifest)
        return False
