"""Crawling from seeds: a job into the frontier, its seeds, and whatever of it was given up before.

The same crawl given again goes on where it stopped. Given with other settings it changes: what waits and
no longer belongs to it is skipped, what a budget or an exclude pattern had left over is queued again.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from core.clock import Clock
from core.durations import told
from core.errors import ConfigError
from core.settings import ScopeSettings, Settings
from core.urls import identity_key
from crawler.budgets import BUDGET
from crawler.composing import turns_for
from crawler.events import Event
from crawler.frontier.base import (
    AddResult,
    Frontier,
    FrontierItem,
    ItemRecord,
    ItemState,
    NewItem,
)
from crawler.job import JOB_ORDER, SEEDS_LIMIT, Job, parse_job
from crawler.jobs import Jobs
from crawler.running import Account, Run, perform

AT_ONCE = 1_000
_GIVEN_UP = (BUDGET, "scope: ")


@dataclass(frozen=True, slots=True)
class Given:
    """What became of a job that was given.

    Attributes:
        job: as it stands now, earlier seeds included.
        is_new: whether the frontier did not know it.
        changed: whether it was known and other settings hold now.
        added: what became of its seeds.
        dropped: queued pages that no longer belong to it.
        revived: pages that were left over and are queued again.
    """

    job: Job
    is_new: bool
    changed: bool
    added: AddResult
    dropped: int = 0
    revived: int = 0


async def crawl(
    job: Job,
    run: Run,
    *,
    clock: Clock,
    started: Callable[[AddResult, int], None],
    report: Callable[[Event], None],
    stopping: Callable[[], None] = lambda: None,
) -> Account:
    """Crawl; the other arguments and the errors are those of `crawler.running.perform`."""

    async def prepare(frontier: Frontier) -> AddResult:
        given = await give(job, frontier, local=run.settings, clock=clock)
        return given.added

    return await perform(
        run, prepare, clock=clock, started=started, report=report, stopping=stopping
    )


async def give(job: Job, frontier: Frontier, *, local: Settings, clock: Clock) -> Given:
    """Make the job known, queue its seeds, and let what is known of it follow its settings.

    Raises:
        ConfigError: the frontier has a job of that name that cannot be read, or there would be more
            seeds than `SEEDS_LIMIT`.
    """
    text = frontier.orders(JOB_ORDER).get(job.name)
    known = None if text is None else parse_job(job.name, text)
    whole = job if known is None else _with_seeds_of(known, job)
    if len(whole.seeds) > SEEDS_LIMIT:
        raise ConfigError(f"A crawl of {len(whole.seeds)} seeds; at most {SEEDS_LIMIT}.")
    if whole.to_json() != text:
        frontier.give_order(JOB_ORDER, whole.name, whole.to_json())
    changed = known is not None and whole.to_json() != text
    dropped = revived = 0
    if changed:
        jobs = Jobs(frontier, local, clock=clock)
        dropped = _drop(jobs, frontier, whole.name, clock.now())
        revived = _revive(jobs, frontier, whole.name, clock.now())
    added = await _add_seeds(whole, frontier, local, clock)
    return Given(whole, known is None, changed, added, dropped, revived)


def _with_seeds_of(known: Job, job: Job) -> Job:
    """The job with the seeds that it had before, too."""
    seeds = {identity_key(seed): seed for seed in (*known.seeds, *job.seeds)}
    return replace(job, seeds=tuple(seeds.values()), made_at=known.made_at)


async def _add_seeds(job: Job, frontier: Frontier, local: Settings, clock: Clock) -> AddResult:
    """Queue the seeds. One that a list or another crawl has is taken over: a crawl begins there."""
    turns = turns_for(local)
    items = await turns.assign(NewItem(seed, lane=job.lane, job=job.name) for seed in job.seeds)
    total = AddResult()
    for some in _batches(items):
        total = _sum(total, frontier.add(some, now=clock.now()))
    others = [item for item in items if _is_of_another(frontier, item)]
    for some in _batches(others):
        urls = [item.url for item in some]
        frontier.discard(urls, now=clock.now(), reason=f"moved to the crawl {job.name}")
        taken = frontier.add(some, now=clock.now(), again=timedelta(0))
        moved = AddResult(duplicates=-taken.requeued, requeued=taken.requeued)
        total = _sum(total, moved)
    return total


def _is_of_another(frontier: Frontier, item: NewItem) -> bool:
    known = frontier.find(item.url)
    return known is not None and known.item.job != item.job


def _drop(jobs: Jobs, frontier: Frontier, name: str, now: datetime) -> int:
    """Skip what waits and no longer belongs to the crawl."""
    dropped = 0
    for records in _scanned(frontier, ItemState.QUEUED, name):
        by_reason: dict[str, list[str]] = {}
        for record in records:
            reason = _against(jobs, record.item)
            if reason:
                by_reason.setdefault(reason, []).append(record.item.url)
        for reason, urls in by_reason.items():
            dropped += frontier.discard(urls, now=now, reason=reason)
    return dropped


def _revive(jobs: Jobs, frontier: Frontier, name: str, now: datetime) -> int:
    """Queue again what a budget or the scope had left over, unless the scope still does."""
    revived = 0
    for records in list(_scanned(frontier, ItemState.SKIPPED, name)):
        items = [
            _as_new(record.item)
            for record in records
            if record.outcome.startswith(_GIVEN_UP) and not _against(jobs, record.item)
        ]
        revived += frontier.add(items, now=now, again=timedelta(0)).requeued
    return revived


def _against(jobs: Jobs, item: FrontierItem) -> str:
    """Why an item of a crawl does not belong to it; empty when it does. A seed always does."""
    scope = jobs.scope_for(item.url, item.job)
    excluded = scope.excluded(item.url)
    if excluded is not None:
        return f"scope: exclude {excluded}"
    if item.hops == 0:
        return ""
    decision = scope.decide(item.url, hops=item.hops, hops_off=max(item.hops_off - 1, 0))
    return "" if decision.followed else f"scope: {decision.reason}"


def _scanned(frontier: Frontier, state: ItemState, job: str) -> Iterator[list[ItemRecord]]:
    """The job's items in that state, some at a time."""
    cursor = ""
    while True:
        records, cursor = frontier.scan(state, cursor=cursor, limit=AT_ONCE)
        yield [record for record in records if record.item.job == job]
        if not cursor:
            return


def _as_new(item: FrontierItem) -> NewItem:
    return NewItem(
        item.url,
        lane=item.lane,
        hops=item.hops,
        via=item.via,
        job=item.job,
        hops_off=item.hops_off,
        host=item.host,
    )


def _batches(items: Iterable[NewItem]) -> Iterator[list[NewItem]]:
    whole = list(items)
    for start in range(0, len(whole), AT_ONCE):
        yield whole[start : start + AT_ONCE]


def _sum(one: AddResult, other: AddResult) -> AddResult:
    return AddResult(
        one.added + other.added,
        one.duplicates + other.duplicates,
        one.requeued + other.requeued,
    )


def budgets_in_words(scope: ScopeSettings, size: Callable[[float], str]) -> list[str]:
    """The budgets that are set, each as a phrase; `size` writes bytes."""
    found = []
    for whose, pages, stored, seconds in (
        ("", scope.pages, scope.bytes, scope.seconds),
        (" of one host", scope.host_pages, scope.host_bytes, scope.host_seconds),
    ):
        found += [f"{pages} pages{whose}"] if pages else []
        found += [f"{size(stored)}{whose}"] if stored else []
        found += [f"{told(seconds)}{whose}"] if seconds else []
    return found
