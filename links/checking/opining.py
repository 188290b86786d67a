"""Links that wait for a browser's word, and what makes the wait end: `links.checking.booking.book`."""

from datetime import UTC, datetime, time
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from links.days import date_of
from links.findings import How
from links.locator import SCHEMES, Locator
from links.store.schema import hosts, observations, urls


class Awaiting(NamedTuple):
    """A link that no more is said of until a browser has seen it.

    Attributes:
        url_id: its row.
        url: its identity key.
        since: from when on a browser's visit answers: the last look that raised the question.
    """

    url_id: int
    url: str
    since: datetime


def awaiting_opinion(connection: Connection, *, limit: int) -> list[Awaiting]:
    """The links that have waited longest, at most so many."""
    last_look = (
        select(func.max(observations.c.moment))
        .where(observations.c.url_id == urls.c.id, observations.c.how != How.BROWSER)
        .correlate(urls)
        .scalar_subquery()
        .label("last_look")
    )
    asked = (
        select(
            *(urls.c.id, urls.c.scheme, urls.c.port, urls.c.path, urls.c.opinion_day),
            *(hosts.c.name, last_look),
        )
        .join_from(urls, hosts, hosts.c.id == urls.c.host_id)
        .where(urls.c.opinion_day.is_not(None))
        .order_by(urls.c.opinion_day, urls.c.key)
        .limit(limit)
    )
    return [
        Awaiting(
            row.id,
            Locator(SCHEMES[row.scheme], row.name, row.port, row.path).url,
            _since(row.opinion_day, row.last_look),
        )
        for row in connection.execute(asked)
    ]


def _since(opinion_day: int, last_look: int | None) -> datetime:
    begun = datetime.combine(date_of(opinion_day), time(), UTC)
    return begun if last_look is None else max(begun, datetime.fromtimestamp(last_look, UTC))
