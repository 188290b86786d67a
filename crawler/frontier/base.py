"""Frontier protocol and its values: items, claims, leases, host slots, statistics.

    queued ──claim──> claimed ──complete──> done ────add(again), due──> queued
      ^  │               │ ├─────skip─────> skipped ─add(again)───────> queued
      │  ╰──discard──────┼─┼──────────────> skipped
      ╰─retry, release───╯ ╰─────fail─────> dead ────add(again)───────> queued
        lease ran out              retry that was the last ──────────> dead

Lanes, order, delays, blocks and clocks that are put back: docs/explanation/frontier.md. A "host" is the slot key of an
item: `core.urls.host_of` its URL, or `NewItem.host`, such as an address that several hosts share. The items of one that
is *down* are handed out without delay, with the reason in `host_down`, for the worker to end them unvisited (W46).

Orders (a job, a policy entry, a sheet, "stop") and notes (a host's robots.txt, a heartbeat) reach every worker on every
machine: an order raises `FrontierStats.version`, which workers poll; a note does not, and may expire.

Methods are synchronous and atomic, for any thread: each is one transaction of a millisecond or less (a batch takes
longer in proportion), so a worker may call them directly. Moments are aware datetimes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from itertools import dropwhile
from typing import NamedTuple, Protocol, Self, TypedDict, Unpack

AFFINITY_HOSTS = 16  # while more of a lane are ready, those visited last come first: their browser contexts are kept
# An expired lease indicates a dead worker, not a bad page, so it counts less than a
# failure; but a page that kills every worker must not be handed out forever.
CLAIMS_PER_ATTEMPT = 3
CLOCK_SLACK = timedelta(seconds=60)
# For leases and waits, whose limits depend on settings: other processes may have other settings.
CLOCK_MARGIN = timedelta(hours=1)
# Kinds of orders; the key of a job's is its name, that of a repair the identity key of its URL. The value "now" of
# a stop ends visits at once.
JOB_ORDER, STOP_ORDER, POLICY_ORDER, REPAIR_ORDER = "job", "stop", "policy", "repair"
PROXY_SERVICE, WORKER_SERVICE = "proxy", "worker"  # kinds of notes: the services of a cluster announce themselves


class Lane(IntEnum):
    """Priority of an item; see "Lanes and shares" above."""

    NOW = 0  # a user is waiting
    HIGH = 1  # cited a moment ago, or due again
    STANDARD = 2  # the big crawl


class ItemState(StrEnum):
    """State of an item."""

    QUEUED = "queued"  # a retry that waits for its moment included
    CLAIMED = "claimed"
    DONE = "done"
    SKIPPED = "skipped"  # not to be visited, by policy, scope, budget, or an operator
    DEAD = "dead"  # the dead letters: attempts used up, or failed for good


@dataclass(frozen=True, slots=True)
class NewItem:
    """URL to add."""

    url: str  # a fetch key (`core.urls.fetch_key`)
    lane: Lane = Lane.STANDARD  # its priority
    hops: int = 0  # links followed from a seed; 0 for a seed
    via: str = ""  # the URL of the page that links to it; empty for a seed
    job: str = ""  # the crawl that it belongs to; empty for a plain list
    hops_off: int = 0  # of these, links followed since the job's scope was left
    host: str = ""  # its slot key; empty: `core.urls.host_of` the URL


@dataclass(frozen=True, slots=True)
class AddResult:
    """Counts of one `Frontier.add`; they sum up to the number of items passed."""

    added: int = 0  # URLs that were new
    duplicates: int = 0  # known URLs that were left as they were, or only moved to a higher lane
    requeued: int = 0  # known URLs that had ended and are queued again

    def __add__(self, other: "AddResult") -> "AddResult":
        """Return the sum of two results."""
        return AddResult(self.added + other.added, self.duplicates + other.duplicates, self.requeued + other.requeued)


@dataclass(frozen=True, slots=True)
class FrontierItem:
    """Item of the frontier, as a claim returns it."""

    id: str  # the page's identifier, a UUID; a URL that is queued again gets a new one
    url: str  # the URL to visit
    host: str  # its slot key
    lane: Lane  # its priority
    hops: int  # links followed from a seed
    via: str  # the page that links to it; empty for a seed
    attempts: int  # claims so far, this one included; released ones do not count
    token: int = 0  # of the claim, greater than those of earlier claims; 0: not claimed
    job: str = ""  # the crawl that it belongs to; empty for a plain list
    hops_off: int = 0  # links followed since the job's scope was left
    memo: str = ""  # the memo of the URL's last `Frontier.complete`
    host_down: str = ""  # why the host cannot be reached: end the item unvisited; empty when it can


@dataclass(frozen=True, slots=True)
class ClaimAttempt:
    """Claim that did not complete its item."""

    ending: str  # ``retry``, ``fail``, ``expired`` or ``release``
    reason: str  # the worker's reason
    worker: str  # the claim's holder
    claimed_at: datetime  # when it began
    ended_at: datetime  # when it ended; for an expired lease, when that was noticed


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """Stored record of an item."""

    item: FrontierItem
    state: ItemState
    added_at: datetime  # when it was queued, or queued again
    ended_at: datetime | None  # when it became done, skipped or dead; None before
    outcome: str  # of `complete`, or the reason of `skip`, `fail` or `retry`; empty before
    due_at: datetime | None  # queued: not before; done: queued again then
    attempts: tuple[ClaimAttempt, ...]  # claims that did not complete it, oldest first
    worker: str = ""  # the claim's holder; empty when it is not claimed
    lease_until: datetime | None = None  # end of the claim's lease; None when not claimed
    claimed_at: datetime | None = None  # when the claim began; None when it is not claimed


@dataclass(frozen=True, slots=True)
class HostBlock:
    """Block of a host until a moment, with its reason."""

    host: str
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class FrontierStats:
    """Counts of the frontier, updated by each method instead of counted on demand."""

    queued: int  # items that wait, those for their retry included
    claimed: int  # items being visited; one whose lease ran out counts as queued
    done: int  # items completed
    skipped: int  # items that were not to be visited
    dead: int  # dead letters
    later: int  # of the queued ones, those that wait for their not-before moment
    due: int  # of the done ones, those that will be queued again by themselves
    duplicates: int  # known URLs that were added again
    hosts: int  # host slots
    bytes: int  # sum of `stored_bytes` of all `complete` calls
    version: int  # grows with every order stored or deleted
    paused: str | None  # why claims are paused; None when they are not


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Counts of one job's items."""

    queued: int  # items, as in `FrontierStats`
    claimed: int
    done: int
    skipped: int
    dead: int
    bytes: int  # stored bytes of its completed items
    began_at: datetime | None  # when its first item was added; None when it has none


