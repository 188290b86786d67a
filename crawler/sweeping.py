"""Sweeps over a job's items after its settings have changed, so that the books follow them."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from core.clock import Clock
from core.pages import PageInfo
from crawler.budgets import BUDGET
from crawler.following import decide_links, seed_target
from crawler.frontier.base import Frontier, FrontierItem, ItemRecord, ItemState, NewItem
from crawler.jobs import Jobs
from crawler.turns import Turns

AT_ONCE = 1_000
_GIVEN_UP = (BUDGET, "scope: ", "robots: ")

# The manifest of a page that was archived; None when it cannot be read here.
ManifestOf = Callable[[FrontierItem], PageInfo | None]


def drop(jobs: Jobs, frontier: Frontier, name: str, now: datetime) -> int:
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


def revive(jobs: Jobs, frontier: Frontier, name: str, now: datetime) -> int:
    """Queue again what a rule of the crawl had left over, unless the scope still does."""
    revived = 0
    for records in _scanned(frontier, ItemState.SKIPPED, name):
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


async def follow_again(
    jobs: Jobs,
    frontier: Frontier,
    name: str,
    *,
    manifest_of: ManifestOf,
    turns: Turns,
    clock: Clock,
) -> tuple[int, int]:
    """Decide on the links of archived pages again, since more may belong to the crawl now.

    The links are in the pages' manifests: no page is visited for it.

    Returns:
        How many URLs joined, and of how many pages the manifest could not be read.
    """
    joined = unread = 0

    def links_of(records: list[ItemRecord]) -> tuple[list[NewItem], int]:
        items, lacking = [], 0
        for record in records:
            page = manifest_of(record.item)
            if page is None:
                lacking += 1
                continue
            target = seed_target(record.item, page)
            if target:
                jobs.move_seed(name, record.item.url, target)
            items += decide_links(jobs, record.item, page).items
        return items, lacking

    for records in _scanned(frontier, ItemState.DONE, name):
        items, lacking = await asyncio.to_thread(links_of, records)
        unread += lacking
        assigned = await turns.assign(items)
        for start in range(0, len(assigned), AT_ONCE):
            some = assigned[start : start + AT_ONCE]
            joined += frontier.add(some, now=clock.now()).added
    return joined, unread


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
