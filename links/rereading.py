"""Pages whose URLs must be read again, since the rules for URLs have changed.

Rules are applied when a page's URLs are written. After a new entry or a new spam list, the pages that
have such URLs are marked stale, and their feeder brings their URLs anew.
"""

from collections.abc import Callable, Iterable, Iterator

from sqlalchemy import Connection, select, update

from links.locator import SCHEMES, Locator
from links.store.schema import hosts, pages, refs, urls

URLS_AT_ONCE = 2_000


def mark_pages_with(rows: Connection, wiki_ids: Iterable[int], url_ids: Iterable[int]) -> int:
    """Let the pages of these wikis be read again that have one of the URLs; how many they are."""
    having = select(refs.c.page).where(refs.c.url_id.in_(list(url_ids)), refs.c.gone_day.is_(None))
    found = rows.execute(
        update(pages)
        .where(
            pages.c.id.in_(having),
            pages.c.wiki_id.in_(list(wiki_ids)),
            pages.c.is_stale.is_(False),
        )
        .values(is_stale=True)
    )
    return found.rowcount


def mark_pages_without(rows: Connection, wiki_id: int, entry: str) -> int:
    """Let the pages be read again that the entry of the exclusion list kept links out of."""
    found = rows.execute(
        update(pages)
        .where(
            pages.c.wiki_id == wiki_id,
            pages.c.excluded.contains(entry, autoescape=True),
            pages.c.is_stale.is_(False),
        )
        .values(is_stale=True)
    )
    return found.rowcount


def known_urls(reading: Callable[[int], list[tuple[int, str]]]) -> Iterator[list[tuple[int, str]]]:
    """All URLs of the registry in parts, by their numbers; `reading` is `urls_behind` somewhere."""
    last = 0
    while part := reading(last):
        yield part
        last = part[-1][0]


def urls_behind(rows: Connection, last: int) -> list[tuple[int, str]]:
    """The next URLs behind that number: numbers and identity keys."""
    found = rows.execute(
        select(urls.c.id, urls.c.scheme, hosts.c.name, urls.c.port, urls.c.path)
        .where(urls.c.id > last, hosts.c.id == urls.c.host_id)
        .order_by(urls.c.id)
        .limit(URLS_AT_ONCE)
    )
    return [
        (row.id, Locator(SCHEMES[row.scheme], row.name, row.port, row.path).url)
        for row in found.all()
    ]
