"""The reader's five answers, out of a real frontier's books (A09)."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from core.config.settings import Settings
from core.errors import TransientError
from core.page_manifest import VisitOutcome
from crawler.frontier.base import POLICY_ORDER, STOP_ORDER, Frontier, NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.policy.policy_entries import PolicyEntry, PolicyKind
from playback.access.decision_store import open_decisions
from playback.web.asgi_app import WebOptions, create_app
from playback.web.copy_lookup import QueueStatusReader, UrlQueueState, UrlQueueStatus
from playback.web.site_pages import Crawler
from tests.support.clocks import ManualClock
from tests.support.playback_fixtures import NOW, CollectionBuilder
from tests.support.services.redis_server import RedisServer
from warc.index.database import SqliteDatabase
from weboid.app.reader_queue_status import ReaderQueueStatus

URL = "https://cited.example/page"
pytestmark = pytest.mark.playback


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Start a Redis server for shared frontiers."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


class QueueFront:
    """A front beside a frontier that a crawl would write."""

    def __init__(self, builder: CollectionBuilder, settings: Settings) -> None:
        self.clock = ManualClock(NOW)
        self.builder = builder
        self.frontier: Frontier = open_frontier(
            builder.layout, settings.frontier, settings.politeness, server_time=False
        )
        self.status = ReaderQueueStatus(builder.layout, settings, clock=self.clock, server_time=False)
        self.app = app_of(builder, self.status)

    def words(self, url: str = URL) -> str:
        """Return the text of the reader's page about the URL."""
        reply = ask(self.app, f"/page/{url}")
        return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", reply.text)))


def app_of(builder: CollectionBuilder, status: QueueStatusReader | None) -> Starlette:
    """Return the application of the front, which needs no socket."""
    return create_app(
        SqliteDatabase(builder.layout.captures_db),
        open_decisions(builder.layout),
        replay_origin="http://copies.test",
        around=WebOptions(status=status),
    )


def ask(app: Starlette, target: str) -> httpx.Response:
    """Request a target of the front and follow its redirects."""

    async def load_page() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://front.test", follow_redirects=True
        ) as client:
            return await client.get(target)

    return asyncio.run(load_page())


@pytest.fixture(params=["sqlite", "redis"])
def answers(request: pytest.FixtureRequest, collection: CollectionBuilder) -> Iterator[QueueFront]:
    """Yield a front with the collection's own frontier, and one with a frontier in Redis."""
    settings = Settings()
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        name = re.sub(r"\W", "-", request.node.name)[-40:].strip("-").lower()
        url = f"{server.url}?frontier={name}"
        settings = replace(settings, frontier=replace(settings.frontier, url=url))
    it = QueueFront(collection, settings)
    with contextlib.closing(it.frontier), contextlib.closing(it.status):
        yield it


def test_a_visited_site_learns_who_came_and_how_to_refuse(collection: CollectionBuilder) -> None:
    """The page that the User-Agent names; a hostile contact is text, and no address of script."""
    app = create_app(
        SqliteDatabase(collection.layout.captures_db),
        open_decisions(collection.layout),
        replay_origin="http://copies.test",
        around=WebOptions(crawler=Crawler("a@b.example", "192.0.2.0/28")),
    )
    response = ask(app, "/about-crawler")
    assert response.status_code == 200
    assert 'href="mailto:a@b.example"' in response.text
    assert "192.0.2.0/28" in response.text
    assert "User-agent: Weboid" in response.text
    assert "not published a contact address" in ask(app_of(collection, None), "/about-crawler").text


def test_an_address_that_nobody_cites_was_never_seen(answers: QueueFront) -> None:
    """The fifth answer."""
    assert "never been archived" in answers.words()
    assert ask(answers.app, f"/page/{URL}").status_code == 404


