"""One HTTP exchange of a check: connection to a checked address, request writer, reader of a head and the body's beginning.

Connections use the checked address itself, which prevents DNS rebinding; a host without a permitted one is our refusal
and no evidence against the link. After a certificate error, which readers click through, a second, lenient connection
follows, and the result has a note. `[egress] via` is not supported: such a host is blocked.

The header fields are those of browsers, over HTTP/1.1, without Referer; the user agent must not contain *link*, which
more sites block. The parser is not a library's because libraries reject what browsers accept: a line
without a colon, line ends without a carriage return, bytes after the answer to HEAD, a broken chunk.
"""

import asyncio
import errno
import socket
import ssl
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import aiohappyeyeballs

from core.config.settings import EgressSettings
from core.urls import host_of
from links.check_result import NO_FILES, FetchFailure, NoAnswerError
from links.checker.dns_resolver import DnsResolver
from links.url_parts import UrlParts, split_identity
from net.address_policy import Address, Addresses, EgressPolicy, unmap_ipv4
from net.connect_errors import BlockedHostError, BlockedPortError
from net.http1 import LenientHead, end_of_head, may_begin, parse_head
from net.tls_client import OLD_VERSIONS, TlsFault, lenient_context, openssl_reason, strict_context, tls_fault

_FAULT_WORDS = {TlsFault.SELF_SIGNED: "self-signed", TlsFault.OTHER: "unknown issuer"}
_REFUSALS = (
    ("CERTIFICATE_REQUIRED", FetchFailure.WANTS_CERTIFICATE),
    ("ALERT_BAD_CERTIFICATE", FetchFailure.WANTS_CERTIFICATE),  # its word for it before TLS 1.3
    ("NO_APPLICATION_PROTOCOL", FetchFailure.OTHER_PROTOCOL),
    ("UNKNOWN_ERROR", FetchFailure.OTHER_PROTOCOL),  # OpenSSL 3.0.13 and older have no name for that alert alone
)


def certificate_fault(error: OSError | ValueError) -> str:
    """Return the reason that a strict handshake failed, in a word or two."""
    fault = tls_fault(error) or TlsFault.HANDSHAKE
    return _FAULT_WORDS.get(fault, fault.replace("-", " "))


def tls_refusal(error: Exception) -> FetchFailure | None:
    """Return the failure for a TLS alert of the server about the client; the host is reachable."""
    reason = openssl_reason(error)
    return next((trouble for part, trouble in _REFUSALS if part in reason), None)


CONNECT_S = 15.0  # a connection with its handshakes
TRIED = 4  # addresses of one host
STAGGER_S = 0.25  # RFC 8305, 5
BUFFER = 16_384  # half of the unread data that a connection may buffer
_OURS = (
    *(errno.ENETUNREACH, errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENETDOWN),
    *(errno.ENOBUFS, errno.ENOMEM, errno.EACCES, errno.EPERM),
)
_FAILURES = {
    **dict.fromkeys(NO_FILES, FetchFailure.NO_FILES),
    **dict.fromkeys(_OURS, FetchFailure.NO_NETWORK),
    **dict.fromkeys((errno.EHOSTUNREACH, errno.EHOSTDOWN), FetchFailure.UNREACHABLE),
    errno.ETIMEDOUT: FetchFailure.NO_CONNECTION,
}


@lru_cache(maxsize=8192)
def request_target(url: str) -> UrlParts:
    """Split a fetch key into the target of a request, whose path has no fragment."""
    return replace(split_identity(url.partition("#")[0]), host=host_of(url))


