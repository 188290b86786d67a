"""Long-running proxy of a cluster: registration in the frontier, TCP control port, WARC recovery.

Several proxies share one collection folder. While running, each also recovers files that a proxy on
a dead machine left, because that machine may never restart.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from core.clock import Clock
from core.config.settings import Settings
from core.errors import (
    ConfigError,
    DedupUnavailableError,
    IndexUnavailableError,
    TransientError,
    WeboidError,
)
from core.hosts import join_host_port
from core.layout import Layout
from core.timestamps import warc_date
from crawler.collection import open_collection
from crawler.frontier.backend import open_frontier
from crawler.frontier.base import PROXY_SERVICE, Frontier
from crawler.pools.cluster import ServiceAnnouncer, living_proxies
from crawler.worker.crawl_events import FileRecovered
from net.backoff import StoreRetry, WaitEnded, WaitStarted
from net.stop_signals import StopSignals
from proxy.archiving_proxy import ListenAddress
from proxy.control.frames import ClusterSecret
from proxy.presence import join_collection
from proxy.process import RunningProxy, TcpControl, run_proxy, tune_interpreter
from warc.rebuild import complete_index
from warc.recovery import abandoned, recover_collection

log = logging.getLogger(__name__)

RECOVERY_INTERVAL_S = 20.0
DRAIN_POLL_S = 0.1
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 compared with, not listened on


@dataclass(frozen=True, slots=True)
class ProxyServiceOptions:
    """Options of a cluster proxy."""

    root: Path  # the collection's folder, shared by all proxies of the cluster
    settings: Settings
    listen: tuple[str, int]  # listening address for browsers
    control: tuple[str, int]  # listening address for workers
    # host by which others reach it; empty: the listening host, or this machine's name when that is
    # every address
    advertise: str
    secret: ClusterSecret
    drain_s: float  # time limit for visits in progress at shutdown, in seconds

    @property
    def host(self) -> str:
        """Return the host by which others reach it."""
        if self.advertise:
            return self.advertise
        return socket.gethostname() if self.listen[0] in _EVERYWHERE else self.listen[0]


async def serve_proxy(
    order: ProxyServiceOptions,
    *,
    clock: Clock,
    ready: Callable[[dict[str, Any]], None],
    report: Callable[[FileRecovered | WaitStarted | WaitEnded], None],
    stopping: Callable[[], None],
) -> None:
    """Serve until stopped; then finish the visits in progress and write everything.

    `ready` gets the announcement, `report` each recovered file and each outage; `stopping` is called at
    the first stop signal, and a second one cuts the visits.

    Raises:
        CollectionInUseError: a run that needs the collection exclusively holds it.
        ConfigError: the frontier belongs to another collection's proxies.
        UnavailableError: a port, the folder, or a store cannot be used.
    """
    settings = order.settings
    with StopSignals(stopping) as stop:
        async with open_collection(order.root, clock=clock, shared=True) as collection:
            layout, patience = collection.layout, StoreRetry(clock, report)
            with ExitStack() as stack:
                stack.enter_context(
                    closing(await asyncio.to_thread(join_collection, layout.proxies))
                )
                frontier = stack.enter_context(
                    await patience.ask(
                        lambda: open_frontier(layout, settings.frontier, settings.politeness)
                    )
                )
                tune_interpreter()
                started = await patience.ask(lambda: _started(order, layout, stack))
                service = _ProxyService(order, layout, started, frontier, clock, report)
                await patience.ask(service.check)
                await service.serve(stop, ready)


def _started(order: ProxyServiceOptions, layout: Layout, stack: ExitStack) -> RunningProxy:
    try:
        complete_index(layout, order.settings.proxy, index=order.settings.index, report=log.warning)
        return stack.enter_context(
            run_proxy(
                layout,
                order.settings,
                control=TcpControl(*order.control, order.secret),
                listen=ListenAddress(*order.listen, advertise=order.host),
            )
        )
    except (DedupUnavailableError, IndexUnavailableError) as error:
        raise TransientError(str(error)) from error


@dataclass
class _ProxyService:
    """Resources that `serve_proxy` has opened."""

    order: ProxyServiceOptions
    layout: Layout
    started: RunningProxy
    frontier: Frontier
    clock: Clock
    report: Callable[[FileRecovered | WaitStarted | WaitEnded], None]

    @property
    def name(self) -> str:
        """Return the proxy's name: the address at which workers reach it."""
        return join_host_port(self.order.host, self.started.control_port)

    def check(self) -> None:
        """Check that all proxies share one collection; raises as `check_same_collection`."""
        spki, secret = self.started.proxy.ca.spki, self.order.secret
        check_same_collection(self.frontier, spki, self.name, self.clock, secret)

    async def serve(self, stop: StopSignals, ready: Callable[[dict[str, Any]], None]) -> None:
        for each in self.started.recovered:
            self.report(FileRecovered.of(each.to_dict()))
        proxy = self.started.proxy
        about = ProxyDescription(self.started, self.name, self.clock)
        announcer = ServiceAnnouncer(
            self.frontier, PROXY_SERVICE, self.name, about, self.clock, self.order.secret
        )
        looking = asyncio.create_task(self._look())
        try:
            with stop.cut_short():
                ready(about())
                await stop.event.wait()
                proxy.leaving = True
                await asyncio.to_thread(announcer.close)
                async with asyncio.timeout(self.order.drain_s):
                    while len(proxy.visits):  # noqa: ASYNC110 they end in other threads
                        await asyncio.sleep(DRAIN_POLL_S)
        except TimeoutError:
            log.warning("proxy.drained visits=%d", len(proxy.visits))
        finally:
            looking.cancel()
            await asyncio.to_thread(announcer.close)

    async def _look(self) -> None:
        """Recover files of dead proxies until cancelled; only files seen in two scans."""
        before: frozenset[str] = frozenset()
        while True:
            await asyncio.sleep(RECOVERY_INTERVAL_S)
            found = await asyncio.to_thread(abandoned, self.layout)
            if found & before:
                await asyncio.to_thread(self._put_in_order)
            before = found

    def _put_in_order(self) -> None:
        settings = self.order.settings
        try:
            done = recover_collection(
                self.layout, settings.proxy, now=self.clock.now(), index=settings.index
            )
        except WeboidError as error:  # a store is away: later
            log.warning("recovery.put_off error=%s", error)
            return
        for each in done:
            self.report(FileRecovered.of(each.to_dict()))