@dataclass(frozen=True, slots=True)
class HostReport:
    """State and statistics of one host's slot."""

    host: str  # its name
    waiting: int  # items in its queues, without those that wait for their moment
    active: int  # its current claims
    ready_at: datetime  # the earliest moment of the next visit
    done: int  # items completed
    bytes: int  # their stored bytes
    busy: timedelta  # total duration of visits
    mean: timedelta  # mean visit duration (exponential, weight of a new one 1/5)
    failures: int  # calls of `back_off` in a row
    blocked_until: datetime | None  # None when it is not blocked
    blocked_reason: str  # why it is blocked or down
    down_until: datetime | None  # None when it is not down


class HostOrder(StrEnum):
    """Sort order of `Frontier.hosts`."""

    SLOWEST = "slowest"  # by `HostReport.mean`
    LONGEST = "longest"  # by `HostReport.waiting`


MINIMUM_RATE_WINDOW_S = 30.0  # shortest window of a meaningful rate


@dataclass(frozen=True, slots=True)
class MinuteCounts:
    """Counts of items that ended in one minute."""

    begins_at: datetime
    done: int
    skipped: int
    dead: int
    bytes: int


def ended_in(minute: MinuteCounts) -> int:
    """Count the pages that ended in the minute, with any outcome."""
    return minute.done + minute.skipped + minute.dead


def pages_per_minute(minutes: Sequence[MinuteCounts], window: int, *, now: datetime) -> float:
    """Return ended pages per minute over the last `window` minutes and the current one; half a crawl's first."""
    last_minutes = minutes[-(window + 1) :]
    recent = list(dropwhile(lambda minute: not ended_in(minute), last_minutes))
    if not recent:
        return 0.0
    began_before = len(recent) == len(last_minutes)
    begin = recent[0].begins_at + timedelta(seconds=0 if began_before else 30)
    seconds = max((now - begin).total_seconds(), MINIMUM_RATE_WINDOW_S)
    return sum(map(ended_in, recent)) * 60 / seconds


