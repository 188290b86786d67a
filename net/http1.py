"""HTTP/1.1 messages as bytes: heads, body framing and payload (RFC 9110, RFC 9112); linear in the input.

An origin's message is never reformatted: the recorder stores the bytes of the wire. Lenient where browsers are; strict
where two parsers could disagree about the end of a message (`MalformedMessageError`). The message to the browser is
generated from the parsed form.

`parse_head`, for link checks, reads any server's answer as browsers do, and raises nothing.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from core.errors import PermanentError

HEAD_LIMIT_BYTES = 1 << 20  # RFC 9112 2.3 sets none; Chromium itself stops at 256 KiB
CHUNK_LINE_LIMIT_BYTES = 16_384  # a chunk's size line, or one trailer; Chromium's own limit
MAX_HEADERS = 1000
WINDOW_GZIP = 16 + zlib.MAX_WBITS
_INFLATE_BYTES = 65_536
_LENGTH_DIGITS = 18  # 2^63 has 19: beyond that no browser counts

Headers = tuple[tuple[bytes, bytes, bytes], ...]  # (lower-case name, name as sent, value)

# A token (RFC 9110, 5.6.2), a colon, and the rest of the line; nothing here can be matched twice.
_HEADER = re.compile(rb"^([!#$%&'*+.^_`|~0-9A-Za-z-]++)[ \t]*+:[ \t]*+(.*+)$", re.MULTILINE)
_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) (HTTP/1\.\d)")
# Three digits, the first no zero; two blanks and a missing reason are seen, so is lower case.
_STATUS_LINE = re.compile(rb"(HTTP/\d\.\d) +([1-9]\d\d)(?!\d)[ \t]*(.*)", re.IGNORECASE | re.DOTALL)
_LEADING = re.compile(rb"[\r\n]{0,8}")
_FOLD = re.compile(rb"\n[ \t]+")
_INVISIBLE_LINE = re.compile(rb"\n[^!-~\n]*\n")
_MIME = re.compile(r"[!#$&^_.+a-z0-9-]+/[!#$&^_.+a-z0-9-]+", re.ASCII)  # RFC 6838, 4.2
_HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]+")
_TO_BLANKS = bytes.maketrans(b"\x00\r", b"  ")

# RFC 9110 7.6.1: meant for the next hop alone. `Proxy-*` is between the browser and us.
HOP_BY_HOP = frozenset(b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization upgrade".split())
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
_ONLY_ONCE = _FRAMING | {b"host", b"proxy-authorization"}
# Codings that no WARC reader decodes yet; the last two need a dictionary besides (RFC 9842).
_UNREADABLE = (b"zstd", b"dcb", b"dcz")


class MalformedMessageError(PermanentError):
    """Violation of HTTP/1 by the peer; the connection is unusable."""


class BodyFraming(Enum):
    """Method that delimits a body (RFC 9112, 6.3)."""

    NONE = "none"
    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


class MessageHead:
    """Head of a message."""

    __slots__ = ()
    headers: Headers

    def get(self, name: bytes) -> bytes | None:
        """Return the first value of the header, None when absent; `name` in lower case."""
        for key, _, value in self.headers:
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class RequestHead(MessageHead):
    """Request line and headers; names are lower case, order is kept."""

    method: str
    target: str
    version: bytes
    headers: Headers


@dataclass(frozen=True, slots=True)
class ResponseHead(MessageHead):
    """Status line and headers of a response, with its raw bytes."""

    raw: bytes  # the head as received, from its status line to its blank line
    version: bytes
    status: int
    reason: bytes
    headers: Headers  # those with a valid name (RFC 9110, 5.6.2); `raw` has all

    @property
    def mime(self) -> str:
        """Return the bare media type in lower case; empty when missing or invalid."""
        if (value := self.get(b"content-type")) is None:
            return ""
        mime = value.split(b";", 1)[0].strip().decode("latin-1").lower()
        return mime if len(mime) <= 255 and _MIME.fullmatch(mime) else ""

    @property
    def is_plain(self) -> bool:
        """Return True if no line of white space would end the head for warcio and pywb, but not for browsers."""
        match = _INVISIBLE_LINE.search(self.raw)
        return match is not None and match.end() == len(self.raw)


def find_head_end(buffer: bytes | bytearray, start: int = 0) -> int:
    """Return the length of the head including its blank line; -1 when incomplete.

    Lines end with CRLF or LF (RFC 9112, 2.2), a few may be empty before it. `start` bytes were searched before.
    """
    begin = 0
    if buffer[:1] in (b"\r", b"\n"):
        leading = _LEADING.match(buffer)
        begin = leading.end() if leading is not None else 0
    begin = max(begin, start - 2)
    crlf = buffer.find(b"\n\r\n", begin)
    lf = buffer.find(b"\n\n", begin, len(buffer) if crlf < 0 else crlf + 1)
    if lf >= 0:
        return lf + 2
    return crlf + 3 if crlf >= 0 else -1


def parse_request_head(raw: bytes) -> RequestHead:
    """Parse a request head; values for WARC headers (C-12), destination and framing (RFC 9112, 3.2, 5.1) are strict."""
    first, rest = _lines(raw)
    if (line := _REQUEST_LINE.fullmatch(first)) is None:
        raise MalformedMessageError(f"Not an HTTP/1 request line: {first[:80]!r}.")
    headers = _headers(rest)
    if b"\x00" in rest or b"\r" in rest:
        raise MalformedMessageError("A header of the request contains NUL or a bare CR.")
    if (b" :" in rest or b"\t:" in rest) and any(
        line.partition(b":")[0][-1:] in (b" ", b"\t") for line in rest.split(b"\n")
    ):
        raise MalformedMessageError("White space before a colon (RFC 9112, 5.1).")
    if rest and len(headers) != rest.count(b"\n") + 1:
        raise MalformedMessageError("A line of the request's head is not a header.")
    names = [key for key, _, _ in headers]
    if len(set(names)) != len(names):
        twice = {name for name in names if names.count(name) > 1} & _ONLY_ONCE
        if twice:
            raise MalformedMessageError(f"More than one {twice.pop().decode()} header.")
    return RequestHead(line[1].decode("ascii"), line[2].decode("ascii"), line[3], headers)


def parse_response_head(raw: bytes) -> ResponseHead:
    """Parse a response head, without lines that are not headers; CR and NUL become spaces (RFC 9110, 5.5)."""
    raw = raw.lstrip(b"\r\n")
    first, rest = _lines(raw)
    if b"\r" in first or b"\x00" in first:
        first = first.translate(_TO_BLANKS)
    if (line := _STATUS_LINE.fullmatch(first)) is None:
        raise MalformedMessageError(f"Not an HTTP/1 status line: {first[:80]!r}.")
    if b"\r" in rest or b"\x00" in rest:
        rest = rest.translate(_TO_BLANKS)
    return ResponseHead(raw, line[1].upper(), int(line[2]), line[3].rstrip(b" \t"), _headers(rest))


def _lines(raw: bytes) -> tuple[bytes, bytes]:
    """Return the first line, and the others with LF ends and unfolded (RFC 9112, 5.2)."""
    text = raw.replace(b"\r\n", b"\n").strip(b"\n")
    if text.count(b"\n") > MAX_HEADERS:
        raise MalformedMessageError(f"More than {MAX_HEADERS} header lines.")
    first, _, rest = text.partition(b"\n")
    if b"\n " in rest or b"\n\t" in rest:
        rest = _FOLD.sub(b" ", rest)
    return first, rest


def _headers(lines: bytes) -> Headers:
    """Parse the lines that are headers."""
    return tuple((name.lower(), name, value.rstrip(b" \t")) for name, value in _HEADER.findall(lines))


def _listed(headers: Headers, name: bytes) -> list[bytes]:
    """Return the members of a list-valued header in lower case, from all its lines (RFC 9110, 5.3)."""
    members = (part for key, _, value in headers if key == name for part in value.split(b","))
    return [part.strip(b" \t").lower() for part in members]


def request_framing(head: RequestHead) -> tuple[BodyFraming, int]:
    """Return the framing of a request's body (RFC 9112, 6.3); ambiguous framing is malformed."""
    coding, length = head.get(b"transfer-encoding"), head.get(b"content-length")
    if coding is not None:
        if coding.lower() != b"chunked" or length is not None:
            raise MalformedMessageError("The request's length is undefined.")
        return BodyFraming.CHUNKED, 0
    if length is None:
        return BodyFraming.NONE, 0
    if not length.isdigit() or len(length) > _LENGTH_DIGITS:
        raise MalformedMessageError("The request's length is not a number.")
    return BodyFraming.LENGTH, int(length)


