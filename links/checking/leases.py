"""Which checker has which part of the hosts: one alone at any moment, and never a dead one for long.

A lease ends by itself unless it is renewed. Each that is given has a greater fence than all before it,
and everything that its checker writes is written together with a look at that fence (`held`): one that
slept through its lease's end writes nothing any more. The machines' clocks may differ by less than
the length of a lease.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select, text, update

from core.errors import CollectionInUseError
from links.checking.parts import Part, parse_part
from links.store.schema import leases


class LeaseHeldError(CollectionInUseError):
    """Another checker has the part, or one that overlaps it.

    Attributes:
        holder: its name.
        fence: its lease's number.
        until: when its lease ends, if it is not renewed, in seconds since 1970.
    """

    def __init__(self, wanted: Part, lease: "Lease", until: int) -> None:
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
class Lease:
    """The right to look at a part of the hosts.

    Attributes:
        part: of the hosts.
        holder: who has it: a name that no other checker has.
        fence: greater than any lease's before it.
    """

    part: Part
    holder: str
    fence: int


def take(connection: Connection, part: Part, holder: str, *, now: int, length_s: int) -> Lease:
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
        there = Lease(parse_part(row.part), row.holder, row.fence)
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
    return Lease(part, holder, fence)


def renew(connection: Connection, lease: Lease, *, now: int, length_s: int) -> None:
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


def held(connection: Connection, lease: Lease) -> None:
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


def give_back(connection: Connection, lease: Lease) -> None:
    """Let the next one have the part at once; nothing when somebody has it already."""
    connection.execute(
        delete(leases)
        .where(leases.c.part == str(lease.part), leases.c.fence == lease.fence)
        .where(leases.c.holder == lease.holder)
    )


def release_all(connection: Connection) -> None:
    """Remove every lease: for a copy of a registry, whose original the holders work on."""
    connection.execute(delete(leases))
