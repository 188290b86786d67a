"""Pages that readers save: checks, quotas and progress, on a real frontier; for everyone, in a real browser.

With ``WEBOID_PICTURES=docs/pictures`` it also makes the picture of the documentation.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import quote

import httpx
import pytest

from core.config.settings import Settings
from core.errors import TransientError
from core.timestamps import timestamp14
from crawler.frontier.base import Frontier, ItemState, Lane, NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind, add_takedowns
from playback.web.asgi_app import WebOptions, create_app
from playback.web.page_saves import SaveOptions
from tests.support.browser_screen import BrowserScreen, module_screen  # noqa: F401 fixture
from tests.support.clocks import ManualClock
from tests.support.documentation_pictures import save_sheet
from tests.support.playback_fixtures import NOW, UNLIMITED, CollectionBuilder, png, serving
from warc.index.database import SqliteDatabase
from weboid.app.reader_queue_status import ReaderQueueStatus

pytestmark = pytest.mark.playback
URL = "https://cited.example/page"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class SaveFront:
    """A front whose readers may save two pages a day each, and five together, beside a frontier."""

    def __init__(self, builder: CollectionBuilder) -> None:
        self.builder = builder
        self.clock = ManualClock(NOW)
        self.status = ReaderQueueStatus(builder.layout, Settings(), clock=self.clock, server_time=False)
        self.app = create_app(
            SqliteDatabase(builder.layout.captures_db),
            open_decisions(builder.layout),
            replay_origin="http://copies.test",
            clock=self.clock,
            around=WebOptions(status=self.status, saves=SaveOptions(self.status, 2, 5)),
        )

    def send(self, method: str, target: str, address: str = "192.0.2.1", **more: object) -> httpx.Response:
        """Send a request as a reader at that address; return the response."""

        async def sent() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=(address, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://front.test") as client:
                return await client.request(method, target, **more)  # type: ignore[arg-type]

        return asyncio.run(sent())

    def save(self, url: str = URL, address: str = "192.0.2.1", **headers: str) -> httpx.Response:
        """Submit the form as a reader at that address; return the response."""
        return self.send("POST", "/save", address, data={"url": url}, headers=headers)

    @property
    def frontier(self) -> Frontier:
        """Return the queue, newly opened."""
        return open_frontier(self.builder.layout, Settings().frontier, Settings().politeness)

    def queued(self) -> list[str]:
        """Return the queued URLs, in order."""
        if not self.builder.layout.frontier_db.exists():
            return []
        with self.frontier as frontier:
            return [each.item.url for each in frontier.ls(ItemState.QUEUED, limit=50)]


@pytest.fixture
def saving(collection: CollectionBuilder) -> Iterator[SaveFront]:
    """Yield a front of this test alone."""
    it = SaveFront(collection)
    with contextlib.closing(it.status):
        yield it


def test_a_saved_page_is_followed_to_its_copy(saving: SaveFront) -> None:
    """Queued before all others; the page reloads itself until the copy is there, and then leads to it."""
    with saving.frontier as frontier:
        frontier.add([NewItem("https://other.example/", Lane.HIGH)], now=NOW)
    saved = saving.save()
    assert saved.status_code == 303
    progress = saving.send("GET", saved.headers["location"])
    assert saving.queued()[0] == URL
    assert (progress.status_code, progress.headers["refresh"]) == (200, "2")
    assert "Queued since" in progress.text
    with saving.frontier as frontier:
        item = frontier.claim(now=NOW, worker="w")[0]
        assert "being archived now" in saving.send("GET", saved.headers["location"]).text
        saving.builder.page(URL, "<p>x</p>", at=NOW + timedelta(seconds=1))
        frontier.complete(item, now=NOW + timedelta(seconds=2), outcome="complete")
    done = saving.send("GET", saved.headers["location"])
    assert done.headers["location"] == f"/page/{timestamp14(NOW + timedelta(seconds=1))}/{URL}"


def test_a_page_saved_a_moment_ago_is_not_visited_again(saving: SaveFront) -> None:
    """Its copy is shown instead; after an hour it is queued once more. Neither costs twice."""
    saving.save()
    with saving.frontier as frontier:
        item = frontier.claim(now=NOW, worker="w")[0]
        saving.builder.page(URL, "<p>x</p>", at=NOW)
        frontier.complete(item, now=NOW, outcome="complete")
    saving.clock.moment = NOW + timedelta(minutes=59)
    again = [saving.save() for _ in range(3)]
    assert saving.queued() == []
    assert saving.send("GET", again[-1].headers["location"]).headers["location"].startswith("/page/")
    saving.clock.moment = NOW + timedelta(minutes=61)
    assert "refresh" in saving.send("GET", saving.save().headers["location"]).headers


def test_a_visit_that_failed_or_shows_nothing_says_so(saving: SaveFront) -> None:
    """The reader gets the reason and the form, not an endless wait."""
    places = [saving.save(url).headers["location"] for url in (URL, "https://empty.example/")]
    with saving.frontier as frontier:
        for _ in places:
            item = frontier.claim(now=NOW, worker="w")[0]
            if item.url == URL:
                frontier.fail(item, now=NOW, reason="address: 10.0.0.1 is not public")
            else:
                frontier.complete(item, now=NOW, outcome="complete")
    failed, empty = (saving.send("GET", place) for place in places)
    assert "The address is not on the public web." in failed.text
    assert "no copy that can be shown" in empty.text
    assert "refresh" not in {**failed.headers, **empty.headers}


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("ftp://cited.example/", "Only http and https"),
        ("javascript:alert(1)", "Only http and https"),
        ("file:///etc/passwd", "Only http and https"),
        ("", "The address is empty"),
        ("https://cited.example/" + "x" * 4_000, "too long"),
        ("http://10.0.0.1/", "not on the public web"),
        ("http://127.0.0.1:8080/", "not on the public web"),
        ("http://0x7f.1/", "not on the public web"),
        ("http://[::1]/", "not on the public web"),
        ("http://[::ffff:192.168.0.1]/", "not on the public web"),
        ("http://169.254.169.254/latest/", "not on the public web"),
        ("http://localhost/", "contains no dot"),
        ("http://printer.local/", "not on the public web"),
        ("http://blocked.example/", "not on the public web"),
        ("https://cited.example:22/", "not a usual web port"),
        ('"><script>alert(1)</script>', "&#34;&gt;&lt;script&gt;"),
    ],
)
def test_an_address_that_is_not_of_the_web_is_refused(url: str, text: str, saving: SaveFront) -> None:
    """With the reason; nothing is queued, and it costs nothing."""
    egress = replace(Settings().egress, block=("blocked.example",))
    saving.status.settings = replace(saving.status.settings, egress=egress)
    replies = [saving.save(url) for _ in range(3)]
    assert {each.status_code for each in replies} == {400}
    assert text in replies[-1].text
    assert "<script>" not in replies[-1].text
    assert saving.queued() == []


def test_networks_that_the_operator_allows_may_be_saved(saving: SaveFront) -> None:
    """`[egress] allow` holds for readers as for the crawl, so that an intranet's archive works."""
    egress = replace(Settings().egress, allow=("10.0.0.0/8",), resolve={"wiki.internal": "10.0.0.2"})
    saving.status.settings = replace(saving.status.settings, egress=egress)
    assert [saving.save(url).status_code for url in ("http://10.0.0.1/", "http://wiki.internal/")] == [303, 303]


