"""Copies offered for many URLs; SQLite and a real PostgreSQL give the same answers."""

import json
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from core.timestamps import timestamp14, unix_milliseconds
from core.urls import ONE_SPELLING, fetch_key, has_one_spelling, identity_key
from playback.access.control import AccessControl
from playback.access.takedowns import TakedownSet
from playback.mementos import MementoIndex
from playback.url_paths import escape_url
from playback.web.copy_lookup import CopyLookup, CopyObstacle, CopyOffer, UrlSpellings
from playback.web.page_store import PageStore
from tests.support.playback_fixtures import NOW
from tests.warc.index.test_database import Writer, both, page
from warc.index.database import IndexDatabase, LookupRow, SqliteDatabase, lookup_value
from warc.index.sqlite import SqliteCaptureIndex

__all__ = ["both"]

pytestmark = pytest.mark.playback

GOOD, BAD = PageClass.OK, PageClass.HTTP_ERROR
Both = tuple[Callable[[], Writer], IndexDatabase]


def offers(database: IndexDatabase, *urls: str) -> list[CopyOffer | None]:
    """Return the offered copy of each URL; None where there is none."""
    return CopyLookup(database, PageStore(database)).of([UrlSpellings.of(url) for url in urls])


def offered(database: IndexDatabase, *urls: str) -> list[str | None]:
    """Return the page identifier of each URL's offered copy; None where there is none."""
    return [each.page.page_id if each and each.page else None for each in offers(database, *urls)]


def test_an_index_that_is_not_there_yet_offers_nothing(both: Both) -> None:
    """And no question is asked for no URLs."""
    _, database = both
    assert offers(database, "https://a.example/") == [None]
    assert offers(database) == []


def test_the_newest_good_capture_is_offered_for_each(both: Both) -> None:
    """In the order of the question, under either scheme, and each URL its own."""
    make, database = both
    writer = make()
    a, b, c = "https://a.example/x", "http://b.example/y", "https://c.example/z"
    writer.add_page(page("a old", a, second=-60, page_class=GOOD))
    writer.add_page(page("a new", a, second=60, page_class=GOOD))
    writer.add_page(page("a error", a, second=90, page_class=BAD))
    writer.add_page(page("b", b, page_class=GOOD))
    writer.add_page(page("other case", "https://a.example/X", second=99, page_class=GOOD))

    urls = (c, "https://b.example/y", a, b, a, "https://a.example/X")
    assert offered(database, *urls) == [None, "b", "a new", "b", "a new", "other case"]


def test_urls_that_share_their_first_characters_are_kept_apart(both: Both) -> None:
    """The server's index is of these alone."""
    make, database = both
    writer = make()
    one, two = (f"https://a.example/{'long' * 300}{n}" for n in (1, 2))
    writer.add_page(page("one", one, page_class=GOOD))
    writer.add_page(page("two", two, page_class=GOOD))

    assert offered(database, two, one) == ["two", "one"]


def test_where_none_is_good_the_best_is_offered(both: Both) -> None:
    """A consent wall rather than a login; an error page is none."""
    make, database = both
    writer = make()
    a, b = "https://a.example/", "https://b.example/"
    writer.add_page(page("login", a, second=9, page_class=PageClass.LOGIN_WALL))
    writer.add_page(page("consent", a, second=5, page_class=PageClass.CONSENT_WALL))
    writer.add_page(page("failed", a, second=99, outcome=VisitOutcome.FAILED))
    writer.add_page(page("soft", b, second=9, page_class=PageClass.SOFT_404))
    writer.add_page(page("skipped", b, second=5, outcome=VisitOutcome.SKIPPED, reason="robots: no"))
    first, second = offers(database, a, b)

    assert first is not None
    assert first.page is not None
    assert first.page.page_id == "consent"
    assert second == CopyOffer(bar=CopyObstacle.FAILED)


def test_why_there_is_no_copy_is_told_by_the_newest_attempt(both: Both) -> None:
    """With its reason."""
    make, database = both
    writer = make()
    url = "https://a.example/"
    writer.add_page(page("failed", url, outcome=VisitOutcome.FAILED, reason="HTTP 503"))
    writer.add_page(page("skipped", url, second=5, outcome=VisitOutcome.SKIPPED, reason="robots: no"))

    assert offers(database, url) == [CopyOffer(bar=CopyObstacle.REFUSED, reason="robots: no")]


def test_a_good_capture_is_found_behind_any_number_of_others(both: Both) -> None:
    """However long the link has been dead."""
    make, database = both
    writer = make()
    url = "https://a.example/"
    writer.add_page(page("good", url, second=-9, page_class=GOOD))
    for number in range(100):
        writer.add_page(page(f"{number}", url, second=number, page_class=BAD))

    assert offered(database, url) == ["good"]


