"""The captures index as playback reads it: SQLite and a real PostgreSQL give the same answers."""

import contextlib
import itertools
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.captures import ArtifactKind, Capture, RecordLocation, RecordType, artifact_uri
from core.config.database_urls import parse_index_url
from core.config.settings import IndexSettings
from core.errors import ConfigError, TransientError
from core.layout import Layout
from core.page_classes import GOOD, WITHHELD, PageClass
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import timestamp14, warc_date
from core.url_keys import replay_key
from playback.replay.capture_lookup import CaptureLookup
from playback.web.page_search import PageSearch, parse_question
from playback.web.page_store import CapturedPage, PageStore
from tests.support.examples import examples
from tests.support.playback_fixtures import NOW, CollectionBuilder, fetch, index_row, png, serving
from tests.support.services.postgres import PostgresServer
from tests.support.services.relay import ControlledRelay
from warc.artifact_reader import manifest_place
from warc.index import postgres as playback_postgres
from warc.index.database import IndexDatabase, SqliteDatabase, open_database, page_outcome
from warc.index.postgres import PostgresCaptureIndex, PostgresDatabase
from warc.index.protocol import CaptureRow, PageIndexRow, columns
from warc.index.sqlite import SqliteCaptureIndex
from warc.rebuild import renew_index

pytestmark = pytest.mark.playback

URLS = (
    "https://a.example/",
    "http://a.example/",
    "https://a.example/Path?q=%C3%A9",
    "https://a.example/path?q=%C3%A9",
    f"https://a.example/{'long' * 300}1",
    f"https://a.example/{'long' * 300}2",
)
PAGE_IDS = ("one", "two", "three")
Writer = SqliteCaptureIndex | PostgresCaptureIndex


def capture(
    url: str = URLS[0],
    *,
    second: int = 0,
    offset: int = 0,
    page_id: str | None = None,
    kind: RecordType = RecordType.RESPONSE,
) -> Capture:
    """Return a row of the index; no record belongs to it."""
    return Capture(
        url,
        replay_key(url),
        NOW + timedelta(seconds=second),
        kind,
        "text/html",
        200,
        "sha256:0",
        RecordLocation("weboid-1.warc.gz", offset, 99),
        RecordLocation("weboid-2.warc.gz", 7, 8) if kind is RecordType.REVISIT else None,
        page_id,
    )


def page(page_id: str, url: str = URLS[0], **changes: Any) -> PageInfo:
    """Return a page's manifest, dated `second` seconds after NOW."""
    at = NOW + timedelta(seconds=changes.pop("second", 0))
    about = PageInfo(page_id, url, url, warc_date(at), VisitOutcome.COMPLETE, status=200, mime="text/html")
    return replace(about, **changes)


def searched(database: IndexDatabase, words: str) -> tuple[CapturedPage, ...]:
    """Return the first pages that contain the words."""
    return PageSearch(database, PageStore(database)).find(parse_question(words)).pages


@pytest.fixture(params=["sqlite", "postgresql"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Callable[[], Writer], IndexDatabase]]:
    """Yield a function that opens an index for writing, and the database to read it with."""
    path = tmp_path / "captures.sqlite"
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    database: IndexDatabase
    database = PostgresDatabase(parse_index_url(url)) if url else SqliteDatabase(path)
    with ExitStack() as stack:
        stack.callback(database.close)

        def make() -> Writer:
            made: Writer = PostgresCaptureIndex(parse_index_url(url)) if url else SqliteCaptureIndex(path)
            stack.callback(made.close)
            return made

        yield make, database


Both = tuple[Callable[[], Writer], IndexDatabase]


def test_an_index_that_is_not_there_yet_is_empty(both: Both) -> None:
    """Playback may be started first; what is written then is found."""
    make, database = both
    assert searched(database, "") == ()
    assert list(CaptureLookup(database).captures(URLS[0], NOW)) == []
    make().add_rows([index_row(capture())])

    assert list(CaptureLookup(database).captures(URLS[0], NOW)) == [capture()]