def test_quotas_end_at_an_address_and_at_all_readers(saving: SaveFront) -> None:
    """429 with the time to wait: two pages an address and five in all; a day later there is room again."""
    codes = [saving.save(f"{URL}/{n}", f"198.51.{n // 2}.1").status_code for n in range(5)]
    assert codes == [303] * 5
    everybody = saving.save(f"{URL}/x", "203.0.113.1")
    saving.clock.moment += timedelta(days=1)
    assert [saving.save(f"{URL}/own{n}").status_code for n in range(3)] == [303, 303, 429]
    assert everybody.status_code == 429
    assert int(everybody.headers["retry-after"]) == 86_400 // 5
    assert "Too many pages" in everybody.text
    assert len(saving.queued()) == 7


def test_quotas_survive_a_restart(saving: SaveFront) -> None:
    """They are in the queue's file, which tells no address of a reader; a time in the future does not count."""
    first = [saving.save(f"{URL}/{n}").status_code for n in range(2)]
    restarted, with_wrong_clock = SaveFront(saving.builder), SaveFront(saving.builder)
    restarted.clock.moment += timedelta(hours=1)
    with_wrong_clock.clock.moment -= timedelta(hours=1)
    with contextlib.closing(restarted.status), contextlib.closing(with_wrong_clock.status):
        codes = [each.save(f"{URL}/2").status_code for each in (restarted, with_wrong_clock)]

    assert first == [303, 303]
    assert codes == [429, 303]
    files = [each.read_bytes() for each in saving.builder.layout.databases.glob("frontier.sqlite*")]
    assert b"save-quota" in b"".join(files)
    assert b"192.0.2." not in b"".join(files)


def test_no_quota_is_spent_when_the_queue_fails(saving: SaveFront, monkeypatch: pytest.MonkeyPatch) -> None:
    """503, and as many pages as before may be saved."""
    with monkeypatch.context() as patch:
        patch.setattr(ReaderQueueStatus, "save", Mock(side_effect=TransientError("The queue is away.")))
        failed = [saving.save(f"{URL}/{n}").status_code for n in range(3)]

    assert failed == [503] * 3
    assert [saving.save(f"{URL}/{n}").status_code for n in range(3)] == [303, 303, 429]


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_a_form_of_another_site_saves_nothing(headers: dict[str, str], saving: SaveFront) -> None:
    """Whatever it sends; nor does a link, an image or another type of body."""
    refused = saving.save(**headers)
    saving.send("GET", f"/save?url={quote(URL)}")
    saving.send("GET", f"/save/{URL}")
    assert saving.send("POST", "/save", json={"url": URL}).status_code == 415
    assert saving.send("POST", "/save", content=b"url=" + b"x" * 20_000, headers=FORM).status_code == 413
    assert refused.status_code == 403
    assert "another site" in refused.text
    assert saving.queued() == []


