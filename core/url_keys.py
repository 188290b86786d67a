"""Replay key (SURT) of a URL, as pywb 2.10 computes it with surt 0.3.1.

Tests compare it with that library, which makes DNS queries for hosts that look like numbers, needs time quadratic in a
hostile URL's length, and imports 18 MB.
"""

import contextlib
import ipaddress
import re
from functools import lru_cache
from urllib.parse import SplitResultBytes, unquote_to_bytes

from core.errors import BadUrlError

_SCHEME = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):")
_SCHEMES = re.compile(rb"(?:https?://)*(https?://)")
_PARTS = re.compile(
    rb"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):"
    rb"(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?"
)
_WWW = re.compile(rb"www\d*\.")
# A host that begins with 0 is a number only if it is octal throughout.
_NUMERIC = re.compile(rb"[1-9]\d*(?:\.\d+){0,3}|0[0-7]*(?:\.[0-7]+){0,3}")
_ESCAPED = re.compile(rb'[^!"$&-~]')
# Most URLs have nothing to fold but letter case and a final slash.
_PLAIN = re.compile(
    r"https?://([a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*)"
    r"((?:/(?!\()[A-Za-z0-9_~,;=+-][A-Za-z0-9_.~,;=+-]*)*)/?"
)
_PLAIN_WWW = re.compile(r"www\d*\.", re.ASCII)
_QUERY_SESSIONS = tuple(
    re.compile(pattern + rb"(?=&|\Z)", re.IGNORECASE)
    for pattern in (
        rb"jsessionid=[0-9a-z]{32}",
        rb"phpsessid=[0-9a-z]{32}",
        rb"sid=[0-9a-z]{32}",
        rb"aspsessionid[a-z]{8}=[a-z]{24}",
    )
)
_PATH_SESSIONS = (re.compile(rb"(?<=/)\((?:[a-z]\([0-9a-z]{24}\))+\)/"), re.compile(rb"(?<=/)\([0-9a-z]{24}\)/"))


def replay_key(url: str) -> str:
    """Return the key of `url` in a CDX index; raises BadUrlError, never for a fetch key. Distinct pages share keys.

    Scheme, ``www.``, letter case, session identifiers, the order of query arguments, repeated and final slashes are
    folded; ``urn:`` URLs keep their scheme.

    >>> replay_key("https://www.Example.org/A/?b=2&a=1#top"), replay_key("urn:view:https://Example.org/")
    ('org,example)/a?a=1&b=2', 'urn:view:https://example.org')
    """
    plain = _PLAIN.fullmatch(url)
    if plain is not None:
        host, path = plain.groups()
        # The key of the host's root without its slash; of a host that `_PLAIN` takes.
        www = _PLAIN_WWW.match(host)
        labels = host[www.end() :].split(".") if www is not None else host.split(".")
        return (",".join(reversed(labels)) + ")") + (path.lower() or "/")
    if not url:
        return "-"
    if url.startswith("filedesc"):
        return url
    try:
        return _key(url.encode()).decode()
    except ValueError as error:
        if url.startswith("urn:"):
            return url
        raise BadUrlError(f"{url[:200]!r} has no replay key: {error}.", reason="port") from error


def _key(url: bytes) -> bytes:
    scheme, host, port, path, query = _split(url)
    if host:
        host = _host(host)
        www = _WWW.match(host)
        if www is not None and scheme != b"dns":
            host = host[www.end() :]
    path = unescape(path)
    if host:
        path = _resolve(path)
    path = _without_path_session(escape(path).lower())
    if len(path) > 1:
        path = path.removesuffix(b"/")
    if query:
        query = _query(query)
    if host:
        default = {b"http": 80, b"https": 443}.get(scheme.lower(), 0)
        suffix = b":%d" % port if port not in (None, default) else b""
        head = b",".join(reversed(host.split(b"."))) + suffix + b")"
    else:
        head = scheme + b":"
    if query:
        return head + (path or b"/") + b"?" + query
    return head + path


def _split(url: bytes) -> tuple[bytes, bytes, int | None, bytes, bytes]:
    """Split into scheme, host, port, path and query; the fragment and user information are dropped."""
    url = url.strip().translate(None, b"\n\r\t")
    if not url:
        raise ValueError("it is empty")
    if _SCHEME.match(url) is None:
        url = b"http://" + url
    doubled = _SCHEMES.match(url)
    if doubled is not None:
        url = url[doubled.start(1) :]
    match = _PARTS.match(url)
    if match is None:
        raise ValueError("it has no scheme")
    scheme, path, query = match["scheme"], match["path"], match["query"] or b""
    authority = match["authority"] or b""
    if authority.endswith(b":"):
        authority = authority.rstrip(b":")
    split = SplitResultBytes(scheme, authority, b"", b"", b"")
    port = split.port or None
    host = split.hostname or b""
    if not host and path and scheme.startswith(b"http"):
        host, _, rest = path.lstrip(b"/").partition(b"/")
        path = b"/" + rest
    return scheme, host, port, path, query


