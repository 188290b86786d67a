"""The front for everyone: assistive technology, keyboards, small screens, paper; and no imitation."""

import re
from datetime import timedelta

import pytest

from classify.page_excerpt import visible_text
from core import page_manifest
from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from core.timestamps import timestamp14
from tests.support.browser_screen import BrowserScreen, module_screen  # noqa: F401 fixture
from tests.support.playback_fixtures import NOW, CollectionBuilder, ServedCollection, png, serving
from warc.text_index.indexer import rebuild_texts

pytestmark = [pytest.mark.playback, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SITE = "https://access.example"
TS, LATER = timestamp14(NOW), timestamp14(NOW + timedelta(days=40))
PAGES = {
    "home": "/",
    "search": "/?q=story",
    "nothing": "/?q=nothing-like-this",
    "full text": "/?in=text&q=night",
    "narrowed": "/?in=text&q=night&host=access.example",
    "page": f"/page/{TS}/{SITE}/story",
    "screenshot": f"/screenshot/{TS}/{SITE}/story",
    "both": f"/beside/{TS}/{SITE}/story",
    "text": f"/text/{TS}/{SITE}/story",
    "calendar": f"/url/{SITE}/story",
    "phone captures": f"/url/device=phone/{SITE}/story",
    "changes": f"/changes/{TS}/{LATER}/{SITE}/story",
    "cite": f"/cite/{TS}/{SITE}/story",
    "challenge": f"/page/{TS}/{SITE}/challenge",
    "never": f"/page/{SITE}/never",
    "error": "/no-such-address",
}
# Each sort of page in one width and light; those with most on them in both.
SEEN = {
    (1200, False): ("home", "search", "page", "both", "text", "changes", "cite", "never", "full text"),
    (390, True): (
        "nothing",
        "page",
        "screenshot",
        "calendar",
        "phone captures",
        "changes",
        "challenge",
        "error",
        "narrowed",
    ),
}


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """Serve a collection with one of each sort of page."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("access") / "collection")
    text = "A story\nof a dark night\n" + "\n".join(f"line {n}" for n in range(20))
    for days, words in ((0, text), (40, text.replace("dark", "stormy") + "\nnew")):
        at = NOW + timedelta(days=days)
        screen = page_manifest.PageScreen(412, 915, 2.0, mobile=bool(days), language="de" if days else "en")
        builder.page(f"{SITE}/story", "<p>x</p>", at=at, title="A story", shot=png(), text=words, screen=screen)
    builder.page(f"{SITE}/story", None, at=NOW + timedelta(days=41), outcome=VisitOutcome.FAILED, reason="HTTP 503")
    builder.page(f"{SITE}/challenge", "<p>x</p>", page_class=PageClass.CHALLENGE, evidence=("It says so.",))
    builder.page("https://other.example/night", "<p>x</p>", title="Night", text="the other night")
    rebuild_texts(builder.layout, "", visible_text)
    try:
        with serving(builder) as it:
            yield it
    finally:
        builder.close()


@pytest.mark.parametrize(
    ("size", "dark"), [((1200, 900), False), ((390, 844), True)], ids=["desktop-light", "phone-dark"]
)
async def test_axe_finds_nothing_serious(
    size: tuple[int, int], dark: bool, reading: ServedCollection, screen: BrowserScreen
) -> None:
    """Names, contrast, landmarks and order of every sort of page, in both languages."""
    findings = {}
    for name in SEEN[size[0], dark]:
        address = PAGES[name]
        await screen.open(reading.front + ("/de" if dark else "") + address, size=size, dark=dark)
        # Nothing is wider than the window: nobody scrolls sideways to read.
        findings[name] = await screen.faults()

    assert {name: each for name, each in findings.items() if each} == {}


async def test_a_keyboard_reaches_everything_in_order(reading: ServedCollection, screen: BrowserScreen) -> None:
    """First the way past the banner, then the links as they stand, each with a visible focus."""
    await screen.open(reading.front + PAGES["page"])
    stops = []
    for _ in range(12):
        await screen.press("Tab", 9)
        stops.append(
            await screen.value(
                "(() => { const e = document.activeElement; const s = getComputedStyle(e);"
                " return [e.tagName, e.textContent.trim(), s.outlineStyle, e.className]; })()"
            )
        )
    names = [text for _, text, _, _ in stops]

    assert stops[0][3] == "skip"
    assert names.index("Copy") < names.index("Screenshot") < names.index("Text")
    assert any(tag == "SUMMARY" for tag, *_ in stops)
    assert all(outline != "none" for tag, _, outline, _ in stops if tag in ("A", "SUMMARY"))


async def test_the_way_past_the_banner_leads_to_the_copy(reading: ServedCollection, screen: BrowserScreen) -> None:
    """Return on it moves the focus, not only the view."""
    await screen.open(reading.front + PAGES["page"])
    await screen.press("Tab", 9)
    await screen.send("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter",
                      windowsVirtualKeyCode=13, text="\r")  # fmt: skip

    assert await screen.value("document.activeElement.id") == "main"


async def test_the_calendar_can_be_walked_and_skipped(reading: ServedCollection, screen: BrowserScreen) -> None:
    """Days with captures are links that say their date; the list is one step away."""
    await screen.open(reading.front + PAGES["calendar"])
    labels = await screen.value("[...document.querySelectorAll('.month td a')].map(a => a.getAttribute('aria-label'))")
    skip = await screen.value("document.querySelector('a.inline').getAttribute('href')")

    assert labels == [
        "1 March 2026: 1 capture", "10 April 2026: 1 capture, text changed", "11 April 2026: 1 capture, no copy",
    ]  # fmt: skip
    assert await screen.value(f"!!document.querySelector({skip!r})")


FAKE = """<div style="position:fixed;top:0;left:0;right:0;height:90px;z-index:2147483647;
background:#fff" id="fake">Copy of https://bank.example Archived on 1 January 1999</div>
<dialog open style="position:fixed;inset:0">Copy of</dialog>
<style>html{margin-top:-200px!important} body{transform:translateY(-300px)}</style><p>text</p>"""
BANNER_FACTS = """(() => {
    const banner = document.querySelector('.banner').getBoundingClientRect();
    const frame = document.querySelector('iframe').getBoundingClientRect();
    const theirs = [];
    for (let x = 1; x < banner.width; x += 7)
        for (let y = 1; y < banner.bottom - 1; y += 5)
            if (!document.elementFromPoint(x, y).closest('.banner')) theirs.push([x, y]);
    return {theirs, below: frame.top >= banner.bottom - 0.5, top: banner.top,
            said: document.querySelector('.banner').innerText};
})()"""


async def test_a_page_cannot_paint_over_the_banner(served: ServedCollection, site: str, screen: BrowserScreen) -> None:
    """All of the banner is the outer document's, and the copy's frame begins below it, on any screen (P-09)."""
    served.builder.page(f"{site}/fake", FAKE, title="Copy of https://bank.example", shot=png())
    await screen.open(f"{served.front}/page/{TS}/{site}/fake", size=(1200, 900))
    desktop = await screen.value(BANNER_FACTS)
    await screen.adapt(size=(390, 844), dark=False)
    phone = await screen.value(BANNER_FACTS)

    for facts in (desktop, phone):
        assert facts["theirs"] == []
        assert facts["below"]
        assert facts["top"] == 0
        assert "1 March 2026" in facts["said"]
        assert f"{site}/fake".partition("://")[2] in facts["said"]
        assert "Weboid" in facts["said"]
        assert served.front.partition("://")[2] not in facts["said"]


BANNER_LINES = """(() => {
    const rows = [...document.querySelectorAll('.banner .mark, .banner h1, .banner .when, .banner .tabs, .banner summary')]
        .map(each => each.getBoundingClientRect());
    const middles = rows.map(row => row.top + row.height / 2);
    const lines = middles.filter((y, i) => !middles.slice(0, i).some(z => Math.abs(y - z) < 9));
    return {lines: lines.length, clash: rows.some((a, i) => rows.some((b, j) => i < j &&
        a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)),
        height: document.querySelector('.banner').getBoundingClientRect().height};
})()"""


@pytest.mark.parametrize("language", ["", "/de"], ids=["en", "de"])
@pytest.mark.parametrize("level", ["", "tx_", "rd_", "ni_"], ids=["images", "text", "reader", "html"])
async def test_the_banner_is_one_line_on_a_desktop_and_two_on_a_phone(
    language: str, level: str, reading: ServedCollection, screen: BrowserScreen
) -> None:
    """Title, date, archive's name, views and menu, at each level; a closed menu takes no room."""
    path = PAGES["page"].replace(TS, f"{TS}{level}", 1)
    await screen.open(f"{reading.front}{language}{path}", size=(1280, 740))
    desktop = await screen.value(BANNER_LINES)
    await screen.adapt(size=(360, 740), dark=False)
    phone = await screen.value(BANNER_LINES)

    assert (desktop["lines"], phone["lines"]) == (1, 2)
    assert not desktop["clash"]
    assert not phone["clash"]
    assert desktop["height"] <= 20 + 32
    assert phone["height"] <= 20 + 32 * 2


async def test_paper_tells_address_and_date(reading: ServedCollection, screen: BrowserScreen) -> None:
    """A printed copy can be found again: it has the whole URL, its own address and the date."""
    await screen.open(reading.front + PAGES["page"])
    await screen.send("Emulation.setEmulatedMedia", media="print")
    banner_text = await screen.value("document.querySelector('.banner').innerText")

    assert re.search(rf"{re.escape(SITE)}/story", banner_text)
    assert reading.front + PAGES["page"] in banner_text
    assert "1 March 2026" in banner_text
    assert "Screenshot" not in banner_text


async def test_a_phone_shows_the_picture_above_the_copy(reading: ServedCollection, screen: BrowserScreen) -> None:
    """Side by side where there is room, one below the other where there is not."""
    places = {}
    await screen.open(reading.front + PAGES["both"])
    for width in (1200, 390):
        await screen.adapt(size=(width, 844), dark=False)
        places[width] = await screen.value(
            "['iframe', '.shot'].map(s => { const r = document.querySelector(s)"
            ".getBoundingClientRect(); return [r.left, r.top]; })"
        )
    (copy, shot), (copy_small, shot_small) = places[1200], places[390]

    assert copy[1] == shot[1]
    assert copy[0] < shot[0]
    assert shot_small[1] < copy_small[1]
