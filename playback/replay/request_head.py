"""Strict parser of HTTP request heads (RFC 9112).

A request that announces a body, by any method, is refused and its connection closed, which prevents
request smuggling; so are folded lines, bare line feeds, spaces before colons and a second Host.
"""

import re
from dataclasses import dataclass

from playback.url_paths import LONGEST_URL

LONGEST_TARGET = LONGEST_URL + 512
MOST_HEAD = 24 * 1024  # bytes, request line and fields
_MOST_FIELDS = 100

_REQUEST_LINE = re.compile(rb"([A-Za-z!#$%&'*+.^_`|~0-9-]{1,40}) ([!-~]+) HTTP/1\.([01])")
_FIELD = re.compile(rb"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([\t !-~\x80-\xff]*)")
_HOST = re.compile(r"[A-Za-z0-9._\[\]:-]{0,255}", re.ASCII)
_CLOSE = re.compile(r"(?:^|,)[ \t]*close[ \t]*(?:,|$)", re.IGNORECASE)

# What the gate reads of a request; nothing else gets in.
_KEPT = {
    b"host": "HTTP_HOST",
    b"if-none-match": "HTTP_IF_NONE_MATCH",
    b"range": "HTTP_RANGE",
    b"if-range": "HTTP_IF_RANGE",
    b"service-worker": "HTTP_SERVICE_WORKER",
    b"sec-fetch-dest": "HTTP_SEC_FETCH_DEST",
}
_SINGLE = {b"host", b"content-length", b"transfer-encoding"}


class BadRequestHeadError(Exception):
    """Request head that is refused, with the status line's code and phrase."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True, slots=True)
class ReplayRequestHead:
    """Parsed request head."""

    environ: dict[str, str]  # its values, named as in PEP 3333
    keeps: bool  # the connection stays open after this request


def parse_head(head: bytes) -> ReplayRequestHead:
    """Parse a request head without the blank line; BadRequestHeadError when malformed or too long."""
    line, *rest = head.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise BadRequestHeadError(_refused_line(line))
    method, target = match[1].decode("ascii"), match[2].decode("ascii")
    if len(target) > LONGEST_TARGET:
        raise BadRequestHeadError("414 URI Too Long")
    if len(rest) > _MOST_FIELDS:
        raise BadRequestHeadError("431 Request Header Fields Too Large")
    fields: dict[bytes, str] = {}
    for each in rest:
        field = _FIELD.fullmatch(each)
        if field is None:
            raise BadRequestHeadError("400 Bad Request")
        name = field[1].lower()
        if name in fields and name in _SINGLE:
            raise BadRequestHeadError("400 Bad Request")
        # Of a field that is repeated without leave the first counts.
        fields.setdefault(name, field[2].decode("latin-1").rstrip(" \t"))
    environ = {"REQUEST_METHOD": method, "REQUEST_URI": target}
    is_http_1_1 = match[3] == b"1"
    _check(method, target, fields, is_http_1_1=is_http_1_1)
    for known, key in _KEPT.items():
        if known in fields:
            environ[key] = fields[known]
    keeps = is_http_1_1 and not _CLOSE.search(fields.get(b"connection", ""))
    return ReplayRequestHead(environ, keeps and method in {"GET", "HEAD"})


def _refused_line(line: bytes) -> str:
    if len(line) > LONGEST_TARGET and line.count(b" ") >= 1:
        return "414 URI Too Long"
    return "400 Bad Request"


def _check(method: str, target: str, fields: dict[bytes, str], *, is_http_1_1: bool) -> None:
    has_body = b"transfer-encoding" in fields or fields.get(b"content-length", "0") != "0"
    host = fields.get(b"host")
    if (
        (host is None and is_http_1_1)
        or not _HOST.fullmatch(host or "")
        or (has_body and method in {"GET", "HEAD"})
        # An absolute target could name another host than Host does; no browser sends one here.
        or (method in {"GET", "HEAD"} and not target.startswith("/") and target != "*")
    ):
        raise BadRequestHeadError("400 Bad Request")
