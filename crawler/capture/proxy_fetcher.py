"""Fetcher of small files (robots.txt, sitemaps) through the recording proxy.

These files steer a crawl, so they are archived too: each fetch is a visit of its own at the proxy, without a browser.
Responses are untrusted: bytes, redirects and time are limited, before and after decoding.
"""

import asyncio
import ssl
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import urljoin, urlsplit

import httpcore

from core.captures import ArtifactKind
from core.clock import Clock
from core.config.settings import Settings
from core.errors import BadUrlError
from core.page_manifest import VisitOutcome
from core.urls import authority_of, fetch_key
from crawler.capture.page_capture import CONNECTION_STATUSES, DENIED, REFUSED_CONNECTIONS, SILENCES
from crawler.pools.resource_pool import ResourcePool
from net.http1 import WINDOW_GZIP, inflated
from proxy.control.client import ProxyVisit
from render.behaviours.catalog import NO_BEHAVIOURS
from render.chromium import visit_user_agent
from render.network_log import ERROR_HEADER
from render.visit import VisitRequest, visit

SEAL_GRACE_S = 0.0  # what we did not want to read to its end is cut, and marked as cut
REDIRECTS = 5  # RFC 9309, 2.3.1.2: at least five
_REDIRECTING = frozenset((301, 302, 303, 307, 308))
_GZIP = frozenset(("gzip", "x-gzip"))  # RFC 9110, 8.4.1.3
_PLAIN = frozenset(("", "identity"))

# httpcore's errors for malformed and broken-off responses.
_BROKEN = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError, httpcore.TimeoutException, ValueError)

# Answers that may be due to the recorder's connection (`page_capture.host_refusing_recorder`).
_REFUSED_STATUSES = (*CONNECTION_STATUSES, DENIED, 503)


@dataclass(slots=True)
class FetchedFile:
    """Result of a fetch."""

    status: int  # of the last response; 0 without one
    headers: dict[str, str] = field(default_factory=dict)  # names in lower case; repeated ones joined by newlines
    body: bytes = b""  # its body, decoded, up to the limit
    final_url: str = ""  # the URL after redirects
    truncated: bool = False  # the body is longer, or was truncated
    # Why there is no usable response, a constant first: the proxy's reason (``unknown-host: …``),
    # ``timeout``, ``redirects: …``, ``malformed: …``, ``encoding: …``; empty when there is one.
    error: str = ""


class FileFetcher(Protocol):
    """Protocol of `ProxyFetcher` for its users."""

    async def get(self, url: str, *, limit_bytes: int, timeout_s: float) -> FetchedFile:
        """See `ProxyFetcher.get`."""


@dataclass(eq=False, repr=False)
class ProxyFetcher:
    """Fetcher of small files, one per run; fetches may run concurrently."""

    visits: Callable[[str], AbstractAsyncContextManager[ProxyVisit]]  # open one for a page id
    _: KW_ONLY
    ca: Path  # PEM of the proxy's authority, which the proxy makes
    agent: Callable[[], Awaitable[str]]
    _context: ssl.SSLContext | None = field(default=None, init=False)

    async def get(self, url: str, *, limit_bytes: int, timeout_s: float) -> FetchedFile:
        """Fetch an http(s) fetch key with GET and follow its redirects, to other hosts too.

        `limit_bytes` holds for the body, encoded and decoded; `timeout_s` for the whole fetch. Raises
        ProxyUnavailableError, DiskFullError, LimitReachedError (the proxy may write or receive no more).
        """
        async with self.visits(str(uuid.uuid4())) as recording:
            fetched = await self.within(recording, url, limit_bytes=limit_bytes, timeout_s=timeout_s)
            await recording.seal(grace_s=SEAL_GRACE_S)
            return fetched

    async def within(self, recording: ProxyVisit, url: str, *, limit_bytes: int, timeout_s: float) -> FetchedFile:
        """Fetch as `get` does, within an open visit that the caller seals."""
        run = _FetchAttempt(FetchedFile(0, final_url=url), limit_bytes, await self.agent())
        if self._context is None:  # trust the proxy's authority alone
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            # The proxy answers for the host that CONNECT named: that it is our proxy is what counts.
            context.check_hostname = False
            context.load_verify_locations(cafile=str(self.ca))
            self._context = context
        credentials = recording.credentials
        host = f"[{credentials.host}]" if ":" in credentials.host else credentials.host
        proxy = httpcore.AsyncHTTPProxy(
            f"http://{host}:{credentials.port}",
            proxy_auth=(credentials.username.encode(), credentials.password.encode()),
            ssl_context=self._context,
        )
        try:
            async with asyncio.timeout(timeout_s), proxy:
                await run.follow(proxy)
        except TimeoutError:
            run.broke_off("timeout")
        except _BROKEN as error:
            run.broke_off(f"malformed: {type(error).__name__}: {error}"[:300])
        return replace(run.file, body=bytes(run.body))


