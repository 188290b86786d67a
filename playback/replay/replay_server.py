"""HTTP server of replay: a gevent loop over connections, for GET and HEAD.

gevent's own server spends more time per request than replay itself, and stops accepting connections when there are
many. This one has a timeout for each step, and closes the longest idle connection when there are too many (P-21).

Heads are parsed strictly (RFC 9112). A request that announces a body is refused and its connection closed, which
prevents request smuggling; so are folded lines, bare line feeds, spaces before colons and a second Host.
"""

import logging
import os
import re
import socket
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache, partial
from io import BytesIO
from ipaddress import ip_address
from typing import Any
from wsgiref.types import WSGIApplication

import gevent
from gevent.server import StreamServer
from gevent.socket import socket as GeventSocket  # noqa: N812 it is a class, whatever its name

from core.errors import PermanentError
from net.address_policy import rate_limit_prefix, unmap_ipv4
from playback.replay.header_gate import LONGEST_TARGET, HeaderGate, Policy, close_body, response_headers

_LOG = logging.getLogger(__name__)

MOST_HEAD = 24 * 1024  # bytes, request line and fields
_MOST_FIELDS = 100

_REQUEST_LINE = re.compile(rb"([A-Za-z!#$%&'*+.^_`|~0-9-]{1,40}) ([!-~]+) HTTP/1\.([01])")
_FIELD = re.compile(rb"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([\t !-~\x80-\xff]*)")
_HOST = re.compile(r"[A-Za-z0-9._\[\]:-]{0,255}", re.ASCII)
_CLOSE = re.compile(r"(?:^|,)[ \t]*close[ \t]*(?:,|$)", re.IGNORECASE)

# Request headers that the gate reads; all others are dropped.
_READ_FIELDS = {
    b"host": "HTTP_HOST",
    b"if-none-match": "HTTP_IF_NONE_MATCH",
    b"range": "HTTP_RANGE",
    b"if-range": "HTTP_IF_RANGE",
    b"service-worker": "HTTP_SERVICE_WORKER",
    b"sec-fetch-dest": "HTTP_SEC_FETCH_DEST",
}
_SINGLE = {b"host", b"content-length", b"transfer-encoding"}