def check_same_collection(
    frontier: Frontier, spki: str, name: str, clock: Clock, secret: ClusterSecret
) -> None:
    """Check that the live proxies of this frontier write the same collection: have the same authority."""
    for each in living_proxies(frontier, clock, secret):
        if each.spki != spki and each.name != name:
            raise ConfigError(
                f"The proxy {each.name} works on this frontier for another collection: give all "
                "the same shared folder, or this one a frontier of its own (?frontier=NAME)."
            )


class ProxyDescription:
    """Facts in a proxy's registration."""

    def __init__(self, started: RunningProxy, name: str, clock: Clock) -> None:
        self._started = started
        self._name = name
        self._clock = clock
        self._since = warc_date(clock.now())
        self._then = clock.monotonic(), 0

    def __call__(self) -> dict[str, Any]:
        """Return the current facts."""
        proxy = self._started.proxy
        now, taken = self._clock.monotonic(), proxy.archivist.taken
        before, had = self._then
        self._then = now, taken
        return {
            "address": self._name,
            "browsers": join_host_port(*proxy.reached_at),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": version("weboid"),
            "started": self._since,
            "visits": len(proxy.visits),
            "requests_per_s": round((taken - had) / max(now - before, 0.001), 1),
            "free_bytes": proxy.disk.free_bytes,
            "reserve_bytes": proxy.disk.reserve_bytes,
            "spki": proxy.ca.spki,
            "authority": proxy.ca.certificate,
        }
