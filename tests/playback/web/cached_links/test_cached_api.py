"""The gadget in the real browser: on a real MediaWiki beside a real front, and on pages of any kind."""

import html
import json
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.clock import SystemClock
from core.config.settings import Settings
from crawler.frontier.base import Frontier, NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from links.check_history import day_of
from links.states import LinkState
from playback.web.cached_links import cached_api
from playback.web.rate_limits import RateLimitPolicy, ReaderRates, TokenRate
from playback.web.registry.registry_service import LinkRegistry, RegistrySource
from tests.support.browser_screen import BrowserScreen, module_screen  # noqa: F401 fixture
from tests.support.loopback import LoopbackServer
from tests.support.playback_fixtures import CollectionBuilder, ServedCollection, serving
from tests.support.registry_builder import DEAD, FINE, RegistryBuilder
from tests.support.services.registries import open_registry
from tests.support.sites.mediawiki import ADMIN, RunningWiki, running_wiki
from tests.support.sites.versions import MACHINES, OTHERS, MediaWikiVersion
from weboid.app.reader_queue_status import ReaderQueueStatus

pytestmark = [pytest.mark.playback, pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SCRIPT = Path(cached_api.__file__).with_name("gadget.js")
MANY = ReaderRates(TokenRate(1e6, 1e6), TokenRate(1e6, 1e6), TokenRate(1e6, 1e6))
QUEUED, NEVER = "https://zeitung.de/heute?a=1&b=2", "https://never.example/"
HELD = "https://never.example/held"
TEXT = f"""Burgen sind bewohnbar.<ref>[{DEAD}#Teil-2 Verlag], gesehen.</ref>
Ein Link: [{FINE} works], [{QUEUED} queued], {NEVER} and [//verlag.de/fine one without a scheme].

A copy: [https://web.archive.org/web/2020/{DEAD} archived], [[Main Page]].

<div class="weboid-ignore">[{DEAD} left alone]</div>

<references />
"""
# Where the script would wait for seconds it waits for a moment.
HURRIED = (
    "{ const real = setTimeout; window.setTimeout = (then, ms, ...more) => real(then, ms >= 5000 ? 50 : ms, ...more); }"
)
# The same for every wait but that for an answer.
AT_ONCE = HURRIED.replace("ms >= 5000", "ms >= 1000 && ms !== 3000")
LINKS = """JSON.stringify(Array.from(document.querySelectorAll('ROOT'), link => ({
    href: link.getAttribute('href'), classes: link.className, data: {...link.dataset},
    mark: link.nextElementSibling?.matches('.weboid-cached') ? link.nextElementSibling.outerHTML : '',
})))"""
ASKED = "performance.getEntriesByType('resource').filter(e => e.name.endsWith('/api/cached')).length"


@dataclass
class CachedArchive:
    """A front with a registry and a frontier.

    Attributes:
        served: both servers.
        frontier: as a crawl would fill it.
    """

    served: ServedCollection
    registry_builder: RegistryBuilder
    frontier: Frontier

    def loader(self, **parameters: str) -> str:
        """Return the line of Common.js that loads the gadget."""
        query = "&".join(f"{name}={value}" for name, value in {"wiki": "dewiki@WMF", **parameters}.items())
        return f"mw.loader.load( '{self.served.front}/links/gadget.js?{query}' );"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CachedArchive]:
    """Serve an archive with copies of a dead and of a working link, and with queued links."""
    root = tmp_path_factory.mktemp("archive")
    builder = CollectionBuilder(root / "collection")
    clock = SystemClock()
    now = clock.now()
    store = open_registry(builder.layout)
    registry_builder = RegistryBuilder(store, root)
    registry_builder.page(1, "Another", DEAD, FINE, QUEUED)
    since = {"first_fail_day": day_of(now) - 183, "fails": 9}
    registry_builder.state(DEAD, LinkState.DEAD, code=18, **since)
    registry_builder.state(FINE, LinkState.ALIVE, code=1)
    for url in (DEAD, FINE):
        builder.page(url, "<p>x</p>", at=now - timedelta(days=200))
    settings = Settings()
    with (
        closing(builder),
        closing(store),
        closing(open_frontier(builder.layout, settings.frontier, settings.politeness)) as frontier,
        closing(RegistrySource(builder.layout)) as source,
        closing(ReaderQueueStatus(builder.layout, settings, clock=clock)) as status,
        serving(builder, links=LinkRegistry(source, RateLimitPolicy(rates=MANY)), status=status) as served,
    ):
        frontier.add([NewItem(QUEUED), NewItem(HELD)], now=now)
        yield CachedArchive(served, registry_builder, frontier)


