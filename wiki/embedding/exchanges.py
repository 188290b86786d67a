"""One request to the reverse proxy, and its answer. See `wiki.embedding.proxying`."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping
from typing import TYPE_CHECKING, Any

import httpcore

from wiki.embedding import heads
from wiki.embedding.bodies import Held, decoded, gzipped, hold
from wiki.embedding.heads import Caller, Head

if TYPE_CHECKING:
    from wiki.embedding.proxying import EmbeddingProxy

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_LOG = logging.getLogger(__name__)
_TOLD = b"weboid-embed"
_PAGE = (
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    "<h1>{title}</h1><p>{said}</p><p>This was said by the proxy before the wiki.</p></html>"
)
_TITLES = {
    400: "That request cannot be answered",
    405: "That request cannot be answered",
    501: "That is not supported here",
    502: "The wiki does not answer",
    504: "The wiki takes too long to answer",
}


class Exchange:
    """One request and its answer."""

    def __init__(self, proxy: "EmbeddingProxy", scope: Scope, receive: Receive, send: Send) -> None:
        self._proxy = proxy
        self._receive = receive
        self._send = send
        self._method: str = scope["method"]
        self._head: Head = [(key.lower(), text) for key, text in scope["headers"]]
        query: bytes = scope.get("query_string", b"")
        self._path: bytes = scope.get("raw_path") or scope["path"].encode()
        self._target = self._path + (b"?" + query if query else b"")
        address = (scope.get("client") or ("",))[0]
        behind = proxy.settings.behind
        self._caller = Caller(address, scope["scheme"], heads.is_within(address, behind))
        self._is_started = False
        self._body_read = asyncio.Event()

    async def run(self) -> None:
        """Answer; whoever goes away is not waited for."""
        fault = heads.fault(self._method, self._target, self._head)
        if fault is not None:
            await self._say(*fault)
            return
        try:
            await self._until_gone(self._answer())
        except httpcore.TimeoutException as error:
            await self._failed(504, "It was waited for too long. Try again later.", error)
        except (httpcore.NetworkError, httpcore.RemoteProtocolError) as error:
            await self._failed(502, "It may be starting anew. Try again in a minute.", error)
        except httpcore.LocalProtocolError as error:
            await self._failed(400, "The request is not as HTTP asks for.", error)

    async def _failed(self, status: int, said: str, error: Exception) -> None:
        _LOG.warning("%s: %s", self._proxy.settings.upstream, str(error) or type(error).__name__)
        if self._is_started:
            return  # the server closes a connection whose answer was cut short
        await self._say(status, said)

    async def _until_gone(self, answering: Coroutine[Any, Any, None]) -> None:
        """Answer, unless the reader goes away."""
        task = asyncio.ensure_future(answering)
        try:
            gone = asyncio.ensure_future(self._gone())
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
        finally:
            if not task.done():
                task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise

    async def _gone(self) -> None:
        """Return when the reader has gone; only after the request's body was read."""
        await self._body_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _body(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise httpcore.ReadError("the reader went away")
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body"):
                self._body_read.set()
                return

    async def _answer(self) -> None:
        settings = self._proxy.settings
        upstream = heads.host_named(self._proxy.upstream)
        head = heads.request_head(
            self._head, self._caller, upstream=upstream, keeps_host=settings.keeps_host
        )
        path = self._path.decode("latin-1")
        is_page = heads.may_be_page(self._method, self._head)
        is_page = is_page and not path.startswith(settings.skip_paths)
        has_body = bool(
            heads.values(self._head, b"content-length")
            or heads.values(self._head, b"transfer-encoding")
        )
        body = self._body() if has_body else None
        if not has_body:
            self._body_read.set()
        if is_page and not has_body:
            head = heads.for_page(head)
        async with self._proxy.asked(self._method, self._target, head, body) as answer:
            if is_page and answer.status == 206 and heads.is_html(_lowered(answer)):
                head = [each for each in head if each[0] != b"range"]
            else:
                await self._pass(answer, is_page=is_page and not has_body)
                return
        async with self._proxy.asked(self._method, self._target, head, None) as answer:
            await self._pass(answer, is_page=True)

    async def _pass(self, answer: httpcore.Response, *, is_page: bool) -> None:
        """Send the wiki's answer on, marked where it is a page."""
        head = heads.passed_on(_lowered(answer))
        head = heads.mapped_location(
            head, upstream=self._proxy.settings.upstream, seen=self._origin()
        )
        if not is_page:
            await self._stream(answer.status, head, _parts(answer))
            return
        private = self._proxy.settings.private
        why = heads.why_not(self._head, answer.status, head, private)
        if not why:
            await self._page(answer, head)
            return
        if heads.is_html(head):
            head = [*head, (_TOLD, f"passed; why={why}".encode())]
        if answer.status == 200 and heads.is_unchanged(self._head, head):
            await self._whole(304, heads.unchanged_head(head), b"")
        else:
            await self._stream(answer.status, head, _parts(answer))

    async def _page(self, answer: httpcore.Response, head: Head) -> None:
        if self._method == "HEAD":
            await self._whole(
                answer.status, heads.marked_head(head, length=None, tag=b"", coding=b""), b""
            )
            return
        settings = self._proxy.settings
        body = _parts(answer)
        async with hold(
            body,
            limit=settings.page_limit,
            patience_s=settings.patience_s,
            clock=self._proxy.clock,
            room=self._proxy.room,
        ) as held:
            data = None
            if held.is_whole:
                coding = heads.value(head, b"content-encoding")
                data = decoded(b"".join(held.parts), coding, limit=settings.page_limit)
            if data is None:
                told = (_TOLD, b"passed; why=" + _why_let_go(held))
                await self._stream(answer.status, [*head, told], held.rest(body))
                return
            around = self._proxy.around(self._origin() + self._target.decode("latin-1"))
            try:
                made, said = await self._proxy.marked(data, around, heads.charset_said(head))
            except Exception:  # noqa: BLE001 a mistake of ours; the page is still the wiki's
                _LOG.exception("A page could not be marked.")
                made, said = data, "passed; why=mistake"
            await self._send_page(answer.status, head, made, said)

    async def _send_page(self, status: int, head: Head, made: bytes, told: str) -> None:
        tag = heads.page_tag(made) if status == 200 else b""
        is_packed = bool(heads.value(head, b"content-encoding")) and heads.accepts_gzip(self._head)
        body = gzipped(made) if is_packed else made
        coding = b"gzip" if is_packed else b""
        new = heads.marked_head(head, length=len(body), tag=tag, coding=coding)
        new.append((_TOLD, told.encode()))
        if tag and heads.is_unchanged(self._head, new):
            await self._whole(304, heads.unchanged_head(new), b"")
        else:
            await self._whole(status, new, body)

    async def _whole(self, status: int, head: Head, body: bytes) -> None:
        self._is_started = True
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def _stream(self, status: int, head: Head, body: AsyncIterator[bytes]) -> None:
        self._is_started = True
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        async for part in body:
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def _say(self, status: int, said: str) -> None:
        text = _PAGE.format(status=status, title=_TITLES[status], said=said).encode()
        head = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", b"%d" % len(text)),
            (b"cache-control", b"no-store"),
            (b"content-security-policy", b"default-src 'none'"),
        ]
        await self._whole(status, head, b"" if self._method == "HEAD" else text)

    def _origin(self) -> str:
        """The origin that the reader asked."""
        host = heads.value(self._head, b"host") or heads.host_named(self._proxy.upstream)
        if self._caller.is_proxy:
            host = heads.value(self._head, b"x-forwarded-host").split(b",")[0].strip() or host
        return f"{heads.asked_scheme(self._head, self._caller)}://{host.decode('latin-1')}"


def _why_let_go(held: Held) -> bytes:
    if held.is_whole:
        return b"damaged"
    if held.is_crowded:
        return b"crowded"
    return b"too-large" if held.pending is None else b"too-slow"


def _lowered(answer: httpcore.Response) -> Head:
    return [(key.lower(), text) for key, text in answer.headers]


async def _parts(answer: httpcore.Response) -> AsyncIterator[bytes]:
    async for part in answer.aiter_stream():
        yield part
