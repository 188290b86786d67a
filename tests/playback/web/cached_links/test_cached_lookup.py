"""Marks beside the links of a page: one query for all (A09, A10, W20, W23, W24, W28)."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.errors import TransientError
from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from links.check_history import HistoryRun, pack_history
from links.feedback.reports import RequestedPage, finish_page_requests, waiting_pages
from links.registry.schema import wanted
from links.states import LinkState
from links.url_parts import key_of
from playback.access import takedowns
from playback.access.decision_store import open_decisions
from playback.access.levels import Level
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from playback.web.copy_lookup import FailedAttempt, UrlQueueState, UrlQueueStatus
from playback.web.rate_limits import RateLimitPolicy, ReaderRates, TokenRate, parse_networks
from tests.support.playback_fixtures import CollectionBuilder, decide
from tests.support.registry_builder import (
    CODES,
    DEAD,
    FINE,
    NOW,
    ORIGIN,
    TODAY,
    FixedRegistry,
    RegistryBuilder,
    RegistryFront,
    open_front,
)

pytestmark = pytest.mark.slow

PATH = "/links/api/cached"
WIKI = "dewiki@WMF"
NEW = "https://never-seen.org/"
CAPTURED = datetime(2026, 11, 20, 10, 11, 12, tzinfo=UTC)


@dataclass
class FilledFrontier:
    """A frontier's books, as a test fills them."""

    standing_of: dict[str, UrlQueueStatus] = field(default_factory=dict)
    is_away: bool = False
    queries: list[list[str]] = field(default_factory=list)

    def standing(self, url: str) -> UrlQueueStatus | None:
        """Return the queue status of the URL; None when the test has set none."""
        return self.standing_of.get(url)

    def standings(self, urls: Any) -> dict[str, UrlQueueStatus]:
        """Return the queue status of each URL that has one; TransientError when the frontier is away."""
        self.queries.append(list(urls))
        if self.is_away:
            raise TransientError("away")
        return {url: self.standing_of[url] for url in urls if url in self.standing_of}


@dataclass
class LookupHarness:
    """The front of the filled registry, with copies and books."""

    registry_builder: RegistryBuilder
    front: RegistryFront
    builder: CollectionBuilder
    books: FilledFrontier

    def ask(self, *urls: str, **more: Any) -> dict[str, Any]:
        """Return the answer about the URLs on the filled page, unless `more` names another page or none."""
        response = self.post({"wiki": WIKI, "page_id": 1, "urls": urls, **more})
        assert response.status_code == 200, response.text
        document: dict[str, Any] = response.json()
        return document

    def link(self, url: str, **more: Any) -> dict[str, Any]:
        """Return the facts in the answer about one link."""
        (link,) = self.ask(url, **more)["links"]
        assert link["url"] == url
        return dict(link)

    def post(self, question: Any, kind: str = "application/json", **headers: str) -> Any:
        """Send a request body, bytes as they are and anything else as JSON; return the response."""
        body = question if isinstance(question, bytes) else json.dumps(question).encode()
        return self.front.post(PATH, body, {"Content-Type": kind, **headers})

    def copy(self, url: str, at: datetime = CAPTURED, **facts: Any) -> None:
        """Add a copy to the collection."""
        self.builder.page(url, "<p>x</p>", at=at, **facts)


@pytest.fixture
def harness(registry_builder: RegistryBuilder, tmp_path: Path) -> Iterator[LookupHarness]:
    """Yield the front of a registry with a dead and a working link, with a collection and a frontier."""
    books = FilledFrontier()
    with (
        closing(CollectionBuilder(tmp_path / "collection")) as builder,
        open_front(tmp_path, FixedRegistry(registry_builder.store), status=books) as front,
    ):
        yield LookupHarness(registry_builder, front, builder, books)


# ---- the five answers


def test_links_of_a_page_that_is_not_observed_are_told_once_it_was_read(harness: LookupHarness) -> None:
    """W10: the question hands the page to the feeder; what it read vouches for the URLs (W20)."""
    wiki, page = harness.registry_builder.wiki(), RequestedPage(4711, "")
    answer = harness.ask(DEAD, FINE, page_id=4711)
    assert [link["state"] for link in answer["links"]] == [None, None]
    assert (answer["page"]["is_observed"], answer["page"]["request"]) == (False, "queued")
    with harness.registry_builder.store.reading() as rows:
        assert waiting_pages(rows, wiki, limit=9) == [page]

    with harness.registry_builder.store.writing() as rows:
        finish_page_requests(rows, wiki, [page], day=TODAY, keys={page: [key_of(DEAD)]})
    answer = harness.ask(DEAD, FINE, page_id=4711)

    assert [link["state"] for link in answer["links"]] == ["dead", None]
    assert answer["page"]["request"] == "done"
    assert harness.ask(DEAD)["page"]["is_observed"]
    assert harness.ask(DEAD, page_id=None)["page"] is None


