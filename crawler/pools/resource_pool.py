"""Browser pool, and the resource pool that lends proxies and browsers to visits.

A browser is lent for one visit. A browser due for replacement takes no more visits; it is closed after
its last one, or after a time limit. So no more browsers run than visits need, plus those that drain.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field

from core.clock import Clock
from core.config.settings import BrowserSettings, Settings
from core.errors import BrowserUnavailableError
from crawler.collection import Collection
from crawler.pools.proxy_pool import LocalProxyPool, ProxyAccess, ProxyPool
from crawler.worker.crawl_events import FileRecovered
from proxy.control.client import ProxyClient
from render.browser import Browser
from render.chromium import BrowserExecutable, find_browser
from warc.local_storage import ScratchKind, scratch_folder

log = logging.getLogger(__name__)

MAX_LAUNCHES = 3


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

    def __repr__(self) -> str:
        visits = sum(each.visits for each in self._all)
        return f"<Browsers [{len(self._taking)} of {len(self._all)} take visits, {visits} run]>"

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
    async def lend(self) -> AsyncIterator[Browser]:
        """Lend a healthy browser, which visits share; BrowserUnavailableError when none starts."""
        async with self._choosing:
            member = self._choose() or await self._launch()
            member.visits += 1
        try:
            yield member.browser
        finally:
            member.visits -= 1
            if member not in self._taking and not member.visits:
                # Shielded: a cancelled visit leaves no half-closed browser.
                await asyncio.shield(self._in_background(self._end(member)))

    def visits_bytes(self) -> int:
        """Return the memory of the visits under way, at most a second old."""
        return sum(
            max(0, each.browser.held_bytes() - each.empty_bytes)
            for each in self._all
            if not each.browser.died.is_set()
        )

    def _choose(self) -> _PooledBrowser | None:
        """Choose the browser with the fewest visits; start draining due ones; None if all are full."""
        for member in list(self._taking):
            due = member.browser.recycle_due()
            if not due and not self.needs().are_met_by(member.known):
                due = "proxies"
            if due:
                # No more visits for this one; it ends in the background.
                log.info("browser.replaced reason=%s visits=%d", due, member.visits)
                self._taking.remove(member)
                if member.visits:
                    member.draining = self._in_background(self._drain(member))
                else:
                    self._in_background(self._end(member))
        fewest = min(self._taking, key=lambda each: each.visits, default=None)
        if fewest is None or fewest.visits >= max(1, self.settings.visits_per_browser):
            return None
        return fewest

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
                    self.settings,
                    self.executable,
                    ca_spki=needs.spki or None,
                    hosts=needs.hosts,
                    clock=self.clock,
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


class ResourcePool:
    """Combined pool of proxies and browsers. `open_local_pool` and `open_resource_pool` make one."""

    def __init__(self, proxies: ProxyPool, browsers: BrowserPool) -> None:
        self._proxies = proxies
        self._browsers = browsers

    def proxy(self) -> AbstractAsyncContextManager[ProxyClient]:
        """See `ProxyPool.lend`."""
        return self._proxies.lend()

    def browser(self) -> AbstractAsyncContextManager[Browser]:
        """See `BrowserPool.lend`."""
        return self._browsers.lend()

    def visits_bytes(self) -> int:
        """See `BrowserPool.visits_bytes`."""
        return self._browsers.visits_bytes()


@asynccontextmanager
async def open_resource_pool(
    proxies: ProxyPool, settings: Settings, *, clock: Clock
) -> AsyncIterator[ResourcePool]:
    """Start these proxies and a browser; yield a pool of them until the end of the block.

    Raises:
        BrowserUnavailableError: no browser is found, or it does not start.
        ProxyUnavailableError: a proxy does not start.
    """
    executable = find_browser(settings.browser.executable)
    browsers = BrowserPool(settings.browser, executable, clock, needs=lambda: proxies.needs)
    try:
        await proxies.start()
        await browsers.start()
        yield ResourcePool(proxies, browsers)
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
    """Start local proxies and a browser; yield a pool of them until the end of the block.

    `report` is called for every interrupted WARC that a proxy recovered; errors as `open_resource_pool`.
    """
    # A unix socket's path is at most 107 bytes, so it does not lie in the collection.
    with scratch_folder(ScratchKind.RUN) as folder:
        proxies = LocalProxyPool(collection, settings, folder, report)
        async with open_resource_pool(proxies, settings, clock=clock) as supervisor:
            yield supervisor
