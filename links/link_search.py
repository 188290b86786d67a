"""Link search: which URLs of the registry a pattern means, and the pages that have them.

    with store.reading() as rows:
        found = search_links(rows, parse_link_pattern("*.example.org/a"), Wanted(wiki_id=3))

Links come in the order of the domain index and their paths. A pattern is one range of hosts and, on
each host, one range of paths, so that an index leads to every link that is looked at. What indexes
cannot decide (scheme, port, state, wiki) is decided link by link; one call looks at `SCAN_LIMIT` links
at most and may end with fewer than were asked for. `Found.after` goes on where it ended, whatever
came and went in between.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Row,
    Select,
    and_,
    exists,
    literal_column,
    or_,
    select,
    union_all,
)

from core.errors import InputError
from links.link_patterns import LAST_CHARACTER, LinkPattern, ending
from links.locator import SCHEMES, Locator
from links.states import State
from links.store.schema import PATH_HEAD, PATH_HEAD_CHARS, farms, hosts, pages, refs, urls, wikis

LIMIT = 500  # links of one answer at most
SCAN_LIMIT = 20_000  # links and hosts that one call looks at
PAGES_SHOWN = 10  # of each link
_HOSTS_AT_ONCE = 200
_RANGES_AT_ONCE = 64  # SQLite joins 500 questions at most
_CURSOR_CHARS = 4_000
_ID_LIMIT = 1 << 62
_head: Any = literal_column(PATH_HEAD)


class StateClass(StrEnum):
    """Links by what a reader finds there (W04)."""

    WORKING = "working"
    UNREACHABLE = "unreachable"
    DOUBTFUL = "doubtful"
    UNKNOWN = "unknown"


STATES = {
    StateClass.WORKING: frozenset({State.ALIVE, State.PERMALIVE}),
    StateClass.UNREACHABLE: frozenset({State.DEAD, State.PERMADEAD}),
    StateClass.DOUBTFUL: frozenset({State.DYING, State.BLOCKED, State.USURPED, State.DEVIATED}),
    StateClass.UNKNOWN: frozenset({State.UNKNOWN, State.INVALID, State.EXCLUDED}),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of the links that a pattern means.

    Attributes:
        wiki_id: those on pages of that wiki; None: of any.
        namespaces: those on pages in one of these; empty: in any.
        states: those in one of these states; empty: in any.
    """

    wiki_id: int | None = None
    namespaces: tuple[int, ...] = ()
    states: frozenset[State] = frozenset()

    @property
    def names_pages(self) -> bool:
        """Whether it says anything about pages."""
        return self.wiki_id is not None or bool(self.namespaces)


@dataclass(frozen=True, slots=True)
class CitingPage:
    """A page that has a link.

    Attributes:
        wiki: ``dbname@farm``.
        page_id: the wiki's own number of it.
        namespace: the wiki's own number of its namespace.
        title: as the wiki writes it.
    """

    wiki: str
    page_id: int
    namespace: int
    title: str