@pytest.mark.parametrize("effect", TakedownEffect)
def test_what_is_taken_down_is_not_saved(effect: TakedownEffect, saving: SaveFront) -> None:
    """The answer is that for any excluded address; the form shows no captures of it."""
    saving.builder.page(URL, "<p>x</p>", title="Secret")
    with contextlib.closing(open_decisions(saving.builder.layout)) as decisions:
        add_takedowns(decisions, [Takedown(0, TakedownKind.URL, URL, effect=effect, decided_at=NOW)])
    refused, form = saving.save(), saving.send("GET", f"/save?url={quote(URL)}")
    assert (refused.status_code, form.status_code) == (403, 200)
    assert "has excluded this address" in refused.text
    assert "Secret" not in refused.text + form.text
    assert saving.queued() == []


def test_the_form_is_offered_where_there_is_no_copy(saving: SaveFront) -> None:
    """The page of a missing copy, the navigation and addresses as at other archives lead to it, filled in."""
    never = saving.send("GET", f"/page/{URL}?a=b&c=d")
    assert never.status_code == 404
    assert f'href="/save?url={quote(URL, safe="")}%3Fa%3Db%26c%3Dd"' in never.text
    assert saving.send("GET", f"/save/{URL}?a=b").headers["location"] == f"/save?url={quote(URL, safe='')}%3Fa%3Db"
    assert f'value="{URL}"' in saving.send("GET", f"/save?url={quote(URL)}").text
    assert "/save?url='+encodeURIComponent(location.href)" in saving.send("GET", "/save").text.replace("&#39;", "'")


def test_readers_save_nothing_unless_the_operator_allows_it(collection: CollectionBuilder) -> None:
    """By default there is no form, no link to it and no address."""
    with serving(collection) as served:
        assert served.get("/save").status == 404
        assert "/save" not in served.get("/").text + served.get(f"/page/{URL}").text


@pytest.fixture
def pages(collection: CollectionBuilder) -> Iterator[dict[str, str]]:
    """Serve a collection; yield the address of each sort of page, by name."""
    status = ReaderQueueStatus(collection.layout, Settings(), clock=ManualClock(NOW), server_time=False)
    news = "https://news.example/"
    for number in range(24):
        at = NOW - timedelta(days=number * number)
        collection.page(news, "<p>x</p>", at=at, title="News", shot=png("teal"), text=str(number // 3))
    with (
        contextlib.closing(status),
        serving(collection, saves=SaveOptions(status), status=status, access=UNLIMITED) as it,
    ):
        status.save("https://queued.example/", again=timedelta(0), counters={})
        yield {
            "form": f"{it.front}/save",
            "filled in": f"{it.front}/save?url={quote(news, safe='')}",
            "wrong": f"{it.front}/save?url=ftp%3A%2F%2Fx",
            "queued": f"{it.front}/save?url=https%3A%2F%2Fqueued.example%2F",
            "never": f"{it.front}/page/https://never.example/",
            "timeline": f"{it.front}/url/{news}",
        }


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_axe_finds_nothing_serious(pages: dict[str, str], screen: BrowserScreen) -> None:
    """On each sort of page, in both themes, sizes and languages; nothing is wider than the window."""
    front = pages["form"].removesuffix("/save")
    findings = {}
    for name, address in pages.items():
        for before, size in (("", (1200, 900)), ("/de", (390, 844))):
            path, is_german = address.removeprefix(front), bool(before)
            await screen.open(front + before + path, size=size, dark=is_german)
            findings[name, before] = await screen.faults()
    assert {name: each for name, each in findings.items() if each} == {}


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.skipif("WEBOID_PICTURES" not in os.environ, reason="makes pictures of the documentation")
async def test_pictures_of_the_documentation(pages: dict[str, str], screen: BrowserScreen) -> None:
    """Each page in both themes and sizes, side by side."""
    port = pages["form"].split(":")[2].partition("/")[0]
    for name in ("filled in", "queued", "never", "timeline"):

        async def show(size: tuple[int, int], dark: bool, address: str = pages[name]) -> None:
            await screen.open(address, size=size, dark=dark)
            await screen.value(
                f"document.body.innerHTML = document.body.innerHTML.replaceAll('127.0.0.1:{port}', 'a.org')"
            )

        await save_sheet(Path(os.environ["WEBOID_PICTURES"], f"reader-{name.replace(' ', '-')}.png"), screen, show)
