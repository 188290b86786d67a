"""Budget rule: limits of pages, bytes and seconds for a crawl and for each host.

Page limits are exact with any number of workers and machines: of the current claims the oldest ones go
first, and one that may be too many waits for them. Bytes and seconds are checked before a visit, so
visits under way may exceed them a little. Items beyond a job's budget are SKIPPED with the reason; a
larger budget for the same job queues them again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta

from core.config.settings import ScopeSettings
from crawler.frontier.base import Frontier, FrontierItem, ItemRecord, ItemState, JobCounts
from crawler.frontier.frontier_export import ItemSelection, select_items
from crawler.jobs.job_settings import JobSettings
from crawler.rules.visit_rule import ALLOW_VISIT, RuleAction, RuleDecision, VisitRule
from net.backoff import StoreRetry

log = logging.getLogger(__name__)

BUDGET_REASON = "budget: "  # how a reason begins
BUDGET_WAIT_S = 1.0  # an item that may be too many waits so long for those under way
MANY = 20  # so many that are left over are skipped together
CLAIMS_LIMIT = 5_000  # workers of a crawl
DISCARD_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class _BudgetAnswer:
    """Result of a budget check: `reason` when used up; `wait` when claims under way may use it up."""

    reason: str = ""
    wait: bool = False
    of_host: bool = False


_WITHIN_BUDGET = _BudgetAnswer()


@dataclass(eq=False, repr=False)
class BudgetRule(VisitRule):
    """`VisitRule` of budgets; one for all workers of a process."""

    jobs: JobSettings
    frontier: Frontier
    patience: StoreRetry
    _: KW_ONLY
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _clearing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Skip the item when a budget is used up; defer it when claims under way may use it up."""
        word = await self.patience.ask(lambda: self._word(item, now))
        if word.wait:
            # Held meanwhile, so that thousands of others are not claimed and given back in vain. Asked
            # again before it is given back: the oldest claim finds nobody ahead and goes, where claims
            # that only look once can wait for one another for ever.
            await self.sleep(BUDGET_WAIT_S)
            word = await self.patience.ask(lambda: self._word(item, now))
        if word.reason:
            if not self._clearing.locked():
                async with self._clearing:
                    await self.patience.ask(lambda: self._clear(item, word, now))
            return RuleDecision(RuleAction.SKIP, word.reason)
        if word.wait:
            until = now + timedelta(seconds=2 * BUDGET_WAIT_S)
            return RuleDecision(RuleAction.LATER, f"{BUDGET_REASON}the last pages are under way", until=until)
        return ALLOW_VISIT

    def _word(self, item: FrontierItem, now: datetime) -> _BudgetAnswer:
        """Return the result of the first budget that objects to a visit."""
        job = self.jobs.job(item.job)
        if job is None:
            return _WITHIN_BUDGET
        word = self._word_of_job(item, job.settings.scope, now)
        if word.reason or word.wait:
            return word
        scope = self.jobs.settings_for(item.url, item.job).scope
        if not (scope.host_pages or scope.host_bytes or scope.host_seconds):
            return _WITHIN_BUDGET
        ahead = self._ahead_of(item, of_host=True) if scope.host_pages else 0
        host = self.frontier.host(item.host, now=now)
        if host is None:
            return _WITHIN_BUDGET
        reason = ""
        if 0 < scope.host_pages <= host.done:
            reason = f"{BUDGET_REASON}{_pages(scope.host_pages)} of {item.host}"
        elif 0 < scope.host_bytes <= host.bytes:
            reason = f"{BUDGET_REASON}{scope.host_bytes} bytes of {item.host}"
        elif 0 < scope.host_seconds <= host.busy.total_seconds():
            reason = f"{BUDGET_REASON}{scope.host_seconds:.0f} s of {item.host}"
        wait = not reason and 0 < scope.host_pages <= host.done + ahead
        return _BudgetAnswer(reason, wait=wait, of_host=True)

    def _word_of_job(self, item: FrontierItem, scope: ScopeSettings, now: datetime) -> _BudgetAnswer:
        if not (scope.pages or scope.bytes or scope.seconds):
            return _WITHIN_BUDGET
        if not scope.pages:
            counts = self.frontier.job_counts(item.job)
            return _BudgetAnswer(_exhausted_budget(scope, counts, now))
        counts = self.frontier.job_counts(item.job)
        if counts.done + counts.claimed <= scope.pages:
            return _BudgetAnswer(_exhausted_budget(scope, counts, now))
        # The claims first: one that is completed in between counts twice, never not at all.
        ahead = self._ahead_of(item, of_host=False)
        counts = self.frontier.job_counts(item.job)
        reason = _exhausted_budget(scope, counts, now)
        return _BudgetAnswer(reason, wait=not reason and counts.done + ahead >= scope.pages)

    def _ahead_of(self, item: FrontierItem, *, of_host: bool) -> int:
        """Count claims that are older than the item's, of its host or of its job."""
        host = item.host if of_host else None
        claims = self.frontier.ls(ItemState.CLAIMED, limit=CLAIMS_LIMIT, host=host)
        return sum(record.item.token < item.token and (of_host or record.item.job == item.job) for record in claims)

    def _clear(self, item: FrontierItem, word: _BudgetAnswer, now: datetime) -> None:
        """Skip many remaining items together instead of claiming them one by one."""
        if word.of_host:
            host = self.frontier.host(item.host, now=now)
            more = host is not None and host.waiting >= MANY
            while more:
                records = self.frontier.ls(ItemState.QUEUED, limit=DISCARD_BATCH, host=item.host)
                more = bool(self._discard(records, item.job, word.reason, now))
        elif self.frontier.job_counts(item.job).queued >= MANY:
            of_job = ItemSelection(job=item.job)
            for some in select_items(self.frontier, ItemState.QUEUED, of_job):
                self._discard(some, item.job, word.reason, now)

    def _discard(self, records: Sequence[ItemRecord], job: str, reason: str, now: datetime) -> int:
        urls = [record.item.url for record in records if record.item.job == job]
        return self.frontier.discard(urls, now=now, reason=reason) if urls else 0


def _exhausted_budget(scope: ScopeSettings, counts: JobCounts, now: datetime) -> str:
    """Return the reason of a job's exhausted budget; empty when there is none."""
    if 0 < scope.pages <= counts.done:
        return f"{BUDGET_REASON}{_pages(scope.pages)}"
    if 0 < scope.bytes <= counts.bytes:
        return f"{BUDGET_REASON}{scope.bytes} bytes"
    began = counts.began_at or now
    if scope.seconds and now - began >= timedelta(seconds=min(scope.seconds, 1e9)):
        return f"{BUDGET_REASON}{scope.seconds:.0f} s"
    return ""


def _pages(count: int) -> str:
    return "1 page" if count == 1 else f"{count} pages"
