"""Rounds of a feeder on a wiki in memory: what a real one does too seldom, or too slowly."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from core.config.settings import Settings
from core.errors import BodyTooLargeError, TransientError
from core.layout import Layout
from core.urls import identity_key
from crawler.capture.page_capture import WIKI_ORDER, wiki_of
from crawler.frontier.base import ItemState
from crawler.frontier.sqlite_frontier import SqliteFrontier
from links.check_history import day_of
from links.feedback.reports import find_page_requests, put_page_requests, waiting_pages
from links.registry.archive_backlog import AT_ONCE, ArchivePriority, want_urls
from links.registry.citations import additions_of
from links.registry.database import RegistryStore
from links.registry.farm_queries import missing_targets_on
from links.registry.pages import mark_stale, number_of
from links.registry.schema import pages, refs, urls
from links.registry.urls import find_urls, urls_by_id
from links.registry.wikis import (
    FeedHeldError,
    InterwikiMap,
    InterwikiPrefix,
    change_wiki,
    ensure_wiki,
    feeds_of,
    parse_wiki,
)
from links.states import LinkState
from links.url_parts import key_of
from tests.support.clocks import ManualClock
from tests.wiki.sync.conftest import KeepingArchive, opened
from tests.wiki.sync.model import FACTS, START, ModelWiki
from weboid.app.wiki.wiki_intake import FrontierArchive
from wiki.sync.feed_context import SyncServices, WikiRenamedError, order_lists
from wiki.sync.wiki_feed import FeedRound, WikiFeed


class ModelledFeed:
    """A registry that is fed by a wiki in memory."""

    def __init__(self, store: RegistryStore) -> None:
        self.store = store
        self.model = ModelWiki(at_once=50)
        self.archive = KeepingArchive()
        self.clock = ManualClock(START)
        with store.writing() as rows:
            known = ensure_wiki(rows, parse_wiki("modelwiki"), day=0)
            self.wiki = change_wiki(rows, known, url="https://model.net/api.php", pages_url="https://model.net/wiki/$1")
        self.feed = self.feeder("test")

    def feeder(self, holder: str) -> WikiFeed:
        """Return a feed, as another process has it."""
        shared = SyncServices(self.store, self.archive, self.clock, holder)
        return WikiFeed(self.wiki, self.model, shared)

    def set(self, **feed: Any) -> None:
        """Change the settings of the feed."""
        with self.store.writing() as rows:
            self.wiki = change_wiki(rows, self.wiki, settings={"feed": feed})

    def work(self, *, sweeps: bool = True) -> list[FeedRound]:
        """Run rounds until nothing is left to do."""
        done = [asyncio.run(self.feed.round(is_notified=True, sweeps=sweeps))]
        while done[-1].is_busy:
            done.append(asyncio.run(self.feed.round(sweeps=sweeps)))
        return done

    def links(self, page_id: int) -> list[str]:
        """Return the URLs that a page has in the registry, sorted."""
        with self.store.reading() as rows:
            query = select(refs.c.url_id).where(
                refs.c.page == number_of(self.wiki.id, page_id), refs.c.gone_day.is_(None)
            )
            ids = list(rows.execute(query).scalars())
            return sorted(row.url for row in urls_by_id(rows, ids).values())

    def known(self) -> list[str]:
        """Return the titles of the pages that the registry has, sorted."""
        with self.store.reading() as rows:
            return sorted(rows.execute(select(pages.c.title)).scalars())

    def taken(self) -> list[str]:
        """Return the archived URLs, in order."""
        return [each.url for each in self.archive.taken]


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[ModelledFeed]:
    """Yield the feed of a wiki that was swept."""
    store = opened(tmp_path)
    made = ModelledFeed(store)
    made.work()
    yield made
    store.close()


def test_links_that_come_to_the_table_late_are_found(fed: ModelledFeed) -> None:
    """A page is looked at again some seconds after it was saved: wikis write links after the change."""
    page_id = fed.model.edit("A", "https://late.net/")
    fed.model.late[page_id] = ()
    fed.work()
    assert fed.links(page_id) == []

    fed.model.late.clear()
    fed.clock.advance(seconds=30)
    fed.work()

    assert fed.links(page_id) == ["https://late.net/"]
    assert fed.taken() == ["https://late.net/"]


def test_a_large_page_does_not_hold_up_others(fed: ModelledFeed, tmp_path: Path) -> None:
    """A link that is saved after a page with hundreds is visited after the first of these, not the last."""
    fed.model.edit("Large", *(f"https://h{number}.net/" for number in range(100)))
    fed.work(sweeps=False)
    fed.model.edit("Small", "https://small.net/")
    fed.work(sweeps=False)
    order = []
    with SqliteFrontier(tmp_path / "frontier.sqlite") as frontier:
        archive = FrontierArchive(frontier, Settings(), clock=fed.clock, layout=Layout(tmp_path))
        asyncio.run(archive.take(fed.archive.taken))
        for _ in fed.archive.taken:
            order += frontier.claim(now=fed.clock.now(), worker="one")

    assert len(order) == 101
    place = [item.url for item in order].index("https://small.net/")
    assert place <= 2 * AT_ONCE  # now and then another lane has its turn


def test_a_sweep_offers_again_what_has_no_copy(fed: ModelledFeed) -> None:
    """B2: down when it was cited, or given up; what has a good copy, however old, and what is dead is not."""
    copied, lost, dead = "https://copied.net/", "https://lost.net/", "https://dead.net/"
    fed.model.edit("A", copied, lost, dead)
    fed.work()
    fed.archive.captured[copied] = fed.clock.now()
    fed.archive.taken.clear()
    with fed.store.writing() as rows:
        number = find_urls(rows, [dead])[dead].id
        rows.execute(update(urls).where(urls.c.id == number).values(state=int(LinkState.DEAD)))

    for _ in range(6):
        fed.clock.advance(days=8)
        fed.work()

    assert set(fed.taken()) == {lost}
    assert {each.priority for each in fed.archive.taken} == {ArchivePriority.WITHOUT_COPY}


def test_what_came_back_to_life_is_offered_again_unless_it_has_a_copy(fed: ModelledFeed) -> None:
    """However lately it was tried, and however old a good copy is."""
    copied, lost = "https://copied.net/", "https://lost.net/"
    fed.model.edit("A", copied, lost)
    fed.work()
    fed.archive.captured[copied] = fed.clock.now()
    fed.archive.taken.clear()
    fed.clock.advance(days=60)
    with fed.store.writing() as rows:
        want_urls(rows, [each.id for each in find_urls(rows, [copied, lost]).values()], now=fed.clock.now())

    fed.work(sweeps=False)

    assert fed.taken() == [lost]


def test_dead_letters_that_came_back_to_life_are_queued_again(fed: ModelledFeed, tmp_path: Path) -> None:
    """The frontier leaves alone what it tried lately, but not these."""
    url, now = "https://lost.net/", fed.clock.now()
    fed.model.edit("A", url)
    fed.work()
    (wanted,) = fed.archive.taken
    with SqliteFrontier(tmp_path / "frontier.sqlite") as frontier:
        archive = FrontierArchive(frontier, Settings(), clock=fed.clock, layout=Layout(tmp_path))
        states = []
        for each in (wanted, wanted, replace(wanted, priority=ArchivePriority.REVIVED)):
            asyncio.run(archive.take([each]))
            states.append(_state(frontier, url))
            for item in frontier.claim(now=now, worker="one"):
                frontier.fail(item, now=now, reason="connect: refused", delay=timedelta(0))

    assert states == [ItemState.QUEUED, ItemState.DEAD, ItemState.QUEUED]


def test_the_queue_knows_which_page_asked(fed: ModelledFeed, tmp_path: Path) -> None:
    """A13: its address, under its title of now."""
    fed.model.edit("Häfen & co?", "https://a.net/")
    fed.work()
    with SqliteFrontier(tmp_path / "frontier.sqlite") as frontier:
        archive = FrontierArchive(frontier, Settings(), clock=fed.clock, layout=Layout(tmp_path))
        asyncio.run(archive.take(fed.archive.taken))
        record = frontier.find("https://a.net/")
        wikis = frontier.orders(WIKI_ORDER)

    assert record is not None
    assert record.item.via == "https://model.net/wiki/H%C3%A4fen_%26_co%3F"
    assert wiki_of(record.item.via, wikis) == fed.archive.taken[0].wiki.in_levels


@pytest.mark.parametrize(
    "url",
    [
        "https://a.net/x?",
        "https://a.net/?a=%2d&b=%7E",
        "https://a.net/stra%c3%9fe",
        "https://a.net/%41",
        "https://a.net/x",
    ],
)
def test_a_link_is_asked_for_as_it_is_spelled_on_its_page(fed: ModelledFeed, url: str) -> None:
    """A17: byte for byte, without the fragment; another spelling of the same link is noted."""
    fed.model.edit("A", f"{url}#part")
    fed.work()

    assert fed.taken() == [url]

    fed.model.edit("A", identity_key(url))
    fed.work()
    assert fed.taken() == [url]
    with fed.store.reading() as rows:
        assert set(rows.execute(select(refs.c.spelling)).scalars()) == {None}


def _state(frontier: SqliteFrontier, url: str) -> ItemState:
    record = frontier.find(url)
    assert record is not None
    return record.state


def test_a_change_is_noted_with_what_it_brought_or_not_at_all(fed: ModelledFeed) -> None:
    """A feeder that dies while it reads the changed pages finds the change again."""
    page_id = fed.model.edit("A", "https://a.net/")
    fed.model.trouble_at = 2

    with pytest.raises(TransientError):
        asyncio.run(fed.feed.round(is_notified=True))
    fed.feed = fed.feeder("test")
    fed.work(sweeps=False)

    assert fed.links(page_id) == ["https://a.net/"]


def test_a_wiki_of_another_name_is_refused(fed: ModelledFeed) -> None:
    """At the address is another wiki: nothing is changed, and the sentence says what to do."""
    page_id = fed.model.edit("A", "https://a.net/")
    fed.work()
    fed.model.facts_now = FACTS.__class__(
        *("other", "Other", (1, 43), "en", "https://other.net", "https://other.net/$1"), FACTS.namespaces
    )
    fed.model.there.clear()
    fed.clock.advance(hours=2)

    with pytest.raises(WikiRenamedError, match=r"instead of modelwiki .*weboid wiki add"):
        asyncio.run(fed.feed.round(is_notified=True))

    assert fed.links(page_id) == ["https://a.net/"]


def test_two_processes_never_feed_one_wiki(fed: ModelledFeed) -> None:
    """The second is refused until the first has ended, or was silent for longer than its lease."""
    second = fed.feeder("second")
    with pytest.raises(FeedHeldError):
        asyncio.run(second.round())

    fed.clock.advance(seconds=100)
    asyncio.run(second.round())

    with pytest.raises(FeedHeldError):
        asyncio.run(fed.feed.round())


def test_what_was_forgotten_by_the_wiki_is_found_by_a_sweep(fed: ModelledFeed) -> None:
    """After a silence longer than the wiki keeps changes every page is read again."""
    first = fed.model.edit("A", "https://a.net/")
    fed.work()
    fed.model.edit("A", "https://b.net/")
    second = fed.model.edit("B", "https://c.net/")
    fed.model.forget()
    fed.clock.advance(days=3)

    fed.work()

    assert (fed.links(first), fed.links(second)) == (["https://b.net/"], ["https://c.net/"])


def test_a_page_that_left_unseen_on_the_day_it_was_read_is_found_by_the_sweep(fed: ModelledFeed) -> None:
    """Once changes are lost no page counts as read because it was read earlier that day."""
    fed.model.edit("A", "https://a.net/")
    fed.work()
    fed.model.move("A", "User:A", redirect=False)
    fed.model.forget()
    fed.work()

    assert fed.known() == ["User:A"]  # released; its row is kept for months


def test_a_sweep_goes_on_where_it_was_stopped(fed: ModelledFeed) -> None:
    """Its cursor is kept: a list that was gone through is not gone through again."""
    fed.model.at_once = 2
    for letter in "ABCDEF":
        fed.model.edit(letter, f"https://{letter.lower()}.net/")
    fed.work()
    fed.clock.advance(days=8)
    asyncio.run(fed.feed.round())
    asyncio.run(fed.feed.round())
    fed.model.requests.clear()

    fed.feed = fed.feeder("test")
    done = fed.work()

    assert "pages [1, 2]" not in fed.model.requests
    assert "pages [5, 6]" in fed.model.requests
    assert done[-1].sweep is not None
    assert done[-1].sweep.pages == 6


def test_the_first_sweep_archives_what_was_imported_before(tmp_path: Path) -> None:
    """Links that the registry has from elsewhere are new to the archive all the same."""
    store = opened(tmp_path)
    fed = ModelledFeed(store)
    fed.model.edit("A", "https://a.net/")
    fed.set(archive=False)
    fed.feed = fed.feeder("test")
    asyncio.run(fed.feed.round(sweeps=False))
    fed.work(sweeps=False)
    assert fed.taken() == []

    fed.set(archive=True)
    fed.clock.advance(minutes=1)
    fed.work()
    store.close()

    assert fed.taken() == ["https://a.net/"]


def test_what_was_just_saved_is_handed_on_before_what_was_swept(fed: ModelledFeed) -> None:
    """A save waits for no sweep: its links go first."""
    fed.archive.is_away = True
    for number in range(5):
        fed.model.edit(f"Old {number}", f"https://old{number}.net/")
    fed.model.forget()
    fed.clock.advance(days=9)
    fed.work()
    fed.model.edit("New", "https://new.net/")
    fed.work()
    fed.archive.is_away = False
    fed.clock.advance(hours=3)
    fed.work()

    assert fed.taken()[0] == "https://new.net/"
    assert len(fed.taken()) == 6


def test_an_archive_that_is_away_gets_the_links_later(fed: ModelledFeed) -> None:
    """Links that cannot be handed on are kept, and are handed on once."""
    fed.archive.is_away = True
    fed.model.edit("A", "https://a.net/")
    done = fed.work()
    assert done[0].handed.put_off == 1

    fed.archive.is_away = False
    fed.clock.advance(hours=2)
    fed.work()
    fed.work()

    assert fed.taken() == ["https://a.net/"]


def test_what_was_archived_lately_is_left_alone(fed: ModelledFeed) -> None:
    """A02: a good capture that is young enough is enough."""
    fed.archive.captured = {"https://a.net/": START, "https://b.net/": START.replace(year=2020)}
    fed.model.edit("A", "https://a.net/", "https://b.net/")
    done = fed.work()

    assert fed.taken() == ["https://b.net/"]
    assert done[0].handed.fresh == 1


def test_of_a_copy_in_an_archive_that_is_archived_which_it_is_of(fed: ModelledFeed) -> None:
    """A01: not the copy, nor a copy of our own; what link search leaves out is archived as all else (X05)."""
    front = "https://copies.net"
    with fed.store.writing() as rows:
        bot = {"front": front}
        fed.wiki = change_wiki(rows, fed.wiki, settings={"bot": bot, "excluded_domains": ["shut.net"]})
    stamp = "20150102030405"
    fed.model.edit(
        "A",
        f"https://web.archive.org/web/{stamp}/https://a.net/",
        f"https://archive.today/{stamp}/https://web.archive.org/web/2014/https://b.net/",
        f"https://web.archive.org/web/{stamp}/https://shut.net/",
        f"{front}/page/{stamp}/https://c.net/",
        "https://perma.cc/AB12-CD34",
    )
    done = fed.work()

    assert sorted(fed.taken()) == [
        "https://a.net/",
        "https://b.net/",
        "https://perma.cc/AB12-CD34",
        "https://shut.net/",
    ]
    assert done[0].handed.copies == 1
    assert len(fed.links(fed.archive.taken[0].page_id)) == 5


def test_only_pages_below_the_categories_are_observed(fed: ModelledFeed) -> None:
    """W35: in or below a category that is named, whatever circles the categories make."""
    fed.model.edit("Category:Top", categories=["Category:Low"])
    fed.model.edit("Category:Low", categories=["Category:Top"])
    fed.set(categories=["Top"])
    inside = fed.model.edit("In", "https://in.net/", categories=["Category:Low"])
    fed.model.edit("Out", "https://out.net/")
    fed.work()

    assert fed.known() == ["In"]
    assert fed.links(inside) == ["https://in.net/"]


@pytest.mark.parametrize("feed", [{"categories": ["animals"]}, {"templates": ["en"]}], ids=str)
def test_a_wiki_is_asked_by_names_as_it_has_them(fed: ModelledFeed, feed: dict[str, Any]) -> None:
    """W35: some tell a small first letter from a large one, as Wiktionary does."""
    fed.set(**feed)
    fed.model.edit("Category:en:animals", categories=["Category:animals"])
    fed.model.edit("cat", "https://cat.net/", categories=["Category:en:animals"], uses=["Template:en"])
    fed.model.forget()  # so that a sweep finds it
    fed.work()

    assert fed.known() == ["cat"]


def test_pages_of_a_category_that_comes_into_the_tree_are_found(fed: ModelledFeed) -> None:
    """W27: no page changes when one category is put into another, and yet they are observed."""
    fed.model.edit("Category:Top")
    fed.model.edit("Category:Low")
    fed.set(categories=["Category:Top"])
    fed.model.edit("In", "https://in.net/", categories=["Category:Low"])
    fed.work()
    assert fed.known() == []

    fed.model.edit("Category:Low", categories=["Category:Top"])
    fed.clock.advance(minutes=2)
    fed.work(sweeps=False)
    fed.clock.advance(minutes=2)
    fed.work(sweeps=False)

    assert fed.known() == ["In"]


def test_a_page_that_leaves_the_criteria_is_kept_but_not_archived(fed: ModelledFeed) -> None:
    """W27, W37: it is released; what waits to be archived waits until it is observed again."""
    fed.set(grace_h=24, categories=["Top"])
    fed.model.edit("Category:Top")
    page_id = fed.model.edit("A", "https://a.net/", categories=["Category:Top"])
    fed.work()
    fed.model.edit("A", "https://a.net/", categories=[])
    fed.work()
    fed.clock.advance(days=3)
    fed.work()
    assert fed.known() == ["A"]
    assert fed.links(page_id) == ["https://a.net/"]
    assert fed.taken() == []

    fed.model.edit("A", "https://a.net/", categories=["Category:Top"])
    fed.work()
    fed.clock.advance(days=2)
    fed.work()
    assert fed.taken() == ["https://a.net/"]


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("not_categories", ["Secret"]),
        ("not_templates", ["Template:Private"]),
        ("not_pages", ["a"]),
        ("not_properties", ["P21", "P31 = Q5"]),
    ],
    ids=["category", "template", "page", "property"],
)
def test_what_is_excluded_is_not_observed(fed: ModelledFeed, setting: str, values: list[str]) -> None:
    """W35: exclusion comes after inclusion; a page without an item is excluded by none."""
    fed.set(**{setting: values})
    fed.model.statements["A"] = frozenset({"P31", "P31=Q5"})
    fed.model.edit("A", "https://a.net/", categories=["Category:Secret"], uses=["Template:Private"])
    fed.model.edit("B", "https://b.net/")
    fed.work()

    assert fed.known() == ["B"]


@pytest.mark.parametrize(
    ("setting", "values"),
    [("templates", ["infobox_person", "Module:Dates"]), ("properties", ["P21=Q1", "P31=Q5"])],
    ids=["template", "property"],
)
def test_only_what_is_included_is_observed(fed: ModelledFeed, setting: str, values: list[str]) -> None:
    """W35: by one of the templates or statements that are named; what is not known is not observed."""
    fed.set(**{setting: values})
    fed.model.statements.update(A=frozenset({"P31", "P31=Q5"}), B=frozenset({"P31", "P31=Q6"}), C=frozenset(), D=None)
    fed.model.edit("A", "https://a.net/", uses=["Template:Infobox person"])
    fed.model.edit("B", "https://b.net/", uses=["User:Infobox person", "Template:Dates"])
    fed.model.edit("C", "https://c.net/")
    fed.model.edit("D", "https://d.net/", uses=["Infobox person"])
    fed.work()

    assert fed.known() == ["A"]


def test_inclusion_comes_before_exclusion(fed: ModelledFeed) -> None:
    """W35: each kind that is set must be met, and none that excludes."""
    fed.set(templates=["T"], properties=["P31"], not_properties=["P31=Q5"], not_templates=["U"])
    fed.model.statements.update(dict.fromkeys("ABC", frozenset({"P31"})), D=frozenset({"P31", "P31=Q5"}))
    fed.model.edit("A", "https://a.net/", uses=["Template:T"])
    fed.model.edit("B", "https://b.net/", uses=["Template:T", "Template:U"])
    fed.model.edit("C", "https://c.net/")
    fed.model.edit("D", "https://d.net/", uses=["Template:T"])
    fed.work()

    assert fed.known() == ["A"]


def test_a_sweep_finds_pages_whose_items_say_something_else_now(fed: ModelledFeed) -> None:
    """W35: an item is changed elsewhere, and no change of the wiki's tells of it."""
    fed.set(properties=["P31=Q5"])
    fed.model.edit("A", "https://a.net/")
    fed.work()
    assert fed.known() == []

    fed.model.statements["A"] = frozenset({"P31", "P31=Q5"})
    fed.clock.advance(days=8)
    fed.work()

    assert fed.taken() == ["https://a.net/"]


