"""How much the registry has of a wiki. Counting ends at a limit: it may be a hundred million links."""

from sqlalchemy import func, select

from links.books.pages import number_of
from links.books.urls import UrlRow, urls_by_id
from links.store.schema import pages, refs
from links.store.statements import Reader, Statement, one

COUNT_PAGES = Statement(
    select(func.count()).select_from(
        select(pages.c.id).where(pages.c.wiki_id == one("wiki")).limit(one("limit")).subquery()
    )
)
COUNT_LINKS = Statement(
    select(func.count()).select_from(
        select(refs.c.page)
        .where(refs.c.page >= one("first"), refs.c.page < one("beyond"), refs.c.gone_day.is_(None))
        .limit(one("limit"))
        .subquery()
    )
)
LINKS_OF = Statement(
    select(refs.c.url_id)
    .where(refs.c.page >= one("first"), refs.c.page < one("beyond"), refs.c.gone_day.is_(None))
    .distinct()
    .limit(one("limit"))
)


def count_pages(reader: Reader, wiki_id: int, *, limit: int) -> int:
    """How many pages of the wiki are known; no more than the limit are counted."""
    found: int = COUNT_PAGES.rows(reader, {"wiki": wiki_id, "limit": limit})[0][0]
    return found


def count_links(reader: Reader, wiki_id: int, *, limit: int) -> int:
    """How many links its pages have, a URL counted once for each page; no more than the limit."""
    asked = {"first": number_of(wiki_id, 0), "beyond": number_of(wiki_id + 1, 0), "limit": limit}
    found: int = COUNT_LINKS.rows(reader, asked)[0][0]
    return found


def links_of(reader: Reader, wiki_id: int, *, limit: int) -> list[UrlRow]:
    """Return URLs that the wiki's pages have now, each once; no more than the limit."""
    asked = {"first": number_of(wiki_id, 0), "beyond": number_of(wiki_id + 1, 0), "limit": limit}
    ids = [number for (number,) in LINKS_OF.rows(reader, asked)]
    return list(urls_by_id(reader, ids).values())
