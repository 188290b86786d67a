"""Proxies and browsers for one run: what a visit borrows, from whoever lends it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from core.clock import Clock
from core.settings import Settings
from crawler.browsers import Browsers
from crawler.collection import Collection
from crawler.lending import LentProxy, Proxies
from crawler.proxies import FileRecovered, LocalProxies
from proxy.scratch import Scratch, scratch_folder
from render.browser import Browser
from render.executable import find_browser

__all__ = ["FileRecovered", "Supervisor", "running", "supervising"]


class Supervisor:
    """Proxies and browsers under one name. `running` and `supervising` make one."""

    def __init__(self, proxies: Proxies, browsers: Browsers) -> None:
        self._proxies = proxies
        self._browsers = browsers

    def proxy(self) -> AbstractAsyncContextManager[LentProxy]:
        """The proxy that has least to do, for one visit.

        Raises:
            ProxyUnavailableError: there is none, or it went during the visit.
        """
        return self._proxies.lend()

    def browser(self) -> AbstractAsyncContextManager[Browser]:
        """A browser that is well, for one visit; others use it at the same time.

        Raises:
            BrowserUnavailableError: none starts.
        """
        return self._browsers.lend()

    def visits_bytes(self) -> int:
        """Memory that the visits under way hold in their browsers."""
        return self._browsers.visits_bytes()


@asynccontextmanager
async def supervising(
    proxies: Proxies, settings: Settings, *, clock: Clock
) -> AsyncIterator[Supervisor]:
    """A supervisor of these proxies, which it starts, and a browser, until the end of the block.

    Raises:
        BrowserUnavailableError: no browser is found, or it does not start.
        ProxyUnavailableError: a proxy does not start.
    """
    executable = find_browser(settings.browser.executable)
    browsers = Browsers(settings.browser, executable, clock, needs=lambda: proxies.needs)
    try:
        await proxies.start()
        await browsers.start()
        yield Supervisor(proxies, browsers)
    finally:
        await asyncio.shield(_stop(proxies, browsers))


async def _stop(proxies: Proxies, browsers: Browsers) -> None:
    await browsers.stop()
    await proxies.stop()


@asynccontextmanager
async def running(
    collection: Collection,
    settings: Settings,
    *,
    clock: Clock,
    report: Callable[[FileRecovered], None] = lambda _event: None,
) -> AsyncIterator[Supervisor]:
    """A supervisor whose proxies and browser run, until the end of the block.

    Args:
        collection: where they write.
        settings: the profile.
        clock: the time.
        report: told of every interrupted WARC that a proxy put in order.

    Raises:
        BrowserUnavailableError: no browser is found, or it does not start.
        ProxyUnavailableError: a proxy does not start.
    """
    # A unix socket's path is at most 107 bytes, so it does not lie in the collection.
    with scratch_folder(Scratch.RUN) as folder:
        proxies = LocalProxies(collection, settings, folder, report)
        async with supervising(proxies, settings, clock=clock) as supervisor:
            yield supervisor
