"""Patterns of link search, as MediaWiki's LinkFilter reads them (docs/link-search.md).

    test.com                  that host alone, on its scheme's own port, whatever the path
    *.test.com                that host and all below it, any port
    test.com/path             what begins so: what follows is meant, and no star says it
    127.0.*  [2001:db8:*]     all addresses that begin so; [2001:db8::*] is the last group alone
    http://test.com/path      one scheme; without, http and https are meant alike

A URL is one by its identity key: default ports, user information and fragments name nothing, and an
IDN is one host in both its spellings. A pattern is a range of the domain index (`links.locator`) and,
on each host there, a range of paths: `LinkPattern` says which, and `covers` decides the rest.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import NoReturn

from core.errors import BadUrlError, InputError
from core.hosts import canonical_host
from core.urls import MAX_URL_LENGTH, fetch_key, identity_key
from links.locator import SCHEMES, Locator, domain_index, split

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(?=//)", re.IGNORECASE | re.ASCII)
_OTHER = re.compile(r"(?:mailto|tel|sip|sips|sms|xmpp|news|urn|geo|magnet|bitcoin):", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?")
_IPV4_START = re.compile(r"(?:\d{1,4}\.){1,3}\*", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_GROUPS = 8  # of an IPv6 address
LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class LinkPattern:
    """A pattern that was understood.

    Attributes:
        text: as it was written.
        scheme: ``http`` or ``https``; empty when both are meant.
        index: the domain index, or what it begins with.
        is_tree: `index` is a beginning: the host with all below it, or a network.
        port: a number; None: any port in a tree, else the scheme's own.
        any_port: every port of the host is meant, although it is no tree.
        path: what path and query begin with; empty or ``/``: whatever they are.
    """

    text: str
    scheme: str
    index: str
    is_tree: bool
    port: int | None = None
    any_port: bool = False
    path: str = ""

    @property
    def head(self) -> str:
        """`path`; empty when it says nothing."""
        return "" if self.path == "/" else self.path

    def covers(self, url: Locator) -> bool:
        """Whether the URL is one that is meant."""
        return self.covers_host(domain_index(url.host)) and self.covers_rest(
            url.scheme, url.port, url.path
        )

    def covers_host(self, index: str) -> bool:
        """Whether the host of that domain index is one that is meant."""
        return index.startswith(self.index) if self.is_tree else index == self.index

    def covers_rest(self, scheme: str, port: int, path: str) -> bool:
        """Whether a URL on such a host is one that is meant; port 0 is the scheme's own."""
        if self.scheme and scheme != self.scheme:
            return False
        if not path.startswith(self.head):
            return False
        if self.port is None:
            return self.is_tree or self.any_port or port == 0
        return (port or _DEFAULT_PORTS[scheme]) == self.port

    def meets(self, other: "LinkPattern") -> bool:
        """Whether there may be a URL that both mean."""
        if self.scheme and other.scheme and self.scheme != other.scheme:
            return False
        if not (self.head.startswith(other.head) or other.head.startswith(self.head)):
            return False
        if not (_contains(self, other) or _contains(other, self)):
            return False
        return any(
            _ports_meet(self, other, scheme)
            for scheme in SCHEMES
            if scheme == (self.scheme or scheme) == (other.scheme or scheme)
        )


def parse_link_pattern(text: str) -> LinkPattern:
    """What a search for that text means; see the module.

    Raises:
        InputError: it means nothing; the text says why, and what to write instead.

    >>> parse_link_pattern("*.Test.com/x").index, parse_link_pattern("127.0.*").index
    ('com.test.', 'V4.127.0.')
    """
    text = text.strip()
    scheme, rest = _without_scheme(text)
    if rest[:1] == "*" and rest[1:2] not in ("", ".", "/", ":", "@", "?", "#"):
        _refuse(text, f"a star for all subdomains is followed by a dot: write *.{rest[1:]}")
    end = re.search(r"[/?#\\]", rest)
    place = len(rest) if end is None else end.start()
    authority, tail = rest[:place].rpartition("@")[2], rest[place:]
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        _refuse(text, "what stands before the path is no host, nor a host with a port")
    host, port = found[1], None if found[2] is None else int(found[2])
    if port is not None and not 0 < port < 65_536:
        _refuse(text, "a port is a number from 1 to 65535")
    index, is_tree = _host(text, host)
    return LinkPattern(text, scheme, index, is_tree, port, path=_path(text, tail))


def ending(beginning: str) -> str:
    """What comes after every text that begins so, in the order of code points.

    >>> ending("org."), ending("a") > "a/zz"
    ('org/', True)
    """
    last = ord(beginning[-1])
    return LAST_CHARACTER if last >= 0xD7FF else beginning[:-1] + chr(last + 1)


