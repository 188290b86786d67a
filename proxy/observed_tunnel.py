"""Tunnels whose TLS and HTTP are the browser's own, decoded with its secrets and recorded as they pass.

For hosts that refuse the recorder's connections (docs/decisions/037-browser-connections.md). Data is decoded before
it is passed on, unchanged: what cannot be recorded ends the tunnel.
"""

import hashlib
import logging
import re
from collections import deque
from dataclasses import InitVar, dataclass
from http import HTTPStatus

import hpack

from core.timestamps import from_unix_milliseconds
from net import http1
from net.http1 import HEAD_LIMIT_BYTES as HEAD_LIMIT
from net.tls_decoder import NotTlsError, TlsDecodeError, TlsDecoder, TlsSecrets
from proxy.browser_connection import BrowserConnection, Origin, host_header, parse_authority, parse_tunnelled
from proxy.exchange import NO_CONTENT, Exchange, ExchangeContext, NoResponseError, ResponseRelay
from proxy.limits import BodySpool
from proxy.redaction import redact_request, redact_response
from proxy.request_log import RequestOutcome
from proxy.upstream import OriginConnection
from proxy.visit_registry import VisitSession
from proxy.websocket import SocketRelay

log = logging.getLogger(__name__)

REQUEST_BODY_LIMIT_BYTES = 64 << 20
FRAME_LIMIT_BYTES = 1 << 20  # Chromium takes frames of 16 KiB
HPACK_TABLE_BYTES = 1 << 20  # at most what an encoder may choose; Chromium allows 64 KiB
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113, 3.4
_DATA, _HEADERS, _RESET, _PUSH, _CONTINUATION = 0, 1, 3, 5, 9
_END_STREAM, _END_HEADERS, _PADDED, _PRIORITY = 1, 4, 8, 32
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TO_BLANKS = bytes.maketrans(b"\0\r\n", b"   ")


class TunnelEndError(Exception):
    """End of a tunnel for a limit or a fault; its text is the reason for the log."""


class ObservedExchange(Exchange):
    """Exchange between browser and origin, recorded as its parts pass."""

    def __init__(self, tunnel: "ObservedTunnel", url: str, method: str, request: bytes) -> None:
        super().__init__(tunnel.tools, tunnel.visit, url, method)
        self._connection, self._browser = tunnel.connection, tunnel.browser
        self._request = bytearray(request)
        self._borrowed = 0  # memory of the request's body
        self._head: http1.ResponseHead | None = None
        self._stored_head: http1.ResponseHead | None = None
        self._framing = http1.BodyFraming.NONE
        self._relay: ResponseRelay | None = None
        self._is_stopped = False  # whether the rest of the body is not recorded
        self._is_finished = False
        self.body = http1.BodyParser(http1.BodyFraming.NONE)
        decoder, entry = tunnel.decoder, self.entry
        entry.protocol, entry.remote_ip = tunnel.protocol, tunnel.connection.remote_ip
        entry.tls_version, entry.tls_cipher = decoder.version, decoder.cipher
        entry.tls_certificate, entry.tls_error = tunnel.certificate_facts()

    @property
    def is_answered(self) -> bool:
        """Return whether the head of its response has passed."""
        return self._head is not None

    def add_to_request(self, data: bytes) -> None:
        """Append a piece of the request's body; TunnelEndError: it is too long."""
        if self._is_finished:  # it was answered already
            return
        size = self._borrowed + len(data)
        if size > REQUEST_BODY_LIMIT_BYTES or not self._tools.space.take(len(data)):
            raise TunnelEndError("request-too-large")
        self._borrowed = size
        self._request += data

    def answer(self, head: http1.ResponseHead) -> None:
        """Begin the response."""
        self._head = self._stored_head = head
        self._framing, length = http1.response_framing(head, self.entry.method)
        self.body = http1.BodyParser(self._framing, length)
        if self.visit.login:
            self._stored_head = redact_response(head)
        spool = BodySpool(self._tools.space)
        self._relay = ResponseRelay(self, spool, None, coded=self._framing is http1.BodyFraming.CHUNKED)
        self._relay.start(head, self._stored_head, keep_alive=False)
        if head.status not in NO_CONTENT and self.visit.stored.excludes_type(head.mime):
            self._relay.exclude()

    def take(self, data: bytes) -> int:
        """Record a piece of the response's body; return how many of its bytes belong to it."""
        relay, limits = self._relay, self._tools.limits
        assert relay is not None
        self._is_stopped = self._is_stopped or self._is_over_limit(relay.body_size)
        if self._is_stopped:
            if refusal := limits.refusal(self.visit):
                raise TunnelEndError(refusal)
            consumed = self.body.feed(data)[0]
            self.count(consumed)
            return consumed
        before = relay.body_size
        try:
            relay.take(self.body, data[: self._tools.settings.body_limit_bytes - before])
        except NoResponseError:
            pass  # the stored level excludes it
        except OSError as error:
            self.fail_visit(error)
            self._is_stopped = True
            raise TunnelEndError(self.entry.reason) from error
        return relay.body_size - before

    def finish(self, *, is_whole: bool = True, reason: str = "") -> None:
        """Hand the record over, marked as cut for `reason` unless it is whole."""
        if self._is_finished:
            return
        self._is_finished = True
        entry, relay, head = self.entry, self._relay, self._head
        entry.sent = len(self._request)
        if self._cut_for:
            reason = f"cut: {self._cut_for}"
        if head is None or relay is None or self._stored_head is None:
            entry.reason = reason or "disconnected: closed before a response"
        else:
            is_complete = self.body.close() and is_whole and not self._cut_for
            if not is_complete and not entry.truncated:
                entry.truncated = self._cut_for or "disconnect"
                entry.reason = reason or "disconnected: closed too early"
            relay.end()
            self.complete_entry(head, self.body, relay)
            request = bytes(self._request)
            if self.visit.login:
                request = redact_request(request)
            self.record(request, self._stored_head, self.body, self._framing, relay)
        self._tools.space.give_back(self._borrowed)
        self.visit.end(self)