def test_the_latest_manifest_of_a_page_is_found_with_its_outcome(both: Both) -> None:
    """Neither another record of the page nor another page's; no index yet says nothing."""
    make, database = both
    assert (page_outcome(database, "one"), manifest_place(database, "one")) == (None, None)
    uri, writer = f"urn:pageinfo:{URLS[0]}", make()
    captures = [
        capture(url, second=second, offset=offset, page_id=page_id)
        for offset, (url, second, page_id) in enumerate(
            [(uri, 2, "one"), (uri, 1, "one"), (URLS[0], 3, "one"), (uri, 4, "two")]
        )
    ]
    writer.add_rows([index_row(each) for each in captures])
    writer.add_page(page("one", outcome=VisitOutcome.SKIPPED))

    assert page_outcome(database, "one") is VisitOutcome.SKIPPED
    assert page_outcome(database, "two") is None
    assert manifest_place(database, "one") == ("weboid-1.warc.gz", 0, 99)
    assert manifest_place(database, "two") == ("weboid-1.warc.gz", 3, 99)
    assert manifest_place(database, "three") is None


def test_an_index_of_an_older_version_is_an_error(both: Both) -> None:
    """It is not taken for an empty one: the reader is told to come back, the log what to run."""
    make, database = both
    writer = make()
    writer.add_page(page("one"))
    if isinstance(writer, PostgresCaptureIndex):
        writer._db.execute("DROP TABLE qualities")
    else:
        writer._db.execute("DROP TABLE qualities")
        writer._db.execute("PRAGMA user_version = 3")

    with pytest.raises(TransientError, match="weboid collection rebuild"):
        searched(database, "")


def test_the_very_url_comes_first_and_then_the_nearest(both: Both) -> None:
    """Equals by replay key follow; URLs that share only their first characters do not."""
    make, database = both
    captures = [capture(url, second=at, offset=n) for n, (url, at) in enumerate(
        [(URLS[0], 50), (URLS[0], -20), (URLS[1], 1), (URLS[4], 0), (URLS[5], 0)]
    )]  # fmt: skip
    make().add_rows([index_row(each) for each in captures])
    index = CaptureLookup(database)

    assert list(index.captures(URLS[0], NOW)) == [captures[1], captures[0], captures[2]]
    assert list(index.captures(URLS[0], NOW, window=timedelta(seconds=30))) == [captures[1], captures[2]]
    assert list(index.captures(URLS[4], NOW)) == [captures[3]]


def test_what_a_service_worker_made_comes_behind_what_the_site_sent(both: Both) -> None:
    """However near it is; a record of an artifact is no such thing."""
    make, database = both
    made = capture(kind=RecordType.RESOURCE)
    sent = capture(second=1_000_000, offset=5)
    dom = capture(artifact_uri(ArtifactKind.DOM, URLS[0]), kind=RecordType.RESOURCE, offset=9)
    make().add_rows([index_row(each) for each in (made, sent, dom)])
    index = CaptureLookup(database)

    assert list(index.captures(URLS[0], NOW)) == [sent, made]
    assert list(index.captures(dom.url, NOW)) == [dom]


def test_a_capture_comes_back_as_it_was_written(both: Both) -> None:
    """All its fields, also those that are empty."""
    make, database = both
    written = replace(capture(kind=RecordType.REVISIT, page_id="one"), truncated="length")
    make().add_rows([index_row(written)])

    assert list(CaptureLookup(database).captures(URLS[0], NOW)) == [written]


