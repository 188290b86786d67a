"""HTTP transport of the API client: size limits, redirects, responses mapped to errors.

An `ApiTransport` does not follow redirects: `target_of` validates the target, and the caller decides.
The operator names the wiki, so a wiki on a private network is allowed; a server on the public network
cannot redirect into a private one.
"""

import asyncio
import ipaddress
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpx

from core.errors import BadUrlError, BodyTooLargeError
from core.hosts import BAD_PORTS, registrable
from core.storable_text import parse_json
from core.urls import fetch_key, host_of
from core.web_dates import parse_http_date, parse_retry_after
from net.address_policy import is_public
from net.http1 import WINDOW_GZIP, inflated
from wiki.api import models

RESPONSE_LIMIT_BYTES: Final = 64 * 1024 * 1024  # MediaWiki's own is 8 MB ($wgAPIMaxResultSize)
RESPONSE_LIMIT_S: Final = 120.0
CONNECT_S: Final = 15.0
REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True)
class ApiRequest:
    """HTTP request; its repr shows no secrets."""

    method: str
    url: str
    params: Mapping[str, str] = field(default_factory=dict, repr=False)  # of a POST: its body
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ApiResponse:
    """HTTP response: status, headers with lower-case names, and decoded body."""

    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_json(self) -> bool:
        """Return True if the content type is JSON."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return kind == "application/json" or kind.endswith("+json")


@dataclass(frozen=True)
class ServerRoute:
    """TLS and proxy settings for a server; its repr shows no password."""

    verify: ssl.SSLContext | None = None  # trusted certificates; None: those of the system
    proxy: str = field(default="", repr=False)  # ``http://user:password@host:port``


DIRECT: Final = ServerRoute()


class ApiTransport(AbstractAsyncContextManager["ApiTransport"]):
    """HTTP transport to a wiki; owns its connections and cookies and belongs to one event loop."""

    def __init__(
        self,
        *,
        user_agent: str,
        route: ServerRoute = DIRECT,
        limit_s: float = RESPONSE_LIMIT_S,
        limit_bytes: int = RESPONSE_LIMIT_BYTES,
    ) -> None:
        self._has_proxy = bool(route.proxy)
        self._limit_s = limit_s
        self._limit_bytes = limit_bytes
        self.is_public: bool | None = None  # of the first answer; None: no answer yet, or a proxy
        self._client = httpx.AsyncClient(
            headers={"User-Agent": user_agent, "Accept-Encoding": "gzip"},
            timeout=httpx.Timeout(limit_s, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=4, max_keepalive_connections=2),
            verify=True if route.verify is None else route.verify,
            proxy=route.proxy or None,
            follow_redirects=False,
            trust_env=False,
        )

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def keep_public(self, url: str) -> None:
        """Refuse private networks from the first answer on; raises WikiAwayError."""
        host = host_of(url)
        if self._has_proxy and _is_public(host) is None:  # a proxy finds the server by itself
            return
        if not await _is_host_public(host):
            raise models.WikiAwayError(f"{host} is on a private network, but only a public server refers to it.")
        self.is_public = None if self._has_proxy else True

    def forget(self) -> None:
        """Clear all cookies, which ends the login session."""
        self._client.cookies.clear()

    async def send(self, question: ApiRequest) -> ApiResponse:
        """Return the response, whatever its status; raises WikiAwayError, or BodyTooLargeError (also decompressed)."""
        host = host_of(question.url)
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._send(question)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            text = f"{host} cannot be reached: {_error_text(error)}. Check its address, and that it runs."
            raise models.WikiAwayError(text, is_unsent=True) from error
        except (TimeoutError, httpx.TimeoutException) as error:
            raise models.WikiAwayError(f"{host} did not answer within {self._limit_s:.0f} s.") from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, OSError) as error:
            raise models.WikiAwayError(f"{host} closed the connection: {_error_text(error)}.") from error

    async def _send(self, question: ApiRequest) -> ApiResponse:
        is_post = question.method == "POST"
        request = self._client.build_request(
            question.method,
            question.url,
            params=None if is_post else question.params or None,
            data=dict(question.params) if is_post else None,
            headers=question.headers,
        )
        answer = await self._client.send(request, stream=True)
        try:
            self._judge_peer(answer)
            body = await self._body(answer)
        finally:
            await answer.aclose()
        headers: dict[str, str] = {}
        for name, value in answer.headers.multi_items():
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return ApiResponse(answer.status_code, str(answer.url), headers, body)

    async def pieces(self, url: str, headers: Mapping[str, str], *, idle_s: float) -> AsyncIterator[bytes]:
        """Yield chunks of an event stream until it ends or is silent for `idle_s`; raises as `check_stream`."""
        host = host_of(url)
        timeout = httpx.Timeout(idle_s, connect=CONNECT_S)
        plain = {**headers, "Accept-Encoding": "identity"}
        try:
            async with self._client.stream("GET", url, headers=plain, timeout=timeout) as answer:
                check_stream(answer.status_code, answer.headers, host)
                async for piece in answer.aiter_raw():
                    yield piece
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            raise models.WikiAwayError(f"The stream of {host} closed the connection: {_error_text(error)}.") from error

    async def _body(self, answer: httpx.Response) -> bytes:
        coding = answer.headers.get("content-encoding", "").strip().lower()
        if coding not in {"", "identity", "gzip", "x-gzip"}:
            raise models.WikiAwayError(
                f"{host_of(str(answer.url))} uses the unsupported content coding {coding[:40]!r}."
            )
        body = bytearray()
        unpack = zlib.decompressobj(WINDOW_GZIP) if "gzip" in coding else None
        async for piece in answer.aiter_raw():
            try:
                for part in (piece,) if unpack is None else inflated(unpack, piece):
                    body += part
                    if len(body) > self._limit_bytes:
                        limit = self._limit_bytes // 1_000_000
                        raise BodyTooLargeError(f"{host_of(str(answer.url))} answers with more than {limit} MB.")
            except zlib.error as error:
                raise models.WikiAwayError(f"The wiki's answer cannot be decompressed: {error}.") from error
        if unpack is not None and body and not unpack.eof:
            raise models.WikiAwayError(f"{host_of(str(answer.url))} sent a truncated answer.")
        return bytes(body)

    def _judge_peer(self, answer: httpx.Response) -> None:
        """Record the network of the first answer; refuse later answers from a more private one."""
        stream = answer.extensions.get("network_stream")
        peer = stream.get_extra_info("server_addr") if stream is not None else None
        if not peer or self._has_proxy:  # a proxy finds the server by itself
            return
        is_public_now = bool(_is_public(str(peer[0])))
        if self.is_public is None:
            self.is_public = is_public_now
        elif self.is_public and not is_public_now:
            host = host_of(str(answer.url))
            raise models.WikiAwayError(f"{host} now resolves to a private network, so its answer is not used.")

    async def target_of(self, reply: ApiResponse) -> str:
        """Return a redirect's target; raises WikiAwayError if it is elsewhere or newly on a private network."""
        here = host_of(reply.url)
        value = reply.headers.get("location", "")
        target = absolute_address(reply.url, value) if value else ""
        if not target:
            raise models.WikiAwayError(f"{here} redirects to an invalid address.")
        to_host = host_of(target)
        if registrable(to_host) != registrable(here):
            raise models.WikiAwayError(
                f"{here} redirects to {to_host}, another site: if the wiki has moved there, run `weboid wiki add` with "
                "its new address; otherwise it probably wants a login."
            )
        if (urlsplit(target).port or 80) in BAD_PORTS:
            raise models.WikiAwayError(f"{here} redirects to a port that is not used for the web.")
        if self.is_public and to_host != here and not await _is_host_public(to_host):
            raise models.WikiAwayError(f"{here} redirects to a private network, to {to_host}.")
        return target


