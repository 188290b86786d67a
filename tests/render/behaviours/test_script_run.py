"""A page is scrolled where that may make it do something."""

import pytest

from tests.render.behaviours.conftest import Act

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
STILL = ("nothing on the page reacts to scrolling",)


async def test_a_page_that_cannot_react_is_not_scrolled(act: Act) -> None:
    """Nothing listens to scrolling or observes what comes into sight: a visit saves that time."""
    acted = await act("reacts.html", "scroll")

    assert acted.done["scroll"].notes == STILL
    assert not [each for each in acted.asked if each.startswith("seen")]


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