@lru_cache(maxsize=1024)
def _host(host: bytes) -> bytes:
    host = unescape(host)
    if not host.isascii():
        # A name that IDNA 2003 does not know keeps its bytes, which are escaped below.
        with contextlib.suppress(ValueError):
            host = host.decode(errors="ignore").encode("idna")
    host = host.replace(b"..", b".").strip(b".")
    numeric = _dotted_quad(host)
    if numeric is not None:
        return numeric
    return escape(host.lower()).lower()


def _dotted_quad(host: bytes) -> bytes | None:
    """Return a number-like host's IPv4 address as in inet_aton(3), without hexadecimal parts, or None."""
    if host.isdigit():
        return str(ipaddress.IPv4Address(int(host) & 0xFFFFFFFF)).encode()
    if _NUMERIC.fullmatch(host) is None:
        return None
    parts = host.split(b".")
    try:
        *heads, last = (int(part, 8 if part[:1] == b"0" else 10) for part in parts)
    except ValueError:
        return None
    if any(head > 255 for head in heads) or last >= 1 << 8 * (5 - len(parts)):
        return None
    value = last + sum(head << 8 * (3 - place) for place, head in enumerate(heads))
    return str(ipaddress.IPv4Address(value)).encode()


def unescape(text: bytes) -> bytes:
    """Decode escapes until none is left, in linear time."""
    if b"%" not in text:
        return text
    once = unquote_to_bytes(text)
    if b"%" not in once:
        return once
    out = bytearray()
    for byte in once:
        out.append(byte)
        # A decoded byte may itself end an escape: "%2541" is "%41" is "A".
        while len(out) > 2 and out[-3] == 0x25 and out[-2:].isalnum():
            try:
                decoded = int(out[-2:], 16)
            except ValueError:
                break
            out[-3:] = bytes((decoded,))
    return bytes(out)


def escape(text: bytes) -> bytes:
    """Escape all but printable characters, and ``#`` and ``%``, as SURT keys and Safe Browsing do."""
    return _ESCAPED.sub(lambda match: b"%%%02X" % match[0][0], text)


def _resolve(path: bytes) -> bytes:
    """Remove dot segments and repeated slashes from the path; a ``..`` above the root stays."""
    resolved: list[bytes] = []
    for segment in path.split(b"/")[1:]:
        if segment == b"..":
            if resolved:
                resolved.pop()
            else:
                resolved.append(segment)
        elif segment != b".":
            resolved.append(segment)
    if not resolved:
        return b"/"
    return b"/" + b"".join(segment + b"/" for segment in resolved[:-1] if segment) + resolved[-1]


def _without_path_session(path: bytes) -> bytes:
    """Remove an ASP.NET cookieless session before an ``.aspx`` page from the lower-case path."""
    if b".aspx" not in path:
        return path
    for pattern in _PATH_SESSIONS:
        for match in reversed(list(pattern.finditer(path))):
            page = path.find(b".aspx", match.end() + 1)
            if page >= 0 and path.find(b"?", match.end(), page) < 0:
                path = path[: match.start()] + path[match.end() :]
                break
    return path


def _query(query: bytes) -> bytes:
    """Return the query without sessions, in lower case, its arguments sorted; maybe empty."""
    query = escape(unescape(query))
    if b"id=" in query.lower() or b"aspsessionid" in query.lower():
        query = _without_sessions(query)
    query = query.lower()
    if len(query) < 2:
        return query
    return b"&".join(
        b"=".join(pair) for pair in sorted([tuple(argument.split(b"=", 1)) for argument in query.split(b"&")])
    )


def _without_sessions(query: bytes) -> bytes:
    """Remove the last session identifier of each kind from the query."""
    for pattern in _QUERY_SESSIONS:
        matches = list(pattern.finditer(query))
        if matches:
            start, end = matches[-1].span()
            query = query[:start] + query[end + 1 :]
    # The query without the last ``cfid=…&cftoken=…``.
    arguments = query.split(b"&")
    for place in range(len(arguments) - 1, 0, -1):
        before, token = arguments[place - 1], arguments[place].lower()
        start = before.lower().rfind(b"cfid=", 0, -1)
        if start >= 0 and token.startswith(b"cftoken=") and len(token) > len(b"cftoken="):
            head = b"".join(argument + b"&" for argument in arguments[: place - 1])
            return head + before[:start] + b"&".join(arguments[place + 1 :])
    return query
