"""The frontier at a glance, from the counts that its verbs keep: nothing is scanned.

Every list is bounded, so an overview takes as long for ten URLs as for ten million.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from crawler.following import link_counts
from crawler.frontier.base import (
    Frontier,
    FrontierStats,
    HostBlock,
    HostOrder,
    HostReport,
    ItemRecord,
    ItemState,
    JobCounts,
    Minute,
)
from crawler.job import JOB_ORDER
from crawler.worker import STOP_ORDER

PROXY, WORKER = "proxy", "worker"  # kinds of notes

HOSTS_SHOWN = 20
JOBS_SHOWN = 50
LEASES_SHOWN = 100
BLOCKS_COUNTED = 1_000
MEMBERS_SHOWN = 100
# Reasons are grouped over so many of the latest: enough for a picture, and always as quick.
ENDED_LOOKED_AT = 200
REASONS_SHOWN = 20
EXAMPLES_SHOWN = 3
DEAD_LETTERS_SHOWN = 20
WINDOWS_MIN = (1, 10, 60)
SHORTEST_S = 30.0  # a rate over less than that says nothing
# Below so many pages in ten minutes no rate is worth a prediction.
ENOUGH_FOR_ETA = 5


@dataclass(frozen=True, slots=True)
class Group:
    """What ended for one reason.

    Attributes:
        reason: what the reasons have in common: the words before their first colon.
        count: how many of the latest `ENDED_LOOKED_AT`.
        examples: the latest of them, (URL, whole reason).
    """

    reason: str
    count: int
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Lease:
    """What a worker holds.

    Attributes:
        since: when the claim began.
        until: when the lease runs out unless it is renewed.
    """

    worker: str
    url: str
    host: str
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Overview:
    """A frontier at a moment.

    Attributes:
        at: the moment.
        stats: its counts.
        minutes: what ended in each of the last sixty minutes, oldest first.
        per_minute: pages ended a minute, over the last so many minutes.
        eta: how long it takes at least, if nothing is added; None when nobody can say.
        stopping: the order to stop, ``gently`` or ``now``; None when there is none.
        jobs: the counts of each job.
        links: what was decided on links so far, by job and reason.
        slowest: the hosts whose visits take longest.
        longest: the hosts with the longest queues.
        blocked: hosts that are left alone, the longest first; `BLOCKS_COUNTED` at most.
        leases: what is being visited, `LEASES_SHOWN` at most.
        dead: the latest dead letters by reason.
        dead_letters: the very latest of them, (URL, reason).
        skipped: the latest that were not to be visited, by reason.
        proxies: what living proxies say of themselves, by name.
        workers: what living workers say of themselves, by name.
    """

    at: datetime
    stats: FrontierStats
    minutes: tuple[Minute, ...]
    per_minute: dict[int, float]
    eta: timedelta | None
    stopping: str | None
    jobs: dict[str, JobCounts]
    links: dict[str, dict[str, int]]
    slowest: tuple[HostReport, ...]
    longest: tuple[HostReport, ...]
    blocked: tuple[HostBlock, ...]
    leases: tuple[Lease, ...]
    dead: tuple[Group, ...]
    dead_letters: tuple[tuple[str, str], ...]
    skipped: tuple[Group, ...]
    proxies: dict[str, dict[str, Any]]
    workers: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """The overview as JSON values: moments in ISO 8601, lengths in seconds."""
        return {key: plain(value) for key, value in asdict(self).items()}


def overview(frontier: Frontier, *, now: datetime) -> Overview:
    """What the frontier holds at `now`.

    Raises:
        UnavailableError: it does not answer.
    """
    stats = frontier.stats(now)
    minutes = tuple(frontier.minutes(now))
    longest = tuple(frontier.hosts(HostOrder.LONGEST, now=now, limit=HOSTS_SHOWN))
    stop = frontier.orders(STOP_ORDER).get("")
    dead = frontier.ls(ItemState.DEAD, limit=ENDED_LOOKED_AT)
    return Overview(
        at=now,
        stats=stats,
        minutes=minutes,
        per_minute={window: rate(minutes, window, now=now) for window in WINDOWS_MIN},
        eta=eta(stats, minutes, longest, now=now),
        stopping=None if stop is None else stop or "gently",
        jobs=_jobs(frontier),
        links=link_counts(frontier, now=now),
        slowest=tuple(frontier.hosts(HostOrder.SLOWEST, now=now, limit=HOSTS_SHOWN)),
        longest=longest,
        blocked=tuple(frontier.blocks(now=now, limit=BLOCKS_COUNTED)),
        leases=tuple(map(_lease, frontier.ls(ItemState.CLAIMED, limit=LEASES_SHOWN))),
        dead=grouped(dead),
        dead_letters=tuple((each.item.url, each.outcome) for each in dead[:DEAD_LETTERS_SHOWN]),
        skipped=grouped(frontier.ls(ItemState.SKIPPED, limit=ENDED_LOOKED_AT)),
        proxies=members(frontier.notes(PROXY, now=now)),
        workers=members(frontier.notes(WORKER, now=now)),
    )


def ended_in(minute: Minute) -> int:
    """Pages that ended in the minute, however they did."""
    return minute.done + minute.skipped + minute.dead


def rate(minutes: Sequence[Minute], window: int, *, now: datetime) -> float:
    """Pages ended a minute over the last `window` minutes and what has passed of the current one.

    A crawl that began within them is measured from the middle of its first minute: nobody knows
    when in that minute it began.
    """
    recent = list(minutes[-(window + 1) :])
    began_before = bool(recent and ended_in(recent[0]))
    while recent and not ended_in(recent[0]):
        recent.pop(0)
    if not recent:
        return 0.0
    begin = recent[0].begins_at + timedelta(seconds=0 if began_before else 30)
    seconds = max((now - begin).total_seconds(), SHORTEST_S)
    return sum(map(ended_in, recent)) * 60 / seconds


def eta(
    stats: FrontierStats,
    minutes: Sequence[Minute],
    longest: Sequence[HostReport],
    *,
    now: datetime,
) -> timedelta | None:
    """How long the rest takes at least, at the rate of the last ten minutes.

    The longest queue has its own: a host that takes so long for a visit is not done any sooner,
    however fast the others are. None while paused, when nothing is left, and when too little
    happened to tell.
    """
    left = stats.queued + stats.claimed
    recent = sum(map(ended_in, minutes[-11:]))
    if stats.paused is not None or not left or recent < ENOUGH_FOR_ETA:
        return None
    whole = timedelta(minutes=left / rate(minutes, 10, now=now))
    return max([whole, *(host.mean * host.waiting for host in longest[:1])])


def grouped(records: Iterable[ItemRecord]) -> tuple[Group, ...]:
    """The records by what their reasons have in common, the largest group first."""
    found: dict[str, list[tuple[str, str]]] = {}
    for record in records:
        reason = record.outcome or "no reason given"
        common = reason.partition(":")[0].strip()[:60] or "no reason given"
        found.setdefault(common, []).append((record.item.url, reason))
    largest = sorted(found.items(), key=lambda each: (-len(each[1]), each[0]))
    return tuple(
        Group(reason, len(each), tuple(each[:EXAMPLES_SHOWN]))
        for reason, each in largest[:REASONS_SHOWN]
    )


def members(notes: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What proxies or workers say of themselves; one that cannot be read is there, and says nothing."""
    found = {}
    for name, text in sorted(notes.items())[:MEMBERS_SHOWN]:
        try:
            facts = json.loads(text)
        except (ValueError, RecursionError):
            facts = None
        found[name] = facts if isinstance(facts, dict) else {}
    return found


def number(facts: Mapping[str, Any], key: str) -> float | None:
    """What a member says under that key, when that is a number."""
    value = facts.get(key)
    return float(value) if isinstance(value, int | float) and value is not True else None


def _jobs(frontier: Frontier) -> dict[str, JobCounts]:
    """The counts of the jobs, and under the empty name those of plain lists, when there are any."""
    names = ["", *list(frontier.orders(JOB_ORDER))[:JOBS_SHOWN]]
    counts = {name: frontier.job_counts(name) for name in names}
    return {name: each for name, each in counts.items() if name or each.began_at is not None}


def _lease(record: ItemRecord) -> Lease:
    item = record.item
    return Lease(
        worker=record.worker,
        url=item.url,
        host=item.host,
        since=record.claimed_at,
        until=record.lease_until,
    )


def plain(value: Any) -> Any:
    """The value as JSON has it: moments in ISO 8601, lengths in seconds."""
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return round(value.total_seconds(), 3)
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return value
