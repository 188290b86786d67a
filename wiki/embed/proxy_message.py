"""HTTP heads and bodies of the marking proxy: header rules, buffering, codings.

Heads are lists of (name in lower case, value); repeated fields stay separate (RFC 9110, 5.3: Set-Cookie).
"""

import asyncio
import ipaddress
import re
import zlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

import httpcore
from isal import igzip

from core.clock import Clock

HeaderList = list[tuple[bytes, bytes]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Hop-by-hop fields (RFC 9110, 7.6.1). Lengths are recomputed.
_ONE_CONNECTION = frozenset(
    b"connection keep-alive proxy-connection te trailer trailers transfer-encoding upgrade "
    b"proxy-authenticate proxy-authorization http2-settings".split()
)
_FORWARDED = frozenset((b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"forwarded", b"x-real-ip"))
# Fields that describe the unmarked body.
_BODY_HEADERS = frozenset(
    b"content-length content-encoding etag last-modified accept-ranges content-md5 digest "
    b"content-digest repr-digest".split()
)
_KEPT_UNCHANGED = frozenset(b"cache-control content-location date expires vary set-cookie etag last-modified".split())
_PAGES = (b"document", b"iframe", b"frame", b"embed", b"object")
_OWN_TAG = b'W/"weboid-'
_TAGS = re.compile(rb'(?:W/)?"[^"]*"')
CODINGS = frozenset((b"", b"identity", b"gzip", b"x-gzip", b"deflate"))


class PrivatePages(StrEnum):
    """Treatment of pages generated for one reader."""

    SKIP = "skip"  # they are not looked up
    ASK = "ask"


def header_values(head: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return all values of a field."""
    return [value for key, value in head if key == name]


def header_value(head: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    """Return a field's values joined with commas; empty without one."""
    return b", ".join(header_values(head, name))


def _words(text: bytes) -> set[bytes]:
    return {word.strip().lower() for word in text.split(b",")} - {b""}


def end_to_end_headers(head: Iterable[tuple[bytes, bytes]]) -> HeaderList:
    """Return the end-to-end fields, without hop-by-hop ones."""
    head = list(head)
    named = _words(header_value(head, b"connection")) | _ONE_CONNECTION
    return [(key, text) for key, text in head if key not in named]


@dataclass(frozen=True)
class ProxyCaller:
    """Client of this connection."""

    address: str  # of the peer
    scheme: str  # of this connection
    is_proxy: bool = False  # a trusted proxy, whose forwarding headers are accepted


def reader_scheme(head: HeaderList, caller: ProxyCaller) -> str:
    """Return the scheme used by the reader's browser."""
    text = header_value(head, b"x-forwarded-proto").split(b",")[0].strip().lower()
    known = {b"http": "http", b"https": "https"}
    return known.get(text, caller.scheme) if caller.is_proxy else caller.scheme


def request_head(head: HeaderList, caller: ProxyCaller, *, upstream: bytes, keeps_host: bool) -> HeaderList:
    """Return the head of the request to the wiki."""
    host = header_value(head, b"host") or upstream
    omitted_names = {b"host", b"expect", b"content-length"} | (set() if caller.is_proxy else _FORWARDED)
    headers: HeaderList = [(b"host", host if keeps_host else upstream)]
    headers += [(key, text) for key, text in end_to_end_headers(head) if key not in omitted_names]
    headers += [(b"content-length", text) for text in header_values(head, b"content-length")[:1]]
    if header_values(head, b"transfer-encoding"):
        headers.append((b"transfer-encoding", b"chunked"))  # rebuilt from the parsed parts
    before = header_value(headers, b"x-forwarded-for")
    if address := caller.address.encode("ascii", "replace"):
        headers = [each for each in headers if each[0] != b"x-forwarded-for"]
        headers.append((b"x-forwarded-for", before + b", " + address if before else address))
    scheme = reader_scheme(head, caller).encode()
    for key, text in ((b"x-forwarded-host", host), (b"x-forwarded-proto", scheme)):
        if not header_values(headers, key):
            headers.append((key, text))
    return headers


def may_be_page(method: str, head: HeaderList) -> bool:
    """Return True if the request may be for a page to show, not of a script: an editor would save the marks."""
    if method not in ("GET", "HEAD"):
        return False
    purpose = header_value(head, b"sec-fetch-dest").lower()
    if purpose:
        return purpose in _PAGES
    if header_value(head, b"x-requested-with").lower() == b"xmlhttprequest":
        return False
    accepted = header_value(head, b"accept").lower().strip()
    return not accepted or accepted == b"*/*" or b"text/html" in accepted


def page_request_head(head: HeaderList) -> HeaderList:
    """Return the head for requesting a page: complete, unconditional, in a supported coding."""
    omitted_names = (b"if-none-match", b"if-modified-since", b"accept-encoding", b"if-range")
    headers = [each for each in head if each[0] not in omitted_names]
    return [*headers, (b"accept-encoding", b"gzip" if accepts_gzip(head) else b"identity")]


def accepts_gzip(head: HeaderList) -> bool:
    """Return True if the client accepts gzip (RFC 9110, 12.5.3)."""
    for word in _words(header_value(head, b"accept-encoding")):
        name, _, quality = word.partition(b";")
        if name.strip() in (b"gzip", b"x-gzip", b"*"):
            return not re.fullmatch(rb"\s*q\s*=\s*0(?:\.0*)?\s*", quality)
    return False


def is_html(head: HeaderList) -> bool:
    """Return True if the answer is HTML."""
    return header_value(head, b"content-type").split(b";")[0].strip().lower() == b"text/html"


def declared_charset(head: HeaderList) -> str:
    """Return the charset of the answer's Content-Type; empty without one."""
    match = re.search(rb"charset\s*=\s*\"?([\w:.-]{1,40})", header_value(head, b"content-type"), re.IGNORECASE)
    return "" if match is None else match[1].decode("ascii", "replace")


def unmarked_reason(request: HeaderList, status: int, answer: HeaderList, private: PrivatePages) -> str:
    """Return the reason for passing an answer on unchanged; empty for a page to be marked."""
    caching = _words(header_value(answer, b"cache-control"))
    is_private = header_values(request, b"authorization") or header_values(answer, b"set-cookie")
    reasons = (
        (not is_html(answer), "no-html"),
        (status < 200 or status in (204, 205, 206, 304), "no-page"),
        (header_value(answer, b"content-encoding").lower() not in CODINGS, "coding"),
        (b"no-transform" in caching, "no-transform"),  # RFC 9111, 5.2.2.6
        (header_value(answer, b"content-disposition").lower().startswith(b"attachment"), "download"),
        (private is PrivatePages.SKIP and bool(is_private), "private"),
    )
    return next((reason for holds, reason in reasons if holds), "")


def page_tag(body: bytes) -> bytes:
    """Return the ETag of a marked page; it changes with the marks."""
    return _OWN_TAG + blake2b(body, digest_size=16).hexdigest().encode() + b'"'


def marked_head(answer: HeaderList, *, length: int | None, tag: bytes, coding: bytes) -> HeaderList:
    """Return the head of a marked page; its length is None for HEAD."""
    headers = [each for each in end_to_end_headers(answer) if each[0] not in _BODY_HEADERS]
    headers += [(key, text) for key, text in ((b"etag", tag), (b"content-encoding", coding)) if text]
    if not _words(header_value(headers, b"vary")) & {b"accept-encoding", b"*"}:
        headers.append((b"vary", b"Accept-Encoding"))
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return headers


def is_unchanged(request: HeaderList, answer: HeaderList) -> bool:
    """Return True if the reader's cached copy is current (RFC 9110, 13.1)."""
    etags = header_value(request, b"if-none-match")
    if etags:
        tag = header_value(answer, b"etag").removeprefix(b"W/")
        if etags.strip() == b"*":
            return True
        return bool(tag) and any(each.removeprefix(b"W/") == tag for each in _TAGS.findall(etags))
    since = header_value(request, b"if-modified-since")
    return bool(since) and since == header_value(answer, b"last-modified")


def unchanged_head(answer: HeaderList) -> HeaderList:
    """Return the head of a 304 for the answer (RFC 9110, 15.4.5)."""
    return [each for each in answer if each[0] in _KEPT_UNCHANGED]


def mapped_location(answer: HeaderList, *, upstream: str, origin: str) -> HeaderList:
    """Rewrite addresses of the wiki's own origin to the origin that readers use."""
    start = upstream.encode()

    def mapped(text: bytes) -> bytes:
        rest = text[len(start) :]
        is_own = text.lower().startswith(start.lower()) and rest[:1] in (b"", b"/", b"?", b"#")
        return origin.encode() + rest if is_own else text

    return [(key, mapped(text) if key in (b"location", b"content-location") else text) for key, text in answer]


def request_fault(method: str, target: bytes, head: HeaderList) -> tuple[int, str] | None:
    """Return (status, message) for a request that is rejected; None for valid ones."""
    if method in ("CONNECT", "TRACE"):
        return 405, f"{method} is not passed on."
    if not target.startswith(b"/") and not (method == "OPTIONS" and target == b"*"):
        return 400, "The requested address is not a path."
    if header_values(head, b"transfer-encoding") and header_values(head, b"content-length"):
        return 400, "The request states its length twice."  # RFC 9112, 6.1: request smuggling
    if len(set(header_values(head, b"content-length"))) > 1 or len(header_values(head, b"host")) > 1:
        return 400, "The request contradicts itself."
    upgrades = _words(header_value(head, b"upgrade")) - {b"h2c"}
    if b"upgrade" in _words(header_value(head, b"connection")) and upgrades:
        return 501, "Other protocols, such as WebSocket, are not passed on here."
    return None


def is_in_networks(address: str, networks: Sequence[Network]) -> bool:
    """Return True if an address is in one of the networks."""
    with suppress(ValueError):
        ip = ipaddress.ip_address(address)
        return any(ip.version == each.version and ip in each for each in networks)
    return False


def host_header(url: httpcore.URL) -> bytes:
    """Return the Host header for a URL."""
    host = b"[" + url.host + b"]" if b":" in url.host else url.host
    return host if url.port is None else b"%s:%d" % (host, url.port)


_GZIP_LEVEL = 2
_MEMBERS = 16  # each costs a copy of the remaining text


@dataclass(slots=True)
class BodyMemory:
    """Memory limit for all buffered pages together, in bytes."""

    limit: int
    used: int = 0


@dataclass(slots=True)
class BufferedBody:
    """Buffered part of a body."""

    parts: list[bytes]  # received so far
    is_whole: bool  # the body is complete
    pending: "asyncio.Future[bytes | None] | None" = None  # the read unfinished at the time-out
    size: int = 0  # of the parts, in bytes
    is_crowded: bool = False  # the shared memory limit was reached

    async def rest(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the whole body: buffered parts, then further ones."""
        for part in self.parts:
            yield part
        self.parts.clear()
        if self.is_whole:
            return
        if self.pending is not None:
            last = await self.pending
            if last is None:
                return
            yield last
        async for part in body:
            yield part


@asynccontextmanager
async def buffer_body(
    body: AsyncIterator[bytes], *, limit: int, patience_s: float, clock: Clock, room: BodyMemory
) -> AsyncIterator[BufferedBody]:
    """Read a body to its end, or up to a limit; its memory is reserved while the block runs."""
    held = BufferedBody([], is_whole=False)
    until = clock.monotonic() + patience_s
    try:
        while held.size <= limit:
            if room.used > room.limit:
                held.is_crowded = True
                break
            pending = asyncio.ensure_future(anext(body, None))
            try:
                done, _ = await asyncio.wait({pending}, timeout=max(0.0, until - clock.monotonic()))
            except asyncio.CancelledError:
                pending.cancel()
                raise
            if not done:
                held.pending = pending
                break
            part = pending.result()
            if part is None:
                held.is_whole = True
                break
            held.parts.append(part)
            held.size += len(part)
            room.used += len(part)
        yield held
    finally:
        room.used -= held.size
        if held.pending is not None:
            held.pending.cancel()


def decode_body(body: bytes, coding: bytes, *, limit: int) -> bytes | None:
    """Decode the content coding; None when damaged, unknown or larger than `limit`."""
    coding = coding.strip().lower()
    if coding in (b"", b"identity"):
        return body
    if coding in (b"gzip", b"x-gzip"):
        return _inflated(body, 16 + zlib.MAX_WBITS, limit)
    if coding == b"deflate":
        # RFC 9110, 8.4.1.2 means zlib's format; some servers send the bare one.
        decoded = _inflated(body, zlib.MAX_WBITS, limit)
        return _inflated(body, -zlib.MAX_WBITS, limit) if decoded is None else decoded
    return None


def _inflated(body: bytes, bits: int, limit: int) -> bytes | None:
    decoded = bytearray()
    with suppress(zlib.error):
        for _ in range(_MEMBERS):
            stream = zlib.decompressobj(bits)
            decoded += stream.decompress(body, limit + 1 - len(decoded))
            body = stream.unused_data if bits > zlib.MAX_WBITS else b""  # gzip may have members
            if len(decoded) > limit or not stream.eof:
                return None
            if not body:
                return bytes(decoded)
    return None


def gzip_body(body: bytes) -> bytes:
    """Compress the body with gzip, reproducibly."""
    return bytes(igzip.compress(body, _GZIP_LEVEL, mtime=0))
