"""Long-running worker process for a cluster: local browsers, remote proxies, shared frontier; it waits for them."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import KW_ONLY, dataclass, field
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

from core.clock import Clock
from core.config.settings import Settings
from core.errors import CollectionVersionError, InputError, InvariantError, UnavailableError, WeboidError
from core.layout import CA_FILE, CRAWL_LOG, Layout
from core.timestamps import warc_date
from crawler.capture.page_capture import StoredLevelOf
from crawler.collection import read_collection
from crawler.frontier.base import WORKER_SERVICE
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.pools.cluster import RemoteProxyPool, ServiceAnnouncer
from crawler.pools.resource_pool import open_resource_pool
from crawler.run.context_builder import RunContext, build_worker_pool
from crawler.worker.crawl_events import CrawlLog, Event, PageDone
from crawler.worker.worker_pool import process_name
from net.backoff import ExponentialBackoff, StoreRetry, WaitStarted
from net.stop_signals import StopSignals, first_error, wait_for_any
from proxy.control.handshake import ClusterSecret
from render.sign_in import SiteLogins
from warc.index.database import open_database
from warc.index.sqlite import open_index
from warc.local_storage import ScratchKind, scratch_folder

log = logging.getLogger(__name__)

RESTART_BACKOFF_INITIAL_S = 1.0
RESTART_BACKOFF_MAX_S = 30.0
_FINAL = (InputError, CollectionVersionError, InvariantError)
STOP_S = 30.0  # in addition to a visit's deadline


@dataclass
class WorkerProcess:
    """Worker process. `run` it once."""

    settings: Settings  # the profile, with `frontier.url` and, for several machines, `index.url`
    layout: Layout  # holds frontier and index when the settings name none
    workers: int  # visits at the same time
    secret: ClusterSecret  # the cluster's secret
    logins: SiteLogins | None
    reports: Path | None  # folder of crawl log and link logs; None: none are written
    _: KW_ONLY
    stored_level_of: StoredLevelOf  # looks up decisions on stored levels
    clock: Clock
    report: Callable[[Event], None]  # called with each event
    rng: Random
    _crawl_log: CrawlLog | None = field(default=None, init=False)
    _proxies: RemoteProxyPool | None = field(default=None, init=False)
    _since: str = field(default="", init=False)
    _ended: int = field(default=0, init=False)  # pages

    async def run(self, stopping: Callable[[], None]) -> int:
        """Run until stopped, gently at the first signal, at once at the second; return the number of ended pages.

        `stopping` is called at the first signal. Raises InputError (unusable settings), CollectionVersionError (of a
        store).
        """
        with ExitStack() as stack:
            if self.reports is not None:
                try:
                    self.reports.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise UnavailableError(f"{self.reports} cannot be created: {error.strerror or error}.") from error
                self._crawl_log = stack.enter_context(closing(CrawlLog(self.reports / CRAWL_LOG, clock=self.clock)))
            stop = stack.enter_context(StopSignals(stopping))
            limit_s = self.settings.visit.timeout_s + self.settings.proxy.seal_grace_s + STOP_S
            hurrying = asyncio.create_task(_stop_after(stop, limit_s))
            stack.callback(hurrying.cancel)
            with stop.cut_short(), scratch_folder(ScratchKind.RUN) as folder:
                await self._work(stop, folder)
        return self._ended

    def note(self, event: Event) -> None:
        """Log, count and report an event."""
        self._ended += isinstance(event, PageDone)
        if self._crawl_log is not None:
            self._crawl_log.note(event)
        self.report(event)

    async def _work(self, stop: StopSignals, folder: Path) -> None:
        """Open the stores and work; start over after a store or pool became unusable."""
        self._since = warc_date(self.clock.now())
        backoff = ExponentialBackoff(RESTART_BACKOFF_INITIAL_S, RESTART_BACKOFF_MAX_S)
        while not stop.event.is_set():
            begun = self.clock.monotonic()
            try:
                await self._once(stop, folder)
            except (BaseExceptionGroup, WeboidError) as group:
                error = first_error(group)
                if not isinstance(error, WeboidError) or isinstance(error, _FINAL):
                    raise error from error.__cause__
                if not stop.event.is_set():
                    log.warning("worker.interrupted error=%s", error)
                    self.note(WaitStarted("service", f"{error} The worker tries again."))
            if self.clock.monotonic() - begun > RESTART_BACKOFF_MAX_S:
                backoff.reset()
            await wait_for_any(stop.event, timeout_s=backoff.next_s())

    async def _once(self, stop: StopSignals, folder: Path) -> None:
        settings, layout = self.settings, self.layout
        name, authority = process_name(), folder / CA_FILE
        patience = StoreRetry(self.clock, self.note)
        if not (settings.frontier.url and settings.index.url):
            read_collection(layout.root)  # a proxy makes it, never we
        with ExitStack() as stack:
            frontier = stack.enter_context(
                await patience.ask(lambda: open_frontier(layout, settings.frontier, settings.politeness))
            )
            # An index of another version is refused before anything is started.
            (await patience.ask(lambda: open_index(layout, settings.index))).close()
            index = stack.enter_context(closing(open_database(layout, settings.index.url)))
            announcer = ServiceAnnouncer(frontier, WORKER_SERVICE, name, self._describe, self.clock)
            stack.callback(announcer.close)
            stopping = asyncio.Event()
            stack.callback(asyncio.create_task(_forward_event(stop.event, stopping)).cancel)
            proxies = RemoteProxyPool(
                frontier,
                self.secret,
                self.clock,
                stopping=stopping,
                rng=self.rng,
                authority=authority,
                report=self.note,
            )
            self._proxies = proxies
            async with open_resource_pool(proxies, settings, clock=self.clock) as supervisor:
                context = RunContext(
                    *(layout, settings, frontier, supervisor, index, self.clock, self.note),
                    name=name,
                    ca=authority,
                    logins=self.logins,
                    reports=self.reports,
                    stored_level_of=self.stored_level_of,
                    endless=True,
                )
                # An order to stop ends the pool, not the process.
                await build_worker_pool(context, stopping=stopping).run(self.workers)

    def _describe(self) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": version("weboid"),
            "started": self._since,
            "visits": self._proxies.lent if self._proxies is not None else 0,
            "workers": self.workers,
        }


async def _forward_event(first: asyncio.Event, second: asyncio.Event) -> None:
    """Set the second when the first is set."""
    await first.wait()
    second.set()


async def _stop_after(stop: StopSignals, limit_s: float) -> None:
    """Stop at once when a gentle stop takes too long: a store may never answer."""
    await stop.event.wait()
    await asyncio.sleep(limit_s)
    stop.hurry()