def test_a_page_and_its_artifacts_are_found(both: Both) -> None:
    """A failed page is none, and what was captured for it is withheld."""
    make, database = both
    dom = artifact_uri(ArtifactKind.DOM, URLS[0])
    writer = make()
    writer.add_page(page("one", second=60))
    writer.add_page(page("two", outcome=VisitOutcome.FAILED))
    writer.add_rows(
        [index_row(each) for each in (capture(dom, second=60, page_id="one"), capture(page_id="two", offset=5))]
    )
    index = CaptureLookup(database)
    page_facts = index.page(URLS[0], NOW)

    assert page_facts is not None
    assert page_facts.timestamp == timestamp14(NOW + timedelta(seconds=60))
    dom_capture = index.artifact(page_facts, ArtifactKind.DOM)
    assert dom_capture is not None
    assert dom_capture.url == dom
    assert index.artifact(page_facts, ArtifactKind.TEXT) is None
    assert list(index.documents(URLS[0], NOW)) == []


def shown(database: IndexDatabase, at: datetime = NOW, url: str = URLS[0]) -> str | None:
    """Return the page id that replay and the web pages both offer for a moment without a capture."""
    page_facts, offered = CaptureLookup(database).page(url, at), PageStore(database).nearest(url, at)
    assert (page_facts and page_facts.page_id) == (offered and offered.page_id)
    return page_facts.page_id if page_facts is not None else None


def test_a_second_best_capture_is_never_chosen_over_a_good_one(both: Both) -> None:
    """However near it is and however far the good one; where there is no other it is offered."""
    make, database = both
    writer = make()
    for kind in sorted(set(PageClass) - GOOD - WITHHELD):
        url = f"https://{kind}.example/"
        writer.add_page(page(f"{kind} worse", url, second=-10, page_class=kind, status=200))
        assert shown(database, NOW, url) == f"{kind} worse"
        writer.add_page(page(f"{kind} good", url, second=5_000_000, page_class=PageClass.OK))
        old = page(f"{kind} old", url, second=-6_000_000, page_class=PageClass.UNJUDGED)
        writer.add_page(old)

        assert shown(database, NOW, url) == f"{kind} good"
        assert shown(database, NOW - timedelta(seconds=3_000_000), url) == f"{kind} old"
        newest = PageStore(database).nearest(url, None)
        assert newest is not None
        assert newest.page_id == f"{kind} good"


def test_a_challenge_is_never_offered(both: Both) -> None:
    """Rather a parked domain; alone, nothing is shown but by its own timestamp, on purpose."""
    make, database = both
    writer = make()
    evidence = ("Cloudflare says so.", "It is called so.")
    writer.add_page(page("wall", page_class=PageClass.CHALLENGE, class_score=0.9, class_evidence=evidence))
    index, store = CaptureLookup(database), PageStore(database)

    assert index.page(URLS[0], NOW) is None
    purposely = index.page(URLS[0], NOW, on_purpose=True)
    assert purposely is not None
    assert purposely.page_id == "wall"
    (captured_page,) = store.captures(URLS[0], limit=5)
    assert (captured_page.evidence, captured_page.class_score, captured_page.has_copy) == (list(evidence), 0.9, False)
    writer.add_page(page("parked", second=5_000_000, page_class=PageClass.PARKED))
    assert shown(database, NOW + timedelta(seconds=5)) == "parked"


def test_a_timestamp_names_the_very_capture(both: Both) -> None:
    """A second-best one is shown to who asks for it; a better one is known."""
    make, database = both
    writer = make()
    writer.add_page(page("gone", page_class=PageClass.SOFT_404))
    writer.add_page(page("good", second=90, page_class=PageClass.OK))
    store = PageStore(database)

    assert shown(database) == "gone"
    assert shown(database, NOW + timedelta(seconds=1)) == "good"
    gone, good = store.nearest(URLS[0], NOW), store.nearest(URLS[0], NOW + timedelta(seconds=90))
    assert gone is not None
    assert good is not None
    assert store.better(gone) == good
    assert store.better(good) is None


