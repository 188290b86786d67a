"""Conditional requests for URLs that the archive holds, and the payloads that a 304 confirms (RFC 9110, 13).

A request becomes conditional when the latest capture of its URL is a whole 200 of the same dedup bucket, no older than
the visit allows, with a strong validator, and its request had the same values of whatever the response varies by.
"""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from core.captures import RecordType
from core.errors import BadUrlError, InputError, PermanentError, TransientError
from core.timestamps import parse_warc_date, unix_milliseconds
from core.url_keys import replay_key
from core.web_dates import parse_http_date
from net.http1 import HOP_BY_HOP, Headers, RequestHead, ResponseHead, parse_request_head, parse_response_head
from warc.dedup.payloads import OriginalRecord
from warc.index.database import IndexDatabase, key_values
from warc.record_reader import LONGEST_HEAD, dechunked, holds_payload, open_record

log = logging.getLogger(__name__)

RETRY_S = 30.0  # an index that did not answer is left alone
# The request decides by itself, or must have the origin's own response.
_OWN_CONDITIONS = frozenset(
    b"if-none-match if-modified-since if-match if-unmodified-since if-range range authorization".split()
)
# Responses may depend on these without saying so in Vary.
_ALWAYS_SAME = frozenset((b"accept-language", b"user-agent", b"origin"))
_VERSIONS = re.compile(rb"[\d._]+")
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
# Of an earlier exchange only (RFC 9111, 3.1), or about its body, which stays.
_NOT_STORED = HOP_BY_HOP | _FRAMING | {b"set-cookie", b"clear-site-data", b"age"}
_NOT_UPDATED = HOP_BY_HOP | _FRAMING | {b"content-encoding", b"content-type", b"content-range", b"etag"}
# RFC 9110, 8.8.2.2: an earlier Last-Modified cannot be that of two versions.
_STRONG_AFTER = timedelta(seconds=60)
_QUERY = (
    "SELECT c.status, c.login, c.truncated, c.filename, c.\"offset\" AS start, c.length,"
    " p.spelled, p.url AS original_url, p.captured_ms AS original_ms, p.filename AS original_filename,"
    ' p."offset" AS original_start, p.length AS original_length'
    " FROM captures AS c LEFT JOIN payloads AS p ON p.spelled = c.digest AND p.bucket = :bucket"
    " WHERE {has_key} AND c.url = :url AND c.captured_ms >= :since"
    " ORDER BY c.captured_ms DESC, c.id DESC LIMIT 1"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """Response in the archive that the origin may confirm."""

    head: ResponseHead  # as archived
    original: OriginalRecord  # the record that holds its payload
    conditions: Headers  # of the request that asks for confirmation


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """Payload of a stored response, verified by its digest."""

    record_id: str
    size: int | None  # None when it is stored in chunks
    pieces: Iterator[bytes]  # without transfer coding; errors are PermanentError


class StoredResponses:
    """Lookup of responses in the captures index and the local WARCs. Thread-safe."""

    def __init__(self, archive: Path, index: IndexDatabase) -> None:
        self._archive = archive
        self._index = index
        self._resume = 0.0  # when an index that does not answer is tried again (monotonic)

    def find(self, url: str, head: RequestHead, *, bucket: str, since_ms: int) -> StoredResponse | None:
        """Return the stored response whose confirmation the request may ask for, or None."""
        controls = (head.get(b"cache-control") or b"") + (head.get(b"pragma") or b"")
        names = {key for key, _, _ in head.headers}
        if head.method != "GET" or names & _OWN_CONDITIONS or b"no-" in controls.lower():
            return None
        try:
            values = {**key_values(replay_key(url)), "url": url, "bucket": bucket, "since": since_ms}
            if time.monotonic() < self._resume:
                return None
            rows = self._index.rows(_QUERY.format(has_key=self._index.has_key), values)
            row = rows[0] if rows and not (rows[0]["login"] or rows[0]["truncated"]) else None
            if row is None or row["status"] != 200 or not (row["spelled"] or "").startswith("sha256:"):
                return None
            original = OriginalRecord(
                row["spelled"], row["original_url"], row["original_ms"],
                row["original_filename"], row["original_start"], row["original_length"],
            )  # fmt: skip
            stored = self._head((row["filename"], row["start"], row["length"]), original, since_ms)
            after = (row["filename"], row["start"] + row["length"], LONGEST_HEAD)
            with open_record(self._archive, *after) as request:
                if request.warc.get("warc-type") != "request" or request.http is None:
                    return None
                recorded_head = parse_request_head(request.http.raw)
        except TransientError as error:
            log.warning("stored_responses.index_unavailable error=%s", error)
            self._resume = time.monotonic() + RETRY_S
            return None
        except (BadUrlError, InputError, PermanentError):
            return None  # the record is not here
        # The requests must have the same values of all that the response varies by.
        fields = (value for key, _, value in stored.headers if key == b"vary")
        varies = {name.strip().lower() for value in fields for name in value.split(b",")} | _ALWAYS_SAME
        if b"*" in varies or any(_comparable(recorded_head, name) != _comparable(head, name) for name in varies):
            return None
        conditions = _conditions(stored, has_cookie=b"cookie" in names)
        return StoredResponse(stored, original, conditions) if conditions else None

    @contextmanager
    def payload(self, stored: StoredResponse) -> Iterator[StoredPayload | None]:
        """Yield the payload of the response; None when its record is missing, damaged or another."""
        original = stored.original
        place = (original.filename, original.offset, original.length)
        try:
            with open_record(self._archive, *place) as record:
                is_sound = (
                    record.warc.get("warc-type") == RecordType.RESPONSE
                    and record.warc.get("warc-payload-digest") == original.digest
                    and holds_payload(record, original.digest, iter)
                )
        except (PermanentError, TransientError):
            is_sound = False
        if not is_sound:
            yield None
            return
        with open_record(self._archive, *place) as record:
            is_chunked = record.http is not None and record.http.get("transfer-encoding") != ""
            pieces = dechunked(record.content) if is_chunked else record.content
            yield StoredPayload(record.warc.get("warc-record-id"), None if is_chunked else record.size, pieces)

    def _head(self, place: tuple[str, int, int], original: OriginalRecord, since_ms: int) -> ResponseHead:
        """Return the head of the capture, of a confirmed one its original's. PermanentError: none."""
        with open_record(self._archive, *place) as record:
            if record.http is not None:
                return parse_response_head(record.http.raw)
        place = (original.filename, original.offset, original.length)
        with open_record(self._archive, *place) as record:
            date = unix_milliseconds(parse_warc_date(record.warc.get("warc-date")))
            is_own = original.url == record.warc.get("warc-target-uri")
            if record.http is None or not is_own or date < since_ms:
                raise PermanentError("The whole response is of another URL, or too old.")
            return parse_response_head(record.http.raw)


def updated_head(stored: ResponseHead, confirmation: ResponseHead, *, size: int | None) -> ResponseHead:
    """Return the stored head with the fields of the 304 (RFC 9111, 3.2), for a payload of that size, or in chunks."""
    fresh = tuple(each for each in confirmation.headers if each[0] not in _NOT_UPDATED)
    names = {key for key, _, _ in fresh}
    unchanged = (each for each in stored.headers if each[0] not in names | _NOT_STORED)
    framing = (b"transfer-encoding", b"Transfer-Encoding", b"chunked")
    if size is not None:
        framing = (b"content-length", b"Content-Length", b"%d" % size)
    return replace(stored, headers=(*unchanged, *fresh, framing))


def _comparable(head: RequestHead, name: bytes) -> bytes:
    value = head.get(name) or b""
    if name == b"accept-encoding":  # the request on record lacks what no reader of WARCs decodes
        return b",".join(c for c in value.replace(b" ", b"").split(b",") if c in (b"gzip", b"br"))
    # Versions of a browser are not distinguished.
    return _VERSIONS.sub(b"", value) if name == b"user-agent" or name.startswith(b"sec-ch-ua") else value


def _conditions(stored: ResponseHead, *, has_cookie: bool) -> Headers:
    """Return the conditional headers for the stored response; () without a strong validator."""
    if b"no-store" in (stored.get(b"cache-control") or b"").lower():
        return ()
    conditions: list[tuple[bytes, bytes, bytes]] = []
    etag = (stored.get(b"etag") or b"").strip()
    if len(etag) > 2 and etag.startswith(b'"') and etag.endswith(b'"'):
        conditions.append((b"if-none-match", b"If-None-Match", etag))
    modified = (stored.get(b"last-modified") or b"").strip()
    when = parse_http_date(modified.decode("latin-1"))
    sent = parse_http_date((stored.get(b"date") or b"").decode("latin-1"))
    is_strong = when is not None and sent is not None and sent - when >= _STRONG_AFTER
    # Sites that know the reader may date a page by its template.
    if is_strong and (conditions or not has_cookie):
        conditions.append((b"if-modified-since", b"If-Modified-Since", modified))
    return tuple(conditions)
