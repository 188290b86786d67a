"""Queries for all facts about a page or URL, and for the pages that use a URL: six for any number of pages.

Readers get their own farm's pages only (W24); only operators query across farms (`uses_anywhere`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Integer, LargeBinary, cast, func, literal_column, null, or_, select, union_all

from links.registry import pages as page_book
from links.registry import schema
from links.registry.pages import WikiPageRow, find_pages, find_titled, number_of, page_of, pages_between, plain_title
from links.registry.quirks import believed_quirks
from links.registry.schema import copies, hosts, invalid, pages, refs, reports, spam_hits, urls, wikis
from links.registry.statements import Reader, SqlStatement, batches, many, one
from links.registry.urls import COLUMNS, UrlRow, row_of, select_url_rows, urls_by_id
from links.registry.wikis import Wiki
from links.rules.wiki_rules import is_present
from links.states import LinkState
from links.url_parts import key_of


class QuirkFacts(NamedTuple):
    """Quirk of a URL or a host (W47, W56), with its first and last day."""

    kind: int
    value: str
    first_day: int
    last_day: int


class CopyFacts(NamedTuple):
    """Copy in an archive (W30-W32): `link_copies`."""

    service: str  # the archive
    address: str  # the chosen version's; empty: the archive has the page, no version is chosen
    timestamp: str  # capture time, 14 digits or empty
    found_day: int  # day of discovery; days are `links.check_history` numbers
    checked_day: int  # day of the last check
    chosen_by: str  # the person who chose it; empty: automatic
    is_locked: bool  # no version is chosen by hand
    missed_day: int | None = None  # day of a check that did not find it; None: it was there, or it is not loaded

    @property
    def is_by_hand(self) -> bool:
        """Return True when a person chose it."""
        return bool(self.chosen_by or self.is_locked)


class ReplacementFacts(NamedTuple):
    """Proposed replacement URL (W17), and the result of its test."""

    address: str
    state: int
    tested_day: int | None


class UrlFacts(NamedTuple):
    """All facts about a URL."""

    row: UrlRow
    quirks: tuple[QuirkFacts, ...] = ()
    host_quirks: tuple[QuirkFacts, ...] = ()  # current quirks of its host and of parent hosts (W47)
    copies: tuple[CopyFacts, ...] = ()
    reports: int = 0  # number of unexpired reader reports that the URL works (W13)
    reports_until: int | None = None  # the day on which the last of these expires; None without any
    replacement: ReplacementFacts | None = None


class PageLinkFacts(NamedTuple):
    """Link of a page: facts about its URL, and the day of first sight on the page."""

    facts: UrlFacts
    first_day: int
    spelling: str = ""  # the URL as written on the page (A17); empty: as its identity key


class InvalidLink(NamedTuple):
    """Link that cannot be requested, as written on the page, with the reason (`core.urls.UrlFault`)."""

    text: str
    reason: str
    first_day: int


class SpamFacts(NamedTuple):
    """Link that matches a spam list: the list and the line (W52)."""

    url: str
    list: str
    line: int
    first_day: int
    last_day: int


class WikiPageFacts(NamedTuple):
    """Page with its links as of the day it was read, `page.listed_day`."""

    page: WikiPageRow
    links: tuple[PageLinkFacts, ...]
    invalid: tuple[InvalidLink, ...] = ()
    spam: tuple[SpamFacts, ...] = ()


class LinkUse(NamedTuple):
    """Page that has a URL, or had it lately: then `gone_day` is the day of its removal."""

    page: WikiPageRow
    url_id: int
    first_day: int
    gone_day: int | None
    spelling: str = ""  # the URL as written on the page (A17); empty: as its identity key


class RefusedUse(NamedTuple):
    """Page with a link that is not watched, with its reason as in `InvalidLink`."""

    page: WikiPageRow
    reason: str
    first_day: int


_ZERO: ColumnElement[Any] = literal_column("0")
_EMPTY: ColumnElement[Any] = literal_column("''")
_NONE = cast(null(), LargeBinary)
_URL_QUIRK, _COPY, _REPORT, _REPLACEMENT, _SPAM, _INVALID = range(6)
_NOBODY = (0,)  # no row has that number
_PAGE = len(COLUMNS)


LINKS = SqlStatement(
    select_url_rows()
    .join(refs, refs.c.url_id == urls.c.id)
    .add_columns(refs.c.page, refs.c.first_day, refs.c.spelling)
    .where(refs.c.page.in_(many("pages")), refs.c.gone_day.is_(None)),
    "pages",
)


def _aside(tag: int, owner: Any, number: Any, texts: list[Any], days: list[Any], raw: Any = _NONE) -> Any:
    """Build the query for the facts of one kind about URLs or pages, with the columns of `ASIDE`."""
    padded = (*texts, *[_EMPTY] * (4 - len(texts)), *days, *[_ZERO] * (3 - len(days)))
    named = many("ids" if owner.name == "url_id" else "pages")
    return select(literal_column(str(tag)), owner, number, *padded, raw).where(owner.in_(named))


# All that other tables have: of URLs and of pages. One query, since each costs as much as its result.
# `links.registry.quirks` has the facts about hosts.
_C, _Q, _R, _S = copies.c, schema.url_quirks.c, schema.replacements.c, spam_hits.c
_LOCKED = cast(_C.is_locked, Integer)
ASIDE = SqlStatement(
    union_all(
        _aside(_URL_QUIRK, _Q.url_id, _Q.kind, [_Q.value], [_Q.first_day, _Q.last_day]),
        _aside(
            *(_COPY, _C.url_id, _ZERO, [_C.service, _C.address, _C.timestamp, _C.chosen_by]),
            [_C.found_day, _C.checked_day, _LOCKED],
        ),
        _aside(_REPORT, reports.c.url_id, func.count(), [], [func.max(reports.c.expires_day)])
        .where(reports.c.expires_day >= one("day"))
        .group_by(reports.c.url_id),
        _aside(_REPLACEMENT, _R.url_id, _R.state, [_R.address], [_R.tested_day]),
        _aside(_SPAM, _S.page, _S.line, [_S.url, _S.list], [_S.first_day, _S.last_day])
        .join(pages, pages.c.id == _S.page)
        .where(is_present()),
        _aside(_INVALID, invalid.c.page, _ZERO, [invalid.c.reason], [invalid.c.first_day], invalid.c.text),
    ),
    *("ids", "pages"),
)
_USE = select(*page_book.COLUMNS, refs.c.url_id, refs.c.first_day, refs.c.gone_day, refs.c.spelling).select_from(
    refs.join(pages, pages.c.id == refs.c.page)
)
_OF_URL = _USE.where(refs.c.url_id == one("url"), refs.c.page > one("after")).order_by(refs.c.page).limit(one("most"))
USES_ANYWHERE = SqlStatement(_OF_URL)
USES_IN_WIKI = SqlStatement(_OF_URL.where(refs.c.page < one("beyond")))
USES_IN_FARM = SqlStatement(_OF_URL.join(wikis, wikis.c.id == pages.c.wiki_id).where(wikis.c.farm_id == one("farm")))


def _beyond(first: Any, second: Any) -> Any:
    """Build the condition for rows after a cursor, in the order of both columns."""
    return first >= one("after"), or_(first > one("after"), second > one("after_second"))


HOST_USES_IN_WIKI = SqlStatement(
    _USE.join(urls, urls.c.id == refs.c.url_id)
    .join(hosts, hosts.c.id == urls.c.host_id)
    .where(hosts.c.name == one("host"), *_beyond(urls.c.id, refs.c.page))
    .where(urls.c.state.in_(many("states")))
    .where(refs.c.page > one("first"), refs.c.page < one("beyond"))
    .order_by(urls.c.id, refs.c.page)
    .limit(one("most")),
    "states",
)
LINKS_OF_WIKI = SqlStatement(
    _USE.join(urls, urls.c.id == refs.c.url_id)
    .where(
        *_beyond(refs.c.page, refs.c.url_id),
        refs.c.page < one("beyond"),
        refs.c.gone_day.is_(None),
        urls.c.state.in_(many("states")),
    )
    .order_by(refs.c.page, refs.c.url_id)
    .limit(one("most")),
    "states",
)
PAGES_OF_WIKI = SqlStatement(
    select(*page_book.COLUMNS)
    .where(pages.c.id > one("after"), pages.c.id < one("beyond"))
    .order_by(pages.c.id)
    .limit(one("most"))
)
_IN_STATES = (
    select_url_rows()
    .where(urls.c.id > one("after"), urls.c.state.in_(many("states")))
    .order_by(urls.c.id)
    .limit(one("most"))
)
ALL_URLS = SqlStatement(_IN_STATES, "states")
URLS_OF_HOST = SqlStatement(_IN_STATES.where(hosts.c.name == one("host")), "states")
REFUSED_USES = SqlStatement(
    select(*page_book.COLUMNS, invalid.c.reason, invalid.c.first_day)
    .join(pages, pages.c.id == invalid.c.page)
    .where(invalid.c.key == one("key"))
    .order_by(pages.c.id)
    .limit(one("most"))
)
EVERY_STATE = tuple(int(state) for state in LinkState)


def pages_by_title(reader: Reader, wiki_id: int, titles: Iterable[str]) -> dict[str, WikiPageRow]:
    """Return those of the wiki's pages that are known, by their titles as given; of two the one seen last."""
    plain = {title: plain_title(title) for title in titles}
    known = find_titled(reader, wiki_id, plain.values())
    rows = {page.title: page for page in sorted(known, key=attrgetter("touched_day", "id"))}
    return {title: rows[name] for title, name in plain.items() if name in rows}


