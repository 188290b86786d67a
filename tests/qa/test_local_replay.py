"""Tests of `qa.local_replay`."""

import os
import signal
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from core.clock import SystemClock
from core.config.settings import BrowserSettings
from core.page_classes import PageClass
from core.playback_check import QaVerdict
from core.timestamps import timestamp14
from crawler.pools.resource_pool import BrowserPool, ProxyAccess
from playback.access.levels import Level
from playback.playback_server import ServerOrigins
from qa.checker import PlaybackChecker
from qa.local_replay import HOST_MAPPING, open_collection_replay
from qa.sample import SampleCandidate
from render.browser import Browser
from render.chromium import find_browser
from tests.support.playback_fixtures import NOW, CollectionBuilder, FullSite, ServedCollection, decide, full, png  # noqa: F401 fixtures

pytestmark = [pytest.mark.browser, pytest.mark.playback]


CLOCK = SystemClock()


SIZE = (1280, 800)


STYLE = "<!DOCTYPE html><body style='margin:0'><div style='height:800px;background:{}'>{}</div></body>"


def candidate(url: str, page_id: str, **facts: object) -> SampleCandidate:
    """Return the page as the index knows it."""
    host = url.split("/")[2]
    plain = {"mime": "text/html", "status": 200, "page_class": PageClass.OK}
    return SampleCandidate(page_id, url, url, NOW, timestamp14(NOW), host, **{**plain, **facts})  # type: ignore[arg-type]


async def test_a_browser_that_dies_costs_one_look(full: FullSite, site: str) -> None:  # noqa: F811
    """The page is looked at again in a fresh one."""
    page_id = full.builder.page(f"{site}/", STYLE.format("green", ""), shot=png("green", SIZE))
    browsers = BrowserPool(
        BrowserSettings(hang_limit_s=3_600), find_browser(), CLOCK, needs=lambda: ProxyAccess(hosts=HOST_MAPPING)
    )
    lent = []

    @asynccontextmanager
    async def lend() -> AsyncIterator[Browser]:
        async with browsers.lend() as browser:
            lent.append(browser.pid)
            if len(lent) == 1:
                os.killpg(browser.pid, signal.SIGKILL)
            yield browser

    origins = ServerOrigins(full.served.front, full.served.replay)
    with (
        ThreadPoolExecutor(2) as pool,
        open_collection_replay(full.builder.layout, "", origins, Level.IMAGES, clock=CLOCK) as playback,
    ):
        await browsers.start()
        try:
            outcome = await PlaybackChecker(playback, lend, pool, CLOCK).check(candidate(f"{site}/", page_id))
        finally:
            await browsers.stop()

    assert outcome.check.verdict is QaVerdict.GOOD
    assert len(set(lent)) == 2
