"""Run of a crawl job: storing it, queueing its seeds, applying changed settings to the items of earlier runs."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Unpack

from core.clock import Clock
from core.config.settings import ScopeSettings, Settings
from core.errors import ConfigError
from core.layout import Layout
from core.page_manifest import PageInfo
from core.timestamps import format_duration
from core.urls import identity_key
from crawler.frontier.base import JOB_ORDER, AddResult, Frontier, FrontierItem, ItemRecord, ItemState, NewItem
from crawler.frontier.frontier_export import ItemSelection, item_again, select_items
from crawler.frontier.host_slots import SlotAssigner
from crawler.jobs.crawl_orders import SEEDS_LIMIT, Job, parse_job
from crawler.jobs.job_settings import JobSettings
from crawler.rules.scope_rule import BUDGET_REASON, decide_links, seed_target
from crawler.run.context_builder import make_slot_assigner
from crawler.run.crawl_run import RunConfig, RunHooks, RunSummary, add_in_batches, perform_run
from warc.artifact_reader import read_manifest
from warc.index.database import IndexDatabase, open_database

AT_ONCE = 1_000
_GIVEN_UP = (BUDGET_REASON, "scope: ", "robots: ")

ManifestOf = Callable[[FrontierItem], PageInfo | None]  # of an archived page; None when it cannot be read here


def skip_excluded(jobs: JobSettings, frontier: Frontier, name: str, now: datetime) -> None:
    """Skip queued items that no longer belong to the crawl."""
    for records in select_items(frontier, ItemState.QUEUED, ItemSelection(job=name)):
        by_reason: dict[str, list[str]] = {}
        for record in records:
            reason = _exclusion_reason(jobs, record.item)
            if reason:
                by_reason.setdefault(reason, []).append(record.item.url)
        for reason, urls in by_reason.items():
            frontier.discard(urls, now=now, reason=reason)


def requeue_given_up(jobs: JobSettings, frontier: Frontier, name: str, now: datetime) -> int:
    """Queue items again that a rule of the crawl had skipped, unless they are still out of scope."""
    revived = 0
    for records in select_items(frontier, ItemState.SKIPPED, ItemSelection(job=name)):
        given_up = (each for each in records if each.outcome.startswith(_GIVEN_UP))
        items = [item_again(each) for each in given_up if not _exclusion_reason(jobs, each.item)]
        revived += frontier.add(items, now=now, again=timedelta(0)).requeued
    return revived


def _exclusion_reason(jobs: JobSettings, item: FrontierItem) -> str:
    """Return why an item does not belong to its crawl; empty when it does. A seed always does."""
    scope = jobs.scope_for(item.url, item.job)
    excluded = scope.excluded(item.url)
    if excluded is not None:
        return f"scope: exclude {excluded}"
    if item.hops == 0:
        return ""
    decision = scope.decide(item.url, hops=item.hops, hops_off=max(item.hops_off - 1, 0))
    return "" if decision.followed else f"scope: {decision.reason}"


async def redecide_links(
    jobs: JobSettings, frontier: Frontier, name: str, *, manifest_of: ManifestOf, turns: SlotAssigner, clock: Clock
) -> tuple[int, int]:
    """Decide on the links of archived pages again; return (URLs that joined, pages whose manifest is not here)."""
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
            items += decide_links(jobs, record.item, page)[0]
        return items, lacking

    for records in select_items(frontier, ItemState.DONE, ItemSelection(job=name)):
        items, lacking = await asyncio.to_thread(links_of, records)
        unread += lacking
        joined += (await add_in_batches(frontier, turns, items, now=clock.now, again=None)).added
    return joined, unread


log = logging.getLogger(__name__)

APPLIED_JOB_NOTE = "job"  # the kind of the note with the job as its items follow it; the key is its name


@dataclass(frozen=True, slots=True)
class JobSubmission:
    """Result of submitting a job."""

    added: AddResult  # result of adding its seeds
    revived: int  # skipped pages that are queued again
    joined: int  # links of archived pages that were not followed and belong to the crawl now
    unread: int  # archived pages whose links could not be read again


async def run_crawl_jobs(jobs: Sequence[Job], run: RunConfig, **hooks: Unpack[RunHooks]) -> RunSummary:
    """Run crawls at the same time; errors as `crawl_run.perform_run`."""

    async def prepare(frontier: Frontier) -> AddResult:
        total, layout, settings = AddResult(), Layout(run.root), run.settings
        with ExitStack() as stack:

            @cache
            def opened_index() -> IndexDatabase | None:
                if settings.index.url or layout.captures_db.exists():
                    return stack.enter_context(closing(open_database(layout, settings.index.url)))
                return None

            def manifest_of(item: FrontierItem) -> PageInfo | None:
                index = opened_index()
                return None if index is None else read_manifest(layout, index, item.id)

            for job in jobs:
                done = await submit_job(job, frontier, local=settings, clock=hooks["clock"], manifest_of=manifest_of)
                if done.unread:
                    log.warning("crawl.links_unread pages=%d: their WARCs are not here", done.unread)
                total += done.added
                total += AddResult(added=done.joined, requeued=done.revived)
        return total

    return await perform_run(run, prepare, **hooks)


async def submit_job(
    job: Job, frontier: Frontier, *, local: Settings, clock: Clock, manifest_of: ManifestOf | None = None
) -> JobSubmission:
    """Store the job, queue its seeds, apply its settings to items and, with `manifest_of`, links; or ConfigError."""
    text = frontier.orders(JOB_ORDER).get(job.name)
    known = None if text is None else parse_job(job.name, text)
    whole = job
    if known is not None:
        seeds = {identity_key(seed): seed for seed in (*known.seeds, *job.seeds)}
        whole = replace(job, seeds=tuple(seeds.values()), made_at=known.made_at)
    if len(whole.seeds) > SEEDS_LIMIT:
        raise ConfigError(f"A crawl of {len(whole.seeds)} seeds; at most {SEEDS_LIMIT}.")
    if whole.to_json() != text:
        frontier.give_order(JOB_ORDER, whole.name, whole.to_json())
    # What its items follow; the order is ahead of it when a run was killed in between.
    note = frontier.note(APPLIED_JOB_NOTE, whole.name, now=clock.now())
    followed = None if note is None else parse_job(job.name, note)
    added = await _add_seeds(whole, followed, frontier, local, clock)
    revived = joined = unread = 0
    if known is not None and note != whole.to_json():
        jobs, name = JobSettings(frontier, local, clock=clock), whole.name
        await asyncio.to_thread(skip_excluded, jobs, frontier, name, clock.now())
        revived = await asyncio.to_thread(requeue_given_up, jobs, frontier, name, clock.now())
        if manifest_of is not None and (followed is None or _may_hold_more(followed, whole)):
            turns = make_slot_assigner(local)
            joined, unread = await redecide_links(
                jobs, frontier, name, manifest_of=manifest_of, turns=turns, clock=clock
            )
    frontier.put_note(APPLIED_JOB_NOTE, whole.name, whole.to_json(), now=clock.now())
    return JobSubmission(added, revived, joined, unread)


def _may_hold_more(before: Job, after: Job) -> bool:
    """Return True when more links may belong to the crawl now: more than its budgets changed."""
    old, new = before.settings, after.settings
    budgets = ("pages", "bytes", "seconds", "host_pages", "host_bytes", "host_seconds")
    old_budgets = {name: getattr(old.scope, name) for name in budgets}
    is_same = old.scope == replace(new.scope, **old_budgets) and old.sheets == new.sheets
    return not is_same or before.seeds != after.seeds


async def _add_seeds(job: Job, followed: Job | None, frontier: Frontier, local: Settings, clock: Clock) -> AddResult:
    """Queue the seeds. A new one that belongs to a list or another crawl is taken over."""
    turns = make_slot_assigner(local)
    items = await turns.assign(NewItem(seed, lane=job.lane, job=job.name) for seed in job.seeds)
    before = set(followed.seeds) if followed is not None else set()
    total = AddResult()
    for start in range(0, len(items), AT_ONCE):
        some = items[start : start + AT_ONCE]
        result = frontier.add(some, now=clock.now())
        total += result
        if result.added == len(some):
            continue
        urls = [each.url for each in some if each.url not in before]
        known = zip(urls, frontier.find_all(urls), strict=True)
        urls = [url for url, record in known if record is not None and record.item.job != job.name]
        others = [each for each in some if each.url in urls]
        frontier.discard(urls, now=clock.now(), reason=f"moved to the crawl {job.name}")
        moved = frontier.add(others, now=clock.now(), again=timedelta(0))
        total += AddResult(duplicates=-moved.requeued, requeued=moved.requeued)
    return total


def describe_budgets(scope: ScopeSettings, size: Callable[[float], str]) -> list[str]:
    """Describe each budget that is set; `size` formats bytes."""
    budgets = []
    for whose, pages, stored, seconds in (
        ("", scope.pages, scope.bytes, scope.seconds),
        (" of one host", scope.host_pages, scope.host_bytes, scope.host_seconds),
    ):
        budgets += [f"{pages} pages{whose}"] if pages else []
        budgets += [f"{size(stored)}{whose}"] if stored else []
        budgets += [f"{format_duration(seconds)}{whose}"] if seconds else []
    return budgets
