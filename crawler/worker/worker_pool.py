"""Worker pool of a process: claims items and runs their page tasks until stopped."""

import asyncio
import logging
import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from core.errors import InputError, InvariantError, WeboidError
from core.timestamps import parse_warc_date
from crawler.frontier.base import STOP_ORDER, FrontierItem
from crawler.worker import page_task
from crawler.worker.crawl_events import SnapshotMade
from crawler.worker.live_view import store_pictures
from net.backoff import ExponentialBackoff, WaitStarted
from net.stop_signals import wait_for_any

log = logging.getLogger(__name__)

WAIT_LIMIT_S = 1.0  # poll interval: other processes may add, finish or unblock
BLOCKED_PAUSE_S = 10.0  # while no page can be stored
LONG_WAIT = timedelta(hours=1)  # a run ends when its next item is due later than this
ORDERS_POLL_S = 0.5  # until an order is noticed
BACKOFF_INITIAL_S = 1.0  # of a worker after an internal error outside of any page …
BACKOFF_MAX_S = 30.0  # … doubled each time in a row, up to this
SNAPSHOT_ORDER = "snapshot"  # its kind; the value is the moment of the last one


def process_name() -> str:
    """Return this process's name for records: host name and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(slots=True)
class WorkerPool:
    """Workers of one process."""

    context: page_task.CrawlContext
    lease_s: float  # duration of a claim without renewal
    name: str  # of this process, for records
    endless: bool = False  # wait for work when nothing is left; at the start for the end of a stop order
    stopping: asyncio.Event = field(default_factory=asyncio.Event)  # once set, nothing is claimed
    at_once: asyncio.Event = field(default_factory=asyncio.Event)  # visits under way are released
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _version: int = -1
    _snapshot: str | None = None
    _faults: int = 0

    async def run(self, workers: int) -> None:
        """Run until nothing is left, or until `stopping` is set and visits in progress have ended.

        Raises DiskFullError, LimitReachedError, DedupUnavailableError (no page can be stored; nothing is lost),
        BrowserUnavailableError, ProxyUnavailableError (they do not start any more), InvariantError (consecutive
        internal errors, in pages or outside of any page).
        """
        context = self.context
        if not self.endless:
            await context.patience.ask(lambda: context.frontier.take_back(STOP_ORDER, ""))
        while self.endless and not self.stopping.is_set():
            if not await context.patience.ask(lambda: context.frontier.orders(STOP_ORDER)):
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
        context, backoff = self.context, ExponentialBackoff(ORDERS_POLL_S, BACKOFF_MAX_S)
        while True:
            try:
                await self._apply_orders()
                if context.supervisor.browsers.pages():
                    await store_pictures(context.frontier, context.supervisor.browsers, context.patience, context.clock)
            except Exception:
                log.exception("orders.unread")
                await asyncio.sleep(backoff.next_s())
            else:
                backoff.reset()
                await asyncio.sleep(ORDERS_POLL_S)

    async def _apply_orders(self) -> None:
        context = self.context
        stats = await context.patience.ask(lambda: context.frontier.stats(context.clock.now()))
        if stats.version == self._version:
            return
        orders = await context.patience.ask(lambda: context.frontier.orders(STOP_ORDER))
        snapshots = await context.patience.ask(lambda: context.frontier.orders(SNAPSHOT_ORDER))
        self._version = stats.version
        snapshot = snapshots.get("", "")
        if snapshot and snapshot != self._snapshot:
            # Report it once, including one set before this process started.
            self._snapshot = snapshot
            try:
                context.report(SnapshotMade(parse_warc_date(snapshot)))
            except InputError:
                log.warning("snapshot.unreadable moment=%r", snapshot[:50])
        if orders:
            self.stopping.set()
            if "now" in orders.values():
                self.at_once.set()
        self._notify_workers()

    async def _work(self, worker: str) -> None:
        """Process items one after the other; an internal error stops neither this worker nor the others."""
        backoff = ExponentialBackoff(BACKOFF_INITIAL_S, BACKOFF_MAX_S)
        while not self.stopping.is_set():
            try:
                has_more = await self._work_once(worker)
            except WeboidError:
                raise
            except Exception as error:
                log.exception("worker.internal_error worker=%s", worker)
                self._faults += 1
                if self._faults >= page_task.MAX_INTERNAL_ERRORS:
                    raise InvariantError(
                        f"{self._faults} internal errors of Weboid in a row, the last "
                        f"{type(error).__name__}: {error}. The log has each with its traceback: please "
                        "report it. Nothing that was archived is lost, and the same command continues with the rest."
                    ) from error
                await wait_for_any(self.stopping, timeout_s=backoff.next_s())
                continue
            backoff.reset()
            self._faults = 0
            if not has_more:
                break
        self._notify_workers()

    async def _work_once(self, worker: str) -> bool:
        """Process one item, or wait for one; return False when nothing is left to do."""
        context = self.context
        if context.space is not None:
            await context.space.wait(self.stopping)
        await context.network.wait(self.stopping)
        if self.stopping.is_set():
            return False
        claimed: list[FrontierItem] = []
        async with context.room.take(self.stopping):
            if not self.stopping.is_set():
                claimed = await context.patience.ask(
                    lambda: context.frontier.claim(now=context.clock.now(), worker=worker)
                )
            for item in claimed:
                await self._handle(item)
        if claimed:
            self._notify_workers()
            return True
        if not self.endless and not await self._unfinished():
            return False
        changed, now = self._changed, context.clock.now()
        wakeup = await context.patience.ask(lambda: context.frontier.next_wakeup(now))
        left = WAIT_LIMIT_S if wakeup is None else (wakeup - now).total_seconds()
        await wait_for_any(changed, self.stopping, timeout_s=min(max(left, 0.01), WAIT_LIMIT_S))
        return True

    async def _unfinished(self) -> int:
        """Count the items that this run waits for, without those whose wait is long."""
        frontier, now = self.context.frontier, self.context.clock.now()

        def count() -> int:
            stats = frontier.stats(now)
            if not stats.claimed and stats.queued <= stats.later:
                wakeup = frontier.next_wakeup(now)
                if wakeup is not None and wakeup - now > LONG_WAIT:
                    return 0
            return frontier.unfinished(now)

        return await self.context.patience.ask(count)

    def _notify_workers(self) -> None:
        """Notify waiting workers of a finished item or an order."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _handle(self, item: FrontierItem) -> None:
        """Run the page task while the claim is held and no stop at once is ordered; pause if no page can be stored."""
        task = asyncio.create_task(page_task.PageTask(item, self.context).run())
        renewing = asyncio.create_task(self._keep_lease(item))
        dropping = asyncio.create_task(self.at_once.wait())
        try:
            await asyncio.wait({task, renewing, dropping}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await _cancelled(task)
            if not task.cancelled():
                task.result()
            elif renewing.done():
                log.warning("claim.lost url=%s", item.url)
            else:
                self._release(item)
        except asyncio.CancelledError:
            await _cancelled(task)
            if task.cancelled():
                self._release(item)
            raise
        except page_task.ClaimLostError:
            return
        except page_task.RUN_ERRORS as error:
            if not self.endless:
                raise
            self.context.report(WaitStarted("archive", str(error)))
            await wait_for_any(self.stopping, timeout_s=BLOCKED_PAUSE_S)
        finally:
            renewing.cancel()
            dropping.cancel()

    def _release(self, item: FrontierItem) -> None:
        """Release the item; when that fails, its lease expires."""
        try:
            page_task.release_item(item, self.context, "stopped")
        except WeboidError:
            return
        except Exception:
            log.exception("claim.not_released url=%s", item.url)

    async def _keep_lease(self, item: FrontierItem) -> None:
        """Renew the lease; return when the claim is lost. A lease that cannot be renewed expires."""
        context = self.context
        while True:
            await asyncio.sleep(self.lease_s / 3)
            try:
                is_ours = await context.patience.ask(lambda: context.frontier.renew(item, now=context.clock.now()))
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
