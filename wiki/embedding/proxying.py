"""A reverse proxy before a wiki of any engine: pages gain cached copies, all else passes untouched.

    proxy = EmbeddingProxy("http://127.0.0.1:8080", lookup, marking, …)     # an ASGI application

A page is asked for whole, held until it has ended, marked, and given a validator of its own: what is
known of links changes while the page does not. Everything else streams both ways as it comes. Where a
page cannot be marked (too large, too slow, the front away, a coding that is not known here) the reader
gets it as it was; the field `Weboid-Embed` of each page's answer tells which.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import httpcore

from core.clock import Clock
from core.errors import BadUrlError, ConfigError
from core.urls import host_of
from wiki.embedding.addresses import Surroundings
from wiki.embedding.answers import ASKED_AT_ONCE
from wiki.embedding.asking import Lookup
from wiki.embedding.bodies import Room
from wiki.embedding.exchanges import Exchange, Receive, Scope, Send
from wiki.embedding.heads import Head, Network, Private
from wiki.embedding.rewriting import Page, marked, read_page, unmarked
from wiki.embedding.sites import Marking

PAGE_LIMIT_BYTES = 8 << 20
PATIENCE_S = 10.0  # how long a page is held back before it streams as it comes
_IN_A_THREAD = 256 << 10  # larger pages do not keep the others waiting
_CONNECTIONS = 200
_ROOM_BYTES = 256 << 20  # for all pages that are held at once
# Asked again on a new connection when the wiki closed the kept one meanwhile (RFC 9110, 9.2.2).
_TWICE = frozenset(("GET", "HEAD", "OPTIONS"))
# What programs read and write back: marks would be saved. MediaWiki's, and those like it.
NEVER_MARKED = ("/rest.php/", "/api.php", "/api/rest_v1/", "/w/rest.php/", "/w/api.php")


@dataclass(frozen=True)
class ProxySettings:
    """How the proxy behaves.

    Attributes:
        upstream: the wiki's origin as it is reached from here: ``http://127.0.0.1:8080``.
        keeps_host: the wiki sees the host that readers ask for; else its own.
        private: what is done with pages that are made for one reader.
        behind: networks of proxies that are believed about who asks.
        skip_paths: paths that begin so are never marked.
        page_limit: pages with more bytes pass as they are.
        patience_s: pages that take longer to come pass as they are.
        timeout_s: how long the wiki may be silent.
    """

    upstream: str
    keeps_host: bool = True
    private: Private = Private.SKIP
    behind: Sequence[Network] = ()
    skip_paths: tuple[str, ...] = NEVER_MARKED
    page_limit: int = PAGE_LIMIT_BYTES
    patience_s: float = PATIENCE_S
    timeout_s: float = 300.0


class EmbeddingProxy:
    """The proxy as an ASGI application. Close it, or let its server's lifespan do so."""

    def __init__(
        self, settings: ProxySettings, marking: Marking, lookup: Lookup, *, clock: Clock
    ) -> None:
        """Take what to ask, how to mark, and whom to ask about links.

        Raises:
            ConfigError: the wiki's address is no origin.
        """
        self.settings = settings
        self._marking = marking
        self._lookup = lookup
        self.clock = clock
        self.room = Room(max(_ROOM_BYTES, settings.page_limit))
        self.upstream = upstream_of(settings.upstream)
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=_CONNECTIONS, max_keepalive_connections=50, keepalive_expiry=20.0
        )

    async def close(self) -> None:
        """Close the connections to the wiki."""
        await self._pool.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await Exchange(self, scope, receive, send).run()
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1003})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def asked(
        self, method: str, target: bytes, head: Head, body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[httpcore.Response]:
        """The wiki's answer to a request; its body is read within the block.

        Raises:
            httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError: there is none.
        """
        origin = self.upstream
        url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=target)
        limits = {"connect": 10.0, "pool": 30.0}
        limits |= dict.fromkeys(("read", "write"), self.settings.timeout_s)
        request = httpcore.Request(
            method, url, headers=head, content=body, extensions={"timeout": limits}
        )
        try:
            answer = await self._pool.handle_async_request(request)
        except (httpcore.ReadError, httpcore.WriteError, httpcore.RemoteProtocolError):
            if body is not None or method not in _TWICE:
                raise
            answer = await self._pool.handle_async_request(request)
        try:
            yield answer
        finally:
            await answer.aclose()

    async def marked(self, data: bytes, around: Surroundings, charset: str) -> tuple[bytes, str]:
        """A page marked, and what was done, in words for machines."""
        if len(data) > _IN_A_THREAD:
            page = await asyncio.to_thread(self._read, data, around, charset)
        else:
            page = self._read(data, around, charset)
        urls = page.urls(ASKED_AT_ONCE)
        answers = await self._lookup.ask(self._marking.wiki, urls) if urls else {}
        told = f"marked; links={len(page.links)}; answers={len(answers)}"
        made = marked(page, answers, self._marking.show, self._marking.labels)
        return made, told

    def _read(self, data: bytes, around: Surroundings, charset: str) -> Page:
        plain = unmarked(data) if self._marking.anew else data
        return read_page(plain, around, rules=self._marking.rules, charset=charset)

    def around(self, url: str) -> Surroundings:
        """Where a page lies that was asked for; nowhere, when the reader names a host that is none."""
        try:
            host_of(url)
        except BadUrlError:
            url = ""
        return replace(self._marking.around(), url=url)


def upstream_of(text: str) -> httpcore.URL:
    """The wiki's origin.

    Raises:
        ConfigError: it is none.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    is_origin = parts.scheme in ("http", "https") and parts.hostname and not parts.username
    if not is_origin or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ConfigError(
            f"{text[:80]!r} is no address of a wiki: write scheme, host and port, http://127.0.0.1:8080."
        )
    return httpcore.URL(scheme=parts.scheme, host=parts.hostname or "", port=port, target="/")
