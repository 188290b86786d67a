"""Tolerant parser of HTTP response heads, as lenient as browsers. Pure; nothing is raised.

Old servers end lines with LF, write header lines without a colon, name the protocol ``ICY``.
"""

import re
from dataclasses import dataclass, field

HEADERS = 200  # of one head; more are not kept
VALUE_CHARS = 16_384
_STATUS = re.compile(rb"(HTTP(?:/\d+(?:\.\d+)?)?|ICY)[ \t]+(-?\d{1,9})(?!\d)", re.IGNORECASE)
_START = re.compile(rb"[\s\x00]{0,16}(?:HTTP|ICY)", re.IGNORECASE)
_END = re.compile(rb"\n\r?\n")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}[ \t]*")
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
    begin = max(start - 3, first.end() if first else 0)
    found = _END.search(data, begin)
    return found.end() if found else 0


def parse_head(data: bytes) -> LenientHead | None:
    r"""The head that the bytes are; None without a status line.

    >>> parse_head(b"HTTP/1.1 200 OK\nServer: x\nnonsense\n\n")
    LenientHead(status=200, headers=(('server', 'x'),))
    """
    lines = data.lstrip(b"\r\n\t \x00").split(b"\n")
    status = _STATUS.match(lines[0])
    if status is None:
        return None
    headers: list[tuple[str, str]] = []
    for line in (each.rstrip(b"\r") for each in lines[1:]):
        if line[:1] in (b" ", b"\t"):  # a folded line (RFC 9112, 5.2)
            if headers:
                name, before = headers[-1]
                folded = f"{before} {line.strip().decode('latin-1')}"
                headers[-1] = (name, folded[:VALUE_CHARS])
            continue
        raw, colon, value = line.partition(b":")
        if colon and _NAME.fullmatch(raw) and len(headers) < HEADERS:
            name = raw.strip().decode("ascii").lower()
            headers.append((name, value.strip().decode("latin-1")[:VALUE_CHARS]))
    return LenientHead(int(status[2]), tuple(headers))
