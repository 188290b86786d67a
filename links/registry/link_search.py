"""Link search: URLs that match a pattern, and the pages that cite them.

Links are ordered by domain index and path, found by an index, and then checked for scheme, port, state and wiki: one
call examines `SCAN_LIMIT` links at most and may return fewer than requested. A link on a wiki's exclusion list is not
found by way of that wiki's pages (X05), except with `LinkQuery.with_excluded`.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import product
from typing import Any

from sqlalchemy import Select, exists, or_, select

from core.errors import InputError
from links.registry.pages import PAGE_BITS
from links.registry.schema import farms, pages, refs, urls, wikis
from links.registry.statements import MOST, Reader, SqlStatement, batches, many, one
from links.rules.exclusion_list import EntryForm, ExclusionList, exclusions_of
from links.rules.link_pattern import LAST_CHARACTER, LinkPattern, SearchHost, SearchPosition, SearchRow, candidates
from links.rules.wiki_rules import parse_wiki_settings
from links.states import LinkState
from links.url_parts import SCHEMES, UrlParts

LIMIT = 500  # links of one answer at most
SCAN_LIMIT = 20_000  # links and hosts that one call reads
PAGES_SHOWN = 50  # of each link (W09)
_LINKS_TOGETHER = 64  # whose pages are read together …
_PAGES_AT_ONCE = 2_000  # … when there are fewer
_CURSOR_CHARS = 4_000
_ID_LIMIT = 1 << 62


class StateClass(StrEnum):
    """Groups of link states by what a reader finds there (W04)."""

    WORKING = "working"
    UNREACHABLE = "unreachable"
    DOUBTFUL = "doubtful"
    UNKNOWN = "unknown"


STATES = {
    StateClass.WORKING: frozenset({LinkState.ALIVE, LinkState.PERMALIVE}),
    StateClass.UNREACHABLE: frozenset({LinkState.DEAD, LinkState.PERMADEAD}),
    StateClass.DOUBTFUL: frozenset({LinkState.DYING, LinkState.BLOCKED, LinkState.USURPED, LinkState.DEVIATED}),
    StateClass.UNKNOWN: frozenset({LinkState.UNKNOWN, LinkState.INVALID, LinkState.EXCLUDED}),
}


@dataclass(frozen=True, slots=True)
class LinkQuery:
    """Filter for the links that a pattern matches."""

    wiki_id: int | None = None  # those on pages of that wiki; None: of any
    namespaces: tuple[int, ...] = ()  # those on pages in one of these; empty: in any
    states: frozenset[LinkState] = frozenset()  # those in one of these states; empty: in any
    with_excluded: bool = False  # include those that wikis exclude from link search


@dataclass(frozen=True, slots=True)
class CitingPage:
    """Page that has a link."""

    wiki: str  # ``dbname@farm``
    page_id: int  # the wiki's own number of it
    namespace: int  # the wiki's own number of its namespace
    title: str  # as the wiki writes it


@dataclass(frozen=True, slots=True)
class FoundLink:
    """Link that a search found."""

    url_id: int  # its number in the registry
    url: str  # its identity key
    state: LinkState
    code: int  # its status byte
    checked_day: int | None  # day of the last check; None: never
    pages: tuple[CitingPage, ...] = ()  # some of the matching pages that have it
    more_pages: bool = False  # there are others


@dataclass(frozen=True, slots=True)
class LinkSearchResult:
    """Result of one call."""

    links: tuple[FoundLink, ...]  # in the order of domain index and path
    after: str  # cursor for the next call; empty at the end
    examined: int  # number of links and hosts examined


def _by_pages(make: Callable[[list[Any]], Any], first: str) -> dict[tuple[bool, bool], SqlStatement]:
    """Build the statements with and without conditions on wiki and namespaces."""
    statements = {}
    for is_wiki, are_namespaces in product((False, True), repeat=2):
        conditions: list[Any] = [refs.c.gone_day.is_(None), pages.c.id == refs.c.page]
        lists = [first] if first else []
        if is_wiki:
            conditions.append(pages.c.wiki_id == one("wiki"))
        if are_namespaces:
            conditions.append(pages.c.namespace.in_(many("namespaces")))
            lists.append("namespaces")
        statements[is_wiki, are_namespaces] = SqlStatement(make(conditions), *lists)
    return statements


def _citing_pages(conditions: list[Any]) -> Select[Any]:
    return select(
        *(refs.c.url_id, refs.c.page, pages.c.page_id, pages.c.namespace, pages.c.title),
        *(wikis.c.dbname, farms.c.name),
    ).where(*conditions, wikis.c.id == pages.c.wiki_id, farms.c.id == wikis.c.farm_id)


ON_PAGES = _by_pages(
    lambda conditions: select(urls.c.id).where(
        urls.c.id.in_(many("ids")), exists().where(refs.c.url_id == urls.c.id, *conditions)
    ),
    "ids",
)
PAGES_OF = _by_pages(
    lambda conditions: (
        _citing_pages(conditions)
        .where(refs.c.url_id == one("url"), refs.c.page > one("after"))
        .order_by(refs.c.page)
        .limit(one("most"))
    ),
    "",
)
PAGES_OF_ALL = _by_pages(
    lambda conditions: _citing_pages(conditions).where(refs.c.url_id.in_(many("ids"))).limit(one("most")), "ids"
)
LISTS = SqlStatement(
    select(wikis.c.id, wikis.c.settings).where(or_(*(wikis.c.settings.contains(f'"{form}"') for form in EntryForm)))
)


def search_links(
    rows: Reader, pattern: LinkPattern, wanted: LinkQuery | None = None, *, limit: int = 100, after: str = ""
) -> LinkSearchResult:
    """Return the next matching links, with some of the pages that have them; InputError for a bad cursor."""
    wanted = wanted or LinkQuery()
    limit = min(max(limit, 1), LIMIT)
    place = _place_of(after)
    hidden = _ExclusionFilter(rows, pattern, wanted)
    hits: list[tuple[SearchHost, SearchRow]] = []
    examined, is_over = 0, True
    size = LIMIT if wanted != LinkQuery() or pattern.scheme else limit + 1
    for part in candidates(rows, pattern, place, size):
        good = _wanted_of(rows, pattern, wanted, part.links)
        good -= hidden.among(link for link in part.links if link[1].id in good)
        for candidate in part.links:
            is_over = len(hits) < limit or candidate[1].id not in good
            if not is_over:
                break
            if candidate[1].id in good:
                hits.append(candidate)
            host, row = candidate
            place = SearchPosition(host.order, host.id, row.head, row.id)
        examined += len(part.links) + len(part.hosts)
        if is_over and part.is_whole:
            place = SearchPosition(part.hosts[-1].order, part.hosts[-1].id, LAST_CHARACTER, 1)
        is_over = is_over and examined < SCAN_LIMIT
        if not is_over:
            break
    citing = _citing(rows, wanted, [row.id for _, row in hits if row.id not in hidden.citing])
    citing |= hidden.citing
    links = []
    for host, row in hits:
        url = UrlParts(SCHEMES[row.scheme], host.name, row.port, row.path).url
        shown, state = citing.get(row.id, []), LinkState(row.state)
        facts = (row.id, url, state, row.code, row.checked_day, tuple(shown[:PAGES_SHOWN]))
        links.append(FoundLink(*facts, more_pages=len(shown) > PAGES_SHOWN))
    text = json.dumps(place, ensure_ascii=False, separators=(",", ":"))
    cursor = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    return LinkSearchResult(tuple(links), "" if is_over else cursor, examined)


def _wanted_of(
    rows: Reader, pattern: LinkPattern, wanted: LinkQuery, part: Sequence[tuple[SearchHost, SearchRow]]
) -> set[int]:
    """Return the numbers of the links in the part that match the filter."""
    good = [
        row.id
        for _, row in part
        if (not wanted.states or row.state in wanted.states)
        and pattern.covers_rest(SCHEMES[row.scheme], row.port, row.path)
    ]
    if wanted.wiki_id is None and not wanted.namespaces:
        return set(good)
    statement = ON_PAGES[wanted.wiki_id is not None, bool(wanted.namespaces)]
    return {row[0] for row in statement.each(rows, "ids", good, **_named(wanted))}


def _named(wanted: LinkQuery) -> dict[str, Any]:
    return {"wiki": wanted.wiki_id, "namespaces": wanted.namespaces[:MOST]}


def _citing(rows: Reader, wanted: LinkQuery, url_ids: Sequence[int]) -> dict[int, list[CitingPage]]:
    """Return some pages of each link: one more than are shown, when there are more."""
    which = wanted.wiki_id is not None, bool(wanted.namespaces)
    named = _named(wanted)
    page_rows: list[Any] = []
    for batch in batches(url_ids, _LINKS_TOGETHER):
        part = PAGES_OF_ALL[which].rows(rows, {"ids": batch, "most": _PAGES_AT_ONCE, **named})
        if len(part) == _PAGES_AT_ONCE:  # one of them is on very many pages
            part = []
            for url_id in batch:
                part += PAGES_OF[which].rows(rows, {"url": url_id, "after": 0, "most": PAGES_SHOWN + 1, **named})
        page_rows += part
    citing: dict[int, list[CitingPage]] = {}
    for row in sorted(page_rows):
        citing.setdefault(row[0], []).append(_citing_page(row))
    return citing


def _citing_page(row: Sequence[Any]) -> CitingPage:
    _, _, page_id, namespace, title, dbname, farm = row
    return CitingPage(f"{dbname}@{farm}", page_id, namespace, title)


class _ExclusionFilter:
    """Filter for links that exclusion lists hide; `citing` has pages of wikis that do not exclude them."""

    def __init__(self, rows: Reader, pattern: LinkPattern, wanted: LinkQuery) -> None:
        self._rows = rows
        self._wanted = wanted
        self._lists: dict[int, ExclusionList] = {}
        self.citing: dict[int, list[CitingPage]] = {}
        if wanted.with_excluded:
            return
        for wiki_id, settings in LISTS.rows(rows, {}):
            if wanted.wiki_id in (None, wiki_id):
                meeting = ExclusionList(_exclusions(settings).meeting(pattern))
                if meeting.entries:
                    self._lists[wiki_id] = meeting

    def among(self, links: Iterable[tuple[SearchHost, SearchRow]]) -> set[int]:
        """Return the links that are excluded by every wiki whose pages have them."""
        hidden = set()
        for host, row in links if self._lists else ():
            url = UrlParts(SCHEMES[row.scheme], host.name, row.port, row.path)
            excluding = {wiki for wiki, each in self._lists.items() if each.entry_for(url)}
            is_hidden = bool(excluding)
            if excluding and self._wanted.wiki_id is None:
                shown, is_on_pages = self._pages_besides(row.id, excluding)
                is_hidden = is_on_pages and not shown
                if shown:
                    self.citing[row.id] = shown
            if is_hidden:
                hidden.add(row.id)
        return hidden

    def _pages_besides(self, url_id: int, excluding: set[int]) -> tuple[list[CitingPage], bool]:
        """Return some pages of other wikis that have the link, and True when any page has it."""
        statement = PAGES_OF[False, bool(self._wanted.namespaces)]
        shown: list[CitingPage] = []
        after, is_on_pages = 0, False
        while len(shown) <= PAGES_SHOWN:
            parameters = {"url": url_id, "after": after, "most": PAGES_SHOWN + 1, **_named(self._wanted)}
            part = statement.rows(self._rows, parameters)
            is_on_pages = is_on_pages or bool(part)
            for row in part:
                wiki_id = row[1] >> PAGE_BITS
                if wiki_id in excluding:
                    after = (wiki_id + 1 << PAGE_BITS) - 1
                    break
                shown.append(_citing_page(row))
                after = row[1]
            else:
                if len(part) <= PAGES_SHOWN:
                    break
        return shown, is_on_pages


@lru_cache(maxsize=64)
def _exclusions(settings: str) -> ExclusionList:
    """Parse the lists in a wiki's settings; thousands of entries take tens of milliseconds."""
    return exclusions_of(parse_wiki_settings(settings))


def _place_of(after: str) -> SearchPosition:
    """Parse and validate a cursor, which is untrusted input."""
    if not after:
        return SearchPosition()
    wrong = InputError("That is not a position to continue from: take `after` from the previous answer.")
    if len(after) > _CURSOR_CHARS or not after.isascii():
        raise wrong
    try:
        data = base64.urlsafe_b64decode(after + "=" * (-len(after) % 4))
        document = json.loads(data.decode())
    except (ValueError, binascii.Error, RecursionError) as error:
        raise wrong from error
    match document:
        case [str(index), int(host_id), str(head), int(url_id)]:
            place = SearchPosition(index, host_id, head, url_id)
        case _:
            raise wrong
    texts = index + head
    if not (0 < host_id < _ID_LIMIT and 0 < url_id < _ID_LIMIT) or "\0" in texts:
        raise wrong
    if any("\ud800" <= character <= "\udfff" for character in texts):
        raise wrong
    return place