def test_a_link_to_a_page_of_the_farm_that_is_not_there_is_told(harness: LookupHarness) -> None:
    """W50: of the page that has it, however the link is written; nobody will archive it."""
    lost, sent = "https://de.wikipedia.org/wiki/Ren%C3%A9", "https://de.wikipedia.org/wiki/René"
    harness.registry_builder.missing(5, "Linking", lost)
    link = harness.link(sent, page_id=5)

    assert (link["answer"], link["state"], link["is_dead"]) == ("none", "dead", True)
    assert "has no such page" in link["words"]
    assert (link["is_new"], harness.link(sent)["state"]) == (False, None)


def test_the_spelling_of_the_page_is_told(harness: LookupHarness) -> None:
    """However the URL was sent (A17); not of URLs that the page has not."""
    spelled, sent = "https://verlag.de/%7Ea?q=%2d", "https://verlag.de/~a?q=-"
    harness.registry_builder.page(5, "Spelled", spelled)

    assert harness.link(sent, page_id=5)["spelling"] == spelled
    assert harness.link(FINE, page_id=5)["spelling"] is None


def test_a_copy_is_offered_with_its_address_and_its_moment(harness: LookupHarness) -> None:
    """The reader's page to follow, the copy itself, and when it was made (A09)."""
    harness.copy(FINE)

    assert harness.link(FINE) == {
        "url": FINE,
        "spelling": FINE,
        "answer": "copy",
        "href": f"{ORIGIN}/page/20261120101112/{FINE}",
        "copy": f"http://127.0.0.1:8081/c/20261120101112/{FINE}",
        "date": "2026-11-20T10:11:12Z",
        "service": None,
        "state": "alive",
        "group": "working",
        "is_dead": False,
        "mime": None,
        "kib": None,
        "words": "Copy of 20 November 2026",
        "label": "cached",
        "is_new": False,
        "next_at": None,
        "checked": f"{NOW - timedelta(days=1):%Y-%m-%d}",
    }


def test_what_is_no_web_page_is_told_with_its_length(harness: LookupHarness) -> None:
    """Readers see it in the words of the small link, dead or alive (W57, W66)."""
    for url, state in ((FINE, LinkState.ALIVE), (DEAD, LinkState.DEAD)):
        harness.registry_builder.state(url, state, mime="pdf", kib=1234)
        harness.copy(url)
    fine, dead = harness.link(FINE), harness.link(DEAD)

    assert (fine["mime"], fine["kib"]) == ("pdf", 1234)
    assert fine["words"] == "Copy of 20 November 2026; the link leads to a file (pdf, 1,234 KiB)"
    assert dead["words"].endswith("; copy of 20 November 2026; the link leads to a file (pdf, 1,234 KiB)")


def test_the_page_that_a_reader_is_led_to_is_there(harness: LookupHarness) -> None:
    """And shows that very copy."""
    harness.copy(FINE)
    page = harness.front.get(harness.link(FINE)["href"].removeprefix(ORIGIN))

    assert page.status_code == 200
    assert "/c/20261120101112/" in page.text


def test_of_a_dead_link_it_is_said_since_when(harness: LookupHarness) -> None:
    """And that the copy should be offered in its place."""
    harness.copy(DEAD)
    link = harness.link(DEAD)

    assert (link["state"], link["group"], link["is_dead"]) == ("dead", "unreachable", True)
    assert link["words"] == "Dead since 21 May 2026; copy of 20 November 2026"


@pytest.mark.parametrize(
    ("standing", "answer", "words"),
    [
        (UrlQueueState.QUEUED, "queued", "Queued since 20 November 2026, 10:11 UTC"),
        (UrlQueueState.VISITING, "queued", "Being archived now"),
        (
            UrlQueueState.REFUSED,
            "refused",
            "Not archived: excluded by the site’s robots.txt",  # noqa: RUF001
        ),
        (UrlQueueState.FAILED, "failed", "Archiving failed: no attempt produced a copy"),
    ],
)
def test_without_a_copy_it_is_said_what_becomes_of_the_link(
    harness: LookupHarness, standing: UrlQueueState, answer: str, words: str
) -> None:
    """With the page that says more (A09)."""
    harness.books.standing_of[FINE] = UrlQueueStatus(standing, CAPTURED, reason="robots: Disallow: /")
    link = harness.link(FINE)

    assert (link["answer"], link["words"]) == (answer, words)
    assert link["href"] == f"{ORIGIN}/latest/{FINE}"
    assert (link["copy"], link["date"]) == (None, None)