def test_a_queued_address_says_since_when(answers: QueueFront) -> None:
    """And until when its host is left alone, if it is."""
    answers.frontier.add([NewItem(URL)], now=NOW)
    first = answers.words()
    answers.frontier.block_until("cited.example", NOW + timedelta(hours=3), "HTTP 429", now=NOW + timedelta(seconds=1))
    answers.clock.moment = NOW + timedelta(seconds=2)

    assert "Queued since 1 March 2026, 12:00 UTC" in first
    assert "The copy will appear here once" in first
    assert "The next attempt will be after 1 March 2026, 15:00 UTC" in answers.words()
    assert "HTTP 429" in answers.words()


def test_an_address_under_way_says_so(answers: QueueFront) -> None:
    """Between claim and end."""
    answers.frontier.add([NewItem(URL)], now=NOW)
    answers.frontier.claim(now=NOW, worker="w")

    assert "being archived now" in answers.words()


def test_a_failed_address_says_how_often_and_why(answers: QueueFront) -> None:
    """Each attempt with its reason; while there are more to come it is queued."""
    answers.frontier.add([NewItem(URL)], now=NOW)
    (item,) = answers.frontier.claim(now=NOW, worker="w")
    later = NOW + timedelta(hours=1)
    answers.frontier.retry(item, now=NOW, reason="HTTP 503 <b>", not_before=later)
    waiting = answers.words()
    (item,) = answers.frontier.claim(now=later + timedelta(hours=1), worker="w")
    answers.frontier.fail(item, now=later + timedelta(hours=1), reason="net::ERR_FAILED")
    answers.clock.moment = later + timedelta(hours=2)
    ended = answers.words()

    assert "1 attempt failed:" in waiting
    assert "HTTP 503 <b>" in waiting
    assert "The next attempt will be after 1 March 2026, 13:00 UTC" in waiting
    assert "2 attempts failed:" in ended
    assert "net::ERR_FAILED" in ended
    assert "Attempts ended" in ended


def test_a_refused_address_says_why(answers: QueueFront) -> None:
    """The page shows the site's reason, in words and as it was recorded."""
    answers.frontier.add([NewItem(URL)], now=NOW)
    (item,) = answers.frontier.claim(now=NOW, worker="w")
    answers.frontier.skip(item, now=NOW, reason="robots: Disallow: /page")
    words = answers.words()

    assert "robots.txt excludes this page from archiving" in words
    assert "robots: Disallow: /page" in words


def test_a_refusal_of_policy_says_until_when_and_nothing_of_who(answers: QueueFront) -> None:
    """Also before anybody cited it; and it ends with its entry."""
    entry = PolicyEntry(
        PolicyKind.AUTOBLACKLIST, "=cited.example", "secret words", "alice", NOW,
        NOW + timedelta(days=7),
    )  # fmt: skip
    answers.frontier.give_order(POLICY_ORDER, entry.id, entry.to_json())
    first = answers.words()
    answers.frontier.add([NewItem(URL)], now=NOW)
    queued = answers.words()
    (item,) = answers.frontier.claim(now=NOW, worker="w")
    answers.frontier.skip(item, now=NOW, reason=str(entry))
    skipped = answers.words()
    answers.frontier.take_back(POLICY_ORDER, entry.id)

    for words in (first, queued, skipped):
        assert "not visited for now" in words
        assert "until 8 March 2026, 12:00 UTC" in words
        assert "alice" not in words
        assert "secret" not in words
    assert "until" not in answers.words()


def test_a_whitelist_entry_goes_before_the_crawls_own(answers: QueueFront) -> None:
    """As it does for the crawl."""
    for kind in (PolicyKind.AUTOBLACKLIST, PolicyKind.WHITELIST):
        entry = PolicyEntry(kind, "=cited.example", "", "", NOW)
        answers.frontier.give_order(POLICY_ORDER, entry.id, entry.to_json())

    assert "never been archived" in answers.words()


