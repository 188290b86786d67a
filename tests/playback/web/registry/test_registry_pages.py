"""The registry's pages in the real browser: for assistive technology, phones, dark rooms and gadgets."""

import html
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from core.urls import identity_key
from links.check_history import day_of
from links.states import LinkState
from playback.web.rate_limits import RateLimitPolicy, ReaderRates, TokenRate
from playback.web.registry.registry_service import LinkRegistry, RegistrySource
from tests.support.browser_screen import BrowserScreen, module_screen  # noqa: F401 fixture
from tests.support.playback_fixtures import CollectionBuilder, ServedCollection, serving
from tests.support.registry_builder import DEAD, NOW, RegistryBuilder
from tests.support.services.registries import open_registry

pytestmark = [pytest.mark.playback, pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

MANY = ReaderRates(TokenRate(1e6, 1e6), TokenRate(1e6, 1e6), TokenRate(1e6, 1e6))
LONG = f"https://zeitung.de/{'ein-langer-pfad/' * 12}?frage={'x' * 80}"
HOSTILE = "http://x</script><script>document.title='taken'</script>\u2028'"
PAGES = {
    "form": "/links",
    "page": "/links?dbname=dewiki&curid=2",
    "info": "/externalLinkInfo?dbname=dewiki@WMF&pageid=2&scope=all",
    "url": f"/links?url={DEAD}&dbname=dewiki&stamp=STAMP",
    "pattern": "/links?pattern=*.de&dbname=dewiki&stamp=STAMP",
    "list": "/links/list?dbname=dewiki&with=unreachable",
    "prefilled": f"/links?url={DEAD}",
    "mistake": "/links?dbname=de%20wiki&curid=2",
    "home": "/",
}


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCollection]:
    """Serve a collection with a filled registry, as `weboid serve` does."""
    root = tmp_path_factory.mktemp("registry")
    builder = CollectionBuilder(root / "collection")
    store = open_registry(builder.layout)
    registry_builder = RegistryBuilder(store, root)
    registry_builder.fill_richly()
    registry_builder.page(2, "Liste der Burgen und Schlösser", DEAD, LONG, HOSTILE, "https://casino.de/")
    registry_builder.state(LONG, LinkState.BLOCKED, code=17, checked_day=day_of(NOW))
    registry_builder.state("https://casino.de/", LinkState.USURPED, code=83)
    store.close()
    access = RateLimitPolicy(rates=MANY, form_rates=MANY)
    with (
        closing(builder),
        closing(RegistrySource(builder.layout)) as source,
        serving(builder, links=LinkRegistry(source, access)) as served,
    ):
        yield served


def stamped(served: ServedCollection, name: str) -> str:
    """Return the address of that page as the form would request it, with its stamp."""
    match = re.search(r'name="stamp" value="([^"]+)"', served.get("/links").text)
    assert match is not None
    return PAGES[name].replace("STAMP", match[1])


async def test_axe_finds_nothing_serious(reading: ServedCollection, screen: BrowserScreen) -> None:
    """Names, contrast, landmarks and order; and nothing is wider than the window (W69)."""
    findings = {}
    for before, width in (("", 320), ("/de", 1200)):
        is_german = bool(before)
        # What differs by darkness, by width or by language is seen on a few of them.
        for name in ("form", "page", "url") if is_german else tuple(PAGES):
            await screen.open(reading.front + before + stamped(reading, name), size=(width, 900), dark=is_german)
            findings[name, before] = await screen.faults()

    assert {name: each for name, each in findings.items() if each} == {}


async def test_the_form_works_without_script(reading: ServedCollection, screen: BrowserScreen) -> None:
    """Typed and sent by the keyboard, its answer is on the page that comes (W03, W69)."""
    await screen.open(reading.front + "/links")
    await screen.value(
        "(() => { document.querySelector('#url').value = "
        + json.dumps(DEAD)
        + "; document.querySelector('#url').focus(); })()"
    )
    await screen.send("Page.enable")
    await screen.send("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter",
                      windowsVirtualKeyCode=13, text="\r")  # fmt: skip
    text = await screen.value("""new Promise(done => {
        const look = () => location.search.includes('stamp=') && document.readyState === 'complete'
            ? done(document.querySelector('.result')?.textContent ?? '') : setTimeout(look, 20);
        look();
    })""")

    assert "Dead" in text
    assert DEAD in text


async def test_a_gadget_gets_its_hook_and_nothing_else_runs(reading: ServedCollection, screen: BrowserScreen) -> None:
    """The real browser runs the script as a wiki's page would; hostile URLs stay texts (W67)."""
    script = reading.get("/externalLinkProblem?dbname=dewiki@WMF&pageid=2").text
    page = (
        "<script>window.got = []; window.mediaWiki = { hook: name => ({ fire: found =>"
        " window.got.push([name, found]) }) };</script>"
        f"<script>{script}</script>"
    )
    await screen.send("Page.navigate", url="about:blank")
    await screen.value(f"document.open(), document.write({json.dumps(page)}), document.close(), 0")
    got = json.loads(await screen.value("JSON.stringify(window.got)"))

    assert [name for name, _ in got] == ["externalLinkProblem/query.answer"]
    assert {each["url"] for each in got[0][1]} == {DEAD, HOSTILE, "https://casino.de/"}
    assert await screen.value("document.title") == ""


async def test_no_page_of_it_runs_what_stands_in_a_url(reading: ServedCollection, screen: BrowserScreen) -> None:
    """Nor loads anything from elsewhere."""
    await screen.open(reading.front + PAGES["page"])
    text = await screen.value("document.querySelector('.result').textContent")

    assert html.unescape(HOSTILE) in text
    assert await screen.value("document.title") != "taken"
    assert await screen.value("document.scripts.length") == 0


async def test_the_documented_gadget_brings_links_into_the_normal_form(screen: BrowserScreen) -> None:
    """Whatever a browser makes of a link, it matches what the registry calls it (W67)."""
    text = (Path(__file__).parents[4] / "docs" / "reference" / "registry-api.md").read_text()
    code = re.search(r"    function normal\(.*?\n    \}\n", text, re.DOTALL)
    assert code is not None
    given_urls = ["http://example.org./%7Euser/stra%c3%9fe?", "https://a.de/x%2Cy?b=%2c&c=%26"]
    given_urls += ["https://a.de:443/?", "https://m\u00fcller.de/\u00e4|b%7c^?{}='"]
    given_urls += ["https://u:p@a.de/%5b[x]?[1]#t"]
    script = f"{code[0]} JSON.stringify({json.dumps(given_urls)}.map(normal))"

    assert json.loads(await screen.value(script)) == [identity_key(each) for each in given_urls]
