"""Facts about pages and URLs, in few queries."""

from typing import Any

import pytest
from sqlalchemy import Table, insert, update

from core.errors import InputError
from links.registry import schema
from links.registry.database import RegistryStore
from links.registry.lookups import (
    CopyFacts,
    QuirkFacts,
    ReplacementFacts,
    SpamFacts,
    links_of_wiki,
    list_urls,
    page_facts,
    pages_by_title,
    pages_of_wiki,
    url_facts,
    uses_anywhere,
    uses_of_host,
    uses_of_url,
)
from links.registry.pages import PageName, move_page, put_pages
from links.registry.urls import find_urls
from links.registry.wikis import Wiki, ensure_wiki, known_wiki, parse_wiki
from links.states import LinkState
from tests.links.registry.conftest import Putting, page

URL, OTHER = "https://a.net/x", "https://b.net/y"


def _fill_aside(store: RegistryStore, url_id: int, host_id: int, number: int) -> None:
    rows: dict[Table, dict[str, Any]] = {
        schema.url_quirks: {"url_id": url_id, "kind": 1, "value": OTHER, "first_day": 3, "last_day": 4},
        schema.host_quirks: {"host_id": host_id, "kind": 3, "first_day": 5, "last_day": 6},
        schema.copies: {
            "url_id": url_id,
            "service": "wayback",
            "address": "https://w/",
            "timestamp": "20200101000000",
            "found_day": 1,
            "checked_day": 2,
            "is_locked": True,
        },
        schema.replacements: {
            "url_id": url_id,
            "address": OTHER,
            "state": 1,
            "moment": 1,
            "reporter": b"r",
            "tested_day": 8,
        },
        schema.spam_hits: {
            "page": number,
            "key": b"k",
            "wiki_id": 1,
            "url": "https://spam.net/",
            "list": "global",
            "line": 12,
            "first_day": 3,
            "last_day": 9,
        },
    }
    with store.writing() as connection:
        for table, row in rows.items():
            connection.execute(insert(table), [row])
        for reporter, until in ((b"a", 9), (b"b", 10), (b"c", 20)):
            facts = {"url_id": url_id, "host_id": host_id, "moment": 1, "expires_day": until}
            connection.execute(insert(schema.reports), [{**facts, "reporter": reporter}])