def test_a_failed_capture_tells_of_the_next_attempt(answers: QueueFront) -> None:
    """The page of a failed visit has the books' word, too."""
    answers.builder.page(URL, None, outcome=VisitOutcome.FAILED, reason="HTTP 503")
    answers.frontier.add([NewItem(URL)], now=NOW)
    words = answers.words()

    assert "could not be archived" in words
    assert "Queued since" in words


def test_that_a_page_was_visited_is_not_told_where_it_is_hidden(answers: QueueFront) -> None:
    """A hidden page looks like one that was never captured (P-22)."""
    answers.frontier.add([NewItem(URL)], now=NOW)
    (item,) = answers.frontier.claim(now=NOW, worker="w")
    answers.frontier.complete(item, now=NOW, outcome="complete")

    assert answers.status.standing(URL) == UrlQueueStatus(UrlQueueState.DONE, NOW)
    assert "never been archived" in answers.words()


def test_many_addresses_are_told_as_one_is(answers: QueueFront) -> None:
    """One look for all; what has no standing is left out, and of policy only the kind is told."""
    entry = PolicyEntry(PolicyKind.BLACKLIST, "=barred.example", "secret", "alice", NOW)
    answers.frontier.give_order(POLICY_ORDER, entry.id, entry.to_json())
    urls = [f"https://site-{number}.example/" for number in range(3)]
    answers.frontier.add([NewItem(urls[0])], now=NOW)
    (item,) = answers.frontier.claim(now=NOW, worker="w")
    answers.frontier.fail(item, now=NOW, reason="net::ERR_FAILED")
    answers.frontier.add([NewItem(urls[1])], now=NOW)
    all_urls = [*urls, "https://barred.example/x", "no url at all", "javascript:alert(1)"]

    standings = answers.status.standings(all_urls)

    assert standings == {url: standing for url in all_urls if (standing := answers.status.standing(url)) is not None}
    assert [each.standing for each in standings.values()] == [
        UrlQueueState.FAILED,
        UrlQueueState.QUEUED,
        UrlQueueState.REFUSED,
    ]


def test_without_a_frontier_the_answer_is_that_it_was_never_seen(collection: CollectionBuilder) -> None:
    """No frontier is made by looking for one."""
    with contextlib.closing(ReaderQueueStatus(collection.layout, Settings(), clock=ManualClock(NOW))) as status:
        assert status.standing(URL) is None
        assert status.standing("no url at all") is None
        assert status.standings([URL]) == {}
    assert not collection.layout.frontier_db.exists()


def test_a_frontier_that_cannot_be_read_takes_no_page_away(collection: CollectionBuilder) -> None:
    """Copies are shown all the same, and the answer leaves out what nobody knows."""
    path: Path = collection.layout.frontier_db
    path.write_bytes(b"this is no database at all, but long enough to be one" * 40)
    collection.page(URL, "<p>x</p>")
    with contextlib.closing(ReaderQueueStatus(collection.layout, Settings(), clock=ManualClock(NOW))) as status:
        with pytest.raises(TransientError):
            status.standing(URL)
        with pytest.raises(TransientError):
            status.standings([URL])
        app = app_of(collection, status)
        assert ask(app, f"/page/{URL}").status_code == 200
        assert "never been archived" in ask(app, "/page/https://other.example/").text


def test_a_stop_of_the_crawl_holds_until_it_is_resumed(collection: CollectionBuilder) -> None:
    """`weboid serve --save` starts its worker again afterwards; without a queue nothing is stopped."""
    with contextlib.closing(ReaderQueueStatus(collection.layout, Settings(), clock=ManualClock(NOW))) as status:
        stop_states = [status.is_stopped()]
        with open_frontier(collection.layout, Settings().frontier, Settings().politeness) as frontier:
            frontier.give_order(STOP_ORDER, "", "")
            stop_states.append(status.is_stopped())
            frontier.take_back(STOP_ORDER, "")
            stop_states.append(status.is_stopped())
    assert stop_states == [False, True, False]
