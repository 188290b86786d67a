"""Links that wait for a browser's word, and what makes the wait end: `links.checking.booking.book`."""

from datetime import UTC, datetime, time
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from links.days import date_of
from links.findings import How
from links.locator import SCHEMES, Locator
from links.store.schema import hosts, observations, refs, urls


class Awaiting(NamedTuple):
    """A link that no more is said of until a browser has seen it.

    Attributes:
        url_id: its row.
        url: its identity key.
        since: from when on a browser's visit answers: the last look that raised the question.
        address: what a browser visits: the URL as a page that has it spells it (A17).
    """

    url_id: int
    url: str
    since: datetime
    address: str


def awaiting_opinion(connection: Connection, *, limit: int) -> list[Awaiting]:
    """The links that have waited longest, at most so many."""
    last_look = (
        select(func.max(observations.c.moment))
        .where(observations.c.url_id == urls.c.id, observations.c.how != How.BROWSER)
        .correlate(urls)
        .scalar_subquery()
        .label("last_look")
    )
    spelling = (
        select(refs.c.spelling)
        .where(refs.c.url_id == urls.c.id, refs.c.gone_day.is_(None))
        .order_by(refs.c.page)
        .limit(1)
        .scalar_subquery()
        .label("spelling")
    )
    asked = (
        select(
            *(urls.c.id, urls.c.scheme, urls.c.port, urls.c.path, urls.c.opinion_day),
            *(hosts.c.name, last_look, spelling),
        )
        .join_from(urls, hosts, hosts.c.id == urls.c.host_id)
        .where(urls.c.opinion_day.is_not(None))
        .order_by(urls.c.opinion_day, urls.c.key)
        .limit(limit)
    )
    return [_awaiting(row) for row in connection.execute(asked)]


def _awaiting(row: Any) -> Awaiting:
    url = Locator(SCHEMES[row.scheme], row.name, row.port, row.path).url
    return Awaiting(row.id, url, _since(row.opinion_day, row.last_look), row.spelling or url)


def _since(opinion_day: int, last_look: int | None) -> datetime:
    begun = datetime.combine(date_of(opinion_day), time(), UTC)
    return begun if last_look is None else max(begun, datetime.fromtimestamp(last_look, UTC))
