"""Links that wait for a browser's word, and what makes the wait end: `links.checking.booking.book`."""

from typing import NamedTuple

from sqlalchemy import Connection, select

from links.locator import SCHEMES, Locator
from links.store.schema import hosts, urls


class Awaiting(NamedTuple):
    """A link that no more is said of until a browser has seen it.

    Attributes:
        url_id: its row.
        url: its identity key.
        since_day: from when on a browser's visit answers.
    """

    url_id: int
    url: str
    since_day: int


def awaiting_opinion(connection: Connection, *, limit: int) -> list[Awaiting]:
    """The links that have waited longest, at most so many."""
    asked = (
        select(
            *(urls.c.id, urls.c.scheme, urls.c.port, urls.c.path, urls.c.opinion_day, hosts.c.name)
        )
        .join_from(urls, hosts, hosts.c.id == urls.c.host_id)
        .where(urls.c.opinion_day.is_not(None))
        .order_by(urls.c.opinion_day, urls.c.key)
        .limit(limit)
    )
    return [
        Awaiting(
            row.id, Locator(SCHEMES[row.scheme], row.name, row.port, row.path).url, row.opinion_day
        )
        for row in connection.execute(asked)
    ]
