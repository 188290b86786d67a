"""A host's slot: how much waits for the host, and when it may next be asked. Pure."""

from typing import NamedTuple

from core.errors import InvariantError
from crawler.frontier.base import Lane

# Items are numbered as they come, and queues are kept by epochs of 2^16 numbers: additions then
# touch a small young part of the store instead of every host's own page in a large one.
EPOCH_BITS = 16

_Lanes = tuple[int, int, int]
_LANES = tuple(Lane)


def epoch_of(seq: int) -> int:
    """The epoch of the item with that number."""
    return seq >> EPOCH_BITS


class HostSlot(NamedTuple):
    """The slot as stored; moments are whole milliseconds since 1970 UTC.

    Attributes:
        id: the host's number.
        next_ms: when the delay after the last visit is over.
        blocked_ms: when the block is over.
        active: claims of this host right now.
        waiting: items in the queue, by lane; those that wait for a retry excluded.
        heads: by lane, an epoch before which none of them lies.
        lane: the lane that the host stands for; None while it cannot be claimed from, whatever
            the time: nothing waits, or as many visits as allowed are going on.
        ready_ms: when it may be asked again.
    """

    id: int
    next_ms: int = 0
    blocked_ms: int = 0
    active: int = 0
    waiting: _Lanes = (0, 0, 0)
    heads: _Lanes = (0, 0, 0)
    lane: int | None = None
    ready_ms: int = 0

    @property
    def top_lane(self) -> Lane | None:
        """The highest lane that something waits in."""
        for lane, count in zip(_LANES, self.waiting, strict=True):
            if count:
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

    def freed(self, next_ms: int) -> "HostSlot":
        """After a claim ended; the host is left alone until `next_ms` at least."""
        if self.active < 1:
            raise InvariantError(f"Host {self.id} was freed more often than taken.")
        return self._replace(active=self.active - 1, next_ms=max(self.next_ms, next_ms))

    def blocked(self, until_ms: int, now_ms: int) -> "HostSlot":
        """Blocked until then; an earlier moment does not shorten a block, a past one lifts it."""
        longer = until_ms <= now_ms or until_ms > self.blocked_ms
        return self._replace(blocked_ms=until_ms) if longer else self

    def settled(self, visits_per_host: int) -> "HostSlot":
        """With `lane` and `ready_ms` made to say what the rest says."""
        lane = self.top_lane if self.active < max(visits_per_host, 1) else None
        ready_ms = max(self.next_ms, self.blocked_ms)
        if (lane, ready_ms) == (self.lane, self.ready_ms):
            return self
        return self._replace(lane=lane, ready_ms=ready_ms)


def _with(lanes: _Lanes, lane: Lane, value: int) -> _Lanes:
    now, high, standard = lanes
    match lane:
        case Lane.NOW:
            return value, high, standard
        case Lane.HIGH:
            return now, value, standard
        case Lane.STANDARD:
            return now, high, value
