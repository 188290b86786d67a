"""Worker pool of a process: claims items and runs their page tasks until stopped."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from core.errors import InputError, InvariantError, WeboidError
from core.timestamps import parse_warc_date
from crawler.frontier.base import FrontierItem
from crawler.worker.crawl_events import SnapshotMade
from crawler.worker.page_task import (
    MAX_INTERNAL_ERRORS,
    RUN_ERRORS,
    ClaimLostError,
    CrawlContext,
    PageTask,
    release_item,
)
from net.backoff import ExponentialBackoff, WaitStarted
from net.stop_signals import wait_for_any

log = logging.getLogger(__name__)

WAIT_LIMIT_S = 1.0  # poll interval: other processes may add, finish or unblock
BLOCKED_PAUSE_S = 10.0  # while no page can be kept
LONG_WAIT = timedelta(
    hours=1
)  # whoever called for a run does not wait longer for a page's own turn
ORDERS_POLL_S = 0.5  # an order reaches us within so long
BACKOFF_INITIAL_S = 1.0  # of a worker after an internal error outside of any page …
BACKOFF_MAX_S = 30.0  # … doubled each time in a row, up to this
SNAPSHOT_ORDER = "snapshot"  # its kind; the value is the moment of the last one
STOP_ORDER = "stop"  # its kind; the value "now" stops at once


@dataclass(slots=True)
class WorkerPool:
    """Workers of one process."""

    means: CrawlContext
    lease_s: float  # duration of a claim without renewal
    name: str  # of this process, for records
    # Wait for work when nothing is left; at the start for the end of a stop order.
    endless: bool = False
    stopping: asyncio.Event = field(default_factory=asyncio.Event)  # once set, nothing is claimed
    at_once: asyncio.Event = field(default_factory=asyncio.Event)  # visits under way are released
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _version: int = -1
    _snapshot: str | None = None
    _faults: int = 0

    async def run(self, workers: int) -> None:
        """Run until nothing is left, or until `stopping` is set and visits under way have ended.

        Raises:
            DiskFullError, LimitReachedError, DedupUnavailableError: no page can be stored; nothing is lost.
            BrowserUnavailableError, ProxyUnavailableError: they do not start any more.
            InvariantError: consecutive internal errors, in pages or outside of any page.
        """
        # Delete an old stop order; an endless pool waits for its end.
        means = self.means
        if not self.endless:
            await means.patience.ask(lambda: means.frontier.take_back(STOP_ORDER, ""))
        while self.endless and not self.stopping.is_set():
            if not await means.patience.ask(lambda: means.frontier.orders(STOP_ORDER)):
                break
            await asyncio.sleep(ORDERS_POLL_S)
        watching = asyncio.create_task(self._watch())
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(workers):
                    group.create_task(self._work(f"{self.name}.{number}"))
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        """Poll the frontier for orders."""
        backoff = ExponentialBackoff(ORDERS_POLL_S, BACKOFF_MAX_S)
        while True:
            try:
                await self._look_for_orders()
            except Exception:
                log.exception("orders.unread")
                await asyncio.sleep(backoff.next_s())
            else:
                backoff.reset()
                await asyncio.sleep(ORDERS_POLL_S)

    async def _look_for_orders(self) -> None:
        means = self.means
        stats = await means.patience.ask(lambda: means.frontier.stats(means.clock.now()))
        if stats.version == self._version:
            return
        orders = await means.patience.ask(lambda: means.frontier.orders(STOP_ORDER))
        snapshots = await means.patience.ask(lambda: means.frontier.orders(SNAPSHOT_ORDER))
        self._version = stats.version
        snapshot = snapshots.get("", "")
        if snapshot and snapshot != self._snapshot:
            # Report it once, also one that was made before this process began.
            self._snapshot = snapshot
            try:
                means.report(SnapshotMade(parse_warc_date(snapshot)))
            except InputError:
                log.warning("snapshot.unreadable moment=%r", snapshot[:50])
        if orders:
            self.stopping.set()
            if "now" in orders.values():
                self.at_once.set()
        self._tell_others()

    async def _work(self, worker: str) -> None:
        """Process items one after the other; an internal error stops neither this worker nor the others."""
        backoff = ExponentialBackoff(BACKOFF_INITIAL_S, BACKOFF_MAX_S)
        while not self.stopping.is_set():
            try:
                goes_on = await self._work_once(worker)
            except WeboidError:
                raise
            except Exception as error:
                log.exception("worker.internal_error worker=%s", worker)
                await self._endure(error, backoff.next_s())
                continue
            backoff.reset()
            self._faults = 0
            if not goes_on:
                break
        self._tell_others()

    async def _endure(self, error: Exception, pause_s: float) -> None:
        """Wait after an internal error; raise after too many in a row."""
        self._faults += 1
        if self._faults >= MAX_INTERNAL_ERRORS:
            raise InvariantError(
                f"{self._faults} internal errors of Weboid in a row, the last {type(error).__name__}: "
                f"{error}. The log has each with its traceback: please report it. Nothing that was "
                "archived is lost, and the same command goes on with the rest."
            ) from error
        await wait_for_any(self.stopping, timeout_s=pause_s)

    async def _work_once(self, worker: str) -> bool:
        """Process one item, or wait for one; return False when nothing is left to do."""
        means = self.means
        if means.space is not None:
            await means.space.wait(self.stopping)
        await means.network.wait(self.stopping)
        if self.stopping.is_set():
            return False
        claimed: list[FrontierItem] = []
        async with means.room.take(self.stopping):
            if not self.stopping.is_set():
                claimed = await means.patience.ask(
                    lambda: means.frontier.claim(now=means.clock.now(), worker=worker)
                )
            for item in claimed:
                await self._handle(item)
        if claimed:
            self._tell_others()
        elif not self.endless and not await self._unfinished():
            return False
        else:
            await self._wait()
        return True

    async def _unfinished(self) -> int:
        """Count the items that this run waits for, without those whose wait is long."""
        means = self.means
        frontier, now = means.frontier, means.clock.now()

        def count() -> int:
            stats = frontier.stats(now)
            if stats.claimed or stats.queued > stats.later:
                return frontier.unfinished(now)
            wakeup = frontier.next_wakeup(now)
            is_long = wakeup is not None and wakeup - now > LONG_WAIT
            return 0 if is_long else frontier.unfinished(now)

        return await means.patience.ask(count)

    async def _wait(self) -> None:
        """Wait for another worker's result, for a host's next visit, or for the end."""
        means = self.means
        changed = self._changed
        now = means.clock.now()
        wakeup = await means.patience.ask(lambda: means.frontier.next_wakeup(now))
        left = WAIT_LIMIT_S if wakeup is None else (wakeup - now).total_seconds()
        await wait_for_any(changed, self.stopping, timeout_s=min(max(left, 0.01), WAIT_LIMIT_S))

    def _tell_others(self) -> None:
        """Notify waiting workers of a finished item or an order."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _handle(self, item: FrontierItem) -> None:
        """Run the page task while the claim is held and no stop at once is ordered."""
        errand = asyncio.create_task(PageTask(item, self.means).run())
        keeping = asyncio.create_task(self._keep_lease(item))
        dropping = asyncio.create_task(self.at_once.wait())
        try:
            await asyncio.wait({errand, keeping, dropping}, return_when=asyncio.FIRST_COMPLETED)
            if not errand.done():
                await _cancelled(errand)
            if not errand.cancelled():
                await self._look_at(errand)
            elif keeping.done():
                log.warning("claim.lost url=%s", item.url)
            else:
                self._give_back(item)
        except asyncio.CancelledError:
            await _cancelled(errand)
            if errand.cancelled():
                self._give_back(item)
            raise
        finally:
            keeping.cancel()
            dropping.cancel()

    async def _look_at(self, errand: "asyncio.Task[None]") -> None:
        """Handle the end of a page task; an endless pool waits until pages can be stored again."""
        try:
            errand.result()
        except ClaimLostError:
            return
        except RUN_ERRORS as error:
            if not self.endless:
                raise
            self.means.report(WaitStarted("archive", str(error)))
            await wait_for_any(self.stopping, timeout_s=BLOCKED_PAUSE_S)

    def _give_back(self, item: FrontierItem) -> None:
        """Release the item; when that fails, its lease expires."""
        try:
            release_item(item, self.means, "stopped")
        except WeboidError:
            return
        except Exception:
            log.exception("claim.not_released url=%s", item.url)

    async def _keep_lease(self, item: FrontierItem) -> None:
        """Renew the lease; return when the claim is lost. A lease that cannot be renewed expires."""
        means = self.means
        while True:
            await asyncio.sleep(self.lease_s / 3)
            try:
                is_ours = await means.patience.ask(
                    lambda: means.frontier.renew(item, now=means.clock.now())
                )
            except Exception:
                log.exception("claim.not_renewed url=%s", item.url)
                continue
            if not is_ours:
                return


async def _cancelled(task: "asyncio.Task[None]") -> None:
    """Cancel the task; its errors are ignored."""
    task.cancel()
    with suppress(asyncio.CancelledError, WeboidError):
        await task
