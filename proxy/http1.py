"""HTTP/1.1 messages as bytes: heads parsed, framing decided, bodies cut into payload (pure).

The recorder keeps what came over the wire, byte for byte, so nothing here reformats an origin's
message: a head keeps its raw bytes, and `Body` tells which of the bytes that pass are payload.
Rules: RFC 9110 and RFC 9112, read leniently where origins are known to be sloppy.
"""

import re
from dataclasses import dataclass
from enum import Enum

from core.errors import PermanentError

HEAD_LIMIT_BYTES = 1 << 20  # RFC 9112 2.3 sets none; Chromium itself stops at 256 KiB
MAX_HEADERS = 1000
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")

# RFC 9110 7.6.1: meant for the next hop alone. `Proxy-*` is between the browser and us.
HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"upgrade",
    )
)


class MalformedMessageError(PermanentError):
    """The peer does not speak HTTP/1; nothing after it can be trusted."""


class Framing(Enum):
    """How the end of a body is known (RFC 9112, 6.3)."""

    NONE = "none"
    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request's first line and headers; names are lower case, order is kept."""

    method: str
    target: str
    version: bytes
    headers: tuple[tuple[bytes, bytes, bytes], ...]  # (lower-case name, name as sent, value)

    def get(self, name: bytes) -> bytes | None:
        """The first value of the header, None when absent; `name` in lower case."""
        for key, _, value in self.headers:
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """A response's first line and headers, and the raw bytes they came in."""

    raw: bytes
    version: bytes
    status: int
    reason: bytes
    headers: tuple[tuple[bytes, bytes, bytes], ...]

    def get(self, name: bytes) -> bytes | None:
        """The first value of the header, None when absent; `name` in lower case."""
        for key, _, value in self.headers:
            if key == name:
                return value
        return None

    @property
    def mime(self) -> str:
        """The bare media type in lower case; empty when there is none."""
        value = self.get(b"content-type")
        if value is None:
            return ""
        return value.split(b";", 1)[0].strip().decode("latin-1").lower()


def find_head_end(buffer: bytes | bytearray) -> int:
    """How many bytes the head takes, its blank line included; -1 when it is not whole yet."""
    end = buffer.find(b"\n\r\n")
    bare = buffer.find(b"\n\n", 0, len(buffer) if end < 0 else end + 1)
    if bare >= 0:
        return bare + 2
    return end + 3 if end >= 0 else -1


def parse_request_head(raw: bytes) -> RequestHead:
    """The request whose head is `raw`.

    Raises:
        MalformedMessageError: it is no HTTP/1 request line, or a header has no colon.
    """
    first, headers = _split(raw)
    parts = first.split(b" ")
    if len(parts) != 3 or not parts[2].startswith(b"HTTP/1.") or not parts[0].isascii():
        raise MalformedMessageError(f"No HTTP/1 request line: {first[:80]!r}.")
    if _CONTROL.search(first):  # it will stand in a WARC header and in the index (C-12)
        raise MalformedMessageError(f"Control characters in a request line: {first[:80]!r}.")
    try:
        return RequestHead(parts[0].decode("ascii"), parts[1].decode("ascii"), parts[2], headers)
    except UnicodeDecodeError as error:
        raise MalformedMessageError("A request target holds bytes beyond ASCII.") from error


def parse_response_head(raw: bytes) -> ResponseHead:
    """The response whose head is `raw`.

    Raises:
        MalformedMessageError: it is no HTTP/1 status line, or a header has no colon.
    """
    first, headers = _split(raw)
    version, _, rest = first.partition(b" ")
    status, _, reason = rest.lstrip().partition(b" ")
    if not version.startswith(b"HTTP/1.") or len(status) != 3 or not status.isdigit():
        raise MalformedMessageError(f"No HTTP/1 status line: {first[:80]!r}.")
    return ResponseHead(raw, version, int(status), reason, headers)


def _split(raw: bytes) -> tuple[bytes, tuple[tuple[bytes, bytes, bytes], ...]]:
    lines = raw.replace(b"\r\n", b"\n").strip(b"\n").split(b"\n")
    if len(lines) > MAX_HEADERS:
        raise MalformedMessageError(f"More than {MAX_HEADERS} header lines.")
    headers: list[tuple[bytes, bytes, bytes]] = []
    for line in lines[1:]:
        if line[:1] in (b" ", b"\t") and headers:  # obs-fold, RFC 9112 5.2: joined by a space
            key, name, value = headers[-1]
            headers[-1] = (key, name, value + b" " + line.strip())
            continue
        name, colon, value = line.partition(b":")
        if not colon:
            continue  # origins do send such lines; browsers skip them
        name = name.rstrip()
        headers.append((name.lower(), name, value.strip()))
    return lines[0], tuple(headers)


