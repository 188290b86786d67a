"""The ranges of link search: the hosts that a pattern means, and on each the paths.

Links come in the order of the domain index and of how their paths begin, in parts of bounded size.
Each question is answered from an index, however many links a host has, or hosts a domain.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import literal_column, or_, select

from links.link_patterns import LAST_CHARACTER, LinkPattern, ending
from links.store.schema import PATH_HEAD, PATH_HEAD_CHARS, hosts, urls
from links.store.statements import MOST, Reader, Statement, many, one

HOSTS_AT_ONCE = 200
LINKS_AT_ONCE = 2_000  # of several hosts


class Place(NamedTuple):
    """Behind which link to go on."""

    order: str = ""
    host_id: int = 0
    head: str = ""
    url_id: int = 0


class Part(NamedTuple):
    """The next links, and the hosts that were looked at for them."""

    links: list[tuple["Host", "LinkRow"]]
    hosts: list["Host"]
    is_whole: bool  # these hosts have no more


class Host(NamedTuple):
    """A host that is meant."""

    id: int
    name: str
    order: str  # its domain index


class LinkRow(NamedTuple):
    """A link as it is read."""

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
EXACT_HOSTS = Statement(_HOST.where(hosts.c.domain_index == one("index")).order_by(hosts.c.id))
TREE_HOSTS = Statement(
    _HOST.where(
        hosts.c.domain_index >= one("low"),
        hosts.c.domain_index < one("high"),
        or_(hosts.c.domain_index > one("order"), hosts.c.id >= one("host")),
    )
    .order_by(hosts.c.domain_index, hosts.c.id)
    .limit(one("most"))
)
RANGE_ON_HOSTS = Statement(
    _LINK.where(urls.c.host_id.in_(many("hosts")), _head >= one("low"), _head < one("high")).limit(
        one("most")
    ),
    "hosts",
)
ALIKE_ON_HOSTS = Statement(
    _LINK.where(urls.c.host_id.in_(many("hosts")), _head == one("head")).limit(one("most")),
    "hosts",
)
ALIKE = Statement(
    _LINK.where(urls.c.host_id == one("host"), _head == one("head"), urls.c.id > one("url"))
    .order_by(urls.c.id)
    .limit(one("most"))
)
LATER = Statement(
    _LINK.where(urls.c.host_id == one("host"), _head > one("head"), _head < one("high"))
    .order_by(_head, urls.c.id)
    .limit(one("most"))
)


def candidates(rows: Reader, pattern: LinkPattern, place: Place, size: int) -> Iterator[Part]:
    """Links within the ranges, in order and in parts, from behind the place on."""
    waiting: list[Host] = []
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


def _hosts(rows: Reader, pattern: LinkPattern, place: Place) -> Iterator[Host]:
    """The hosts that are meant, in order, from the place's own on."""
    order, host_id = place.order, place.host_id
    if not pattern.is_tree:
        found = [Host(*row) for row in EXACT_HOSTS.rows(rows, {"index": pattern.index})]
        yield from (host for host in found if (host.order, host.id) >= (order, host_id))
        return
    asked = {"high": ending(pattern.index), "most": HOSTS_AT_ONCE}
    while True:
        where = {"low": max(order, pattern.index), "order": order, "host": host_id}
        found = [Host(*row) for row in TREE_HOSTS.rows(rows, {**asked, **where})]
        yield from found
        if len(found) < HOSTS_AT_ONCE:
            return
        order, host_id = found[-1].order, found[-1].id + 1


def _on_hosts(rows: Reader, pattern: LinkPattern, on: list[Host], size: int) -> Iterator[Part]:
    """The links of these hosts within the pattern's range of paths, in order and in parts.

    Most hosts have few links: they are read together, and only when there are too many one by one.
    """
    if len(on) == 1:
        yield from _on_host(rows, pattern, on[0], ("", 0), size)
        return
    known = pattern.head[:PATH_HEAD_CHARS]
    asked: dict[str, Any] = {"hosts": [host.id for host in on], "most": LINKS_AT_ONCE}
    if len(known) == PATH_HEAD_CHARS:
        found = ALIKE_ON_HOSTS.rows(rows, {**asked, "head": known})
    else:
        high = ending(known) if known else LAST_CHARACTER
        found = RANGE_ON_HOSTS.rows(rows, {**asked, "low": known, "high": high})
    if len(found) == LINKS_AT_ONCE:
        for host in on:
            yield from _on_host(rows, pattern, host, ("", 0), size)
        return
    by_host: dict[int, list[LinkRow]] = {}
    for row in map(LinkRow._make, found):
        by_host.setdefault(row.host_id, []).append(row)
    links = [
        (host, row)
        for host in on
        for row in sorted(by_host.get(host.id, ()), key=lambda row: (row.head, row.id))
    ]
    yield Part(links, on, is_whole=True)


def _on_host(
    rows: Reader, pattern: LinkPattern, host: Host, behind: tuple[str, int], size: int
) -> Iterator[Part]:
    """The links of a host within the pattern's range of paths, behind one, in order and in parts.

    Behind a link there are those whose paths begin alike, and those that come later. As one question
    that would begin anew at the first that begins alike, each time.
    """
    known = pattern.head[:PATH_HEAD_CHARS]
    is_long = len(known) == PATH_HEAD_CHARS
    high = ending(known) if known else LAST_CHARACTER
    head, url_id = max(behind, (known, 0))
    is_whole = False
    while not is_whole:
        asked = {"host": host.id, "head": head, "most": size}
        found = ALIKE.rows(rows, {**asked, "url": url_id}) if head.startswith(known) else []
        if len(found) < size and not is_long:
            asked["most"] = size - len(found)
            found += LATER.rows(rows, {**asked, "high": high})
        is_whole = len(found) < size
        links = [(host, LinkRow._make(row)) for row in found]
        if links:
            head, url_id = links[-1][1].head, links[-1][1].id
        yield Part(links, [host], is_whole=is_whole)