def test_a_sweep_by_templates_reads_no_page_that_uses_none(fed: ModelledFeed) -> None:
    """W35, W36: where templates choose the pages, their users are the list that is gone through."""
    fed.set(templates=["T"])
    used = fed.model.edit("A", "https://a.net/", uses=["Template:T"])
    fed.model.edit("B", "https://b.net/")
    fed.clock.advance(days=8)
    fed.model.requests.clear()
    asyncio.run(fed.feed.context.refresh())
    asyncio.run(fed.feed.sweeper.begin())
    while (sweep := fed.feed.sweeper.sweep()) and not sweep.is_done:
        asyncio.run(fed.feed.sweeper.go_on())

    assert [each for each in fed.model.requests if each.startswith("pages")] == [f"pages [{used}]"]


def test_a_page_that_somebody_asked_for_is_read_with_the_next_round(fed: ModelledFeed) -> None:
    """W34, W08: a page that is marked is read again, though no change tells of it."""
    page_id = fed.model.edit("A", "https://a.net/")
    fed.work()
    page = fed.model.there[page_id]
    fed.model.there[page_id] = page.__class__(page_id, "A", 0, rev_id=page.rev_id, links=("https://b.net/",))
    with fed.store.writing() as rows:
        mark_stale(rows, fed.wiki.id, [page_id])

    fed.work(sweeps=False)

    assert fed.links(page_id) == ["https://b.net/"]


