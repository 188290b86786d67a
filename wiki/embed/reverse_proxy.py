"""Reverse proxy in front of a wiki of any engine that marks links in its pages.

A page is buffered, marked, and given an ETag of its own, since answers change while the page does not.
Everything else is streamed. A page that cannot be marked (too large, too slow, front unavailable, unknown
coding) is passed on unchanged; the field `Weboid-Embed` gives the result.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpcore

from core.clock import Clock
from core.errors import ConfigError
from core.urls import host_or_empty
from net.http_server import ConnectionLimits, HttpServer, connection_limit
from wiki.embed import proxy_message
from wiki.embed.link_lookup import URLS_AT_ONCE, HttpLinkLookup, LinkLookup, PageLocation
from wiki.embed.static_site import MarkOptions

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_LOG = logging.getLogger(__name__)
_PSEUDONYM = b"weboid-embed"
_ERROR_PAGE = (
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    "<h1>{title}</h1><p>{said}</p><p>This message comes from the proxy in front of the wiki.</p></html>"
)
_TITLES = {
    400: "Invalid request",
    405: "Invalid request",
    501: "Not supported",
    502: "The wiki does not answer",
    504: "The wiki takes too long to answer",
}


class EmbedExchange:
    """One request and its answer."""

    def __init__(self, proxy: "EmbeddingProxy", scope: Scope, receive: Receive, send: Send) -> None:
        self._proxy = proxy
        self._receive = receive
        self._send = send
        self._method: str = scope["method"]
        self._head: proxy_message.HeaderList = [(key.lower(), text) for key, text in scope["headers"]]
        query: bytes = scope.get("query_string", b"")
        self._path: bytes = scope.get("raw_path") or scope["path"].encode()
        self._target = self._path + (b"?" + query if query else b"")
        address = (scope.get("client") or ("",))[0]
        self._caller = proxy_message.ProxyCaller(
            address, scope["scheme"], proxy_message.is_in_networks(address, proxy.settings.behind)
        )
        self._is_started = False
        self._body_read = asyncio.Event()

    async def run(self) -> None:
        """Answer the request; stop when the client disconnects."""
        fault = proxy_message.request_fault(self._method, self._target, self._head)
        if fault is not None:
            await self._send_error(*fault)
            return
        try:
            await self._until_gone(self._answer())
        except httpcore.TimeoutException as error:
            await self._failed(504, "The wiki did not answer in time. Try again later.", error)
        except (httpcore.NetworkError, httpcore.RemoteProtocolError) as error:
            await self._failed(502, "It may be restarting. Try again in a minute.", error)
        except httpcore.LocalProtocolError as error:
            await self._failed(400, "The request is not valid HTTP.", error)

    async def _failed(self, status: int, text: str, error: Exception) -> None:
        _LOG.warning("%s: %s", self._proxy.settings.upstream, str(error) or type(error).__name__)
        if self._is_started:
            return  # the server closes a connection whose answer was cut short
        await self._send_error(status, text)

    async def _until_gone(self, answering: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(answering)
        try:
            disconnect = asyncio.ensure_future(self._gone())
            await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            disconnect.cancel()
        finally:
            if not task.done():
                task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise

    async def _gone(self) -> None:
        """Wait until the client disconnects; only after the request's body was read."""
        await self._body_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _body(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise httpcore.ReadError("the reader disconnected")
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body"):
                self._body_read.set()
                return

    async def _answer(self) -> None:
        settings = self._proxy.settings
        upstream = proxy_message.host_header(self._proxy.upstream)
        head = proxy_message.request_head(self._head, self._caller, upstream=upstream, keeps_host=settings.keeps_host)
        path = self._path.decode("latin-1")
        is_page = proxy_message.may_be_page(self._method, self._head)
        is_page = is_page and not path.startswith(settings.skip_paths)
        has_body = any(key in (b"content-length", b"transfer-encoding") for key, _ in self._head)
        body = self._body() if has_body else None
        if not has_body:
            self._body_read.set()
            head = proxy_message.page_request_head(head) if is_page else head
        async with self._proxy.forwarded(self._method, self._target, head, body) as answer:
            if is_page and answer.status == 206 and proxy_message.is_html(_lowered(answer)):
                head = [each for each in head if each[0] != b"range"]
            else:
                await self._pass(answer, is_page=is_page and not has_body)
                return
        async with self._proxy.forwarded(self._method, self._target, head, None) as answer:
            await self._pass(answer, is_page=True)

    async def _pass(self, answer: httpcore.Response, *, is_page: bool) -> None:
        head = proxy_message.end_to_end_headers(_lowered(answer))
        head = proxy_message.mapped_location(head, upstream=self._proxy.settings.upstream, origin=self._origin())
        if not is_page:
            await self._stream(answer.status, head, answer.aiter_stream())
            return
        why = proxy_message.unmarked_reason(self._head, answer.status, head, self._proxy.settings.private)
        if not why:
            await self._page(answer, head)
            return
        if proxy_message.is_html(head):
            head = [*head, (_PSEUDONYM, f"passed; why={why}".encode())]
        if answer.status == 200 and proxy_message.is_unchanged(self._head, head):
            await self._whole(304, proxy_message.unchanged_head(head), b"")
        else:
            await self._stream(answer.status, head, answer.aiter_stream())

    async def _page(self, answer: httpcore.Response, head: proxy_message.HeaderList) -> None:
        if self._method == "HEAD":
            new = proxy_message.marked_head(head, length=None, tag=b"", coding=b"")
            await self._whole(answer.status, new, b"")
            return
        settings = self._proxy.settings
        body = answer.aiter_stream()
        limits: dict[str, Any] = {"limit": settings.page_limit, "patience_s": settings.patience_s}
        async with proxy_message.buffer_body(body, clock=self._proxy.clock, room=self._proxy.room, **limits) as held:
            data = None
            if held.is_whole:
                coding = proxy_message.header_value(head, b"content-encoding")
                data = proxy_message.decode_body(b"".join(held.parts), coding, limit=settings.page_limit)
            if data is None:
                why = b"too-large" if held.pending is None else b"too-slow"
                if held.is_whole or held.is_crowded:
                    why = b"damaged" if held.is_whole else b"crowded"
                await self._stream(answer.status, [*head, (_PSEUDONYM, b"passed; why=" + why)], held.rest(body))
                return
            around = self._proxy.around(self._origin() + self._target.decode("latin-1"))
            try:
                page, rewritten = await self._proxy.marked(data, around, proxy_message.declared_charset(head))
            except Exception:  # noqa: BLE001 a mistake of ours; the page is still the wiki's
                _LOG.exception("A page could not be marked.")
                page, rewritten = data, "passed; why=mistake"
            tag = proxy_message.page_tag(page) if answer.status == 200 else b""
            was_packed = proxy_message.header_value(head, b"content-encoding")
            coding = b"gzip" if was_packed and proxy_message.accepts_gzip(self._head) else b""
            packed = proxy_message.gzip_body(page) if coding else page
            new = proxy_message.marked_head(head, length=len(packed), tag=tag, coding=coding)
            new.append((_PSEUDONYM, rewritten.encode()))
            if tag and proxy_message.is_unchanged(self._head, new):
                await self._whole(304, proxy_message.unchanged_head(new), b"")
            else:
                await self._whole(answer.status, new, packed)

    async def _whole(self, status: int, head: proxy_message.HeaderList, body: bytes) -> None:
        self._is_started = True
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def _stream(self, status: int, head: proxy_message.HeaderList, body: AsyncIterator[bytes]) -> None:
        self._is_started = True
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        async for part in body:
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def _send_error(self, status: int, reason: str) -> None:
        text = _ERROR_PAGE.format(status=status, title=_TITLES[status], said=reason).encode()
        head = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", b"%d" % len(text)),
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),  # what follows a faulty request may be part of it (RFC 9112, 6.1)
            (b"content-security-policy", b"default-src 'none'"),
        ]
        await self._whole(status, head, b"" if self._method == "HEAD" else text)

    def _origin(self) -> str:
        host = proxy_message.header_value(self._head, b"host") or proxy_message.host_header(self._proxy.upstream)
        if self._caller.is_proxy:
            host = proxy_message.header_value(self._head, b"x-forwarded-host").split(b",")[0].strip() or host
        return f"{proxy_message.reader_scheme(self._head, self._caller)}://{host.decode('latin-1')}"