def response_framing(head: ResponseHead, method: str) -> tuple[BodyFraming, int]:
    """Return the framing of a response's body, and its length where known (RFC 9112, 6.3).

    An invalid length is ignored, as in browsers; contradictory ones are malformed.
    """
    if method == "HEAD" or head.status in (204, 304) or head.status < 200:
        return BodyFraming.NONE, 0
    coding, length = _declared_framing(head)
    if coding is not None:
        return (BodyFraming.CHUNKED if coding == b"chunked" else BodyFraming.CLOSE), 0
    if length is None:
        raise MalformedMessageError("Its Content-Length headers contradict each other.")
    return (BodyFraming.LENGTH, int(length)) if length else (BodyFraming.CLOSE, 0)


def ends_chunked(headers: Headers) -> bool:
    """Return True if the last transfer coding of all header lines is chunked (RFC 9112, 6.3)."""
    return _listed(headers, b"transfer-encoding")[-1:] == [b"chunked"]


def _declared_framing(head: ResponseHead) -> tuple[bytes | None, bytes | None]:
    """Return the last transfer coding, and the length: None if contradictory, empty if invalid."""
    framing = [(key, value) for key, _, value in head.headers if key in _FRAMING]
    if len(framing) != 1 or framing[0][0] != b"content-length" or not framing[0][1].isdigit():
        codings = _listed(head.headers, b"transfer-encoding")
        lengths = set(_listed(head.headers, b"content-length"))
        if codings or len(lengths) > 1:
            return (codings[-1] if codings else None), None
        framing = [(b"", lengths.pop() if lengths else b"")]
    length = framing[0][1]
    return None, length if length.isdigit() and len(length) <= _LENGTH_DIGITS else b""


