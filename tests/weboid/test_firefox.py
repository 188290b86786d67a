"""The console and the reader pages in Firefox: the acts that other tests do in Chromium."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio

from core.clock import SystemClock
from core.config.settings import Settings
from core.layout import Layout
from crawler.frontier.base import ItemState
from crawler.frontier.sqlite_frontier import open_frontier
from playback.web.page_saves import SaveOptions
from tests.support.console_server import serve_console
from tests.support.firefox import FIREFOX, FirefoxWindow, open_firefox
from tests.support.playback_fixtures import UNLIMITED, CollectionBuilder, ServedCollection, serving
from tests.weboid.console.sample_collection import make_collection
from tests.weboid.console.test_forms_in_browser import act
from tests.weboid.console.test_page_frame import addresses
from weboid.app.reader_queue_status import ReaderQueueStatus
from weboid.console.accounts import COOKIE
from weboid.console.page_frame import DONE

pytestmark = [pytest.mark.browser, pytest.mark.skipif(FIREFOX is None, reason="Firefox is not installed")]
URL = "https://cited.example/page"
FAULT = """
    document.documentElement.scrollWidth > innerWidth ? 'wider than the window' : typeof htmx !== 'object' ? 'no script'
    : 'pwned' in window ? 'markup of a page ran' : !document.querySelector('h1') || document.querySelector('.said.bad') ?
    document.body.innerText : ''
"""
PRESS = """(() => {{
    window.confirm = () => true;
    window.old = true;
    for (const each of document.querySelectorAll('details')) each.open = true;
    for (const [id, value] of Object.entries({fields})) document.getElementById(id).value = value;
    document.querySelector({button}).click();
}})()"""
ACTS: tuple[tuple[str, str, str, dict[str, str]], ...] = (  # page, operation, its form if there are several, fields
    ("/crawl", "pause_crawl", "", {}),
    ("/crawl", "resume_crawl", "", {}),
    ("/crawl", "stop_crawl", "", {}),
    ("/crawl", "pause_host", ":has(input[value='journal.example'])", {}),
    ("/crawl", "resume_host", ":has(input[value='journal.example'])", {}),
    ("/crawl/queue?state=dead", "retry_items", ":has(input[name=url])", {}),
    ("/crawl/queue?host=refuses.example", "move_items", "", {}),
    ("/crawl/queue?host=refuses.example", "drop_items", "", {}),
    ("{capture}", "set_level", "", {"level": "text", "why": "Large pictures"}),
    ("{capture}", "add_takedown", "", {"reason": "Names a minor"}),
    ("/rules", "lift_takedown", "", {}),
    ("/rules", "add_policy", "", {"pattern": "*.ads.example", "reason": "Advertisements"}),
    ("/rules", "remove_policy", "", {}),
    ("/bot", "review_edit", ":has(input[value='accept'])", {}),
    ("/settings", "write_settings", "", {"text": "[visit]\ntimeout_s = 90\n"}),
    ("/users", "remove_user", ":has(input[value='Rosa'])", {}),
)
CLOCK = SystemClock()
IN_FIREFOX = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def window(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FirefoxWindow]:
    """Yield a window of one Firefox, which keeps its cookies."""
    async with open_firefox(tmp_path_factory.mktemp("firefox")) as opened:
        yield opened


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Make a collection, of which each test serves a copy."""
    return make_collection(tmp_path_factory.mktemp("made") / "collection")


@pytest.fixture
def layout(made: Layout, tmp_path: Path) -> Layout:
    """Return a copy of the collection."""
    return Layout(shutil.copytree(made.root, tmp_path / "collection"))


@pytest.fixture
def saving(collection: CollectionBuilder) -> Iterator[ServedCollection]:
    """Serve a front whose readers may save."""
    with (
        contextlib.closing(ReaderQueueStatus(collection.layout, Settings(), clock=CLOCK)) as status,
        serving(collection, status=status, saves=SaveOptions(status), access=UNLIMITED) as served,
    ):
        yield served