@dataclass(eq=False, repr=False)
class _FetchAttempt:
    """State of one fetch."""

    file: FetchedFile  # what is known of it, without its body
    limit_bytes: int
    agent: str
    body: bytearray = field(default_factory=bytearray, init=False)

    async def follow(self, proxy: httpcore.AsyncConnectionPool) -> None:
        """Send the request and follow redirects."""
        for left in range(REDIRECTS, -1, -1):
            location = await self._send(proxy)
            if location is None:
                return
            try:
                target = urljoin(self.file.final_url, location)
                is_web = target.lower().startswith(("http://", "https://"))
                key = fetch_key(target, allow_single_label=True) if is_web else ""
            except (BadUrlError, ValueError):
                key = ""
            if not key:
                self.file.error = f"redirects: to {location[:200]!r}, which is no URL"
                return
            self.file.final_url = key
            if left == 0:
                self.file.error = f"redirects: more than {REDIRECTS}"

    async def _send(self, proxy: httpcore.AsyncConnectionPool) -> str | None:
        """Send one request; return the redirect's target, None without a redirect."""
        self.file.status, self.file.headers = 0, {}
        self.body.clear()
        response = await proxy.handle_async_request(_request(self.file.final_url, self.agent))
        try:
            headers: dict[str, str] = {}
            for raw_name, raw_value in response.headers:
                name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
                headers[name] = f"{headers[name]}\n{value}" if name in headers else value
            if ERROR_HEADER in headers:
                self.file.error = headers[ERROR_HEADER]
                return None
            self.file.status, self.file.headers = response.status, headers
            if response.status in _REDIRECTING and headers.get("location"):
                return headers["location"].partition("\n")[0]
            await self._read(response, headers.get("content-encoding", "").strip().lower())
            return None
        finally:
            await response.aclose()

    async def _read(self, response: httpcore.Response, encoding: str) -> None:
        """Read the body up to the limit."""
        if encoding not in _PLAIN | _GZIP:
            self.file.error = f"encoding: {encoding[:100]}"
            return
        inflate = zlib.decompressobj(WINDOW_GZIP) if encoding in _GZIP else None
        raw = 0
        async for piece in response.aiter_stream():
            raw += len(piece)
            try:
                whole = all(map(self._take, (piece,) if inflate is None else inflated(inflate, piece)))
            except zlib.error as error:
                self.file.error, self.file.truncated = f"encoding: {error}", True
                return
            if not whole or raw > self.limit_bytes:
                self.file.truncated = True
                return
        if inflate is not None and raw and not inflate.eof:
            self.file.truncated = True

    def _take(self, piece: bytes) -> bool:
        """Append a piece of the body; return False when the limit cut it."""
        room = self.limit_bytes - len(self.body)
        self.body += piece[:room]
        return len(piece) <= room

    def broke_off(self, why: str) -> None:
        """Record that the response was truncated; the received part of a body is used."""
        if self.file.status and self.file.status not in _REDIRECTING:
            self.file.truncated = True
        self.file.error = self.file.error or why