def test_a_page_that_was_asked_for_is_adopted_if_the_criteria_allow_it(fed: ModelledFeed) -> None:
    """W10, W34: asked for by number or by title; each is read once a day, and the wiki decides."""
    fed.set(namespaces=[1])
    numbered = fed.model.edit("User:A", "https://a.net/")
    fed.model.edit("User:B", "https://b.net/")
    fed.model.edit("C", "https://c.net/")
    fed.work(sweeps=False)
    fed.set(namespaces=[2])
    assert fed.known() == []
    day = day_of(fed.clock.now())
    with fed.store.writing() as rows:
        requests = [numbered, 4711], ["User:B", "C", "Nowhere"]
        assert put_page_requests(rows, fed.wiki.id, *requests, day=day) == 5

    fed.work(sweeps=False)
    assert fed.known() == ["User:A", "User:B"]
    assert fed.links(numbered) == ["https://a.net/"]
    with fed.store.reading() as rows:
        facts_by_page = find_page_requests(rows, fed.wiki.id, [4711], ["C", "User:B"])
        assert find_urls(rows, ["https://c.net/"]) == {}  # not watched because of that
    keys_by_page = {page.title or page.page_id: facts.keys for page, facts in facts_by_page.items()}
    assert keys_by_page == {4711: (), "C": (key_of("https://c.net/"),), "User:B": ()}

    with fed.store.writing() as rows:
        assert put_page_requests(rows, fed.wiki.id, *requests, day=day) == 0
        assert waiting_pages(rows, fed.wiki.id, limit=9) == []
        assert put_page_requests(rows, fed.wiki.id, *requests, day=day + 1) == 5


