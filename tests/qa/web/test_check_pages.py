"""The pages of checks in a real browser: slider, keys, marks with and without a script, and for everyone.

With ``WEBOID_PICTURES=docs/pictures`` it also makes the pictures of the documentation.
"""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image
from sqlalchemy import update

from core.playback_check import QaVerdict
from links.registry.schema import quality
from playback.web.rate_limits import RateLimitPolicy, parse_networks
from playback.web.registry.registry_service import LinkRegistry
from qa.check_table import RepairState
from qa.web.check_pages import QualityContext
from qa.web.review import ReviewerRules
from tests.qa.web.gallery import GalleryPictures, fill
from tests.support.browser_screen import BrowserScreen
from tests.support.documentation_pictures import save_picture
from tests.support.playback_fixtures import serving
from tests.support.quality_builder import QualityBuilder, open_quality_builder
from tests.support.registry_builder import FixedRegistry

pytestmark = [pytest.mark.playback, pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

AT = "getComputedStyle(document.querySelector('[data-panes]')).getPropertyValue('--at')"
SAYS = "document.querySelector('[data-says]').textContent.trim()"
MODE = "document.querySelector('[data-look]').dataset.mode"


@dataclass
class ShownResults:
    """A served front, its registry, and its results, the worst first."""

    front: str
    quality_builder: QualityBuilder
    ids: list[str]

    def address(self, place: int | None = None, query: str = "") -> str:
        """Return the URL of the list, or of a result."""
        path = "" if place is None else f"/{self.ids[place]}/images"
        return f"{self.front}/quality{path}{query}"


@pytest.fixture(scope="module")
def served(drawings: list[GalleryPictures], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownResults]:
    """Serve a collection with five checked copies by the real server; its reader is a reviewer."""
    reviewers = ReviewerRules(networks=parse_networks(["127.0.0.1"]))
    with open_quality_builder(tmp_path_factory.mktemp("checked")) as quality_builder:
        ids = fill(quality_builder, drawings)
        links = LinkRegistry(FixedRegistry(quality_builder.store), RateLimitPolicy())
        mount = QualityContext(quality_builder.builder.layout, reviewers)
        with serving(quality_builder.builder, links=links, mounts=[mount]) as it:
            yield ShownResults(it.front, quality_builder, ids)


@pytest.fixture
def shown(served: ShownResults) -> Iterator[ShownResults]:
    """Yield the same server, and remove the marks of the test afterwards."""
    yield served
    unmarked = {"review": None, "reviewed_by": "", "note": "", "repair": 0, "repair_ms": None}
    with served.quality_builder.store.writing() as rows:
        rows.execute(update(quality).values(standing=quality.c.verdict, **unmarked))


async def keep(screen: BrowserScreen, name: str) -> None:
    """Keep the window as a picture of the documentation, when one is asked for."""
    if folder := os.environ.get("WEBOID_PICTURES"):
        picture = Image.open(io.BytesIO(await screen.picture()))
        save_picture(picture, Path(folder, f"{name}.png"))


async def test_pictures_of_the_documentation(shown: ShownResults, screen: BrowserScreen) -> None:
    """The list with its pictures, and one result in the slider."""
    await screen.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    await screen.open(shown.address(), size=(1200, 860))
    await keep(screen, "quality-list")
    listed = await screen.value("[...document.querySelectorAll('.thumbs img')].length")
    await screen.open(shown.address(2), size=(1200, 1000))
    await keep(screen, "quality-slider")

    assert listed == 9  # of the good copy no check left a picture: the archive's own stands there
    assert await screen.value("[...document.images].every(i => i.naturalWidth > 0)")


async def follow(screen: BrowserScreen, act: str) -> None:
    """Do something that leads to another page, and wait for that page."""
    await screen.value(f"window.old = true; {act}; 0")
    await screen.value("""new Promise(done => {
        const look = () => document.readyState === 'complete' && !window.old
            ? done(true) : setTimeout(look, 10);
        look();
    })""")


async def press(screen: BrowserScreen, key: str) -> None:
    """Press a key, as a keyboard does."""
    special = {"ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, "Home": 36, "End": 35}
    code = special.get(key, ord(key.upper()[0]))
    more = {} if key in special else {"text": key}
    down = "rawKeyDown" if key in special else "keyDown"
    await screen.send("Input.dispatchKeyEvent", type=down, key=key, code=key, windowsVirtualKeyCode=code, **more)
    await screen.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)


async def until(screen: BrowserScreen, expression: str) -> None:
    """Wait until something is true in the page."""
    await screen.value(f"""new Promise(done => {{
        const look = () => ({expression}) ? done(true) : setTimeout(look, 10);
        look();
    }})""")


async def mouse(screen: BrowserScreen, kind: str, x: float, y: float) -> None:
    """Send a mouse event."""
    buttons = {"button": "left", "buttons": 1, "clickCount": 1}
    await screen.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **buttons)


