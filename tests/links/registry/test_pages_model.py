"""Pages, links and what is forgotten, held to a model of dictionaries."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from core.layout import Layout
from links.registry import pages as book
from links.registry.database import RegistryStore
from links.registry.lookups import page_facts, uses_anywhere
from links.registry.pages import PageName, PutPage
from links.registry.retention import purge
from links.registry.schema import hosts, metadata, refs, urls
from links.registry.urls import find_urls
from links.registry.wikis import ensure_wiki, parse_wiki
from links.rules.link_class import classify_link
from tests.support.examples import examples
from tests.support.services.registries import open_registry

KEEP = 10
PAGE_IDS = st.integers(1, 4)
URLS = [f"https://{host}.net/{path}" for host in "abc" for path in "xy"]
LINKS = st.lists(st.sampled_from([*URLS, "http://http://bad/"]), max_size=5)


@dataclass
class PageModel:
    """State of a page in the model."""

    title: str
    touched: int
    listed: int | None = None
    stale: bool = True
    asked_day: int | None = None
    links: dict[str, tuple[int, int | None]] = field(default_factory=dict)  # first, gone
    invalid: set[str] = field(default_factory=set)


class PagesMachine(RuleBasedStateMachine):
    """Feeds one wiki, as feeders do, and compares."""

    store: RegistryStore

    @initialize()
    def begin(self) -> None:
        """Empty the registry and add one wiki."""
        with self.store.writing() as rows:
            for table in metadata.tables.values():
                if table.name != "link_farms":
                    rows.execute(table.delete())
            self.wiki = ensure_wiki(rows, parse_wiki("dewiki"), day=0)
        self.day = 100
        self.pages: dict[int, PageModel] = {}
        self.urls: dict[str, int] = {}  # when touched

    def titled(self, page_id: int) -> str:
        """Return the page's title as it is known."""
        return self.pages[page_id].title if page_id in self.pages else f"Page {page_id}"

    @rule(days=st.integers(1, 6))
    def wait(self, days: int) -> None:
        """Let days pass."""
        self.day += days

    @rule(lists=st.dictionaries(PAGE_IDS, LINKS, min_size=1, max_size=3))
    def put(self, lists: dict[int, list[str]]) -> None:
        """Store what pages have now."""
        given = [PutPage(PageName(id_, self.titled(id_)), tuple(map(classify_link, has))) for id_, has in lists.items()]
        with self.store.writing() as rows:
            book.put_pages(rows, self.wiki.id, given, day=self.day)
        for id_, has in lists.items():
            page = self.pages.setdefault(id_, PageModel(self.titled(id_), self.day))
            page.touched = page.listed = self.day
            page.stale = False
            good = {url for url in has if url in URLS}
            page.invalid = set(has) - good
            for url in good:
                first, _ = page.links.get(url, (self.day, None))
                page.links[url] = (first, None)
                self.urls[url] = self.day
            for url, (first, gone) in page.links.items():
                if url not in good and gone is None:
                    page.links[url] = (first, self.day)

    @rule(ids=st.sets(PAGE_IDS, min_size=1))
    def ask(self, ids: set[int]) -> None:
        """Request pages."""
        with self.store.writing() as rows:
            new = book.ask_for(rows, self.wiki.id, ids, day=self.day)
        known = [self.pages[id_] for id_ in ids if id_ in self.pages]
        assert new == sum(page.asked_day != self.day for page in known)
        for page in known:
            page.asked_day = self.day

    @rule(page_id=PAGE_IDS, title=st.sampled_from(["Moved", "Elsewhere"]))
    def move(self, page_id: int, title: str) -> None:
        """Give a page another title."""
        with self.store.writing() as rows:
            moved = book.move_page(rows, self.wiki.id, PageName(page_id, title))
        assert moved == (page_id in self.pages)
        if moved:
            self.pages[page_id].title = title

    @rule(ids=st.sets(PAGE_IDS, min_size=1))
    def mark(self, ids: set[int]) -> None:
        """Mark pages as stale, to be read again."""
        with self.store.writing() as rows:
            known = book.mark_stale(rows, self.wiki.id, ids)
        assert known == len(ids & self.pages.keys())
        for id_ in ids & self.pages.keys():
            self.pages[id_].stale = True

    @precondition(lambda self: self.pages)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        """Delete a page."""
        page_id = data.draw(st.sampled_from(sorted(self.pages)))
        with self.store.writing() as rows:
            assert book.drop_pages(rows, self.wiki.id, [page_id], day=self.day) == 1
        del self.pages[page_id]

    @rule()
    def forget(self) -> None:
        """Purge what is old."""
        gone = purge(self.store, day=self.day, keep_days=KEEP)
        newest = max((page.touched for page in self.pages.values()), default=0)
        old = [id_ for id_, page in self.pages.items() if page.touched <= newest - KEEP]
        for id_ in old:
            del self.pages[id_]
        for page in self.pages.values():
            page.links = {
                url: (first, left)
                for url, (first, left) in page.links.items()
                if left is None or left > self.day - KEEP
            }
        had = {url for page in self.pages.values() for url in page.links}
        unused = {url for url, touched in self.urls.items() if touched <= self.day - KEEP and url not in had}
        for url in unused:
            del self.urls[url]
        assert (gone.pages, gone.urls) == (len(old), len(unused))

    @invariant()
    def agrees(self) -> None:
        """Assert that the registry agrees with the model."""
        if not hasattr(self, "pages"):
            return
        with self.store.snapshot() as reader:
            facts_by_id = page_facts(reader, self.wiki.id, PAGE_IDS_ALL, day=self.day)
            known = find_urls(reader, URLS)
            seen = {
                id_: {
                    "row": facts.page[3:],
                    "links": {each.facts.row.url: each.first_day for each in facts.links},
                    "invalid": {each.text for each in facts.invalid},
                }
                for id_, facts in facts_by_id.items()
            }
            uses = {
                url: {
                    (use.page.page_id, use.first_day, use.gone_day) for use in uses_anywhere(reader, row.id, limit=100)
                }
                for url, row in known.items()
            }
            stale = book.next_stale(reader, self.wiki.id, limit=100)
        assert seen == {id_: self.expected(page) for id_, page in self.pages.items()}
        assert {url: row.touched_day for url, row in known.items()} == self.urls
        assert uses == {
            url: {(id_, *page.links[url]) for id_, page in self.pages.items() if url in page.links} for url in self.urls
        }
        order = [(page.listed is not None, page.listed, id_) for id_, page in self.pages.items() if page.stale]
        assert [row.page_id for row in stale] == [
            id_ for _, _, id_ in sorted(order, key=lambda each: (each[0], each[1] or 0, each[2]))
        ]
        self.nothing_hangs_loose()

    def expected(self, page: PageModel) -> dict[str, Any]:
        """Return the page as the registry should have it."""
        row = (0, page.title, page.touched, page.asked_day, page.listed, page.stale)
        links = {url: first for url, (first, gone) in page.links.items() if gone is None}
        return {"row": row, "links": links, "invalid": page.invalid}

    def nothing_hangs_loose(self) -> None:
        """Assert that no reference is without its URL, no URL without its host, no host without a URL."""
        with self.store.reading() as rows:
            used = set(rows.execute(select(refs.c.url_id)).scalars())
            there = set(rows.execute(select(urls.c.id)).scalars())
            of_urls = set(rows.execute(select(urls.c.host_id)).scalars())
            of_hosts = set(rows.execute(select(hosts.c.id)).scalars())
        assert used <= there
        assert of_urls == of_hosts


PAGE_IDS_ALL = range(1, 5)


@pytest.mark.slow
def test_pages_are_what_a_model_says() -> None:
    """Whatever feeders do in whatever order: links, days, titles, stale pages, what is forgotten."""
    with tempfile.TemporaryDirectory() as folder:
        PagesMachine.store = open_registry(Layout(Path(folder)))
        try:
            run_state_machine_as_test(
                PagesMachine,
                settings=settings(
                    max_examples=examples(25), stateful_step_count=15, suppress_health_check=list(HealthCheck)
                ),
            )
        finally:
            PagesMachine.store.close()
