"""`weboid worker` and `weboid proxy`: long-running processes of a cluster.

A proxy registers itself in the frontier, listens on a TCP control port, and recovers WARCs. Several
proxies share one collection folder. While running, each also recovers files that a proxy on a dead
machine left, because that machine may never restart.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import Random
from secrets import token_hex
from typing import Any

import click

from core import errors
from core.clock import Clock
from core.config.settings import Settings
from core.hosts import is_local_name, join_host_port, split_host_port
from core.layout import Layout
from core.timestamps import warc_date
from crawler.collection import open_collection
from crawler.frontier.base import PROXY_SERVICE, Frontier
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.pools.cluster import ServiceAnnouncer, living_proxies
from crawler.profiles import load_profile
from crawler.run.worker_process import WorkerProcess
from crawler.worker.crawl_events import FileRecovered
from net.address_policy import literal_address
from net.backoff import StoreRetry, WaitEnded, WaitStarted
from net.stop_signals import StopSignals
from proxy.archiving_proxy import ListenAddress
from proxy.control.handshake import ClusterSecret
from proxy.process import RunningProxy, join_collection, run_proxy, tune_interpreter
from warc.rebuild import complete_index
from warc.recovery import abandoned, recover_collection
from warc.uploads import UploadWorker
from weboid.app.operator_identity import collection_settings
from weboid.cli.support.command_target import CLUSTER_SECRET, SECRET
from weboid.cli.support.commands import CLOCK, cli_command, option
from weboid.cli.support.options import (
    COLLECTION,
    FOLDER,
    PROFILE,
    SHARED,
    WORKERS,
    ParsedType,
    SharedStores,
    counted,
    output,
)
from weboid.cli.support.run_options import open_stored_levels, open_webhooks, unlock_logins
from weboid.cli.support.run_output import run_reporter

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
    # host by which others reach it; empty: the listening host, or this machine's name when that is every address
    advertise: str
    secret: ClusterSecret | None  # None: no workers, only clients of warcprox
    drain_s: float  # time limit for visits in progress at shutdown, in seconds
    warcprox_api: tuple[str, int] | None = None  # listening address for clients of warcprox

    @property
    def host(self) -> str:
        """Return the host by which others reach it."""
        if self.advertise:
            return self.advertise
        return socket.gethostname() if self.listen[0] in _EVERYWHERE else self.listen[0]


async def serve_proxy(options: ProxyServiceOptions) -> None:
    """Serve until stopped; then finish the visits in progress, which a second signal cuts, and write everything.

    Raises CollectionInUseError: a run that needs the collection exclusively holds it; ConfigError: the frontier belongs
    to another collection's proxies; UnavailableError: a port, the folder, or a store cannot be used.
    """
    settings = options.settings
    ending = ({"event": "stopping"}, "Stopping when the visits in progress are finished.")
    with StopSignals(lambda: output.show(*ending)) as stop:
        async with open_collection(options.root, clock=CLOCK, shared=True) as collection:
            layout, patience = collection.layout, StoreRetry(CLOCK, _print_event)
            with ExitStack() as stack:
                stack.enter_context(closing(await asyncio.to_thread(join_collection, layout.proxies)))
                frontier = None
                if options.secret is not None:
                    frontier = stack.enter_context(
                        await patience.ask(lambda: open_frontier(layout, settings.frontier, settings.politeness))
                    )
                tune_interpreter()
                stack.enter_context(closing(UploadWorker(layout, settings.storage, CLOCK)))
                started = await patience.ask(lambda: _open_proxy(options, layout, stack))
                service = _ProxyService(options, layout, started, frontier, CLOCK, _print_event)
                if frontier is not None and options.secret is not None:
                    facts = (frontier, started.proxy.ca.spki, service.name, CLOCK, options.secret)
                    await patience.ask(partial(check_same_collection, *facts))
                await service.serve(stop)


def _open_proxy(options: ProxyServiceOptions, layout: Layout, stack: ExitStack) -> RunningProxy:
    try:
        complete_index(layout, options.settings.proxy, index=options.settings.index, report=log.warning)
        return stack.enter_context(
            run_proxy(
                layout,
                options.settings,
                control=(*options.control, options.secret or ClusterSecret.of(token_hex(32))),
                listen=ListenAddress(*options.listen, advertise=options.host),
                warcprox_api=ListenAddress(*options.warcprox_api) if options.warcprox_api else None,
            )
        )
    except (errors.DedupUnavailableError, errors.IndexUnavailableError) as error:
        raise errors.TransientError(str(error)) from error


@dataclass
class _ProxyService:
    """Resources that `serve_proxy` has opened."""

    options: ProxyServiceOptions
    layout: Layout
    started: RunningProxy
    frontier: Frontier | None  # None: no worker will ask for this proxy
    clock: Clock
    report: Callable[[FileRecovered | WaitStarted | WaitEnded], None]

    @property
    def name(self) -> str:
        """Return the proxy's name: the address at which workers reach it."""
        return join_host_port(self.options.host, self.started.control.port)

    async def serve(self, stop: StopSignals) -> None:
        for each in self.started.recovered:
            self.report(FileRecovered.of(each.to_dict()))
        proxy = self.started.proxy
        description, secret = ProxyDescription(self.started, self.name, self.clock), self.options.secret
        announcer = None
        if self.frontier is not None and secret is not None:
            announcer = ServiceAnnouncer(self.frontier, PROXY_SERVICE, self.name, description, self.clock, secret)
        leave = announcer.close if announcer is not None else lambda: None
        recovery = asyncio.create_task(self._recover_abandoned())
        try:
            with stop.cut_short():
                facts = description()
                shown = {name: value for name, value in facts.items() if name != "authority"}
                text = f"The proxy serves browsers at {facts['browsers']}, workers at {facts['address']}"
                text += f", clients of warcprox at {facts['warcprox_api']}." if "warcprox_api" in facts else "."
                output.show({"event": "ready", **shown}, text)
                await stop.event.wait()
                proxy.leaving = True
                await asyncio.to_thread(leave)
                async with asyncio.timeout(self.options.drain_s):
                    if (api := self.started.warcprox_api) is not None:
                        await asyncio.to_thread(api.shutdown)  # it accepts no more connections
                    while len(proxy.visits) or (api is not None and api.busy):  # noqa: ASYNC110 in other threads
                        await asyncio.sleep(DRAIN_POLL_S)
        except TimeoutError:
            log.warning("proxy.drained visits=%d", len(proxy.visits))
        finally:
            recovery.cancel()
            await asyncio.to_thread(leave)

    async def _recover_abandoned(self) -> None:
        """Recover files of dead proxies until cancelled; only files seen in two scans."""
        settings, before = self.options.settings, frozenset[str]()
        while True:
            await asyncio.sleep(RECOVERY_INTERVAL_S)
            files = await asyncio.to_thread(abandoned, self.layout)
            if files & before:
                try:
                    recovered = await asyncio.to_thread(
                        recover_collection, self.layout, settings.proxy, now=self.clock.now(), index=settings.index
                    )
                except errors.WeboidError as error:  # a store is away: later
                    log.warning("recovery.put_off error=%s", error)
                    recovered = []
                for each in recovered:
                    self.report(FileRecovered.of(each.to_dict()))
            before = files


