"""Client for other web archives: one request per service at a time, with back-off.

After 429, 503 or no answer the service is paused, and requests fail at once. An archive's address comes from a setting
or a page, and its redirects are untrusted, so `HttpFetch` lets neither reach the local network (SSRF). A key is sent
only to its own host and never with a redirect.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urljoin

from yarl import URL

from core.config.settings import EgressSettings
from core.errors import BadUrlError, InputError, TransientError
from core.urls import authority_of, fetch_key, host_of
from core.web_dates import parse_retry_after
from links.check_result import FetchFailure, NoAnswerError
from links.checker.dns_resolver import DnsResolver
from links.checker.http_exchange import EgressRules
from net.address_policy import Address, literal_address
from net.backoff import ExponentialBackoff
from net.tls_client import strict_context

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import ResolveResult


ANSWER_BYTES: Final = 8_000_000  # a longer one counts as none; TimeMaps of famous pages have tens of thousands of lines
GAP_S: Final = 1.0  # between two questions to one service
FIRST_PAUSE_S: Final = 30.0
LONGEST_PAUSE_S: Final = 3_600.0
LONGEST_ASKED_S: Final = 86_400.0  # limit of Retry-After
_BUSY = frozenset((429, 503))
NOT_THERE: Final = frozenset((404, 410))
REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
REFUSALS: Final = frozenset((401, 402, 403, 407, 451))  # of this client altogether


class ArchiveFailure(StrEnum):
    """Reason for an answer without evidence about a copy."""

    UNREACHABLE = "unreachable"  # no answer, or an error of the server's
    BUSY = "busy"  # it requested a pause
    REFUSED = "refused"  # it does not answer us
    NONSENSE = "nonsense"  # it answered without the requested data
    TOO_LARGE = "too-large"


class ArchiveUnavailableError(TransientError):
    """Failed archive request: no evidence about copies. `retry_s` is 0 when the archive gave no time."""

    def __init__(self, service: str, failure: ArchiveFailure, reason: str, *, retry_s: float = 0.0) -> None:
        later = f"; no requests for {retry_s:.0f} s" if retry_s else ""
        super().__init__(f"The archive {service} gave no answer ({failure}): {reason}{later}.")
        self.service = service
        self.failure = failure
        self.retry_s = retry_s


class NoReplyError(Exception):
    """Transport failure raised by an `ArchiveFetch`; `ArchiveClient` adds the service."""

    def __init__(self, failure: ArchiveFailure, reason: str) -> None:
        super().__init__(reason)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class ArchiveRequest:
    """HTTP request to an archive."""

    url: str  # the address
    method: str = "GET"  # the HTTP method
    headers: Mapping[str, str] = field(default_factory=dict)  # besides those of every request
    body: bytes = b""  # the request body
    hops: int = 0  # maximum number of redirects followed
    is_head_enough: bool = False  # the body is not needed and is truncated


@dataclass(frozen=True, slots=True)
class ArchiveResponse:
    """HTTP response of an archive."""

    status: int  # its HTTP status
    url: str  # the final URL after redirects
    headers: Mapping[str, str] = field(default_factory=dict)  # lower case; repeats joined by ", "
    body: bytes = b""  # decoded

    @property
    def text(self) -> str:
        """Return the body as text; invalid UTF-8 is replaced."""
        return self.body.decode("utf-8", "replace")


ArchiveFetch = Callable[[ArchiveRequest], Awaitable[ArchiveResponse]]  # may raise NoReplyError


@dataclass(slots=True)
class _ServiceThrottle:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_at: float = 0.0
    closed_until: float = 0.0
    backoff: ExponentialBackoff = field(default_factory=lambda: ExponentialBackoff(FIRST_PAUSE_S, LONGEST_PAUSE_S))


@dataclass(eq=False)
class ArchiveClient:
    """Client that serializes requests per service. Bound to one event loop."""

    fetch: ArchiveFetch
    _: KW_ONLY
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    gap_s: float = GAP_S  # between two requests to one service
    _throttles: dict[str, _ServiceThrottle] = field(default_factory=dict, init=False)

    async def ask(self, service: str, request: ArchiveRequest) -> ArchiveResponse:
        """Send the request; ArchiveUnavailableError without a response, or for a 5xx, a 429 or a refusal."""
        throttle = self._throttles.setdefault(service, _ServiceThrottle())
        async with throttle.lock:
            closed = max(throttle.closed_until - self.monotonic(), 0.0)
            if closed:
                reason = "it was busy or unavailable a moment ago"
                raise ArchiveUnavailableError(service, ArchiveFailure.BUSY, reason, retry_s=closed)
            wait = throttle.next_at - self.monotonic()
            if wait > 0:
                await self.sleep(wait)
            try:
                response = await self.fetch(request)
            except NoReplyError as error:
                pause = 0.0 if error.failure is not ArchiveFailure.UNREACHABLE else self._shut(throttle)
                raise ArchiveUnavailableError(service, error.failure, str(error), retry_s=pause) from error
            finally:
                throttle.next_at = self.monotonic() + self.gap_s
            # With Memento-Datetime the status is the copy's (RFC 7089, 4.5).
            status = 200 if "memento-datetime" in response.headers else response.status
            if status in _BUSY:
                now = self.now()
                limit = timedelta(seconds=LONGEST_ASKED_S)
                requested = parse_retry_after(response.headers.get("retry-after", ""), now=now, limit=limit)
                pause = self._shut(throttle, (None if requested is None else requested.total_seconds()))
                reason = f"it answered {response.status}"
                raise ArchiveUnavailableError(service, ArchiveFailure.BUSY, reason, retry_s=pause)
            if status >= 500:
                reason = f"it answered {response.status}"
                raise ArchiveUnavailableError(service, ArchiveFailure.UNREACHABLE, reason, retry_s=self._shut(throttle))
            throttle.backoff.reset()
            return response

    def _shut(self, throttle: _ServiceThrottle, requested_s: float | None = None) -> float:
        own_s = throttle.backoff.next_s()
        pause = own_s if requested_s is None else requested_s
        throttle.closed_until = self.monotonic() + pause
        return pause


_PRIVATE = frozenset(("authorization", "cookie"))
_LITTLE_BYTES: Final = 65_536
_CONNECT_S: Final = 15.0
_CONNECTIONS: Final = 20


class HttpFetch:
    """Transport for archive requests; an asynchronous context manager bound to one event loop."""

    def __init__(
        self,
        egress: EgressSettings,
        *,
        is_own: Callable[[Address], bool],
        user_agent: str,
        limit_s: float = 60.0,
        origins: Iterable[str] = (),
    ) -> None:
        """Load `[egress]` or raise ConfigError; own `origins` are exempt from the address checks."""
        self._names = DnsResolver()
        self._judge = _CheckedResolver(egress, self._names, is_own, origins)
        self._context = strict_context(egress.ca_file)
        self._user_agent = user_agent
        self._limit_s = limit_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    def _opened(self) -> aiohttp.ClientSession:
        """Return the session; the first request opens it, since many runs ask no archive."""
        if self._session is None:
            import aiohttp  # a fifth of a second

            connector = aiohttp.TCPConnector(
                resolver=self._judge,  # type: ignore[arg-type]  # has the methods of AbstractResolver
                ssl=self._context,
                limit=_CONNECTIONS,
                use_dns_cache=False,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._limit_s, sock_connect=_CONNECT_S),
                headers={"User-Agent": self._user_agent, "Accept-Encoding": "gzip, deflate"},
                trust_env=False,
                max_line_size=65_536,
                max_field_size=65_536,  # Memento's Link headers are long
            )
        return self._session

    async def __aexit__(self, *_: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        await self._names.close()

    async def __call__(self, request: ArchiveRequest) -> ArchiveResponse:
        """Send the request; NoReplyError for no or an overlong answer, or a prohibited address."""
        for _ in range(request.hops + 1):
            response = await self._once(request)
            target = response.headers.get("location", "")
            if response.status not in REDIRECTS or not target or not request.hops:
                return response
            try:
                following = fetch_key(urljoin(request.url, target), allow_single_label=True)
            except (BadUrlError, ValueError) as error:
                raise NoReplyError(ArchiveFailure.NONSENSE, "it redirects to an invalid address") from error
            if authority_of(following) != authority_of(request.url):
                public = {k: v for k, v in request.headers.items() if k.lower() not in _PRIVATE}
                request = replace(request, headers=public)
            if response.status in (301, 302, 303) and request.method == "POST":
                request = replace(request, method="GET", body=b"")
            request = replace(request, url=following)
        raise NoReplyError(ArchiveFailure.NONSENSE, "it redirects in a loop")

    async def download(
        self, url: str, target: Path, *, limit_bytes: int, on_progress: Callable[[int, int | None], None], hops: int = 5
    ) -> None:
        """Download to the file; one of an earlier attempt is continued if the server confirms that it is the same.

        The file is as it is stored there: a content coding is not undone, since servers state one for each ``.gz``.
        `on_progress` gets the bytes so far and, if known, in all; what it raises ends the download. Its validator is
        next to the file, so that a whole file is not sent again. Raises InputError, or TransientError: try again.
        """
        import aiohttp

        session = self._opened()
        validator_file = target.with_suffix(".validator")
        for _ in range(hops + 1):
            headers = {"Accept-Encoding": "identity"}
            start = target.stat().st_size if target.exists() else 0  # noqa: ASYNC240 a local disk
            validator = validator_file.read_text(encoding="latin-1") if validator_file.exists() else ""
            if start and validator:
                headers |= {"Range": f"bytes={start}-", "If-Range": validator}
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=self._limit_s)
            try:
                async with session.get(
                    self._judge.check(url),
                    headers=headers,
                    allow_redirects=False,
                    timeout=timeout,
                    auto_decompress=False,
                ) as answer:
                    location = answer.headers.get("location", "")
                    if answer.status in REDIRECTS and location:
                        url = fetch_key(urljoin(url, location), allow_single_label=True)
                        continue
                    span = answer.headers.get("content-range", "")
                    if answer.status == 416 and span == f"bytes */{start}":
                        return  # it was whole
                    if answer.status == 416 or (answer.status == 206 and not span.startswith(f"bytes {start}-")):
                        validator_file.unlink(missing_ok=True)
                        raise TransientError(
                            f"{url} does not continue where it broke off. Import it again from its start."
                        )
                    if answer.status not in {200, 206}:
                        if answer.status >= 500 or answer.status in {408, 429}:
                            raise TransientError(f"{url} answers {answer.status}. Import it again later.")
                        raise InputError(
                            f"{url} answers {answer.status}: open it in a browser, or import a file from disk."
                        )
                    start = start if answer.status == 206 else 0
                    total = start + answer.content_length if answer.content_length is not None else None
                    if (total or 0) > limit_bytes:
                        raise InputError(f"{url} has {total:,} bytes; the limit is {limit_bytes:,} (--limit).")
                    etag = answer.headers.get("etag", "")
                    validator = etag if not etag.startswith("W/") else ""
                    validator_file.write_text(validator or answer.headers.get("last-modified", ""), encoding="latin-1")
                    with target.open("ab" if start else "wb") as file:
                        async for piece in answer.content.iter_chunked(1 << 20):
                            start += file.write(piece)
                            on_progress(start, total)
                            if start > limit_bytes:
                                file.truncate(0)
                                raise InputError(f"{url} sends more than {limit_bytes:,} bytes, the limit (--limit).")
                    return
            except NoReplyError as error:
                raise InputError(f"{url} cannot be downloaded: {error}.") from error
            except BadUrlError as error:
                raise InputError(f"{url} redirects to an invalid address: {error}") from error
            except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError) as error:
                raise TransientError(f"{url} broke off. Import it again; it continues.") from error
            except (TimeoutError, aiohttp.ClientError) as error:
                reason = repr(error.message[:100]) if isinstance(error, aiohttp.ClientResponseError) else str(error)
                reason = " ".join(reason.split())[:200] or type(error).__name__
                raise TransientError(f"{url} does not answer as it should: {reason}. Import it again later.") from error
        raise InputError(f"{url} redirects more than {hops} times.")

    async def _once(self, request: ArchiveRequest) -> ArchiveResponse:
        from aiohttp import ClientConnectorDNSError, ClientError

        target, data = self._judge.check(request.url), request.body or None
        asking = self._opened().request(
            request.method, target, headers=request.headers, data=data, allow_redirects=False
        )
        try:
            async with asking as answer:
                limit = _LITTLE_BYTES if request.is_head_enough else ANSWER_BYTES
                body = await _read(answer.content, limit, cut=request.is_head_enough)
                joined: dict[str, str] = {}
                for header, value in answer.headers.items():
                    name = header.lower()
                    joined[name] = f"{joined[name]}, {value}" if name in joined else value
                return ArchiveResponse(answer.status, request.url, joined, body)
        except NoReplyError:
            raise
        except TimeoutError as error:
            raise NoReplyError(ArchiveFailure.UNREACHABLE, "it took too long") from error
        except (ClientError, OSError, ValueError) as error:
            # The text of our resolver: a refused address, or an unknown host.
            cause = error.os_error if isinstance(error, ClientConnectorDNSError) else error
            reason = " ".join(str(cause).split())[:200] or type(error).__name__
            raise NoReplyError(ArchiveFailure.UNREACHABLE, reason.rstrip(".")) from error


async def _read(content: aiohttp.StreamReader, limit: int, *, cut: bool) -> bytes:
    """Read the decoded body; NoReplyError when it is longer than `limit`, and `cut` is False."""
    body = bytearray()
    async for piece in content.iter_any():
        body += piece
        if len(body) > limit:
            if cut:
                return bytes(body[:limit])
            raise NoReplyError(ArchiveFailure.TOO_LARGE, f"it sent more than {limit:,} bytes")
        await asyncio.sleep(0)
    return bytes(body)


class _CheckedResolver:
    """Resolver of aiohttp that returns only permitted addresses."""

    def __init__(
        self, egress: EgressSettings, names: DnsResolver, is_own: Callable[[Address], bool], origins: Iterable[str]
    ) -> None:
        self._trusted: set[tuple[str, int]] = set()
        for origin in origins:
            with suppress(ValueError):
                url = URL(origin)
                if url.host and url.port:
                    self._trusted.add((url.host, url.port))
        self._rules = EgressRules(egress, names, is_own)

    def check(self, url: str) -> URL:
        """Check port, name and address literal; return the URL as it is sent, else raise NoReplyError."""
        try:
            url = fetch_key(url, allow_single_label=True)
            host, target = host_of(url), URL(url, encoded=True)
        except (BadUrlError, ValueError) as error:
            raise NoReplyError(ArchiveFailure.NONSENSE, "it is not an http(s) address") from error
        is_trusted = (target.host or "", target.port or 0) in self._trusted
        try:
            self._rules.check(host, target.port)
        except NoAnswerError as error:
            raise NoReplyError(ArchiveFailure.REFUSED, error.detail) from error
        address = literal_address(host)
        why = self._rules.policy.against(host, address) if address is not None and not is_trusted else ""
        if why:
            raise NoReplyError(ArchiveFailure.REFUSED, why.rstrip("."))
        return target

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 aiohttp passes "any"
    ) -> list[ResolveResult]:
        """Resolve a name to its permitted addresses; OSError when there is none."""
        try:
            addresses, port = await self._rules.addresses(host, port, is_trusted=(host, port) in self._trusted)
        except NoAnswerError as error:
            text = error.detail if error.trouble is FetchFailure.ADDRESS else f"{host} has no address: {error}"
            raise OSError(text) from error
        return [
            {
                "hostname": host,
                "host": str(address),
                "port": port,
                "family": socket.AF_INET if address.version == 4 else socket.AF_INET6,
                "proto": socket.IPPROTO_TCP,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in addresses
        ]

    async def close(self) -> None:
        """Keep the resolver open; it belongs to the caller."""
