"""Browsers: one that all visits of a process share, replaced when it dies, ages or knows too little.

A visit borrows it for as long as it lasts. One that was replaced is ended when its last visit is.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from core.clock import Clock
from core.errors import BrowserUnavailableError
from core.settings import BrowserSettings
from crawler.lending import Needs
from render.browser import Browser
from render.executable import BrowserExecutable

log = logging.getLogger(__name__)

LAUNCHES = 3


class Browsers:
    """Lends a browser that is well. `stop` it."""

    def __init__(
        self,
        settings: BrowserSettings,
        executable: BrowserExecutable,
        clock: Clock,
        *,
        needs: Callable[[], Needs],
    ) -> None:
        """Start nothing yet.

        Args:
            settings: when a browser is replaced.
            executable: which one.
            clock: the time.
            needs: what a browser must know now.
        """
        self._settings = settings
        self._executable = executable
        self._clock = clock
        self._needs = needs
        self._known = Needs()
        self._browser: Browser | None = None
        self._borrowed: dict[Browser, int] = {}
        self._launching = asyncio.Lock()

    async def start(self) -> None:
        """Start the first one.

        Raises:
            BrowserUnavailableError: none starts.
        """
        await self._current()

    async def stop(self) -> None:
        """End all of them."""
        browsers = set(self._borrowed) | ({self._browser} if self._browser else set())
        await asyncio.gather(*(browser.close() for browser in browsers))

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Browser]:
        """A browser that is well, for one visit; others use it at the same time.

        Raises:
            BrowserUnavailableError: none starts.
        """
        browser = await self._current()
        self._borrowed[browser] = self._borrowed.get(browser, 0) + 1
        try:
            yield browser
        finally:
            self._borrowed[browser] -= 1
            if self._borrowed[browser] == 0:
                del self._borrowed[browser]
                if browser is not self._browser:
                    await browser.close()

    async def _current(self) -> Browser:
        async with self._launching:
            browser = self._browser
            if browser is not None:
                due = browser.recycle_due()
                if not due and not self._needs().are_met_by(self._known):
                    due = "proxies"
                if not due:
                    return browser
                log.info("browser.replaced reason=%s", due)
                self._browser = None
                if browser not in self._borrowed:
                    await browser.close()
            self._browser = await self._launch()
            return self._browser

    async def _launch(self) -> Browser:
        for attempt in range(LAUNCHES):
            needs = self._needs()
            try:
                browser = await Browser.launch(
                    self._settings,
                    self._executable,
                    ca_spki=needs.spki or None,
                    hosts=needs.hosts,
                    clock=self._clock,
                )
            except BrowserUnavailableError:
                if attempt == LAUNCHES - 1:
                    raise
                log.warning("browser.failed attempt=%d", attempt + 1)
            else:
                self._known = needs
                return browser
        raise BrowserUnavailableError("No browser started.")
