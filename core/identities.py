"""The identity key of a URL that a browser spelled, without a browser's parser.

`core.urls.identity_key` parses any text as the WHATWG URL Standard says, by a library that playback's
environment lacks. What was captured was asked for by a browser, so it is spelled that way already, and
reading it takes no more than this. The two agree on every such URL; of texts that no browser would
have sent they may differ, and then no rule about one link finds them.
"""

import re
from urllib.parse import quote

from core.errors import BadUrlError

_PARTS = re.compile(
    r"(https?):[/\\]{2}([^/\\?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.IGNORECASE | re.ASCII | re.DOTALL
)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@]+)(?::(\d*))?", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}
# An escape that is whole: one after a stray "%" or "%4" could fuse with it when decoded.
_ESCAPE_OR_UNSAFE = re.compile(
    r"""(?<!%)(?<!%[0-9A-Fa-f])%([0-9A-Fa-f]{2})|["<>\[\\\]^`{|}]""", re.ASCII
)
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
PATH_PLAIN = _UNRESERVED | frozenset("!$&'()*+,:;=@")
QUERY_PLAIN = _UNRESERVED | frozenset("!$'()*,:@/?")
# Most URLs are their own identity key: nothing escaped, nothing that must be, nothing trivial.
PLAIN_URL = re.compile(
    r"https?://([a-z0-9.-]*[a-z0-9-])(?::\d+)?/[A-Za-z0-9._~!$&'()*+,:;=@/-]*"
    r"(?:\?[A-Za-z0-9._~!$&()*+,:;=@/?-]+)?"
)
_DOT = re.compile(r"(?:\.|%2e)", re.IGNORECASE)
_ANY_DOTS = re.compile(r"/(?:\.|%2e){1,2}(?:/|$)", re.IGNORECASE)
_ASCII = "".join(map(chr, range(0x21, 0x7F)))


def spelled_identity(url: str) -> tuple[str, str]:
    """The identity key and the host of a URL as a browser spells it.

    Raises:
        BadUrlError: it is no http(s) URL with a host.

    >>> spelled_identity("http://example.org./%7Euser/stra%c3%9fe?")
    ('http://example.org/~user/stra%C3%9Fe', 'example.org')
    """
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise _bad(url)
    scheme = parts[1].lower()
    found = _HOST.fullmatch(_lowered(parts[2].rpartition("@")[2]))
    host = found[1].removesuffix(".") if found else ""
    if found is None or not host:
        raise _bad(url)
    number = int(found[2] or _DEFAULT_PORTS[scheme])
    port = "" if number == _DEFAULT_PORTS[scheme] else f":{number}"
    path = plain(_undotted(_escaped(parts[3].replace("\\", "/") or "/")), PATH_PLAIN)
    # A browser escapes this one in queries only (WHATWG URL, special-query percent-encode set).
    query = plain(_escaped(parts[4] or "").replace("'", "%27"), QUERY_PLAIN)
    fragment = parts[5] or ""
    kept = _escaped(fragment) if fragment.startswith("#!") else ""
    return f"{scheme}://{host}{port}{path}{query}{kept}", host


def plain(component: str, kept: frozenset[str]) -> str:
    """A path or query with each character spelled the one way it has in an identity key.

    Args:
        component: escaped as a browser does.
        kept: characters that stand for themselves, escaped or not.
    """

    def spelled(match: re.Match[str]) -> str:
        if match[1] is None:
            return f"%{ord(match[0]):02X}"
        character = chr(int(match[1], 16))
        return character if character in kept else match[0].upper()

    if component == "?":
        return ""
    return _ESCAPE_OR_UNSAFE.sub(spelled, component)


def _escaped(component: str) -> str:
    """With everything escaped that is not printable ASCII."""
    return component if component.isascii() else quote(component, safe=_ASCII, errors="replace")


def _lowered(authority: str) -> str:
    """Lower case, in ASCII when it can be."""
    if not authority.isascii():
        try:
            return authority.encode("idna").decode("ascii").lower()
        except UnicodeError:
            pass
    return authority.lower()


def _undotted(path: str) -> str:
    """The path without the segments ``.`` and ``..`` (RFC 3986, 5.2.4)."""
    if not _ANY_DOTS.search(path):
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for number, segment in enumerate(segments):
        dots = _DOT.sub(".", segment)
        is_last = number == len(segments) - 1
        if dots == ".." and kept:
            kept.pop()
        if dots not in {".", ".."}:
            kept.append(segment)
        elif is_last:
            kept.append("")
    return "/" + "/".join(kept)


def _bad(url: str) -> BadUrlError:
    return BadUrlError(f"{url[:200]!r} is no URL of the web.", reason="unparsable")
