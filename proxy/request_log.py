"""Log of a visit's requests and their outcomes; source of the page manifest."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any


class RequestOutcome(StrEnum):
    """Outcome of a request in the archive."""

    RESPONSE = "response"
    REVISIT = "revisit"
    FAILED = "failed"  # no response came, or it could not be written
    BLOCKED = "blocked"  # refused by us
    LEFT_OUT = "left-out"  # the visit's stored level has no room for it
    TUNNELLED = "tunnelled"  # led through without being recorded: a WebSocket


@dataclass(slots=True)
class RequestLogEntry:
    """Log entry of one request. Filled in by the exchange; final after the seal."""

    url: str  # as requested; no fragment, no credentials
    method: str
    started_ms: int
    kept: RequestOutcome = RequestOutcome.FAILED
    reason: str = ""  # cause of a failure, block or truncation: a constant, and its detail after a colon
    status: int | None = None  # the origin's; None without a response. Never a status made by the proxy
    mime: str = ""
    location: str = ""  # of a redirect, as sent; empty for other responses
    digest: str = ""  # WARC-Payload-Digest of its record
    truncated: str = ""  # WARC-Truncated of its record (WARC/1.1, 5.13); empty when whole
    tls_error: str = ""  # verification error of the certificate; empty when it verified, or for plain http
    tls_version: str = ""  # as negotiated with the origin, e.g. ``TLSv1.3``; empty for plain http.
    tls_cipher: str = ""
    tls_certificate: str = ""  # SHA-256 of the origin's certificate, in hexadecimal
    protocol: str = ""  # ``h2`` or ``http/1.1`` on the browser's own connection; empty on the recorder's
    remote_ip: str = ""
    record_id: str = ""
    filename: str = ""
    offset: int = 0
    length: int = 0
    identified: str = ""  # the payload's media type by its first bytes (`core.mime_sniffer.sniff`); empty when unknown
    payload_bytes: int = 0  # the payload's size, in its content coding if it has one
    again: str = ""  # reason for a repeated request, after the browser's; empty for all others
    sent: int = 0  # bytes of the request, head included
    size: int = 0  # bytes of the response as received, head included
    seconds: float = 0.0  # from request to the end of the response


@dataclass(frozen=True, slots=True)
class RefetchRequest:
    """Request to repeat."""

    url: str
    reason: str  # the reason, for the log
    accept: str = "*/*"  # the Accept header, if the browser has never sent one for it
    referer: str = ""  # likewise; empty: none


_FIELDS = RequestLogEntry.__slots__


# Fields that show whether a response is complete; requested for all entries at the end of a page.
BRIEF_FIELDS = ("url", "method", "started_ms", "kept", "reason", "status", "truncated", "again")


def to_table(entries: list[RequestLogEntry], fields: Sequence[str] = _FIELDS) -> dict[str, Any]:
    """Convert the entries to JSON values: field names once, then one row for each entry."""
    values = attrgetter(*fields)
    return {"fields": list(fields), "rows": [values(entry) for entry in entries]}


def from_table(table: dict[str, Any]) -> list[RequestLogEntry]:
    """Convert the result of `to_table` back to entries."""
    entries = [RequestLogEntry(**dict(zip(table["fields"], row, strict=True))) for row in table["rows"]]
    for entry in entries:
        entry.kept = RequestOutcome(entry.kept)
    return entries