def test_the_other_scheme_is_the_same_page_but_another_case_is_not(both: Both) -> None:
    """A good copy over https goes before an error over http; a page of another name does not."""
    make, database = both
    writer = make()
    at = NOW + timedelta(seconds=5)
    writer.add_page(page("http", URLS[1], page_class=PageClass.HTTP_ERROR))
    writer.add_page(page("upper", URLS[2], page_class=PageClass.HTTP_ERROR))
    writer.add_page(page("lower", URLS[3], page_class=PageClass.OK))
    assert shown(database, at, URLS[1]) == "http"
    writer.add_page(page("https", URLS[0], second=60, page_class=PageClass.OK))

    assert shown(database, at, URLS[1]) == "https"
    assert shown(database, at, URLS[2]) == "upper"


def test_a_good_capture_is_found_among_many_that_are_not(both: Both) -> None:
    """More of them lie nearer than are looked at, or listed, at once."""
    make, database = both
    writer = make()
    with writer.transaction():
        for n in range(250):
            writer.add_page(page(f"p{n}", second=n, page_class=PageClass.CHALLENGE))
            writer.add_page(page(f"q{n}", second=n, page_class=PageClass.LOGIN_WALL))
        writer.add_page(page("good", second=-9_000_000, page_class=PageClass.OK))

    assert shown(database, NOW + timedelta(seconds=300)) == "good"


def test_parts_of_a_page_are_found_whatever_its_class(both: Both) -> None:
    """Parts of a challenge may be another page's picture; its document is no copy of a page."""
    make, database = both
    writer = make()
    writer.add_page(page("wall", page_class=PageClass.CHALLENGE))
    writer.add_page(page("gone", second=1, page_class=PageClass.SOFT_404))
    writer.add_page(page("good", second=50, page_class=PageClass.OK))
    captures = [
        capture(second=second, offset=second, page_id=page_id)
        for page_id, second in (("wall", 0), ("gone", 1), ("good", 50))
    ]
    writer.add_rows([index_row(each) for each in captures])
    index = CaptureLookup(database)

    assert list(index.captures(URLS[0], NOW)) == captures
    assert list(index.documents(URLS[0], NOW)) == [captures[2], captures[1]]
    assert list(index.documents(URLS[0], NOW, of_page="wall")) == [captures[0], captures[2], captures[1]]


@pytest.mark.parametrize(
    ("words", "page_ids"),
    [
        ("BREAD", {"one"}),
        ("100%_", {"two"}),
        ("%", {"two"}),
        ("a.example", {"one", "two", "three"}),
        ("\\", set()),
        ("nul\0", {"three"}),
        (":key %(key)s", set()),
    ],
)
def test_words_are_searched_as_they_are(words: str, page_ids: set[str], both: Both) -> None:
    """Case does not matter, and no character has a meaning of its own."""
    make, database = both
    writer = make()
    for page_id, title in (("one", "On bread"), ("two", "100%_ sure"), ("three", "A nul\0 here")):
        writer.add_page(page(page_id, title=title))

    pages = searched(database, words)
    assert {each.page_id for each in pages} == page_ids


def test_lists_go_on_where_they_stop(both: Both) -> None:
    """The newest come first, and the last part says that there is no more."""
    make, database = both
    writer = make()
    with writer.transaction():
        for number in range(53):
            writer.add_page(page(f"{number:02}", second=number))
    search = PageSearch(database, PageStore(database))
    first = search.find(parse_question(""))
    second = search.find(parse_question(""), before=first.older)

    assert len(first.pages) == 50
    assert first.newer is None
    assert [each.page_id for each in second.pages] == ["02", "01", "00"]
    assert second.older is None
    assert search.find(parse_question(""), after=second.newer).pages == first.pages


SITES = (
    "https://example.org/",
    "http://www.example.org/A",
    "https://sub.example.org/a/b",
    "https://example.org:8443/a",
    "https://example.org-other.net/",
    "https://notexample.org/",
    "https://example.org/a%20b?z=1&y=2",
    "http://192.0.2.7/x",
    f"https://example.org/{'long' * 300}",
)


