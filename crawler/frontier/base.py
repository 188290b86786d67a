"""Frontier protocol and its values: items, claims, leases, host slots, statistics.

A host has one slot; a slot says when the host may next be asked. An item waits in a lane of its
host's queue, is claimed under a lease, and ends done, skipped or dead: it never leaves the books.

    queued ──claim──> claimed ──complete──> done ────add(again), due──> queued
      ^  │               │ ├─────skip─────> skipped ─add(again)───────> queued
      │  ╰──discard──────┼─┼──────────────> skipped
      ╰─retry, release───╯ ╰─────fail─────> dead ────add(again)───────> queued
        lease ran out              retry that was the last ──────────> dead

**Lanes and shares.** Claims are numbered by their tokens. A claim whose token is a multiple of
`FrontierSettings.standard_every` looks for a host in the order STANDARD, HIGH, NOW; of
`high_every`: HIGH, NOW, STANDARD; any other: NOW, HIGH, STANDARD. A host stands in the lane of its
highest item. From the host that is found the same order decides which of its lanes gives the item,
so a flood in one lane starves neither other hosts nor the host's own lower lanes (U15). 0: never.

**Order.** ``fifo``: of the hosts that may be asked the one that may be asked for longest, of its
lane the item that waits longest. ``random``: new hosts stand in random order, and so do the items of
a lane (W40).

**Hosts.** "Host" means whose turn an item takes: `core.urls.host_of` its URL, or what
`NewItem.host` says, such as the address that several hosts share. A host rests after each visit; a
block keeps it longer; `back_off` blocks it for twice as long each time in a row, and when it cannot
be reached at all it is *down*: its items are then handed out without delay, with `host_down` saying
why, for the worker to end them unvisited (W46). Down ends by itself, and `complete` of an item that
asked the host ends a row of failures.

**Orders and notes** travel through the frontier too, so that they reach every worker on every
machine: an order (a job, a policy entry, a sheet, "stop") raises `FrontierStats.version`, which
workers look at all the time; a note (a host's robots.txt, a heartbeat) does not, and may expire.

**Clocks.** A moment before an earlier one changes nothing that was decided, but nothing waits for
longer than it ever may from *now* on: the next claim cuts rests that end more than `CLOCK_SLACK`
after the longest delay, and leases, back-offs, "down" and retries that end more than `CLOCK_MARGIN`
after their longest. So a clock that jumped ahead and came back delays no item for longer than that.
Blocks by `block_until` and due moments are kept, however far off: somebody chose them. `RedisFrontier` reckons in its server's time, so that machines whose
clocks differ agree.

Verbs are synchronous and atomic: each is one transaction of a millisecond or less (a batch takes
longer in proportion), so a worker may call them directly. They may be called from any thread.
`now` is an argument; moments are aware datetimes. A "host" is `core.urls.host_of`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Protocol, Self

CLOCK_SLACK = timedelta(seconds=60)
# For leases and waits, whose limits depend on settings: other processes may have other settings.
CLOCK_MARGIN = timedelta(hours=1)


class Lane(IntEnum):
    """How urgent an item is; see "Lanes and shares" above."""

    NOW = 0  # somebody is waiting
    HIGH = 1  # cited a moment ago, or due again
    STANDARD = 2  # the big crawl


class ItemState(StrEnum):
    """Where an item stands."""

    QUEUED = "queued"  # a retry that waits for its moment included
    CLAIMED = "claimed"
    DONE = "done"
    SKIPPED = "skipped"  # not to be visited: policy, scope, budget, or an operator said so
    DEAD = "dead"  # the dead letters: attempts used up, or failed for good


@dataclass(frozen=True, slots=True)
class NewItem:
    """A URL to visit.

    Attributes:
        url: a fetch key (`core.urls.fetch_key`).
        lane: how urgent it is.
        hops: links followed from a seed; 0 for a seed.
        hops_off: of these, links followed since the job's scope was left.
        via: the URL of the page that links to it; empty for a seed.
        job: the crawl that it belongs to; empty for a plain list.
        host: whose turn it takes; empty: `core.urls.host_of` the URL.
    """

    url: str
    lane: Lane = Lane.STANDARD
    hops: int = 0
    via: str = ""
    job: str = ""
    hops_off: int = 0
    host: str = ""


@dataclass(frozen=True, slots=True)
class AddResult:
    """What `Frontier.add` did; the numbers sum up to what it was given.

    Attributes:
        added: URLs that were new.
        duplicates: URLs that were known and left as they were, or only moved to a higher lane.
        requeued: known URLs that had ended and are queued again.
    """

    added: int = 0
    duplicates: int = 0
    requeued: int = 0

    def __add__(self, other: "AddResult") -> "AddResult":
        """Return the sum, for what is added in several parts."""
        return AddResult(
            self.added + other.added,
            self.duplicates + other.duplicates,
            self.requeued + other.requeued,
        )


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
        job: the crawl that it belongs to; empty for a plain list.
        hops_off: links followed since the job's scope was left.
        memo: what the last `Frontier.complete` of this URL wanted to be remembered.
        host_down: why the host cannot be reached: end the item unvisited; empty when it can.
    """

    id: str
    url: str
    host: str
    lane: Lane
    hops: int
    via: str
    attempts: int
    token: int = 0
    job: str = ""
    hops_off: int = 0
    memo: str = ""
    host_down: str = ""