def _without_scheme(text: str) -> tuple[str, str]:
    if not text:
        _refuse(text, "it is empty: write a host, such as example.org or *.example.org")
    if len(text) > MAX_URL_LENGTH:
        _refuse(text, f"it is longer than {MAX_URL_LENGTH} characters")
    named = _SCHEME.match(text)
    if named is not None:
        scheme = named[1].lower()
        if scheme not in SCHEMES:
            _refuse(text, f"the registry knows http and https, and no {scheme}")
        return scheme, text[named.end() + 2 :]
    if _OTHER.match(text):
        _refuse(text, "the registry knows http and https only")
    user, at, _ = re.split(r"[/?#]", text, maxsplit=1)[0].rpartition("@")
    if at and ":" not in user:
        _refuse(text, "it looks like a mail address; the registry knows http and https only")
    return "", text.removeprefix("//")


def _host(text: str, host: str) -> tuple[str, bool]:
    """The domain index, or its beginning, and whether it is one."""
    if host in ("", "*", "*."):
        _refuse(text, "it must name a host: every link there is would be no search")
    if host.startswith("["):
        return _ipv6(text, host)
    if _IPV4_START.fullmatch(host):
        numbers = [int(number) for number in host.split(".")[:-1]]
        if max(numbers) > 255:
            _refuse(text, "the numbers of an IPv4 address go to 255")
        return f"V4.{'.'.join(map(str, numbers))}.", True
    is_tree = host.startswith("*.")
    bare = host.removeprefix("*.") if is_tree else host
    if "*" in bare:
        remedy = "only at the beginning (*.example.org), or at the end of an address (127.0.*)"
        _refuse(text, f"in a host a star stands {remedy}")
    index = domain_index(_canonical(text, bare))
    if is_tree and index.startswith(("V4.", "V6.")):
        _refuse(text, "an address has no subdomains: write 192.0.2.* for all that begin so")
    return index, is_tree


def _ipv6(text: str, host: str) -> tuple[str, bool]:
    inner = host[1:-1]
    if "*" not in inner:
        return domain_index(_canonical(text, host)), False
    known = inner.removesuffix(":*")
    if known == inner or "*" in known:
        _refuse(text, "in an IPv6 address a star stands for whole groups at the end: [2001:db8:*]")
    if "::" in known or known in ("", ":") or known.endswith(":"):
        # As one group after what the colons fill up: all but the last is known.
        whole, groups = f"{known}:0", _GROUPS - 1
    else:
        groups = known.count(":") + 1
        whole = f"{known}::" if groups < _GROUPS - 1 else f"{known}:0"
    try:
        address = ipaddress.IPv6Address(whole)
    except ValueError:
        _refuse(text, "what stands before the star is no beginning of an IPv6 address")
    index = domain_index(f"[{address}]")
    return ".".join(index.split(".")[: groups + 1]) + ".", True


def _canonical(text: str, host: str) -> str:
    try:
        # As the URLs that it is compared with: what no link can have finds none.
        fetch_key(f"http://{host}/", allow_single_label=True)
        return canonical_host(host)
    except BadUrlError as error:
        said = str(error).removesuffix(".").rpartition(": ")[2]
        _refuse(text, f"{host[:80]!r} is no host ({said})")


def _path(text: str, tail: str) -> str:
    tail = tail.replace("\\", "/")
    if "*" in tail.partition("#")[0]:
        remedy = "leave it out, for what follows is meant anyway; a star that is one is %2A"
        _refuse(text, f"paths and queries are known by how they begin, so no star helps: {remedy}")
    if not tail:
        return ""
    try:
        path = split(identity_key(fetch_key(f"http://pattern.test{tail}"))).path
    except BadUrlError as error:
        _refuse(text, str(error).removesuffix(".").rpartition(": ")[2])
    return f"{path}?" if tail.endswith("?") and "?" not in path else path


def _contains(outer: LinkPattern, inner: LinkPattern) -> bool:
    """Whether every host of one is a host of the other."""
    if outer.is_tree:
        return inner.index.startswith(outer.index)
    return not inner.is_tree and inner.index == outer.index


def _ports_meet(one: LinkPattern, other: LinkPattern, scheme: str) -> bool:
    ports = []
    for pattern in (one, other):
        is_any = pattern.port is None and (pattern.is_tree or pattern.any_port)
        ports.append(None if is_any else pattern.port or _DEFAULT_PORTS[scheme])
    return None in ports or ports[0] == ports[1]


def _refuse(text: str, why: str) -> NoReturn:
    shown = text if len(text) <= 200 else text[:200] + "…"
    raise InputError(f"{shown!r} cannot be searched for: {why}.")
