"""One request and its response: forwarded, relayed, hashed and handed to the archivist.

If the browser disconnects, the rest is still fetched, up to the limits: a cancelled download is archived whole.
"""

import hashlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from isal import isal_zlib

from core.config.settings import ProxySettings
from core.config.stored_level import DEFAULT_STORED_LEVEL, StoredLevel
from core.errors import PermanentError
from core.mime_sniffer import HEADER_BYTES, SNIFF_BYTES, sniff
from net import http1
from net.connect_errors import BlockedError, ConnectError, UnknownHostError
from net.timeouts import CancelSignal, WaitCancelledError
from net.tls_client import CertificateVerifier
from net.upstream_proxy import shut_socket
from proxy.browser_connection import BrowserConnection, ConnectionLostError, Origin
from proxy.limits import BodySpool, ReceiveLimits, SpoolSpace
from proxy.redaction import redact_request, redact_response
from proxy.request_log import RequestLogEntry, RequestOutcome
from proxy.stored_responses import StoredPayload, StoredResponse, StoredResponses, updated_head
from proxy.upstream import OriginConnection, UpstreamConnector
from proxy.visit_registry import VisitSession
from warc.dedup.payloads import OriginalRecord
from warc.writer import log_failure, to_weboid_error

log = logging.getLogger(__name__)

_IDENTITY_CODINGS = (b"", b"identity")
_WRAPPERS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}  # window bits, as zlib has them


def identify_payload(head: http1.ResponseHead, beginning: bytes) -> str:
    """Return the media type of a body without transfer coding (`core.mime_sniffer.sniff`).

    Empty without a payload, for a range that does not begin at byte 0, or a coding not decoded here (br).
    """
    if not beginning:
        return ""
    part = (head.get(b"content-range") or b"").strip().lower()
    if head.status == 206 and not part.startswith(b"bytes 0-"):
        return ""
    coding = (head.get(b"content-encoding") or b"").strip().lower()
    if coding in _IDENTITY_CODINGS:
        return sniff(beginning)
    if coding not in _WRAPPERS:
        return ""
    try:
        return sniff(isal_zlib.decompressobj(_WRAPPERS[coding]).decompress(beginning, HEADER_BYTES))
    except isal_zlib.IsalError:  # type: ignore[misc] # the stub makes it an instance
        return sniff(beginning)  # the coding is wrong: browsers fail, the body is archived


Bytes = bytes | bytearray
Answer = tuple[http1.ResponseHead, OriginConnection, bytes]  # and what came of the body together with the head
# RFC 9110 9.2.2: only these may be sent again when a reused connection closes without an answer.
_IDEMPOTENT = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
# Available data is hashed and relayed together, up to this size.
GATHER_BYTES = 1 << 18
_REDIRECTS = frozenset((301, 302, 303, 307, 308))  # RFC 9110, 15.4
NO_CONTENT = _REDIRECTS | {101, 204, 304}  # their type is of no content that is recorded
MAX_INTERIM = 20  # responses with 1xx before the one that counts


@dataclass(slots=True)
class RecordedExchange:
    """Finished exchange, ready to be written."""

    entry: RequestLogEntry
    visit: VisitSession
    request: bytes  # the request as sent to the origin; with a login, secrets are redacted
    head: http1.ResponseHead  # the response's head; likewise
    spool: BodySpool  # the response's body as received
    block: Any  # running SHA-256 of head and body
    # Running SHA-256 of the body without its transfer coding; None when the coding was broken or
    # cut short, so that the payload is undefined.
    payload: Any
    # Running SHA-256 of the body as received; the same object when it has no coding, None after a
    # head that other readers end elsewhere, which changes what they take for payload.
    body: Any
    payload_size: int  # bytes of the body without its transfer coding
    # What a 304 confirms, which the browser received: the record of the payload, and its id.
    confirms: tuple[OriginalRecord, str] | None = None


@dataclass(frozen=True, slots=True)
class ExchangeContext:
    """Shared dependencies of all exchanges: upstream connector, limits and record sink."""

    upstream: UpstreamConnector
    settings: ProxySettings
    limits: ReceiveLimits
    space: SpoolSpace
    stored: StoredResponses
    certificates: CertificateVerifier  # for connections that browsers make themselves
    hand_over: Callable[[RecordedExchange], None]
    now_ms: Callable[[], int]
    monotonic: Callable[[], float] = time.monotonic


