"""The frontier: which URLs are to be visited, by whom, and not before when.

A host has one slot; a slot says when the host may next be asked. An item waits in a lane of its
host's queue, is claimed under a lease, and ends done or dead: it never leaves the books.

    queued ──claim──> claimed ──complete──> done ──add(again)──> queued
      ^                  │ ╰─────fail──────> dead ──add(again)──> queued
      ╰─retry, release───╯        retry that was the last ──────> dead
        lease ran out

Verbs are synchronous and atomic: each is one transaction of a millisecond or less (a batch takes
longer in proportion), so a worker may call them directly. They may be called from any thread.
`now` is an argument; moments are aware datetimes. A "host" is `core.urls.host_of`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Protocol, Self


class Lane(IntEnum):
    """How urgent an item is; a lower lane's items wait for every host of the higher ones."""

    NOW = 0  # somebody is waiting
    HIGH = 1  # cited a moment ago
    STANDARD = 2


class ItemState(StrEnum):
    """Where an item stands."""

    QUEUED = "queued"  # a retry that waits for its moment included
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"  # the dead letters: attempts used up, or failed for good


@dataclass(frozen=True, slots=True)
class NewItem:
    """A URL to visit.

    Attributes:
        url: a fetch key (`core.urls.fetch_key`).
        lane: how urgent it is.
        hops: links followed from a seed; 0 for a seed.
        via: the URL of the page that links to it; empty for a seed.
    """

    url: str
    lane: Lane = Lane.STANDARD
    hops: int = 0
    via: str = ""


@dataclass(frozen=True, slots=True)
class AddResult:
    """What `Frontier.add` did; the numbers sum up to what it was given.

    Attributes:
        added: URLs that were new.
        duplicates: URLs that were known and left as they were, or only moved to a higher lane.
        requeued: known URLs that were done or dead and are queued again.
    """

    added: int = 0
    duplicates: int = 0
    requeued: int = 0


@dataclass(frozen=True, slots=True)
class FrontierItem:
    """One URL of the frontier, as a claim hands it out.

    Attributes:
        id: the page's identifier, a UUID; a URL that is queued again gets a new one.
        url: what to visit.
        host: whose slot it takes.
        lane: how urgent it is.
        hops: links followed from a seed.
        via: the page that links to it; empty for a seed.
        attempts: claims so far, this one included; released ones do not count.
        token: the claim's fencing token, greater than that of every earlier claim; 0 when the item
            is not claimed.
    """

    id: str
    url: str
    host: str
    lane: Lane
    hops: int
    via: str
    attempts: int
    token: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """A claim that did not complete its item.

    Attributes:
        ending: ``retry``, ``fail``, ``expired`` or ``release``.
        reason: why, as the worker said it.
        worker: who held the claim.
        claimed_at: when it began.
        ended_at: when it ended; for an expired lease, when that was noticed.
    """

    ending: str
    reason: str
    worker: str
    claimed_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """What the books say about an item.

    Attributes:
        item: the item.
        state: where it stands.
        added_at: when it was queued, or queued again.
        ended_at: when it became done or dead; None before.
        outcome: what `Frontier.complete` was told; empty before.
        due_at: a retry's not-before moment; None when it does not wait for one.
        attempts: its claims that did not complete it, oldest first, since it was queued.
    """

    item: FrontierItem
    state: ItemState
    added_at: datetime
    ended_at: datetime | None
    outcome: str
    due_at: datetime | None
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class HostBlock:
    """A host that is left alone until a moment, and why."""

    host: str
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class FrontierStats:
    """Counts, kept up to date by the verbs instead of counted on demand.

    Attributes:
        queued: items that wait, those for their retry included.
        claimed: items being visited; one whose lease ran out counts as queued.
        done: items completed.
        dead: dead letters.
        duplicates: known URLs that were offered again.
        hosts: host slots.
        paused: why claims are paused; None when they are not.
    """

    queued: int
    claimed: int
    done: int
    dead: int
    duplicates: int
    hosts: int
    paused: str | None