@dataclass(frozen=True, slots=True)
class FoundLink:
    """A link that a search found.

    Attributes:
        url_id: its number in the registry.
        url: its identity key.
        state: what is known of it.
        code: its status byte.
        checked_day: when it was last looked at; None: never.
        pages: some of the pages that have it, of those that are wanted.
        more_pages: whether there are others.
    """

    url_id: int
    url: str
    state: State
    code: int
    checked_day: int | None
    pages: tuple[CitingPage, ...] = ()
    more_pages: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What one call found.

    Attributes:
        links: in the order of domain index and path.
        after: where to go on; empty when that was all.
        looked_at: how many links and hosts were looked at.
    """

    links: tuple[FoundLink, ...]
    after: str
    looked_at: int


class _Place(NamedTuple):
    """Behind which link to go on."""

    order: str = ""
    host_id: int = 0
    head: str = ""
    url_id: int = 0


class _Part(NamedTuple):
    """The next links, and the hosts that were looked at for them."""

    links: list[tuple["_Host", Row[Any]]]
    hosts: list["_Host"]
    is_whole: bool  # these hosts have no more


class _Host(NamedTuple):
    id: int
    name: str
    order: str  # its domain index


def search_links(
    rows: Connection,
    pattern: LinkPattern,
    wanted: Wanted | None = None,
    *,
    limit: int = 100,
    after: str = "",
) -> Found:
    """The next links that the pattern means, with some of the pages that have them.

    Raises:
        InputError: `after` is no place that an earlier answer told.
    """
    wanted = wanted or Wanted()
    limit = min(max(limit, 1), LIMIT)
    place = _place_of(after)
    found: list[tuple[_Host, Row[Any]]] = []
    looked_at, is_over = 0, True
    size = LIMIT if wanted != Wanted() or pattern.scheme else limit + 1
    for part in _candidates(rows, pattern, place, size):
        good = _wanted_of(rows, pattern, wanted, part.links)
        for candidate in part.links:
            is_over = len(found) < limit or candidate[1].id not in good
            if not is_over:
                break
            if candidate[1].id in good:
                found.append(candidate)
            place = _place_at(candidate)
        looked_at += len(part.links) + len(part.hosts)
        if is_over and part.is_whole:
            place = _Place(part.hosts[-1].order, part.hosts[-1].id, LAST_CHARACTER, 1)
        is_over = is_over and looked_at < SCAN_LIMIT
        if not is_over:
            break
    citing = _citing(rows, wanted, [row.id for _, row in found])
    links = tuple(_link(host, row, citing.get(row.id, [])) for host, row in found)
    return Found(links, "" if is_over else _cursor(place), looked_at)


def _candidates(
    rows: Connection, pattern: LinkPattern, place: _Place, size: int
) -> Iterator[_Part]:
    """Links within the ranges, in order and in parts, from behind the place on."""
    waiting: list[_Host] = []
    width = 1
    for host in _hosts(rows, pattern, place):
        waiting.append(host)
        if len(waiting) < width:
            continue
        yield from _on_hosts(rows, pattern, place, waiting, size)
        waiting, width = [], min(2 * width, _RANGES_AT_ONCE)
    if waiting:
        yield from _on_hosts(rows, pattern, place, waiting, size)


def _hosts(rows: Connection, pattern: LinkPattern, place: _Place) -> Iterator[_Host]:
    """The hosts that are meant, in order, from the place's own on."""
    index, host_id = place.order, place.host_id
    first = True
    while True:
        found = [
            _Host(row.id, row.name, row.domain_index)
            for row in rows.execute(host_question(pattern, index, host_id, is_first=first))
        ]
        yield from found
        if len(found) < _HOSTS_AT_ONCE:
            return
        index, host_id, first = found[-1].order, found[-1].id, False


def host_question(
    pattern: LinkPattern, index: str, host_id: int, *, is_first: bool
) -> Select[tuple[int, str, str]]:
    """The next hosts that are meant: from that one on, or behind it."""
    column = hosts.c.domain_index
    meant = column == pattern.index
    if pattern.is_tree:
        meant = and_(column >= pattern.index, column < ending(pattern.index))
    question = select(hosts.c.id, hosts.c.name, column).where(meant)
    if index or host_id:
        rest = hosts.c.id >= host_id if is_first else hosts.c.id > host_id
        # The first condition says nothing new; it lets the index begin there.
        question = question.where(column >= index, or_(column > index, rest))
    return question.order_by(column, hosts.c.id).limit(_HOSTS_AT_ONCE)


def _on_hosts(
    rows: Connection, pattern: LinkPattern, place: _Place, on: Sequence[_Host], size: int
) -> Iterator[_Part]:
    """The links of these hosts within the pattern's range of paths, in order and in parts."""
    behind: dict[int, tuple[str, int]] = {place.host_id: (place.head, place.url_id)}
    left = list(on)
    while left:
        questions = [
            question
            for host in left
            for question in link_questions(pattern, host.id, behind.get(host.id), size)
        ]
        by_host: dict[int, list[Row[Any]]] = {}
        for row in rows.execute(_together(questions)) if questions else ():
            by_host.setdefault(row.host_id, []).append(row)
        part: list[tuple[_Host, Row[Any]]] = []
        following: list[_Host] = []
        for number, host in enumerate(left):
            of_host = sorted(by_host.get(host.id, ()), key=lambda row: (row.head, row.id))[:size]
            part += [(host, row) for row in of_host]
            if len(of_host) == size:  # there may be more, which come before the next host's
                behind[host.id] = (of_host[-1].head, of_host[-1].id)
                following = left[number:]
                break
        yield _Part(part, left, is_whole=not following)
        left = following


def link_questions(
    pattern: LinkPattern, host_id: int, behind: tuple[str, int] | None, size: int
) -> list[Select[Any]]:
    """The next links of a host whose paths begin as the pattern's: what is asked for them.

    Behind a link there are those whose paths begin alike, and those that come later. As one question
    that would begin anew at the first that begins alike, each time.
    """
    known = pattern.head[:PATH_HEAD_CHARS]
    is_long = len(known) == PATH_HEAD_CHARS
    question = select(
        urls.c.id,
        urls.c.host_id,
        _head.label("head"),
        *(urls.c[name] for name in ("scheme", "port", "path", "state", "code", "checked_day")),
    ).where(urls.c.host_id == host_id)
    found = []
    head, url_id = behind or ("", 0)
    if head and head.startswith(known):
        alike = question.where(_head == head, urls.c.id > url_id)
        found.append(alike.order_by(urls.c.id).limit(size))
    if is_long and not head:
        found.append(question.where(_head == known).order_by(urls.c.id).limit(size))
    elif not is_long:
        if known:
            question = question.where(_head < ending(known))
        later = question.where(_head > head) if head else question.where(_head >= known)
        found.append(later.order_by(_head, urls.c.id).limit(size))
    return found