def left_out_reason(kind: str, stored: StoredLevel) -> str:
    """Return the log reason for a request that the stored level leaves out."""
    return f"level: {kind} is not recorded at {stored}"


class NoResponseError(Exception):
    """Exchange without a response: the browser gets `status`, the log `reason`; its connection ends when `close` is set."""

    def __init__(self, status: int, reason: str, *, close: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.close = close


class Exchange:
    """One request in flight. `run` does all of it; `cut` ends it from another thread."""

    # Whether the origin may switch protocols (RFC 9110, 7.8); a seal does not wait for such a
    # connection, which has no natural end.
    switches: ClassVar[bool] = False

    def __init__(
        self, tools: ExchangeContext, visit: VisitSession, url: str, method: str, *, awaited: bool = False
    ) -> None:
        self.url = url
        self.awaited = awaited  # whether the seal of the visit waits for it
        # Whether the browser asked for a range that is the whole, and the origin for the whole.
        self.ranged = False
        # The response that the origin may confirm instead of sending it, and the request without that.
        self.confirmable: tuple[StoredResponse, bytes] | None = None
        # The origin and the request, once it was built.
        self.sent_to: tuple[Origin, bytes] | None = None
        self._tools = tools
        self.visit = visit  # the visit it belongs to
        self._started = tools.monotonic()
        self.entry = RequestLogEntry(url=url, method=method, started_ms=tools.now_ms())
        self._connection: OriginConnection | None = None
        self._browser: BrowserConnection | None = None
        self._failure: OSError | ValueError | None = None
        self._cut_for = ""
        self._waiting = CancelSignal()

    def cut(self, reason: str) -> None:
        """Cancel it now; the data received so far is recorded as truncated for `reason`."""
        self._cut_for = reason
        self._waiting.set()
        for each in (self._connection, self._browser):  # a stalled reader must not delay shutdown
            if each is not None:
                shut_socket(each.sock)

    def run(self, origin: Origin, request: bytes, browser: BrowserConnection | None, *, keep_alive: bool) -> bool:
        """Send the request in origin form, relay and record the response; return whether the browser stays connected.

        Without `browser` it is only archived. Raises NoResponseError before anything is sent to the browser, if there
        is nothing to record or the stored level leaves it out; OSError if the spool cannot be written.
        """
        self._browser = browser
        stored, plain = self.confirmable or (None, request)
        self.sent_to = (origin, plain)
        if stored is not None:
            answer = self._ask(origin, request)
            if answer[0].status != 304:
                return self._deliver(answer, request, keep_alive=keep_alive)
            with self._tools.stored.payload(stored) as payload:
                if payload is not None:
                    return self._deliver_stored(answer, request, stored, payload, keep_alive=keep_alive)
            head, connection, rest = answer
            self._release(connection, head, is_whole=not rest)  # the payload is gone: fetch it again
        return self._deliver(self._ask(origin, plain), plain, keep_alive=keep_alive)

    def run_alone(self, origin: Origin, request: bytes) -> None:
        """Run it to its end without a browser; the outcome is stored in its log entry."""
        try:
            self.run(origin, request, None, keep_alive=True)
        except NoResponseError as error:
            self.entry.reason = error.reason
        except OSError as error:
            self.fail_visit(error)

    def start_alone(self, origin: Origin, request: bytes, then: Callable[[], object] = lambda: None) -> None:
        """Run a registered one (`VisitSession.begin`) and `then` what follows in a thread, and end it."""

        def run() -> None:
            try:
                self.run_alone(origin, request)
                then()
            finally:
                self.visit.end(self)

        threading.Thread(target=run, name="alone", daemon=True).start()

    def fail_visit(self, error: OSError) -> None:
        """Mark the whole visit as failed: received data could not be stored."""
        log_failure(log, "exchange.failed", error)
        self.entry.reason = f"disk: {error}"
        self.visit.failure = to_weboid_error(error)

    def _deliver_stored(
        self, answer: Answer, request: bytes, stored: StoredResponse, payload: StoredPayload, *, keep_alive: bool
    ) -> bool:
        """Send the response that a 304 confirms to the browser and hand the record over; return as `run`."""
        confirmation, connection, rest = answer
        entry = self.entry
        self.count(len(confirmation.raw))
        self._release(connection, confirmation, is_whole=not rest)
        head = updated_head(stored.head, confirmation, size=payload.size)
        held = _browser_head(head, self, keep_alive=keep_alive)
        beginning, browser, is_whole = b"", self._browser, False
        try:
            for piece in payload.pieces:
                entry.payload_bytes += len(piece)
                beginning += piece[: max(SNIFF_BYTES - len(beginning), 0)]
                chunk = piece if payload.size is not None else b"%x\r\n%b\r\n" % (len(piece), piece)
                if browser is not None and piece:
                    browser.send(held + chunk)
                    held = b""
            if browser is not None:
                browser.send(held + (b"" if payload.size is not None else b"0\r\n\r\n"))
            is_whole = True
        except (ConnectionLostError, PermanentError) as error:
            log.info("exchange.stored_cut url=%s error=%s", self.url, error)
        entry.status, entry.mime, entry.size = head.status, head.mime, len(confirmation.raw)
        entry.identified = identify_payload(head, beginning)
        entry.seconds = round(self._tools.monotonic() - self._started, 6)
        self._tools.hand_over(
            RecordedExchange(
                entry=entry,
                visit=self.visit,
                request=request,
                head=confirmation,
                spool=BodySpool(self._tools.space),
                block=hashlib.sha256(confirmation.raw),
                payload=None,
                body=None,
                payload_size=0,
                confirms=(stored.original, payload.record_id),
            )
        )
        return keep_alive and is_whole

    def _release(self, connection: OriginConnection, head: http1.ResponseHead, *, is_whole: bool) -> None:
        """Return the connection to the pool if the response was read whole and it stays open; else close it."""
        self._connection = None  # from here on it may be another's
        if is_whole and http1.reusable(head):
            self._tools.upstream.give_back(connection)
        else:
            connection.close()

    def _deliver(self, answer: Answer, request: bytes, *, keep_alive: bool) -> bool:
        """Send the response to the browser and hand the record over; return and raise as `run`."""
        head, connection, rest = answer
        if head.status in _REDIRECTS:
            self.entry.location = (head.get(b"location") or b"").decode("latin-1")
        try:
            framing, length = http1.response_framing(head, self.entry.method)
        except http1.MalformedMessageError as error:
            connection.close()
            raise NoResponseError(502, f"malformed: {error}") from error
        # Refuse a response whose type the visit's stored level leaves out.
        if head.status not in NO_CONTENT and self.visit.stored.excludes_type(head.mime):
            connection.close()
            raise self.leave_out(head, head.mime)
        stored_head = head
        if self.visit.login:
            request, stored_head = redact_request(request), redact_response(head)
        spool = BodySpool(self._tools.space)
        relay = ResponseRelay(self, spool, self._browser, coded=framing is http1.BodyFraming.CHUNKED)
        keep_alive = keep_alive and framing is not http1.BodyFraming.CLOSE
        body = http1.BodyParser(framing, length)
        try:
            relay.start(head, stored_head, keep_alive=keep_alive)
            relay.body(body, rest, connection)
        except BaseException:
            spool.close()
            connection.close()
            raise
        self.complete_entry(head, body, relay)
        is_whole = body.done and not self.entry.truncated and not relay.surplus
        self._release(connection, head, is_whole=is_whole)
        self.record(request, stored_head, body, framing, relay)
        return keep_alive and body.done and relay.browser_listens

    def record(
        self,
        request: bytes,
        stored_head: http1.ResponseHead,
        body: http1.BodyParser,
        framing: http1.BodyFraming,
        relay: "ResponseRelay",
    ) -> None:
        """Hand the finished exchange over, unless the visit's stored level excludes it."""
        if relay.is_excluded:
            relay.spool.close()
            return
        plain = stored_head.is_plain
        self._tools.hand_over(
            RecordedExchange(
                entry=self.entry,
                visit=self.visit,
                request=request,
                head=stored_head,
                spool=relay.spool,
                block=relay.block,
                # A chunked body cut short has no payload that two readers would agree on.
                payload=relay.payload if plain and (body.done or framing is not http1.BodyFraming.CHUNKED) else None,
                body=(relay.coded or relay.payload) if plain else None,
                payload_size=relay.payload_size,
            )
        )

    def leave_out(self, head: http1.ResponseHead, mime: str) -> NoResponseError:
        """Mark the response as left out for its type; return the error for the browser."""
        entry = self.entry
        entry.kept, entry.status, entry.mime = RequestOutcome.LEFT_OUT, head.status, head.mime
        entry.truncated, entry.reason = "", left_out_reason(mime, self.visit.stored)
        return NoResponseError(403, entry.reason)

    def _ask(self, origin: Origin, request: bytes) -> Answer:
        """Send the request; return response head, connection and early body bytes."""
        self.entry.sent = len(request)
        fresh = self.entry.method not in _IDEMPOTENT
        while True:
            connection = self._connect(origin, fresh=fresh)
            try:
                self._send(connection, request)
                head, rest = self._read_head(connection)
            except (OSError, ValueError, ConnectionLostError, http1.MalformedMessageError) as error:
                connection.close()
                if connection.reused and not self._cut_for:
                    # Closed while idle, without an answer; or the rest of an earlier one, such as the body of a 304.
                    fresh = True
                    continue
                timed_out = isinstance(error, TimeoutError)
                reason = "timeout" if timed_out else f"disconnected: {error}"
                if isinstance(error, http1.MalformedMessageError):
                    reason = f"malformed: {error}"
                elif self._cut_for:
                    reason = f"cut: {self._cut_for}"
                elif isinstance(error, ssl.SSLError):  # such as: it wants a client's certificate
                    reason = f"tls: {error.reason or error}"
                raise NoResponseError(504 if timed_out else 502, reason) from error
            if fault := connection.fault_of(head):
                connection.close()
                raise NoResponseError(502, f"connect: {fault}")
            return head, connection, rest

    def _send(self, connection: OriginConnection, request: bytes) -> None:
        try:
            connection.send(request)
        except OSError:
            # It may have answered before it had all of the request, and hung up (RFC 9112, 9.5).
            if connection.reused or not connection.readable():
                raise

    def _connect(self, origin: Origin, *, fresh: bool) -> OriginConnection:
        try:
            connection = self._tools.upstream.lend(
                origin, fresh=fresh, tunnel=self.switches, strict=self.visit.strict_tls, cut=self._waiting
            )
        except BlockedError as error:
            self.entry.kept = RequestOutcome.BLOCKED
            raise NoResponseError(403, f"{error.reason}: {error}") from error
        except (UnknownHostError, ConnectError) as error:
            raise NoResponseError(502, f"{error.reason}: {error}") from error
        except WaitCancelledError as error:
            raise NoResponseError(502, f"cut: {self._cut_for}") from error
        self._connection, tls, entry = connection, connection.tls, self.entry
        entry.tls_error, entry.tls_version, entry.remote_ip = tls.error, tls.version, connection.remote_ip
        entry.tls_cipher, entry.tls_certificate = tls.cipher, tls.certificate
        if self._cut_for:
            shut_socket(connection.sock)
        return connection

    def _read_head(self, connection: OriginConnection) -> tuple[http1.ResponseHead, bytes]:
        buffer, interim, searched = bytearray(), 0, 0
        deadline = self._started + self._tools.settings.response_limit_s
        while True:
            end = http1.find_head_end(buffer, searched)
            if end >= 0:
                searched = 0
                head = http1.parse_response_head(bytes(buffer[:end]))
                del buffer[:end]
                if head.status >= 200 or (head.status == 101 and self.switches):
                    return head, bytes(buffer)
                interim += 1  # RFC 9110 15.2: interim responses come before the one
                if head.status == 101 or interim > MAX_INTERIM:
                    raise http1.MalformedMessageError("It switches protocols, or sends only interim responses.")
                continue
            searched = len(buffer)
            if searched > http1.HEAD_LIMIT_BYTES:
                raise http1.MalformedMessageError("The head is longer than 1 MiB.")
            if self._tools.monotonic() > deadline:
                raise TimeoutError
            if not (piece := connection.sock.recv(connection.read_bytes)):
                raise ConnectionLostError("closed before a response")
            buffer += piece

    def read_more(self, connection: OriginConnection, body: http1.BodyParser, received: int) -> Bytes:
        """Return the next body bytes; empty at the end or when truncated (`entry.truncated`)."""
        entry = self.entry
        if self._is_over_limit(received):
            return b""
        data: Bytes = b""
        try:
            if self._failure is not None:
                raise self._failure
            data = self._gather(connection, body.left)
        except TimeoutError:
            entry.truncated, entry.reason = "time", "silence: read_timeout_s"
        except (OSError, ValueError) as error:
            entry.truncated, entry.reason = "disconnect", f"disconnected: {error}"
        if not data and not body.close() and not entry.truncated:
            entry.truncated, entry.reason = "disconnect", "disconnected: closed too early"
        if not data and self._cut_for:
            entry.truncated, entry.reason = self._cut_for, "cut: the visit ended"
        room = self._tools.settings.body_limit_bytes - received
        return data if len(data) <= room else data[:room]

    def _is_over_limit(self, received: int) -> bool:
        """Return whether a body of that size has reached a limit, which then truncates it."""
        seconds = self._tools.monotonic() - self._started
        if (excess := self._tools.limits.excess(self.visit, received, seconds)) is None:
            return False
        self.entry.truncated, self.entry.reason = excess.truncated, excess.reason
        self.visit.failure = self.visit.failure or excess.failure
        return True

    def _gather(self, connection: OriginConnection, left: int | None) -> Bytes:
        """Return available data, up to `GATHER_BYTES` and to the `left` length; blocks for the first piece only."""
        sock, most = connection.sock, connection.read_bytes
        if left is not None and left > most:
            return self._gather_block(sock, min(left, GATHER_BYTES), most)
        piece = sock.recv(most)
        if len(piece) in (0, left) or not connection.readable():
            return piece
        pieces, size = [piece], len(piece)
        while piece and size < GATHER_BYTES and size != left and connection.readable():
            try:
                piece = sock.recv(most)
            except (OSError, ValueError) as error:
                self._failure = error  # raised after the data before it was relayed
                break
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    def _gather_block(self, sock: socket.socket, size: int, most: int) -> bytearray:
        block = bytearray(size)
        view, end = memoryview(block), 0
        while end < size:
            try:
                got = sock.recv_into(view[end : end + most])
            except (OSError, ValueError) as error:
                if not end:
                    raise
                self._failure = error
                break
            end += got
            if got < most:
                break
        view.release()
        del block[end:]
        return block

    def count(self, size: int) -> None:
        """Count received bytes against the limits."""
        self._tools.limits.count(self.visit, size)

    def complete_entry(self, head: http1.ResponseHead, body: http1.BodyParser, relay: "ResponseRelay") -> None:
        """Complete the log entry after the last byte."""
        entry = self.entry
        entry.status = head.status
        entry.mime = head.mime
        entry.size = len(head.raw) + relay.body_size
        entry.payload_bytes = relay.payload_size
        entry.identified = identify_payload(head, relay.beginning)
        entry.seconds = round(self._tools.monotonic() - self._started, 6)
        if body.malformed and not entry.truncated:
            entry.truncated, entry.reason = "unspecified", "malformed: its chunks make no sense"
        if relay.is_excluded:
            self.leave_out(head, entry.identified)


class ResponseRelay:
    """Relay of one response to browser and spool, with counting and hashing."""

    def __init__(self, exchange: Exchange, spool: BodySpool, browser: BrowserConnection | None, *, coded: bool) -> None:
        self._exchange = exchange
        self.spool = spool
        self._browser = browser
        self._held = b""  # the head, sent together with the first bytes of the body
        self.browser_listens = browser is not None
        self.block: Any = None
        self.payload = hashlib.sha256()
        self.coded = hashlib.sha256() if coded else None
        self.body_size = 0
        self.payload_size = 0
        self.beginning = b""  # of the payload
        self.surplus = False
        self.is_excluded = False  # by the visit's stored level
        self._is_sniffed = False
        self._head: http1.ResponseHead | None = None

    def start(self, head: http1.ResponseHead, stored: http1.ResponseHead, *, keep_alive: bool) -> None:
        """Begin with the head, and its form for the record."""
        self._head = head
        self.block = hashlib.sha256(stored.raw)
        self._held = _browser_head(head, self._exchange, keep_alive=keep_alive)
        self._exchange.count(len(head.raw))

    def body(self, body: http1.BodyParser, piece: Bytes, connection: OriginConnection) -> None:
        """Read the body from the connection to its end, after a first piece."""
        left = body.left
        if left is not None and 0 < len(piece) < left <= GATHER_BYTES and connection.readable():
            # The rest of a short body is in transit: send the received part with the head.
            piece += self._exchange.read_more(connection, body, 0)
        while True:
            if piece:
                self.take(body, piece)
            if body.done or body.malformed or self.is_excluded:
                break
            if self._held and not connection.readable():
                self._send(b"")
            if not (piece := self._exchange.read_more(connection, body, self.body_size)):
                self._check_level(is_over=True)
                break
        if self._held:
            self._send(b"")

    def take(self, body: http1.BodyParser, piece: Bytes) -> int:
        """Count, check, hash and store a piece; return how many of its bytes belong to the body."""
        consumed, payload = body.feed(piece)
        if consumed != len(piece):
            self.surplus = True
            piece = piece[:consumed]
        self.body_size += consumed
        self.payload_size += len(payload)
        if len(self.beginning) < SNIFF_BYTES:
            self.beginning += payload[: SNIFF_BYTES - len(self.beginning)]
        self._exchange.count(consumed)
        self._check_level(is_over=body.done)
        if self.is_excluded:
            return consumed
        self._send(piece)
        self.spool.add(piece)
        self.block.update(piece)
        self.payload.update(payload)
        if self.coded is not None:
            self.coded.update(piece)
        return consumed

    def exclude(self) -> None:
        """Store nothing of the response: its declared type is excluded by the visit's stored level."""
        self.is_excluded = self._is_sniffed = True

    def end(self) -> None:
        """Decide about a body too short to be identified before its end."""
        with suppress(NoResponseError):
            self._check_level(is_over=True)

    def _check_level(self, *, is_over: bool) -> None:
        """Check once there are enough bytes whether the payload's type is excluded (NoResponseError)."""
        stored, head = self._exchange.visit.stored, self._head
        if stored is DEFAULT_STORED_LEVEL or self._is_sniffed or head is None:
            return
        if len(self.beginning) < HEADER_BYTES and not is_over:
            return
        self._is_sniffed = True
        mime = identify_payload(head, self.beginning)
        # Browsers take no other type for an SVG image than its own; in a document it is text.
        self.is_excluded = mime != "image/svg+xml" and stored.excludes_type(mime)
        if self.is_excluded and self._held:
            raise self._exchange.leave_out(head, mime)

    def _send(self, piece: Bytes) -> None:
        data = self._held + piece if self._held else piece
        self._held = b""
        if self.browser_listens and self._browser is not None:
            try:
                self._browser.send(data)
            except ConnectionLostError:
                self.browser_listens = False


def _browser_head(head: http1.ResponseHead, exchange: Exchange, *, keep_alive: bool) -> bytes:
    """Return the response's head as sent to the browser.

    It would attribute an origin's 407 to this proxy (RFC 9110, 15.5.8; C-01). For a range that is the whole, a whole
    response becomes the partial one requested, ``bytes=0-`` (RFC 9110, 14.2).
    """
    forwarded = http1.forwarded_response_head(head, keep_alive=keep_alive)
    first = b""
    if head.status == 407:
        first = b"HTTP/1.1 502 Bad Gateway\r\nWeboid-Proxy-Error: origin: 407"
    elif exchange.ranged and head.status == 200:
        length = head.get(b"content-length") or b""
        gives_parts = (head.get(b"accept-ranges") or b"").strip().lower() == b"bytes"
        plain = head.get(b"content-encoding") is None and head.get(b"transfer-encoding") is None
        if gives_parts and plain and length.isdigit() and (size := int(length)):
            first = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-%d/%d"
            first %= (size - 1, size)
    if first:
        forwarded = first + forwarded[forwarded.index(b"\r\n") :]
    added = exchange.visit.added_head
    return forwarded[:-2] + added + b"\r\n" if added else forwarded


def now_ms() -> int:
    """Return the current time in milliseconds since 1970 UTC; the default clock of a process."""
    return time.time_ns() // 1_000_000