class BadRequestHeadError(Exception):
    """Request head that is refused, with the status line's code and phrase."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True, slots=True)
class ReplayRequestHead:
    """Parsed request head."""

    environ: dict[str, str]  # its values, named as in PEP 3333
    keeps: bool  # the connection stays open after this request


def parse_head(head: bytes) -> ReplayRequestHead:
    """Parse a request head without the blank line; BadRequestHeadError when malformed or too long."""
    line, *rest = head.split(b"\r\n")
    if (match := _REQUEST_LINE.fullmatch(line)) is None:
        is_long = len(line) > LONGEST_TARGET and b" " in line
        raise BadRequestHeadError("414 URI Too Long" if is_long else "400 Bad Request")
    method, target = match[1].decode("ascii"), match[2].decode("ascii")
    if len(target) > LONGEST_TARGET:
        raise BadRequestHeadError("414 URI Too Long")
    if len(rest) > _MOST_FIELDS:
        raise BadRequestHeadError("431 Request Header Fields Too Large")
    fields: dict[bytes, str] = {}
    for each in rest:
        if (field := _FIELD.fullmatch(each)) is None:
            raise BadRequestHeadError("400 Bad Request")
        name = field[1].lower()
        if name in fields and name in _SINGLE:
            raise BadRequestHeadError("400 Bad Request")
        # Of a field that is repeated without leave the first counts.
        fields.setdefault(name, field[2].decode("latin-1").rstrip(" \t"))
    environ = {"REQUEST_METHOD": method, "REQUEST_URI": target}
    is_http_1_1 = match[3] == b"1"
    host, is_reading = fields.get(b"host"), method in {"GET", "HEAD"}
    has_body = b"transfer-encoding" in fields or fields.get(b"content-length", "0") != "0"
    if (
        (host is None and is_http_1_1)
        or not _HOST.fullmatch(host or "")
        or (has_body and is_reading)
        # An absolute target could name another host than Host does; no browser sends one here.
        or (is_reading and not target.startswith("/") and target != "*")
    ):
        raise BadRequestHeadError("400 Bad Request")
    for known, key in _READ_FIELDS.items():
        if known in fields:
            environ[key] = fields[known]
    keeps = is_http_1_1 and not _CLOSE.search(fields.get(b"connection", ""))
    return ReplayRequestHead(environ, keeps and is_reading)


MOST_CONNECTIONS = 4_000
_BACKLOG = 1_024
_BLOCK = 64 * 1024
_IDLE_S = 60.0  # between two requests, and before the first
_HEAD_S = 10.0  # from a head's first byte to its last
_SEND_S = 30.0  # for any answer; one more second for each of these amounts of bytes
_LEAST_BYTES_A_SECOND = 20_000
_LINGER_S = 1.0
MOST_IN_FLIGHT = 256_000_000  # bytes of large bodies held for slow readers
_SHARES = 4  # one neighbourhood's part of them, though always one body
_LARGE = 1_000_000
_LARGE_BLOCK = 256 * 1024
_MAX_SPEEDUP = 9  # with the quota full, readers must be ten times as fast
_RECHECK_S = 1.0


class ReplayServer(StreamServer):  # type: ignore[misc]
    """Server bound to `address` or a shared listening socket; answers after `answer_with` was called."""

    policy: Policy
    before_each: Callable[[], object]  # called before each request is answered
    application: WSGIApplication

    def __init__(self, address: "tuple[str, int] | socket.socket", *, most: int = MOST_CONNECTIONS) -> None:
        listener = address
        if isinstance(address, socket.socket):
            listener = GeventSocket(fileno=address.detach())
            self.max_accept = 1  # other processes accept from it, too
        super().__init__(listener, backlog=None if listener is not address else _BACKLOG)
        self.init_socket()
        self._most = most
        self._idle: OrderedDict[int, Any] = OrderedDict()
        self._count = 0
        self._in_flight: Counter[str] = Counter()  # bytes, by neighbourhood
        self.before_each = lambda: None

    @property
    def port(self) -> int:
        """Port of the listening socket."""
        return int(self.socket.getsockname()[1])

    def answer_with(self, application: WSGIApplication, policy: Policy) -> None:
        """Serve `application` behind the gate."""
        self.policy = policy
        self.application = HeaderGate(application, policy)

    def handle(self, client: Any, address: object) -> None:
        """Serve one connection."""
        self._count += 1
        try:
            if self._count > self._most and not self._close_idle_connection():
                _refuse(client, self.policy, "503 Service Unavailable")
                return
            # Without it a kept-alive connection waits 40 ms for the acknowledgement of each answer.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            host = str(address[0]) if isinstance(address, tuple) and address else ""
            neighbourhood = ""
            with suppress(ValueError):
                neighbourhood = rate_limit_prefix(unmap_ipv4(ip_address(host.partition("%")[0])))
            unread, keeps = b"", True
            while keeps:
                try:
                    head, unread = self._next_head(client, unread)
                    if head is None:
                        return
                    request = parse_head(head)
                except BadRequestHeadError as refusal:
                    _refuse(client, self.policy, refusal.status)
                    return
                keeps = self._answer(client, request, neighbourhood)
        except OSError:
            pass  # the client is gone, or too slow
        except PermanentError as error:
            # During sending: closing the connection signals an incomplete response.
            _LOG.warning("replay.cut_short: %s", error)
        finally:
            self._idle.pop(id(client), None)
            self._count -= 1

    def _next_head(self, client: Any, unread: bytes) -> tuple[bytes | None, bytes]:
        """Return the next head without its blank line, and the bytes after it; None at the end."""
        begun = 0.0
        while True:
            unread = unread.removeprefix(b"\r\n")  # RFC 9112, 2.2
            end = unread.find(b"\r\n\r\n")
            if max(end, len(unread) if end < 0 else 0) > MOST_HEAD:
                raise BadRequestHeadError(_TOO_LARGE if b"\r\n" in unread else "414 URI Too Long")
            if end >= 0:
                return unread[:end], unread[end + 4 :]
            if b"\n\n" in unread or b"\0" in unread:
                raise BadRequestHeadError("400 Bad Request")
            if unread and not begun:
                begun = time.monotonic()
            seconds = begun + _HEAD_S - time.monotonic() if begun else _IDLE_S
            client.settimeout(max(seconds, 0.001))
            self._idle[id(client)] = client  # until something arrives
            try:
                piece: bytes | None = client.recv(_BLOCK)
            except TimeoutError:
                piece = None
            finally:
                self._idle.pop(id(client), None)
            if not piece and not unread:
                return None, b""
            if not piece:
                raise BadRequestHeadError("408 Request Timeout" if piece is None else "400 Bad Request")
            unread += piece

    def _close_idle_connection(self) -> bool:
        while self._idle:
            _, client = self._idle.popitem(last=False)
            try:
                client.shutdown(socket.SHUT_RDWR)  # its greenlet reads the end
            except OSError:
                continue
            return True
        return False

    def _answer(self, client: Any, request: ReplayRequestHead, neighbourhood: str) -> bool:
        """Answer the request; return False when the connection is to be closed."""
        started: list[Any] = []

        def start(status: str, headers: list[tuple[str, str]], _: object = None) -> Any:
            started[:] = [status, headers]

        environ: dict[str, Any] = dict(request.environ)
        environ["wsgi.input"] = BytesIO()
        self.before_each()
        body = self.application(environ, start)
        try:
            status, headers = started
            keeps = request.keeps and bool(self.started)
            head = _head(status, headers, keeps=keeps)
            if isinstance(body, list) and len(body) == 1:
                self._send_whole(client, head, body[0], neighbourhood)
            else:
                _send_blocks(client, head, body)
        finally:
            close_body(body)
        if not keeps:
            _linger(client)
        return keeps

    def _send_whole(self, client: Any, head: bytes, body: bytes, neighbourhood: str) -> None:
        size = len(body)
        if size < _LARGE:
            client.settimeout(_SEND_S + size / _LEAST_BYTES_A_SECOND)
            client.sendall(head + body)
            return
        mine = self._in_flight[neighbourhood]
        is_mine_full = mine > 0 and mine + size > MOST_IN_FLIGHT // _SHARES
        if is_mine_full or self._in_flight.total() + size > MOST_IN_FLIGHT:
            _refuse(client, self.policy, "503 Service Unavailable")
            raise ConnectionAbortedError
        self._in_flight[neighbourhood] += size
        try:
            # The required speed grows with the total size of such bodies.
            begun, view = time.monotonic(), memoryview(body)
            client.settimeout(_SEND_S)
            client.sendall(head)
            for start in range(0, size, _LARGE_BLOCK):
                block, ends = view[start : start + _LARGE_BLOCK], start + _LARGE_BLOCK
                while block:
                    speedup = 1 + _MAX_SPEEDUP * self._in_flight.total() / MOST_IN_FLIGHT
                    allowed = (_SEND_S + ends / _LEAST_BYTES_A_SECOND) / speedup
                    left = begun + allowed - time.monotonic()
                    if left <= 0:
                        raise TimeoutError("The reader is too slow.")
                    client.settimeout(min(left, _RECHECK_S))
                    with suppress(TimeoutError):
                        block = block[client.send(block) :]
        finally:
            self._in_flight[neighbourhood] -= size
            if not self._in_flight[neighbourhood]:
                del self._in_flight[neighbourhood]


_TOO_LARGE = "431 Request Header Fields Too Large"
_date = lru_cache(maxsize=1)(partial(formatdate, usegmt=True))  # of a second


def _head(status: str, headers: Iterable[tuple[str, str]], *, keeps: bool) -> bytes:
    lines = [f"HTTP/1.1 {status}", *[f"{name}: {value}" for name, value in headers]]
    lines.append(f"Date: {_date(int(time.time()))}")
    if not keeps:
        lines.append("Connection: close")
    lines.append("\r\n")
    return "\r\n".join(lines).encode("latin-1")


def _send_blocks(client: Any, head: bytes, blocks: Iterable[bytes]) -> None:
    """Send a body that is read while it is sent, within a minimum speed."""
    begun, size = time.monotonic(), 0
    client.settimeout(_SEND_S)
    client.sendall(head)
    for block in blocks:
        size += len(block)
        left = begun + _SEND_S + size / _LEAST_BYTES_A_SECOND - time.monotonic()
        if left <= 0:
            raise TimeoutError("The reader is too slow.")
        client.settimeout(min(left, _SEND_S))
        client.sendall(block)
        gevent.sleep(0)  # a fast reader must not keep others waiting


def _refuse(client: Any, policy: Policy, status: str) -> None:
    """Send an error status with the standard headers (P-12), and close."""
    headers = response_headers(policy, status, "", [], 0)
    client.settimeout(_LINGER_S)
    client.sendall(_head(status, headers, keeps=False))
    _linger(client)


def _linger(client: Any) -> None:
    """Read for a moment before closing: closing with unread input would discard the answer."""
    client.shutdown(socket.SHUT_WR)
    ends = time.monotonic() + _LINGER_S
    while (left := ends - time.monotonic()) > 0:
        client.settimeout(left)
        if not client.recv(_BLOCK):
            return


def call_on_eof(descriptor: int, call: Callable[[], None]) -> None:
    """Call `call` in a greenlet when the stream ends, e.g. because the parent process has ended."""
    watcher = gevent.get_hub().loop.async_()
    watcher.start(gevent.spawn, call)  # the loop itself must not block, and stopping a server does

    def wait() -> None:
        # Unbuffered: at exit a buffer's lock, held by this thread, would abort the process.
        while os.read(descriptor, 4096):
            pass
        watcher.send()

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()