def _together(questions: list[Select[Any]]) -> Any:
    if len(questions) == 1:
        return questions[0]
    return union_all(*(select(question.subquery()) for question in questions))


def _wanted_of(
    rows: Connection,
    pattern: LinkPattern,
    wanted: Wanted,
    part: Sequence[tuple[_Host, Row[Any]]],
) -> set[int]:
    """The numbers of those that are wanted."""
    good = [
        row.id
        for _, row in part
        if (not wanted.states or row.state in wanted.states)
        and pattern.covers_rest(SCHEMES[row.scheme], row.port, row.path)
    ]
    if not wanted.names_pages:
        return set(good)
    found: set[int] = set()
    for start in range(0, len(good), LIMIT):
        question = page_question(wanted, good[start : start + LIMIT])
        found.update(row.id for row in rows.execute(question))
    return found


def page_question(wanted: Wanted, url_ids: Sequence[int]) -> Select[tuple[int]]:
    """Which of the links are on a page that is wanted."""
    on_page = exists().where(refs.c.url_id == urls.c.id, *_conditions(wanted))
    return select(urls.c.id).where(urls.c.id.in_(url_ids), on_page)


def _conditions(wanted: Wanted) -> list[Any]:
    found: list[Any] = [refs.c.gone_day.is_(None), pages.c.id == refs.c.page]
    if wanted.wiki_id is not None:
        found.append(pages.c.wiki_id == wanted.wiki_id)
    if wanted.namespaces:
        found.append(pages.c.namespace.in_(wanted.namespaces))
    return found


def _citing(
    rows: Connection, wanted: Wanted, url_ids: Sequence[int]
) -> dict[int, list[CitingPage]]:
    """Some pages of each link: one more than are shown, when there are more."""
    found: dict[int, list[CitingPage]] = {}
    for start in range(0, len(url_ids), _RANGES_AT_ONCE):
        part = url_ids[start : start + _RANGES_AT_ONCE]
        for row in rows.execute(_together([_pages_of(wanted, each) for each in part])):
            page = CitingPage(f"{row.dbname}@{row.farm}", row.page_id, row.namespace, row.title)
            found.setdefault(row.url_id, []).append(page)
    return found


def _pages_of(wanted: Wanted, url_id: int) -> Select[Any]:
    return (
        select(
            refs.c.url_id,
            pages.c.page_id,
            pages.c.namespace,
            pages.c.title,
            wikis.c.dbname,
            farms.c.name.label("farm"),
        )
        .where(
            refs.c.url_id == url_id,
            *_conditions(wanted),
            wikis.c.id == pages.c.wiki_id,
            farms.c.id == wikis.c.farm_id,
        )
        .order_by(refs.c.page)
        .limit(PAGES_SHOWN + 1)
    )


def _link(host: _Host, row: Row[Any], citing: Sequence[CitingPage]) -> FoundLink:
    url = Locator(SCHEMES[row.scheme], host.name, row.port, row.path).url
    shown = tuple(citing[:PAGES_SHOWN])
    more = len(citing) > PAGES_SHOWN
    return FoundLink(row.id, url, State(row.state), row.code, row.checked_day, shown, more)


def _place_at(candidate: tuple[_Host, Row[Any]]) -> _Place:
    host, row = candidate
    return _Place(host.order, host.id, row.head, row.id)


def _cursor(place: _Place) -> str:
    text = json.dumps(place, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _place_of(after: str) -> _Place:
    """The place that a cursor tells; it came from outside, so nothing about it is believed."""
    if not after:
        return _Place()
    wrong = InputError("That is no place to go on at: take `after` from the answer before.")
    if len(after) > _CURSOR_CHARS or not after.isascii():
        raise wrong
    try:
        data = base64.urlsafe_b64decode(after + "=" * (-len(after) % 4))
        found = json.loads(data.decode())
    except (ValueError, binascii.Error, RecursionError) as error:
        raise wrong from error
    match found:
        case [str(index), int(host_id), str(head), int(url_id)]:
            place = _Place(index, host_id, head, url_id)
        case _:
            raise wrong
    texts = index + head
    if not (0 < host_id < _ID_LIMIT and 0 < url_id < _ID_LIMIT) or "\0" in texts:
        raise wrong
    if any("\ud800" <= character <= "\udfff" for character in texts):
        raise wrong
    return place