@dataclass(frozen=True, slots=True)
class HostConnection:
    """Open connection, aborted by the code that opened it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    tls_fault: str = ""


class EgressRules:
    """The policy of `[egress]` with look-ups; refusals are `NoAnswerError`."""

    def __init__(self, egress: EgressSettings, names: DnsResolver, is_own: Callable[[Address], bool]) -> None:
        self.policy = EgressPolicy(egress, is_own=is_own)
        self._names = names

    def check(self, host: str, port: int | None) -> None:
        """Raise NoAnswerError when the host or the port is refused, before any look-up."""
        try:
            self.policy.check_target(host, port)
        except (BlockedPortError, BlockedHostError) as error:
            failure = FetchFailure.PORT if isinstance(error, BlockedPortError) else FetchFailure.BLOCKED
            raise NoAnswerError(failure, str(error).removesuffix(".")) from error
        if self.policy.via.of(host) is not None:
            raise NoAnswerError(FetchFailure.BLOCKED, f"[egress] via routes {host} in a way that checks do not support")

    async def addresses(self, host: str, port: int, *, is_trusted: bool = False) -> tuple[Addresses, int]:
        """Return the host's permitted (with `is_trusted` all) addresses and its port; else NoAnswerError."""
        addresses, port = self.policy.known_addresses(host, port) or (await self._names.addresses(host), port)
        refusals = ["" if is_trusted else self.policy.against(host, each) for each in addresses]
        permitted = [unmap_ipv4(a) for a, why in zip(addresses, refusals, strict=True) if not why]
        if not permitted:
            raise NoAnswerError(FetchFailure.ADDRESS, refusals[0])
        return tuple(permitted), port


class ConnectionOpener:
    """Opener of connections to permitted addresses."""

    def __init__(self, egress: EgressSettings, names: DnsResolver, *, is_own: Callable[[Address], bool]) -> None:
        """Load the settings; ConfigError when `ca_file` has no certificates."""
        self._rules = EgressRules(egress, names, is_own)
        self._strict = strict_context(egress.ca_file)
        self._lenient = lenient_context()

    async def open(self, target: UrlParts, limit_s: float) -> HostConnection:
        """Open a connection to the target, with TLS for https; NoAnswerError with the reason if it fails."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        try:
            async with asyncio.timeout_at(deadline):
                addresses, port = await self._addresses(target)
        except TimeoutError:
            raise NoAnswerError(FetchFailure.DNS_UNFINISHED) from None
        deadline = min(deadline, loop.time() + CONNECT_S)
        sock = await self._connected(addresses, port, deadline - loop.time())
        if target.scheme == "http":
            try:
                return HostConnection(*await asyncio.open_connection(sock=sock, limit=BUFFER))
            except OSError as error:  # it was reset meanwhile
                sock.close()
                raise NoAnswerError(FetchFailure.RESET) from error
        try:
            return await self._secured(sock, target, self._strict, deadline - loop.time())
        except _StrictError as error:
            fault = error.fault
        sock = await self._connected(addresses, port, deadline - loop.time())
        try:
            way = await self._secured(sock, target, self._lenient, deadline - loop.time())
        except _StrictError as error:
            raise NoAnswerError(FetchFailure.TLS, error.fault) from error
        if fault == TlsFault.HANDSHAKE and way.writer.get_extra_info("ssl_object").version() in OLD_VERSIONS:
            fault = "old protocol"
        return HostConnection(way.reader, way.writer, fault)

    async def _addresses(self, target: UrlParts) -> tuple[Addresses, int]:
        """Return the permitted addresses and the port; NoAnswerError when there is none."""
        self._rules.check(target.host, target.real_port)
        fine, port = await self._rules.addresses(target.host, target.real_port)
        # Both families have a turn within the first few.
        first = list(fine[:TRIED])
        others = [each for each in fine[TRIED:] if each.version != first[0].version]
        if others and len({each.version for each in first}) == 1:
            first[-1] = others[0]
        return tuple(first), port

    async def _connected(self, addresses: Addresses, port: int, limit_s: float) -> socket.socket:
        stream = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        infos = [
            (socket.AF_INET if each.version == 4 else socket.AF_INET6, *stream, (str(each), port)) for each in addresses
        ]
        try:
            async with asyncio.timeout(max(limit_s, 0)):
                return await aiohappyeyeballs.start_connection(infos, happy_eyeballs_delay=STAGGER_S, interleave=1)
        except TimeoutError:  # an OSError too, which the kernel's own time-out is as well
            raise NoAnswerError(FetchFailure.NO_CONNECTION) from None
        except OSError as error:
            raise NoAnswerError(_FAILURES.get(error.errno or 0, FetchFailure.REFUSED)) from error

    async def _secured(
        self, sock: socket.socket, target: UrlParts, context: ssl.SSLContext, limit_s: float
    ) -> HostConnection:
        """Run the TLS handshake on the socket, which is closed on failure."""
        try:
            reader, writer = await asyncio.open_connection(
                sock=sock,
                ssl=context,
                server_hostname=target.host.strip("[]"),
                ssl_handshake_timeout=max(limit_s, 0.001),
                ssl_shutdown_timeout=1.0,
                limit=BUFFER,
            )
        except ssl.SSLError as error:
            sock.close()
            refusal = tls_refusal(error)
            if refusal is not None:
                raise NoAnswerError(refusal) from error
            raise _StrictError(certificate_fault(error)) from error
        except (TimeoutError, ConnectionAbortedError) as error:  # asyncio's word for the time-out
            sock.close()
            raise NoAnswerError(FetchFailure.TLS_SILENT) from error
        except (OSError, ValueError) as error:  # old servers hang up on a hello that is new to them
            sock.close()
            raise _StrictError(certificate_fault(error)) from error
        return HostConnection(reader, writer)


class _StrictError(Exception):
    """Handshake failure that a lenient context may avoid."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


