"""Feeders and a purge at work at once: nobody waits for ever, and nothing hangs loose."""

import threading
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import select

from links.registry.database import RegistryStore
from links.registry.lookups import page_facts
from links.registry.pages import put_pages
from links.registry.retention import purge
from links.registry.schema import hosts, refs, urls
from links.registry.wikis import Wiki, ensure_wiki, parse_wiki
from tests.links.registry.conftest import page

URLS = [f"https://h{number % 5}.net/{number}" for number in range(120)]


def _assert_whole(store: RegistryStore) -> None:
    with store.reading() as rows:
        used = set(rows.execute(select(refs.c.url_id)).scalars())
        there = dict(map(tuple, rows.execute(select(urls.c.id, urls.c.host_id)).all()))
        of_hosts = set(rows.execute(select(hosts.c.id)).scalars())
    assert used <= there.keys()
    assert set(there.values()) <= of_hosts


def test_feeders_of_one_wiki_and_of_others_take_turns(store: RegistryStore, wiki: Wiki) -> None:
    """The same pages and the same new URLs from all sides: the last one counts for each page."""
    with store.writing() as rows:
        other = ensure_wiki(rows, parse_wiki("enwiki"), day=0)
    start = threading.Barrier(3)

    def feed(place: int) -> None:
        start.wait()
        of = other if place == 2 else wiki
        for turn in range(6):
            given = URLS[turn * 10 :] if place % 2 else URLS[turn * 10 :][::-1]
            with store.writing() as rows:
                put_pages(rows, of.id, [page(1, *given[::2]), page(2, *given[1::2])], day=5)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(feed, range(3)))

    _assert_whole(store)
    with store.snapshot() as reader:
        for each in (wiki, other):
            facts = page_facts(reader, each.id, [1, 2], day=5)
            assert sum(len(entry.links) for entry in facts.values()) == len(URLS) - 50


def test_what_returns_while_it_is_forgotten_is_whole(store: RegistryStore, wiki: Wiki) -> None:
    """A URL is either forgotten and added again, or touched in time."""
    start = threading.Barrier(2)
    day = 1_000

    def feed() -> None:
        start.wait()
        for number in range(0, len(URLS), 4):
            with store.writing() as rows:
                put_pages(rows, wiki.id, [page(number + 1, *URLS[number : number + 4])], day=day)

    def forget() -> None:
        start.wait()
        for _ in range(4):
            purge(store, day=day)

    for _ in range(3):
        with store.writing() as rows:
            put_pages(rows, wiki.id, [page(9_999, *URLS)], day=day - 400)
            put_pages(rows, wiki.id, [page(9_999)], day=day - 300)
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(feed), pool.submit(forget)]:
                done.result()
        _assert_whole(store)
        with store.snapshot() as reader:
            facts = page_facts(reader, wiki.id, range(1, len(URLS), 4), day=day)
        assert sum(len(each.links) for each in facts.values()) == len(URLS)
        day += 1_000
