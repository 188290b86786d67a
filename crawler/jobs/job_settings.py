"""Settings in force for a URL: machine, job, sheets, redirected seeds and ordered repairs.

Jobs, sheets, repairs and redirected seeds are orders in the frontier; `FrontierStats.version`, polled
every `ORDERS_POLL_S`, shows when one has changed, so a change reaches every worker within a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from core.clock import Clock
from core.config.settings import Settings
from core.errors import BadUrlError, ConfigError, TransientError
from core.urls import fetch_key, identity_key
from crawler.frontier.base import JOB_ORDER, REPAIR_ORDER, Frontier, FrontierItem, Lane
from crawler.rules.visit_rule import ALLOW_VISIT, FollowUp, RuleAction, RuleDecision, VisitRule

if TYPE_CHECKING:
    from core.config.sheets import Sheet, SurtPrefixMap
    from crawler.capture.page_capture import CaptureResult
    from crawler.jobs.crawl_orders import Job, RepairVisit
    from crawler.jobs.scope import Scope, SeedTerritory
    from net.backoff import StoreRetry
    from render.sign_in import SiteLogins

log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class RepairRule(VisitRule):
    """`VisitRule` of repairs: with the capture's login, without links, which were decided on at the first capture."""

    repair_of: Callable[[str], RepairVisit | None]
    logins: SiteLogins | None  # None: there are none

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:  # noqa: ARG002 a rule
        """Refuse a visit with another login than the page was captured with."""
        repair = self.repair_of(item.url)
        if repair is None:
            return ALLOW_VISIT
        login = None if self.logins is None else self.logins.of(item.url)
        name = login.name if login is not None else ""
        if name == repair.login:
            return ALLOW_VISIT
        if repair.login:
            return RuleDecision(RuleAction.FAIL, f"login: this run has not the login {repair.login}")
        return RuleDecision(RuleAction.FAIL, f"login: it was captured without one, and this run has {name}")

    async def after(self, item: FrontierItem, captured: CaptureResult, follow_up: FollowUp, *, now: datetime) -> None:
        """Remove the page's links."""
        del captured, now
        if self.repair_of(item.url) is not None:
            follow_up.links.clear()


SHEET_ORDER = "sheet"  # the key is the prefix, the value its changes as JSON
SEED_ORDER = "seed"  # where a seed redirects to; the key is the job and the seed
ORDERS_POLL_S = 0.5
REDIRECTED_SEEDS_LIMIT = 1_000
UNREADABLE_JOB_WAIT = timedelta(minutes=1)


@dataclass(slots=True)
class _EffectiveSettings:
    """Settings of one job, or of lists; rebuilt when an order changes."""

    base: Settings  # the settings without sheets
    sheets: SurtPrefixMap[Sheet] | None  # by prefix, the live ones included; None: there are none
    territory: SeedTerritory | None = None  # the URLs that the job's seeds span; None for lists
    # Cached for each combination of sheets.
    by_sheets: dict[tuple[str, ...], Settings] = field(default_factory=dict)
    scopes: dict[tuple[str, ...], Scope] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _JobOrders:
    """Orders as last read; replaced as a whole."""

    texts: dict[str, str] = field(default_factory=dict)  # the orders of jobs, by name
    jobs: dict[str, Job] = field(default_factory=dict)  # those that could be read, by name
    faults: dict[str, str] = field(default_factory=dict)  # why a job cannot be read, by name
    moved: dict[str, dict[str, str]] = field(default_factory=dict)  # targets of redirected seeds, by job and seed
    live: list[Sheet] = field(default_factory=list)  # the sheets that were set while the crawl runs
    repairs: dict[str, RepairVisit] = field(default_factory=dict)  # ordered ones, by identity key
    settled: dict[str, _EffectiveSettings] = field(default_factory=dict)  # by job, filled on use