async def test_the_slider_is_moved_by_keys_and_by_mouse(shown: ShownResults, screen: BrowserScreen) -> None:
    """Each side is cut where the other begins; who hears the page is told the share."""
    await screen.open(shown.address(2))
    await screen.value("document.querySelector('[data-divide]').focus()")
    for _ in range(3):
        await press(screen, "ArrowRight")
    by_keys = await screen.value(AT)
    value_text = await screen.value("document.querySelector('[data-divide]').getAttribute('aria-valuetext')")
    box = await screen.value(
        "(r => [r.left, r.top, r.width])(document.querySelector('[data-panes]').getBoundingClientRect())"
    )
    left, top, wide = box
    await mouse(screen, "mousePressed", left + wide * 0.25, top + 200)
    begun = await screen.value(AT)
    await mouse(screen, "mouseMoved", left + wide * 0.7, top + 210)
    await mouse(screen, "mouseReleased", left + wide * 0.7, top + 210)
    dragged = await screen.value(AT)
    await mouse(screen, "mouseMoved", left + wide * 0.1, top + 210)
    await press(screen, "ArrowLeft")
    cut = await screen.value("['seen', 'shown'].map(k => getComputedStyle(document.querySelector('.' + k)).clipPath)")

    assert (by_keys, begun, dragged) == ("53%", "25%", "70%")
    assert "53 per cent" in value_text
    assert await screen.value(AT) == "69%"
    assert "31%" in cut[0]
    assert "69%" in cut[1]
    assert shown.ids[2] in await screen.value("location.pathname")


async def test_keys_change_how_it_is_compared(shown: ShownResults, screen: BrowserScreen) -> None:
    """Side by side, in turn, differences; each is told, and kept for the next result."""
    await screen.open(shown.address(2))
    modes = [await screen.value(MODE)]
    fronts = []
    for key in "ssxxhh":
        await press(screen, key)
        modes.append(await screen.value(MODE))
        fronts.append(
            await screen.value(
                "['seen', 'shown', 'heat'].filter(k => { const s = getComputedStyle(document.querySelector"
                "('.' + k)); return s.display !== 'none' && s.visibility !== 'hidden'; }).join()"
            )
        )
    announcement = await screen.value(SAYS)
    await press(screen, "h")
    await screen.open(shown.address(1))

    assert modes == ["slider", "side", "slider", "blink", "blink", "heat", "slider"]
    assert fronts == ["seen,shown,heat", "seen,shown", "seen", "shown", "heat", "seen,shown"]
    assert announcement == "Slider"
    assert await screen.value(MODE) == "heat"


async def test_keys_step_through_the_results(shown: ShownResults, screen: BrowserScreen) -> None:
    """From row to row in the list; from result to result; and none where somebody writes."""
    await screen.open(shown.address())
    await press(screen, "j")
    await press(screen, "j")
    focused = await screen.value("document.activeElement.getAttribute('href')")
    await follow(screen, "document.activeElement.click()")
    places = [await screen.value("location.pathname")]
    for key in ("j", "ArrowRight", "k", "ArrowLeft"):
        await screen.value("window.old = true")
        await press(screen, key)
        await until(screen, "!window.old && document.readyState === 'complete'")
        places.append(await screen.value("location.pathname"))
    await screen.value("document.querySelector('#note').focus()")
    for key in "jbg?":
        await press(screen, key)
    typed = await screen.value("document.querySelector('#note').value")

    expected = [f"/quality/{shown.ids[place]}/images" for place in (1, 2, 3, 2, 1)]
    assert focused == expected[0]
    assert places == expected
    assert typed == "jbg?"
    assert shown.quality_builder.row(shown.ids[1]).review is QaVerdict.UNCHECKED


