"""Redaction of the values of cookies and credentials in the heads of records of a visit with a login; bodies stay."""

import re
from dataclasses import replace

from net.http1 import ResponseHead

WITHHELD = b"(withheld)"
# Headers that carry what a session is known by, in requests and in responses, in lower case.
_SECRET = re.compile(
    rb"[a-z0-9-]*authorization|authentication-info|x-amz-.*|.*(?:token|session|secret|csrf|xsrf|api-?key|auth-).*"
)
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a cookie's name (RFC 6265, 4.1.1)
NAME_LIMIT = 200  # a longer one is left out whole


def redact_request(request: bytes) -> bytes:
    """Return the request, head and body, without the values of its cookies and credentials."""
    head, blank, body = request.partition(b"\r\n\r\n")
    return _redact_head(head, cookie=b"cookie", parts=True) + blank + body


def redact_response(head: ResponseHead) -> ResponseHead:
    """Return the response's head without the values of the cookies that it sets, for the record."""
    return replace(head, raw=_redact_head(head.raw, cookie=b"set-cookie", parts=False))


def _redact_head(head: bytes, *, cookie: bytes, parts: bool) -> bytes:
    """Remove secret values from the lines of a head, including folded continuation lines."""
    lines, secret = [], False
    for number, line in enumerate(head.split(b"\n")):
        if number and line[:1] in (b" ", b"\t") and line.strip():
            if not secret:
                lines.append(line)
            continue
        name, colon, value = line.partition(b":")
        key = name.strip().lower()
        secret = bool(number and colon) and (
            key == cookie or len(key) > NAME_LIMIT or _SECRET.fullmatch(key) is not None
        )
        if secret:
            end = b"\r" if line.endswith(b"\r") else b""
            redacted = _without_values(value, parts=parts) if key == cookie else b" " + WITHHELD
            lines.append(name + colon + redacted + end)
        else:
            lines.append(line)
    return b"\n".join(lines)


def _without_values(value: bytes, *, parts: bool) -> bytes:
    """Return a cookie header reduced to its names; for Set-Cookie also its attributes."""
    pairs = value.rstrip(b"\r").split(b";")
    redacted = []
    for number, pair in enumerate(pairs):
        name, equals, _ = pair.partition(b"=")
        if number and not parts:
            redacted.append(pair)  # an attribute: Path, Expires, …
        else:
            # Text that is not a name may be part of a value.
            named = equals and _TOKEN.fullmatch(name.strip(b" \t"))
            redacted.append(name + equals + WITHHELD if named else b" " + WITHHELD)
    return b";".join(redacted)
