"""Queries limited to one farm or wiki: known URLs, copies, waiting links, counts.

Only links that a page of the requesting farm has now are disclosed. The other wikis that have a URL are visited one by
one, each by an index jump, regardless of the number of pages.
"""

from collections.abc import Iterable

from sqlalchemy import BigInteger, ColumnElement, exists, func, literal_column, select

from links.registry.lookups import CopyFacts
from links.registry.pages import MAX_PAGE_ID, PAGE_BITS, number_of, pages_between
from links.registry.schema import copies, invalid, pages, refs, urls, wanted, wikis
from links.registry.statements import Reader, SqlStatement, many, one
from links.registry.urls import COLUMNS, UrlRow, row_of, select_url_rows, urls_by_id
from links.registry.wikis import Wiki
from links.rules.link_class import MISSING_TARGET

COUNT_PAGES_OF_WIKI = SqlStatement(
    select(func.count()).select_from(
        select(pages.c.id).where(pages.c.wiki_id == one("wiki")).limit(one("limit")).subquery()
    )
)
_CURRENT = (refs.c.page >= one("first"), refs.c.page < one("beyond"), refs.c.gone_day.is_(None))
COUNT_LINKS_OF_WIKI = SqlStatement(
    select(func.count()).select_from(select(refs.c.page).where(*_CURRENT).limit(one("limit")).subquery())
)
LINKS_OF = SqlStatement(select(refs.c.url_id).where(*_CURRENT).distinct().limit(one("limit")))


def count_contents(reader: Reader, wiki_id: int, *, limit: int) -> dict[str, int]:
    """Count the wiki's known `pages`, and their `links`, a URL once for each page; each up to `limit`."""
    values = {"wiki": wiki_id, **pages_between(wiki_id), "limit": limit}
    counts = {"pages": COUNT_PAGES_OF_WIKI, "links": COUNT_LINKS_OF_WIKI}
    return {kind: statement.rows(reader, values)[0][0] for kind, statement in counts.items()}


def links_of(reader: Reader, wiki_id: int, *, limit: int) -> list[UrlRow]:
    """Return up to `limit` URLs that the wiki's pages have now, each once."""
    ids = [number for (number,) in LINKS_OF.rows(reader, {**pages_between(wiki_id), "limit": limit})]
    return list(urls_by_id(reader, ids).values())


