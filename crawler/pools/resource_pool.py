"""Pools of a run's proxies and browsers, and the resource pool that lends them to visits.

When a proxy dies its visits fail and are tried again. A restarted one first recovers its predecessor's WARCs, so that
finished pages are known.

A browser due for replacement takes no more visits; it is closed after its last one, or after a time limit: no more
browsers run than visits need, plus those that drain.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from core.clock import Clock
from core.config.settings import BrowserSettings, Settings
from core.errors import BrowserUnavailableError, ProxyUnavailableError
from crawler.collection import Collection
from crawler.pools.shared_contexts import SharedContextPool
from crawler.worker.crawl_events import FileRecovered
from proxy.control.client import ProxyClient
from render.browser import Browser
from render.chromium import BrowserExecutable, find_browser
from warc.local_storage import ScratchKind, scratch_folder

if TYPE_CHECKING:
    from render.page import BrowserPage

log = logging.getLogger(__name__)

PROXY_START_S = 120.0  # recovery of a large WARC reads what the index does not cover
PROXY_STOP_S = 60.0
MAX_LAUNCHES = 3
MAX_RESTARTS = 20  # a process that dies so often without ever being useful is not restarted again
LIMIT_BYTES = 16 << 20  # of a proxy's recovery report line
BYTE_COUNTER_FILE = "tally"  # next to the control sockets: bytes received by all proxies of the run
_PACKAGES = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True, slots=True)
class ProxyAccess:
    """Parameters that browsers need for the available proxies."""

    spki: str = ""  # of their authority's leaf key and others, with commas, as `render.chromium` takes it
    # "host:port" of each that is not on a loopback address -> its "address:port"
    hosts: Mapping[str, str] = field(default_factory=dict)

    def are_met_by(self, known: "ProxyAccess") -> bool:
        """Return True when a browser that was started with `known` can be used."""
        return self.spki == known.spki and self.hosts.items() <= known.hosts.items()


class ProxyPool(Protocol):
    """Protocol of a pool that lends proxies."""

    async def start(self) -> None:
        """Start the pool. Raises ProxyUnavailableError if there will be none."""

    async def stop(self) -> None:
        """Stop the pool's processes after all their writes."""

    def lend(self, prefer: str = "") -> AbstractAsyncContextManager[ProxyClient]:
        """Lend the proxy at `prefer`, else the least loaded; ProxyUnavailableError: there is none, or it is lost."""

    @property
    def needs(self) -> ProxyAccess:
        """Return the parameters that a browser needs to reach each of them."""


@dataclass(eq=False, repr=False)
class ProxyProcess:
    """Proxy process; `start` may be called again after it died."""

    slot: int
    collection: Collection
    settings: Settings
    folder: Path
    report: Callable[[FileRecovered], None]
    spki: str = field(default="", init=False)  # its key, which browsers are started with
    server: str = field(default="", init=False)  # its address in browsers
    visits: int = field(default=0, init=False)  # open ones
    # Set when the current process has been replaced or given up
    replaced: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _process: asyncio.subprocess.Process | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._control = self.folder / f"proxy{self.slot}.sock"
        self.client = ProxyClient(self._control)

    async def start(self) -> None:
        """Start the process; return when it serves; ProxyUnavailableError if it does not start."""
        self._control.unlink(missing_ok=True)
        passed_on = ("PATH", "LANG", "TZ", "TMPDIR")
        environment = {name: os.environ[name] for name in passed_on if name in os.environ}
        environment["PYTHONPATH"] = _PACKAGES
        environment["HOME"] = os.environ.get("HOME", "/")
        tally = self.folder / BYTE_COUNTER_FILE
        places = ("--collection", self.collection.layout.root, "--control", self._control, "--tally", tally)
        # It inherits that these are blocked: a terminal's Ctrl-C is for us, also while it starts.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "proxy", *map(str, places), "--slot", str(self.slot)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=(self.collection.lock_fd,),
                limit=LIMIT_BYTES,
                env=environment,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(asdict(self.settings)).encode() + b"\n")
            await process.stdin.drain()
            line = await asyncio.wait_for(process.stdout.readline(), PROXY_START_S)
            ready = json.loads(line)
        except (OSError, ValueError, TimeoutError) as error:
            await self.stop()
            raise ProxyUnavailableError("The proxy did not start; see its message above.") from error
        self.spki, self.server = ready["spki"], f"http://127.0.0.1:{ready['port']}"
        for each in ready["recovered"]:
            self.report(FileRecovered.of(each))

    async def died(self) -> int:
        """Wait for the process to end; return its exit status."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        """Stop it after all its writes; kill it after a limit."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), PROXY_STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()


