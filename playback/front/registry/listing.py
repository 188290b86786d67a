"""A wiki's lists: pages with spam, with unreachable or with doubtful links (W05).

A part is found by the number of the page before it, never by counting from the front. Pages in order
are rare among those without findings, so no more than some are looked through for one part, and the
part says so when that was not enough.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, func, select

from core.errors import InputError
from core.url_patterns import Form, parse_pattern
from links.books.wikis import WikiName
from links.observed import matching
from links.spam_hits import is_present
from links.store.schema import pages, refs, spam_hits, urls
from playback.front.languages import noop
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
MOST_BELOW = 2_000  # URLs of a domain and path that a list is made of
ROUNDS = 5  # … so often for one part


def listed(
    connection: Connection,
    reading: Reading,
    wiki: WikiName,
    kind: ListKind,
    *,
    after: int = 0,
    domain: str = "",
) -> Listed | None:
    """Return a part of the list, behind the page of number `after`; None when nobody knows the wiki.

    Args:
        connection: of one moment.
        reading: who asks.
        wiki: whose list.
        kind: which list.
        after: the last page of the part before.
        domain: only links to that domain and all below it, with the beginning of a path (W05).

    Raises:
        InputError: that is no domain, or it has too many watched URLs.
    """
    row = reading.wiki(wiki)
    if row is None:
        return None
    only = _below(connection, domain) if domain and kind is not ListKind.SPAM else None
    found: list[ListedPage] = []
    name = row.name
    for _ in range(ROUNDS):
        last = connection.scalar(last_of_round(row.id, after))
        query = counted(kind, row.id, after, last, only).limit(LIST_SIZE + 1 - len(found))
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


def _below(connection: Connection, domain: str) -> list[int]:
    """Return the numbers of the watched URLs that begin so."""
    try:
        pattern = parse_pattern(domain)
    except InputError:
        pattern = None
    if pattern is None or pattern.form is Form.REGEX:
        raise InputError(noop("Name a site and the beginning of a path: example.org/path."))
    found = matching(connection, pattern, limit=MOST_BELOW + 1)
    if len(found) > MOST_BELOW:
        raise InputError(noop("That means too many links: name more of the path."))
    return [each.id for each in found]


def counted(
    kind: ListKind, wiki_id: int, after: int, last: int | None, only: Sequence[int] | None = None
) -> Select[Any]:
    """Pages with what puts them on the list, and how many of those; `only` of these URLs."""
    query = select(pages.c.page_id, pages.c.title, pages.c.namespace, func.count().label("links"))
    if kind is ListKind.SPAM:
        query = query.join(spam_hits, spam_hits.c.page == pages.c.id).where(is_present())
    else:
        states = [state for state, group in GROUPS.items() if group == kind.value]
        query = (
            query.join(refs, refs.c.page == pages.c.id)
            .join(urls, urls.c.id == refs.c.url_id)
            .where(refs.c.gone_day.is_(None), urls.c.state.in_(states))
        )
        if only is not None:
            query = query.where(urls.c.id.in_(only))
    query = query.where(pages.c.wiki_id == wiki_id, pages.c.page_id > after)
    if last is not None:
        query = query.where(pages.c.page_id <= last)
    order = (pages.c.page_id, pages.c.title, pages.c.namespace)
    return query.group_by(*order).order_by(pages.c.page_id)