@IN_FIREFOX
async def test_a_reader_saves_a_page(saving: ServedCollection, window: FirefoxWindow) -> None:
    """The page of a missing copy, the form, the progress that reloads itself, the copy; no script of ours."""
    builder = saving.builder
    await window.open(f"{saving.front}/page/{URL}")
    await window.value("document.querySelector('.notice .button').click()")
    await window.until("document.querySelector('form.speak button')")
    assert await window.value("document.querySelector('#url').value") == URL
    await window.value("document.querySelector('form.speak button').click()")
    await window.until("document.body.innerText.includes('Queued since')")
    with open_frontier(builder.layout, Settings().frontier, Settings().politeness) as frontier:
        (item,) = frontier.claim(now=CLOCK.now(), worker="w")
        builder.page(URL, "<p>The copy.</p>", at=CLOCK.now(), title="A page")
        frontier.complete(item, now=CLOCK.now(), outcome="complete")
    await window.until("document.querySelector('iframe.copy')")
    assert await window.value("document.querySelector('.banner h1 .title').textContent") == "A page"
    await window.open(f"{saving.front}/save?url={quote(URL, safe='')}")
    assert "Newest capture" in await window.value("document.body.innerText")


@IN_FIREFOX
async def test_an_operator_captures_a_page_and_sees_it_in_the_queue(window: FirefoxWindow, layout: Layout) -> None:
    """Signed in by the cookie of a session; a form of the console is taken, and the page is refreshed by its script."""
    with serve_console(layout) as console:
        await window.cookie(COOKIE, console.sessions["operator"], "127.0.0.1")
        await window.open(f"{console.address}/console/captures?q=reading")
        await window.value("document.querySelector('.pages .facts a').click()")
        await window.until("document.querySelector('form[action=\"/do/save_capture\"]')")
        await window.value("document.querySelector('form[action=\"/do/save_capture\"] button').click()")
        await window.until("document.querySelector('.said[role=status]')")
        assert "will be captured" in await window.value("document.querySelector('.said').textContent")
        url = await window.value("document.querySelector('h1 .url').textContent")
        queued = [each.item.url for each in console.frontier.ls(ItemState.QUEUED, limit=5)]
        assert queued[0] == url
        # The overview asks again after five seconds, and this part of it is another one then.
        await window.open(f"{console.address}/console")
        await window.value("document.querySelector('#live').dataset.first = 'yes'; 1")
        console.frontier.pause("test")
        await window.until("document.querySelector('#live').textContent.includes('Paused')")


@contextlib.asynccontextmanager
async def signed_in(window: FirefoxWindow, layout: Layout) -> AsyncIterator[tuple[str, dict[str, str]]]:
    """Sign an administrator in; yield the address of the console and the paths of its pages."""
    with serve_console(layout) as console:
        console.role = "admin"
        pages = await asyncio.to_thread(addresses, console)
        await window.cookie(COOKIE, console.sessions["admin"], "127.0.0.1")
        yield f"{console.address}/console", pages


@IN_FIREFOX
async def test_pages_and_acts_of_the_console(window: FirefoxWindow, layout: Layout) -> None:
    """Each page fits a phone's and a desktop's window, and runs our script alone; each act's button does what it says."""
    faults, answers = {}, []
    widths, shown = [390, 1280], ""
    async with signed_in(window, layout) as (console, pages):
        for name, path in pages.items():
            await window.open(f"{console}{path}")
            for width in widths:
                await window.resize(width, 844)
                if fault := await window.value(FAULT):
                    faults[name, width] = fault
            widths.reverse()  # the next page begins with the width of this one
        for path, operation, form, fields in ACTS:
            button = json.dumps(act(operation, form))
            if path != shown:  # an act leads back to its page
                await window.open(f"{console}{path.format(**pages)}")
            shown = path
            await window.value(PRESS.format(fields=json.dumps(fields), button=button))
            await window.until("!window.old && document.querySelector('.said')")
            answers.append(await window.value("document.querySelector('.said').textContent"))

    assert faults == {}
    assert answers == [DONE[operation] for _, operation, *_ in ACTS]
