"""Status of a collection and its frontier, from counters and bounded lists: as quick for ten million URLs as for 10."""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

from core.clock import Clock
from core.config.settings import Settings
from core.errors import UnavailableError, WeboidError
from core.json_values import json_value
from core.layout import OPEN_SUFFIX, Layout
from core.page_manifest import VisitOutcome
from crawler.frontier import base as frontier_base
from crawler.rules.scope_rule import link_counts
from warc.index.database import unindexed_warcs
from warc.index.sqlite import open_index
from warc.local_storage import WarcPath, closed_warcs, open_warcs
from warc.uploads import UploadState, read_state

_LOG = logging.getLogger(__name__)
HOSTS_SHOWN = 20
JOBS_SHOWN = 50
LEASES_SHOWN = 100
BLOCKS_COUNTED = 1_000
MEMBERS_SHOWN = 100
ENDED_SAMPLED = 200  # reasons are grouped over this many of the latest: enough for a picture, and always as quick
REASONS_SHOWN = 20
EXAMPLES_SHOWN = 3
DEAD_LETTERS_SHOWN = 20
WINDOWS_MIN = (1, 10, 60)
ENOUGH_FOR_ETA = 5  # with fewer pages in ten minutes the rate is too uncertain for a prediction


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """Ended items with a common reason."""

    reason: str  # the words before the first colon
    count: int  # how many of the latest `ENDED_SAMPLED`
    examples: tuple[tuple[str, str], ...]  # the latest of them, (URL, whole reason)


@dataclass(frozen=True, slots=True)
class LeaseReport:
    """Claim of a worker."""

    worker: str
    url: str
    host: str
    since: datetime | None  # when the claim began
    until: datetime | None  # when the lease runs out unless it is renewed


@dataclass(frozen=True, slots=True)
class FrontierOverview:
    """Frontier at a moment."""

    at: datetime
    stats: frontier_base.FrontierStats  # its counts
    minutes: tuple[frontier_base.MinuteCounts, ...]  # items ended in the last sixty minutes, oldest first
    per_minute: dict[int, float]  # ended pages per minute, by window in minutes
    eta: timedelta | None  # lower bound of the remaining time; None when unknown
    stopping: str | None  # the order to stop, ``gently`` or ``now``; None when there is none
    jobs: dict[str, frontier_base.JobCounts]  # the counts of each job
    links: dict[str, dict[str, int]]  # decisions on links so far, by job and reason
    slowest: tuple[frontier_base.HostReport, ...]  # the hosts whose visits take longest
    longest: tuple[frontier_base.HostReport, ...]  # the hosts with the longest queues
    blocked: tuple[frontier_base.HostBlock, ...]  # the longest block first; `BLOCKS_COUNTED` at most
    leases: tuple[LeaseReport, ...]  # current claims, `LEASES_SHOWN` at most
    dead: tuple[ReasonGroup, ...]  # the latest dead letters by reason
    dead_letters: tuple[tuple[str, str], ...]  # the very latest of them, (URL, reason)
    skipped: tuple[ReasonGroup, ...]  # the latest skipped items, by reason
    proxies: dict[str, dict[str, Any]]  # announcements of running proxies, by name
    workers: dict[str, dict[str, Any]]  # announcements of running workers, by name

    def to_dict(self) -> dict[str, Any]:
        """Convert the overview to JSON values: moments in ISO 8601, durations in seconds."""
        return {key: json_value(value) for key, value in asdict(self).items()}