@pytest.mark.parametrize(
    ("until", "words"),
    [
        (CAPTURED, "Waiting for the site to respond; next attempt on 20 November 2026, 10:11 UTC"),
        (None, "Waiting for the site"),
    ],
)
def test_what_was_tried_waits_for_its_site(harness: LookupHarness, until: datetime | None, words: str) -> None:
    """B2: the answer is still "queued"; the words say why, and when the next attempt is."""
    tried = (FailedAttempt(CAPTURED, "connect: refused"),)
    harness.books.standing_of[FINE] = UrlQueueStatus(UrlQueueState.QUEUED, CAPTURED, until, attempts=tried)
    link = harness.link(FINE)

    assert (link["answer"], link["words"]) == ("queued", words)


def test_a_new_link_that_waits_for_its_way_to_the_archive_is_queued(harness: LookupHarness) -> None:
    """Before the frontier knows of it."""
    number = harness.registry_builder.state(FINE, LinkState.UNKNOWN)
    since = int(CAPTURED.timestamp())
    wiki = harness.registry_builder.wiki()
    harness.registry_builder.add(wanted, wiki_id=wiki, page=1, url_id=number, since=since, due=since, priority=0)

    link = harness.link(FINE)
    assert (link["answer"], link["words"]) == ("queued", "Queued since 20 November 2026, 10:11 UTC")


def test_that_a_page_was_visited_is_not_told_where_it_is_hidden(harness: LookupHarness) -> None:
    """As on the reader's page (P-22)."""
    harness.books.standing_of[FINE] = UrlQueueStatus(UrlQueueState.DONE, CAPTURED)

    link = harness.link(FINE)
    assert (link["answer"], link["href"], link["words"]) == ("none", None, "")


@pytest.mark.parametrize(
    ("facts", "answer"),
    [
        ({"outcome": VisitOutcome.FAILED, "reason": "HTTP 503"}, "failed"),
        ({"outcome": VisitOutcome.SKIPPED, "reason": "robots: no"}, "refused"),
        ({"page_class": PageClass.CHALLENGE}, "failed"),
        ({"page_class": PageClass.SOFT_404}, "failed"),
        ({"page_class": PageClass.PARKED}, "failed"),
        ({"page_class": PageClass.UNJUDGED, "status": 404}, "failed"),
        ({"page_class": PageClass.LOGIN_WALL}, "copy"),
        ({"mime": "application/pdf"}, "copy"),
    ],
    ids=["failed", "skipped", "challenge", "soft-404", "parked", "error", "login", "pdf"],
)
def test_what_is_not_the_page_is_no_copy_of_it(harness: LookupHarness, facts: dict[str, Any], answer: str) -> None:
    """An archived error page is none of what was cited."""
    harness.copy(FINE, **facts)

    assert harness.link(FINE)["answer"] == answer


def test_a_page_that_was_kept_as_its_document_alone_is_a_copy(harness: LookupHarness) -> None:
    """Whatever the site called it."""
    harness.copy(FINE, mime="application/x-unheard-of")

    assert harness.link(FINE)["answer"] == "copy"


def test_a_dead_link_leads_to_what_was_there_before(harness: LookupHarness) -> None:
    """Not to the error page that was captured after it died."""
    harness.copy(DEAD, at=CAPTURED - timedelta(days=300))
    for day in range(40):
        harness.copy(DEAD, at=CAPTURED - timedelta(days=day), page_class=PageClass.HTTP_ERROR)

    assert harness.link(DEAD)["date"] == "2026-01-24T10:11:12Z"


def test_of_several_good_copies_the_newest_is_offered(harness: LookupHarness) -> None:
    """Whichever scheme it came under."""
    harness.copy(FINE, at=CAPTURED - timedelta(days=3))
    harness.copy(FINE.replace("https:", "http:"), at=CAPTURED - timedelta(days=1))

    assert harness.link(FINE)["date"] == "2026-11-19T10:11:12Z"


