"""Log of a visit's requests and how each ended; source of the page manifest."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any


class RequestOutcome(StrEnum):
    """How a request ended in the archive."""

    RESPONSE = "response"
    REVISIT = "revisit"
    FAILED = "failed"  # no response came, or it could not be written
    BLOCKED = "blocked"  # refused by us
    LEFT_OUT = "left-out"  # the visit's stored level has no room for it
    TUNNELLED = "tunnelled"  # led through without being recorded: a WebSocket


@dataclass(slots=True)
class RequestLogEntry:
    """One request. The exchange fills it in; after the seal nobody changes it.

    Attributes:
        url: as requested; no fragment, no credentials.
        kept: how it ended.
        reason: why it failed, was blocked or cut short: a constant, and its detail after a colon.
        status: the origin's; None when no response came. Never one that we made.
        digest: WARC-Payload-Digest of its record.
        truncated: WARC-Truncated of its record (WARC/1.1, 5.13); empty when whole.
        tls_error: why the certificate did not verify; empty when it did, or for plain http.
        tls_version: as negotiated with the origin, e.g. ``TLSv1.3``; empty for plain http.
        tls_cipher: likewise.
        tls_certificate: SHA-256 of the origin's certificate, in hexadecimal.
        remote_ip: the origin's address.
        identified: the payload's media type by its first bytes, as `core.mime_sniffer.sniff` names it;
            empty when nobody could tell.
        payload_bytes: the payload's size, in its content coding if it has one.
        again: why it was asked for a second time, after the browser; empty for all else.
        sent: bytes of the request, head included.
        size: bytes of the response as they came, head included.
        seconds: from request to the end of the response.
    """

    url: str
    method: str
    started_ms: int
    kept: RequestOutcome = RequestOutcome.FAILED
    reason: str = ""
    status: int | None = None
    mime: str = ""
    digest: str = ""
    truncated: str = ""
    tls_error: str = ""
    tls_version: str = ""
    tls_cipher: str = ""
    tls_certificate: str = ""
    remote_ip: str = ""
    record_id: str = ""
    filename: str = ""
    offset: int = 0
    length: int = 0
    identified: str = ""
    payload_bytes: int = 0
    again: str = ""
    sent: int = 0
    size: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RefetchRequest:
    """Something to ask for again.

    Attributes:
        url: what.
        reason: why, for the ledger.
        accept: the Accept header, if the browser has never sent one for it.
        referer: likewise; empty: none.
    """

    url: str
    reason: str
    accept: str = "*/*"
    referer: str = ""


_FIELDS = RequestLogEntry.__slots__


# What tells whether all of an answer came; a page's worth of it is asked for at every page's end.
BRIEF_FIELDS = ("url", "method", "started_ms", "kept", "reason", "status", "truncated", "again")


def to_table(entries: list[RequestLogEntry], fields: Sequence[str] = _FIELDS) -> dict[str, Any]:
    """The entries as JSON values: field names once, then a row an entry."""
    values = attrgetter(*fields)
    return {"fields": list(fields), "rows": [values(entry) for entry in entries]}


def from_table(table: dict[str, Any]) -> list[RequestLogEntry]:
    """The entries that `to_table` gave."""
    names = table["fields"]
    entries = [RequestLogEntry(**dict(zip(names, row, strict=True))) for row in table["rows"]]
    for entry in entries:
        entry.kept = RequestOutcome(entry.kept)
    return entries
