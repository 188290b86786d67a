"""Workers: claim, visit, complete, until nothing is left or somebody says stop."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from core.clock import Clock
from core.errors import (
    BrowserUnavailableError,
    DedupUnavailableError,
    DiskFullError,
    LimitReachedError,
    ProxyUnavailableError,
    WeboidError,
)
from core.pages import Outcome, PageInfo
from core.settings import Settings
from crawler.frontier.base import Frontier, FrontierItem, ItemState
from crawler.space import Paused, Resumed, Space
from crawler.supervisor import FileRecovered, Supervisor
from crawler.visiting import Captured, capture
from proxy.index.protocol import CaptureIndex

log = logging.getLogger(__name__)

DEATHS = 5  # browsers or proxies that a page may see die before it counts as an attempt
WAIT_LIMIT_S = 5.0  # other processes may add or finish: look again at least so often


@dataclass(frozen=True, slots=True)
class PageDone:
    """A page is over: archived, or given up.

    Attributes:
        url: the page.
        page: its manifest; None when there is none.
        error: why it was given up; empty when it was not.
        attempts: how often it was tried.
    """

    url: str
    page: PageInfo | None
    error: str
    attempts: int


@dataclass(frozen=True, slots=True)
class PageTriedAgain:
    """A page did not work and will be tried again."""

    url: str
    reason: str
    attempts: int


Event = PageDone | PageTriedAgain | Paused | Resumed | FileRecovered


@dataclass(slots=True)
class Crew:
    """Several workers on one frontier, one supervisor, one index.

    Attributes:
        space: where workers wait when the disk is nearly full.
        report: told what happens, as it happens.
        stopping: set it, and no worker claims another item.
    """

    frontier: Frontier
    supervisor: Supervisor
    index: CaptureIndex
    space: Space
    settings: Settings
    clock: Clock
    name: str
    report: Callable[[Event], None]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _deaths: Counter[str] = field(default_factory=Counter)

    async def run(self, workers: int) -> None:
        """Work until nothing is left, or `stopping` is set and what was begun is over.

        Raises:
            DiskFullError, LimitReachedError, DedupUnavailableError: there is no space, the run may
                receive no more, or the dedup index does not answer; nothing is lost.
            BrowserUnavailableError, ProxyUnavailableError: they do not start any more.
        """
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(self._work(f"{self.name}.{number}"))

    async def _work(self, worker: str) -> None:
        while not self.stopping.is_set():
            await self.space.wait(self.stopping)
            if self.stopping.is_set():
                break
            now = self.clock.now()
            claimed = self.frontier.claim(now=now, worker=worker)
            if not claimed:
                if self.frontier.unfinished(now) == 0:
                    break
                await self._wait()
                continue
            await self._handle(claimed[0])
            self._tell_others()
        self._tell_others()

    async def _wait(self) -> None:
        """Wait for another worker to finish something, for a host's turn, or for the end."""
        now = self.clock.now()
        wakeup = self.frontier.next_wakeup(now)
        left = WAIT_LIMIT_S if wakeup is None else (wakeup - now).total_seconds()
        changed, stopping = self._changed, asyncio.create_task(self.stopping.wait())
        waiting = {asyncio.create_task(changed.wait()), stopping}
        try:
            await asyncio.wait(
                waiting,
                timeout=min(max(left, 0.01), WAIT_LIMIT_S),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for task in waiting:
                task.cancel()

    def _tell_others(self) -> None:
        """Wake whoever waits: something was finished."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _handle(self, item: FrontierItem) -> None:
        if self._was_finished(item):
            return
        visiting = asyncio.create_task(self._visit(item))
        keeping = asyncio.create_task(self._keep_lease(item, visiting))
        try:
            await visiting
        except asyncio.CancelledError:
            visiting.cancel()
            with suppress(asyncio.CancelledError, WeboidError):
                await visiting
            if not keeping.done():  # we were told to stop, so the claim is still ours
                self.frontier.release(item, now=self.clock.now(), reason="stopped")
                raise
            log.warning("claim.lost url=%s", item.url)
        finally:
            keeping.cancel()

    def _was_finished(self, item: FrontierItem) -> bool:
        """Complete an item whose visit was over before its worker could say so."""
        outcome = self.index.page_outcome(item.id)
        if outcome is None:
            return False
        now = self.clock.now()
        if outcome is Outcome.FAILED:
            self.frontier.fail(item, now=now, reason="failed, as its manifest says")
            self.report(PageDone(item.url, None, "failed", item.attempts - 1))
        else:
            self.frontier.complete(item, now=now, outcome=str(outcome), duration=timedelta(0))
            self.report(PageDone(item.url, None, "", item.attempts - 1))
        return True

    async def _visit(self, item: FrontierItem) -> None:
        last = item.attempts >= self.settings.frontier.attempts
        try:
            captured = await capture(
                item.url,
                item.id,
                supervisor=self.supervisor,
                settings=self.settings,
                clock=self.clock,
                last_attempt=last,
            )
        except (DiskFullError, LimitReachedError, DedupUnavailableError) as error:
            self.frontier.release(item, now=self.clock.now(), reason=str(error))
            if not (isinstance(error, DiskFullError) and self.space.is_low()):
                raise  # waiting for space would not help
        except (BrowserUnavailableError, ProxyUnavailableError) as error:
            self._survive(item, error)
        except WeboidError as error:
            log.warning("visit.failed url=%s error=%s", item.url, error)
            self._retry(item, str(error))
        else:
            self._settle(item, captured)

    def _survive(self, item: FrontierItem, error: WeboidError) -> None:
        """Give back an item whose browser or proxy died: that is seldom the page's fault.

        A page that kills them again and again is to blame after all.
        """
        self._deaths[item.url] += 1
        if self._deaths[item.url] >= DEATHS:
            self._retry(item, str(error))
            return
        log.warning("visit.interrupted url=%s reason=%s", item.url, error)
        self.frontier.release(item, now=self.clock.now(), reason=str(error))

    def _settle(self, item: FrontierItem, captured: Captured) -> None:
        page, now = captured.page, self.clock.now()
        duration = timedelta(seconds=page.seconds)
        if captured.again:
            if captured.not_before is not None:
                self.frontier.block_until(
                    item.host, captured.not_before, f"Retry-After, status {page.status}", now=now
                )
            self._retry(item, page.reason or f"status {page.status}")
        elif page.outcome is Outcome.FAILED:
            if self.frontier.fail(item, now=now, reason=page.reason, duration=duration):
                self.report(PageDone(item.url, page, page.reason, item.attempts))
        elif self.frontier.complete(item, now=now, outcome=str(page.outcome), duration=duration):
            self.report(PageDone(item.url, page, "", item.attempts))

    def _retry(self, item: FrontierItem, reason: str) -> None:
        state = self.frontier.retry(item, now=self.clock.now(), reason=reason)
        if state is ItemState.DEAD:
            self.report(PageDone(item.url, None, reason, item.attempts))
        elif state is ItemState.QUEUED:
            self.report(PageTriedAgain(item.url, reason, item.attempts))

    async def _keep_lease(self, item: FrontierItem, visiting: asyncio.Task[None]) -> None:
        """Renew the lease while the visit lasts; end the visit when the claim is lost."""
        while True:
            await asyncio.sleep(self.settings.frontier.lease_s / 3)
            if not self.frontier.renew(item, now=self.clock.now()):
                visiting.cancel()
                return
