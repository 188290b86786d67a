"""The pool: as many browsers as visits need, each replaced in time, none for ever."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from core.clock import SystemClock
from core.config.settings import BrowserSettings
from crawler.pools.resource_pool import BrowserPool, ProxyAccess
from render.browser import Browser
from render.chromium import find_browser

pytestmark = [pytest.mark.browser, pytest.mark.asyncio]


@asynccontextmanager
async def pool(**changes: Any) -> AsyncIterator[BrowserPool]:
    """Start a pool; stop it at the end of the block."""
    browsers = BrowserPool(BrowserSettings(**changes), find_browser(), SystemClock(), needs=ProxyAccess)
    try:
        await browsers.start()
        yield browsers
    finally:
        await browsers.stop()


async def ended(browser: Browser) -> None:
    """Return when the pool has ended it."""
    async with asyncio.timeout(120):
        await browser.died.wait()


async def test_visits_spread_over_as_many_browsers_as_they_need() -> None:
    """No browser bears more than its share, and the least busy one is lent."""
    async with pool(visits_per_browser=2) as browsers, AsyncExitStack() as stack:
        lent = [await stack.enter_async_context(browsers.lend()) for _ in range(3)]
        fourth = await stack.enter_async_context(browsers.lend())

        assert lent[0] is lent[1]
        assert lent[2] is not lent[0]
        assert fourth is lent[2]
        assert os.getpgid(lent[0].pid) != os.getpgid(lent[2].pid)


async def test_a_browser_that_is_due_ends_with_its_last_visit() -> None:
    """The next visit gets another; who still has the old one keeps it."""
    async with pool(recycle_pages=1) as browsers:
        async with browsers.lend() as old:
            async with old.context():
                pass
            async with browsers.lend() as new:
                assert new is not old
                assert not old.died.is_set()
        await ended(old)
        assert not new.died.is_set()


async def test_a_browser_that_never_drains_ends_all_the_same() -> None:
    """A visit without an end does not keep a browser that is to be replaced."""
    async with pool(recycle_pages=1, drain_limit_s=0.2) as browsers:
        async with browsers.lend() as old:
            async with old.context():
                pass
            async with browsers.lend() as new:
                await ended(old)

        assert not new.died.is_set()


async def test_a_dead_browser_is_lent_to_nobody() -> None:
    """Visits in it end with it, and the next gets one that is well."""
    async with pool() as browsers:
        async with browsers.lend() as dead:
            os.killpg(dead.pid, signal.SIGKILL)
            await ended(dead)
        async with browsers.lend() as well:
            assert well is not dead
            assert well.recycle_due() == ""


async def test_a_browser_dies_alone() -> None:
    """Each is a process group of its own: the visits of another go on."""
    async with pool(visits_per_browser=1) as browsers, browsers.lend() as one, browsers.lend() as other:
        os.killpg(one.pid, signal.SIGKILL)
        await ended(one)
        async with other.context():
            assert not other.died.is_set()


async def test_what_visits_hold_is_told() -> None:
    """A browser without visits counts for nothing, however large it is."""
    async with pool() as browsers:
        assert browsers.visits_bytes() == 0