def page_facts(reader: Reader, wiki_id: int, page_ids: Iterable[int], *, day: int) -> dict[int, WikiPageFacts]:
    """Return the facts about the wiki's known pages and all their links, by the wiki's ids."""
    by_number = {page.id: page for page in find_pages(reader, wiki_id, page_ids).values()}
    rows = [
        (row_of(each), each[_PAGE], each[_PAGE + 1], each[_PAGE + 2] or "")
        for each in LINKS.each(reader, "pages", by_number)
    ]
    facts, refused, spam = _with_all({row.id: row for row, *_ in rows}, by_number, reader, day)
    links: dict[int, list[PageLinkFacts]] = {number: [] for number in by_number}
    for row, page, first_day, spelling in rows:
        links[page].append(PageLinkFacts(facts[row.id], first_day, spelling))
    return {
        page.page_id: WikiPageFacts(
            page, tuple(links[number]), tuple(refused.get(number, ())), tuple(spam.get(number, ()))
        )
        for number, page in by_number.items()
    }


def links_of_page(reader: Reader, wiki_id: int, page_id: int) -> list[str]:
    """Return the URLs of the page: the watched ones and the invalid ones."""
    page = page_facts(reader, wiki_id, [page_id], day=0).get(page_id)
    if page is None:
        return []
    return [*(link.facts.row.url for link in page.links), *(link.text for link in page.invalid)]