@dataclass(eq=False, repr=False)
class BrowserFetcher:
    """`FileFetcher` that asks once more by a browser where the host refuses the recorder's connections.

    A robots.txt is the page that the browser visits; other files are fetched by that page, as they were sent: shown by
    a browser an XML file is another text, and an archive is a download.
    """

    plain: ProxyFetcher
    pool: ResourcePool
    settings: Settings
    clock: Clock

    async def get(self, url: str, *, limit_bytes: int, timeout_s: float) -> FetchedFile:
        """See `ProxyFetcher.get`; may raise BrowserUnavailableError, too."""
        fetched = await self.plain.get(url, limit_bytes=limit_bytes, timeout_s=timeout_s)
        refused = fetched.error.startswith((*REFUSED_CONNECTIONS, *SILENCES))
        if not url.startswith("https:") or not (refused or fetched.status in _REFUSED_STATUSES):
            return fetched
        text_only = replace(
            self.settings.visit, timeout_s=timeout_s,
            view=False, full_page=False, thumbnail=False, dom=False, text=True, pdf=False, favicon=False,
        )  # fmt: skip
        bucket, headers = self.settings.proxy.dedup_bucket, text_only.headers
        async with AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(self.pool.proxies.lend())
            if not proxy.is_local:
                return fetched
            opening = proxy.visit(str(uuid.uuid4()), bucket=bucket, headers=headers, browser_hosts=["*"])
            recording = await stack.enter_async_context(opening)
            browser = await stack.enter_async_context(self.pool.browsers.lend())
            stack.enter_context(browser.key_log.sent_to(recording.send_secrets))
            page, file = urljoin(url, "/robots.txt"), "" if urlsplit(url).path == "/robots.txt" else url
            request = VisitRequest(
                page,
                recording.credentials,
                own_connections=True,
                ignores_certificates=not self.settings.egress.enforce_tls,
                file=file,
                file_limit_bytes=limit_bytes,
            )
            load = await visit(browser, request, text_only, behaviours=NO_BEHAVIOURS, clock=self.clock)
            await recording.seal(grace_s=SEAL_GRACE_S)
        if file and load.file is not None:
            return FetchedFile(load.file.status, {}, load.file.body, load.file.url, truncated=load.file.truncated)
        if load.status is None or file:
            return fetched
        text = next((each.data for each in load.artifacts if each.kind is ArtifactKind.TEXT), b"")
        is_cut = len(text) > limit_bytes or load.outcome is not VisitOutcome.COMPLETE
        return FetchedFile(load.status, load.headers, text[:limit_bytes], load.final_url, truncated=is_cut)


def pool_fetcher(pool: ResourcePool, settings: Settings, *, ca: Path) -> ProxyFetcher:
    """Return a fetcher by visits at lent proxies, with the User-Agent and the added headers of page visits."""
    bucket, own = settings.proxy.dedup_bucket, settings.visit

    @asynccontextmanager
    async def opened(page_id: str) -> AsyncIterator[ProxyVisit]:
        async with pool.proxies.lend() as proxy, proxy.visit(page_id, bucket=bucket, headers=own.headers) as recording:
            yield recording

    async def agent() -> str:
        if own.user_agent:
            return visit_user_agent(own, browser_said="", version="")
        async with pool.browsers.lend() as browser:
            return visit_user_agent(own, browser_said=browser.user_agent, version=browser.version)

    return ProxyFetcher(opened, ca=ca, agent=agent)


def _request(url: str, agent: str) -> httpcore.Request:
    """Build a GET request that keeps the fetch key's spelling."""
    scheme, _, rest = url.partition("#")[0].partition("://")
    authority = authority_of(url)
    path = rest.find("/")
    host, port = authority, ""
    if ":" in authority and not authority.endswith("]"):
        host, _, port = authority.rpartition(":")
    return httpcore.Request(
        "GET",
        httpcore.URL(
            scheme=scheme.encode(), host=host.encode(), port=int(port) if port else None, target=rest[path:].encode()
        ),
        headers={"Host": authority, "User-Agent": agent, "Accept": "*/*", "Accept-Encoding": "gzip, identity"},
    )