_HEADERS = "\r\n".join(
    (
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "Accept-Language: en-US,en;q=0.9,*;q=0.5",
        "Accept-Encoding: gzip, deflate",
        "Cache-Control: max-age=0",
        "Connection: close",  # as it is done: the next request to the host comes seconds later
    )
)


def encode_request(method: str, target: UrlParts, user_agent: str, cookies: str = "") -> bytes:
    """Encode the request."""
    cookie = f"Cookie: {cookies}\r\n" if cookies else ""
    own = f"Host: {target.authority}\r\nUser-Agent: {user_agent}\r\n{_HEADERS}\r\n{cookie}"
    return f"{method} {target.path} HTTP/1.1\r\n{own}\r\n".encode("ascii", "replace")


HEAD_BYTES = 65_536
BODY_BYTES = 65_536  # as sent
PLAIN_BYTES = 262_144  # after decoding: a bomb ends here
BODY_S = 10.0  # the beginning of a body may take so long
INTERIM = 20  # answers 1xx before the one that counts
_PIECE = 16_384
_BODILESS = frozenset((204, 205, 304))


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Received answer."""

    head: LenientHead  # its head; of an answer without one (HTTP/0.9) 200 and no headers
    body: bytes = b""  # its beginning, decoded; empty for HEAD, and when it cannot be decoded
    length: int | None = None  # of the body as announced, else as received; None: unknown
    whole: bool = True  # all announced data was received, or as much as is wanted


async def exchange(way: HostConnection, request: bytes, *, limit_s: float) -> HttpAnswer:
    """Send the request and read the answer, truncated after `limit_s`; NoAnswerError without a status line."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + max(limit_s, 0)
    buffer = bytearray()
    try:
        async with asyncio.timeout_at(deadline):
            way.writer.write(request)
            head, begun = await _read_head(way.reader, buffer)
    except TimeoutError:  # the kernel's too: packets without acknowledgement
        return _partial_answer(buffer, FetchFailure.SILENT)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        return _partial_answer(buffer, tls_refusal(error) or FetchFailure.RESET, error)
    if head is not None and (request.startswith(b"HEAD ") or head.status in _BODILESS or head.status < 200):
        return HttpAnswer(head, length=head.length)
    if begun is None:
        return _partial_answer(buffer, FetchFailure.CLOSED)
    until = min(deadline, loop.time() + BODY_S)
    if head is None:
        # An answer as before HTTP/1.0: the page alone (HTTP/0.9).
        data, whole = await _read_until(way.reader, begun, BODY_BYTES, until)
        if data.lstrip()[:1] != b"<":
            raise NoAnswerError(FetchFailure.NO_HTTP, repr(bytes(data[:12])))
        return HttpAnswer(LenientHead(200), bytes(data), len(data) if whole else None, whole)
    return await _with_body(way.reader, head, begun, until)


