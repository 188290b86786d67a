"""A wiki's lists: pages with spam, with unreachable or with doubtful links (W05).

A part is found by the number of the page before it, never by counting from the front. Pages in order
are rare among those without findings, so no more than some are looked through for one part, and the
part says so when that was not enough.
"""

from typing import Any

from sqlalchemy import Connection, Select, func, select

from links.books.wikis import WikiName
from links.store.schema import pages, refs, spam_hits, urls
from playback.front.registry.answers import (
    GROUPS,
    Listed,
    ListedPage,
    ListKind,
    PageRef,
)
from playback.front.registry.reading import Reading, address_of

LIST_SIZE = 50
LOOKED_AT = 2_000  # pages at a time …
ROUNDS = 5  # … so often for one part


def listed(
    connection: Connection, wiki: WikiName, kind: ListKind, *, day: int, after: int = 0
) -> Listed | None:
    """A part of the list, behind the page of number `after`; None when nobody knows the wiki."""
    row = Reading(connection, day).wiki(wiki)
    if row is None:
        return None
    found: list[ListedPage] = []
    name = row.name
    for _ in range(ROUNDS):
        last = connection.scalar(last_of_round(row.id, after))
        query = counted(kind, row.id, after, last).limit(LIST_SIZE + 1 - len(found))
        found += [
            ListedPage(
                PageRef(
                    name, each.page_id, each.title, each.namespace, address_of(row, each.title)
                ),
                each.links,
            )
            for each in connection.execute(query)
        ]
        if len(found) > LIST_SIZE:
            return Listed(tuple(found[:LIST_SIZE]), found[LIST_SIZE - 1].page.page_id)
        if last is None:
            return Listed(tuple(found), None)
        after = last
    return Listed(tuple(found), after, is_whole=False)


def last_of_round(wiki_id: int, after: int) -> Select[Any]:
    """The number of the last page that is looked through; None when all the rest is."""
    return (
        select(pages.c.page_id)
        .where(pages.c.wiki_id == wiki_id, pages.c.page_id > after)
        .order_by(pages.c.page_id)
        .offset(LOOKED_AT - 1)
        .limit(1)
    )


def counted(kind: ListKind, wiki_id: int, after: int, last: int | None) -> Select[Any]:
    """Pages with what puts them on the list, and how many of those."""
    query = select(pages.c.page_id, pages.c.title, pages.c.namespace, func.count().label("links"))
    if kind is ListKind.SPAM:
        query = query.join(spam_hits, spam_hits.c.page == pages.c.id)
    else:
        states = [state for state, group in GROUPS.items() if group == kind.value]
        query = (
            query.join(refs, refs.c.page == pages.c.id)
            .join(urls, urls.c.id == refs.c.url_id)
            .where(refs.c.gone_day.is_(None), urls.c.state.in_(states))
        )
    query = query.where(pages.c.wiki_id == wiki_id, pages.c.page_id > after)
    if last is not None:
        query = query.where(pages.c.page_id <= last)
    order = (pages.c.page_id, pages.c.title, pages.c.namespace)
    return query.group_by(*order).order_by(pages.c.page_id)
