"""A capture: one response archived at one moment, and where its record lies."""

from dataclasses import dataclass
from datetime import datetime

from core.records import RecordType


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """Where a record lies: a WARC's final name, its offset and compressed length in bytes."""

    filename: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Capture:
    """One row of the captures index.

    Attributes:
        url: what was asked for (URI-R), or an artifact's ``urn:``.
        urlkey: the replay key of `url` (`core.urls.replay_key`).
        captured_at: the record's WARC-Date, to the millisecond.
        record_type: response, revisit or resource; requests are never indexed.
        mime: bare media type; for a revisit, the original's.
        status: HTTP status, None for artifacts.
        digest: payload digest as the record spells it, ``sha256:…``.
        location: this record.
        original: for a revisit, the record that holds the payload.
        page_id: the page whose visit made it; None for captures made outside a visit.
        truncated: the record's WARC-Truncated reason, None when whole.
        login: the name of the login that the visit was made with; None without one.
    """

    url: str
    urlkey: str
    captured_at: datetime
    record_type: RecordType
    mime: str
    status: int | None
    digest: str
    location: RecordLocation
    original: RecordLocation | None = None
    page_id: str | None = None
    truncated: str | None = None
    login: str | None = None