@pytest.mark.parametrize(
    ("key", "verdict", "repair"),
    [
        ("g", QaVerdict.GOOD, RepairState.NONE),
        ("b", QaVerdict.BROKEN, RepairState.WANTED),
        ("r", QaVerdict.UNCHECKED, RepairState.WANTED),
    ],
)
async def test_a_key_marks(
    key: str, verdict: QaVerdict, repair: RepairState, shown: ShownResults, screen: BrowserScreen
) -> None:
    """Without leaving the page: the button is down, the region tells it, the registry has it."""
    await screen.open(shown.address(3))
    await screen.value("document.querySelector('#by').value = 'Ada'; window.same = true")
    await press(screen, key)
    await until(screen, f"{SAYS} !== ''")
    row = shown.quality_builder.row(shown.ids[3])

    assert (row.review, row.repair) == (verdict, repair)
    assert await screen.value("window.same") is True
    assert await screen.value(f"document.querySelector('[data-key={key}]').ariaPressed") == "true"
    if verdict is not QaVerdict.UNCHECKED:
        assert row.reviewed_by == "Ada"
        assert "reviewed by Ada" in await screen.value("document.querySelector('[data-standing]').textContent")


async def test_a_mark_leads_on_when_that_is_wanted(shown: ShownResults, screen: BrowserScreen) -> None:
    """With the box ticked the next result is opened, and the box stays ticked there."""
    await screen.open(shown.address(0))
    await screen.value("document.querySelector('[name=onward]').click()")
    await follow(screen, "document.querySelector('[value=bad]').click()")

    assert shown.ids[1] in await screen.value("location.pathname")
    assert await screen.value("document.querySelector('[name=onward]').checked") is True


async def test_everything_works_without_a_script(shown: ShownResults, screen: BrowserScreen) -> None:
    """The pictures stand side by side, buttons that need a script are not there, forms mark."""
    await screen.send("Network.enable")  # with scripts off, the test's own would not run either
    await screen.send("Network.setBlockedURLs", urls=["*quality.js*"])
    await screen.open(shown.address(2))
    seen = await screen.value(
        "[...document.querySelectorAll('.pane img')].filter(i => i.getClientRects().length).length"
    )
    tools = await screen.value("document.querySelector('.tools').getClientRects().length")
    await follow(screen, "document.querySelector('button[value=good]').click()")

    assert (seen, tools) == (3, 0)
    assert "Rated as good." in await screen.value("document.body.innerText")
    assert shown.quality_builder.row(shown.ids[2]).review is QaVerdict.GOOD


async def test_help_tells_the_keys_and_turns_them_off(shown: ShownResults, screen: BrowserScreen) -> None:
    """The panel takes the focus and gives it back; without keys nothing happens by accident."""
    await screen.open(shown.address(3))
    await press(screen, "?")
    is_open = await screen.value("document.querySelector('dialog').open")
    await press(screen, "g")
    await screen.value("document.querySelector('dialog input').click()")
    await screen.value("document.querySelector('dialog button').click()")
    await press(screen, "g")
    await press(screen, "s")

    assert is_open
    assert not await screen.value("document.querySelector('dialog').open")
    assert await screen.value(MODE) == "slider"
    assert shown.quality_builder.row(shown.ids[3]).review is QaVerdict.UNCHECKED


async def test_axe_finds_nothing_serious(shown: ShownResults, screen: BrowserScreen) -> None:
    """Both pages, in both colours, widths and languages; nothing is wider than the window."""
    findings = {}

    async def look_at(name: str) -> None:
        for size, dark in (((390, 844), True), ((1200, 900), False)):
            await screen.adapt(size=size, dark=dark)
            findings[name, dark] = await screen.faults()

    good, broken = (f"/{shown.ids[place]}/images" for place in (4, 2))
    for name in ("/de/quality", f"/quality{good}", "/de/quality?verdict=nonsense", f"/de/quality{broken}"):
        await screen.open(shown.front + name)
        await look_at(name)
    await screen.value("document.querySelector('[data-opens-keys]').click()")
    await look_at("help")

    assert {name: each for name, each in findings.items() if each} == {}


async def test_a_finger_moves_the_slider(shown: ShownResults, screen: BrowserScreen) -> None:
    """On a phone, by touch; the page does not scroll by that."""
    await screen.send("Emulation.setTouchEmulationEnabled", enabled=True)
    await screen.open(shown.address(2), size=(390, 844))
    await screen.value("document.querySelector('[data-panes]').scrollIntoView()")
    left, top, wide = await screen.value(
        "(r => [r.left, r.top, r.width])(document.querySelector('[data-panes]').getBoundingClientRect())"
    )
    y = top + 120
    touch = "Input.dispatchTouchEvent"
    await screen.send(touch, type="touchStart", touchPoints=[{"x": left + wide * 0.5, "y": y}])
    for share in (0.6, 0.7, 0.8):
        await screen.send(touch, type="touchMove", touchPoints=[{"x": left + wide * share, "y": y}])
    await screen.send(touch, type="touchEnd", touchPoints=[])

    assert await screen.value(AT) == "80%"