def keeps_alive(version: bytes, connection: bytes | None) -> bool:
    """Return True if the peer keeps the connection open (RFC 9112, 9.3)."""
    options = () if connection is None else [o.strip() for o in connection.lower().split(b",")]
    if b"close" in options:
        return False
    return version >= b"HTTP/1.1" or b"keep-alive" in options


def reusable(head: ResponseHead) -> bool:
    """Return True if the origin's connection can be reused; two framings are ambiguous (RFC 9112, 6.1, 11.2)."""
    options = _listed(head.headers, b"connection")
    if not keeps_alive(head.version, b",".join(options) if options else None):
        return False
    coded = head.get(b"transfer-encoding") is not None
    return not coded or (head.version >= b"HTTP/1.1" and head.get(b"content-length") is None)


class BodyParser:
    """Incremental parser of a body: identifies payload and the end, however reads are split."""

    __slots__ = ("_framing", "_left", "_line", "_state", "done", "malformed")

    def __init__(self, framing: BodyFraming, length: int = 0) -> None:
        self._framing = framing
        self._left = length
        self._line = bytearray()
        self._state = "size"  # chunked: size, data, crlf, trailer
        self.malformed = False
        self.done = framing is BodyFraming.NONE or (framing is BodyFraming.LENGTH and length == 0)

    def feed(self, data: bytes | bytearray) -> tuple[int, bytes | bytearray]:
        """Return (number of bytes that belong to the body, payload among them)."""
        if self.done:
            return 0, b""
        if self._framing is BodyFraming.CLOSE:
            return len(data), data
        if self._framing is BodyFraming.LENGTH:
            length = min(len(data), self._left)
            self._left -= length
            self.done = self._left == 0
            return length, data if length == len(data) else data[:length]
        return self._feed_chunked(data)

    @property
    def left(self) -> int | None:
        """Return the number of outstanding bytes, None when unknown."""
        return self._left if self._framing is BodyFraming.LENGTH else None

    def close(self) -> bool:
        """Handle the end of the connection; return True if the body was complete."""
        if self._framing is BodyFraming.CLOSE:
            self.done = True
        return self.done

    def _feed_chunked(self, data: bytes | bytearray) -> tuple[int, bytes | bytearray]:
        payload: list[bytes | bytearray] = []
        at = 0
        while at < len(data) and not self.done and not self.malformed:
            if self._state == "data":
                piece = data[at : at + self._left]
                payload.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left == 0:
                    self._state = "crlf"
            else:
                at = self._feed_line(data, at)
        return at, b"".join(payload) if len(payload) != 1 else payload[0]

    def _feed_line(self, data: bytes | bytearray, at: int) -> int:
        """Consume a framing line or a part of it; return its end."""
        limit = at + CHUNK_LINE_LIMIT_BYTES - len(self._line)
        end = data.find(b"\n", at, limit)
        stop = end + 1 if end >= 0 else min(limit, len(data))
        self._line += data[at:stop]
        if end >= 0:
            self._end_line()
        elif len(self._line) >= CHUNK_LINE_LIMIT_BYTES:
            self.malformed = True
        return stop

    def _end_line(self) -> None:
        """Process a complete line. Only CR is accepted before LF, or browsers see another end."""
        line = bytes(self._line[:-1]).removesuffix(b"\r")
        self._line.clear()
        if self._state == "size":
            size = line.split(b";", 1)[0].rstrip(b" \t")
            digits = size.lstrip(b"0")
            if len(digits) > 15 or not _HEXADECIMAL.fullmatch(size):
                self.malformed = True
                return
            self._left = int(size, 16)
            self._state = "data" if self._left else "trailer"
        elif self._state == "crlf":
            self.malformed = bool(line)
            self._state = "size"
        elif not line:
            self.done = True


