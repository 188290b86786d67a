"""Shares of the hosts, and the leases that give each share to one checker.

A host is in one part alone, by its bucket (`links.url_parts.bucket_of`), so that checkers on several
machines never ask one host at the same time.

>>> parse_host_share("2/4"), parse_host_share("1/2").overlaps(parse_host_share("3/4"))
(Part(number=2, count=4), True)
>>> parse_host_share("1/2").overlaps(parse_host_share("2/4"))
False

A lease ends by itself unless it is renewed. Each that is given has a greater fence than all before it,
and everything that its checker writes is written together with a look at that fence (`hold_check_lease`): one that
slept through its lease's end writes nothing any more. The machines' clocks may differ by less than
the length of a lease.
"""

import re
from dataclasses import dataclass
from math import gcd

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, text, true, update

from core.errors import CollectionInUseError, InputError
from links.registry.schema import leases, urls
from links.url_parts import BUCKETS

_TEXT = re.compile(r"(\d{1,4})/(\d{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class HostShare:
    """Which share of the hosts: those whose bucket leaves ``number - 1`` when divided by ``count``."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, bucket: int) -> bool:
        """Whether hosts of that bucket are in it."""
        return bucket % self.count == self.number - 1

    def overlaps(self, other: "HostShare") -> bool:
        """Whether there are buckets that both have (Chinese remainders)."""
        return (self.number - other.number) % gcd(self.count, other.count) == 0

    def condition(self) -> ColumnElement[bool]:
        """Rows of `links.registry.schema.urls` that are in it."""
        if self.count == 1:
            return true()
        return urls.c.bucket % self.count == self.number - 1


ALL_HOSTS = HostShare(1, 1)


def parse_host_share(text: str) -> HostShare:
    """The part that ``i/n`` names.

    Raises:
        InputError: it names none.
    """
    found = _TEXT.fullmatch(text.strip())
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count <= BUCKETS:
        raise InputError(
            f"{text[:40]!r} is no part: write i/n, such as 1/4, with i from 1 to n and n up to {BUCKETS}."
        )
    return HostShare(number, count)


def share_of_bucket(bucket: int) -> HostShare:
    """The smallest part there is: one bucket's."""
    return HostShare(bucket + 1, BUCKETS)


class LeaseHeldError(CollectionInUseError):
    """Another checker has the part, or one that overlaps it.

    Attributes:
        holder: its name.
        fence: its lease's number.
        until: when its lease ends, if it is not renewed, in seconds since 1970.
    """

    def __init__(self, wanted: HostShare, lease: "CheckLease", until: int) -> None:
        super().__init__(
            f"Another checker ({lease.holder}) has part {lease.part} of the hosts, so part {wanted} is "
            "not free: wait for it, or give each checker another --part."
        )
        self.holder = lease.holder
        self.fence = lease.fence
        self.until = until


class LeaseLostError(CollectionInUseError):
    """Our lease ended and another checker has the part: nothing of what we found may be written."""


@dataclass(frozen=True, slots=True)
class CheckLease:
    """The right to look at a part of the hosts.

    Attributes:
        part: of the hosts.
        holder: who has it: a name that no other checker has.
        fence: greater than any lease's before it.
    """

    part: HostShare
    holder: str
    fence: int


def take_check_lease(
    connection: Connection, part: HostShare, holder: str, *, now: int, length_s: int
) -> CheckLease:
    """A lease for the part. Leases that are over and in its way are removed.

    Args:
        connection: one that writes.
        part: which hosts.
        holder: who asks.
        now: seconds since 1970.
        length_s: how long it holds unless it is renewed.

    Raises:
        LeaseHeldError: somebody has the part, or one that overlaps it.
    """
    if connection.dialect.name == "postgresql":
        # Two that look at the same moment would both see a free part.
        connection.execute(text("LOCK TABLE link_leases IN SHARE ROW EXCLUSIVE MODE"))
    for row in connection.execute(select(leases)).all():
        there = CheckLease(parse_host_share(row.part), row.holder, row.fence)
        if not there.part.overlaps(part) or there.holder == holder:
            continue
        if row.until > now:
            raise LeaseHeldError(part, there, row.until)
        connection.execute(delete(leases).where(leases.c.part == row.part))
    highest = connection.execute(select(func.max(leases.c.fence))).scalar_one()
    # Past what any removed lease can have had: the clock goes on where numbers were forgotten.
    fence = max((highest or 0) + 1, now)
    connection.execute(delete(leases).where(leases.c.part == str(part)))
    connection.execute(
        insert(leases).values(part=str(part), holder=holder, fence=fence, until=now + length_s)
    )
    return CheckLease(part, holder, fence)


def renew_check_lease(
    connection: Connection, lease: CheckLease, *, now: int, length_s: int
) -> None:
    """Let the lease hold for so long from now. One that ended, but that nobody took, goes on.

    Raises:
        LeaseLostError: somebody took it.
    """
    changed = connection.execute(
        update(leases)
        .where(leases.c.part == str(lease.part), leases.c.fence == lease.fence)
        .where(leases.c.holder == lease.holder)
        .values(until=now + length_s)
    )
    if changed.rowcount != 1:
        raise LeaseLostError(
            f"Part {lease.part} of the hosts was taken by another checker, because this one was not "
            "heard of for too long: what it found since is not kept."
        )


def hold_check_lease(connection: Connection, lease: CheckLease) -> None:
    """Hold the lease's row until the connection's changes are kept, so that nobody takes it before.

    Raises:
        LeaseLostError: somebody took it already.
    """
    found = connection.execute(
        select(leases.c.fence)
        .where(leases.c.part == str(lease.part), leases.c.fence == lease.fence)
        .where(leases.c.holder == lease.holder)
        .with_for_update()
    ).first()
    if found is None:
        raise LeaseLostError(f"Part {lease.part} of the hosts was taken by another checker.")


def release_check_lease(connection: Connection, lease: CheckLease) -> None:
    """Let the next one have the part at once; nothing when somebody has it already."""
    connection.execute(
        delete(leases)
        .where(leases.c.part == str(lease.part), leases.c.fence == lease.fence)
        .where(leases.c.holder == lease.holder)
    )


def release_all_leases(connection: Connection) -> None:
    """Remove every lease: for a copy of a registry, whose original the holders work on."""
    connection.execute(delete(leases))
