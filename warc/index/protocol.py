"""Interface and rows of a captures index for its writers.

A batch of records is one transaction: its rows, its pages, the covered size of its files. Writing a
batch again, as after a lost answer, is idempotent: a record is identified by file and offset, and a
WARC's name is never used twice on any machine.

`tests/proxy/test_index.py` tests every implementation against these rules.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from core.captures import Capture, RecordLocation
from core.errors import InputError
from core.page_manifest import PageInfo, VisitOutcome
from core.playback_check import PlaybackCheck, choice_penalty, validate_check_ids
from core.timestamps import parse_warc_date, timestamp14_at, unix_milliseconds
from core.url_keys import replay_key
from warc.dedup.payloads import PayloadKey
from warc.record_builder import OriginalRecord


class CaptureRow(NamedTuple):
    """Row of `captures`; its columns are those of `core.captures.Capture`, flattened."""

    urlkey: str
    timestamp: str
    captured_ms: int
    url: str
    record_type: str
    mime: str
    status: int | None
    digest: str
    filename: str
    offset: int
    length: int
    orig_filename: str | None
    orig_offset: int | None
    orig_length: int | None
    page_id: str | None
    truncated: str | None
    login: str | None = None


class PageIndexRow(NamedTuple):
    """Row of `pages`; see `core.page_manifest.PageInfo` for the fields."""

    page_id: str
    url: str
    urlkey: str
    timestamp: str
    captured_ms: int
    final_url: str
    outcome: str
    reason: str
    status: int | None
    mime: str
    title: str
    records: int
    stored_bytes: int
    seconds: float
    page_class: str
    class_score: float
    class_evidence: str
    device: str
    language: str
    login: str


class QualityRow(NamedTuple):
    """Row of `qualities`: effect of a check on the choice among captures of a URL."""

    filename: str
    offset: int
    page_id: str
    level: str
    checked_ms: int
    quality: int


def columns(row: type[CaptureRow | PageIndexRow | QualityRow]) -> str:
    """Return the row's columns for SQL; `offset` is quoted, being a keyword of PostgreSQL."""
    return ", ".join(f'"{name}"' for name in row._fields)


def key_or_empty(url: str) -> str:
    """Return the URL's replay key; empty when it has none and is not found by URL."""
    try:
        return replay_key(url)
    except InputError:
        return ""


def capture_row(capture: Capture) -> CaptureRow:
    """Return the capture as a row."""
    original, captured_ms = capture.original, unix_milliseconds(capture.captured_at)
    return CaptureRow(
        urlkey=capture.urlkey,
        timestamp=timestamp14_at(captured_ms),
        captured_ms=captured_ms,
        url=capture.url,
        record_type=capture.record_type.value,
        mime=capture.mime,
        status=capture.status,
        digest=capture.digest,
        filename=capture.location.filename,
        offset=capture.location.offset,
        length=capture.location.length,
        orig_filename=None if original is None else original.filename,
        orig_offset=None if original is None else original.offset,
        orig_length=None if original is None else original.length,
        page_id=capture.page_id,
        truncated=capture.truncated,
        login=capture.login,
    )


def page_row(page: PageInfo) -> PageIndexRow:
    """Return the manifest as a row."""
    captured_ms = unix_milliseconds(parse_warc_date(page.captured_at))
    return PageIndexRow(
        page_id=page.page_id,
        url=page.url,
        urlkey=key_or_empty(page.url),
        timestamp=timestamp14_at(captured_ms),
        captured_ms=captured_ms,
        final_url=page.final_url,
        outcome=str(page.outcome),
        reason=page.reason,
        status=page.status,
        mime=page.mime,
        title=page.title,
        records=page.records,
        stored_bytes=page.stored_bytes,
        seconds=page.seconds,
        page_class=str(page.page_class),
        class_score=page.class_score,
        class_evidence="\n".join(page.class_evidence),
        device=page.device,
        language=page.language,
        login=page.login,
    )


def quality_row(check: PlaybackCheck, at: RecordLocation) -> QualityRow:
    """Return the check whose record is at that location as a row.

    Raises InputError if its time, page id or level is invalid.
    """
    validate_check_ids(check.page_id, check.level)
    return QualityRow(
        filename=at.filename,
        offset=at.offset,
        page_id=check.page_id,
        level=check.level,
        checked_ms=unix_milliseconds(parse_warc_date(check.checked_at)),
        quality=choice_penalty(check),
    )