@contextmanager
def reading_wiki(archive: CachedArchive, version: MediaWikiVersion = MACHINES) -> Iterator[RunningWiki]:
    """Run a wiki whose Common.js loads the gadget; the query parameter `shown` of a page sets its `show`."""
    with running_wiki(server="self", settings="$wgUseSiteJs = true;", version=version) as running:
        choose = (
            "var wanted = new URL( location ).searchParams;\n"
            "mw.config.set( 'wgWeboid', { show: wanted.get( 'shown' ) || 'always' } );\n"
            "window.hurried = wanted.has( 'hurried' );\n"
        )
        write(running, "MediaWiki:Common.js", choose + archive.loader())
        write(running, "Burg", TEXT)
        query = "action=query&titles=Burg&format=json&formatversion=2"
        document = httpx.get(f"{running.api()}?{query}", timeout=120).json()
        archive.registry_builder.page(document["query"]["pages"][0]["pageid"], "Burg", DEAD, FINE, QUEUED)
        yield running


@pytest.fixture(scope="module")
def wiki(archive: CachedArchive) -> Iterator[RunningWiki]:
    """Run one wiki that all tests share."""
    with reading_wiki(archive) as running:
        write(running, "Viele", "\n".join(f"* [https://many.example/{n} {n}]" for n in range(500)))
        yield running


def write(wiki: RunningWiki, title: str, text: str) -> None:
    """Save a page."""
    wiki.maintain("edit.php", "--user", ADMIN, "--summary", "x", title, text=text)


async def links_in(screen: BrowserScreen, root: str = "#mw-content-text a.external") -> dict[str, Any]:
    """Return the page's links by their addresses, once the gadget has marked them."""
    await until(screen, "document.querySelector('.weboid-link')")
    links = json.loads(await screen.value(LINKS.replace("ROOT", root)))
    return {each["href"]: each for each in links}