def url_facts(reader: Reader, ids: Iterable[int], *, day: int) -> dict[int, UrlFacts]:
    """Return all facts about the URLs."""
    return _with_all(urls_by_id(reader, ids), (), reader, day)[0]


def uses_of_url(
    reader: Reader, url_id: int, wiki: Wiki, *, limit: int, after: int = 0, in_farm: bool = False
) -> list[LinkUse]:
    """Return pages of the wiki, or of its farm, that have the URL, or had it lately (W09), by number."""
    parameters = {"url": url_id, "most": limit}
    if in_farm:
        return _uses(USES_IN_FARM.rows(reader, {**parameters, "after": after, "farm": wiki.farm_id}))
    ends = pages_between(wiki.id)
    return _uses(USES_IN_WIKI.rows(reader, {**parameters, **ends, "after": max(after, ends["first"])}))


def uses_anywhere(reader: Reader, url_id: int, *, limit: int, after: int = 0) -> list[LinkUse]:
    """Return pages of all farms that have the URL: for operators, never for readers (W24)."""
    return _uses(USES_ANYWHERE.rows(reader, {"url": url_id, "after": after, "most": limit}))


def refused_uses(reader: Reader, text: str, *, limit: int) -> list[RefusedUse]:
    """Return pages of all farms that have a link which is not watched, as written: for operators."""
    rows = REFUSED_USES.rows(reader, {"key": key_of(text), "most": limit})
    return [RefusedUse(page_of(row), row[9], row[10]) for row in rows]


