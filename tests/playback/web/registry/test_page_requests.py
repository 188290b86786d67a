"""Tests of `links.feedback.reports`."""

import pytest

from links.check_history import date_of
from links.feedback.reports import MOST_OF_WIKI, RequestedPage, finish_page_requests, put_page_requests, waiting_pages
from links.url_parts import key_of
from tests.support.registry_builder import DEAD, TODAY, RegistryBuilder, RegistryFront

pytestmark = pytest.mark.slow


def test_a_page_that_is_not_observed_is_handed_to_the_feeder(
    registry_builder: RegistryBuilder, front: RegistryFront
) -> None:
    """By its number or its title, once a day; those that are known are stamped as ever (W10, W34)."""
    front.page("dbname=dewiki@WMF&curid=1|4711&titles=Foo bar|Neu")
    with registry_builder.store.reading() as rows:
        assert waiting_pages(rows, registry_builder.wiki(), limit=9) == [(0, "Neu"), (4711, "")]

    written: list[str] = []
    registry_builder.on_write(written.append)
    front.page("dbname=dewiki@WMF&curid=4711&titles=Neu")
    assert written == []


def test_links_of_a_page_that_is_not_observed_are_told_once_it_was_read(
    registry_builder: RegistryBuilder, front: RegistryFront
) -> None:
    """W10: those that other pages of the farm have, with what these know; the answer says how it stands."""
    query = "dbname=dewiki@WMF&curid=4711&titles=Neu&scope=all"
    pages = front.page(query).json()["pages"]
    assert [(page["request"], page["links"]) for page in pages] == [("queued", [])] * 2
    assert "queued for reading" in pages[0]["note"]

    elsewhere = "https://osm.info/"
    registry_builder.page(1, "Ways", elsewhere, wiki="dewiki@OSM")
    read = [RequestedPage(4711, ""), RequestedPage(0, "Neu")]
    keys = [key_of(url) for url in (DEAD, "https://unknown.net/", elsewhere)]
    wiki = registry_builder.wiki()
    with registry_builder.store.writing() as rows:
        finish_page_requests(rows, wiki, read, day=TODAY, keys=dict.fromkeys(read, keys))
    pages = front.page(query).json()["pages"]

    assert [page["is_observed"] for page in pages] == [False, False]
    assert [page["request"] for page in pages] == ["done", "done"]
    assert [page["links_read"]["date"] for page in pages] == [date_of(TODAY).isoformat()] * 2
    (link,) = pages[0]["links"]
    assert (link["url"], link["state"], pages[0]["links_total"]) == (DEAD, "dead", 1)
    form = front.get("/links?dbname=dewiki@WMF&curid=4711&scope=all").text
    assert "It was read on request" in form
    assert DEAD in form
    assert registry_builder.counts()["link_pages"] == 2  # nothing is observed because of that


def test_a_request_is_refused_while_too_many_wait(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """And the answer says so."""
    wiki = registry_builder.wiki()
    with registry_builder.store.writing() as rows:
        put_page_requests(rows, wiki, range(10_000, 10_000 + MOST_OF_WIKI), day=TODAY)

    pages = front.page("dbname=dewiki@WMF&curid=10001|4711").json()["pages"]

    assert [page["request"] for page in pages] == ["queued", "refused"]


def test_what_waits_for_the_feeder_is_bounded(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Nobody fills the registry by asking."""
    for first in range(1, MOST_OF_WIKI + 200, 50):
        front.clock.seconds += 60
        ids = "|".join(str(10_000 + each) for each in range(first, first + 50))
        assert front.page(f"dbname=dewiki@WMF&curid={ids}").status_code == 200

    assert registry_builder.counts()["link_asked_pages"] == MOST_OF_WIKI