def inflated(decoder: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    """Yield the decoded data in small steps, so that a decompression bomb stops at the reader's limit."""
    while data and not decoder.eof:
        yield decoder.decompress(data, _INFLATE_BYTES)
        data = decoder.unconsumed_tail


def with_headers(head: RequestHead, added: Headers) -> RequestHead:
    """Return the request with headers added, each replacing those of the same name."""
    if not added:
        return head
    wanted = {each[0]: each for each in added}
    headers = [wanted.pop(each[0], each) for each in head.headers]
    return replace(head, headers=(*headers, *wanted.values()))


def forwarded_request(
    head: RequestHead, *, target: str, host: str, length: int | None, connection: bytes = b"keep-alive"
) -> bytes:
    """Return the request for the origin: origin-form, Host (RFC 9112, 3.2.2) and this hop's headers replaced in place.

    Codings that no WARC reader decodes are removed from Accept-Encoding. The rest is as the browser sent it (C-14).
    `connection` is ``Upgrade`` for a request to switch protocols, which keeps the header of that name.
    """
    lines = [f"{head.method} {target} HTTP/1.1".encode()]
    own_headers = {
        b"host": b"Host: " + host.encode(),
        b"content-length": b"" if length is None else b"Content-Length: %d" % length,
        b"connection": b"Connection: " + connection,
    }
    named = _listed(head.headers, b"connection")
    for key, name, value in head.headers:
        if (kind := _REPLACED.get(key)) is not None:
            lines.append(own_headers.pop(kind, b""))
        elif (key in HOP_BY_HOP or key in named) and key != connection.lower():
            continue
        elif key == b"accept-encoding":
            codings = [coding.strip() for coding in value.split(b",")]
            readable = [each for each in codings if not each.lower().startswith(_UNREADABLE)]
            lines.append(name + b": " + b", ".join(readable))
        else:
            lines.append(name + b": " + value)
    if b"host" in own_headers:
        lines.insert(1, own_headers.pop(b"host"))
    lines += own_headers.values()
    return b"\r\n".join(filter(None, lines)) + b"\r\n\r\n"


_REPLACED = {
    b"host": b"host",
    **dict.fromkeys((b"connection", b"proxy-connection"), b"connection"),
    **dict.fromkeys(_FRAMING, b"content-length"),
}


def forwarded_response_head(head: ResponseHead, *, keep_alive: bool) -> bytes:
    """Return the head for the browser: this hop's headers, one framing, without `Weboid-Proxy-Error` of an origin."""
    lines = [b"HTTP/1.1 %d %s" % (head.status, head.reason)]
    coding, length = _declared_framing(head)
    framing = b"Content-Length: " + length if length else b""
    if coding == b"chunked":
        framing = b"Transfer-Encoding: chunked"
    for key, name, value in head.headers:
        if key in _FRAMING:
            lines.append(framing)
            framing = b""
        elif key not in HOP_BY_HOP and key != b"weboid-proxy-error":
            lines.append(name + b": " + value)
    if not keep_alive:
        lines.append(b"Connection: close")
    elif head.get(b"connection") is not None:  # visible to pages: sent only if the origin sent it
        lines.append(b"Connection: keep-alive")
    return b"\r\n".join(filter(None, lines)) + b"\r\n\r\n"


HEADERS = 200  # of one head; more are not kept
VALUE_CHARS = 16_384
_STATUS = re.compile(rb"(HTTP(?:/\d+(?:\.\d+)?)?|ICY)[ \t]+(-?\d{1,9})(?!\d)", re.IGNORECASE)
_START = re.compile(rb"[\s\x00]{0,16}(?:HTTP|ICY)", re.IGNORECASE)
_END = re.compile(rb"\n\r?\n")
_PREFIXES = (b"http", b"icy")


@dataclass(frozen=True, slots=True)
class LenientHead:
    """Parsed head."""

    status: int  # the number as sent, in any range
    # (name in lower case, value), in order; values as Latin-1, byte for byte.
    headers: tuple[tuple[str, str], ...] = field(default=())

    def all(self, name: str) -> list[str]:
        """Return the values of all headers of the name."""
        return [value for key, value in self.headers if key == name]

    def first(self, name: str) -> str:
        """Return the first header of the name; empty without one."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def mime(self) -> str:
        """Return the bare media type in lower case; empty without one."""
        mime = self.first("content-type").partition(";")[0].strip().lower()
        return mime if "/" in mime and mime.isascii() and len(mime) < 128 else ""

    @property
    def length(self) -> int | None:
        """Return the Content-Length; None when missing or invalid."""
        text = self.first("content-length").partition(",")[0].strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def may_begin(data: bytes) -> bool:
    """Return True if the bytes are, or may become, the beginning of a head."""
    data = data.lstrip()[:4].lower()
    return any(prefix.startswith(data[: len(prefix)]) for prefix in _PREFIXES)


def end_of_head(data: bytes | bytearray, start: int = 0) -> int:
    """Return the start of the body; 0 while the head is incomplete, as its first `start` bytes are."""
    first = _START.match(data)
    match = _END.search(data, max(start - 3, first.end() if first else 0))
    return match.end() if match else 0


def parse_head(data: bytes) -> LenientHead | None:
    r"""Return the head that the bytes are, read as leniently as browsers do; None without a status line."""
    first, _, rest = data.lstrip(b"\r\n\t \x00").replace(b"\r\n", b"\n").partition(b"\n")
    if (status := _STATUS.match(first)) is None:
        return None
    raw_headers = _headers(_FOLD.sub(b" ", rest))[:HEADERS]
    headers = ((name.decode("ascii"), value.strip().decode("latin-1")[:VALUE_CHARS]) for name, _, value in raw_headers)
    return LenientHead(int(status[2]), tuple(headers))