@dataclass(frozen=True, slots=True)
class ClaimAttempt:
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
        ended_at: when it became done, skipped or dead; None before.
        outcome: what `complete`, or the reason that `skip`, `fail` or `retry` was told; empty before.
        due_at: the not-before moment of a queued item, or when a done one is queued again; None when
            it does not wait for one.
        worker: who holds the claim; empty when it is not claimed.
        lease_until: when the claim's lease runs out; None when it is not claimed.
        attempts: its claims that did not complete it, oldest first, since it was queued.
        claimed_at: when the claim began; None when it is not claimed.
    """

    item: FrontierItem
    state: ItemState
    added_at: datetime
    ended_at: datetime | None
    outcome: str
    due_at: datetime | None
    attempts: tuple[ClaimAttempt, ...]
    worker: str = ""
    lease_until: datetime | None = None
    claimed_at: datetime | None = None


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
        skipped: items that were not to be visited.
        dead: dead letters.
        later: of the queued ones, those that wait for their not-before moment.
        due: of the done ones, those that will be queued again by themselves.
        duplicates: known URLs that were offered again.
        hosts: host slots.
        bytes: what `complete` was told was stored.
        version: grows with every order given or taken back.
        paused: why claims are paused; None when they are not.
    """

    queued: int
    claimed: int
    done: int
    skipped: int
    dead: int
    later: int
    due: int
    duplicates: int
    hosts: int
    bytes: int
    version: int
    paused: str | None


@dataclass(frozen=True, slots=True)
class JobCounts:
    """The same for one job's items.

    Attributes:
        queued, claimed, done, skipped, dead: items, as in `FrontierStats`.
        bytes: what its completed items stored.
        began_at: when its first item was added; None when it has none.
    """

    queued: int
    claimed: int
    done: int
    skipped: int
    dead: int
    bytes: int
    began_at: datetime | None


@dataclass(frozen=True, slots=True)
class HostReport:
    """One host's slot.

    Attributes:
        host: its name.
        waiting: items in its queues; those that wait for their moment excluded.
        active: claims of it right now.
        ready_at: when it may be asked again.
        done: items completed.
        bytes: what they stored.
        busy: how long visits have kept it busy, in all.
        mean: how long a visit takes lately (each new one counts a fifth).
        failures: times that `back_off` was called in a row.
        blocked_until: None when it is not blocked.
        blocked_reason: why; also why it is down.
        down_until: None when it is not down.
    """

    host: str
    waiting: int
    active: int
    ready_at: datetime
    done: int
    bytes: int
    busy: timedelta
    mean: timedelta
    failures: int
    blocked_until: datetime | None
    blocked_reason: str
    down_until: datetime | None


class HostOrder(StrEnum):
    """Which hosts `Frontier.hosts` tells first."""

    SLOWEST = "slowest"  # by `HostReport.mean`
    LONGEST = "longest"  # by `HostReport.waiting`


@dataclass(frozen=True, slots=True)
class MinuteCounts:
    """What ended in one minute."""

    begins_at: datetime
    done: int
    skipped: int
    dead: int
    bytes: int