def test_links_to_pages_of_the_farm_that_are_not_there_are_noted(fed: ModelledFeed) -> None:
    """W50: external links and interwikis, to the wiki itself and to others; never watched."""
    with fed.store.writing() as rows:
        other = ensure_wiki(rows, parse_wiki("otherwiki"), day=0)
        change_wiki(rows, other, url="https://other.net/api.php", pages_url="https://other.net/wiki/$1")
    fed.model.lists["https://other.net/api.php", "There"] = "x"
    interwikis = InterwikiMap([InterwikiPrefix("o", "https://other.net/wiki/$1", is_local=True)])
    fed.model.facts_now = replace(FACTS, interwikis=interwikis)
    fed.feed = fed.feeder("test")
    own = "https://model.net/wiki/"
    links = (f"{own}A", f"{own}No_such%20page", f"{own}A?action=edit", "https://a.net/")
    page_id = fed.model.edit("A", *links)
    linking = (("o", "There"), ("O", "Not there"), ("w", "Elsewhere"))
    fed.model.there[page_id] = replace(fed.model.there[page_id], interwiki_links=linking)
    fed.work(sweeps=False)

    def noted() -> dict[str, int]:
        with fed.store.reading() as rows:
            return missing_targets_on(rows, fed.wiki.id, page_id)

    assert set(noted()) == {f"{own}No_such%20page", "https://other.net/wiki/Not_there"}
    assert fed.links(page_id) == ["https://a.net/"]

    fed.model.edit("No such page")
    with fed.store.writing() as rows:
        mark_stale(rows, fed.wiki.id, [page_id])
    fed.work(sweeps=False)
    assert set(noted()) == {"https://other.net/wiki/Not_there"}