@pytest.mark.parametrize("state", [LinkState.USURPED, LinkState.DEVIATED])
def test_of_a_link_in_other_hands_only_what_was_there_before_is_offered(
    harness: LookupHarness, state: LinkState
) -> None:
    """From the day after it was last seen to be right."""
    history = pack_history(
        (HistoryRun(CODES.FINE, TODAY - 90, TODAY - 30), HistoryRun(CODES.PARKED, TODAY - 10, TODAY - 1))
    )
    harness.registry_builder.state(DEAD, state, history=history)
    for days in (60, 31, 29, 20, 5):
        harness.copy(DEAD, at=CAPTURED - timedelta(days=days))

    link = harness.link(DEAD)
    assert link["date"] == f"{CAPTURED - timedelta(days=31):%Y-%m-%dT%H:%M:%SZ}"
    assert link["is_dead"] is (state is LinkState.USURPED)


# ---- copies in other archives


def test_a_dead_link_without_a_copy_of_ours_leads_to_another_archive(harness: LookupHarness) -> None:
    """With its name (A10, W30)."""
    address = "https://web.archive.org/web/20200101000000/https://verlag.de/"
    harness.registry_builder.copy(
        harness.registry_builder.state(DEAD, LinkState.DEAD), "wayback", address, "20200101000000"
    )
    link = harness.link(DEAD)

    assert (link["answer"], link["href"], link["copy"]) == ("copy", address, address)
    assert (link["service"], link["date"]) == ("wayback", "2020-01-01T00:00:00Z")
    assert link["words"] == ("Dead since 21 May 2026; copy of 1 January 2020 in Internet Archive's Wayback Machine")


def test_our_own_copy_goes_before_another_archives(harness: LookupHarness) -> None:
    """It is the one that this archive answers for."""
    harness.copy(DEAD)
    harness.registry_builder.copy(
        harness.registry_builder.state(DEAD, LinkState.DEAD), "wayback", "https://web.archive.org/x"
    )

    assert harness.link(DEAD)["service"] is None


def test_a_link_that_works_is_not_led_to_another_archive(harness: LookupHarness) -> None:
    """Nobody needs it there."""
    harness.registry_builder.copy(
        harness.registry_builder.state(FINE, LinkState.ALIVE), "wayback", "https://web.archive.org/x"
    )

    assert harness.link(FINE)["answer"] == "none"


def test_a_copy_elsewhere_whose_address_is_no_link_is_not_offered(harness: LookupHarness) -> None:
    """Whatever once got into the registry."""
    harness.registry_builder.copy(
        harness.registry_builder.state(DEAD, LinkState.DEAD), "wayback", "javascript:alert(1)"
    )

    assert harness.link(DEAD)["answer"] == "none"


def test_a_copy_that_a_person_chose_goes_before_a_newer_one(harness: LookupHarness) -> None:
    """W31."""
    number = harness.registry_builder.state(DEAD, LinkState.DEAD)
    harness.registry_builder.copy(number, "wayback", "https://web.archive.org/new", "20250101000000")
    harness.registry_builder.copy(number, "loc", "https://webarchive.loc.gov/old", "20100101000000", by="alice")

    assert harness.link(DEAD)["service"] == "loc"


# ---- take-downs


@pytest.mark.parametrize(("effect", "answer"), [("block", "refused"), ("hide", "none")])
@pytest.mark.parametrize("what", ["url", "host", "capture"])
def test_what_was_taken_down_is_not_offered(harness: LookupHarness, what: str, effect: str, answer: str) -> None:
    """Neither here nor, for a URL that was taken down as a whole, anywhere else."""
    harness.copy(DEAD)
    address = "https://web.archive.org/web/20200101000000/https://verlag.de/"
    harness.registry_builder.copy(harness.registry_builder.state(DEAD, LinkState.DEAD), "wayback", address)
    take_down(harness, what, effect)
    link = harness.link(DEAD)

    if what == "capture" and effect == "hide":
        assert link["service"] == "wayback"  # as if that copy had never been made
    else:
        assert (link["answer"], link["copy"]) == (answer, None)


def test_another_capture_takes_the_place_of_one_that_was_taken_down(harness: LookupHarness) -> None:
    """The newest of those that may be shown."""
    harness.copy(DEAD)
    harness.copy(DEAD, at=CAPTURED - timedelta(days=1))
    take_down(harness, "capture", "block")

    assert harness.link(DEAD)["date"] == "2026-11-19T10:11:12Z"


def take_down(harness: LookupHarness, what: str, effect: str) -> None:
    """Take `DEAD`, its host or its newest capture down."""
    kind = TakedownKind(what)
    takedown = Takedown(
        number=0, kind=kind, what="verlag.de" if what == "host" else DEAD,
        timestamp="20261120101112" if what == "capture" else "", effect=TakedownEffect(effect),
        reason="By order 7.", ticket="T", actor="anna", decided_at=NOW, expires_at=None,
    )  # fmt: skip
    with closing(open_decisions(harness.builder.layout)) as decisions:
        takedowns.add_takedowns(decisions, [takedown])


