"""Shares of the hosts, and the leases that give each share to one checker.

A host belongs to exactly one share, by its bucket (`links.url_parts.bucket_of`).

>>> parse_host_share("2/4"), parse_host_share("1/2").overlaps(parse_host_share("3/4"))
(HostShare(number=2, count=4), True)
>>> parse_host_share("1/2").overlaps(parse_host_share("2/4"))
False

A lease expires unless it is renewed. Every write of its holder checks its fencing token, greater than all before,
in the same transaction (`hold_check_lease`). Clocks may differ by less than the length of a lease.
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
        if self.count == 1:
            return true()
        return urls.c.bucket % self.count == self.number - 1


ALL_HOSTS = HostShare(1, 1)


def parse_host_share(text: str) -> HostShare:
    """Parse a share ``i/n``; InputError when it is none."""
    found = _TEXT.fullmatch(text.strip())
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count <= BUCKETS:
        raise InputError(f"{text[:40]!r} is no part: write i/n, such as 1/4, with i from 1 to n and n up to {BUCKETS}.")
    return HostShare(number, count)


def share_of_bucket(bucket: int) -> HostShare:
    """Return the smallest share: a single bucket."""
    return HostShare(bucket + 1, BUCKETS)


class LeaseHeldError(CollectionInUseError):
    """Refusal of a lease because another checker holds an overlapping share until that time."""

    def __init__(self, wanted: HostShare, lease: "CheckLease", until: int) -> None:
        super().__init__(
            f"Another checker ({lease.holder}) has part {lease.part} of the hosts, so part {wanted} is "
            "not free: wait for it, or give each checker another --part."
        )
        self.holder = lease.holder
        self.fence = lease.fence
        self.until = until


class LeaseLostError(CollectionInUseError):
    """Loss of an expired lease to another checker: no result may be written."""


@dataclass(frozen=True, slots=True)
class CheckLease:
    """Exclusive right to check a share of the hosts."""

    part: HostShare  # the share
    holder: str  # unique name of the checker
    fence: int  # fencing token, greater than any lease's before it

    def condition(self) -> tuple[ColumnElement[bool], ...]:
        """Build the condition for its row."""
        its = {"part": str(self.part), "holder": self.holder, "fence": self.fence}
        return tuple(leases.c[name] == value for name, value in its.items())


def take_check_lease(connection: Connection, part: HostShare, holder: str, *, now: int, length_s: int) -> CheckLease:
    """Claim a lease for the share, else LeaseHeldError; delete expired leases that overlap it."""
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
    connection.execute(insert(leases).values(part=str(part), holder=holder, fence=fence, until=now + length_s))
    return CheckLease(part, holder, fence)


def renew_check_lease(connection: Connection, lease: CheckLease, *, now: int, length_s: int) -> None:
    """Renew the lease from now, even when it expired; LeaseLostError when another checker took it."""
    changed = connection.execute(update(leases).where(*lease.condition()).values(until=now + length_s))
    if changed.rowcount != 1:
        raise LeaseLostError(
            f"Part {lease.part} of the hosts was taken by another checker, because this one was not "
            "heard of for too long: what it found since is not kept."
        )


def hold_check_lease(connection: Connection, lease: CheckLease) -> None:
    """Lock the lease's row until the commit; LeaseLostError when another checker took it."""
    found = connection.execute(select(leases.c.fence).where(*lease.condition()).with_for_update()).first()
    if found is None:
        raise LeaseLostError(f"Part {lease.part} of the hosts was taken by another checker.")


def release_check_lease(connection: Connection, lease: CheckLease) -> None:
    """Release the lease at once, unless another checker holds it."""
    connection.execute(delete(leases).where(*lease.condition()))


def release_all_leases(connection: Connection) -> None:
    """Delete every lease: for a copy of a registry, whose original the holders work on."""
    connection.execute(delete(leases))
