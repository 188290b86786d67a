"""HTTP/1.1 as a server speaks it: small, quick, and able to misbehave on purpose.

A site is a function from `SiteRequest` to an `Answer`: either a `SiteReply` that is ready, or a coroutine
function that writes to an `PacedWriter` at its own pace. The connection keeps the order of pipelined
requests, honours ``Connection: close`` and HEAD, and stops reading while an answer is under way.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import cast
from urllib.parse import parse_qsl, unquote

HEAD_LIMIT = 64 * 1024  # a request head longer than this is refused
LOG_LIMIT = 50_000  # requests remembered


@dataclass(frozen=True, slots=True)
class SiteRequest:
    """One request, its body read to the end."""

    scheme: str
    method: str
    target: str
    host: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    keep_alive: bool

    @property
    def path(self) -> str:
        """Return the path without its query, percent-decoded."""
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> dict[str, str]:
        """Return the query's last value for each name."""
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    def header(self, name: str) -> str:
        """Return the first header of that name (given in lower case); empty when there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")


@dataclass(frozen=True, slots=True)
class SiteReply:
    """A response that is ready: status line and headers (without the blank line), and the body."""

    head: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request as it was logged."""

    scheme: str
    head: str

    @property
    def method(self) -> str:
        """Return the request's method."""
        return self.head.split(" ", 1)[0]

    @property
    def target(self) -> str:
        """Return the request target as it was sent."""
        return self.head.split(" ", 2)[1]

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Return the header fields in their order."""
        return _fields(self.head.split("\r\n")[1:])

    @property
    def url(self) -> str:
        """Return the requested URL."""
        host = next((value for name, value in self.headers if name.lower() == "host"), "")
        return f"{self.scheme}://{host}{self.target}"


class PacedWriter:
    """Writer of slow or broken responses, at their own pace."""

    def __init__(self, connection: "SiteConnection", request: SiteRequest) -> None:
        self._connection = connection
        self.request = request

    async def write(self, data: bytes) -> None:
        """Send `data` and wait until the other side has taken most of it.

        Raises:
            ConnectionError: the other side has gone.
        """
        await self._connection.send(data)

    async def reply(self, reply: SiteReply) -> None:
        """Send a whole response."""
        await self.write(rendered(reply, self.request))

    async def chunk(self, data: bytes) -> None:
        """Send `data` as one chunk (RFC 9112, 7.1); empty data ends the body."""
        await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    def close(self) -> None:
        """End the connection after what was written."""
        self._connection.close()

    def abort(self) -> None:
        """Break the connection off with a reset, at once."""
        self._connection.abort()


Answer = SiteReply | Callable[[PacedWriter], Awaitable[None]]
Site = Callable[[SiteRequest], Answer]


def response(
    status: int = 200,
    body: bytes | str = b"",
    *,
    content_type: str = "text/html; charset=utf-8",
    headers: tuple[tuple[str, str], ...] = (),
    length: int | None = None,
) -> SiteReply:
    """Return a response with its Content-Length; `length` replaces it with a false one."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} {_reason(status)}"]
    if data or content_type != "text/html; charset=utf-8" or status not in {204, 304}:
        lines.append(f"Content-Type: {content_type}")
    lines.extend(f"{name}: {value}" for name, value in headers)
    if status not in {204, 304}:
        lines.append(f"Content-Length: {len(data) if length is None else length}")
    return SiteReply("\r\n".join(lines).encode("latin-1") + b"\r\n", data)