def test_a_page_is_answered_with_all_that_is_known(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """State, quirks of URL and host, copies, reports that hold, replacement, spam, invalid URLs."""
    put(7, URL, OTHER, "http://http://bad/", day=5)
    with store.snapshot() as reader:
        row = find_urls(reader, [URL])[URL]
        number = page_facts(reader, wiki.id, [7], day=5)[7].page.id
    _fill_aside(store, row.id, row.host_id, number)
    with store.writing() as rows:
        dead = {"state": int(LinkState.DEAD), "code": 18, "fails": 3, "history": b"\x12\0\1\0\2"}
        rows.execute(update(schema.urls).where(schema.urls.c.id == row.id).values(**dead))

    with store.snapshot() as reader:
        facts = page_facts(reader, wiki.id, [7, 8], day=10)
    assert list(facts) == [7]
    links = {link.facts.row.url: link for link in facts[7].links}
    link_facts = links[URL].facts
    assert (link_facts.row.state, link_facts.row.code, link_facts.row.standing.fails) == (LinkState.DEAD, 18, 3)
    assert link_facts.row.history == b"\x12\0\1\0\2"
    assert link_facts.quirks == (QuirkFacts(1, OTHER, 3, 4),)
    assert link_facts.host_quirks == (QuirkFacts(3, "", 5, 6),)
    assert link_facts.copies == (CopyFacts("wayback", "https://w/", "20200101000000", 1, 2, "", True),)
    assert (link_facts.reports, link_facts.reports_until) == (2, 20)
    assert link_facts.replacement == ReplacementFacts(OTHER, 1, 8)
    assert links[OTHER].facts[1:] == ((), (), (), 0, None, None)
    assert [(each.text, each.reason) for each in facts[7].invalid] == [("http://http://bad/", "doubled-scheme")]
    assert facts[7].spam == (SpamFacts("https://spam.net/", "global", 12, 3, 9),)
    with store.reading() as rows:  # any connection may ask, not only a snapshot
        assert url_facts(rows, [row.id], day=10)[row.id] == link_facts


@pytest.mark.parametrize("count", [1, 2, 3, 511, 512, 513, 1_100])
def test_lists_of_any_length_are_answered_in_full(store: RegistryStore, wiki: Wiki, put: Putting, count: int) -> None:
    """A list is filled up to the length of a statement; nothing is lost or doubled by that."""
    spelled = {f"https://h{number % 9}.net/{number}" for number in range(count)}
    put(7, *spelled, day=5)

    with store.snapshot() as reader:
        facts = page_facts(reader, wiki.id, [7], day=5)[7]
    assert sorted(link.facts.row.url for link in facts.links) == sorted(spelled)


def test_a_snapshot_does_not_see_what_is_written_meanwhile(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """All questions of a snapshot are of one moment."""
    put(7, URL, day=5)
    with store.snapshot() as reader:
        before = page_facts(reader, wiki.id, [7], day=5)
        put(7, OTHER, day=6)
        assert page_facts(reader, wiki.id, [7], day=5) == before
    with store.snapshot() as reader:
        assert page_facts(reader, wiki.id, [7], day=5) != before


def test_pages_are_found_by_title_after_a_move(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """W33: the number stays; of two pages of one title, the one seen last has it."""
    put(7, URL, day=5, title="Old title")
    with store.writing() as rows:
        assert move_page(rows, wiki.id, PageName(7, "New_title", 4))
    put(9, day=8, title="New title")

    with store.snapshot() as reader:
        row_by_title = pages_by_title(reader, wiki.id, ["New_title", "Old title"])
        assert {title: row.page_id for title, row in row_by_title.items()} == {"New_title": 9}
        assert page_facts(reader, wiki.id, [7], day=5)[7].page.title == "New title"


def test_other_pages_are_of_the_askers_farm(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """W09, W24: of its wiki, or of all wikis of its farm; never across."""
    with store.writing() as rows:
        sister = ensure_wiki(rows, parse_wiki("enwiki"), day=0)
        foreign = ensure_wiki(rows, parse_wiki("testwiki@wmflabs"), day=0)
        for each, ids in ((wiki, (1, 2, 3)), (sister, (1,)), (foreign, (1,))):
            put_pages(rows, each.id, [page(id_, URL, "https://a.net/z") for id_ in ids], day=5)
        put_pages(rows, wiki.id, [page(2)], day=9)

    with store.snapshot() as reader:
        url_id = find_urls(reader, [URL])[URL].id
        own = uses_of_url(reader, url_id, wiki, limit=100)
        assert [(use.page.page_id, use.gone_day) for use in own] == [(1, None), (2, 9), (3, None)]
        first = uses_of_url(reader, url_id, wiki, limit=2)
        rest = uses_of_url(reader, url_id, wiki, limit=2, after=first[-1].page.id)
        assert first + rest == own
        farm = uses_of_url(reader, url_id, wiki, limit=100, in_farm=True)
        assert {use.page.wiki_id for use in farm} == {wiki.id, sister.id}
        everywhere = uses_anywhere(reader, url_id, limit=100)
        assert {use.page.wiki_id for use in everywhere} == {wiki.id, sister.id, foreign.id}
        host = uses_of_host(reader, "a.net", foreign, limit=100)
        assert {(use.page.wiki_id, use.page.page_id) for use in host} == {(foreign.id, 1)}
        assert len(host) == 2


def test_lists_go_on_where_they_ended(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """A page of an answer after the other: all rows, each once, in order."""
    for id_ in range(1, 6):
        put(id_, *(f"https://h{id_ % 2}.net/{id_}/{place}" for place in range(3)), day=5)
    with store.writing() as rows:
        rows.execute(update(schema.urls).where(schema.urls.c.path.like("%/1")).values(state=int(LinkState.DEAD)))

    with store.snapshot() as reader:
        links, after = [], (0, 0)
        while batch := links_of_wiki(reader, wiki, limit=4, after=after):
            links += batch
            after = (batch[-1].page.id, batch[-1].url_id)
        assert len(links) == len(set(links)) == 15
        assert len(links_of_wiki(reader, wiki, limit=99, states=[LinkState.DEAD])) == 5
        uses, after = [], (0, 0)
        while batch := uses_of_host(reader, "h1.net", wiki, limit=2, after=after):
            uses += batch
            after = (batch[-1].url_id, batch[-1].page.id)
        assert len(uses) == len(set(uses)) == 9
        assert [row.page_id for row in pages_of_wiki(reader, wiki, limit=2, after=2)] == [3, 4]
        dead = list_urls(reader, limit=99, states=[LinkState.DEAD])
        assert len(dead) == 5
        assert list_urls(reader, limit=2, after=dead[2].id, states=[LinkState.DEAD]) == dead[3:]
        assert len(list_urls(reader, limit=99, host="h0.net")) == 6


def test_questions_that_name_no_page_are_answered_with_none(store: RegistryStore, wiki: Wiki) -> None:
    """Numbers that no page has, and texts that no database takes."""
    numbers = [0, -1, 1 << 40, 1 << 63, 1 << 200]
    titles = ["", "_", "a\0b", "\ud800", "x" * 100_000, "no such page"]
    with store.snapshot() as reader:
        assert page_facts(reader, wiki.id, numbers, day=5) == {}
        assert pages_by_title(reader, wiki.id, titles) == {}


def test_a_snapshot_is_as_good_after_an_error(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """The asker's mistake ends the snapshot, and costs no connection."""
    put(7, URL, day=5)
    for _ in range(10):
        with pytest.raises(InputError), store.snapshot() as reader:
            known_wiki(reader, parse_wiki("nowiki"))
    with pytest.raises(ZeroDivisionError), store.snapshot():
        raise ZeroDivisionError

    put(7, OTHER, day=6)
    with store.snapshot() as reader:
        facts = page_facts(reader, wiki.id, [7], day=6)[7]
    assert [link.facts.row.url for link in facts.links] == [OTHER]