# ---- which URL is meant


@pytest.mark.parametrize(
    "text",
    [
        "//verlag.de/a%20b",
        "http://verlag.de/a%20b",
        "HTTPS://VERLAG.de:443/a b#Part%20two",
        " https://verlag.de/a%20b\n",
        "https://user:secret@verlag.de/a%20b",
        "https://verlag.de./a%20b",
    ],
)
def test_a_url_is_found_however_a_page_spells_it(harness: LookupHarness, text: str) -> None:
    """And comes back as it was sent."""
    harness.copy("https://verlag.de/a%20b")

    link = harness.link(text)
    assert link["answer"] == "copy"
    assert "secret" not in json.dumps({**link, "url": ""})


def test_a_url_in_any_script_is_found(harness: LookupHarness) -> None:
    """Host and path."""
    harness.copy("https://xn--mnchen-3ya.de/stra%C3%9Fe?q=%C3%A4")

    assert harness.link("https://münchen.de/straße?q=ä")["answer"] == "copy"


def test_a_capture_under_another_spelling_is_found(harness: LookupHarness) -> None:
    """Escapes that mean nothing."""
    harness.copy("https://verlag.de/%7Euser/")

    assert harness.link("https://verlag.de/~user/")["answer"] == "copy"


def test_a_capture_of_another_page_under_the_same_replay_key_is_not_offered(harness: LookupHarness) -> None:
    """The index merges what differs in case and in the order of arguments."""
    harness.copy("https://verlag.de/A?b=1&a=2")

    assert harness.link("https://verlag.de/a?a=2&b=1")["answer"] == "none"


def test_the_place_within_the_page_is_kept(harness: LookupHarness) -> None:
    """Escaped, so that nothing in it is anything else."""
    harness.copy(FINE)
    link = harness.link(f'{FINE}#Teil-2/"><b>ä')

    assert link["href"].endswith("/fine#Teil-2/%22%3E%3Cb%3E%C3%A4")
    assert link["copy"].endswith("/fine#Teil-2/%22%3E%3Cb%3E%C3%A4")
    assert "#" not in harness.link(f"{FINE}#{'x' * 300}")["href"]


@pytest.mark.parametrize(
    "text",
    [
        "", "#top", "/wiki/Page", "wiki/Page", "example.org/x", "javascript:alert(1)", "ftp://a.de/",
        "mailto:a@b.de", "http://", "https://a..de/", "http://localhost/", "data:text/html,x",
        "http://example.com:8o8o/", "https://a.de/\u202e", "\ud800", "x" * 20_000,
        "https://web.archive.org/web/2020/https://verlag.de/fine", "https://archive.today/abcde",
        f"{ORIGIN}/page/20260101000000/{FINE}", f"http://127.0.0.1:8081/c/20260101000000/{FINE}",
    ],
)  # fmt: skip
def test_what_nobody_archives_is_answered_with_nothing(harness: LookupHarness, text: str) -> None:
    """Among them copies in archives, and pages of this one."""
    link = harness.link(text)

    assert (link["answer"], link["href"], link["state"]) == ("none", None, None)


# ---- who is told what


@pytest.mark.parametrize(
    "who",
    [
        {"page_id": None}, {"page_id": 0}, {"page_id": 2}, {"page_id": 99}, {"page_id": 2**62},
        {"wiki": "enwiki@WMF"}, {"wiki": "osmwiki@OSM"}, {"wiki": "unheard@WMF"}, {"wiki": None},
    ],
    ids=str,
)  # fmt: skip
def test_liveness_is_told_only_of_links_of_the_named_page(harness: LookupHarness, who: dict[str, Any]) -> None:
    """Of a URL that the page lacks programs learn whether there is a copy, no more (W20, W24)."""
    harness.copy(DEAD)
    harness.registry_builder.page(2, "Other", FINE)
    harness.registry_builder.wiki("enwiki@WMF")
    harness.registry_builder.wiki("osmwiki@OSM")

    link = harness.link(DEAD, **who)
    assert (link["answer"], link["state"], link["group"]) == ("copy", None, "unknown")
    assert (link["is_dead"], link["words"]) == (False, "Copy of 20 November 2026")
    assert harness.link(DEAD)["state"] == "dead"


def test_no_copy_elsewhere_tells_that_a_link_is_dead(harness: LookupHarness) -> None:
    """It is offered for dead links alone, so a URL of no named page has none (W20)."""
    number = harness.registry_builder.state(DEAD, LinkState.DEAD)
    harness.registry_builder.copy(number, "wayback", "https://web.archive.org/web/2020/x", "20200101000000")

    assert harness.link(DEAD)["answer"] == "copy"
    assert harness.link(DEAD, page_id=None)["answer"] == "none"