def _lowered(answer: httpcore.Response) -> proxy_message.HeaderList:
    return [(key.lower(), text) for key, text in answer.headers]


PAGE_LIMIT_BYTES = 8 << 20
BODY_WAIT_S = 10.0  # time after which a page is streamed unmarked
_IN_A_THREAD = 256 << 10  # larger pages do not keep the others waiting
_CONNECTIONS = 200
_BODY_MEMORY_BYTES = 256 << 20  # for all pages that are held at once
# Retried on a new connection when the wiki closed the kept one meanwhile (RFC 9110, 9.2.2).
_REPEATABLE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
# Interfaces for programs, which would save the marks: MediaWiki's and similar ones.
NEVER_MARKED = ("/rest.php/", "/api.php", "/api/rest_v1/", "/w/rest.php/", "/w/api.php")


@dataclass(frozen=True)
class EmbedProxySettings:
    """Settings of the proxy."""

    upstream: str  # the wiki's origin as reached from here: ``http://127.0.0.1:8080``
    keeps_host: bool = True  # forward the readers' Host; otherwise send the wiki's own
    private: proxy_message.PrivatePages = proxy_message.PrivatePages.SKIP  # treatment of pages generated for one reader
    behind: Sequence[proxy_message.Network] = ()  # networks of trusted proxies
    skip_paths: tuple[str, ...] = NEVER_MARKED  # path prefixes that are never marked
    page_limit: int = PAGE_LIMIT_BYTES  # larger pages (bytes) are passed on unchanged
    patience_s: float = BODY_WAIT_S  # slower pages (seconds) are passed on unchanged
    timeout_s: float = 300.0  # maximum silence of the wiki in seconds