class LocalProxyPool:
    """`ProxyPool` of one run's own processes, as many as the settings say."""

    def __init__(
        self, collection: Collection, settings: Settings, folder: Path, report: Callable[[FileRecovered], None]
    ) -> None:
        self._proxies = [
            ProxyProcess(slot, collection, settings, folder, report) for slot in range(settings.proxy.processes)
        ]
        # Of certificates that the profile trusts: for connections that browsers make themselves.
        self._pins: tuple[str, ...] = ()
        if settings.egress.ca_file:
            from net.tls_client import trusted_pins

            self._pins = trusted_pins(settings.egress.ca_file)
        # A 64-bit number for each process (`proxy.limits.ByteCounter`).
        (folder / BYTE_COUNTER_FILE).write_bytes(bytes(8 * settings.proxy.processes))
        self._ready = {proxy: asyncio.Event() for proxy in self._proxies}
        self._watchers: set[asyncio.Task[None]] = set()
        self._lost: BaseException | None = None

    async def start(self) -> None:
        """See `ProxyPool.start`."""
        # Sequentially: the first recovers the files of a crash, the others find nothing to do.
        for proxy in self._proxies:
            await proxy.start()
            self._ready[proxy].set()
            self._watchers.add(asyncio.create_task(self._watch(proxy)))

    async def stop(self) -> None:
        """See `ProxyPool.stop`."""
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        await asyncio.gather(*(proxy.stop() for proxy in self._proxies))

    @property
    def needs(self) -> ProxyAccess:
        """Return the keys that browsers trust: the proxies are on a loopback address."""
        return ProxyAccess(",".join((self._proxies[0].spki, *self._pins)))

    @asynccontextmanager
    async def lend(self, prefer: str = "") -> AsyncIterator[ProxyClient]:
        """See `ProxyPool.lend`."""
        chosen = min(self._proxies, key=lambda each: (each.server != prefer, each.visits))
        await self._ready[chosen].wait()
        if self._lost is not None:
            raise ProxyUnavailableError(f"The proxy keeps crashing: {self._lost}")
        replaced = chosen.replaced
        chosen.visits += 1
        try:
            yield chosen.client
        except ProxyUnavailableError:
            # Records that it wrote without reporting are in the index once its successor is ready; the next worker of
            # the page must find them there.
            try:
                await chosen.client.status()
            except ProxyUnavailableError:
                await replaced.wait()
            raise
        finally:
            chosen.visits -= 1

    async def _watch(self, proxy: ProxyProcess) -> None:
        """Restart the proxy whenever it dies."""
        for _ in range(MAX_RESTARTS):
            status = await proxy.died()
            self._ready[proxy].clear()
            log.warning("proxy.died status=%s", status)
            try:
                await proxy.start()
            except ProxyUnavailableError as error:
                self._lose(proxy, error)
                return
            self._ready[proxy].set()
            replaced, proxy.replaced = proxy.replaced, asyncio.Event()
            replaced.set()
        self._lose(proxy, ProxyUnavailableError(f"It crashed {MAX_RESTARTS} times."))

    def _lose(self, proxy: ProxyProcess, error: ProxyUnavailableError) -> None:
        """Give the proxy up, and notify waiting visits."""
        self._lost = error
        self._ready[proxy].set()
        proxy.replaced.set()


@dataclass(eq=False, slots=True)
class _PooledBrowser:
    """Browser of the pool."""

    browser: Browser
    known: ProxyAccess  # the proxy access that it was started with
    visits: int = 0  # that run in it
    empty_bytes: int = 0  # its memory before its first visit
    draining: "asyncio.Task[None] | None" = None  # closes it once it takes no more visits