def read_overview(frontier: frontier_base.Frontier, *, now: datetime) -> FrontierOverview:
    """Read the frontier's overview at `now`. Raises UnavailableError if it does not answer."""
    stats = frontier.stats(now)
    minutes = tuple(frontier.minutes(now))
    # Plain lists, when there are any, have the empty name.
    names = ["", *list(frontier.orders(frontier_base.JOB_ORDER))[:JOBS_SHOWN]]
    jobs = {name: frontier.job_counts(name) for name in names}
    longest = tuple(frontier.hosts(frontier_base.HostOrder.LONGEST, now=now, limit=HOSTS_SHOWN))
    stop = frontier.orders(frontier_base.STOP_ORDER).get("")
    dead = frontier.ls(frontier_base.ItemState.DEAD, limit=ENDED_SAMPLED)
    return FrontierOverview(
        at=now,
        stats=stats,
        minutes=minutes,
        per_minute={window: frontier_base.pages_per_minute(minutes, window, now=now) for window in WINDOWS_MIN},
        eta=estimate_remaining(stats, minutes, longest, now=now),
        stopping=None if stop is None else stop or "gently",
        jobs={name: each for name, each in jobs.items() if name or each.began_at is not None},
        links=link_counts(frontier, now=now),
        slowest=tuple(frontier.hosts(frontier_base.HostOrder.SLOWEST, now=now, limit=HOSTS_SHOWN)),
        longest=longest,
        blocked=tuple(frontier.blocks(now=now, limit=BLOCKS_COUNTED)),
        leases=tuple(
            LeaseReport(each.worker, each.item.url, each.item.host, each.claimed_at, each.lease_until)
            for each in frontier.ls(frontier_base.ItemState.CLAIMED, limit=LEASES_SHOWN)
        ),
        dead=group_by_reason(dead),
        dead_letters=tuple((each.item.url, each.outcome) for each in dead[:DEAD_LETTERS_SHOWN]),
        skipped=group_by_reason(frontier.ls(frontier_base.ItemState.SKIPPED, limit=ENDED_SAMPLED)),
        proxies=parse_members(frontier.notes(frontier_base.PROXY_SERVICE, now=now)),
        workers=parse_members(frontier.notes(frontier_base.WORKER_SERVICE, now=now)),
    )


def estimate_remaining(
    stats: frontier_base.FrontierStats,
    minutes: Sequence[frontier_base.MinuteCounts],
    longest: Sequence[frontier_base.HostReport],
    *,
    now: datetime,
) -> timedelta | None:
    """Estimate the least remaining time, by the last ten minutes' rate and the longest queue; None: unknown."""
    left = stats.queued + stats.claimed
    recent = sum(map(frontier_base.ended_in, minutes[-11:]))
    if stats.paused is not None or not left or recent < ENOUGH_FOR_ETA:
        return None
    whole = timedelta(minutes=left / frontier_base.pages_per_minute(minutes, 10, now=now))
    return max([whole, *(host.mean * host.waiting for host in longest[:1])])


def group_by_reason(records: Iterable[frontier_base.ItemRecord]) -> tuple[ReasonGroup, ...]:
    """Group the records by their reasons' common words, the largest group first."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for record in records:
        reason = record.outcome or "no reason given"
        common = reason.partition(":")[0].strip()[:60] or "no reason given"
        groups.setdefault(common, []).append((record.item.url, reason))
    largest = sorted(groups.items(), key=lambda each: (-len(each[1]), each[0]))
    return tuple(
        ReasonGroup(reason, len(each), tuple(each[:EXAMPLES_SHOWN])) for reason, each in largest[:REASONS_SHOWN]
    )


def parse_members(notes: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Parse the announcements of proxies or workers; an unreadable one has no facts."""
    members = {}
    for name, text in sorted(notes.items())[:MEMBERS_SHOWN]:
        try:
            facts = json.loads(text)
        except (ValueError, RecursionError):
            facts = None
        members[name] = facts if isinstance(facts, dict) else {}
    return members


def member_number(facts: Mapping[str, Any], key: str) -> float | None:
    """Return a number of an announcement; None when it has none under that key."""
    value = facts.get(key)
    return float(value) if isinstance(value, int | float) and value is not True else None


