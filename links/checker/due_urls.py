"""Shares of the hosts leased to checkers, and queries for the URLs in them that are due or await a browser check.

A host belongs to exactly one share, by its bucket (`links.url_parts.bucket_of`).

>>> parse_host_share("2/4"), parse_host_share("1/2").overlaps(parse_host_share("3/4"))
(HostShare(number=2, count=4), True)
>>> parse_host_share("1/2").overlaps(parse_host_share("2/4"))
False

A lease expires unless it is renewed. Every write of its holder checks its fencing token, greater than all before,
in the same transaction (`hold_check_lease`). Clocks may differ by less than the length of a lease.

Unchecked URLs come first, then the longest due; within a day by their keys, a random order (W40). A window begins
after the last URL of the previous one. Further URLs of one host, which may exceed a window, are read separately.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from math import gcd
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, text, true, update

from core.errors import CollectionInUseError, InputError
from links.check_history import date_of
from links.check_result import CheckMethod
from links.registry.schema import hosts, leases, observations, refs, urls
from links.registry.statements import batches
from links.registry.urls import UrlRow, row_of, select_url_rows
from links.url_parts import BUCKETS

_TEXT = re.compile(r"(\d{1,4})/(\d{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class HostShare:
    """Share of the hosts: those whose bucket leaves ``number - 1`` when divided by ``count``."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, bucket: int) -> bool:
        """Return True when hosts of that bucket are in it."""
        return bucket % self.count == self.number - 1

    def overlaps(self, other: "HostShare") -> bool:
        """Return True when both have a bucket in common (Chinese remainder theorem)."""
        return (self.number - other.number) % gcd(self.count, other.count) == 0

    def condition(self) -> ColumnElement[bool]:
        """Build the condition for rows of `links.registry.schema.urls` in it."""
        return true() if self.count == 1 else urls.c.bucket % self.count == self.number - 1


ALL_HOSTS = HostShare(1, 1)


def parse_host_share(text: str) -> HostShare:
    """Parse a share ``i/n``; InputError when it is not valid."""
    match = _TEXT.fullmatch(text.strip())
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count <= BUCKETS:
        raise InputError(
            f"{text[:40]!r} is not a part: write i/n, such as 1/4, with i from 1 to n and n up to {BUCKETS}."
        )
    return HostShare(number, count)


def share_of_bucket(bucket: int) -> HostShare:
    """Return the smallest share: a single bucket."""
    return HostShare(bucket + 1, BUCKETS)


class LeaseHeldError(CollectionInUseError):
    """Refusal of a lease because another checker holds an overlapping share until that time."""

    def __init__(self, wanted: HostShare, lease: "CheckLease", until: int) -> None:
        super().__init__(
            f"Another checker ({lease.holder}) has part {lease.part} of the hosts, so part {wanted} is not free: wait "
            "for it, or give each checker its own --part."
        )
        self.holder = lease.holder
        self.fence = lease.fence
        self.until = until


class LeaseLostError(CollectionInUseError):
    """Loss of an expired lease to another checker: no result may be written."""


@dataclass(frozen=True, slots=True)
class CheckLease:
    """Exclusive right to check a share of the hosts."""

    part: HostShare
    holder: str  # unique name of the checker
    fence: int  # fencing token, greater than any lease's before it

    def condition(self) -> tuple[ColumnElement[bool], ...]:
        """Build the condition for its row."""
        its = {"part": str(self.part), "holder": self.holder, "fence": self.fence}
        return tuple(leases.c[name] == value for name, value in its.items())


def take_check_lease(connection: Connection, part: HostShare, holder: str, *, now: int, length_s: int) -> CheckLease:
    """Claim a lease for the share, else LeaseHeldError; delete expired leases that overlap it."""
    if connection.dialect.name == "postgresql":
        # Two concurrent readers would both see a free part.
        connection.execute(text("LOCK TABLE link_leases IN SHARE ROW EXCLUSIVE MODE"))
    for row in connection.execute(select(leases)).all():
        lease = CheckLease(parse_host_share(row.part), row.holder, row.fence)
        if not lease.part.overlaps(part) or lease.holder == holder:
            continue
        if row.until > now:
            raise LeaseHeldError(part, lease, row.until)
        connection.execute(delete(leases).where(leases.c.part == row.part))
    # Past what any removed lease can have had: the clock continues where numbers were skipped.
    fence = max((connection.execute(select(func.max(leases.c.fence))).scalar_one() or 0) + 1, now)
    connection.execute(delete(leases).where(leases.c.part == str(part)))
    connection.execute(insert(leases).values(part=str(part), holder=holder, fence=fence, until=now + length_s))
    return CheckLease(part, holder, fence)


def renew_check_lease(connection: Connection, lease: CheckLease, *, now: int, length_s: int) -> None:
    """Renew the lease from now, even when it expired; LeaseLostError when another checker took it."""
    if connection.execute(update(leases).where(*lease.condition()).values(until=now + length_s)).rowcount != 1:
        raise LeaseLostError(
            f"Part {lease.part} of the hosts was taken over by another checker, because this one did not renew its "
            "lease in time; its results since then are discarded."
        )