@asynccontextmanager
async def in_each_page(screen: BrowserScreen, script: str) -> AsyncIterator[None]:
    """Run a script at the beginning of each document that is opened within the block."""
    added = await screen.send("Page.addScriptToEvaluateOnNewDocument", source=script)
    try:
        yield
    finally:
        await screen.send("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])


async def until(screen: BrowserScreen, condition: str) -> None:
    """Wait until the page says so."""
    await screen.value(
        f"new Promise(done => {{ const look = () => ({condition}) ? done(true) : setTimeout(look, 20); look(); }})"
    )


# ---- on MediaWiki


async def test_links_of_a_wikis_page_get_their_copies(
    archive: CachedArchive, wiki: RunningWiki, screen: BrowserScreen
) -> None:
    """Links get the marks that docs/how-to/embedding.md describes, and nothing else (A09)."""
    await screen.open(f"{wiki.base}/wiki/Burg")
    link_by_href = await links_in(screen, "#mw-content-text .references a.external, p a.external")
    front, copies = archive.served.front, archive.served.replay

    dead = link_by_href[f"{DEAD}#Teil-2"]
    assert dead["classes"].split()[-2:] == ["weboid-link", "weboid-unreachable"]
    assert dead["data"]["originalurl"] == f"{DEAD}#Teil-2"
    assert dead["data"]["versionurl"].startswith(f"{copies}/c/20")
    assert dead["data"]["versionurl"].endswith(f"/{DEAD}#Teil-2")
    assert dead["data"]["versiondate"].endswith("Z")
    assert 'class="weboid-cached weboid-copy"' in dead["mark"]
    assert f'href="{front}/en/page/20' in dead["mark"]
    assert re.search(r'title="Dead since \d{1,2} \w+ 2026; copy of ', dead["mark"])
    assert dead["mark"].endswith(">dead, cached</a></sup>")
    assert ">cached</a>" in link_by_href[FINE]["mark"]
    assert "weboid-working" in link_by_href[FINE]["classes"]
    assert link_by_href["//verlag.de/fine"]["mark"]
    queued = link_by_href[QUEUED]
    assert ">queued</a>" in queued["mark"]
    assert 'title="Queued since ' in queued["mark"]
    assert "versionurl" not in queued["data"]
    assert link_by_href[NEVER]["mark"] == ""
    assert link_by_href[f"https://web.archive.org/web/2020/{DEAD}"]["mark"] == ""
    assert await screen.value(ASKED) == 1
    assert await screen.value("document.querySelectorAll('.weboid-ignore .weboid-link').length") == 0


async def test_the_copy_is_one_click_away(archive: CachedArchive, wiki: RunningWiki, screen: BrowserScreen) -> None:
    """It opens the reader's page of that very copy."""
    await screen.open(f"{wiki.base}/wiki/Burg")
    link_by_href = await links_in(screen)
    address = html.unescape(link_by_href[FINE]["mark"].split('href="')[1].split('"')[0])
    answer = archive.served.get(address.removeprefix(archive.served.front))

    assert answer.status == 200
    assert FINE in answer.text


@pytest.mark.parametrize("version", OTHERS, ids=str)
async def test_other_versions_of_mediawiki_show_the_same(
    archive: CachedArchive, screen: BrowserScreen, version: MediaWikiVersion
) -> None:
    """The oldest that is promised and a later one load the gadget, and its styles, as they are."""
    with reading_wiki(archive, version) as running:
        await screen.open(f"{running.base}/wiki/Burg")
        link_by_href = await links_in(screen)

    assert link_by_href[f"{DEAD}#Teil-2"]["classes"].split()[-2:] == ["weboid-link", "weboid-unreachable"]
    assert ">cached</a>" in link_by_href[FINE]["mark"]
    assert ">queued</a>" in link_by_href[QUEUED]["mark"]
    assert link_by_href[NEVER]["mark"] == ""


@pytest.mark.parametrize(("show", "shown"), [("dead", {f"{DEAD}#Teil-2"}), ("never", set())])
async def test_a_wiki_chooses_what_is_shown(
    wiki: RunningWiki, screen: BrowserScreen, show: str, shown: set[str]
) -> None:
    """Classes and attributes are there in any case."""
    await screen.open(f"{wiki.base}/wiki/Burg?shown={show}")
    link_by_href = await links_in(screen)

    assert {href for href, each in link_by_href.items() if each["mark"]} == shown
    assert link_by_href[FINE]["data"]["versionurl"]
    assert "weboid-working" in link_by_href[FINE]["classes"]


async def test_what_was_queued_gets_its_copy_without_a_reload(
    archive: CachedArchive, wiki: RunningWiki, screen: BrowserScreen
) -> None:
    """The page asks again while something is on its way, and then no more."""
    url = "https://zeitung.de/soon"
    archive.frontier.add([NewItem(url)], now=SystemClock().now())
    write(wiki, "Bald", f"[{url} soon]")
    async with in_each_page(screen, HURRIED):
        await screen.open(f"{wiki.base}/wiki/Bald")
    await until(screen, "document.querySelector('.weboid-queued, .weboid-copy')")
    archive.served.builder.page(url, "<p>x</p>")
    await until(screen, "document.querySelector('.weboid-copy')")

    assert await screen.value("document.querySelectorAll('.weboid-cached').length") == 1
    assert await screen.value(ASKED) <= 6


async def test_a_page_asks_again_a_few_times_only(wiki: RunningWiki, screen: BrowserScreen) -> None:
    """However long something stays queued."""
    write(wiki, "Nie", f"[{HELD} held]")
    async with in_each_page(screen, AT_ONCE):
        await screen.open(f"{wiki.base}/wiki/Nie")
    await until(screen, f"{ASKED} === 16")
    await screen.value("new Promise(done => setTimeout(done, 200))")

    assert await screen.value(ASKED) == 16


async def test_after_an_edit_on_the_page_its_links_are_asked_for_again(
    wiki: RunningWiki, screen: BrowserScreen
) -> None:
    """MediaWiki's own hooks say so."""
    await screen.open(f"{wiki.base}/wiki/Burg")
    await links_in(screen)
    await screen.value(
        "(() => { const added = document.createElement('a'); added.className = 'external';"
        f" added.href = {FINE + '#new'!r}; document.querySelector('#mw-content-text').append(added);"
        " mw.hook('postEdit').fire(); })()"
    )
    await until(screen, f"{ASKED} === 2")
    await until(screen, "document.querySelector('a[href$=\"#new\"] + .weboid-copy')")

    marks = "document.querySelectorAll('#mw-content-text .weboid-cached').length"
    assert await screen.value(marks) == 5


async def test_a_page_with_five_hundred_links_asks_once(wiki: RunningWiki, screen: BrowserScreen) -> None:
    """All of them are marked."""
    await screen.open(f"{wiki.base}/wiki/Viele")
    await links_in(screen)

    assert await screen.value(ASKED) == 1
    assert await screen.value("document.querySelectorAll('.weboid-link').length") == 500


# ---- on any page


@dataclass
class OtherSite:
    """A site of another engine, and a front whose answers a test chooses.

    Attributes:
        answer: what the front says; None: it hangs until the site ends.
        requests: what it was asked.
    """

    address: str = ""
    page: str = ""
    policy: str = "default-src 'none'; script-src 'self'; connect-src 'self'"
    answer: bytes | None = b"{}"
    status: int = 200
    requests: list[Any] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)


