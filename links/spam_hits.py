"""URLs on pages that spam lists name: kept with the first and the last day, and never asked for (W52).

A hit that a page has no more keeps its row, as the trace back to who had it; those that a page has now
are the ones of the day on which its URLs were last written.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, or_, select, update

from links.locator import key_of
from links.sorting import Sorted
from links.spam import Hit
from links.store.schema import pages, spam_hits

_ROWS_AT_ONCE = 400


@dataclass(frozen=True, slots=True)
class SpamHit:
    """A URL of a page that a spam list names.

    Attributes:
        page: the registry's number of the page.
        page_id: the wiki's number of it.
        title: the page's.
        url: the URL's identity key.
        hit: the line that names it.
        first_day: when it was first seen on the page, and named.
        last_day: when it was last seen there.
    """

    page: int
    page_id: int
    title: str
    url: str
    hit: Hit
    first_day: int
    last_day: int


def hits_of(links: Iterable[Sorted]) -> dict[str, Hit]:
    """The line that names each URL, by identity keys: of the URLs that are spam."""
    return {link.identity: link.hit for link in links if link.hit is not None}


def write_hits(
    rows: Connection, wiki_id: int, found: Mapping[int, Mapping[str, Hit]], *, today: int
) -> None:
    """Write what pages have that spam lists name.

    Args:
        rows: of a transaction that writes.
        wiki_id: the wiki of all of them.
        found: for each page that was written today, by the registry's number, its `hits_of`; empty
            for a page that has none.
        today: the day.
    """
    numbers = sorted(found)
    for start in range(0, len(numbers), _ROWS_AT_ONCE):
        _write(
            rows, wiki_id, {page: found[page] for page in numbers[start:][:_ROWS_AT_ONCE]}, today
        )


def _write(
    rows: Connection, wiki_id: int, found: Mapping[int, Mapping[str, Hit]], today: int
) -> None:
    table = spam_hits.c
    there = {
        (row.page, bytes(row.key)): row
        for row in rows.execute(
            select(table.page, table.key, table.list, table.line, table.first_day, table.last_day)
            .where(table.page.in_(found))
            .order_by(table.page, table.key)
        )
    }
    new = []
    for page, hits in found.items():
        for url, hit in hits.items():
            old = there.pop((page, key_of(url)), None)
            facts = {"list": hit.list, "line": hit.line, "last_day": today}
            if old is None:
                place = {"page": page, "key": key_of(url), "wiki_id": wiki_id, "url": url}
                new.append({**place, **facts, "first_day": today})
            elif (old.list, old.line, old.last_day) != (hit.list, hit.line, today):
                same = and_(table.page == page, table.key == key_of(url))
                rows.execute(update(spam_hits).where(same).values(**facts))
    for (page, key), old in there.items():
        same = and_(table.page == page, table.key == key)
        if old.first_day >= today:
            rows.execute(delete(spam_hits).where(same))
        elif old.last_day >= today:
            rows.execute(update(spam_hits).where(same).values(last_day=today - 1))
    if new:
        rows.execute(insert(spam_hits), new)


def is_present() -> ColumnElement[bool]:
    """Return the condition that a hit is on its page now; for a statement that has `pages`, too (W05).

    What the page has no more keeps an earlier `last_day` than the page's last reading.
    """
    return or_(pages.c.listed_day.is_(None), spam_hits.c.last_day >= pages.c.listed_day)


def spam_on(
    rows: Connection, wiki_id: int, *, limit: int = 100, after: tuple[int, bytes] = (0, b"")
) -> list[SpamHit]:
    """The next hits that pages of the wiki have now (W05), in the order of pages.

    Args:
        rows: a connection.
        wiki_id: the wiki.
        limit: how many at most.
        after: the last one's page and `key_of` its URL, to go on.
    """
    table = spam_hits.c
    page, key = after
    found = rows.execute(
        select(*table, pages.c.page_id, pages.c.title)
        .where(
            table.wiki_id == wiki_id,
            table.page >= page,
            or_(table.page > page, table.key > key),
            pages.c.id == table.page,
            is_present(),
        )
        .order_by(table.page, table.key)
        .limit(limit)
    )
    return [_hit(row) for row in found.all()]


def forget_hits(rows: Connection, *, before_day: int) -> int:
    """Take away what was last seen before that day; how many."""
    return rows.execute(delete(spam_hits).where(spam_hits.c.last_day < before_day)).rowcount


def _hit(row: Any) -> SpamHit:
    hit = Hit(row.list, row.line)
    days = row.first_day, row.last_day
    return SpamHit(row.page, row.page_id, row.title, row.url, hit, *days)
