"""Handler of one browser connection: authorisation, tunnels, any number of requests.

The proxy credentials (RFC 7617) identify the visit, and nothing else in a request controls the proxy (C-01, C-02);
`proxy.warcprox_api` has a listener of its own for warcprox's methods and headers.
"""

import logging
import socket
import socketserver
import ssl
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from net import http1
from net.connect_errors import BlockedError, ConnectError, UnknownHostError
from proxy.browser_connection import (
    BrowserConnection,
    ConnectionLostError,
    Origin,
    TargetTooLongError,
    host_header,
    parse_absolute,
    parse_authority,
    parse_tunnelled,
)
from proxy.exchange import Exchange, NoResponseError, left_out_reason
from proxy.observed_tunnel import REQUEST_BODY_LIMIT_BYTES, ObservedTunnel
from proxy.request_log import RequestLogEntry, RequestOutcome
from proxy.visit_registry import TOKEN_HEADER, VisitSession
from proxy.websocket import WebSocketExchange, asks_for_websocket

if TYPE_CHECKING:
    from proxy.archiving_proxy import RecorderServer

log = logging.getLogger(__name__)

ERROR_HEADER = "Weboid-Proxy-Error"
IDLE_TIMEOUT_S = 120.0


class ArchivingHandler(socketserver.BaseRequestHandler):
    """Handler of one browser connection, until either side closes it."""

    server: "RecorderServer"
    request: socket.socket

    def setup(self) -> None:
        """Set up the reader of the socket."""
        sock = self.request
        sock.settimeout(IDLE_TIMEOUT_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.wire = BrowserConnection(sock)
        self.tunnel: Origin | None = None
        self._authorization: bytes | None = None  # of its CONNECT, once there is a tunnel
        self._borrowed = 0
        self.server.open_handlers.add(self)

    def finish(self) -> None:
        """Close nothing: there are no buffers to flush."""
        self.server.open_handlers.discard(self)

    def handle(self) -> None:
        """Serve requests until the connection is closed."""
        try:
            while self._serve_one():
                continue
        except (ConnectionLostError, ssl.SSLError, OSError) as error:
            log.debug("connection.lost %s", error)
        except http1.MalformedMessageError as error:
            status = 414 if isinstance(error, TargetTooLongError) else 400
            self.answer_error(status, f"malformed: {error}", keep_alive=False)

    def _serve_one(self) -> bool:
        """Serve one request; return whether another may follow."""
        if (raw := self.wire.read_head()) is None:
            return False
        head = http1.parse_request_head(raw)
        keep_alive = http1.keeps_alive(head.version, head.get(b"proxy-connection") or head.get(b"connection"))
        if (visit := self.visit_of(head)) is None:
            if self.server.visits.is_between_visits(self._authorization) or self.tunnel is not None:
                # A 407 would make the browser forget the credentials of its next visit.
                self.answer_error(403, "visit: over", keep_alive=False)
                return False
            try:
                self.read_body(head)
            except NoResponseError as error:
                raise ConnectionLostError("An unread request body was too long.") from error
            finally:
                self.return_borrowed()
            self.send(407, b'Proxy-Authenticate: Basic realm="weboid"\r\n', keep_alive=keep_alive)
            return keep_alive
        if head.method == "CONNECT":
            if self.tunnel is not None:
                raise http1.MalformedMessageError("CONNECT inside a tunnel.")
            host, port = parse_authority(head.target, 443)
            self.send(200, b"", keep_alive=True, body=None)
            self.tunnel = (host, port, self.wire.speaks_tls())
            if not self.tunnel[2]:  # browsers request a tunnel for ws:// too (RFC 6455, 4.1)
                return True
            if visit.browser_hosts & {host, "*"} and self._observe(visit, host, port):
                return False
            context = self.server.ca.context_for(host)
            try:
                secured = context.wrap_socket(self.wire.sock, server_side=True)
            except (OSError, ValueError) as error:
                raise ConnectionLostError(f"The browser ended the handshake: {error}.") from error
            self.request = secured
            self.wire = BrowserConnection(secured)
            return True
        return self.forward(head, visit, keep_alive=keep_alive)

    def visit_of(self, head: http1.RequestHead) -> VisitSession | None:
        """Return the visit of a request, None without valid credentials; in a tunnel those of its CONNECT count."""
        if self.tunnel is None:  # the CONNECT has named the context; its visits take turns
            self._authorization = head.get(b"proxy-authorization")
        return self.server.visits.authorised(self._authorization)

    def is_answered(self, _head: http1.RequestHead, _visit: VisitSession, _url: str, *, keep_alive: bool) -> bool:  # noqa: ARG002
        """Answer a request that must not reach its origin; return whether it was one."""
        return False

    def _observe(self, visit: VisitSession, host: str, port: int) -> bool:
        """Relay and record the browser's own TLS connection; return False when there is none to the host."""
        try:
            connection = self.server.exchanges.upstream.lend((host, port, False), tunnel=True)
        except (BlockedError, UnknownHostError, ConnectError):  # so does the request, which is answered with the reason
            return False
        ObservedTunnel(
            self.server.exchanges, visit, (host, port, True), connection, self.wire, self.server.secrets
        ).run()
        return True

    def forward(self, head: http1.RequestHead, visit: VisitSession, *, keep_alive: bool) -> bool:
        """Run the exchange of a request; return whether another may follow."""
        # (origin, request target in origin form, URL) of a request.
        if self.tunnel is None:
            origin, target, url = parse_absolute(head.target)
        else:
            origin, target, url = self.tunnel, *parse_tunnelled(head.target, self.tunnel)
        token = (head.get(TOKEN_HEADER) or b"").decode("latin-1")
        if visit.token:
            # Without one it is a straggler of a tab that is being closed, perhaps of an earlier page; before the
            # request for the page itself it certainly is.
            if token != visit.token and (token or not _may_lack_token(head) or not visit.entries):
                self.answer_error(403, "visit: over", keep_alive=False)
                return False
            head = replace(head, headers=tuple(each for each in head.headers if each[0] != TOKEN_HEADER))
        head = http1.with_headers(head, visit.headers)
        if self.is_answered(head, visit, url, keep_alive=keep_alive):
            return keep_alive
        kind = WebSocketExchange if asks_for_websocket(head) else Exchange
        exchange = kind(self.server.exchanges, visit, url, head.method)
        if refused := visit.begin(exchange, exchange.entry):
            self.answer_error(403, refused, keep_alive=False)
            return False
        if head.method == "GET":
            visit.first_headers = visit.first_headers or head.headers
            head = self._for_the_whole(exchange, head)
        try:
            keep_alive = self._exchange(exchange, head, origin, target, keep_alive=keep_alive)
            is_part = exchange.entry.status == 206 and exchange.entry.kept is not RequestOutcome.LEFT_OUT
            if is_part and self.server.exchanges.settings.whole_ranges:
                self._fetch_whole(exchange.entry, visit, head, origin, target)
            return keep_alive
        finally:
            self.return_borrowed()
            visit.remember(exchange.entry, exchange.sent_to)
            visit.end(exchange)

    def _for_the_whole(self, exchange: Exchange, head: http1.RequestHead) -> http1.RequestHead:
        """Remove a range that covers the whole resource (a player's ``bytes=0-``), unless that was already fetched."""
        settings = self.server.exchanges.settings
        if head.get(b"range") != b"bytes=0-" or exchange.switches or not settings.whole_ranges:
            return head
        if head.get(b"if-range") is not None or not exchange.visit.wants_whole(exchange.url):
            return head
        exchange.ranged = exchange.awaited = True
        return replace(head, headers=tuple(h for h in head.headers if h[0] != b"range"))

    def _fetch_whole(
        self, part: RequestLogEntry, visit: VisitSession, head: http1.RequestHead, origin: Origin, target: str
    ) -> None:
        """Fetch the whole of a resource requested by range, once, in the background."""
        if head.method != "GET" or not visit.wants_whole(part.url):
            return
        headers = tuple(h for h in head.headers if h[0] not in (b"range", b"if-range"))
        request = http1.forwarded_request(
            replace(head, headers=headers), target=target, host=host_header(origin), length=None
        )
        exchange = Exchange(self.server.exchanges, visit, part.url, "GET", awaited=True)
        if not visit.begin(exchange, exchange.entry):
            exchange.start_alone(origin, request)

    def _exchange(
        self, exchange: Exchange, head: http1.RequestHead, origin: Origin, target: str, *, keep_alive: bool
    ) -> bool:
        entry = exchange.entry
        if refusal := self.server.exchanges.limits.refusal(exchange.visit):
            entry.kept, entry.reason = RequestOutcome.BLOCKED, refusal
            self.answer_error(403, refusal, keep_alive=False)
            return False
        if exchange.switches and not self.server.exchanges.settings.websockets:
            entry.kept, entry.reason = RequestOutcome.BLOCKED, "websocket"
            self.answer_error(501, entry.reason, keep_alive=False)
            return False
        try:
            body = self._checked_body(exchange, head)
            length = None if body is None else len(body)
            connection = b"Upgrade" if exchange.switches else b"keep-alive"
            forward = partial(
                http1.forwarded_request, target=target, host=host_header(origin), length=length, connection=connection
            )
            request = forward(head)
            visit = exchange.visit
            if visit.confirm_within_ms and not exchange.switches:
                stored = self.server.exchanges.stored.find(
                    exchange.url, head, bucket=visit.bucket, since_ms=entry.started_ms - visit.confirm_within_ms
                )
                if stored is not None:
                    exchange.confirmable = (stored, request)
                    request = forward(http1.with_headers(head, stored.conditions))
            return exchange.run(origin, request + (body or b""), self.wire, keep_alive=keep_alive)
        except NoResponseError as error:
            entry.reason = error.reason
            keep_alive = keep_alive and not error.close
            self.answer_error(error.status, error.reason, keep_alive=keep_alive)
            return keep_alive
        except (ConnectionLostError, http1.MalformedMessageError) as error:
            entry.reason = entry.reason or f"request: {error}"
            raise
        except OSError as error:  # the spool's disk, not the browser
            exchange.fail_visit(error)
            return False

    def _checked_body(self, exchange: Exchange, head: http1.RequestHead) -> bytes | None:
        """Read as `read_body`; NoResponseError also for a request that is not made, and why."""
        entry, stored = exchange.entry, exchange.visit.stored
        if exchange.switches and http1.request_framing(head)[0] is not http1.BodyFraming.NONE:
            entry.kept = RequestOutcome.BLOCKED  # origins could parse it as a request (RFC 9112, 11.2)
            raise NoResponseError(400, "websocket: a handshake has no body", close=True)
        body = self.read_body(head)
        # Browsers name the destination to secure origins only.
        destination = (head.get(b"sec-fetch-dest") or b"").decode("latin-1").strip().lower()
        if stored.excludes_destination(destination):
            entry.kept = RequestOutcome.LEFT_OUT
            raise NoResponseError(403, left_out_reason(destination, stored))
        return body

    def read_body(self, head: http1.RequestHead) -> bytes | None:
        """Read the request's body without its transfer coding; None without; NoResponseError: too long."""
        framing, length = http1.request_framing(head)
        if framing is http1.BodyFraming.NONE:
            return None
        if (head.get(b"expect") or b"").lower() == b"100-continue":
            self.wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body, pieces, size = http1.BodyParser(framing, length), [], 0
        while not body.done:
            piece = self.wire.read_piece()
            if not piece or body.malformed:
                raise ConnectionLostError("The browser disconnected within a body.")
            consumed, payload = body.feed(piece)
            self.wire.unread(piece[consumed:])
            pieces.append(payload)
            size += len(payload)
            # Take memory for it from the shared allowance.
            if size > REQUEST_BODY_LIMIT_BYTES or not self.server.exchanges.space.take(len(payload)):
                raise NoResponseError(413, "request-too-large", close=True)
            self._borrowed += len(payload)
        return b"".join(pieces)

    def return_borrowed(self) -> None:
        """Return the memory of request bodies to the shared allowance."""
        self.server.exchanges.space.give_back(self._borrowed)
        self._borrowed = 0

    def answer_error(self, status: int, reason: str, *, keep_alive: bool) -> None:
        """Send an error of the proxy, marked to distinguish it from origin responses."""
        marked = " ".join(reason.split()).encode("ascii", "replace").decode()[:500]
        header = f"{ERROR_HEADER}: {marked}\r\nContent-Type: text/plain\r\n".encode()
        self.send(status, header, keep_alive=keep_alive)

    def send(
        self,
        status: int,
        headers: bytes,
        *,
        keep_alive: bool,
        body: bytes | None = b"",
        phrase: str = "",
        head_only: bool = False,
    ) -> None:
        """Send a response of the proxy's own; `body` None: one without a length (204, CONNECT)."""
        lines = b"HTTP/1.1 %d %s\r\n" % (status, (phrase or HTTPStatus(status).phrase).encode())
        if body is not None:
            lines += b"Content-Length: %d\r\nCache-Control: no-store\r\n" % len(body)
            lines += b"Connection: keep-alive\r\n" if keep_alive else b"Connection: close\r\n"
        self.wire.send(lines + headers + b"\r\n" + (b"" if head_only else body or b""))


def _may_lack_token(head: http1.RequestHead) -> bool:
    """Return whether browsers make such a request themselves, without the headers of a page."""
    destination = (head.get(b"sec-fetch-dest") or b"").decode("latin-1")
    return head.method == "OPTIONS" or asks_for_websocket(head) or destination.endswith("worker")