@contextmanager
def open_site() -> Iterator[OtherSite]:
    """Serve a page, the gadget and the front's answer from a site on loopback."""
    site = OtherSite()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_arguments: Any) -> None:
            """Log nothing."""

        def do_GET(self) -> None:
            """Serve the script of the gadget, or the page."""
            if self.path.startswith("/links/gadget.js"):
                self._send(200, SCRIPT.read_bytes(), "text/javascript")
            else:
                self._send(200, site.page.encode(), "text/html; charset=utf-8")

        def do_POST(self) -> None:
            """Record the request and send the site's answer; without one, wait until the site ends."""
            body = self.rfile.read(int(self.headers["Content-Length"]))
            site.requests.append((self.headers["Content-Type"], json.loads(body)))
            if site.answer is None:
                site.ending.wait(120)
                return
            self._send(site.status, site.answer, "application/json")

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Security-Policy", site.policy)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with LoopbackServer(Handler) as server:
        site.address = server.origin
        try:
            yield site
        finally:
            site.ending.set()


@pytest.fixture
def site() -> Iterator[OtherSite]:
    """Serve a page with a link of each kind."""
    with open_site() as it:
        it.page = page_of(
            f'<a href="{FINE}">x</a> <a href="/inside">x</a> <a href="mailto:a@b.de">x</a>'
            f' <a rel="mw:ExtLink nofollow" href="{DEAD}">x</a>'
        )
        yield it


def page_of(body: str, settings: str = 'data-wiki="handbook"') -> str:
    """Return a page that loads the gadget."""
    return (
        f'<!doctype html><html lang="de"><body>{body}'
        f'<script src="/links/gadget.js?show=dead" data-show="always" {settings}></script></body></html>'
    )


def link_facts(**facts: Any) -> dict[str, Any]:
    """Return the facts about one link in an answer of the front."""
    return {
        "url": "", "answer": "copy", "href": "https://archive.example/page",
        "copy": "https://archive.example/c", "date": "2026-11-20T10:11:12Z", "state": "alive",
        "group": "working", "is_dead": False, "words": "Copy of today", **facts,
    }  # fmt: skip


def answer(*links: Any, fresh_s: Any = 60) -> bytes:
    """Return the JSON body of an answer of the front; `fresh_s` in seconds."""
    return json.dumps({"wiki": None, "fresh_s": fresh_s, "links": links}).encode()


async def test_a_site_of_any_engine_gets_the_same(site: OtherSite, screen: BrowserScreen) -> None:
    """Under a policy that allows no style and no script of a page's own; what is asked is plain text."""
    site.answer = answer(link_facts(), link_facts(group="unreachable", is_dead=True, label="Kopie"))
    await screen.open(f"{site.address}/")
    link_by_href = await links_in(screen, "a[href^=https]:not(.weboid-cached a)")

    kind, question = site.requests[0]
    assert kind.startswith("text/plain")
    assert question == {"wiki": "handbook", "urls": [FINE, DEAD], "lang": "de"}
    assert ">cached</a>" in link_by_href[FINE]["mark"]
    assert ">Kopie</a>" in link_by_href[DEAD]["mark"]
    style = "getComputedStyle(document.querySelector('.weboid-cached')).whiteSpace"
    assert await screen.value(style) == "nowrap"


async def test_a_site_says_which_links_are_meant(site: OtherSite, screen: BrowserScreen) -> None:
    """By selectors of its own."""
    site.page = page_of(
        f'<main><a class="out" href="{FINE}">x</a> <a href="{DEAD}">x</a></main>'
        f'<footer><a class="out" href="{DEAD}">x</a></footer>',
        'data-selector="a.out" data-content="main"',
    )
    site.answer = answer(link_facts())
    await screen.open(f"{site.address}/")
    await until(screen, "document.querySelector('.weboid-link')")

    assert [question["urls"] for _, question in site.requests] == [[FINE]]