CACHED_S = 0.5  # lifetime of a cached status
COUNTING_SHARE = 20
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CollectionHoldings:
    """Content of a collection's folder."""

    root: str  # the folder
    in_use: bool  # whether a process writes it
    outcomes: dict[str, int]  # pages by outcome
    responses: int  # records by kind
    revisits: int
    artifacts: int

    warcs: int  # files, those being written included
    warc_bytes: int  # their size
    free_bytes: int  # on the disk that holds them
    reserve_bytes: int  # no page begins when less is free
    classes: dict[str, int] = field(default_factory=dict)  # pages; "": not classified
    uploads: UploadState | None = None  # None without object storage
    unindexed: int = 0  # closed WARCs that the collection's own index does not wholly cover

    @property
    def bytes_per_page(self) -> int | None:
        """Return stored bytes per page, shared resources counted once; None without a page."""
        pages = sum(self.outcomes.get(each, 0) for each in (VisitOutcome.COMPLETE, VisitOutcome.PARTIAL))
        return round(self.warc_bytes / pages) if pages else None


@dataclass(frozen=True, slots=True)
class CopyCheckSummary:
    """Results of copy checks and repairs."""

    verdicts: dict[str, int]  # copies by verdict; a person's overrides the machine's
    per_minute: dict[int, dict[str, float]]  # checks per minute by verdict, by window in minutes
    repairs: dict[str, int]  # pages by the state of their repair
    repairs_per_minute: dict[int, dict[str, float]]  # ended, by result, by window
    unrecorded: int  # checks whose current result is not in a WARC yet


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """Status of a collection, its frontier, or both at a moment."""

    at: datetime
    holdings: CollectionHoldings | None  # None when there is only a shared frontier
    frontier: FrontierOverview | None  # None when the collection has none yet
    checks: CopyCheckSummary | None = None  # None without a link registry, where they are stored

    @property
    def days_left(self) -> int | None:
        """Return the whole days until the disk's reserve is reached at the last hour's rate; None when unknown."""
        if self.holdings is None or self.frontier is None:
            return None
        per_hour = sum(each.bytes for each in self.frontier.minutes)
        left = self.holdings.free_bytes - self.holdings.reserve_bytes
        return None if per_hour <= 0 or left <= 0 else int(left / (24 * per_hour))

    def to_dict(self) -> dict[str, Any]:
        """Convert the status to JSON values: the collection's on top, with the frontier's main counts."""
        facts: dict[str, Any] = {"at": self.at.isoformat()}
        if self.holdings is not None:
            facts |= asdict(self.holdings)
            facts["bytes_per_page"] = self.holdings.bytes_per_page
        stats = self.frontier.stats if self.frontier is not None else None
        for name in ("queued", "claimed", "done", "skipped", "dead"):
            facts[name] = getattr(stats, name) if stats is not None else 0
        facts["dead_letters"] = self.frontier.dead_letters if self.frontier is not None else ()
        facts["frontier"] = self.frontier.to_dict() if self.frontier is not None else None
        facts["checks"] = json_value(asdict(self.checks)) if self.checks is not None else None
        return facts


class StatusReader:
    """Reader of a collection's and a frontier's status, thread-safe; it counts rows a twentieth of the time."""

    def __init__(
        self,
        layout: Layout | None,
        frontier: Callable[[], frontier_base.Frontier | None],
        *,
        settings: Settings,
        clock: Clock,
        checks: Callable[[datetime], CopyCheckSummary | None] = lambda _now: None,
        background: bool = False,
    ) -> None:
        """Store what is read each time; with `background` a thread counts rows, and `holdings` is None until it has."""
        self._layout = layout
        self._frontier = frontier
        self._clock = clock
        self._lock = threading.Lock()
        self._status: CollectionStatus | None = None
        self._read_at = float("-inf")
        self._holdings = ThrottledValue(
            clock, lambda: None if layout is None else read_holdings(layout, settings), background=background
        )
        self._checks = ThrottledValue(clock, lambda: checks(clock.now()), background=background)

    def status(self, *, is_fresh: bool = False) -> CollectionStatus:
        """Return the status, `CACHED_S` old but for counts, or fresh; CollectionVersionError, UnavailableError."""
        with self._lock:
            began = self._clock.monotonic()
            if not is_fresh and self._status is not None and began - self._read_at < CACHED_S:
                return self._status
            frontier = self._frontier()
            now = self._clock.now()
            holdings = self._holdings.read()
            if self._layout is not None and holdings is not None:
                holdings = replace(holdings, in_use=is_in_use(self._layout), free_bytes=_free(self._layout))
            self._status = CollectionStatus(
                at=now,
                holdings=holdings,
                frontier=None if frontier is None else read_overview(frontier, now=now),
                checks=self._checks.read(),
            )
            self._read_at = self._clock.monotonic()
            return self._status