def uses_of_host(
    reader: Reader,
    host: str,
    wiki: Wiki,
    *,
    limit: int,
    after: tuple[int, int] = (0, 0),
    states: Sequence[int] = EVERY_STATE,
) -> list[LinkUse]:
    """Return uses of the host's URLs on the wiki's pages, after (`url_id`, page) of the previous result."""
    parameters = {"host": host, "most": limit, "states": states, **pages_between(wiki.id)}
    return _uses(HOST_USES_IN_WIKI.rows(reader, {**parameters, "after": after[0], "after_second": after[1]}))


def links_of_wiki(
    reader: Reader, wiki: Wiki, *, limit: int, after: tuple[int, int] = (0, 0), states: Sequence[int] = EVERY_STATE
) -> list[LinkUse]:
    """Return the wiki's links in these states (W05) by page; `after`: last page number and URL."""
    parameters = {"states": states, "most": limit, **pages_between(wiki.id)}
    page, url_id = max(after, (parameters["first"], 0))
    return _uses(LINKS_OF_WIKI.rows(reader, {**parameters, "after": page, "after_second": url_id}))


def pages_of_wiki(reader: Reader, wiki: Wiki, *, limit: int, after: int = 0) -> list[WikiPageRow]:
    """Return the wiki's pages by their ids; `after`: the wiki's id of the previous result's last page."""
    parameters = {**pages_between(wiki.id), "after": number_of(wiki.id, after), "most": limit}
    return [page_of(row) for row in PAGES_OF_WIKI.rows(reader, parameters)]


def list_urls(
    reader: Reader, *, limit: int, after: int = 0, host: str = "", states: Sequence[int] = EVERY_STATE
) -> list[UrlRow]:
    """Return URLs in these states, of one host or of all, by their numbers."""
    parameters = {"after": after, "states": states, "most": limit}
    if host:
        return [row_of(row) for row in URLS_OF_HOST.rows(reader, {**parameters, "host": host})]
    return [row_of(row) for row in ALL_URLS.rows(reader, parameters)]


def _uses(rows: Iterable[Any]) -> list[LinkUse]:
    return [LinkUse(page_of(row), row[9], row[10], row[11], row[12] or "") for row in rows]


def _with_all(
    rows: dict[int, UrlRow], numbers: Collection[int], reader: Reader, day: int
) -> tuple[dict[int, UrlFacts], dict[int, list[InvalidLink]], dict[int, list[SpamFacts]]]:
    """Load all facts of URLs and their hosts from the other tables, and the invalid links of pages."""
    of_hosts = {
        host: tuple(QuirkFacts(int(kind), "", *days) for kind, days in kinds.items())
        for host, kinds in believed_quirks(reader, (row.host for row in rows.values()), day=day).items()
    }
    facts = {id_: UrlFacts(row, (), of_hosts.get(row.host, ())) for id_, row in rows.items()}
    refused: dict[int, list[InvalidLink]] = defaultdict(list)
    spam: dict[int, list[SpamFacts]] = defaultdict(list)
    for ids, page_ids in zip_longest(batches(rows), batches(numbers), fillvalue=_NOBODY):
        fact_rows = ASIDE.rows(reader, {"ids": ids, "pages": page_ids, "day": day})
        for tag, owner, number, text, two, three, four, first, last, flag, raw in fact_rows:
            if tag == _SPAM:
                spam[owner].append(SpamFacts(text, two, number, first, last))
                continue
            if tag == _INVALID:
                refused[owner].append(InvalidLink(bytes(raw).decode("utf-8", "surrogatepass"), text, first))
                continue
            its = facts[owner]
            if tag == _URL_QUIRK:
                facts[owner] = its._replace(quirks=(*its.quirks, QuirkFacts(number, text, first, last)))
            elif tag == _COPY:
                copy = CopyFacts(text, two, three, first, last, four, bool(flag))
                facts[owner] = its._replace(copies=(*its.copies, copy))
            elif tag == _REPORT:
                facts[owner] = its._replace(reports=number, reports_until=first)
            else:
                facts[owner] = its._replace(replacement=ReplacementFacts(text, number, first))
    return facts, refused, spam