@dataclass(eq=False, repr=False)
class JobSettings:
    """Lookup of settings per item; cheap enough to be called for every link. Thread-safe."""

    frontier: Frontier
    local: Settings  # whole for items without a job
    _: KW_ONLY
    clock: Clock
    _version: int = field(default=-1, init=False)
    _read_at: float = field(default=float("-inf"), init=False)
    _known: _JobOrders = field(default_factory=_JobOrders, init=False)
    _territories: dict[str, tuple[Job, dict[str, str], SeedTerritory]] = field(default_factory=dict, init=False)

    def refresh(self) -> None:
        """Read changed orders, at most every `ORDERS_POLL_S`. Raises TransientError during an outage."""
        moment = self.clock.monotonic()
        if moment < self._read_at + ORDERS_POLL_S:
            return
        version = self.frontier.stats(self.clock.now()).version
        if version != self._version:
            self._known = self._read()
            self._version = version
        self._read_at = moment

    def settings_for(self, url: str, job: str) -> Settings:
        """Return the settings for a fetch key in a job, as last known; an unknown or empty job counts as a list."""
        return self._for(url, job)[2]

    def scope_for(self, url: str, job: str) -> Scope:
        """Return the scope for a fetch key as a link of the job; for a list, only the exclusions."""
        settled, key, settings = self._for(url, job)
        scope = settled.scopes.get(key)
        if scope is None:
            from crawler.jobs.scope import Scope, SeedTerritory

            territory = settled.territory or SeedTerritory("any", ())
            scope = settled.scopes[key] = Scope(territory, settings.scope)
        return scope

    def excluding(self, url: str, job: str) -> str | None:
        """Return the exclude pattern that the fetch key matches; None when there is none."""
        if not self.settings_for(url, job).scope.exclude:
            return None
        return self.scope_for(url, job).excluded(url)

    def job(self, name: str) -> Job | None:
        """Return the job of that name; None when there is none, or it cannot be read."""
        self._refresh_if_available()
        return self._known.jobs.get(name)

    def fault(self, name: str) -> str:
        """Return why the job cannot be read; empty when it can, or does not exist."""
        return self._known.faults.get(name, "")

    def repair_of(self, url: str) -> RepairVisit | None:
        """Return the repair that is ordered for the URL's next visit; None for a usual visit."""
        self._refresh_if_available()
        repairs = self._known.repairs
        return repairs.get(identity_key(url)) if repairs else None

    def lane(self, name: str) -> Lane:
        """Return the lane of the job's links."""
        job = self._known.jobs.get(name)
        return Lane.STANDARD if job is None else job.lane

    def move_seed(self, job: str, seed: str, target: str) -> None:
        """Add the target of a seed's redirect to the scope, on all machines, where that changes something.

        For at most `REDIRECTED_SEEDS_LIMIT` seeds of a job: each is an order that every worker reads. May raise
        TransientError.
        """
        known = self._known
        moved = known.moved.get(job, {})
        if job not in known.jobs or moved.get(seed) == target or len(moved) >= REDIRECTED_SEEDS_LIMIT:
            return
        kind = known.jobs[job].settings.scope.kind
        if kind in ("page", "any") or self._territory(known.jobs[job], moved).why(target):
            return
        if identity_key(seed) in {identity_key(each) for each in known.jobs[job].seeds}:
            self.frontier.give_order(SEED_ORDER, f"{job} {seed}", target)
            self._read_at = float("-inf")
            self.refresh()

    def _for(self, url: str, job: str) -> tuple[_EffectiveSettings, tuple[str, ...], Settings]:
        """Return the job's settings, the prefixes of the URL's sheets, and the settings with these."""
        self._refresh_if_available()
        known = self._known
        name = job if job in known.jobs else ""
        settled = known.settled.get(name)
        if settled is None:
            base, territory, owner = self.local, None, known.jobs.get(name)
            if owner is not None:
                from crawler.jobs.crawl_orders import JOB_GROUPS

                base = replace(base, **{group: getattr(owner.settings, group) for group in (*JOB_GROUPS, "sheets")})
                territory = self._territory(owner, known.moved.get(name, {}))
            sheets = None
            if listed := (*base.sheets, *known.live):
                from core.config.sheets import SurtPrefixMap

                sheets = SurtPrefixMap((each.prefix, each) for each in listed)
            settled = known.settled[name] = _EffectiveSettings(base, sheets, territory)
        if settled.sheets is None:
            return settled, (), settled.base
        from core.config.sheets import surt, with_sheets

        applied = settled.sheets.of(surt(url))
        key = tuple(sheet.prefix for sheet in applied)
        settings = settled.by_sheets.get(key)
        if settings is None:
            settings = settled.by_sheets[key] = with_sheets(settled.base, applied)
        return settled, key, settings

    def _refresh_if_available(self) -> None:
        try:
            self.refresh()
        except TransientError as error:
            log.debug("jobs.stale error=%s", error)

    def _territory(self, job: Job, moved: dict[str, str]) -> SeedTerritory:
        """Return the job's territory; the last one is cached, as many seeds make it costly."""
        last = self._territories.get(job.name)
        if last is None or last[0] is not job or last[1] != moved:
            from crawler.jobs.scope import SeedTerritory

            seeds = (*job.seeds, *moved.values())
            last = job, moved, SeedTerritory(job.settings.scope.kind, seeds)
            self._territories[job.name] = last
        return last[2]

    def _read(self) -> _JobOrders:
        """Read all relevant orders; unreadable ones are logged and left out."""
        jobs: dict[str, Job] = {}
        faults: dict[str, str] = {}
        before, texts = self._known, self.frontier.orders(JOB_ORDER)
        if texts:
            from crawler.jobs.crawl_orders import parse_job

            for name, text in texts.items():
                try:
                    same = before.texts.get(name) == text and name in before.jobs
                    jobs[name] = before.jobs[name] if same else parse_job(name, text)
                except ConfigError as error:
                    faults[name] = str(error)
                    if before.faults.get(name) != str(error):
                        log.warning("job.unreadable error=%s", error)
        moved: dict[str, dict[str, str]] = {}  # targets of redirected seeds, by job and seed
        for key, target in self.frontier.orders(SEED_ORDER).items():
            job, _, seed = key.partition(" ")
            try:
                moved.setdefault(job, {})[seed] = fetch_key(target, allow_single_label=True)
            except BadUrlError as error:
                log.warning("seed.unreadable error=%s", error)
        live: list[Sheet] = []
        repairs: dict[str, RepairVisit] = {}
        if self.frontier.orders(SHEET_ORDER) or self.frontier.orders(REPAIR_ORDER):
            from crawler.jobs.crawl_orders import live_sheets, read_repairs

            live, repairs = live_sheets(self.frontier), read_repairs(self.frontier)
        return _JobOrders(texts, jobs, faults, moved, live, repairs)


@dataclass(eq=False, repr=False)
class ExclusionRule(VisitRule):
    """`VisitRule` of the exclude patterns, which may have changed since an item was queued."""

    jobs: JobSettings
    patience: StoreRetry

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Skip an item that is excluded now; defer it while the job cannot be read."""
        await self.patience.ask(self.jobs.refresh)
        fault = self.jobs.fault(item.job)
        if fault:
            return RuleDecision(RuleAction.LATER, f"job: {fault}", until=now + UNREADABLE_JOB_WAIT)
        excluded = self.jobs.excluding(item.url, item.job)
        if excluded is not None:
            return RuleDecision(RuleAction.SKIP, f"scope: exclude {excluded}")
        return ALLOW_VISIT