@dataclass(eq=False, repr=False)
class ThrottledValue(Generic[_T]):
    """Expensive value, read only for a limited share of the time, with `background` in a thread (None before)."""

    clock: Clock
    read_now: Callable[[], _T]
    _: KW_ONLY
    background: bool = False
    _value: _T | None = field(default=None, init=False)
    _is_reading: threading.Lock = field(default_factory=threading.Lock, init=False)
    _until: float = field(default=float("-inf"), init=False)

    def read(self) -> _T | None:
        """Return the cached value, read again when it is time; errors are raised, in a thread logged."""
        if self.clock.monotonic() >= self._until and self._is_reading.acquire(blocking=not self.background):
            if self.background:
                threading.Thread(target=self._read_now, daemon=True).start()
            else:
                self._read_now()
        return self._value

    def _read_now(self) -> None:
        began = self.clock.monotonic()
        try:
            self._value = self.read_now()
        except (WeboidError, OSError) as error:
            if not self.background:
                raise
            _LOG.warning("status.count_failed error=%s", error)
        finally:
            ended = self.clock.monotonic()
            self._until = ended + COUNTING_SHARE * (ended - began)
            self._is_reading.release()


def read_holdings(layout: Layout, settings: Settings) -> CollectionHoldings:
    """Read the content of the collection; errors as `StatusReader.status`."""
    counts: dict[str, int] = {}
    outcomes: dict[str, int] = {}
    classes: dict[str, int] = {}
    if settings.index.url or layout.captures_db.exists():
        with closing(open_index(layout, settings.index)) as index:
            counts, outcomes, classes = index.counts(), index.outcomes(), index.classes()
    sizes = [_size(path) for path in (*open_warcs(layout), *closed_warcs(layout))]
    return CollectionHoldings(
        root=str(layout.root),
        in_use=is_in_use(layout),
        outcomes=outcomes,
        classes=classes,
        uploads=read_state(layout, settings.storage),
        unindexed=0 if settings.index.url else len(unindexed_warcs(layout)),
        responses=counts.get("captures.response", 0),
        revisits=counts.get("captures.revisit", 0),
        artifacts=counts.get("captures.resource", 0),
        warcs=len(sizes),
        warc_bytes=sum(sizes),
        free_bytes=_free(layout),
        reserve_bytes=settings.proxy.disk_reserve_bytes,
    )


def _free(layout: Layout) -> int:
    """Return the free bytes of the collection's disk."""
    try:
        return shutil.disk_usage(layout.root).free
    except OSError as error:
        raise UnavailableError(f"{layout.root} cannot be read: {error.strerror or error}.") from error


def _size(path: Path) -> int:
    """Return the file's size, also when it is renamed on closing in the meantime."""
    for name in (path, WarcPath(path.with_name(path.name.removesuffix(OPEN_SUFFIX)))):
        with contextlib.suppress(FileNotFoundError):
            return name.stat().st_size
    return 0


def is_worked_on(layout: Layout | None, frontier: frontier_base.Frontier, *, now: datetime) -> bool:
    """Return True if a process works on the frontier, a shared one without a layout, as far as is visible from here."""
    if layout is not None and is_in_use(layout):
        return True
    return bool(frontier.notes(frontier_base.WORKER_SERVICE, now=now)) or bool(frontier.stats(now).claimed)


def is_in_use(layout: Layout) -> bool:
    """Return True when a process, or a cluster, holds the collection's lock."""
    try:
        descriptor = os.open(layout.lock, os.O_RDWR)  # NFS requires it
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if layout.proxies.is_dir() and any(layout.proxies.iterdir()):  # there is, or was, a cluster
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)
