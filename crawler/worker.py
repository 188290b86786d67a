"""Workers: claim, run the errand, until nothing is left or somebody says stop."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field

from core.errors import WeboidError
from crawler.errand import NOT_THE_PAGES_FAULT, ClaimLostError, Errand, Means, give_back
from crawler.frontier.base import FrontierItem
from crawler.waiting import Waiting

log = logging.getLogger(__name__)

WAIT_LIMIT_S = 1.0  # other processes may add, finish or unblock: look again at least so often
HOLD_S = 10.0  # while no page can be kept
LOOK_S = 0.5  # an order reaches us within so long
STOP_ORDER = "stop"  # its kind; the value "now" stops at once


@dataclass(slots=True)
class Crew:
    """Several workers of one process.

    Attributes:
        means: what they work with.
        lease_s: how long a claim holds without a sign of life.
        name: of this process, for the books.
        endless: wait for work when nothing is left; at the start also for the end of a stop order,
            which another run takes back.
        stopping: set it, and no worker claims another item.
        at_once: set by an order to stop at once; visits under way are given back.
    """

    means: Means
    lease_s: float
    name: str
    endless: bool = False
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _version: int = -1

    async def run(self, workers: int) -> None:
        """Work until nothing is left, or `stopping` is set and what was begun is over.

        Raises:
            DiskFullError, LimitReachedError, DedupUnavailableError: there is no space, the run may
                receive no more, or the dedup index does not answer; nothing is lost.
            BrowserUnavailableError, ProxyUnavailableError: they do not start any more.
        """
        await self._begin()
        watching = asyncio.create_task(self._watch())
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(workers):
                    group.create_task(self._work(f"{self.name}.{number}"))
        finally:
            watching.cancel()

    async def _begin(self) -> None:
        """A run that was just called for takes an old stop order back; one that stays waits."""
        means = self.means
        while self.endless and not self.stopping.is_set():
            if not await means.patience.ask(lambda: means.frontier.orders(STOP_ORDER)):
                return
            await asyncio.sleep(LOOK_S)
        if not self.endless:
            await means.patience.ask(lambda: means.frontier.take_back(STOP_ORDER, ""))

    async def _watch(self) -> None:
        """Look for orders, which come through the frontier from anywhere."""
        means = self.means
        while True:
            stats = await means.patience.ask(lambda: means.frontier.stats(means.clock.now()))
            if stats.version != self._version:
                self._version = stats.version
                orders = await means.patience.ask(lambda: means.frontier.orders(STOP_ORDER))
                if orders:
                    self.stopping.set()
                    if "now" in orders.values():
                        self.at_once.set()
                self._tell_others()
            await asyncio.sleep(LOOK_S)

    async def _work(self, worker: str) -> None:
        means = self.means
        while not self.stopping.is_set():
            if means.space is not None:
                await means.space.wait(self.stopping)
            await means.network.wait(self.stopping)
            if self.stopping.is_set():
                break
            async with means.room.take(self.stopping):
                claimed = not self.stopping.is_set() and await self._claim_one(worker)
            if claimed:
                self._tell_others()
            elif not self.endless and not await self._unfinished():
                break
            else:
                await self._wait()
        self._tell_others()

    async def _claim_one(self, worker: str) -> bool:
        """Claim an item and see it to its end; whether there was one."""
        means = self.means
        claimed = await means.patience.ask(
            lambda: means.frontier.claim(now=means.clock.now(), worker=worker)
        )
        if claimed:
            await self._handle(claimed[0])
        return bool(claimed)

    async def _unfinished(self) -> int:
        means = self.means
        return await means.patience.ask(lambda: means.frontier.unfinished(means.clock.now()))

    async def _wait(self) -> None:
        """Wait for another worker to finish something, for a host's turn, or for the end."""
        means = self.means
        changed = self._changed
        now = means.clock.now()
        wakeup = await means.patience.ask(lambda: means.frontier.next_wakeup(now))
        left = WAIT_LIMIT_S if wakeup is None else (wakeup - now).total_seconds()
        waiting = {
            asyncio.create_task(changed.wait()),
            asyncio.create_task(self.stopping.wait()),
        }
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
        """Wake whoever waits: something was finished, or an order was given."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _handle(self, item: FrontierItem) -> None:
        """Run the errand for as long as the claim is ours and nobody says to stop at once."""
        errand = asyncio.create_task(Errand(item, self.means).run())
        keeping = asyncio.create_task(self._keep_lease(item))
        dropping = asyncio.create_task(self.at_once.wait())
        try:
            await asyncio.wait({errand, keeping, dropping}, return_when=asyncio.FIRST_COMPLETED)
            if not errand.done():
                await _cancelled(errand)
            if errand.cancelled():
                if keeping.done():
                    log.warning("claim.lost url=%s", item.url)
                else:
                    self._give_back(item)
                return
            await self._look_at(errand)
        except asyncio.CancelledError:
            await _cancelled(errand)
            if errand.cancelled():
                self._give_back(item)
            raise
        finally:
            keeping.cancel()
            dropping.cancel()

    async def _look_at(self, errand: "asyncio.Task[None]") -> None:
        """Take in how the errand ended; one who stays waits for what no page can be kept without."""
        try:
            errand.result()
        except ClaimLostError:
            return
        except NOT_THE_PAGES_FAULT as error:
            if not self.endless:
                raise
            self.means.report(Waiting("archive", str(error)))
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), HOLD_S)

    def _give_back(self, item: FrontierItem) -> None:
        """When the store is away the lease runs out instead."""
        with suppress(WeboidError):
            give_back(item, self.means, "stopped")

    async def _keep_lease(self, item: FrontierItem) -> None:
        """Renew the lease; return when the claim is lost."""
        means = self.means
        while True:
            await asyncio.sleep(self.lease_s / 3)
            if not await means.patience.ask(
                lambda: means.frontier.renew(item, now=means.clock.now())
            ):
                return


async def _cancelled(task: "asyncio.Task[None]") -> None:
    """End the task; what it raises meanwhile is of no more use."""
    task.cancel()
    with suppress(asyncio.CancelledError, WeboidError):
        await task
