"""Pages that want to break the feeder, on both databases: they keep no other page from being read."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from links.registry.database import RegistryStore
from links.registry.sync_state import feeds_of
from tests.support.examples import examples
from tests.wiki.sync.conftest import opened
from tests.wiki.sync.model import FACTS
from tests.wiki.sync.test_wiki_feed import Modelled
from wiki.api.models import SiteFacts, WikiPage
from wiki.settings import WikiSettings
from wiki.sync import archive_queue, page_import
from wiki.sync.feed_context import SyncServices, citation_readers
from wiki.sync.page_import import Cite
from wiki.sync.wiki_feed import WikiFeed
from wiki.wikitext.citation_model import Citation, CitationForm, TextSpan

NASTY = st.one_of(
    st.text(max_size=40),
    st.text(
        st.characters(min_codepoint=0, max_codepoint=0x2FFF, exclude_categories=[]), max_size=30
    ),
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


def _follow(store: RegistryStore, hostile: list[WikiPage]) -> Modelled:
    """A feeder that has read hostile pages, then a good one; sweeps and all."""
    fed = Modelled(store)
    fed.set(not_categories=["Secret"])
    for cite in (citation_readers(fed.clock), _nasty_cite):
        shared = SyncServices(store, fed.archive, fed.clock, "test", cite)
        fed.feed = WikiFeed(fed.wiki, fed.model, shared)
        fed.model.edit("Good", "https://good.net/")
        for page in hostile:
            fed.model.there[page.page_id] = page
            told = replace(
                fed.model.log[-1],
                rc_id=0,
                page_id=page.page_id,
                namespace=page.namespace,
                title=page.title,
            )
            fed.model.log.append(told)
        good = fed.model.edit("Good 2", "https://good.net/")
        fed.work()
        fed.clock.tick(days=8)
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
@given(st.lists(PAGES, min_size=1, max_size=3))
@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_page_keeps_another_from_being_read(
    tmp_path_factory: pytest.TempPathFactory, hostile: list[WikiPage]
) -> None:
    """Whatever stands in titles, links, categories and text."""
    store = opened(tmp_path_factory.mktemp("hostile"))
    _follow(store, hostile)
    store.close()


def test_both_databases_take_what_hostile_pages_hold(store: RegistryStore) -> None:
    """What no text of a database may hold is left out or escaped."""
    hostile = [
        WikiPage(7, "A\0", 0, links=("https://a.net/\0", "\ud800", "https://b.net/")),
        WikiPage(
            8, "B", 0, links=("https://a.net/\ud800", "https://b.net/x"), categories=(), text="\0{{"
        ),
        WikiPage(9, "C\ud800", 0, categories=("Category:\0",)),
    ]
    fed = _follow(store, hostile)

    assert fed.known() == ["B", "Good", "Good 2"]
    assert set(fed.taken()) == {"https://good.net/", "https://b.net/x"}


def test_a_wiki_that_names_itself_oddly_is_fed(store: RegistryStore) -> None:
    """Its database, its server and its templates may be called anything."""
    fed = Modelled(store)
    fed.model.facts_now = SiteFacts(
        *("a\0\ud800", "", (), "xx\0", "\0", ""), namespaces=FACTS.namespaces
    )
    fed.model.edit("Template:\ud800\0", "https://a.net/")
    fed.model.edit("A", "https://a.net/", uses=["Template:\ud800\0"])
    fed.work()
    fed.clock.tick(hours=7)
    fed.work()

    assert fed.known() == ["A"]
    with store.snapshot() as reader:
        assert feeds_of(reader, fed.wiki.id)["changes"].trouble == ""


def test_a_feeder_works_on_both_databases(store: RegistryStore) -> None:
    """Saves, removals, deletions, leases and sweeps, from the change to the archive."""
    fed = Modelled(store)
    first = fed.model.edit("A", "https://a.net/", "https://b.net/")
    fed.model.edit("B", "https://c.net/")
    fed.work()
    fed.model.edit("A", "https://b.net/")
    fed.model.delete("B")
    fed.work()
    fed.clock.tick(days=8)
    done = fed.work()
    fed.feed.desk.give_back()
    asyncio.run(fed.feeder("second").round())

    assert (fed.known(), fed.links(first)) == (["A"], ["https://b.net/"])
    assert set(fed.taken()) == {"https://a.net/", "https://b.net/", "https://c.net/"}
    assert done[-1].sweep is not None
    assert done[-1].sweep.is_done


@pytest.mark.parametrize("seam", ["cite", "put", "hand on"])
def test_internal_error_over_one_page_keeps_no_other_from_being_read(
    store: RegistryStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    seam: str,
) -> None:
    """The feed goes on, past that page; the log has the traceback."""

    def faulty(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if "bad.net" in repr((args, kwargs)):
                raise OverflowError("int too large")
            return real(*args, **kwargs)

        return call

    if seam == "put":
        monkeypatch.setattr(page_import, "_put_page", faulty(page_import._put_page))
    if seam == "hand on":
        monkeypatch.setattr(archive_queue, "archivable_url", faulty(archive_queue.archivable_url))
    fed = Modelled(store)
    nothing: Cite = lambda _text: ()  # noqa: E731
    cite = faulty(nothing) if seam == "cite" else nothing
    shared = SyncServices(store, fed.archive, fed.clock, "test", lambda *_: cite)
    fed.feed = WikiFeed(fed.wiki, fed.model, shared)
    fed.model.edit("Good 1", "https://good.net/1", text="good")
    fed.model.edit("Bad", "https://bad.net/", text="[https://bad.net/]")
    fed.model.edit("Good 2", "https://good.net/2")
    fed.work()

    assert {"https://good.net/1", "https://good.net/2"} <= set(fed.taken())
    assert "OverflowError: int too large" in caplog.text