def test_internal_callers_are_told_of_every_link_of_the_farm(registry_builder: RegistryBuilder, tmp_path: Path) -> None:
    """They name no page: an internal tool asks for links before they are saved (W02, W20, W23)."""
    registry_builder.wiki("enwiki@WMF")
    registry_builder.wiki("osmwiki@OSM")
    access = RateLimitPolicy(internal=parse_networks(["198.51.100.7"]))
    states = {}
    with open_front(tmp_path, FixedRegistry(registry_builder.store), access=access) as front:
        for wiki in (WIKI, "enwiki@WMF", "osmwiki@OSM"):
            body = json.dumps({"wiki": wiki, "urls": [DEAD]}).encode()
            answer = front.post(PATH, body, {"Content-Type": "application/json"}).json()
            states[wiki] = answer["links"][0]["state"]

    assert states == {WIKI: "dead", "enwiki@WMF": "dead", "osmwiki@OSM": None}


def test_no_page_of_another_wiki_is_named(harness: LookupHarness) -> None:
    """Nor which one has the URL."""
    assert "Foo" not in harness.post({"wiki": WIKI, "urls": [DEAD]}).text


def test_what_no_page_has_any_more_is_not_told(harness: LookupHarness) -> None:
    """A reference that is gone counts for nothing."""
    harness.registry_builder.page(1, "Foo bar", FINE)

    assert harness.link(DEAD)["state"] is None


def test_a_wikis_name_without_a_farm_means_the_default_one(harness: LookupHarness) -> None:
    """W24."""
    assert harness.ask(DEAD, wiki="dewiki")["wiki"] == "dewiki@WMF"


def test_a_question_writes_nothing(harness: LookupHarness) -> None:
    """And nobody is asked about a link because somebody looks at a page (W28)."""
    written: list[str] = []
    harness.registry_builder.on_write(written.append)
    before = harness.registry_builder.counts()
    harness.ask(DEAD, FINE, "https://never.example/")

    assert harness.registry_builder.counts() == before
    assert written == []


def test_words_are_in_the_language_that_is_asked_for(harness: LookupHarness) -> None:
    """So is the page that a reader is led to."""
    harness.copy(DEAD)
    link = harness.link(DEAD, lang="de-AT")

    assert link["words"] == "Tot seit dem 21. Mai 2026; Kopie vom 20. November 2026"
    assert link["href"].startswith(f"{ORIGIN}/de/page/")
    assert harness.link(DEAD, lang="tlh")["words"].startswith("Dead")
    assert harness.link(DEAD, lang="tlh")["href"].startswith(f"{ORIGIN}/page/")


def test_readers_of_a_wiki_are_led_to_copies_at_its_own_level(harness: LookupHarness) -> None:
    """As soon as one was decided for them, and not before."""
    harness.copy(FINE)
    assert harness.link(FINE)["href"].startswith(f"{ORIGIN}/page/")
    decide(harness.builder.layout, Level.TEXT, wiki="dewiki")

    assert harness.link(FINE)["href"] == f"{ORIGIN}/w/dewiki/page/20261120101112/{FINE}"
    assert harness.link(FINE)["copy"] == f"http://127.0.0.1:8081/w/dewiki/c/20261120101112/{FINE}"
    assert harness.front.get(harness.link(FINE)["href"].removeprefix(ORIGIN)).status_code == 200
    assert harness.link(FINE, wiki="dewiki@OSM")["href"].startswith(f"{ORIGIN}/page/")


@pytest.mark.parametrize("code", ["simple", "be-x-old", "zh-classical", "sr-ec", "x", "de_AT"])
def test_no_language_of_a_wiki_is_a_reason_to_refuse(harness: LookupHarness, code: str) -> None:
    """There are words in another."""
    assert harness.post({"urls": [], "lang": code}).status_code == 200


# ---- order, freshness, and stores that are away


def test_answers_come_in_the_order_of_the_question(harness: LookupHarness) -> None:
    """One each, also where a URL comes twice."""
    harness.copy(FINE)
    urls = [FINE, "#x", DEAD, FINE, f"{FINE}#a", "https://never.example/"]

    assert [link["url"] for link in harness.ask(*urls)["links"]] == urls
    assert harness.ask()["links"] == []