def check_same_collection(frontier: Frontier, spki: str, name: str, clock: Clock, secret: ClusterSecret) -> None:
    """Check that the live proxies of this frontier write the same collection: have the same authority."""
    for each in living_proxies(frontier, clock, secret):
        if each.spki != spki and each.name != name:
            raise errors.ConfigError(
                f"The proxy {each.name} works on this frontier for another collection: give all proxies the same "
                "shared folder, or give this collection its own frontier (?frontier=NAME)."
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
        proxy, api = self._started.proxy, self._started.warcprox_api
        now, exchanges = self._clock.monotonic(), proxy.archivist.taken
        before, had = self._then
        self._then = now, exchanges
        return {
            "address": self._name,
            "browsers": join_host_port(*proxy.reached_at),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": version("weboid"),
            "started": self._since,
            "visits": len(proxy.visits),
            "requests_per_s": round((exchanges - had) / max(now - before, 0.001), 1),
            "free_bytes": proxy.disk.free_bytes,
            "reserve_bytes": proxy.disk.reserve_bytes,
            "spki": proxy.ca.spki,
            "authority": proxy.ca.certificate,
            **({"warcprox_api": join_host_port(*api.reached_at)} if api is not None else {}),
        }


@cli_command("worker")
def worker_command(
    *,
    collection: Path = COLLECTION,
    profile: str = PROFILE,
    shared: SharedStores = SHARED,
    secret: ClusterSecret = SECRET,
    workers: int = WORKERS,
    reports: Path | None = option(
        "Folder of the crawl log and the link logs.  [default: the collection's reports/, where"
        " the collection is on this machine]",
        type=FOLDER,
        metavar="DIR",
    ),
) -> None:
    """Visit pages of a shared frontier until stopped.

    The WARCs are written by proxies that have registered themselves there. While Redis, the database or all proxies are
    unavailable it waits, and then continues. SIGTERM ends it when the pages in progress are done; a second one at once.
    The collection's folder is needed only where the frontier or the index is in it.
    """
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    # The URLs may have been given by hand: the profile decides about robots.txt.
    robots = load_profile(profile).policy.robots
    settings = shared.applied_to(collection_settings(profile, collection, unattended=True, robots=robots))
    layout = Layout(collection)
    if reports is None and layout.marker.exists():
        reports = layout.reports
    if reports is None:
        click.echo("No crawl log is written: name a folder with --reports.", err=True)
    reporter = run_reporter()
    with open_stored_levels(layout, settings.index.url) as level_of, open_webhooks(collection, settings) as hooks:
        process = WorkerProcess(
            *(settings, layout, workers, secret, unlock_logins(settings, collection), reports),
            stored_level_of=level_of,
            clock=CLOCK,
            report=reporter.event if hooks is None else hooks.reporting(reporter.event),
            rng=Random(),  # noqa: S311 no secret depends on it
        )
        ended = asyncio.run(process.run(reporter.stopping))
    output.say(f"Finished here: {counted(ended, 'page')}.")


# The annotation of a pair would say that there are several values.
_ADDRESS: dict[str, Any] = {"type": ParsedType("host:port", split_host_port), "metavar": "HOST:PORT", "multiple": False}


@cli_command("proxy")
def proxy_command(
    *,
    collection: Path = COLLECTION,
    profile: str = PROFILE,
    shared: SharedStores = SHARED,
    secret: ClusterSecret | None = CLUSTER_SECRET,
    listen: tuple[str, int] = option(
        "Address for browsers; port 0: any free port.", default="127.0.0.1:8000", **_ADDRESS
    ),
    control: tuple[str, int] = option(
        "Address for workers' requests; port 0: any free port.", default="127.0.0.1:8001", **_ADDRESS
    ),
    advertise: str = option(
        "Name or address by which workers reach this machine, if it differs from the listening address.",
        default="",
        metavar="HOST",
    ),
    warcprox_api: tuple[str, int] | None = option(
        "Address for clients of warcprox's protocol, such as brozzler. They need no secret, so restrict access to it. "
        "Without a secret, workers are not served. Port 0: any free port.",
        **_ADDRESS,
    ),
    trust_clients: bool = option(
        "Allow an address of --warcprox-api that other machines reach: all that reach it can write records."
    ),
    drain: float = option(
        "Seconds that visits in progress may take after a stop signal.", default=90.0, type=click.FloatRange(0, 86_400)
    ),
) -> None:
    """Write WARCs for workers on any machine.

    Shares the collection's folder with other proxies, registers itself in the frontier, and accepts control connections
    with the shared secret. Browser and control traffic is not encrypted: allow only the cluster's machines to reach
    these ports. SIGTERM ends it when the visits in progress are done.

    With --warcprox-api it takes the place of warcprox. See docs/how-to/record.md.
    """
    if secret is None and warcprox_api is None:
        raise errors.InputError(
            "A secret is needed for workers: name its file with --secret-file, or put it into WEBOID_SECRET;"
            " `openssl rand -hex 32` makes one. Clients of warcprox need none: --warcprox-api."
        )
    if warcprox_api is not None and not trust_clients:
        host = warcprox_api[0]
        address = literal_address(host)
        if not (is_local_name(host) if address is None else address.is_loopback):
            raise errors.InputError(
                f"--warcprox-api: other machines reach {join_host_port(*warcprox_api)}, and clients need no secret to write records there. "
                "Listen on 127.0.0.1, or give --trust-clients if only trusted machines can reach it."
            )
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    settings = shared.applied_to(load_profile(profile))
    options = ProxyServiceOptions(collection, settings, listen, control, advertise, secret, drain, warcprox_api)
    asyncio.run(serve_proxy(options))


def _print_event(event: FileRecovered | WaitStarted | WaitEnded) -> None:
    if isinstance(event, FileRecovered):
        output.show({"event": "recovered", **event.facts}, event.text)
    elif isinstance(event, WaitStarted):
        output.show({"event": "waiting", **asdict(event)}, event.text)
    else:
        output.show({"event": "going_on", **asdict(event)}, f"Resuming after {event.seconds:.0f} s.")