def chunked_head(content_type: str = "text/html; charset=utf-8", headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Return the complete head of a chunked response."""
    extra = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return (
        "HTTP/1.1 200 OK\r\n"
        f"Content-Type: {content_type}\r\n{extra}Transfer-Encoding: chunked\r\n"
        f"Date: {formatdate(usegmt=True)}\r\n\r\n"
    ).encode("latin-1")


def rendered(reply: SiteReply, request: SiteRequest) -> bytes:
    """Return the bytes of a response to that request: with a date, and without a body for HEAD."""
    tail = b"\r\n" if request.keep_alive else b"Connection: close\r\n\r\n"
    body = b"" if request.method == "HEAD" else reply.body
    return b"".join((reply.head, _date(), tail, body))


class SiteConnection(asyncio.Protocol):
    """One connection: reads requests, asks the site, writes answers, in order."""

    def __init__(self, scheme: str, site: Site, log: deque[LoggedRequest]) -> None:
        self._scheme = scheme
        self._site = site
        self._log = log
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End an answer that is under way."""
        self._transport = None
        self._room.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """Make writers wait: the other side reads slowly."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let writers go on: the other side has caught up."""
        self._room.set()

    def data_received(self, data: bytes) -> None:
        """Take bytes; answer every request that is complete."""
        self._buffer = self._buffer + data if self._buffer else data
        if self._task is None:
            self._serve()

    async def send(self, data: bytes) -> None:
        """Write, and wait for room."""
        if self._transport is None:
            raise ConnectionResetError("The other side has gone.")
        self._transport.write(data)
        await self._room.wait()
        if self._transport is None:
            raise ConnectionResetError("The other side has gone.")

    def close(self) -> None:
        """End the connection after what was written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Break the connection off."""
        if self._transport is not None:
            self._transport.abort()

    def _serve(self) -> None:
        while self._transport is not None and not self._transport.is_closing():
            request = self._next_request()
            if request is None:
                return
            answer = self._site(request)
            if not isinstance(answer, SiteReply):
                self._task = asyncio.ensure_future(self._run(answer, request))
                return
            self._transport.write(rendered(answer, request))
            if not request.keep_alive:
                self._transport.close()

    async def _run(self, answer: Callable[[PacedWriter], Awaitable[None]], request: SiteRequest) -> None:
        try:
            await answer(PacedWriter(self, request))
        except ConnectionError:
            self.close()
        if not request.keep_alive:
            self.close()
        self._task = None
        self._serve()

    def _next_request(self) -> SiteRequest | None:
        """Take the next whole request off the buffer; None when there is none, or a malformed one."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_LIMIT:
                self.close()
            return None
        head = self._buffer[:end].decode("latin-1")
        line, *lines = head.split("\r\n")
        parts = line.split(" ")
        if len(parts) != 3:
            self.close()
            return None
        fields = _fields(lines)
        known = {name.lower(): value for name, value in fields}
        body = self._body(end + 4, known)
        if body is None:
            return None
        self._log.append(LoggedRequest(self._scheme, head))
        closes = known.get("connection", "").lower() == "close" or parts[2] == "HTTP/1.0"
        host = known.get("host", "").rpartition(":")[0] or known.get("host", "")
        return SiteRequest(self._scheme, parts[0], parts[1], host.lower(), tuple(fields), body, not closes)

    def _body(self, start: int, known: dict[str, str]) -> bytes | None:
        """Take the body of the request whose head ends at `start` off the buffer; None when it is incomplete."""
        if "transfer-encoding" in known:
            end = self._buffer.find(b"0\r\n\r\n", start)
            stop = end + 5 if end >= 0 else -1
        else:
            length = known.get("content-length", "0")
            stop = start + int(length) if length.isdigit() else -1
        if stop < 0 or len(self._buffer) < stop:
            if known.get("expect", "").lower() == "100-continue" and self._transport is not None:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return None
        body, self._buffer = self._buffer[start:stop], self._buffer[stop:]
        return body


def _fields(lines: list[str]) -> list[tuple[str, str]]:
    split = (line.partition(":") for line in lines)
    return [(name, value.strip()) for name, colon, value in split if colon]


@lru_cache(maxsize=64)
def _reason(status: int) -> str:
    return HTTPStatus(status).phrase if status in set(HTTPStatus) else "Something"


class _DateCache:
    """The Date header, made once a second."""

    second = -1
    line = b""


def _date() -> bytes:
    second = int(asyncio.get_running_loop().time())
    if second != _DateCache.second:
        _DateCache.second = second
        _DateCache.line = f"Date: {formatdate(usegmt=True)}\r\n".encode()
    return _DateCache.line