def test_it_is_asked_again_at_once_while_something_is_on_its_way(harness: LookupHarness) -> None:
    """Queued, or so new that nobody has queued it; else there is no hurry."""
    harness.copy(FINE)
    assert harness.ask(FINE, "#x")["fresh_s"] == 60
    assert harness.ask(FINE, NEW)["fresh_s"] == 2
    assert harness.link(NEW)["is_new"]
    assert harness.ask(FINE, NEW, wiki="unheard@of")["fresh_s"] == 60
    harness.books.standing_of[DEAD] = UrlQueueStatus(UrlQueueState.QUEUED, NOW)
    assert harness.ask(FINE, DEAD)["fresh_s"] == 1


@pytest.mark.parametrize(("wait_s", "fresh_s"), [(-5, 1), (0, 1), (7, 7), (7_200, 60)])
def test_a_link_that_waits_for_its_site_is_asked_for_at_its_next_attempt(
    harness: LookupHarness, wait_s: int, fresh_s: int
) -> None:
    """Nothing changes before; a minute is the longest in any case."""
    until = NOW + timedelta(seconds=wait_s)
    tried = (FailedAttempt(CAPTURED, "connect: refused"),)
    harness.books.standing_of[FINE] = UrlQueueStatus(UrlQueueState.QUEUED, CAPTURED, until, "", tried)
    answer = harness.ask(FINE)
    (link,) = answer["links"]
    assert answer["fresh_s"] == fresh_s
    assert link["next_at"] == f"{until:%Y-%m-%dT%H:%M:%SZ}"
    assert link["answer"] == "queued"
    assert link["words"].startswith("Waiting for the site to respond; next attempt on ")


def test_a_link_that_was_given_up_says_so(harness: LookupHarness) -> None:
    """And when it was last tried."""
    tried = (FailedAttempt(CAPTURED, "connect: refused"),)
    harness.books.standing_of[FINE] = UrlQueueStatus(UrlQueueState.FAILED, CAPTURED, None, "", tried)
    link = harness.link(FINE)
    assert link["answer"] == "failed"
    assert link["words"] == ("Archiving failed: last attempt on 20 November 2026, 10:11 UTC")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://files.library.org/a", "Never archived: not an http or https address"),
        ("http://nowhere.invalid/", "Never archived: the host name is reserved for examples"),
        ("https://www.example.com/a", "Never archived: the host name is reserved for examples"),
        ("http://192.168.0.1/", "Never archived: the address is not valid"),
        ("#x", ""),
        ("/wiki/A", ""),
        ("https://web.archive.org/web/2020/https://a.net/", ""),
    ],
)
def test_of_what_nobody_will_ask_for_it_is_said_why(harness: LookupHarness, url: str, words: str) -> None:
    """Instead of calling it new for ever."""
    answer = harness.ask(url)
    (link,) = answer["links"]
    assert (link["answer"], link["words"], link["href"]) == ("none", words, None)
    assert not link["is_new"]
    assert answer["fresh_s"] == 60


def test_it_is_told_when_a_link_was_looked_at_and_that_it_is_a_file(harness: LookupHarness) -> None:
    """Readers get the facts that software should know before it follows a link: date, media type and size."""
    harness.registry_builder.state(FINE, LinkState.ALIVE, checked_day=TODAY - 3, mime="pdf", kib=1_200)
    link = harness.link(FINE)
    assert link["checked"] == f"{NOW - timedelta(days=3):%Y-%m-%d}"
    assert (link["mime"], link["kib"]) == ("pdf", 1_200)
    assert link["words"] == "The link leads to a file (pdf, 1,200 KiB)"


def test_the_books_are_asked_once_and_only_for_what_has_no_copy(harness: LookupHarness) -> None:
    """However many links there are."""
    harness.copy(FINE)
    harness.ask(FINE, DEAD, *(f"https://a.example/{number}" for number in range(300)))

    (urls,) = harness.books.queries
    assert FINE not in urls
    assert len(urls) == 301


def test_books_that_are_away_take_no_copy_away(harness: LookupHarness) -> None:
    """The other facts are still returned, and `is_whole` is false."""
    harness.copy(FINE)
    harness.books.is_away = True
    answer = harness.ask(FINE, DEAD)

    assert [link["answer"] for link in answer["links"]] == ["copy", "none"]
    assert answer["is_whole"] is False


def test_an_archive_without_a_registry_tells_of_its_copies(tmp_path: Path) -> None:
    """And one whose registry is away, too."""
    with closing(CollectionBuilder(tmp_path / "collection")) as builder:
        builder.page(FINE, "<p>x</p>", at=CAPTURED)
        for value, is_whole in ((None, True), (TransientError("away"), False)):
            with open_front(tmp_path, FixedRegistry(value)) as front:
                body = json.dumps({"wiki": WIKI, "urls": [FINE]}).encode()
                answer = front.post(PATH, body, {"Content-Type": "text/plain"}).json()
                assert answer["links"][0]["answer"] == "copy"
                assert answer["is_whole"] is is_whole


