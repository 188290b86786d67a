"""A host's slot: how much waits for the host, and when it may next be asked. Pure."""

from typing import NamedTuple

from core.errors import InvariantError
from crawler.frontier.base import Lane

# Items are numbered as they come, and queues are kept by epochs of 2^16 numbers: additions then
# touch a small young part of the store instead of every host's own page in a large one.
EPOCH_BITS = 16

_Lanes = tuple[int, int, int]
_LANES = tuple(Lane)
_STANDARD_FIRST = (Lane.STANDARD, Lane.HIGH, Lane.NOW)
_HIGH_FIRST = (Lane.HIGH, Lane.NOW, Lane.STANDARD)


def epoch_of(seq: int, place: int = 0) -> int:
    """The epoch of the item with that number; items with a place of their own share the first."""
    return 0 if place else seq >> EPOCH_BITS


def lane_order(token: int, *, high_every: int, standard_every: int) -> tuple[Lane, ...]:
    """In which order the claim with that token looks at the lanes (U15)."""
    if standard_every and token % standard_every == 0:
        return _STANDARD_FIRST
    if high_every and token % high_every == 0:
        return _HIGH_FIRST
    return _LANES


class HostSlot(NamedTuple):
    """The slot as stored; moments are whole milliseconds since 1970 UTC.

    Attributes:
        id: the host's number.
        next_ms: when the delay after the last visit is over.
        blocked_ms: when the block is over.
        down_ms: when the host is no longer down; 0 when it is not. A moment that has come means
            that nobody noticed yet: see `revived`.
        refusals: how often in a row it failed or refused us as a whole.
        active: claims of this host right now.
        waiting: items in the queue, by lane; those that wait for their moment excluded.
        heads: by lane, an epoch before which none of them lies.
        lane: the lane that the host stands for; None while it cannot be claimed from, whatever
            the time: nothing waits, or as many visits as allowed are going on.
        ready_ms: when it may be asked again; a host that is down need not rest.
        size: how much waits, as the number's length in bits: changes seldom, so it has an index.
    """

    id: int
    next_ms: int = 0
    blocked_ms: int = 0
    down_ms: int = 0
    refusals: int = 0
    active: int = 0
    waiting: _Lanes = (0, 0, 0)
    heads: _Lanes = (0, 0, 0)
    lane: int | None = None
    ready_ms: int = 0
    size: int = 0

    def first_lane(self, order: tuple[Lane, ...] = _LANES) -> Lane | None:
        """The first of these lanes that something waits in."""
        for lane in order:
            if self.waiting[lane]:
                return lane
        return None

    def pushed(self, lane: Lane, epoch: int, count: int = 1) -> "HostSlot":
        """After `count` items joined the lane, none from before that epoch."""
        head = min(self.heads[lane], epoch) if self.waiting[lane] else epoch
        return self._replace(
            waiting=_with(self.waiting, lane, self.waiting[lane] + count),
            heads=_with(self.heads, lane, head),
        )

    def pulled(self, lane: Lane, head: int) -> "HostSlot":
        """After one item left the lane; `head` is the new lower bound of its epochs."""
        if self.waiting[lane] < 1:
            raise InvariantError(f"Host {self.id} gave an item of lane {lane}, which was empty.")
        return self._replace(
            waiting=_with(self.waiting, lane, self.waiting[lane] - 1),
            heads=_with(self.heads, lane, head),
        )

    def taken(self) -> "HostSlot":
        """After a claim began."""
        return self._replace(active=self.active + 1)

    def freed(self) -> "HostSlot":
        """After a claim ended."""
        if self.active < 1:
            raise InvariantError(f"Host {self.id} was freed more often than taken.")
        return self._replace(active=self.active - 1)

    def rested(self, next_ms: int) -> "HostSlot":
        """Left alone until `next_ms` at least."""
        return self._replace(next_ms=max(self.next_ms, next_ms))

    def blocked(self, until_ms: int, now_ms: int) -> "HostSlot":
        """Blocked until then; an earlier moment does not shorten a block.

        A moment that is not after `now_ms` lifts it, and ends "down" and a row of refusals.
        """
        if until_ms <= now_ms:
            return self._replace(blocked_ms=0, down_ms=0, refusals=0)
        return self._replace(blocked_ms=until_ms) if until_ms > self.blocked_ms else self

    def refused(self, until_ms: int) -> "HostSlot":
        """After one more refusal in a row, blocked until then at least: it answered, so it is up."""
        return self._replace(
            blocked_ms=max(until_ms, self.blocked_ms), refusals=self.refusals + 1, down_ms=0
        )

    def downed(self, until_ms: int) -> "HostSlot":
        """After the refusal that made it be down until then at least; the block is lifted."""
        return self._replace(
            blocked_ms=0, refusals=self.refusals + 1, down_ms=max(until_ms, self.down_ms)
        )

    def answered(self) -> "HostSlot":
        """After a visit that was completed: the host is up, and a row of refusals is over."""
        return self._replace(down_ms=0, refusals=0)

    def revived(self) -> "HostSlot":
        """No longer down."""
        return self._replace(down_ms=0)

    @property
    def _rested_ms(self) -> int:
        # In random order a new host's moment is below zero, which is "not blocked" otherwise.
        return max(self.next_ms, self.blocked_ms) if self.blocked_ms else self.next_ms

    def settled(self, visits_per_host: int) -> "HostSlot":
        """With `lane`, `ready_ms` and `size` made to say what the rest says."""
        return self._replace(
            lane=self.first_lane() if self.active < max(visits_per_host, 1) else None,
            ready_ms=self.blocked_ms if self.down_ms else self._rested_ms,
            size=sum(self.waiting).bit_length(),
        )


def _with(lanes: _Lanes, lane: Lane, value: int) -> _Lanes:
    now, high, standard = lanes
    match lane:
        case Lane.NOW:
            return value, high, standard
        case Lane.HIGH:
            return now, value, standard
        case Lane.STANDARD:
            return now, high, value