FOUND = {
    "host:example.org": {0, 1, 2, 3, 6, 8},
    "site: HTTPS://WWW.Example.org/whatever": {0, 1, 2, 3, 6, 8},
    "host:*.sub.example.org": {2},
    "host:192.0.2.7": {7},
    "host:org": {0, 1, 2, 3, 5, 6, 8},
    "host:nowhere.example": set(),
    "host:///": set(),
    "url:example.org/a": {1, 6},
    "url:https://example.org/a%20b?z": {6},
    "url:http://sub.example.org/a/": {2},
    "url:https://example.org/" + "long" * 290: {8},
    "url:https://example.org": {0, 6, 8},
    "url:://": set(),
    "title:page-7": {7},
    "title:PAGE 7": {7},
    "title:example.org": set(),
    "192.0.2.7 page": {7},
}


@pytest.mark.parametrize("few", [10_000, 3], ids=["few", "many"])
def test_pages_are_found_by_site_by_address_and_by_title(few: int, both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same whether a range of the index is read whole or the newest pages are looked through."""
    monkeypatch.setattr("playback.web.page_search._FEW", few)
    make, database = both
    writer = make()
    with writer.transaction():
        for number, url in enumerate(SITES):
            writer.add_page(page(str(number), url, second=number, title=f"Page-{number}"))

    for words, numbers in FOUND.items():
        page_ids = [each.page_id for each in searched(database, words)]
        assert page_ids == [str(each) for each in sorted(numbers, reverse=True)], words


def test_a_long_search_says_how_far_it_went_and_goes_on(both: Both) -> None:
    """No question reads more than it may; nothing is lost or told twice between its parts."""
    make, database = both
    writer = make()
    with writer.transaction():
        for number in range(100):
            title = "needle" if number in (3, 4, 97) else "hay"
            writer.add_page(page(f"{number:02}", second=number, title=title))
    search = PageSearch(database, PageStore(database), most_read=30, monotonic=lambda: 0.0)
    question = parse_question("title:needle")
    parts = [search.find(question)]
    while parts[-1].older is not None:
        parts.append(search.find(question, before=parts[-1].older))

    page_ids = [[each.page_id for each in part.pages] for part in parts]
    assert page_ids == [["97"], [], [], ["04", "03"]]
    assert [part.read_to for part in parts] == [
        NOW.replace(microsecond=250_000) + timedelta(seconds=second) for second in (70, 40, 10)
    ] + [None]
    slow = PageSearch(database, PageStore(database), most_read=30, monotonic=itertools.count().__next__)
    part = slow.find(question)
    assert [each.page_id for each in part.pages] == ["97"]
    assert part.read_to == NOW.replace(microsecond=250_000) + timedelta(seconds=97)  # a tenth of what it may read
    assert slow.find(question, before=part.older).read_to == part.read_to - timedelta(seconds=3)


# ------------------------------------------------------------------------------- the same, always

_captures = st.lists(
    st.builds(
        capture,
        st.sampled_from((*URLS, *(artifact_uri(ArtifactKind.DOM, url) for url in URLS[:2]))),
        second=st.integers(-40, 40).map(lambda number: number * 3),
        page_id=st.sampled_from((None, *PAGE_IDS)),
        kind=st.sampled_from((RecordType.RESPONSE, RecordType.REVISIT)),
    ),
    max_size=25,
    unique_by=lambda each: (each.url, each.captured_at),
)
_pages = st.lists(
    st.builds(
        page,
        st.sampled_from(PAGE_IDS),
        st.sampled_from(URLS),
        second=st.integers(-120, 120),
        outcome=st.sampled_from(VisitOutcome),
        page_class=st.sampled_from(PageClass),
        status=st.sampled_from((None, 200, 404)),
        title=st.sampled_from(("", "Bread", "bröd\U0001f35e")),
    ),
    max_size=3,
    unique_by=(lambda each: each.page_id, lambda each: each.captured_at),
)


@settings(max_examples=examples(15))
@given(_captures, _pages, st.sampled_from(URLS), st.integers(-70, 70))
def test_both_answer_the_same(
    postgres: PostgresServer, captures: list[Capture], pages: list[PageInfo], url: str, second: int
) -> None:
    """Whatever the index holds, each question has one answer."""
    at = NOW + timedelta(seconds=second, milliseconds=500)  # no two are equally near
    rows = [
        replace(each, location=RecordLocation("weboid-1.warc.gz", number, 9)) for number, each in enumerate(captures)
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        address = parse_index_url(_emptied(postgres))
        writers: list[Writer] = [SqliteCaptureIndex(folder / "captures.sqlite"), PostgresCaptureIndex(address)]
        databases: list[IndexDatabase] = [SqliteDatabase(folder / "captures.sqlite"), PostgresDatabase(address)]
        for each in (*writers, *databases):
            stack.callback(each.close)
        for writer in writers:
            with writer.transaction():
                writer.add_rows([index_row(each) for each in rows])
                for info in pages:
                    writer.add_page(info)
        one, two = ([*_answers(database, url, at)] for database in databases)
        assert one == two


def _answers(database: IndexDatabase, url: str, at: datetime) -> Iterator[object]:
    """Yield the answers to the queries of playback."""
    index, store = CaptureLookup(database), PageStore(database)
    yield list(index.captures(url, at))
    yield list(index.captures(url, at, window=timedelta(seconds=31)))
    page_facts = index.page(url, at)
    yield page_facts
    yield index.page(url, at, on_purpose=True)
    if page_facts is not None:
        yield index.artifact(page_facts, ArtifactKind.DOM)
    yield list(index.documents(url, at))
    yield searched(database, "bre")
    yield store.moments(url)
    yield store.spellings(url, limit=9)
    yield store.captures(url, limit=50)
    yield store.nearest(url, at)
    yield store.nearest(url, None)


_DATABASES: dict[int, str] = {}


def _emptied(postgres: PostgresServer) -> str:
    """Return the URL of an index with empty tables; one database serves all examples."""
    if postgres.port not in _DATABASES:
        _DATABASES[postgres.port] = postgres.database()
    url = _DATABASES[postgres.port]
    with closing(PostgresCaptureIndex(parse_index_url(url))) as index:
        index._db.execute("TRUNCATE captures, pages, payloads, files")
    return url


# ------------------------------------------------------------------------------- servers


@pytest.fixture
def relay(postgres: PostgresServer) -> Iterator[ControlledRelay]:
    """Start a relay in front of the server, so that it can be away."""
    standing = ControlledRelay(postgres.port)
    yield standing
    standing.close()


@pytest.fixture
def relayed_url(postgres: PostgresServer, relay: ControlledRelay, database_url: str) -> str:
    """Return the URL of the database through the relay."""
    return database_url.replace(f":{postgres.port}/", f":{relay.port}/")


def test_many_may_ask_at_once(postgres: PostgresServer, database_url: str) -> None:
    """More questions than connections wait for one another."""
    address = parse_index_url(database_url)
    with closing(PostgresCaptureIndex(address)) as writer, closing(PostgresDatabase(address)) as database:
        writer.add_rows([index_row(capture())])
        answers: list[list[Capture]] = []

        def ask() -> None:
            answers.extend(list(CaptureLookup(database).captures(URLS[0], NOW)) for _ in range(5))

        threads = [threading.Thread(target=ask) for _ in range(20)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        connections = len(database._idle)

    assert answers == [[capture()]] * 100
    assert connections <= playback_postgres.MOST_CONNECTIONS


def test_a_server_that_hangs_is_given_up(
    relay: ControlledRelay, relayed_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader is told to come back, and the next question finds the server again."""
    monkeypatch.setattr(playback_postgres, "ANSWER_LIMIT_S", 0.5)
    monkeypatch.setattr(playback_postgres, "WATCH_S", 0.1)
    monkeypatch.setitem(playback_postgres._OPTIONS, "connect_timeout", "2")
    with closing(PostgresDatabase(parse_index_url(relayed_url))) as database:
        assert database.rows("SELECT 1 AS one", {}) == [{"one": 1}]
        relay.hold_request(b"SELECT 1 AS one")
        with pytest.raises(TransientError, match="cannot be read"):
            database.rows("SELECT 1 AS one", {})
        relay.go_on()
        assert database.rows("SELECT 1 AS one", {}) == [{"one": 1}]


def test_readers_go_on_while_the_index_is_rebuilt(tmp_path: Path, database_url: str) -> None:
    """The old one answers until the new one is published, and then the new one does."""
    address, place = parse_index_url(database_url), IndexSettings(url=database_url)
    with closing(PostgresCaptureIndex(address)) as writer:
        writer.add_rows([index_row(capture())])
    with closing(PostgresDatabase(address)) as database:
        index = CaptureLookup(database)

        def seen() -> list[Capture]:
            lookups = [list(index.captures(URLS[0], NOW)) for _ in range(10)]
            assert lookups.count(lookups[0]) == 10
            return lookups[0]

        assert seen() == [capture()]
        with renew_index(Layout(tmp_path), place) as (fresh, _, publish):
            fresh.add_rows([index_row(capture(second=1, offset=7))])
            assert seen() == [capture()]
            publish()
        assert seen() == [capture(second=1, offset=7)]


def test_a_setting_that_names_no_index_is_refused(tmp_path: Path) -> None:
    """Before anything is started."""
    with pytest.raises(ConfigError, match=r"\[index\] url"):
        open_database(Layout(tmp_path), "mysql://db.example/x")


def copy(collection: CollectionBuilder, url: str) -> None:
    """Put the collection's index into PostgreSQL, and take the file away."""
    collection.close()
    path = collection.layout.captures_db
    with closing(sqlite3.connect(path)) as old, closing(PostgresCaptureIndex(parse_index_url(url))) as index:
        query = f"SELECT {columns(CaptureRow)} FROM captures"
        index.add_rows([CaptureRow(*row) for row in old.execute(query)])
        marks = ", ".join(["%s"] * len(PageIndexRow._fields))
        for row in old.execute(f"SELECT {columns(PageIndexRow)} FROM pages"):
            index._db.execute(f"INSERT INTO pages ({columns(PageIndexRow)}) VALUES ({marks})", row)
    path.unlink()


def test_readers_are_served_from_postgresql_and_told_when_it_is_away(
    collection: CollectionBuilder, relay: ControlledRelay, relayed_url: str
) -> None:
    """Front and replay answer from it, say 503 while it is gone, and go on when it is back."""
    url = "https://site.example/"
    at = timestamp14(NOW)
    collection.page(url, "<p>the copy</p>", title="A title")
    image = f"{url}i.png"
    collection.response(image, png(), mime="image/png")
    copy(collection, relayed_url)

    def answers() -> list[int]:
        replies = [served.get("/"), served.get(f"/page/{at}/{url}")]
        front = [reply.status for reply in replies]
        targets = (f"/c/{at}/{url}", f"/c/{at}im_/{image}")
        return [*front, *(fetch(served.replay, target).status for target in targets)]

    with serving(collection, relayed_url) as served:
        assert answers() == [200, 200, 200, 200]
        assert "A title" in served.get("/").text
        relay.leave()
        assert answers() == [503, 503, 503, 503]
        relay.come_back()
        assert answers() == [200, 200, 200, 200]
        assert relayed_url not in command_lines()


def command_lines() -> str:
    """Return the command lines of all processes on this machine."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_text(errors="replace"))
    return "\n".join(lines)