def test_settings_are_read_again_before_each_round(fed: ModelledFeed) -> None:
    """B01: what the operator says now holds for the next batch."""
    fed.model.edit("A", "https://a.net/")
    fed.work()
    fed.set(namespaces=[2])
    fed.model.edit("B", "https://b.net/")
    fed.model.edit("User:C", "https://c.net/")
    fed.work(sweeps=False)

    assert fed.known() == ["A", "User:C"]


def test_pages_too_large_to_be_read_together_are_read_apart(fed: ModelledFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page that nobody can read keeps no other from being read, nor the feed from going on."""
    huge = fed.model.edit("Huge", "https://huge.net/")
    fed.model.edit("A", "https://a.net/")
    original: Callable[..., Any] = ModelWiki.pages

    async def limited(self: ModelWiki, ids: Any = (), titles: Any = (), **how: Any) -> Any:
        if huge in ids:
            raise BodyTooLargeError("A page is too large.")
        return await original(self, ids, titles, **how)

    monkeypatch.setattr(ModelWiki, "pages", limited)
    fed.work()

    assert fed.known() == ["A"]


def test_the_registry_tells_how_far_the_feed_is(fed: ModelledFeed) -> None:
    """Whoever looks sees when the feed last came on, and that it has no trouble."""
    with fed.store.snapshot() as reader:
        feed = feeds_of(reader, fed.wiki.id)["changes"]

    assert (feed.moment, feed.trouble) == (START, "")


def test_a_page_that_becomes_a_redirect_has_its_links_no_more(fed: ModelledFeed) -> None:
    """W08: a redirect that is new is passed over, but one that was an article is read."""
    page_id = fed.model.edit("A", "https://a.net/")
    fed.work()
    page = fed.model.there[page_id]
    fed.model.edit("A")
    fed.model.there[page_id] = page.__class__(page_id, "A", 0, is_redirect=True, rev_id=page.rev_id + 1)
    fed.work()

    assert fed.links(page_id) == []


def test_nobody_waits_for_a_process_that_has_ended(fed: ModelledFeed) -> None:
    """A lease whose holder is known to be gone is free at once."""
    shared = SyncServices(fed.store, fed.archive, fed.clock, "second", is_gone=lambda holder: holder == "test")

    asyncio.run(WikiFeed(fed.wiki, fed.model, shared).round())


def test_a_feeder_never_rests_until_its_lease_ends(fed: ModelledFeed) -> None:
    """However seldom the wiki is asked, and wherever the clock was put."""
    fed.set(poll_s=86_400)
    fed.work()
    assert 0 < asyncio.run(fed.feed.rest_s()) <= 45

    fed.clock.advance(days=-3)
    assert 0 <= asyncio.run(fed.feed.rest_s()) <= 45


def test_a_link_is_of_the_account_whose_revision_brought_it(fed: ModelledFeed) -> None:
    """X11: where that is certain; not what came with several revisions, or back after a revert."""
    fed.model.edit("A", "https://new.net/", by="Ann")
    fed.work()
    fed.model.edit("A", "https://new.net/", "https://spam.net/1", by="Bob")
    fed.work()
    fed.model.edit("A", by="Cat")
    fed.work()
    fed.model.edit("A", "https://spam.net/1", by="Dan")
    fed.work()
    fed.model.edit("A", "https://spam.net/1", "https://a.net/", by="Eve")
    fed.model.edit("A", "https://spam.net/1", "https://a.net/", "https://b.net/", by="Fay")
    fed.work()

    with fed.store.reading() as rows:
        additions = additions_of(rows, since_day=0, limit=10)
    assert {(each.account, each.url, each.title) for each in additions} == {
        ("Ann", "https://new.net/", "A"),
        ("Bob", "https://spam.net/1", "A"),
    }


def test_spam_lists_are_fetched_every_hour(fed: ModelledFeed) -> None:
    """The wiki's own and the farm's, the whitelist among them; what is no more is forgotten (W52)."""
    farm = "https://meta.model.net/api.php"
    fed.set(farm_spam_api=farm)
    fed.model.lists["", "MediaWiki:Spam-blacklist"] = "casino"
    fed.model.lists["", "MediaWiki:Spam-whitelist"] = "good-casino"
    fed.model.lists[farm, "Spam blacklist"] = "pills"
    fed.clock.advance(hours=1)
    cited = ("https://casino.net/", "https://good-casino.net/", "https://pills.net/")
    page_id = fed.model.edit("A", *cited)
    fed.work()
    assert fed.links(page_id) == ["https://good-casino.net/"]

    fed.model.lists.clear()
    fed.model.lists_trouble = TransientError("The wiki is away.")
    fed.clock.advance(hours=1)
    fed.model.edit("A", *cited)
    fed.work()
    assert fed.links(page_id) == ["https://good-casino.net/"]

    fed.model.lists_trouble = None
    fed.clock.advance(hours=1)
    fed.model.edit("A", *cited)
    fed.work()
    assert len(fed.links(page_id)) == 3


def test_pages_of_a_namespace_or_of_a_tree_of_categories_are_read_when_ordered(fed: ModelledFeed) -> None:
    """By whoever feeds the wiki, and no others; the criteria hold for them."""
    fed.model.edit("Category:Low", categories=["Category:Top"])
    fed.model.edit("A", "https://a.net/", categories=["Category:Low"])
    fed.model.edit("B", "https://b.net/")
    fed.model.edit("User:C", "https://c.net/")
    fed.model.forget()
    fed.feed = fed.feeder("test")
    order_lists(fed.store, fed.wiki.id, [("category", "Category:Low")], now=fed.clock.now())
    fed.work(sweeps=False)
    assert fed.known() == ["A"]

    order_lists(fed.store, fed.wiki.id, [("namespace", "0")], now=fed.clock.now())
    fed.work(sweeps=False)
    assert fed.known() == ["A", "B"]


def test_a_sweep_that_takes_over_four_weeks_is_told(fed: ModelledFeed, caplog: pytest.LogCaptureFixture) -> None:
    """Once a day, with what helps; one that is done is not (W38)."""
    fed.model.at_once = 1
    for letter in "ABCD":
        fed.model.edit(letter)
    fed.clock.advance(days=8)
    asyncio.run(fed.feed.round())
    fed.clock.advance(days=28)
    asyncio.run(fed.feed.round())
    assert "A sweep" not in caplog.text

    fed.clock.advance(days=1)
    fed.work()

    assert caplog.text.count("A sweep has been running for 29 days") == 1


def test_a_page_that_leaves_the_categories_stays_while_another_criterion_holds(fed: ModelledFeed) -> None:
    """Once it was in the tree it is released only when no inclusion criterion holds any more (W27)."""
    fed.model.edit("Category:Top")
    fed.set(categories=["Top"], templates=["Used"])
    inside = ("Category:Top",)
    page = fed.model.edit("In", "https://a.net/", categories=inside, uses=["Template:Used"])
    never = fed.model.edit("Never", "https://n.net/", uses=["Template:Used"])
    fed.work()
    fed.model.edit("In", "https://a.net/", "https://b.net/", uses=["Template:Used"])
    fed.work()
    assert fed.links(page) == ["https://a.net/", "https://b.net/"]
    assert fed.links(never) == []

    fed.model.edit("In", "https://a.net/", "https://b.net/", "https://c.net/")
    fed.work()
    assert fed.links(page) == ["https://a.net/", "https://b.net/"]