MARKUP = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


BAD_FACTS: tuple[dict[str, Any], ...] = (
    {"href": "javascript:document.title='taken'", "copy": "javascript:1"},
    {"href": "data:text/html,x"},
    {"href": "/relative"},
    {"href": ["https://a.example/"]},
    {"answer": "__proto__"},
    {"answer": 'copy" onclick="x'},
    {"href": None},
)


async def test_an_address_that_is_none_makes_no_link(site: OtherSite, screen: BrowserScreen) -> None:
    """Whoever answers in the front's place."""
    urls = [f"https://a.example/{number}" for number in range(len(BAD_FACTS) + 1)]
    site.page = page_of("".join(f'<a href="{url}">x</a>' for url in urls))
    site.answer = answer(*(link_facts(**facts) for facts in BAD_FACTS), link_facts())
    await screen.open(f"{site.address}/")
    link_by_href = await links_in(screen, 'a[href^="https://a.example/"]')

    assert [url for url in urls if link_by_href[url]["mark"]] == urls[-1:]
    assert not [each for each in link_by_href.values() if "javascript" in json.dumps(each)]


async def test_words_with_markup_are_words(site: OtherSite, screen: BrowserScreen) -> None:
    """Nothing in an answer becomes an element, an attribute or a class."""
    hostile = link_facts(words=MARKUP, label=MARKUP, date=MARKUP, group=f"x {MARKUP}", state=MARKUP)
    site.answer = answer(hostile, None)
    await screen.open(f"{site.address}/")
    link = (await links_in(screen, "a[href^=https]:not(.weboid-cached a)"))[FINE]

    assert await screen.value("document.querySelectorAll('img, .weboid-cached script').length") == 0
    assert await screen.value("document.title") != "taken"
    assert link["classes"] == "weboid-link weboid-unknown"
    assert "versiondate" not in link["data"]
    assert await screen.value("document.querySelector('.weboid-cached a').title") == MARKUP


async def test_what_is_no_answer_changes_nothing(site: OtherSite, screen: BrowserScreen) -> None:
    """And the front is left alone for a minute, on the next page, too."""
    bad = (
        (200, b"<html>"), (200, b"null"), (200, b"[]"), (200, b'{"links": 7}'),
        (200, answer(link_facts())), (500, answer(link_facts(), link_facts())), (429, b"{}"), (404, b""),
    )  # fmt: skip
    for status, body in bad:
        site.status, site.answer = status, body
        site.requests.clear()
        await screen.open(f"{site.address}/")
        await until(screen, "sessionStorage.getItem('weboid-away')")
        await screen.open(f"{site.address}/other")

        assert len(site.requests) == 1, (status, body)
        assert await screen.value("document.querySelectorAll('[class*=weboid]').length") == 0
        await screen.value("sessionStorage.clear()")


async def test_a_front_that_hangs_is_waited_for_three_seconds(site: OtherSite, screen: BrowserScreen) -> None:
    """The page was there all the time."""
    site.answer = None
    await screen.open(f"{site.address}/")
    await until(screen, "sessionStorage.getItem('weboid-away')")

    assert await screen.value("document.querySelectorAll('[class*=weboid]').length") == 0
    await screen.value("sessionStorage.clear()")


async def test_the_script_is_served_to_any_site_and_kept_for_a_while(archive: CachedArchive) -> None:
    """Asked for again, it is sent only when it changed."""
    first = archive.served.get("/links/gadget.js?wiki=dewiki@WMF")
    headers = {name.lower(): value for name, value in first.headers}
    held = {"If-None-Match": f'W/{headers["etag"]}, "other"'}
    again = archive.served.get("/links/gadget.js", headers=held)

    assert first.status == 200
    assert headers["content-type"].startswith("text/javascript")
    assert headers["access-control-allow-origin"] == "*"
    assert headers["cross-origin-resource-policy"] == "cross-origin"
    assert "max-age=" in headers["cache-control"]
    assert (again.status, again.text) == (304, "")
    assert len(first.text) < 12_000
    for forbidden in ("innerHTML", "outerHTML", "eval(", "document.write", "insertAdjacentHTML"):
        assert forbidden not in first.text