def hold_check_lease(connection: Connection, lease: CheckLease) -> None:
    """Lock the lease's row until the commit; LeaseLostError when another checker took it."""
    if connection.execute(select(leases.c.fence).where(*lease.condition()).with_for_update()).first() is None:
        raise LeaseLostError(f"Part {lease.part} of the hosts was taken by another checker.")


def release_check_lease(connection: Connection, lease: CheckLease) -> None:
    """Release the lease at once, unless another checker holds it."""
    connection.execute(delete(leases).where(*lease.condition()))


URGENT_DAY = 0  # due since day 0: requested by name, before all others


class DuePosition(NamedTuple):
    """Position at which a window ends."""

    due_day: int
    key: bytes


START = DuePosition(-1, b"")


def due_window(
    connection: Connection, part: HostShare, day: int, *, after: DuePosition, limit: int, only_new: bool = False
) -> list[UrlRow]:
    """Return due URLs after a position; `only_new`: those that were never checked."""
    beyond = or_(urls.c.due_day > after.due_day, and_(urls.c.due_day == after.due_day, urls.c.key > after.key))
    query = select_url_rows().where(urls.c.due_day >= after.due_day, urls.c.due_day <= day, beyond)
    if only_new:
        query = query.where(urls.c.checked_day.is_(None))
    query = query.where(part.condition()).order_by(urls.c.due_day, urls.c.key).limit(limit)
    return [row_of(row) for row in connection.execute(query)]


def due_urls_of_host(
    connection: Connection, host_id: int, day: int, *, passing: Collection[int], limit: int
) -> list[UrlRow]:
    """Return due URLs of a host, the longest due first, without the ids in `passing`."""
    rows = connection.execute(
        select_url_rows()
        .where(urls.c.host_id == host_id, urls.c.due_day <= day)
        .order_by(urls.c.due_day)
        .limit(limit + len(passing))
    )
    due_rows = [row for row in rows if row.id not in passing]
    return [row_of(row) for row in due_rows[:limit]]


def set_due_day(connection: Connection, ids: Sequence[int], day: int = URGENT_DAY) -> None:
    """Set the day of these URLs' next check, by default before all others, for the checker of their hosts."""
    for some in batches(ids):
        connection.execute(update(urls).where(urls.c.id.in_(some)).values(due_day=day))


def count_due(connection: Connection, part: HostShare, day: int) -> int:
    """Count the due URLs."""
    query = select(func.count()).select_from(urls).where(urls.c.due_day <= day, part.condition())
    return int(connection.execute(query).scalar_one())


def count_awaiting(connection: Connection) -> int:
    """Count the URLs that await a browser check."""
    query = select(func.count()).select_from(urls).where(urls.c.opinion_day.is_not(None))
    return int(connection.execute(query).scalar_one())


def count_by_host(connection: Connection, part: HostShare, day: int, *, limit: int) -> list[tuple[str, int]]:
    """Return the hosts with the most due URLs, with the counts."""
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
    return [(name, due) for name, due in rows]


def next_due_day(connection: Connection, part: HostShare = ALL_HOSTS, *, after: int = -1) -> int | None:
    """Return the first day after `after` on which a URL is due; None when there is none."""
    query = select(urls.c.due_day).where(urls.c.due_day > after, part.condition())
    return connection.execute(query.order_by(urls.c.due_day, urls.c.key).limit(1)).scalar()


class AwaitingLink(NamedTuple):
    """Link whose state is pending until a browser has checked it."""

    url_id: int  # its row
    url: str  # its identity key
    since: datetime  # earliest time of a sufficient browser visit: the last check that required it
    address: str  # the URL for the browser: as a page that has it spells it (A17)


def links_awaiting_browser(connection: Connection, *, limit: int) -> list[AwaitingLink]:
    """Return up to `limit` links that have waited longest."""
    last_check = (
        select(func.max(observations.c.moment))
        .where(observations.c.url_id == urls.c.id, observations.c.how != CheckMethod.BROWSER)
        .correlate(urls)
        .scalar_subquery()
        .label("last_check")
    )
    spelling = (
        select(refs.c.spelling)
        .where(refs.c.url_id == urls.c.id, refs.c.gone_day.is_(None))
        .order_by(refs.c.page)
        .limit(1)
        .scalar_subquery()
        .label("spelling")
    )
    query = (
        select_url_rows()
        .add_columns(last_check, spelling)
        .where(urls.c.opinion_day.is_not(None))
        .order_by(urls.c.opinion_day, urls.c.key)
        .limit(limit)
    )
    links = []
    for row in connection.execute(query):
        url = row_of(row).url
        since = datetime.combine(date_of(row.opinion_day), time(), UTC)
        if row.last_check is not None:
            since = max(since, datetime.fromtimestamp(row.last_check, UTC))
        links.append(AwaitingLink(row.id, url, since, row.spelling or url))
    return links
