"""A page is scrolled where that may make it do something."""

import asyncio
from typing import Any

import pytest

from core.clock import SystemClock
from render.behaviours.script_run import wait_reaction
from render.browser import Browser
from render.chromium import page_options
from render.page import open_page
from tests.proxy.chromium import go
from tests.render.behaviours.conftest import QUICK, Act

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
STILL = ("nothing on the page reacts to scrolling",)


async def test_a_page_that_cannot_react_is_not_scrolled(act: Act) -> None:
    """Nothing listens to scrolling or observes what comes into sight: a visit saves that time."""
    acted = await act("reacts.html", "scroll")

    assert acted.done["scroll"].notes == STILL
    assert not [each for each in acted.requested if each.startswith("seen")]


@pytest.mark.parametrize(
    "way",
    [
        "window-listener",
        "box-listener",
        "shadow-listener",
        "attribute",
        "observer",
        "replaced-observer",
        "lazy-image",
        "frame",
        "locked",
        "timer",
        "interval",
    ],
)
async def test_a_page_that_may_react_is_scrolled(act: Act, way: str) -> None:
    """Listeners anywhere, observers, images that wait for a script, frames, locks and timers."""
    acted = await act(f"reacts.html#{way}", "scroll")

    assert acted.done["scroll"].notes != STILL
    assert acted.done["scroll"].done >= 3


@pytest.mark.parametrize("place", ["empty", "hidden", "named", "loading"])
async def test_a_place_that_may_be_filled_on_sight_is_scrolled_through(act: Act, place: str) -> None:
    """However far down: a listener may load or show something there."""
    acted = await act(f"far.html#{place}", "scroll")

    assert f"seen-{place}" in acted.requested
    assert acted.done["scroll"].done >= 12


async def test_a_text_where_nothing_reacts_is_scrolled_to_its_end_at_once(act: Act) -> None:
    """After the first steps its listeners get the end: each step is drawn, which takes most of a visit's CPU."""
    acted = await act("far.html#text", "scroll")

    assert 3 <= acted.done["scroll"].done <= 4


class FastClock(SystemClock):
    """Clock that a test sets forward."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        """Return the machine's seconds, and those that the clock is ahead."""
        return super().monotonic() + self.ahead_s


async def test_a_timer_that_fires_late_is_awaited(browser: Browser, site: Any) -> None:
    """A browser that gets no processor time for a moment fires its timers later than our clock says."""
    clock, options = FastClock(), page_options(QUICK, browser_said=browser.user_agent, version=browser.version)
    async with browser.context() as context:
        page = await open_page(context, None, options, clock)
        await go(page, site.url("/plain.html"))
        began = page.now()
        await page.send("Runtime.evaluate", {"expression": "setTimeout(() => fetch('/image.png?late'), 290)"})
        asyncio.get_running_loop().call_later(0.1, setattr, clock, "ahead_s", 10.0)
        await wait_reaction(page, began, 60.0, still_ms=200)

    assert "/image.png?late" in site.paths()
