"""The rows of the captures index, whatever holds it."""

from typing import NamedTuple

from core.captures import Capture, RecordLocation
from core.errors import InputError
from core.pages import PageInfo
from core.quality import Check, check_ids, penalty
from core.timestamps import milliseconds, parse_warc_date, timestamp14_at
from core.urls import replay_key


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


class PageRow(NamedTuple):
    """A row of `pages`; what is meant is said at `core.pages.PageInfo`."""

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


def columns(row: type[CaptureRow | PageRow | QualityRow]) -> str:
    """The row's columns, for SQL; `offset` is a word of PostgreSQL's own."""
    return ", ".join(f'"{name}"' for name in row._fields)


def key_or_empty(url: str) -> str:
    """The URL's replay key; empty when it has none, so that the row is found by other means."""
    try:
        return replay_key(url)
    except InputError:
        return ""


def row_of(capture: Capture) -> CaptureRow:
    """The capture as a row."""
    original, captured_ms = capture.original, milliseconds(capture.captured_at)
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


def page_row(page: PageInfo) -> PageRow:
    """The manifest as a row."""
    captured_ms = milliseconds(parse_warc_date(page.captured_at))
    return PageRow(
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


def quality_row(check: Check, at: RecordLocation) -> QualityRow:
    """The check whose record lies there as a row.

    Raises:
        InputError: its moment, its page's id or its level is none.
    """
    check_ids(check.page_id, check.level)
    return QualityRow(
        filename=at.filename,
        offset=at.offset,
        page_id=check.page_id,
        level=check.level,
        checked_ms=milliseconds(parse_warc_date(check.checked_at)),
        quality=penalty(check),
    )