class CaptureIndex(Protocol):
    """Captures index as seen by one process; `close` it.

    Queries are thread-safe; a transaction belongs to one thread.

    Every method of a `shared` index raises IndexUnavailableError while its server does not answer.
    Outside of `transaction` each method is a transaction of its own.

    Attributes:
        shared: whether several machines write it, through a server. Its transactions do not block
            others, so they claim nothing, and a commit may report failure although it was done.
    """

    shared: bool

    def close(self) -> None:
        """Close the index."""
        ...

    def check(self) -> None:
        """Check that the index answers. Raises IndexUnavailableError if it does not."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Commit at the end of the block, or roll back on any error."""
        ...

    def add_rows(self, rows: Sequence[CaptureRow]) -> None:
        """Add the rows; an existing record is not changed.

        Raises InputError if the index cannot hold one of them.
        """
        ...

    def add_captures(self, captures: Iterable[Capture]) -> None:
        """Add captures; see `add_rows`."""
        ...

    def add_page(self, page: PageInfo) -> None:
        """Add or replace the page's row; an earlier visit's manifest never replaces a later one's.

        Both may exist: a proxy died after writing the first, another captured the page meanwhile,
        and then the first is found. Rows of an interrupted attempt at the same page are removed:
        its records stay in the WARCs, but the page was captured once, by the visit that its
        manifest describes. A skipped page was not captured: only its manifest, which holds the
        reason, stays in the index, so that content that its site excludes from archiving is never
        offered.
        """
        ...

    def add_qualities(self, rows: Sequence[QualityRow]) -> None:
        """Add check results; an existing record is not changed.

        The newest check of a page counts, in any order of addition.
        """
        ...

    def add_payloads(self, originals: Mapping[PayloadKey, OriginalRecord]) -> None:
        """Add the records of payloads; the first one of each payload stays."""
        ...

    def payloads_of(self, filename: str) -> dict[PayloadKey, OriginalRecord]:
        """Return the payloads whose records are in that WARC."""
        ...

    def original_spelled(self, spelled: str, bucket: str) -> OriginalRecord | None:
        """Find a record by its WARC-Payload-Digest; None when the bucket has none."""
        ...

    def orphans(self) -> dict[int, str]:
        """Return revisits whose payload is in no local WARC: row id -> WARC-Payload-Digest."""
        ...

    def adopt(self, originals: Mapping[int, OriginalRecord]) -> None:
        """Set the payload locations of those revisits."""
        ...

    def page_outcome(self, page_id: str) -> VisitOutcome | None:
        """Return the outcome of the page's visit; None when its manifest is not in the index."""
        ...

    def manifest_place(self, page_id: str) -> tuple[str, int, int] | None:
        """Return WARC, offset and length of the page's latest manifest; None: not in the index."""
        ...

    def outcomes(self) -> dict[str, int]:
        """Count pages by outcome."""
        ...

    def classes(self) -> dict[str, int]:
        """Count pages by class; the empty name counts pages without one."""
        ...

    def counts(self) -> dict[str, int]:
        """Count rows by table, and captures by record type."""
        ...

    def indexed_to(self, filename: str) -> int:
        """Return the number of bytes of the WARC that the index covers."""
        ...

    def cover(self, filename: str, end: int) -> None:
        """Set the number of bytes of the WARC that the index covers; 0 removes the file's row."""
        ...

    def close_file(self, filename: str, *, size: int, sha256: str, closed_ms: int) -> None:
        """Store size, checksum and time of the closed WARC; an unknown file is ignored."""
        ...

    def forget(self, filename: str, start: int, end: int = 1 << 62) -> int:
        """Remove rows that refer to lost records of the WARC; return the number of captures.

        A page whose manifest is among them no longer counts as finished.
        """
        ...

    def settle(self, filenames: Collection[str] | None = None) -> None:
        """Resolve references between files that were added one by one.

        Revisits are joined to their payloads; rows of interrupted attempts at pages are removed
        (see `add_page`). None as `filenames` means all.
        """
        ...