def check_stream(status: int, headers: Mapping[str, str], host: str) -> None:
    """Check that the response is an event stream; raises WikiAwayError if it may be later, else WikiRefusedError."""
    if status == 429 or status >= 500:
        raise models.WikiAwayError(f"The stream of {host} answers {status}.", retry_s=retry_after(headers))
    if status != 200:
        raise models.WikiRefusedError(f"http-{status}", f"{host} has no such stream.")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "text/event-stream":
        raise models.WikiAwayError(f"{host} does not answer with a stream of events.")


def absolute_address(base: str, reference: str) -> str:
    """Resolve a reference against a URL; empty when the result is invalid or not http(s)."""
    try:
        return fetch_key(urljoin(base, reference), allow_single_label=True)
    except (BadUrlError, ValueError):
        return ""


def is_same_server(one: str, other: str) -> bool:
    """Return True if secrets may also go to `other`: same host and port, or its upgrade to https.

    >>> is_same_server("http://a.org/x", "https://a.org/y"), is_same_server("https://a.org", "http://a.org")
    (True, False)
    """
    a, b = urlsplit(one), urlsplit(other)
    if a.hostname != b.hostname:
        return False
    ports = a.port or _PORTS.get(a.scheme), b.port or _PORTS.get(b.scheme)
    return (a.scheme == b.scheme and ports[0] == ports[1]) or (
        (a.scheme, b.scheme) == ("http", "https") and ports == (80, 443)
    )


async def _is_host_public(host: str) -> bool:
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise models.WikiAwayError(f"{host} has no address: {_error_text(error)}.", is_unsent=True) from error
    return all(_is_public(str(each[4][0])) for each in addresses)


def _is_public(text: str) -> bool | None:
    """Judge an IP address; None for a name."""
    try:
        return is_public(ipaddress.ip_address(text.partition("%")[0].strip("[]")))
    except ValueError:
        return None


def _error_text(error: BaseException) -> str:
    return (" ".join(str(error).split())[:200] or type(error).__name__).rstrip(".")