def test_captures_from_a_moment_on_do_not_count(both: Both) -> None:
    """When the page was another's by then; each URL has its own moment."""
    make, database = both
    writer = make()
    a, b = "https://a.example/", "https://b.example/"
    for url in (a, b):
        writer.add_page(page(f"{url} before", url, second=-9, page_class=GOOD))
        writer.add_page(page(f"{url} after", url, second=9, page_class=GOOD))
    spellings = [UrlSpellings.of(a), UrlSpellings.of(b)]
    copies = CopyLookup(database, PageStore(database)).of(spellings, {a: unix_milliseconds(NOW)})

    assert [each.page.page_id for each in copies if each and each.page] == [f"{a} before", f"{b} after"]


def test_a_thousand_urls_are_two_questions(both: Both) -> None:
    """Whatever there is of them."""
    make, database = both
    writer = make()
    urls = [f"https://a.example/{number}" for number in range(1_000)]
    for number in range(0, 1_000, 100):
        writer.add_page(page(f"{number}", urls[number], page_class=GOOD))
    queries: list[str] = []
    rows = database.rows

    def counted(query: str, values: object) -> object:
        if '"asked"' in json.dumps(list(values)):  # type: ignore[call-overload]
            queries.append(query)
        return rows(query, values)  # type: ignore[arg-type]

    database.rows = counted  # type: ignore[method-assign,assignment]
    page_ids = offered(database, *urls)

    assert [each for each in page_ids if each] == [f"{number}" for number in range(0, 1_000, 100)]
    assert len(queries) == 2


def test_the_moment_of_the_page_is_that_of_the_capture(both: Both) -> None:
    """To the second."""
    make, database = both
    make().add_page(page("a", "https://a.example/", second=7, page_class=GOOD))
    (offer,) = offers(database, "https://a.example/")

    assert offer is not None
    assert offer.page is not None
    assert offer.page.timestamp == timestamp14(NOW + timedelta(seconds=7))


@given(st.from_regex(ONE_SPELLING, fullmatch=True).filter(has_one_spelling))
def test_a_url_that_is_taken_as_it_is_would_be_spelled_so(url: str) -> None:
    """The short way gives what the long one does."""
    assert (url, url) == (fetch_key(url), identity_key(fetch_key(url)))
    assert escape_url(url) == url


def test_questions_are_numbered_in_their_order() -> None:
    """By which answers find their place."""
    rows = [LookupRow("k", ("a", "b", "c", "d"), 7), LookupRow("l", ("e", "f", "g", "h"), 8)]
    value = json.loads(lookup_value(rows))

    assert value == [[0, 7, "k", "k", "a", "b", "c", "d"], [1, 8, "l", "l", "e", "f", "g", "h"]]


@pytest.mark.parametrize(
    ("facts", "offered_as"),
    [
        ({"status": 404, "page_class": PageClass.OK}, None),
        ({"status": 404, "page_class": PageClass.UNJUDGED}, None),
        ({"status": 404, "page_class": PageClass.HTTP_ERROR}, None),
        ({"status": None}, None),
        ({"page_class": PageClass.SOFT_404}, None),
        ({"page_class": PageClass.PARKED}, None),
        ({"page_class": PageClass.CHALLENGE}, None),
        ({"outcome": VisitOutcome.FAILED}, None),
        ({"mime": "application/zip"}, None),
        ({"page_class": PageClass.LOGIN_WALL}, "it"),
        ({"mime": "application/pdf"}, "it"),
        ({"outcome": VisitOutcome.PARTIAL, "status": 200}, "it"),
    ],
)
def test_what_is_a_usable_copy_is_the_same_for_all_who_ask(
    tmp_path: Path, facts: dict[str, Any], offered_as: str | None
) -> None:
    """The wiki's marks, the registry's page, Memento and whoever cites a copy (`core.page_classes.is_usable`)."""
    url = "https://a.example/"
    with closing(SqliteCaptureIndex(tmp_path / "captures.sqlite")) as writer, writer.transaction():
        writer.add_page(page("it", url, **facts))
    with closing(SqliteDatabase(tmp_path / "captures.sqlite")) as database:
        store = PageStore(database)
        marked = offered(database, url)
        registry = CopyLookup(database, store).newest([url])
        listed = list(MementoIndex(database, AccessControl(TakedownSet(()), database.rows, lambda: NOW)).listed(url))
        cited = [each.page_id for each in store.usable(url, NOW)]

    assert marked == [offered_as]
    assert list(registry) == ([url] if offered_as else [])
    assert len(listed) == (1 if offered_as else 0)
    assert cited == ([offered_as] if offered_as else [])