async def _read_head(reader: asyncio.StreamReader, buffer: bytearray) -> tuple[LenientHead | None, bytearray | None]:
    """Read the head (None: there is none), and the body's first bytes (None: the peer closed)."""
    offset = interim = 0
    while True:
        end = end_of_head(buffer, offset)
        if end or len(buffer) >= HEAD_BYTES:
            head = parse_head(bytes(buffer[: end or HEAD_BYTES]))
            if head is None or not _is_interim(head.status) or not end:
                return head, (buffer[end:] if end else bytearray())
            interim += 1
            if interim > INTERIM:
                raise NoAnswerError(FetchFailure.NO_HTTP, "only interim answers")
            del buffer[:end]
            offset = 0
            continue
        offset = len(buffer)
        piece = await reader.read(_PIECE)
        if not piece:
            return None, None
        buffer += piece
        if not may_begin(bytes(buffer[:64])):
            return None, buffer


def _is_interim(status: int) -> bool:
    return 100 <= status < 200 and status != 101


def _partial_answer(buffer: bytearray, trouble: FetchFailure, error: Exception | None = None) -> HttpAnswer:
    """Parse the head of a truncated answer; NoAnswerError without a whole status line."""
    head = parse_head(bytes(buffer)) if b"\n" in buffer or trouble is FetchFailure.CLOSED else None
    if head is None or _is_interim(head.status):
        raise NoAnswerError(trouble, type(error).__name__ if error else "") from error
    return HttpAnswer(head, length=head.length, whole=False)


async def _with_body(reader: asyncio.StreamReader, head: LenientHead, begun: bytearray, until: float) -> HttpAnswer:
    length = head.length
    chunked = "chunked" in head.first("transfer-encoding").lower()
    wanted = BODY_BYTES if length is None or chunked else min(length, BODY_BYTES)
    data, ended = await _read_until(reader, begun, wanted, until, chunked=chunked)
    if chunked:
        plain, last = dechunked(data)
        if not plain and data.lstrip()[:1] == b"<":  # announced and not done
            plain, last = data, ended
        length = len(plain) if last else None
        whole = last or len(data) >= BODY_BYTES
        data = plain
    else:
        whole = len(data) >= wanted if length is not None else ended or len(data) >= wanted
        if length is None and ended:
            length = len(data)
        data = data[:wanted]
    return HttpAnswer(head, decoded(bytes(data), head.first("content-encoding")), length, whole)


async def _read_until(
    reader: asyncio.StreamReader, data: bytearray, wanted: int, until: float, *, chunked: bool = False
) -> tuple[bytearray, bool]:
    """Read up to `wanted` bytes; return them, and True when the peer ended the body properly."""
    try:
        async with asyncio.timeout_at(until):
            while len(data) < wanted and not (chunked and _LAST_CHUNK in data[-7:]):
                piece = await reader.read(_PIECE)
                if not piece:
                    return data, True
                data += piece
    except (OSError, ValueError):  # TimeoutError is an OSError
        return data, False
    return data, False


_LAST_CHUNK = b"0\r\n\r\n"


def dechunked(data: bytes | bytearray) -> tuple[bytearray, bool]:
    """Decode chunks as far as they are valid; return True as well when the last one is there."""
    plain = bytearray()
    at = 0
    while True:
        end = data.find(b"\n", at, at + 1024)
        if end < 0:
            return plain, False
        try:
            size = int(bytes(data[at:end]).partition(b";")[0].strip() or b"x", 16)
        except ValueError:
            return plain, False
        if size <= 0:
            return plain, size == 0
        plain += data[end + 1 : end + 1 + size]
        at = end + 1 + size
        if data[at : at + 2] == b"\r\n":
            at += 2
        elif data[at : at + 1] == b"\n":
            at += 1


def decoded(data: bytes, coding: str) -> bytes:
    """Decode the beginning of a compressed body as far as it is valid; empty for an unknown coding."""
    coding = coding.strip().lower()
    if coding in ("", "identity", "none", "utf-8"):
        return data
    if coding not in ("gzip", "x-gzip", "deflate"):
        return b""
    for wbits in (47, -15):  # with any header; bare, as some servers send deflate
        decoder, plain = zlib.decompressobj(wbits), bytearray()
        with suppress(zlib.error):
            for at in range(0, len(data), 1024):  # in pieces, to have what precedes a fault
                plain += decoder.decompress(data[at : at + 1024], PLAIN_BYTES - len(plain))
                if len(plain) >= PLAIN_BYTES or decoder.eof:
                    break
        if plain:
            return bytes(plain)
    # Announced and not done: the bytes as they are, when they look like a page.
    return data if data.lstrip()[:1] == b"<" else b""