class Frontier(Protocol):
    """The contract; every implementation passes the same tests.

    Every verb that ends a claim says whether the claim was still the holder's: after its lease ran
    out and another claim was given, the old holder is refused and nothing changes. A lease that ran
    out but was not given to anybody else is still the holder's.

    They also say how the host was used: `duration` is how long it was kept busy (None: since the
    claim); `delay` is how long it rests from `now` on (None: `politeness.host_delay` of the
    duration). A zero delay means that the host was not asked at all: its rest, its failures and its
    statistics stay as they are.

    Raises:
        TransientError: the store is busy, or does not answer for the moment; the verb may be called
            again (it may have taken effect).
        DiskFullError: the store cannot grow; nothing changed.
        UnavailableError: the store cannot be used.
    """

    def add(
        self, items: Iterable[NewItem], *, now: datetime, again: timedelta | None = None
    ) -> AddResult:
        """Queue the URLs that are new by identity key; all of them or, on an error, none.

        Args:
            items: what to add; within one call the first of equal URLs counts.
            now: the moment.
            again: queue known URLs that ended at least so long ago once more (zero: all that
                ended; A02), with a new id and fresh attempts, as the new item says, their memo
                kept; and move queued and claimed ones to the lane asked for when it is higher.
                None: leave known ones alone.

        Raises:
            BadUrlError: a URL is no web URL.
        """
        ...

    def claim(self, *, now: datetime, worker: str, limit: int = 1) -> list[FrontierItem]:
        """At most `limit` items, each of a host that may be asked now, under leases of `lease_s`.

        For the order see the module. Leases that ran out, retries whose moment has come and done
        items that are due (they come in lane HIGH, with a new id and fresh attempts) are queued
        first, some thousand at most a call. Empty while paused.
        """
        ...

    def renew(self, item: FrontierItem, *, now: datetime) -> bool:
        """Let the claim's lease run from `now` again; False when the claim is lost: stop work."""
        ...

    def complete(  # noqa: PLR0913 each is a fact of its own
        self,
        item: FrontierItem,
        *,
        now: datetime,
        outcome: str,
        duration: timedelta | None = None,
        delay: timedelta | None = None,
        stored_bytes: int = 0,
        due: datetime | None = None,
        memo: str = "",
    ) -> bool:
        """The item is done; False, and nothing changed, when the claim is lost.

        Args:
            item: as claimed.
            now: when the visit ended.
            outcome: how it ended, for the books.
            duration: see the class.
            delay: see the class.
            stored_bytes: what it added to the archive.
            due: when it is to be queued again by itself; None: never.
            memo: comes back with the URL's next claim.
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
        delay: timedelta | None = None,
    ) -> ItemState | None:
        """Queue the item for a later attempt, or bury it when it used up its attempts.

        Args:
            item: as claimed.
            now: when the visit ended.
            reason: why it failed, for the books.
            not_before: the earliest moment of the next attempt; None: a delay that doubles.
            duration: see the class.
            delay: see the class.

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
        delay: timedelta | None = None,
    ) -> bool:
        """The item goes to the dead letters at once; False when the claim is lost."""
        ...

    def skip(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        reason: str,
        duration: timedelta | None = None,
        delay: timedelta | None = None,
    ) -> bool:
        """The item is not to be visited, and why; False when the claim is lost."""
        ...

    def release(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        reason: str = "",
        not_before: datetime | None = None,
    ) -> bool:
        """Give an item back unvisited; it keeps its place and attempts. False: claim is lost.

        With `not_before` it waits for that moment first. The host is not made to rest.
        """
        ...

    def discard(self, urls: Iterable[str], *, now: datetime, reason: str) -> int:
        """Let queued items, waiting ones included, be SKIPPED; how many were.

        Items in another state and unknown URLs stay as they are; a done item that was due again
        stays done and is no longer due, and counts, too.
        """
        ...

    def rest(self, hosts: Mapping[str, datetime], *, now: datetime) -> None:
        """These hosts were asked by the way: not again before that moment. Unknown ones are left."""
        ...

    def block_until(self, host: str, moment: datetime, reason: str, *, now: datetime) -> None:
        """Leave the host alone until `moment`.

        An earlier moment never shortens a block, but one that is not after `now` lifts it, ends
        "down" and a row of failures. A host without a slot gets one.
        """
        ...

    def back_off(
        self,
        host: str,
        reason: str,
        *,
        now: datetime,
        at_least: datetime | None = None,
        down: bool = False,
    ) -> datetime:
        """The host as a whole failed or refused us: block it, twice as long each time in a row.

        Args:
            host: its name; one without a slot gets one.
            reason: why.
            now: when.
            at_least: a moment that it named (Retry-After), which holds when it is later.
            down: it could not be reached at all. After `politeness.host_failures` failures in a
                row, of which this is the last, it is down for `politeness.host_down_s`: the block
                is lifted, and its items come with `host_down`.

        Returns:
            Until when it is blocked, or down.
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

        None: never, because the frontier is paused or nothing is left or due. It may be early,
        never late. Other workers may add or complete meanwhile: wait no longer than you can bear.
        """
        ...

    def unfinished(self, now: datetime) -> int:
        """Items that are queued or claimed; 0 when the work is over. Future due ones do not count."""
        ...

    def stats(self, now: datetime) -> FrontierStats:
        """The counts of this moment."""
        ...

    def counts(self) -> dict[ItemState, int]:
        """Items by state; every state is a key."""
        ...

    def job_counts(self, job: str) -> JobCounts:
        """The counts of one job; zeros for one that is unknown. A lost lease counts as claimed."""
        ...

    def minutes(self, now: datetime, *, count: int = 60) -> Sequence[MinuteCounts]:
        """What ended in each of the last `count` (at most 60) minutes, oldest first, gaps filled.

        The last one is the current, unfinished minute.
        """
        ...

    def ls(
        self, state: ItemState, *, limit: int = 100, host: str | None = None
    ) -> Sequence[ItemRecord]:
        """At most `limit` items in that state, of one host or of all.

        Queued ones by lane and then those that wait for their moment; claimed ones oldest first;
        done, skipped and dead ones latest first.
        """
        ...

    def scan(
        self, state: ItemState, *, cursor: str = "", limit: int = 1000
    ) -> tuple[Sequence[ItemRecord], str]:
        """Some items in that state and the cursor of the next call; it is empty after the last.

        In no order. An item that is in the state from the first call to the last is told at least
        once. A call may tell fewer than `limit`, also none, before the last.
        """
        ...

    def find(self, url: str) -> ItemRecord | None:
        """What the books say about a URL; None when it was never added.

        Raises:
            BadUrlError: it is no web URL.
        """
        ...

    def find_all(self, urls: Sequence[str]) -> list[ItemRecord | None]:
        """What `find` says of each of the URLs, in their order; hundreds at once cost little more.

        Raises:
            BadUrlError: one of them is no web URL.
        """
        ...

    def blocks(self, *, now: datetime, limit: int = 100) -> Sequence[HostBlock]:
        """At most `limit` hosts that are blocked at `now`, the longest block first."""
        ...

    def host(self, host: str, *, now: datetime) -> HostReport | None:
        """One host's slot; None when it has none."""
        ...

    def hosts(self, order: HostOrder, *, now: datetime, limit: int = 20) -> Sequence[HostReport]:
        """At most `limit` hosts, the slowest, or those with the longest queues, first."""
        ...

    def give_order(self, kind: str, key: str, value: str) -> int:
        """Keep an order of that kind under that key, in place of an earlier one; the new version."""
        ...

    def take_back(self, kind: str, key: str) -> bool:
        """Forget an order, which raises the version; False when there was none."""
        ...

    def orders(self, kind: str) -> dict[str, str]:
        """The orders of that kind by key, in the order of keys."""
        ...

    def put_note(
        self, kind: str, key: str, value: str, *, now: datetime, until: datetime | None = None
    ) -> None:
        """Keep a note in place of an earlier one, until that moment (None: for ever)."""
        ...

    def note(self, kind: str, key: str, *, now: datetime) -> str | None:
        """The note; None when there is none or its moment is over."""
        ...

    def notes(self, kind: str, *, now: datetime) -> dict[str, str]:
        """The notes of that kind that hold, by key; for kinds with few notes."""
        ...

    def erase_note(self, kind: str, key: str) -> None:
        """Forget a note."""
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
