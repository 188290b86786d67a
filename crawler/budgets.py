"""Budgets as a rule: how many pages, bytes and seconds a crawl may take, in all and of one host.

Pages are exact, with any number of workers on any number of machines: of the claims that are under
way the oldest ones go first, and one that may be too many waits for them. Bytes and seconds are looked
at before a visit, so pages that were begun are finished and go a little beyond. What a job's budget
leaves over is SKIPPED with the reason; a larger budget for the same job queues it again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.settings import ScopeSettings
from crawler.frontier.base import Frontier, FrontierItem, ItemRecord, ItemState, JobCounts
from crawler.jobs import Jobs
from crawler.patience import Patience
from crawler.rules import VISIT, Action, Aftermath, Verdict
from crawler.visiting import Captured

log = logging.getLogger(__name__)

BUDGET = "budget: "  # how a reason begins
WAIT_S = 1.0  # an item that may be too many waits so long for those under way
MANY = 20  # so many that are left over are skipped together
CLAIMS_LIMIT = 5_000  # workers of a crawl
AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class _Word:
    """A budget's word: `reason` when it is used up; `wait` when it may be by what is under way."""

    reason: str = ""
    wait: bool = False
    of_host: bool = False


_YES = _Word()


class BudgetRule:
    """A `Rule`; one for all workers of a process."""

    def __init__(
        self,
        jobs: Jobs,
        frontier: Frontier,
        patience: Patience,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take what is needed.

        Args:
            jobs: says what holds for a URL.
            frontier: counts.
            patience: asks it.
            sleep: waits.
        """
        self._jobs = jobs
        self._frontier = frontier
        self._patience = patience
        self._sleep = sleep
        self._clearing = asyncio.Lock()

    async def before(self, item: FrontierItem, *, now: datetime) -> Verdict:
        """Skip the item when a budget is used up; let it wait when it may be."""
        word = await self._patience.ask(lambda: self._word(item, now))
        if word.wait:
            # Held meanwhile, so that thousands of others are not claimed and given back in vain. Asked
            # again before it is given back: the oldest claim finds nobody ahead and goes, where claims
            # that only look once can wait for one another for ever.
            await self._sleep(WAIT_S)
            word = await self._patience.ask(lambda: self._word(item, now))
        if word.reason:
            if not self._clearing.locked():
                async with self._clearing:
                    await self._patience.ask(lambda: self._clear(item, word, now))
            return Verdict(Action.SKIP, word.reason)
        if word.wait:
            until = now + timedelta(seconds=2 * WAIT_S)
            return Verdict(Action.LATER, f"{BUDGET}the last pages are under way", until=until)
        return VISIT

    async def after(
        self, item: FrontierItem, captured: Captured, aftermath: Aftermath, *, now: datetime
    ) -> None:
        """The frontier counts what was done."""

    def _word(self, item: FrontierItem, now: datetime) -> _Word:
        """The first budget that is against a visit."""
        job = self._jobs.job(item.job)
        if job is None:
            return _YES
        word = self._word_of_job(item, job.settings.scope, now)
        if word.reason or word.wait:
            return word
        scope = self._jobs.settings_for(item.url, item.job).scope
        return self._word_of_host(item, scope, now)

    def _word_of_job(self, item: FrontierItem, scope: ScopeSettings, now: datetime) -> _Word:
        if not (scope.pages or scope.bytes or scope.seconds):
            return _YES
        if not scope.pages:
            counts = self._frontier.job_counts(item.job)
            return _Word(_used_up(scope, counts, now))
        counts = self._frontier.job_counts(item.job)
        if counts.done + counts.claimed <= scope.pages:
            return _Word(_used_up(scope, counts, now))
        # The claims first: one that is completed in between counts twice, never not at all.
        ahead = self._ahead_of(item, of_host=False)
        counts = self._frontier.job_counts(item.job)
        reason = _used_up(scope, counts, now)
        return _Word(reason, wait=not reason and counts.done + ahead >= scope.pages)

    def _word_of_host(self, item: FrontierItem, scope: ScopeSettings, now: datetime) -> _Word:
        if not (scope.host_pages or scope.host_bytes or scope.host_seconds):
            return _YES
        ahead = self._ahead_of(item, of_host=True) if scope.host_pages else 0
        host = self._frontier.host(item.host, now=now)
        if host is None:
            return _YES
        reason = ""
        if 0 < scope.host_pages <= host.done:
            reason = f"{BUDGET}{_pages(scope.host_pages)} of {item.host}"
        elif 0 < scope.host_bytes <= host.bytes:
            reason = f"{BUDGET}{scope.host_bytes} bytes of {item.host}"
        elif 0 < scope.host_seconds <= host.busy.total_seconds():
            reason = f"{BUDGET}{scope.host_seconds:.0f} s of {item.host}"
        wait = not reason and 0 < scope.host_pages <= host.done + ahead
        return _Word(reason, wait=wait, of_host=True)

    def _ahead_of(self, item: FrontierItem, *, of_host: bool) -> int:
        """Claims that are older than the item's, of its host or of its job."""
        host = item.host if of_host else None
        claims = self._frontier.ls(ItemState.CLAIMED, limit=CLAIMS_LIMIT, host=host)
        return sum(
            record.item.token < item.token and (of_host or record.item.job == item.job)
            for record in claims
        )

    def _clear(self, item: FrontierItem, word: _Word, now: datetime) -> None:
        """Skip together what else is left over when that is much, rather than claim one by one."""
        if word.of_host:
            host = self._frontier.host(item.host, now=now)
            if host is not None and host.waiting >= MANY:
                self._clear_host(item, word.reason, now)
        elif self._frontier.job_counts(item.job).queued >= MANY:
            cursor = ""
            while True:
                records, cursor = self._frontier.scan(
                    ItemState.QUEUED, cursor=cursor, limit=AT_ONCE
                )
                self._discard(records, item.job, word.reason, now)
                if not cursor:
                    break

    def _clear_host(self, item: FrontierItem, reason: str, now: datetime) -> None:
        while True:
            records = self._frontier.ls(ItemState.QUEUED, limit=AT_ONCE, host=item.host)
            if not self._discard(records, item.job, reason, now):
                break

    def _discard(self, records: Sequence[ItemRecord], job: str, reason: str, now: datetime) -> int:
        urls = [record.item.url for record in records if record.item.job == job]
        return self._frontier.discard(urls, now=now, reason=reason) if urls else 0


def _used_up(scope: ScopeSettings, counts: JobCounts, now: datetime) -> str:
    """Which of a job's budgets is used up, as a reason; empty when none is."""
    if 0 < scope.pages <= counts.done:
        return f"{BUDGET}{_pages(scope.pages)}"
    if 0 < scope.bytes <= counts.bytes:
        return f"{BUDGET}{scope.bytes} bytes"
    began = counts.began_at or now
    if scope.seconds and now - began >= timedelta(seconds=min(scope.seconds, 1e9)):
        return f"{BUDGET}{scope.seconds:.0f} s"
    return ""


def _pages(count: int) -> str:
    return "1 page" if count == 1 else f"{count} pages"
