"""Crawling from seeds: a job into the frontier, its seeds, and whatever of it was given up before.

The same crawl given again goes on where it stopped. Given with other settings it changes: what waits and
no longer belongs to it is skipped, what a budget or an exclude pattern had left over is queued again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta

from core.clock import Clock
from core.durations import told
from core.errors import ConfigError
from core.layout import Layout
from core.pages import PageInfo
from core.settings import ScopeSettings, Settings
from core.urls import identity_key
from crawler.composing import turns_for
from crawler.events import Event
from crawler.frontier.base import AddResult, Frontier, FrontierItem, NewItem
from crawler.job import JOB_ORDER, SEEDS_LIMIT, Job, parse_job
from crawler.jobs import Jobs
from crawler.running import Account, Run, perform
from crawler.sweeping import ManifestOf, drop, follow_again, revive
from proxy.index.opening import open_index
from proxy.index.protocol import CaptureIndex
from proxy.manifests import read_manifest

log = logging.getLogger(__name__)

AT_ONCE = 1_000
FOLLOWED_NOTE = (
    "job"  # the kind of the note with the job as its items follow it; the key is its name
)


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
        joined: links of archived pages that were left and belong to the crawl now.
        unread: archived pages whose links could not be read again.
    """

    job: Job
    is_new: bool
    changed: bool
    added: AddResult
    dropped: int = 0
    revived: int = 0
    joined: int = 0
    unread: int = 0


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
        with closing(Manifests(Layout(run.root), run.settings)) as manifests:
            given = await give(
                job, frontier, local=run.settings, clock=clock, manifest_of=manifests.of
            )
        if given.unread:
            log.warning("crawl.links_unread pages=%d: their WARCs are not here", given.unread)
        again = replace(given.added, requeued=given.added.requeued + given.revived)
        return replace(again, added=again.added + given.joined)

    return await perform(
        run, prepare, clock=clock, started=started, report=report, stopping=stopping
    )


async def give(
    job: Job,
    frontier: Frontier,
    *,
    local: Settings,
    clock: Clock,
    manifest_of: ManifestOf | None = None,
) -> Given:
    """Make the job known, queue its seeds, and let what is known of it follow its settings.

    Args:
        job: the crawl.
        frontier: where.
        local: this machine's settings.
        clock: the time.
        manifest_of: reads what archived pages link to; None: their links are not decided on again.

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
    # What its items follow; the order is ahead of it when a run was killed in between.
    note = frontier.note(FOLLOWED_NOTE, whole.name, now=clock.now())
    followed = None if note is None else parse_job(job.name, note)
    added = await _add_seeds(whole, followed, frontier, local, clock)
    given = Given(whole, known is None, known is not None and whole.to_json() != text, added)
    if known is not None and note != whole.to_json():
        given = await _follow_settings(given, followed, frontier, local, clock, manifest_of)
    frontier.put_note(FOLLOWED_NOTE, whole.name, whole.to_json(), now=clock.now())
    return given


async def _follow_settings(
    given: Given,
    before: Job | None,
    frontier: Frontier,
    local: Settings,
    clock: Clock,
    manifest_of: ManifestOf | None,
) -> Given:
    """Let what is known of the job follow its settings."""
    jobs, name = Jobs(frontier, local, clock=clock), given.job.name
    dropped = await asyncio.to_thread(drop, jobs, frontier, name, clock.now())
    revived = await asyncio.to_thread(revive, jobs, frontier, name, clock.now())
    given = replace(given, dropped=dropped, revived=revived)
    if manifest_of is None or (before is not None and not _may_hold_more(before, given.job)):
        return given
    turns = turns_for(local)
    joined, unread = await follow_again(
        jobs, frontier, name, manifest_of=manifest_of, turns=turns, clock=clock
    )
    return replace(given, joined=joined, unread=unread)


def _may_hold_more(before: Job, after: Job) -> bool:
    """Whether links that were left may belong to the crawl now: more than its budgets changed."""
    scopes = [
        replace(
            job.settings.scope,
            pages=0,
            bytes=0,
            seconds=0.0,
            host_pages=0,
            host_bytes=0,
            host_seconds=0.0,
        )
        for job in (before, after)
    ]
    sheets = [job.settings.sheets for job in (before, after)]
    return scopes[0] != scopes[1] or sheets[0] != sheets[1] or before.seeds != after.seeds


class Manifests:
    """Reads manifests of a collection; the index is opened when the first one is asked for."""

    def __init__(self, layout: Layout, settings: Settings) -> None:
        self._layout = layout
        self._settings = settings
        self._index: CaptureIndex | None = None

    def of(self, item: FrontierItem) -> PageInfo | None:
        """The manifest of the item's page; None when it cannot be read here."""
        if self._index is None:
            if not (self._settings.index.url or self._layout.captures_db.exists()):
                return None
            self._index = open_index(self._layout, self._settings.index)
        return read_manifest(self._layout, self._index, item.id)

    def close(self) -> None:
        """Close the index."""
        if self._index is not None:
            self._index.close()


def _with_seeds_of(known: Job, job: Job) -> Job:
    """The job with the seeds that it had before, too."""
    seeds = {identity_key(seed): seed for seed in (*known.seeds, *job.seeds)}
    return replace(job, seeds=tuple(seeds.values()), made_at=known.made_at)


async def _add_seeds(
    job: Job, followed: Job | None, frontier: Frontier, local: Settings, clock: Clock
) -> AddResult:
    """Queue the seeds. A new one that a list or another crawl has is taken over: a crawl begins there."""
    turns = turns_for(local)
    items = await turns.assign(NewItem(seed, lane=job.lane, job=job.name) for seed in job.seeds)
    before = set(followed.seeds) if followed is not None else set()
    total = AddResult()
    for some in _batches(items):
        result = frontier.add(some, now=clock.now())
        total = _sum(total, result)
        if result.added == len(some):
            continue
        others = [
            each for each in some if each.url not in before and _is_of_another(frontier, each)
        ]
        urls = [each.url for each in others]
        frontier.discard(urls, now=clock.now(), reason=f"moved to the crawl {job.name}")
        taken = frontier.add(others, now=clock.now(), again=timedelta(0))
        total = _sum(total, AddResult(duplicates=-taken.requeued, requeued=taken.requeued))
    return total


def _is_of_another(frontier: Frontier, item: NewItem) -> bool:
    known = frontier.find(item.url)
    return known is not None and known.item.job != item.job


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