def test_an_index_that_is_away_takes_no_state_away(harness: LookupHarness) -> None:
    """The link is known to be dead all the same."""
    harness.builder.close()
    harness.builder.layout.captures_db.write_bytes(b"no database" * 400)
    answer = harness.ask(DEAD)

    assert answer["links"][0]["state"] == "dead"
    assert answer["is_whole"] is False


# ---- bad questions


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"nonsense", b"\xff", b'{"urls": "https://a.de/"}', b'{"urls": [1]}',
        b'{"urls": null}', b'{"urls": [], "wiki": "de wiki"}', b'{"urls": [], "wiki": 7}',
        b'{"urls": [], "lang": "<b>"}', b'{"urls": [], "lang": 7}', b'{"urls": [], "page_id": -1}',
        b'{"urls": [], "page_id": "1"}', b'{"urls": [], "page_id": true}', b'{"urls": NaN}',
        b'{"urls": [], "page_id": 1.5}', b'{"urls": [], "page_id": 1e999}', b"[" * 100_000, b'{"urls": ' + b"9" * 9_000 + b"}",
        json.dumps({"urls": ["x"] * 1_001}).encode(),
    ],
    ids=lambda body: body[:30].decode("latin-1"),
)  # fmt: skip
def test_what_is_no_question_is_refused_with_the_reason(harness: LookupHarness, body: bytes) -> None:
    """As a problem (RFC 9457)."""
    response = harness.post(body)

    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("application/json", 200),
        ("text/plain", 200),
        ("text/plain;charset=UTF-8", 200),
        ("application/json; charset=latin-1", 415),
        ("application/x-www-form-urlencoded", 415),
        ("text/html", 415),
        ("", 415),
    ],
)
def test_a_question_is_json_whatever_a_browser_may_call_it(harness: LookupHarness, kind: str, code: int) -> None:
    """text/plain is what is sent to other sites without a preflight."""
    assert harness.post({"urls": []}, kind).status_code == code


def test_a_question_that_is_too_long_is_not_read(harness: LookupHarness) -> None:
    """A body over the limit, sent or only declared, answers 413; an encoded one answers 415."""
    body = b'{"urls": ["' + b"x" * 300_000 + b'"]}'

    assert harness.post(body).status_code == 413
    assert harness.post(b"{}", **{"Content-Length": "1e9"}).status_code == 413
    assert harness.post(b"{}", **{"Content-Encoding": "gzip"}).status_code == 415


def test_any_site_may_ask_without_credentials(harness: LookupHarness) -> None:
    """And nobody keeps the answer."""
    response = harness.post({"urls": []}, "text/plain", Origin="https://wiki.example")
    preflight = harness.front.get(PATH, method="OPTIONS")

    assert response.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in response.headers
    assert response.headers["cache-control"] == "no-store"
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-methods"] == "POST"
    assert "Content-Type" in preflight.headers["access-control-allow-headers"]


def test_only_post_asks(harness: LookupHarness) -> None:
    """A link to the address sends a GET request, which answers 405."""
    assert harness.front.get(PATH).status_code == 405


# ---- how often


def test_a_question_for_many_links_costs_more(registry_builder: RegistryBuilder, tmp_path: Path) -> None:
    """One for each fifty; internal tools and those with a token pay nothing (W23)."""
    rates = ReaderRates(TokenRate(0.001, 12), TokenRate(0.001, 12), TokenRate(1_000, 1_000))
    access = RateLimitPolicy(rates=rates, token="t" * 32)
    body = json.dumps({"urls": ["https://a.example/"] * 500}).encode()
    kind = {"Content-Type": "text/plain"}
    with open_front(tmp_path, FixedRegistry(registry_builder.store), access=access) as front:
        codes = [front.post(PATH, body, kind).status_code for _ in range(4)]
        refused = front.post(PATH, body, kind)
        free = front.post(PATH, body, {**kind, "Authorization": f"Bearer {'t' * 32}"})

    assert codes == [200, 200, 429, 429]
    assert int(refused.headers["retry-after"]) > 0
    assert refused.headers["content-type"] == "application/problem+json"
    assert free.status_code == 200


def test_a_day_is_a_day(harness: LookupHarness) -> None:
    """`TODAY` is that of the front's clock, or the words above would mean nothing."""
    assert harness.front.clock.now().date().isoformat() == "2026-11-20"
    assert TODAY > 0
