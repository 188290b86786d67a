"""A URL as lists of bad addresses know it: canonical, in expressions, hashed; pure.

The rules are those that Safe Browsing v4 publishes ("URLs and Hashing"), so that its lists and those
made for the same clients can be used. An expression is a suffix of the host with a prefix of the path;
a list holds beginnings of the expressions' SHA-256. Nothing here asks anybody anything.

>>> canonical("http://www.GOOgle.com/a/../b?q#frag")
b'http://www.google.com/b?q'
>>> expressions("http://a.b.c/1/2.html?param=1")[:3]
[b'a.b.c/1/2.html?param=1', b'a.b.c/1/2.html', b'a.b.c/']
"""

import hashlib
import ipaddress
import re
from contextlib import suppress
from dataclasses import dataclass

_WITH_SLASHES = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*)://", re.DOTALL)
_PORT = re.compile(rb":\d*\Z")
_ESCAPED = re.compile(rb"[\x00-\x20\x7f-\xff#%]")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_MOST_HOST_PARTS = 5
_MOST_PATHS = 4
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class _Parts:
    """A canonical URL in parts, not escaped; `query` is with its question mark, or empty."""

    scheme: bytes
    host: bytes
    path: bytes
    query: bytes
    is_address: bool


def canonical(url: str | bytes) -> bytes:
    """The URL in the one form that is hashed; of any text something comes out."""
    parts = _parts(url)
    return parts.scheme + b"://" + _escape(parts.host + parts.path + parts.query)


def expressions(url: str | bytes) -> list[bytes]:
    """At most thirty: five suffixes of the host, each with six prefixes of path and query."""
    parts = _parts(url)
    found: list[bytes] = []
    for host in _hosts(parts):
        for path in _paths(parts):
            expression = _escape(host + path)
            if expression not in found:
                found.append(expression)
    return found


def full_hashes(url: str | bytes) -> list[bytes]:
    """The SHA-256 of each expression, 32 bytes; a list's entries are beginnings of them."""
    return [hashlib.sha256(each).digest() for each in expressions(url)]


def _parts(url: str | bytes) -> _Parts:
    data = url.encode(errors="surrogatepass") if isinstance(url, str) else url
    data = data.strip(b" ").translate(None, b"\t\r\n")
    data = _unescape(data.partition(b"#")[0])
    scheme, rest = b"http", data
    match = _WITH_SLASHES.match(data)
    if match is not None:
        scheme, rest = match[1].lower(), data[match.end() :]
    cut = re.search(rb"[/?]", rest)
    authority, tail = (rest[: cut.start()], rest[cut.start() :]) if cut else (rest, b"")
    host, is_address = _host(_PORT.sub(b"", authority.rpartition(b"@")[2]))
    path, mark, query = tail.partition(b"?")
    return _Parts(scheme, host, _resolved(path), mark + query, is_address)


def _unescape(data: bytes) -> bytes:
    """The text with escapes decoded until none is left, in time that grows with its length."""
    if b"%" not in data:
        return data
    out = bytearray()
    for byte in data:
        out.append(byte)
        # A decoded byte may itself end an escape: "%2541" is "%41" is "A".
        while len(out) > 2 and out[-3] == 0x25 and out[-2] in _HEX and out[-1] in _HEX:
            out[-3:] = bytes((int(out[-2:], 16),))
    return bytes(out)


def _host(host: bytes) -> tuple[bytes, bool]:
    """The host in its one form, and whether it is an address."""
    if host.startswith(b"[") and host.endswith(b"]"):
        try:
            return _ipv6(ipaddress.IPv6Address(host[1:-1].decode("ascii"))), True
        except ValueError:
            return host.lower(), True
    if not host.isascii():
        with suppress(UnicodeError):  # it is no name of the DNS, and its bytes are escaped
            host = host.decode().encode("idna")
    host = re.sub(rb"\.{2,}", b".", host).strip(b".").lower()
    number = _ipv4(host)
    return (host, False) if number is None else (str(ipaddress.IPv4Address(number)).encode(), True)


def _ipv6(address: ipaddress.IPv6Address) -> bytes:
    mapped = address.ipv4_mapped
    if mapped is None and address in _NAT64:
        mapped = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return str(mapped).encode() if mapped is not None else f"[{address.compressed}]".encode()


def _ipv4(host: bytes) -> int | None:
    """What the host means as an IPv4 address, in any spelling that inet_aton(3) knows."""
    fields = host.split(b".")
    if len(fields) > 4:
        return None
    numbers = []
    for field in fields:
        if re.fullmatch(rb"0x[0-9a-f]*", field):
            numbers.append(int(field[2:] or b"0", 16))
        elif re.fullmatch(rb"0[0-7]*", field):
            numbers.append(int(field, 8))
        elif re.fullmatch(rb"[1-9][0-9]{0,14}", field):
            numbers.append(int(field))
        else:
            return None
    *heads, last = numbers
    if any(head > 255 for head in heads) or last >= 1 << 8 * (5 - len(fields)):
        return None
    return last + sum(head << 8 * (3 - place) for place, head in enumerate(heads))


def _resolved(path: bytes) -> bytes:
    """The path without dot segments and repeated slashes; it begins with a slash."""
    kept: list[bytes] = []
    segments = path.split(b"/")[1:]
    for segment in segments:
        if segment == b"..":
            del kept[-1:]
        elif segment not in (b"", b"."):
            kept.append(segment)
    ends = bool(kept) and bool(segments) and segments[-1] in (b"", b".", b"..")
    return b"/" + b"/".join(kept) + (b"/" if ends else b"")


def _hosts(parts: _Parts) -> list[bytes]:
    """The host, and up to four of its suffixes that have two labels at least."""
    found = [parts.host]
    if parts.is_address:
        return found
    labels = parts.host.split(b".")
    first = max(len(labels) - _MOST_HOST_PARTS, 1)
    found += [b".".join(labels[start:]) for start in range(first, len(labels) - 1)]
    return found[:_MOST_HOST_PARTS]


def _paths(parts: _Parts) -> list[bytes]:
    """The path with its query, without it, and up to four beginnings that end with a slash."""
    found = [parts.path + parts.query] if parts.query else []
    found.append(parts.path)
    folders = parts.path.split(b"/")[1:-1]
    found += [
        b"/" + b"".join(folder + b"/" for folder in folders[:count])
        for count in range(min(len(folders) + 1, _MOST_PATHS))
    ]
    return found


def _escape(data: bytes) -> bytes:
    return _ESCAPED.sub(lambda match: b"%%%02X" % match[0][0], data)