class HostUse(TypedDict, total=False):
    """Use of a host by a visit; a zero delay: it got no request, and its delay, failures and statistics stay."""

    duration: timedelta | None  # how long it was kept busy; None: since the claim
    delay: timedelta | None  # from `now` on; None: `politeness.host_delay` of the duration


class CompletedVisit(HostUse, total=False):
    """Use of the host by a visit, and what is kept of it."""

    stored_bytes: int
    due: datetime | None  # when the item is queued again by itself; None: never
    memo: str  # for the URL's next claim


class FailedVisit(HostUse, total=False):
    """Use of the host by a visit that is tried again."""

    not_before: datetime | None  # None: the delay doubles with each failure


class HostBackOff(NamedTuple):
    """Failure or refusal of a host as a whole."""

    host: str
    reason: str
    at_least: datetime | None = None  # from Retry-After; the block lasts at least until then
    down: bool = False  # whether it could not be reached at all
    blocks: bool = True  # False: it is only counted, and blocks the host when that makes it "down"


class Frontier(Protocol):
    """Frontier protocol; every implementation passes the same tests.

    Methods that end a claim record how the host was used (`HostUse`), and return whether the claim was still the
    holder's: not after its lease ran out and the item was claimed again; then nothing changes.

    Raises TransientError: the store is busy, or does not answer; the call may be repeated (it may have taken effect);
    DiskFullError: the store cannot grow; nothing changed; UnavailableError: the store cannot be used.
    """

    def add(self, items: Iterable[NewItem], *, now: datetime, again: timedelta | None = None) -> AddResult:
        """Queue the URLs that are new by identity key, of equal ones the first; all or, after BadUrlError, none.

        With `again`, known URLs that ended at least so long ago (zero: all that ended; A02) are queued once more, with
        a new id, no attempts, the new item's values and the old memo; queued and claimed ones move to a higher lane.
        """

    def claim(self, *, now: datetime, worker: str, limit: int = 1) -> list[FrontierItem]:
        """Claim at most `limit` items of hosts that are ready now, under leases of `lease_s`; none while paused.

        Expired leases, retries whose moment has come and done items that are due (in lane HIGH, with a new id and no
        attempts) are queued first, some thousand at most per call.
        """

    def renew(self, item: FrontierItem, *, now: datetime) -> bool:
        """Renew the claim's lease from `now`; False when the claim is lost: stop work."""

    def complete(self, item: FrontierItem, *, now: datetime, outcome: str, **visit: Unpack[CompletedVisit]) -> bool:
        """Mark the item done; False: the claim is lost."""

    def retry(
        self, item: FrontierItem, *, now: datetime, reason: str, **visit: Unpack[FailedVisit]
    ) -> ItemState | None:
        """Queue the item for a later attempt; or end it DEAD. Return its state; None: the claim is lost."""

    def fail(self, item: FrontierItem, *, now: datetime, reason: str, **use: Unpack[HostUse]) -> bool:
        """Mark the item dead at once; False when the claim is lost."""
        return self._bury(item, ItemState.DEAD, now, reason, use)

    def skip(self, item: FrontierItem, *, now: datetime, reason: str, **use: Unpack[HostUse]) -> bool:
        """Mark the item skipped, with the reason; False when the claim is lost."""
        return self._bury(item, ItemState.SKIPPED, now, reason, use)

    def _bury(self, item: FrontierItem, state: ItemState, now: datetime, reason: str, use: HostUse) -> bool:
        """See `fail` and `skip`."""

    def release(
        self, item: FrontierItem, *, now: datetime, reason: str = "", not_before: datetime | None = None
    ) -> bool:
        """Release an unvisited item; it keeps its place, or waits for `not_before`. False: the claim is lost."""

    def discard(self, urls: Iterable[str], *, now: datetime, reason: str) -> int:
        """Mark queued items, delayed ones included, as SKIPPED; return their number.

        A done item that was due again stays done, is no longer due, and counts; others stay as they are.
        """

    def rest(self, hosts: Mapping[str, datetime], *, now: datetime) -> None:
        """Delay each host that has a slot until its moment, after a request outside of its own visits."""

    def block_until(self, host: str, moment: datetime, reason: str, *, now: datetime) -> None:
        """Block the host until `moment`, or longer; a moment not after `now` lifts the block and ends "down"."""

    def back_off(self, failure: HostBackOff, *, now: datetime) -> datetime:
        """Block a host, twice as long each time in a row; return the end of the block or of "down".

        After `politeness.host_failures` failures in a row, of which the last was `down`, the host is down for
        `politeness.host_down_s`: the block is lifted, and its items come with `host_down`.
        """

    def pause(self, reason: str) -> None:
        """Pause claims until `resume`; claimed items may be finished. Survives restarts."""

    def resume(self) -> None:
        """End a pause."""

    def next_wakeup(self, now: datetime) -> datetime | None:
        """Return when a claim may next succeed without other changes; `now` when it may already; None: never.

        The moment may be too early, never too late. Other workers may add or complete meanwhile, so limit the wait.
        """

    def unfinished(self, now: datetime) -> int:
        """Count the queued and claimed items, without those that are due in the future."""
        stats = self.stats(now)
        return stats.queued + stats.claimed

    def stats(self, now: datetime) -> FrontierStats:
        """Return the counts of this moment."""

    def counts(self) -> dict[ItemState, int]:
        """Count items by state; every state is a key."""

    def job_counts(self, job: str) -> JobCounts:
        """Return the counts of one job; zeros for an unknown one. An expired lease counts as claimed."""

    def minutes(self, now: datetime, *, count: int = 60) -> Sequence[MinuteCounts]:
        """Return counts for each of the last `count` (at most 60) minutes, oldest first, the current one included."""

    def ls(self, state: ItemState, *, limit: int = 100, host: str | None = None) -> Sequence[ItemRecord]:
        """List at most `limit` items in that state, of one host or of all.

        Queued ones by lane and then those that wait for their moment; claimed ones oldest first; ended ones latest
        first.
        """

    def scan(self, state: ItemState, *, cursor: str = "", limit: int = 1000) -> tuple[Sequence[ItemRecord], str]:
        """Return some items in that state, in no order, and the next call's cursor, which is empty at the end.

        An item that is in the state from the first call to the last is returned at least once; a call may return none.
        """

    def find(self, url: str) -> ItemRecord | None:
        """Return the record of a URL; None when it was never added; BadUrlError for no web URL."""
        return self.find_all([url])[0]

    def find_all(self, urls: Sequence[str]) -> list[ItemRecord | None]:
        """Return `find` of each of the URLs, in their order; hundreds at once cost little more."""

    def blocks(self, *, now: datetime, limit: int = 100) -> Sequence[HostBlock]:
        """List at most `limit` hosts that are blocked at `now`, the longest block first."""

    def host(self, host: str, *, now: datetime) -> HostReport | None:
        """Return one host's slot; None when it has none."""

    def hosts(self, order: HostOrder, *, now: datetime, limit: int = 20) -> Sequence[HostReport]:
        """List at most `limit` hosts, the slowest, or those with the longest queues, first."""

    def give_order(self, kind: str, key: str, value: str) -> int:
        """Store an order of that kind under that key, replacing an earlier one; return the new version."""

    def take_back(self, kind: str, key: str) -> bool:
        """Delete an order, which raises the version; False when there was none."""

    def orders(self, kind: str) -> dict[str, str]:
        """Return the orders of that kind by key, sorted by key."""

    def put_note(
        self, kind: str, key: str, value: str, *, now: datetime, until: datetime | None = None, is_claim: bool = False
    ) -> bool:
        """Store a note until then (None: forever), unless it `is_claim` and another value is there; return whether."""

    def note(self, kind: str, key: str, *, now: datetime) -> str | None:
        """Return the note; None when there is none or it has expired."""

    def notes(self, kind: str, *, now: datetime) -> dict[str, str]:
        """Return the unexpired notes of that kind by key; for kinds with few notes."""

    def erase_note(self, kind: str, key: str) -> None:
        """Delete a note."""

    def close(self) -> None:
        """Close the store; no method may be called after."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the frontier."""
        self.close()
