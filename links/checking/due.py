"""Which URLs are due, in the order they are to be looked at, a window at a time.

First those that were never looked at, then the longest due; within a day by their keys, which are
digests: a random order, in which no host's URLs stand together (W40). A window begins after the last
URL of the one before it, so that reading all of them costs each one once. A host's own URLs are read
apart: it may have more than a window should hold.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, or_, select, update

from links.checking.parts import Part
from links.locator import SCHEMES, Locator
from links.states import Proof, Standing, State
from links.store.schema import hosts, urls

URGENT_DAY = 0  # due since the calendar began: asked for by name, before all else


class Place(NamedTuple):
    """Where a window ends."""

    due_day: int
    key: bytes


START = Place(-1, b"")


@dataclass(frozen=True, slots=True)
class DueUrl:
    """A URL that is to be looked at.

    Attributes:
        id: its row's.
        key: its key, which orders a pass.
        host_id: its host's row.
        host: its canonical host.
        url: its identity key, which is asked for.
        due_day: since when.
        standing: where it stands.
        is_new: it was never looked at.
    """

    id: int
    key: bytes
    host_id: int
    host: str
    url: str
    due_day: int
    standing: Standing
    is_new: bool

    @property
    def place(self) -> Place:
        """Where it stands in the order."""
        return Place(self.due_day, self.key)


_COLUMNS = (
    *(urls.c.id, urls.c.key, urls.c.host_id, urls.c.scheme, urls.c.port, urls.c.path),
    *(urls.c.due_day, urls.c.checked_day, urls.c.state, urls.c.fails, urls.c.first_fail_day),
    *(urls.c.last_fail_day, urls.c.proofs, hosts.c.name),
)


def _chosen() -> Select[tuple[object, ...]]:
    return select(*_COLUMNS).join_from(urls, hosts, hosts.c.id == urls.c.host_id)


def new_ones(
    connection: Connection, part: Part, day: int, *, after: Place, limit: int
) -> list[DueUrl]:
    """Due URLs that were never looked at, after a place."""
    return _window(connection, part, day, after, limit, urls.c.checked_day.is_(None))


def old_ones(
    connection: Connection, part: Part, day: int, *, after: Place, limit: int
) -> list[DueUrl]:
    """Due URLs, new or not, after a place."""
    return _window(connection, part, day, after, limit, None)


def of_host(
    connection: Connection, host_id: int, day: int, *, passing: Collection[int], limit: int
) -> list[DueUrl]:
    """Due URLs of a host, the longest due first, without those that are `passing` already."""
    rows = connection.execute(
        _chosen()
        .where(urls.c.host_id == host_id, urls.c.due_day <= day)
        .order_by(urls.c.due_day)
        .limit(limit + len(passing))
    )
    found = [row for row in rows if row.id not in passing]
    return [_due(row) for row in found[:limit]]


def by_keys(connection: Connection, keys: Sequence[bytes]) -> list[DueUrl]:
    """The URLs of these keys that the registry watches, due or not."""
    found: list[DueUrl] = []
    for start in range(0, len(keys), 500):
        some = keys[start : start + 500]
        found += [_due(row) for row in connection.execute(_chosen().where(urls.c.key.in_(some)))]
    return found


def make_urgent(connection: Connection, ids: Sequence[int]) -> None:
    """Let these be looked at before all others, by whichever checker has their hosts."""
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        connection.execute(update(urls).where(urls.c.id.in_(some)).values(due_day=URGENT_DAY))


def count_due(connection: Connection, part: Part, day: int) -> int:
    """How many URLs are due."""
    asked = select(func.count()).select_from(urls).where(urls.c.due_day <= day, part.condition())
    return int(connection.execute(asked).scalar_one())


def count_awaiting(connection: Connection) -> int:
    """How many URLs wait for a browser's opinion."""
    asked = select(func.count()).select_from(urls).where(urls.c.opinion_day.is_not(None))
    return int(connection.execute(asked).scalar_one())


class HostCount(NamedTuple):
    """How many URLs of a host are due."""

    host: str
    due: int


def count_by_host(connection: Connection, part: Part, day: int, *, limit: int) -> list[HostCount]:
    """The hosts with the most due URLs, and how many those are."""
    counted = (
        select(urls.c.host_id, func.count().label("due"))
        .where(urls.c.due_day <= day, part.condition())
        .group_by(urls.c.host_id)
        .order_by(func.count().desc(), urls.c.host_id)
        .limit(limit)
        .subquery()
    )
    rows = connection.execute(
        select(hosts.c.name, counted.c.due)
        .join_from(counted, hosts, hosts.c.id == counted.c.host_id)
        .order_by(counted.c.due.desc(), hosts.c.name)
    )
    return [HostCount(name, due) for name, due in rows]


def next_due_day(connection: Connection, part: Part) -> int | None:
    """The day at which the next URL is due; None when none ever will be."""
    asked = (
        select(urls.c.due_day)
        .where(urls.c.due_day.is_not(None), part.condition())
        .order_by(urls.c.due_day, urls.c.key)
        .limit(1)
    )
    found = connection.execute(asked).first()
    return None if found is None else int(found[0])


def standing_of(row: Row[tuple[object, ...]]) -> Standing:
    """Where a URL's row says that it stands."""
    return Standing(
        State(row.state), row.fails, row.first_fail_day, row.last_fail_day, Proof(row.proofs)
    )


def _window(
    connection: Connection,
    part: Part,
    day: int,
    after: Place,
    limit: int,
    only: ColumnElement[bool] | None,
) -> list[DueUrl]:
    beyond = or_(
        urls.c.due_day > after.due_day,
        and_(urls.c.due_day == after.due_day, urls.c.key > after.key),
    )
    asked = _chosen().where(urls.c.due_day >= after.due_day, urls.c.due_day <= day, beyond)
    if only is not None:
        asked = asked.where(only)
    asked = asked.where(part.condition()).order_by(urls.c.due_day, urls.c.key).limit(limit)
    return [_due(row) for row in connection.execute(asked)]


def _due(row: Row[tuple[object, ...]]) -> DueUrl:
    where = Locator(SCHEMES[row.scheme], row.name, row.port, row.path)
    return DueUrl(
        id=row.id,
        key=bytes(row.key),
        host_id=row.host_id,
        host=row.name,
        url=where.url,
        due_day=row.due_day if row.due_day is not None else URGENT_DAY,
        standing=standing_of(row),
        is_new=row.checked_day is None,
    )