RETRY_LIMIT_S: Final = 86_400.0
_LAG_RETRY_S: Final = 5.0  # MediaWiki's own Retry-After when a database lags
_MESSAGE_CHARS: Final = 500

LOGGED_OUT: Final = frozenset(
    (
        *("assertuserfailed", "assertbotfailed", "assertnameduserfailed", "readapidenied"),
        *("notloggedin", "mustbeloggedin", "mustbeloggedin-generic", "login-required"),
        *("mwoauth-invalid-authorization", "mwoauth-invalid-authorization-invalid-user"),
        *("permissiondenied-read", "sessionlost"),
    )
)
_NOT_ALLOWED: Final = frozenset(
    (
        *("permissiondenied", "blocked", "autoblocked", "systemblocked", "blockedfrompage"),
        *("protectedpage", "protectedtitle", "protectednamespace", "protectednamespace-interface"),
        *("cascadeprotected", "cantcreate", "cantcreate-anon", "cantedit", "noedit", "noedit-anon"),
        *("noimageredirect", "spamdetected", "spamblacklist", "captcha", "filtered", "hookaborted"),
        *("writeapidenied", "noapiwrite", "confirmemail", "cantchangecontentmodel"),
        "customcssjsprotected",
        *("titleblacklist-forbidden", "titleblacklist-forbidden-edit", "mwoauth-oauth-exception"),
        *("sitecssprotected", "sitejsonprotected", "sitejsprotected", "actionthrottledtext-filter"),
    )
)
_NOT_ALLOWED_STARTS: Final = ("abusefilter-", "globalblocking-", "wikimedia-", "centralauth-", "tor-")
_THROTTLED: Final = frozenset(("ratelimited", "maxlag", "actionthrottledtext", "poolcounter-error"))


def parse_response(reply: ApiResponse) -> dict[str, Any] | None:
    """Return the JSON object in the response; None without one."""
    try:
        document = parse_json(reply.body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def check_status(reply: ApiResponse) -> None:
    """Raise the error for the status of a response without an API error."""
    status, host = reply.status, host_of(reply.url)
    if status == 429:
        raise models.ThrottledError(f"{host} limits our request rate.", retry_s=retry_after(reply.headers))
    if status >= 500 or status in {408, 425}:
        raise models.WikiAwayError(f"{host} answers {status}.", retry_s=retry_after(reply.headers))
    if status == 401:
        raise models.LoggedOutError(
            f"{host} requires a user name and password before it shows the wiki: write user:password "
            "into a file and name it with --basic-file."
        )
    if status == 403:
        raise models.PermissionDeniedError(
            f"{host} refuses our requests (403): its operator may have blocked robots, or this address."
        )
    if status != 200:
        raise models.WikiRefusedError(f"http-{status}", f"{host} has no API at {reply.url.partition('?')[0]}.")


def check_answer(document: Mapping[str, Any], reply: ApiResponse, *, host: str) -> None:
    """Raise the API error that the answer reports, if any."""
    error = error_in(document)
    if error is None:
        return
    code, info = error
    message = f"{host} says {code}: {info}"
    if code in _THROTTLED:
        wait = retry_after(reply.headers) or (_LAG_RETRY_S if code == "maxlag" else 0.0)
        raise models.ThrottledError(message, retry_s=wait)
    if code == "readonly":
        raise models.ReadOnlyError(message, retry_s=retry_after(reply.headers))
    if code.startswith("internal_api_error") or code in {"timeout", "unknownerror"}:
        raise models.WikiAwayError(message, retry_s=retry_after(reply.headers))
    if code in LOGGED_OUT:
        raise models.LoggedOutError(
            f"{message.rstrip('.')}. Provide an account that may read it: --account NAME --password-file FILE."
        )
    if code in _NOT_ALLOWED or code.startswith(_NOT_ALLOWED_STARTS):
        raise models.PermissionDeniedError(message, code=code)
    raise models.WikiRefusedError(code, info)


def error_in(document: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return code and text of the first error in any error format; None without one."""
    error = document.get("error")
    several = document.get("errors")
    if error is None and isinstance(several, list) and several:
        error = several[0]
    if error is None:
        return None
    if not isinstance(error, dict):
        return "unknown", " ".join(str(error).split())[:_MESSAGE_CHARS]
    words = error.get("info") or error.get("text") or error.get("*") or error.get("html") or ""
    code = "".join(char for char in str(error.get("code") or "unknown") if char.isprintable())
    plain = "".join(char if char.isprintable() else " " for char in str(words))
    return code[:100], " ".join(plain.split())[:_MESSAGE_CHARS]


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the requested pause in seconds, by the server's clock (RFC 9110 10.2.3); 0 without one."""
    wait = parse_retry_after(
        headers.get("retry-after", ""),
        now=parse_http_date(headers.get("date", "")),
        limit=timedelta(seconds=RETRY_LIMIT_S),
    )
    return 0.0 if wait is None else wait.total_seconds()