@dataclass(eq=False, repr=False)
class BrowserPool:
    """Pool that lends healthy browsers. `stop` it."""

    settings: BrowserSettings
    executable: BrowserExecutable
    clock: Clock
    _: KW_ONLY
    needs: Callable[[], ProxyAccess]
    _taking: list[_PooledBrowser] = field(default_factory=list, init=False)
    _all: set[_PooledBrowser] = field(default_factory=set, init=False)
    _choosing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _ending: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def start(self) -> None:
        """Start the first browser. Raises BrowserUnavailableError if none starts."""
        async with self._choosing:
            await self._launch()

    async def stop(self) -> None:
        """Stop all browsers."""
        self._taking.clear()
        await asyncio.gather(*(self._end(each) for each in list(self._all)))
        await asyncio.gather(*self._ending, return_exceptions=True)

    @asynccontextmanager
    async def lend(self, prefer: Browser | None = None) -> AsyncIterator[Browser]:
        """Lend a healthy browser, `prefer` if it can be; BrowserUnavailableError when none starts."""
        async with self._choosing:
            member = self._choose(prefer) or await self._launch()
            member.visits += 1
        try:
            yield member.browser
        finally:
            member.visits -= 1
            if member not in self._taking and not member.visits:
                # Shielded: a cancelled visit leaves no half-closed browser.
                await asyncio.shield(self._in_background(self._end(member)))

    def pages(self) -> "dict[str, BrowserPage]":
        """Return the tabs of the visits in progress by the visited URL."""
        return {url: page for each in self._all for url, page in each.browser.pages.items()}

    def visits_bytes(self) -> int:
        """Return the memory of the visits in progress, at most a second old."""
        return sum(
            max(0, each.browser.held_bytes() - each.empty_bytes) for each in self._all if not each.browser.died.is_set()
        )

    def _choose(self, prefer: Browser | None) -> _PooledBrowser | None:
        """Choose `prefer`, else the browser with the fewest visits; None if all are full. Drain those that are due."""
        for member in list(self._taking):
            due = member.browser.recycle_due()
            if not due and not self.needs().are_met_by(member.known):
                due = "proxies"
            if due:
                log.info("browser.replaced reason=%s visits=%d", due, member.visits)
                self._taking.remove(member)
                if member.visits:
                    member.draining = self._in_background(self._drain(member))
                else:
                    self._in_background(self._end(member))
        limit = max(1, self.settings.visits_per_browser)
        able = [each for each in self._taking if each.visits < limit]
        return min(able, key=lambda each: (each.browser is not prefer, each.visits), default=None)

    def _in_background(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _drain(self, member: _PooledBrowser) -> None:
        await asyncio.sleep(self.settings.drain_limit_s)
        log.warning("browser.cut-off visits=%d", member.visits)
        member.draining = None
        await self._end(member)

    async def _end(self, member: _PooledBrowser) -> None:
        if member.draining is not None:
            member.draining.cancel()
        try:
            await member.browser.close()
        finally:
            self._all.discard(member)

    async def _launch(self) -> _PooledBrowser:
        for attempt in range(MAX_LAUNCHES):
            needs = self.needs()
            try:
                browser = await Browser.launch(
                    self.settings, self.executable, ca_spki=needs.spki or None, hosts=needs.hosts, clock=self.clock
                )
            except BrowserUnavailableError:
                if attempt == MAX_LAUNCHES - 1:
                    raise
                log.warning("browser.failed attempt=%d", attempt + 1)
            else:
                member = _PooledBrowser(browser, needs, empty_bytes=browser.held_bytes())
                self._all.add(member)
                self._taking.append(member)
                return member
        raise BrowserUnavailableError("No browser started.")


@dataclass(frozen=True, slots=True)
class ResourcePool:
    """Pools of a run's proxies and browsers. `open_local_pool` and `open_resource_pool` make one."""

    proxies: ProxyPool
    browsers: BrowserPool
    contexts: SharedContextPool | None = None  # None: each visit has a context of its own


@asynccontextmanager
async def open_resource_pool(proxies: ProxyPool, settings: Settings, *, clock: Clock) -> AsyncIterator[ResourcePool]:
    """Start the proxies and a browser; yield their pool; BrowserUnavailableError, ProxyUnavailableError: none."""
    executable = find_browser(settings.browser.executable)
    browsers = BrowserPool(settings.browser, executable, clock, needs=lambda: proxies.needs)
    try:
        await proxies.start()
        await browsers.start()
        yield ResourcePool(proxies, browsers, SharedContextPool(clock))
    finally:

        async def stop() -> None:
            await browsers.stop()
            await proxies.stop()

        await asyncio.shield(stop())


@asynccontextmanager
async def open_local_pool(
    collection: Collection,
    settings: Settings,
    *,
    clock: Clock,
    report: Callable[[FileRecovered], None] = lambda _event: None,
) -> AsyncIterator[ResourcePool]:
    """Start local proxies and a browser; yield a pool of them; errors as `open_resource_pool`."""
    # A unix socket's path is at most 107 bytes, so it is not in the collection.
    with scratch_folder(ScratchKind.RUN) as folder:
        proxies = LocalProxyPool(collection, settings, folder, report)
        async with open_resource_pool(proxies, settings, clock=clock) as supervisor:
            yield supervisor
