"""Retention: rows that are deleted, and when."""

from typing import Any

import pytest
from sqlalchemy import Table, func, insert, select

from links.registry import schema
from links.registry.database import RegistryStore
from links.registry.pages import put_pages
from links.registry.quirks import HostQuirk
from links.registry.retention import BATCH, PurgeSummary, purge, to_purge
from links.registry.urls import find_urls
from links.registry.wikis import Wiki, ensure_wiki, parse_wiki
from tests.links.registry.conftest import Putting, page

URL = "https://a.net/x"
OF_URLS: dict[str, dict[str, Any]] = {
    "link_observations": {"moment": 2_000_000_000, "how": 1, "code": 1, "verdict": "ok"},
    "link_url_quirks": {"kind": 1, "first_day": 200, "last_day": 200},
    "link_copies": {"service": "wayback", "found_day": 1, "checked_day": 1},
    "link_copy_versions": {"service": "wayback", "address": "a", "timestamp": "2", "found_day": 1},
    "link_copy_searches": {"day": 1, "outcome": 1},
    "link_reports": {"host_id": 0, "moment": 1, "expires_day": 999, "reporter": b"x"},
    "link_replacements": {"address": URL, "moment": 1, "reporter": b"x"},
}


def _count(store: RegistryStore, table: Table) -> int:
    with store.reading() as rows:
        return int(rows.execute(select(func.count()).select_from(table)).scalar_one())


def _url_id(store: RegistryStore, url: str) -> int:
    with store.snapshot() as reader:
        return find_urls(reader, [url])[url].id


def test_a_url_leaves_with_all_that_hangs_on_it(store: RegistryStore, put: Putting) -> None:
    """W39: a hundred days after the last page had it, and its host with it."""
    put(7, URL, "https://b.net/", day=100)
    put(7, "https://b.net/", day=101)
    url_id = _url_id(store, URL)
    with store.writing() as rows:
        for name, facts in OF_URLS.items():
            table = schema.metadata.tables[name]
            rows.execute(insert(table), [{"url_id": url_id, **facts}])
    put(7, "https://b.net/", day=199)

    assert purge(store, day=199) == PurgeSummary(observations=0)
    gone = purge(store, day=201)

    assert (gone.urls, gone.hosts, gone.links) == (1, 1, 1)
    for name in OF_URLS:
        assert _count(store, schema.metadata.tables[name]) == 0, name
    with store.snapshot() as reader:
        assert list(find_urls(reader, [URL, "https://b.net/"])) == ["https://b.net/"]


def test_a_link_that_returns_in_time_keeps_its_history(store: RegistryStore, put: Putting) -> None:
    """A24: a reverted edit costs nothing."""
    put(7, URL, day=100)
    put(7, day=110)
    before = _url_id(store, URL)
    purge(store, day=150)
    put(7, URL, day=160)

    assert purge(store, day=260).urls == 0
    assert _url_id(store, URL) == before


def test_a_link_that_just_went_stays_although_its_page_was_read_long_ago(store: RegistryStore, put: Putting) -> None:
    """A feeder may be slow: the day on which the link was found gone counts."""
    put(7, URL, day=100)
    put(7, day=300)

    assert purge(store, day=300).urls == 0
    assert purge(store, day=400).urls == 1


def test_a_wiki_whose_feeder_stands_still_loses_nothing(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """W37 counts from the feeder's own last day; another wiki's feeder does not matter."""
    put(7, URL, day=100)
    with store.writing() as rows:
        other = ensure_wiki(rows, parse_wiki("enwiki"), day=0)
        put_pages(rows, other.id, [page(1)], day=100)
        put_pages(rows, other.id, [page(2)], day=900)

    gone = purge(store, day=900)

    assert (gone.pages, gone.urls) == (1, 0)
    with store.snapshot() as reader:
        assert list(find_urls(reader, [URL])) == [URL]


@pytest.mark.parametrize(
    ("kind", "first", "last", "is_there"),
    [
        (HostQuirk.DNS_ERROR, 100, 200, False),
        (HostQuirk.DNS_ERROR, 100, 201, True),
        (HostQuirk.GET_NEEDED, 101, 200, True),
        (HostQuirk.GET_NEEDED, 50, 100, False),
        (HostQuirk.UNVERIFIABLE, 100, 200, True),
    ],
)
def test_quirks_leave_when_nobody_believes_them(
    store: RegistryStore, put: Putting, kind: HostQuirk, first: int, last: int, is_there: bool
) -> None:
    """W47: after a hundred days; GET alone after two hundred, and some in between."""
    put(7, URL, day=300)
    with store.snapshot() as reader:
        host_id = find_urls(reader, [URL])[URL].host_id
    facts = {"host_id": host_id, "kind": int(kind), "first_day": first, "last_day": last}
    with store.writing() as rows:
        rows.execute(insert(schema.host_quirks), [facts])

    purge(store, day=300)

    assert _count(store, schema.host_quirks) == is_there


def test_what_is_old_leaves_and_what_is_not_stays(store: RegistryStore, put: Putting) -> None:
    """URL quirks after 180 days (W56), looks after 200, reports when they expire."""
    put(7, URL, day=1_000)
    url_id = _url_id(store, URL)
    second = (17_167 + 1_000) * 86_400  # day 0 is 17,167 days after 1970 began
    rows: dict[Table, list[dict[str, Any]]] = {
        schema.url_quirks: [
            {"url_id": url_id, "kind": kind, "first_day": 1, "last_day": last} for kind, last in ((1, 820), (2, 821))
        ],
        schema.observations: [
            {"url_id": url_id, "moment": second - ago * 86_400, "how": 1, "code": 1, "verdict": "ok"}
            for ago in (201, 200)
        ],
        schema.reports: [
            {"url_id": url_id, "host_id": 1, "moment": 1, "expires_day": day, "reporter": who}
            for day, who in ((999, b"a"), (1_000, b"b"))
        ],
    }
    with store.writing() as connection:
        for table, each in rows.items():
            connection.execute(insert(table), each)
    would = to_purge(store, day=1_000)

    gone = purge(store, day=1_000)

    assert (gone.quirks, gone.observations, gone.reports) == (1, 1, 1)
    assert (would.observations, would.reports) == (1, 1)
    assert [_count(store, table) for table in rows] == [1, 1, 1]


def test_much_is_forgotten_in_small_steps(store: RegistryStore, put: Putting) -> None:
    """More than a transaction's share: all of it goes, step by step, and a second purge finds none."""
    many = [f"https://h{number % 3}.net/{number}" for number in range(2 * BATCH + 1)]
    put(7, *many, day=100)
    put(7, URL, day=101)
    put(7, URL, day=500)
    steps: list[str] = []

    would = to_purge(store, day=500)
    gone = purge(store, day=500, progress=lambda what, _: steps.append(what))

    assert (gone.urls, gone.links, gone.hosts) == (len(many), len(many), 3)
    assert (would.urls, would.links) == (len(many), len(many))
    assert steps.count("links") == steps.count("urls") + 0 == 3
    assert purge(store, day=500) == PurgeSummary()