def response_framing(head: ResponseHead, method: str) -> tuple[Framing, int]:
    """How the response's body ends, and its length where that is known (RFC 9112, 6.3).

    Raises:
        MalformedMessageError: its lengths contradict each other.
    """
    if method == "HEAD" or head.status in (204, 304) or head.status < 200:
        return Framing.NONE, 0
    coding = head.get(b"transfer-encoding")
    if coding is not None and coding.lower().rsplit(b",", 1)[-1].strip() == b"chunked":
        return Framing.CHUNKED, 0
    lengths = {value for key, _, value in head.headers if key == b"content-length"}
    lengths = {part.strip() for value in lengths for part in value.split(b",")}
    if not lengths:
        return Framing.CLOSE, 0
    if len(lengths) > 1 or not (text := lengths.pop()).isdigit():
        raise MalformedMessageError("Its Content-Length headers contradict each other.")
    return Framing.LENGTH, int(text)


def keeps_alive(version: bytes, connection: bytes | None) -> bool:
    """Whether the peer means to go on with this connection (RFC 9112, 9.3)."""
    options = () if connection is None else [o.strip() for o in connection.lower().split(b",")]
    if b"close" in options:
        return False
    return version != b"HTTP/1.0" or b"keep-alive" in options


class Body:
    """Follows a body as its bytes pass: which of them are payload, and when it is over.

    `feed` takes whatever came and returns (bytes of it that belong to the body, payload among
    them). What comes after the body's end is not the body's: the first number says where it ended.
    """

    __slots__ = ("_framing", "_left", "_line", "_state", "done", "malformed")

    def __init__(self, framing: Framing, length: int = 0) -> None:
        self._framing = framing
        self._left = length
        self._line = bytearray()
        self._state = "size"  # chunked: size, data, crlf, trailer
        self.malformed = False
        self.done = framing is Framing.NONE or (framing is Framing.LENGTH and length == 0)

    def feed(self, data: bytes | bytearray) -> tuple[int, bytes | bytearray]:
        """(how many of the bytes are the body's, the payload among them)."""
        if self.done:
            return 0, b""
        if self._framing is Framing.CLOSE:
            return len(data), data
        if self._framing is Framing.LENGTH:
            taken = min(len(data), self._left)
            self._left -= taken
            self.done = self._left == 0
            return taken, data if taken == len(data) else data[:taken]
        return self._feed_chunked(data)

    @property
    def left(self) -> int | None:
        """How many bytes are still to come, None when that is not known."""
        return self._left if self._framing is Framing.LENGTH else None

    def close(self) -> bool:
        """Say that the connection ended; True when the body was whole."""
        if self._framing is Framing.CLOSE:
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
                continue
            end = data.find(b"\n", at)
            stop = len(data) if end < 0 else end + 1
            self._line += data[at:stop]
            at = stop
            if end >= 0:
                self._end_line()
            elif len(self._line) > 8192:
                self.malformed = True
        return at, b"".join(payload) if len(payload) != 1 else payload[0]

    def _end_line(self) -> None:
        line = bytes(self._line).strip()
        self._line.clear()
        if self._state == "size":
            size = line.split(b";", 1)[0].strip()
            if not size or len(size) > 15 or size.strip(b"0123456789abcdefABCDEF"):
                self.malformed = True
                return
            self._left = int(size, 16)
            self._state = "data" if self._left else "trailer"
        elif self._state == "crlf":
            self.malformed = bool(line)
            self._state = "size"
        elif not line:
            self.done = True


def forwarded_request(head: RequestHead, *, target: str, host: str, length: int | None) -> bytes:
    """The request as the origin gets it: origin-form, this hop's headers gone, nothing added.

    `zstd` is taken out of Accept-Encoding, because no WARC reader decodes it yet; a body of
    `length` bytes is announced by Content-Length.
    """
    lines = [f"{head.method} {target} HTTP/1.1".encode()]
    named = _connection_options(head.get(b"connection"))
    has_host = False
    for key, name, value in head.headers:
        if key in HOP_BY_HOP or key in named or key in (b"content-length", b"transfer-encoding"):
            continue
        if key == b"accept-encoding":
            codings = [c.strip() for c in value.split(b",")]
            value = b", ".join(c for c in codings if not c.lower().startswith(b"zstd"))  # noqa: PLW2901 the header as we send it
        has_host = has_host or key == b"host"
        lines.append(name + b": " + value)
    if not has_host:
        lines.insert(1, b"Host: " + host.encode())
    if length is not None:
        lines.append(b"Content-Length: %d" % length)
    lines.append(b"Connection: keep-alive\r\n\r\n")
    return b"\r\n".join(lines)


def forwarded_response_head(head: ResponseHead, *, keep_alive: bool) -> bytes:
    """The response's head as the browser gets it: this hop's headers replaced by ours.

    An origin cannot speak in the proxy's name: `Weboid-Proxy-Error` is taken out.
    """
    lines = [b"HTTP/1.1 %d %s" % (head.status, head.reason)]
    lines += [
        name + b": " + value
        for key, name, value in head.headers
        if key not in HOP_BY_HOP and key != b"weboid-proxy-error" and name
    ]
    lines.append(b"Connection: keep-alive" if keep_alive else b"Connection: close")
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


def _connection_options(value: bytes | None) -> frozenset[bytes]:
    if value is None:
        return frozenset()
    return frozenset(option.strip() for option in value.lower().split(b","))
