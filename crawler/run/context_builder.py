"""Context of a run for its extension, and construction of the workers' context: rules, limits, fetcher.

workers run ──────────> nothing left ─> extension: settle ─> new items? ─> workers run again
extension: note, note, …                                 ╰─> none ───────> the run's end
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from core.clock import Clock
from core.config.settings import Settings
from core.layout import Layout
from crawler.capture.page_capture import StoredLevelOf, store_everything
from crawler.frontier.base import JOB_ORDER, Frontier, FrontierItem
from crawler.frontier.host_slots import SlotAssigner
from crawler.jobs.job_settings import ExclusionRule, JobSettings, RepairRule
from crawler.policy.policy_rule import make_policy
from crawler.pools.resource_pool import ResourcePool
from crawler.rules.visit_rule import PolitenessRule, RecrawlRule, VisitRule
from crawler.worker.backpressure import DiskLimit, MemoryLimit, NetworkMonitor, free_bytes
from crawler.worker.crawl_events import Event
from crawler.worker.page_task import CrawlContext
from crawler.worker.worker_pool import WorkerPool
from net.backoff import StoreRetry
from warc.index.database import IndexDatabase
from warc.local_storage import DiskReserve

if TYPE_CHECKING:
    from crawler.capture.media_download import MediaDownloads
    from crawler.capture.plain_visit import PlainVisits
    from crawler.capture.proxy_fetcher import FileFetcher, ProxyFetcher
    from render.sign_in import SiteLogins

SLOT_LOOKUP_LIMIT_S = 5.0  # of names, to find hosts of one server; a slower name has a slot of its own


@dataclass(frozen=True, slots=True)
class RunContext:
    """Settings, stores and pools of a run; not available after the run."""

    layout: Layout  # of the collection, which a local run holds
    settings: Settings  # this machine's
    frontier: Frontier
    supervisor: ResourcePool  # lends proxies and browsers
    index: IndexDatabase
    clock: Clock
    report: Callable[[Event], None]  # called with each event
    _: KW_ONLY
    name: str = ""  # of this process, for records
    disk: DiskReserve | None = None  # the collection's; None when remote proxies check theirs
    reports: Path | None = None  # the folder of the link logs; None: none are written
    ca: Path | None = None  # authority of the proxies, for fetches without a browser
    logins: SiteLogins | None = None
    stored_level_of: StoredLevelOf = store_everything  # looks up decisions on stored levels
    endless: bool = False  # whether the workers never end by themselves


class RunExtension(Protocol):
    """Protocol of a run extension; see the module."""

    def note(self, event: Event) -> None:
        """Handle an event of the run without blocking."""

    def beside(self, context: RunContext) -> AbstractAsyncContextManager[None]:
        """Run the extension during the block; at its end, finish work in progress."""

    async def settle(self) -> bool:
        """Finish pending work after the workers; return whether there is something new in the frontier."""


def build_crawl_context(run: RunContext) -> CrawlContext:
    """Build the crawl context of a worker pool; the caller closes the run."""
    settings, clock, report = run.settings, run.clock, run.report
    frontier, patience = run.frontier, StoreRetry(clock, report)
    jobs = JobSettings(frontier, settings, clock=clock)

    def settings_for(item: FrontierItem) -> Settings:
        settings, repair = jobs.settings_for(item.url, item.job), jobs.repair_of(item.url)
        return settings if repair is None else repair.lay_over(settings)

    async def reach(host: str, port: int) -> bool:
        async with run.supervisor.proxies.lend() as proxy:
            return await proxy.reach(host, port)

    @cache
    def fetcher() -> ProxyFetcher:
        from crawler.capture.proxy_fetcher import pool_fetcher

        assert run.ca is not None
        return pool_fetcher(run.supervisor, settings, ca=run.ca)

    def file_fetcher() -> FileFetcher:
        from crawler.capture.proxy_fetcher import BrowserFetcher

        if settings.visit.connections == "recorder":
            return fetcher()
        return BrowserFetcher(fetcher(), run.supervisor, settings, clock)

    @cache
    def plain_visits() -> PlainVisits:
        from crawler.capture.plain_visit import PlainVisits

        return PlainVisits(fetcher(), clock)

    @cache
    def downloads() -> MediaDownloads:
        from crawler.capture.media_download import MediaDownloads

        return MediaDownloads(frontier, patience, clock, endless=run.endless)

    turns, fetches = make_slot_assigner(settings), run.ca is not None
    rules: list[VisitRule] = [ExclusionRule(jobs, patience)]
    # Another process adds a job only to a shared frontier, whose workers are endless.
    with_jobs = run.endless or bool(frontier.orders(JOB_ORDER))
    if with_jobs:
        from crawler.rules.scope_rule import BudgetRule, LinkLog, ScopeRule

        record = None if run.reports is None else LinkLog(run.reports)
        rules.append(ScopeRule(jobs, frontier, patience, name=run.name, record=record))
        rules.append(BudgetRule(jobs, frontier, patience))
    network = NetworkMonitor(reach, clock, report)
    policy = make_policy(
        frontier,
        settings.policy,
        fetcher=file_fetcher if fetches else None,
        settings_for=settings_for,
        clock=clock,
        ask=patience.ask,
        judge_network=network.judge,
    )
    rules.append(policy)
    if with_jobs and fetches:
        from crawler.rules.sitemap_rule import SitemapRule

        rules.append(SitemapRule(jobs, frontier, patience, file_fetcher(), turns=turns, clock=clock))
    recrawl = RecrawlRule(settings_for)
    make_limit = partial(DiskLimit, patience_s=settings.proxy.disk_wait_s, clock=clock, report=report)
    return CrawlContext(
        frontier=frontier,
        supervisor=run.supervisor,
        index=run.index,
        rules=(*rules, PolitenessRule(settings_for), recrawl, RepairRule(jobs.repair_of, run.logins)),
        settings_for=settings_for,
        policy=policy,
        recrawl=recrawl,
        turns=turns,
        space=None if run.disk is None else make_limit(run.disk),
        room=MemoryLimit(
            free_bytes,
            run.supervisor.browsers.visits_bytes,
            reserve_bytes=settings.browser.memory_reserve_mb * 1_000_000,
            clock=clock,
            report=report,
        ),
        network=network,
        plain=plain_visits if fetches else None,
        patience=patience,
        clock=clock,
        report=report,
        stored_level_of=run.stored_level_of,
        logins=run.logins,
        downloads=downloads,
    )


def build_worker_pool(run: RunContext, *, stopping: asyncio.Event) -> WorkerPool:
    """Build the worker pool of a run, which claims nothing once `stopping` is set."""
    lease_s = run.settings.frontier.lease_s
    return WorkerPool(build_crawl_context(run), lease_s, run.name, endless=run.endless, stopping=stopping)


def make_slot_assigner(settings: Settings) -> SlotAssigner:
    """Make the slot assigner for these settings."""
    if not settings.politeness.per_address:
        return SlotAssigner()
    from net.egress import Egress
    from net.timeouts import CancellableTimeout

    egress = Egress(settings.egress, connect_timeout_s=SLOT_LOOKUP_LIMIT_S)
    return SlotAssigner(lambda host: egress.address_of(host, patience=CancellableTimeout(SLOT_LOOKUP_LIMIT_S)))