@dataclass(eq=False)
class ObservedTunnel:
    """Tunnel of one browser connection to an origin."""

    tools: ExchangeContext
    visit: VisitSession
    origin: Origin
    connection: OriginConnection
    browser: BrowserConnection
    secrets: InitVar[TlsSecrets]

    def __post_init__(self, secrets: TlsSecrets) -> None:
        self.decoder = TlsDecoder(secrets, patience_s=self.tools.settings.connect_timeout_s)
        self.protocol = ""  # ``h2`` or ``http/1.1``, once it is known
        self._certificate = ("", "")
        self._reader: Http1Reader | Http2Reader | None = None
        self._early = b""  # what the origin sent before the browser
        self.is_opaque = False  # whether it was left to a protocol that is not recorded

    def run(self) -> None:
        """Relay until either side or a limit ends it."""
        early = self.browser.read_piece() if self.browser.has_unread else b""
        reason = "disconnected: closed too early"
        relay = SocketRelay(self.browser.sock, self.connection.sock, self._observe)
        try:
            reason = relay.run(early=early) or reason
        finally:
            if self._reader is not None:
                self._reader.close(reason, is_left=relay.is_left)
            elif reason.startswith(("tls:", "malformed:")):
                self.begin("GET", "/", host_header(self.origin), b"").finish(reason=reason)
            self.connection.close()

    def certificate_facts(self) -> tuple[str, str]:
        """Return the certificate's SHA-256 and fault; of a session that is resumed those of its first connection."""
        if self.decoder.chain and not self._certificate[0]:
            now = from_unix_milliseconds(self.tools.now_ms())
            fault = self.tools.certificates.fault(self.decoder.chain, self.origin[0], now=now)
            self._certificate = (hashlib.sha256(self.decoder.chain[0]).hexdigest(), fault)
            self.visit.certificates[self.origin] = self._certificate
        return self._certificate if self._certificate[0] else self.visit.certificates.get(self.origin, ("", ""))

    def begin(self, method: str, target: str, authority: str, request: bytes) -> ObservedExchange:
        """Register a request; TunnelEndError: it is refused."""
        if refusal := self.tools.limits.refusal(self.visit):
            raise TunnelEndError(refusal)
        origin = (*parse_authority(authority, 443), True)
        exchange = ObservedExchange(self, parse_tunnelled(target, origin)[1], method, request)
        if refused := self.visit.begin(exchange, exchange.entry):
            raise TunnelEndError(refused)
        return exchange

    def leave_opaque(self, exchange: ObservedExchange, status: int) -> None:
        """Note a WebSocket, whose data is not recorded."""
        exchange.entry.kept, exchange.entry.status = RequestOutcome.TUNNELLED, status
        self.visit.end(exchange)

    def _observe(self, from_browser: bytes, from_origin: bytes) -> str:
        """Decode and record what is about to pass; return why the tunnel ends, or empty."""
        try:
            if not self.is_opaque:
                sent = self.decoder.from_client(from_browser)
                received = self.decoder.from_server(from_origin)
                if self._reader is None and sent:
                    is_h2 = sent.startswith(PREFACE[:3])
                    self.protocol = "h2" if is_h2 else "http/1.1"
                    self._reader = Http2Reader(self) if is_h2 else Http1Reader(self)
                    received, self._early = self._early + received, b""
                if self._reader is None:
                    self._early += received
                    return ""
                if sent:
                    self._reader.from_browser(sent)
                if received:
                    self._reader.from_origin(received)
        except NotTlsError as error:
            return f"malformed: {error}"
        except TlsDecodeError as error:
            log.warning("tunnel.undecoded host=%s %s", self.origin[0], error)
            return f"tls: {error}"
        except (http1.MalformedMessageError, hpack.HPACKError, IndexError, ValueError) as error:
            return f"malformed: {error}"
        except TunnelEndError as error:
            return str(error)
        if self.is_opaque and from_origin:
            self.tools.limits.count(self.visit, len(from_origin))
            return self.tools.limits.refusal(self.visit)
        return ""


