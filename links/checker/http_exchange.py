"""One HTTP exchange: request writer, and reader of a head and the body's beginning.

The header fields are those of browsers, over HTTP/1.1, without Referer; the user agent must not contain *link*,
which more sites block (links.md 5.5). The parser is not a library's because libraries reject what browsers accept:
a line without a colon, line ends without a carriage return, bytes after the answer to HEAD, a broken chunk.
"""

import asyncio
import zlib
from contextlib import suppress
from dataclasses import dataclass

from core.config.profile import link_user_agent
from core.config.settings import LinksSettings
from links.checker.connection import HostConnection, RequestTarget, tls_refusal
from links.checker.fetch_errors import FetchFailure, NoAnswerError
from net.http_head import LenientHead, end_of_head, may_begin, parse_head


class RequestWriter:
    """Serializer of requests."""

    def __init__(self, links: LinksSettings) -> None:
        """Set the user agent; raises as `link_user_agent`."""
        lines = (
            f"User-Agent: {link_user_agent(links)}",
            "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "Accept-Language: en-US,en;q=0.9,*;q=0.5",
            "Accept-Encoding: gzip, deflate",
            "Cache-Control: max-age=0",
            "Connection: close",  # as it is done: the next request to the host comes seconds later
        )
        self._headers = "\r\n".join(lines)

    def write(self, method: str, target: RequestTarget, cookies: str = "") -> bytes:
        """Encode the request."""
        cookie = f"Cookie: {cookies}\r\n" if cookies else ""
        text = f"{method} {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n{self._headers}\r\n{cookie}\r\n"
        return text.encode("ascii", "replace")


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
    except TimeoutError:  # the kernel's too: packets that nobody acknowledged
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
    seen = interim = 0
    while True:
        end = end_of_head(buffer, seen)
        if end or len(buffer) >= HEAD_BYTES:
            head = parse_head(bytes(buffer[: end or HEAD_BYTES]))
            if head is None or not _is_interim(head.status) or not end:
                return head, (buffer[end:] if end else bytearray())
            interim += 1
            if interim > INTERIM:
                raise NoAnswerError(FetchFailure.NO_HTTP, "nothing but interim answers")
            del buffer[:end]
            seen = 0
            continue
        seen = len(buffer)
        piece = await reader.read(_PIECE)
        if not piece:
            return None, None
        buffer += piece
        if not may_begin(bytes(buffer[:64])):
            return None, buffer


def _is_interim(status: int) -> bool:
    return 100 <= status < 200 and status != 101


def _partial_answer(buffer: bytearray, trouble: FetchFailure, error: Exception | None = None) -> HttpAnswer:
    """Parse the head of an answer that broke off; NoAnswerError without a whole status line."""
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
    body = decoded(bytes(data), head.first("content-encoding"))
    return HttpAnswer(head, body, length, whole)


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