class EmbeddingProxy:
    """Proxy as an ASGI application. Close it, or let its server's lifespan do so."""

    def __init__(self, settings: EmbedProxySettings, marking: MarkOptions, lookup: LinkLookup, *, clock: Clock) -> None:
        self.settings = settings
        self._marking = marking
        self._lookup = lookup
        self.clock = clock
        self.room = proxy_message.BodyMemory(max(_BODY_MEMORY_BYTES, settings.page_limit))
        self.upstream = parse_upstream(settings.upstream)
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=_CONNECTIONS, max_keepalive_connections=50, keepalive_expiry=20.0
        )

    async def close(self) -> None:
        """Close the connections to the wiki."""
        await self._pool.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self.close()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            await EmbedExchange(self, scope, receive, send).run()
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1003})

    @asynccontextmanager
    async def forwarded(
        self, method: str, target: bytes, head: proxy_message.HeaderList, body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[httpcore.Response]:
        """Send a request to the wiki; the answer's body is read within the block."""
        origin = self.upstream
        url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=target)
        limits = {"connect": 10.0, "pool": 30.0, **dict.fromkeys(("read", "write"), self.settings.timeout_s)}
        request = httpcore.Request(method, url, headers=head, content=body, extensions={"timeout": limits})
        try:
            answer = await self._pool.handle_async_request(request)
        except (httpcore.ReadError, httpcore.WriteError, httpcore.RemoteProtocolError):
            if body is not None or method not in _REPEATABLE_METHODS:
                raise
            answer = await self._pool.handle_async_request(request)
        try:
            yield answer
        finally:
            await answer.aclose()

    async def marked(self, data: bytes, around: PageLocation, charset: str) -> tuple[bytes, str]:
        """Return a page marked, with the value of its `Weboid-Embed` field."""
        read = partial(self._marking.read, data, around, charset)
        page = await asyncio.to_thread(read) if len(data) > _IN_A_THREAD else read()
        urls = page.urls(URLS_AT_ONCE)
        answers = await self._lookup.ask(self._marking.wiki, urls) if urls else {}
        return self._marking.insert(page, answers), f"marked; links={len(page.links)}; answers={len(answers)}"

    def around(self, url: str) -> PageLocation:
        """Return the location of a requested page; an empty one for an invalid Host."""
        return replace(self._marking.around(), url=url if host_or_empty(url) else "")


def parse_upstream(text: str) -> httpcore.URL:
    """Parse the wiki's origin. Raises ConfigError: it is invalid."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    is_origin = parts.scheme in ("http", "https") and parts.hostname and not parts.username
    if not is_origin or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ConfigError(
            f"{text[:80]!r} is not the address of a wiki: write scheme, host and port, http://127.0.0.1:8080."
        )
    return httpcore.URL(scheme=parts.scheme, host=parts.hostname or "", port=port, target="/")


_MOST_CONNECTIONS = 1_000  # at once; beyond that the answer is 503
_HEAD_LIMIT_BYTES = 64 << 10


async def serve_proxy(
    settings: EmbedProxySettings,
    marking: MarkOptions,
    lookup: HttpLinkLookup,
    *,
    clock: Clock,
    listener: socket.socket,
    on_ready: Callable[[], object],
) -> None:
    """Serve until the process receives a stop signal. Raises ConfigError: the wiki's address is invalid."""
    proxy = EmbeddingProxy(settings, marking, lookup, clock=clock)
    # A page being passed on takes a second descriptor, to the wiki.
    limits = ConnectionLimits(connection_limit(_MOST_CONNECTIONS, files_each=2))
    server = HttpServer(
        proxy,
        limits,
        on_ready=on_ready,
        signals=True,
        date_header=False,
        h11_max_incomplete_event_size=_HEAD_LIMIT_BYTES,
        timeout_graceful_shutdown=5,
    )
    try:
        await server.serve(sockets=[listener])
    except asyncio.CancelledError:
        server.force_exit = True
        await server.shutdown([listener])  # it closes its connections only when it ends by itself
        raise
    finally:
        await asyncio.gather(proxy.close(), lookup.close())
