"""URL patterns of link search (LinkFilter of MediaWiki), and their ranges in the registry.

docs/how-to/link-search.md shows the forms. URLs are compared by identity key; an IDN is one host in both spellings. A
pattern is a range of the domain index (`links.url_parts`) and, on each host there, a range of paths, in that order;
`covers` checks the rest. Each query uses an index and returns parts of bounded size.
"""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import literal_column, or_, select

from core.errors import BadUrlError, InputError
from core.hosts import canonical_host
from core.storable_text import shorten_for_message
from core.urls import MAX_URL_LENGTH, fetch_key, identity_key
from links.registry.schema import PATH_HEAD, PATH_HEAD_CHARS, hosts, urls
from links.registry.statements import MOST, Reader, SqlStatement, many, one
from links.url_parts import DEFAULT_PORTS, SCHEMES, UrlParts, domain_index, split_identity

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(?=//)", re.IGNORECASE | re.ASCII)
_OTHER = re.compile(r"(?:mailto|tel|sip|sips|sms|xmpp|news|urn|geo|magnet|bitcoin):", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?")
_IPV4_START = re.compile(r"(?:\d{1,4}\.){1,3}\*", re.ASCII)
_GROUPS = 8  # of an IPv6 address
LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class LinkPattern:
    """Parsed pattern."""

    text: str  # as written
    scheme: str  # ``http`` or ``https``; empty for both
    index: str  # the domain index, or its prefix
    is_tree: bool  # `index` is a prefix: the host with its subdomains, or a network
    port: int | None = None  # a number; None: any port in a tree, else the scheme's own
    any_port: bool = False  # every port of the host, although it is not a tree
    path: str = ""  # prefix of path and query; empty or ``/``: any

    @property
    def head(self) -> str:
        """Return `path`; empty when it matches all paths."""
        return "" if self.path == "/" else self.path

    def covers(self, url: UrlParts) -> bool:
        """Return True when the URL matches."""
        return self.covers_host(domain_index(url.host)) and self.covers_rest(url.scheme, url.port, url.path)

    def covers_host(self, index: str) -> bool:
        """Return True when the host of that domain index matches."""
        return index.startswith(self.index) if self.is_tree else index == self.index

    def covers_rest(self, scheme: str, port: int, path: str) -> bool:
        """Return True when a URL on a matching host matches; port 0 is the scheme's own."""
        if self.scheme and scheme != self.scheme:
            return False
        if not path.startswith(self.head):
            return False
        if self.port is None:
            return self.is_tree or self.any_port or port == 0
        return (port or DEFAULT_PORTS[scheme]) == self.port

    def meets(self, other: "LinkPattern") -> bool:
        """Return True when a URL may match both patterns."""
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
    """Parse a pattern; InputError states the fault, and suggests a correction.

    >>> parse_link_pattern("*.Test.com/x").index, parse_link_pattern("127.0.*").index
    ('com.test.', 'V4.127.0.')
    """
    text = text.strip()
    scheme, rest = _without_scheme(text)
    if rest[:1] == "*" and rest[1:2] not in ("", ".", "/", ":", "@", "?", "#"):
        _refuse(text, f"a star for all subdomains must be followed by a dot: write *.{rest[1:]}")
    end = re.search(r"[/?#\\]", rest)
    place = len(rest) if end is None else end.start()
    authority, tail = rest[:place].rpartition("@")[2], rest[place:]
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        _refuse(text, "the part before the path is neither a host nor a host with a port")
    host, port = match[1], None if match[2] is None else int(match[2])
    if port is not None and not 0 < port < 65_536:
        _refuse(text, "a port is a number from 1 to 65535")
    index, is_tree = _host(text, host)
    tail = tail.replace("\\", "/")
    if "*" in tail.partition("#")[0]:
        remedy = "omit it, since any continuation matches; write a literal star as %2A"
        _refuse(text, f"paths and queries are matched by their beginning, so a star does not help: {remedy}")
    path = ""
    if tail:
        try:
            path = split_identity(identity_key(fetch_key(f"http://pattern.test{tail}"))).path
        except BadUrlError as error:
            _refuse(text, str(error).removesuffix(".").rpartition(": ")[2])
        path += "?" if tail.endswith("?") and "?" not in path else ""
    return LinkPattern(text, scheme, index, is_tree, port, path=path)


def ending(beginning: str) -> str:
    """Return the upper bound of all texts with that prefix, in the order of code points.

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
            _refuse(text, f"the registry has http and https only, not {scheme}")
        return scheme, text[named.end() + 2 :]
    if _OTHER.match(text):
        _refuse(text, "the registry has http and https only")
    user, at, _ = re.split(r"[/?#]", text, maxsplit=1)[0].rpartition("@")
    if at and ":" not in user:
        _refuse(text, "it looks like a mail address; the registry has http and https only")
    return "", text.removeprefix("//")


def _host(text: str, host: str) -> tuple[str, bool]:
    """Return the domain index or its prefix, and True when it is a prefix."""
    if host in ("", "*", "*."):
        _refuse(text, "it must name a host")
    if host.startswith("["):
        return _ipv6(text, host)
    if _IPV4_START.fullmatch(host):
        numbers = [int(number) for number in host.split(".")[:-1]]
        if max(numbers) > 255:
            _refuse(text, "the numbers of an IPv4 address are 0 to 255")
        return f"V4.{'.'.join(map(str, numbers))}.", True
    is_tree = host.startswith("*.")
    bare = host.removeprefix("*.") if is_tree else host
    if "*" in bare:
        remedy = "only at the beginning (*.example.org), or at the end of an address (127.0.*)"
        _refuse(text, f"in a host a star is allowed {remedy}")
    index = domain_index(_canonical(text, bare))
    if is_tree and index.startswith(("V4.", "V6.")):
        _refuse(text, "an address has no subdomains: write 192.0.2.* for a range")
    return index, is_tree


def _ipv6(text: str, host: str) -> tuple[str, bool]:
    inner = host[1:-1]
    if "*" not in inner:
        return domain_index(_canonical(text, host)), False
    known = inner.removesuffix(":*")
    if known == inner or "*" in known or "%" in known:  # a zone (RFC 4007) is no part of a URL's host
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
        _refuse(text, "the part before the star is not the beginning of an IPv6 address")
    index = domain_index(f"[{address}]")
    return ".".join(index.split(".")[: groups + 1]) + ".", True


def _canonical(text: str, host: str) -> str:
    try:
        # Normalised as the URLs that it is compared with.
        fetch_key(f"http://{host}/", allow_single_label=True)
        return canonical_host(host)
    except BadUrlError as error:
        reason = str(error).removesuffix(".").rpartition(": ")[2]
        _refuse(text, f"{host[:80]!r} is not a host ({reason})")


def _contains(outer: LinkPattern, inner: LinkPattern) -> bool:
    """Return True when every host of `inner` is a host of `outer`."""
    return inner.index.startswith(outer.index) if outer.is_tree else not inner.is_tree and inner.index == outer.index


def _ports_meet(one: LinkPattern, other: LinkPattern, scheme: str) -> bool:
    ports = []
    for pattern in (one, other):
        is_any = pattern.port is None and (pattern.is_tree or pattern.any_port)
        ports.append(None if is_any else pattern.port or DEFAULT_PORTS[scheme])
    return None in ports or ports[0] == ports[1]


def _refuse(text: str, why: str) -> NoReturn:
    raise InputError(f"{shorten_for_message(text)!r} cannot be searched for: {why}.")


HOSTS_AT_ONCE = 200
LINKS_AT_ONCE = 2_000  # of several hosts


class SearchPosition(NamedTuple):
    """Position of a link after which a search continues."""

    order: str = ""
    host_id: int = 0
    head: str = ""
    url_id: int = 0


class SearchSlice(NamedTuple):
    """Next links, and the hosts examined for them."""

    links: list[tuple["SearchHost", "SearchRow"]]
    hosts: list["SearchHost"]
    is_whole: bool  # these hosts have no more


class SearchHost(NamedTuple):
    """Host that matches the pattern."""

    id: int
    name: str
    order: str  # its domain index


class SearchRow(NamedTuple):
    """Row of a link in a search."""

    id: int
    host_id: int
    head: str
    scheme: int
    port: int
    path: str
    state: int
    code: int
    checked_day: int | None


_head: Any = literal_column(PATH_HEAD)
_HOST = select(hosts.c.id, hosts.c.name, hosts.c.domain_index)
_LINK = select(
    *(urls.c.id, urls.c.host_id, _head.label("head"), urls.c.scheme, urls.c.port, urls.c.path),
    *(urls.c.state, urls.c.code, urls.c.checked_day),
)
EXACT_HOSTS = SqlStatement(_HOST.where(hosts.c.domain_index == one("index")).order_by(hosts.c.id))
TREE_HOSTS = SqlStatement(
    _HOST.where(
        hosts.c.domain_index >= one("low"),
        hosts.c.domain_index < one("high"),
        or_(hosts.c.domain_index > one("order"), hosts.c.id >= one("host")),
    )
    .order_by(hosts.c.domain_index, hosts.c.id)
    .limit(one("most"))
)
RANGE_ON_HOSTS = SqlStatement(
    _LINK.where(urls.c.host_id.in_(many("hosts")), _head >= one("low"), _head < one("high")).limit(one("most")), "hosts"
)
ALIKE_ON_HOSTS = SqlStatement(
    _LINK.where(urls.c.host_id.in_(many("hosts")), _head == one("head")).limit(one("most")), "hosts"
)
ALIKE = SqlStatement(
    _LINK.where(urls.c.host_id == one("host"), _head == one("head"), urls.c.id > one("url"))
    .order_by(urls.c.id)
    .limit(one("most"))
)
LATER = SqlStatement(
    _LINK.where(urls.c.host_id == one("host"), _head > one("head"), _head < one("high"))
    .order_by(_head, urls.c.id)
    .limit(one("most"))
)


def candidates(rows: Reader, pattern: LinkPattern, place: SearchPosition, size: int) -> Iterator[SearchSlice]:
    """Yield the links within the ranges, in order and in parts, after the position."""
    waiting: list[SearchHost] = []
    width = 1
    for host in _hosts(rows, pattern, place):
        if host.id == place.host_id:
            yield from _on_host(rows, pattern, host, (place.head, place.url_id), size)
            continue
        waiting.append(host)
        if len(waiting) == width:
            yield from _on_hosts(rows, pattern, waiting, size)
            waiting, width = [], min(4 * width, MOST)
    if waiting:
        yield from _on_hosts(rows, pattern, waiting, size)


def _hosts(rows: Reader, pattern: LinkPattern, place: SearchPosition) -> Iterator[SearchHost]:
    """Yield the matching hosts, in order, from the position's own host."""
    order, host_id = place.order, place.host_id
    if not pattern.is_tree:
        matches = [SearchHost(*row) for row in EXACT_HOSTS.rows(rows, {"index": pattern.index})]
        yield from (host for host in matches if (host.order, host.id) >= (order, host_id))
        return
    parameters = {"high": ending(pattern.index), "most": HOSTS_AT_ONCE}
    while True:
        where = {"low": max(order, pattern.index), "order": order, "host": host_id}
        matches = [SearchHost(*row) for row in TREE_HOSTS.rows(rows, {**parameters, **where})]
        yield from matches
        if len(matches) < HOSTS_AT_ONCE:
            return
        order, host_id = matches[-1].order, matches[-1].id + 1


def _on_hosts(rows: Reader, pattern: LinkPattern, on: list[SearchHost], size: int) -> Iterator[SearchSlice]:
    """Yield the links of these hosts within the range of paths; most hosts have few, read together."""
    if len(on) == 1:
        yield from _on_host(rows, pattern, on[0], ("", 0), size)
        return
    known = pattern.head[:PATH_HEAD_CHARS]
    parameters: dict[str, Any] = {"hosts": [host.id for host in on], "most": LINKS_AT_ONCE}
    if len(known) == PATH_HEAD_CHARS:
        link_rows = ALIKE_ON_HOSTS.rows(rows, {**parameters, "head": known})
    else:
        high = ending(known) if known else LAST_CHARACTER
        link_rows = RANGE_ON_HOSTS.rows(rows, {**parameters, "low": known, "high": high})
    if len(link_rows) == LINKS_AT_ONCE:
        for host in on:
            yield from _on_host(rows, pattern, host, ("", 0), size)
        return
    by_host: dict[int, list[SearchRow]] = {}
    for row in map(SearchRow._make, link_rows):
        by_host.setdefault(row.host_id, []).append(row)
    links = [(host, row) for host in on for row in sorted(by_host.get(host.id, ()), key=lambda row: (row.head, row.id))]
    yield SearchSlice(links, on, is_whole=True)


def _on_host(
    rows: Reader, pattern: LinkPattern, host: SearchHost, behind: tuple[str, int], size: int
) -> Iterator[SearchSlice]:
    """Yield the links of a host within the range of paths, after a link, in order and in parts."""
    known = pattern.head[:PATH_HEAD_CHARS]
    is_long = len(known) == PATH_HEAD_CHARS
    high = ending(known) if known else LAST_CHARACTER
    head, url_id = max(behind, (known, 0))
    is_whole = False
    while not is_whole:
        parameters = {"host": host.id, "head": head, "most": size}
        link_rows = ALIKE.rows(rows, {**parameters, "url": url_id}) if head.startswith(known) else []
        if len(link_rows) < size and not is_long:
            parameters["most"] = size - len(link_rows)
            link_rows += LATER.rows(rows, {**parameters, "high": high})
        is_whole = len(link_rows) < size
        links = [(host, SearchRow._make(row)) for row in link_rows]
        if links:
            head, url_id = links[-1][1].head, links[-1][1].id
        yield SearchSlice(links, [host], is_whole=is_whole)