class Frontier(Protocol):
    """The contract; every implementation passes the same tests.

    Every verb that ends a claim says whether the claim was still the holder's: after its lease ran
    out and another claim was given, the old holder is refused and nothing changes. A lease that ran
    out but was not given to anybody else is still the holder's.

    Raises:
        TransientError: the store is busy; nothing changed.
        DiskFullError: the store cannot grow; nothing changed.
        UnavailableError: the store cannot be read.
    """

    def add(self, items: Iterable[NewItem], *, now: datetime, again: bool = False) -> AddResult:
        """Queue the URLs that are new by identity key; all of them or, on an error, none.

        Args:
            items: what to add; within one call the first of equal URLs counts.
            now: the moment.
            again: queue known URLs that are done or dead once more, with a new id and fresh
                attempts, and move queued ones to the lane asked for when it is higher.

        Raises:
            BadUrlError: a URL is no web URL.
        """
        ...

    def claim(self, *, now: datetime, worker: str, limit: int = 1) -> list[FrontierItem]:
        """At most `limit` items, each of a host that may be asked now, under leases of `lease_s`.

        Higher lanes first, then the host that waits longest, then the item that waits longest.
        Leases that ran out are queued again first. Empty while paused.
        """
        ...

    def renew(self, item: FrontierItem, *, now: datetime) -> bool:
        """Let the claim's lease run from `now` again; False when the claim is lost: stop work."""
        ...

    def complete(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        outcome: str,
        duration: timedelta | None = None,
    ) -> bool:
        """The item is done; False, and nothing changed, when the claim is lost.

        Args:
            item: as claimed.
            now: when the visit ended; the host's delay counts from here.
            outcome: how it ended, for the books.
            duration: how long the host was busy with it; None: since the claim.
        """
        ...

    def retry(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        reason: str,
        not_before: datetime | None = None,
        duration: timedelta | None = None,
    ) -> ItemState | None:
        """Queue the item for a later attempt, or bury it when it used up its attempts.

        Args:
            item: as claimed.
            now: when the visit ended.
            reason: why it failed, for the books.
            not_before: the earliest moment of the next attempt; None: a delay that doubles.
            duration: as for `complete`.

        Returns:
            QUEUED or DEAD; None, and nothing changed, when the claim is lost.
        """
        ...

    def fail(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        reason: str,
        duration: timedelta | None = None,
    ) -> bool:
        """The item goes to the dead letters at once; False when the claim is lost."""
        ...

    def release(self, item: FrontierItem, *, now: datetime, reason: str = "") -> bool:
        """Give an item back unvisited; it keeps its place and attempts. False: claim is lost."""
        ...

    def block_until(self, host: str, moment: datetime, reason: str, *, now: datetime) -> None:
        """Leave the host alone until `moment`.

        An earlier moment never shortens a block, but one that is not after `now` lifts it.
        """
        ...

    def pause(self, reason: str) -> None:
        """Let nobody claim until `resume`; what is claimed may be finished. Survives restarts."""
        ...

    def resume(self) -> None:
        """End a pause."""
        ...

    def next_wakeup(self, now: datetime) -> datetime | None:
        """When a claim may next succeed if nothing else happens; `now` when it may already.

        None: never, because the frontier is paused or nothing is left. It may be early, never
        late. Other workers may add or complete meanwhile: wait no longer than you can bear.
        """
        ...

    def unfinished(self, now: datetime) -> int:
        """Items that are queued or claimed; 0 when the work is over."""
        ...

    def stats(self, now: datetime) -> FrontierStats:
        """The counts of this moment."""
        ...

    def counts(self) -> dict[ItemState, int]:
        """Items by state; every state is a key."""
        ...

    def ls(self, state: ItemState, *, limit: int = 100) -> Sequence[ItemRecord]:
        """At most `limit` items in that state.

        Queued ones by lane and then those that wait for their moment; claimed ones oldest first;
        done and dead ones latest first.
        """
        ...

    def find(self, url: str) -> ItemRecord | None:
        """What the books say about a URL; None when it was never added.

        Raises:
            BadUrlError: it is no web URL.
        """
        ...

    def blocks(self, *, now: datetime, limit: int = 100) -> Sequence[HostBlock]:
        """At most `limit` hosts that are blocked at `now`, the longest block first."""
        ...

    def close(self) -> None:
        """Give the store back; no verb may be called after."""
        ...

    def __enter__(self) -> Self:
        """The frontier itself, closed at the end of the block."""
        ...

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        ...
