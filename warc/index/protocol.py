"""Interface and rows of a captures index for its writers.

A batch of records is one transaction: its rows, its pages, how far it covers its files. All of it
may be written again, as after an answer that was lost, and then is there once: a record is known by
its file and place, and a WARC's name is never used twice, on no machine.

`tests/proxy/test_index.py` holds every implementation to these rules.
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
    """A row of `captures`; its columns are those of `core.captures.Capture`, flat."""

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
    """A row of `pages`; what is meant is said at `core.page_manifest.PageInfo`."""

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
    """A row of `qualities`: what a check means for choosing among captures of a URL."""

    filename: str
    offset: int
    page_id: str
    level: str
    checked_ms: int
    quality: int


def columns(row: type[CaptureRow | PageIndexRow | QualityRow]) -> str:
    """The row's columns, for SQL; `offset` is a word of PostgreSQL's own."""
    return ", ".join(f'"{name}"' for name in row._fields)


def key_or_empty(url: str) -> str:
    """The URL's replay key; empty when it has none, so that the row is found by other means."""
    try:
        return replay_key(url)
    except InputError:
        return ""


def capture_row(capture: Capture) -> CaptureRow:
    """The capture as a row."""
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
    """The manifest as a row."""
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
    """The check whose record lies there as a row.

    Raises:
        InputError: its moment, its page's id or its level is none.
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
    """One captures index, as one process sees it; `close` it.

    Questions may come from any thread; a transaction is one thread's.

    Every verb of an index that is `shared` raises IndexUnavailableError while its server does not
    answer. Outside of `transaction` each verb is a transaction of its own.

    Attributes:
        shared: whether several machines write it, through a server. Its transactions keep nobody
            else waiting, so they claim nothing, and a commit may fail although it was done.
    """

    shared: bool

    def close(self) -> None:
        """Let go of the index."""
        ...

    def check(self) -> None:
        """Ask whether the index answers.

        Raises:
            IndexUnavailableError: it does not.
        """
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Commit at the end of the block, or roll back on any error."""
        ...

    def add_rows(self, rows: Sequence[CaptureRow]) -> None:
        """Add the rows; a record that is there already stays as it is.

        Raises:
            InputError: the index cannot hold one of them.
        """
        ...

    def add_captures(self, captures: Iterable[Capture]) -> None:
        """The same for captures."""
        ...

    def add_page(self, page: PageInfo) -> None:
        """Add or replace the page's row; an earlier visit's manifest never replaces a later one's.

        Both may exist: a proxy died after it wrote the first, another made the page meanwhile, and
        then the first is found. What an interrupted attempt at the same page left in the index
        goes: its records stay in the WARCs, but the page was captured once, by the visit that its
        manifest describes. A page that was skipped was not captured at all: of it only the manifest
        stays in the index, which says why, so that nobody is offered what its site does not want to
        be archived.
        """
        ...

    def add_qualities(self, rows: Sequence[QualityRow]) -> None:
        """Add what checks found; a record that is there already stays as it is.

        Whichever of a page's checks comes first, the newest is the one that counts.
        """
        ...

    def add_payloads(self, originals: Mapping[PayloadKey, OriginalRecord]) -> None:
        """Remember which records hold the payloads; the first one stays."""
        ...

    def payloads_of(self, filename: str) -> dict[PayloadKey, OriginalRecord]:
        """The payloads whose records lie in that WARC."""
        ...

    def original_spelled(self, spelled: str, bucket: str) -> OriginalRecord | None:
        """The record whose WARC-Payload-Digest that is; None when there is none in the bucket."""
        ...

    def orphans(self) -> dict[int, str]:
        """Revisits whose payload lies in no WARC here: row id -> WARC-Payload-Digest."""
        ...

    def adopt(self, originals: Mapping[int, OriginalRecord]) -> None:
        """Say where the payloads of those revisits lie."""
        ...

    def page_outcome(self, page_id: str) -> VisitOutcome | None:
        """How the page's visit ended; None when its manifest is not in the index."""
        ...

    def manifest_place(self, page_id: str) -> tuple[str, int, int] | None:
        """The WARC, offset and length of the page's manifest, the latest; None: not in the index."""
        ...

    def outcomes(self) -> dict[str, int]:
        """Pages by outcome."""
        ...

    def classes(self) -> dict[str, int]:
        """Pages by class; those that were not judged have the empty name."""
        ...

    def counts(self) -> dict[str, int]:
        """Rows by table, and captures by record type."""
        ...

    def indexed_to(self, filename: str) -> int:
        """How many bytes of the WARC the index covers."""
        ...

    def cover(self, filename: str, end: int) -> None:
        """Say that the index covers the WARC up to `end`; an empty one, which goes, is forgotten."""
        ...

    def close_file(self, filename: str, *, size: int, sha256: str, closed_ms: int) -> None:
        """Remember what the WARC was when it was closed; one that is unknown stays unknown."""
        ...

    def forget(self, filename: str, start: int, end: int = 1 << 62) -> int:
        """Take out what refers to the WARC's records there: they are lost; how many captures.

        A page whose manifest is among them is no longer known to be finished.
        """
        ...

    def settle(self, filenames: Collection[str] | None = None) -> None:
        """Bring together what was added file by file.

        That is revisits and their payloads, pages and what interrupted attempts at them left (see
        `add_page`).

        Args:
            filenames: the files that were added; None: all.
        """
        ...
