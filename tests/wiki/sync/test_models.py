"""Tests of `wiki.api.models`."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from links.registry.database import RegistryStore
from tests.support.examples import examples
from tests.wiki.sync.conftest import opened
from tests.wiki.sync.test_wiki_feed import ModelledFeed
from wiki.api.models import SiteFacts, WikiPage
from wiki.settings import WikiSettings
from wiki.sync.feed_context import SyncServices, citation_readers
from wiki.sync.page_import import Cite
from wiki.sync.wiki_feed import WikiFeed
from wiki.wikitext.citation_model import Citation, CitationForm, TextSpan

NASTY = st.one_of(
    st.text(max_size=40),
    st.text(st.characters(min_codepoint=0, max_codepoint=0x2FFF, exclude_categories=[]), max_size=30),
    st.sampled_from(["", "\0", "\ud800", "x" * 3000, "A\u202eB", "_", "Category:", ":"]),
)


URLS = st.one_of(NASTY, NASTY.map(lambda text: f"https://a.net/{text}"), st.just("//b.net/x"))


PAGES = st.builds(
    WikiPage,
    page_id=st.sampled_from([1, 2, 2**39, 2**40, 2**70, -1]),
    title=NASTY,
    namespace=st.sampled_from([0, 2**31, -5]),
    is_redirect=st.booleans(),
    model=st.sampled_from(["wikitext", "\0"]),
    links=st.lists(URLS, max_size=5).map(tuple),
    interwiki_links=st.lists(st.tuples(NASTY, NASTY), max_size=3).map(tuple),
    categories=st.lists(NASTY, max_size=3).map(tuple),
    text=st.one_of(NASTY, st.just("{{" * 500), st.just("[https://a.net/\0 x] {{cite web|url=")),
)


def _nasty_cite(_facts: SiteFacts, _settings: WikiSettings) -> Cite:
    def cite(_text: str) -> Sequence[Citation]:
        at = TextSpan(0, 1)
        copy = "https://x/\0\ud800" * 2000
        return (
            Citation("https://good.net/", CitationForm.BARE, at, at, archive_url=copy),
            Citation("\ud800", CitationForm.CITATION, at, at, access_date=date(1, 1, 1)),
        )

    return cite


def _follow(store: RegistryStore, hostile: list[WikiPage]) -> ModelledFeed:
    """Have a feed read hostile pages, then a good one, also in a sweep; return the feed."""
    fed = ModelledFeed(store)
    fed.set(not_categories=["Secret"])
    for cite in (citation_readers(fed.clock), _nasty_cite):
        shared = SyncServices(store, fed.archive, fed.clock, "test", cite)
        fed.feed = WikiFeed(fed.wiki, fed.model, shared)
        fed.model.edit("Good", "https://good.net/")
        for page in hostile:
            fed.model.there[page.page_id] = page
            edit = replace(fed.model.log[-1], rc_id=0, page_id=page.page_id, namespace=page.namespace, title=page.title)
            fed.model.log.append(edit)
        good = fed.model.edit("Good 2", "https://good.net/")
        fed.work()
        fed.clock.advance(days=8)
        fed.work()
        assert fed.links(good) == ["https://good.net/"]
    return fed


def test_a_page_number_that_no_database_holds_ends_no_sweep(tmp_path: Path) -> None:
    """It is passed over, with the wish for its links; the sweep goes on."""
    store = opened(tmp_path)
    huge = WikiPage(1 << 70, "Huge", 0, links=("https://a.net/",))
    _follow(store, [huge])
    store.close()


@pytest.mark.slow
@given(st.lists(PAGES, min_size=2, max_size=6))
@settings(max_examples=examples(5))  # each makes a database, and reads its pages four times
def test_no_page_keeps_another_from_being_read(
    tmp_path_factory: pytest.TempPathFactory, hostile: list[WikiPage]
) -> None:
    """Whatever stands in titles, links, categories and text."""
    store = opened(tmp_path_factory.mktemp("hostile"))
    _follow(store, hostile)
    store.close()


def test_both_databases_take_what_hostile_pages_hold(store: RegistryStore) -> None:
    """Characters that a database cannot store in a text are left out or escaped."""
    hostile = [
        WikiPage(7, "A\0", 0, links=("https://a.net/\0", "\ud800", "https://b.net/")),
        WikiPage(8, "B", 0, links=("https://a.net/\ud800", "https://b.net/x"), categories=(), text="\0{{"),
        WikiPage(9, "C\ud800", 0, categories=("Category:\0",)),
    ]
    fed = _follow(store, hostile)

    assert fed.known() == ["B", "Good", "Good 2"]
    assert set(fed.taken()) == {"https://good.net/", "https://b.net/x"}