class Http1Reader:
    """Reader of both directions of HTTP/1.1 (RFC 9112)."""

    def __init__(self, tunnel: ObservedTunnel) -> None:
        self._tunnel = tunnel
        self._sent, self._received = bytearray(), bytearray()
        self._upload = http1.BodyParser(http1.BodyFraming.NONE)
        self._pending: deque[ObservedExchange] = deque()
        self._latest: ObservedExchange | None = None

    def from_browser(self, data: bytes) -> None:
        """Read data that the browser has sent."""
        self._sent += data
        while self._sent:
            if self._upload.done:
                if (raw := _take_head(self._sent)) is None:
                    return
                head = http1.parse_request_head(raw)
                authority = (head.get(b"host") or b"").decode("latin-1")
                self._latest = self._tunnel.begin(head.method, head.target, authority, raw)
                self._pending.append(self._latest)
                self._upload = http1.BodyParser(*http1.request_framing(head))
            else:
                consumed = self._upload.feed(self._sent)[0]
                if self._latest is not None:
                    self._latest.add_to_request(bytes(self._sent[:consumed]))
                del self._sent[:consumed]
                if self._upload.malformed:
                    raise TunnelEndError("malformed: the request's chunks make no sense")

    def from_origin(self, data: bytes) -> None:
        """Read data that the origin has sent."""
        self._received += data
        while self._received:
            if not self._pending:
                raise TunnelEndError("malformed: a response without a request")
            exchange = self._pending[0]
            if not exchange.is_answered:
                if (raw := _take_head(self._received)) is None:
                    return
                head = http1.parse_response_head(raw)
                if head.status == 101:
                    self._tunnel.is_opaque = True
                    self._tunnel.leave_opaque(self._pending.popleft(), head.status)
                    return
                if head.status < 200:
                    continue
                exchange.answer(head)
            else:
                del self._received[: exchange.take(bytes(self._received))]
            if exchange.body.malformed:
                raise TunnelEndError("malformed: its chunks make no sense")
            if exchange.body.done:
                self._pending.popleft().finish()

    def close(self, reason: str, *, is_left: bool) -> None:
        """Finish messages in progress; an end of the connection by the browser (`is_left`) is not that of a message."""
        for exchange in self._pending:
            exchange.finish(is_whole=not is_left, reason=reason)


class _FrameBuffer:
    """Unread frames and header compression of one direction of HTTP/2."""

    def __init__(self) -> None:
        self.unread = bytearray()
        self.block = bytearray()  # header block so far
        self.block_flags = 0
        self.hpack = hpack.Decoder(max_header_list_size=HEAD_LIMIT)
        self.hpack.max_allowed_table_size = HPACK_TABLE_BYTES