_of_url = (refs.c.url_id == urls.c.id, refs.c.gone_day.is_(None))
_number = BigInteger()
_PAGES: ColumnElement[int] = literal_column(str(1 << PAGE_BITS), _number)  # numbers of one wiki
BY_KEY = SqlStatement(
    select_url_rows()
    .add_columns(
        exists()
        .where(*_of_url, refs.c.page >= one("first", _number), refs.c.page < one("beyond", _number))
        .label("is_own")
    )
    .where(urls.c.key.in_(many("keys"))),
    "keys",
)
_first = (
    select(urls.c.id.label("url_id"), select(func.min(refs.c.page)).where(*_of_url).scalar_subquery().label("page"))
    .where(urls.c.id.in_(many("ids")))
    .cte("seen", recursive=True)
)
# To the first page of the next wiki that has the URL.
_seen = _first.union_all(
    select(
        _first.c.url_id,
        select(func.min(refs.c.page))
        .where(
            refs.c.url_id == _first.c.url_id,
            refs.c.gone_day.is_(None),
            refs.c.page >= ((_first.c.page // _PAGES) + literal_column("1")) * _PAGES,
        )
        .scalar_subquery(),
    ).where(_first.c.page.is_not(None))
)
IN_FARM = SqlStatement(
    select(_seen.c.url_id)
    .select_from(_seen)
    .join(wikis, wikis.c.id == _seen.c.page // _PAGES)
    .where(wikis.c.farm_id == one("farm"))
    .distinct(),
    "ids",
)
ON_PAGE = SqlStatement(
    select(refs.c.url_id, refs.c.spelling).where(
        refs.c.page == one("page", _number), refs.c.gone_day.is_(None), refs.c.url_id.in_(many("ids"))
    ),
    "ids",
)
HAVING = SqlStatement(
    select(_seen.c.url_id, (_seen.c.page // _PAGES).label("wiki")).where(_seen.c.page.is_not(None)), "ids"
)
MISSING_ON_PAGE = SqlStatement(
    select(invalid.c.text, invalid.c.first_day).where(
        invalid.c.page == one("page", _number), invalid.c.reason == MISSING_TARGET
    )
)
COPIES = SqlStatement(
    select(copies.c.url_id, *(copies.c[name] for name in CopyFacts._fields)).where(
        copies.c.url_id.in_(many("ids")), copies.c.address != ""
    ),
    "ids",
)
WANTED = SqlStatement(
    select(wanted.c.url_id, func.min(wanted.c.since)).where(wanted.c.url_id.in_(many("ids"))).group_by(wanted.c.url_id),
    "ids",
)


def known_by_key(reader: Reader, wiki: Wiki, keys: Iterable[bytes]) -> dict[str, UrlRow]:
    """Return those of the URLs with these keys that a page of the wiki's farm has, by their identity keys."""
    own: dict[str, UrlRow] = {}
    others: dict[int, UrlRow] = {}
    for raw_row in BY_KEY.each(reader, "keys", dict.fromkeys(keys), **pages_between(wiki.id)):
        row = row_of(raw_row)
        if raw_row[len(COLUMNS)]:
            own[row.url] = row
        else:
            others[row.id] = row
    for (number,) in IN_FARM.each(reader, "ids", others, farm=wiki.farm_id):
        own[others[number].url] = others[number]
    return own


def wikis_having(reader: Reader, ids: Iterable[int]) -> list[tuple[int, int]]:
    """Return URLs with the wikis whose pages have them now, by their numbers, each pair once."""
    return [(row[0], row[1]) for row in HAVING.each(reader, "ids", dict.fromkeys(ids))]


def on_page(reader: Reader, wiki_id: int, page_id: int, ids: Iterable[int]) -> dict[int, str]:
    """Return those of the URLs that the page has now (W20); its spelling is empty for the identity key."""
    if not 0 < page_id <= MAX_PAGE_ID:
        return {}
    page = number_of(wiki_id, page_id)
    return {number: spelling or "" for number, spelling in ON_PAGE.each(reader, "ids", dict.fromkeys(ids), page=page)}


def missing_targets_on(reader: Reader, wiki_id: int, page_id: int) -> dict[str, int]:
    """Return the page's links to missing pages of the farm, with the day of first sight (W50)."""
    if not 0 < page_id <= MAX_PAGE_ID:
        return {}
    rows = MISSING_ON_PAGE.rows(reader, {"page": number_of(wiki_id, page_id)})
    return {bytes(text).decode("utf-8", "surrogatepass"): day for text, day in rows}


def copies_elsewhere(reader: Reader, ids: Iterable[int]) -> dict[int, list[CopyFacts]]:
    """Return chosen copies in other archives (W30), by URL number: manual choices first, then the newest."""
    copies_by_url: dict[int, list[CopyFacts]] = {}
    for number, *facts in COPIES.each(reader, "ids", dict.fromkeys(ids)):
        copies_by_url.setdefault(number, []).append(CopyFacts._make(facts))
    for each in copies_by_url.values():
        each.sort(key=lambda copy: (copy.is_by_hand, copy.timestamp, copy.service), reverse=True)
    return copies_by_url


def wanted_since(reader: Reader, ids: Iterable[int]) -> dict[int, int]:
    """Return the start of the wait, in Unix seconds, of those URLs that wait to be archived."""
    return dict(WANTED.each(reader, "ids", dict.fromkeys(ids)))