class Http2Reader:
    """Reader of both directions of HTTP/2 (RFC 9113); records hold the HTTP/1.1 form of its messages."""

    def __init__(self, tunnel: ObservedTunnel) -> None:
        self._tunnel = tunnel
        self._browser, self._origin = _FrameBuffer(), _FrameBuffer()
        self._streams: dict[int, ObservedExchange] = {}
        self._preface = len(PREFACE)  # bytes of it that are to come

    def from_browser(self, data: bytes) -> None:
        """Read data that the browser has sent."""
        skipped = min(self._preface, len(data))
        self._preface -= skipped
        self._read(self._browser, data[skipped:])

    def from_origin(self, data: bytes) -> None:
        """Read data that the origin has sent."""
        self._read(self._origin, data)

    def close(self, reason: str, *, is_left: bool) -> None:  # noqa: ARG002
        """Finish messages in progress, none of which is whole."""
        for exchange in self._streams.values():
            exchange.finish(is_whole=False, reason=reason)

    def _read(self, side: _FrameBuffer, data: bytes) -> None:
        unread = side.unread
        unread += data
        while len(unread) >= 9:
            end = 9 + int.from_bytes(unread[:3], "big")
            if end > FRAME_LIMIT_BYTES:
                raise TunnelEndError("malformed: an HTTP/2 frame is too long")
            if len(unread) < end:
                return
            kind, flags = unread[3], unread[4]
            stream = int.from_bytes(unread[5:9], "big") & 0x7FFF_FFFF
            payload = bytes(unread[9:end])
            del unread[:end]
            self._read_frame(side, kind, flags, stream, payload)

    def _read_frame(self, side: _FrameBuffer, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (_DATA, _HEADERS, _PUSH) and flags & _PADDED:
            payload = payload[1 : len(payload) - payload[0]]
        exchange = self._streams.get(stream)
        if kind == _DATA and exchange is not None:
            if side is self._browser:
                exchange.add_to_request(payload)
                return
            while payload and exchange.is_answered and not exchange.body.done:
                payload = payload[exchange.take(payload) :]
            if flags & _END_STREAM:
                self._streams.pop(stream).finish()
        elif kind in (_HEADERS, _PUSH):
            offset = 4 if kind == _PUSH else 5 if flags & _PRIORITY else 0
            side.block[:] = payload[offset:]
            side.block_flags = flags if kind == _HEADERS else flags | _PUSHED
        elif kind == _CONTINUATION:
            side.block += payload
            side.block_flags |= flags & _END_HEADERS
            if len(side.block) > HEAD_LIMIT:
                raise TunnelEndError("malformed: a head is longer than 1 MiB")
        elif kind == _RESET and exchange is not None:
            who = "the browser cancelled it" if side is self._browser else "reset by the origin"
            self._streams.pop(stream).finish(is_whole=False, reason=f"disconnected: {who}")
        if kind in (_HEADERS, _PUSH, _CONTINUATION) and side.block_flags & _END_HEADERS:
            fields = side.hpack.decode(bytes(side.block), raw=True)
            side.block.clear()
            if not side.block_flags & _PUSHED:
                self._read_head(side, stream, [(bytes(n), bytes(v)) for n, v in fields])

    def _read_head(self, side: _FrameBuffer, stream: int, fields: list[tuple[bytes, bytes]]) -> None:
        exchange = self._streams.get(stream)
        pseudo = {name: value for name, value in fields if name.startswith(b":")}
        if side is self._browser and exchange is None and b":method" in pseudo:
            method, path = pseudo[b":method"].decode("latin-1"), pseudo.get(b":path", b"/")
            authority = pseudo.get(b":authority", b"")
            first = b"%s %s HTTP/1.1\r\nHost: %s" % (pseudo[b":method"], path, authority)
            # RFC 9113, 8.2.3: cookies that were split are joined.
            cookies = b"; ".join(value for name, value in fields if name == b"cookie")
            others = [each for each in fields if each[0] != b"cookie"]
            if cookies:
                others.append((b"cookie", cookies))
            exchange = self._tunnel.begin(
                method, path.decode("latin-1"), authority.decode("latin-1"), _message_head(first, others)
            )
            if b":protocol" in pseudo:  # a WebSocket (RFC 8441)
                self._tunnel.leave_opaque(exchange, 200)
            else:
                self._streams[stream] = exchange
        elif side is self._origin and exchange is not None and not exchange.is_answered:
            status = int(pseudo.get(b":status", b""))
            if status >= 200:
                phrase = HTTPStatus(status).phrase if status in _STATUSES else ""
                raw = _message_head(f"HTTP/1.1 {status} {phrase}".encode(), fields)
                exchange.answer(http1.parse_response_head(raw))
        if side is self._origin and exchange is not None and side.block_flags & _END_STREAM:
            self._streams.pop(stream).finish()


_PUSHED = 1 << 8  # no flag of HTTP/2
_STATUSES = frozenset(HTTPStatus)


def _take_head(unread: bytearray) -> bytes | None:
    """Remove and return the head at the beginning; None when it is incomplete."""
    end = http1.find_head_end(unread)
    if end < 0:
        if len(unread) > HEAD_LIMIT:
            raise TunnelEndError("malformed: a head is longer than 1 MiB")
        return None
    head = bytes(unread[:end])
    del unread[:end]
    return head


def _message_head(first: bytes, fields: list[tuple[bytes, bytes]]) -> bytes:
    """Return the head of an HTTP/1.1 message; fields that it cannot have are left out (RFC 9113, 8.2)."""
    lines = [first] + [
        name + b": " + value.translate(_TO_BLANKS)
        for name, value in fields
        if _NAME.fullmatch(name) and name != b"transfer-encoding"
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n"
