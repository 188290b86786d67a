"""The feeder held to a wiki in memory: whatever happens to either, the registry ends as the wiki is."""

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from sqlalchemy import select

from core.errors import TransientError
from core.layout import Layout
from links.registry.database import RegistryStore
from links.registry.schema import metadata, pages, refs, wanted
from links.registry.urls import urls_by_id
from links.registry.wikis import change_wiki, ensure_wiki, parse_wiki
from tests.support.clocks import ManualClock
from tests.support.examples import examples
from tests.support.services.registries import open_registry
from tests.wiki.sync.conftest import KeepingArchive
from tests.wiki.sync.model import START, ModelWiki
from wiki.settings import FeedSettings
from wiki.sync.feed_context import SyncServices
from wiki.sync.page_criteria import compile_criteria
from wiki.sync.page_import import PageImporter
from wiki.sync.wiki_feed import SETTLING_DELAY, WikiFeed

TITLES = ["A", "B", "C", "D", "User:E", "User:F"]
URLS = [f"https://{host}.net/" for host in "abcd"]


class ProcessKilled(BaseException):
    """The process is killed here."""


class FeedingMachine(RuleBasedStateMachine):
    """People write on a wiki, a feeder follows, and either may fail at any moment."""

    store: RegistryStore

    @initialize(grace=st.sampled_from([0, 24]), at_once=st.integers(1, 4), swept=st.booleans())
    def begin(self, grace: int, at_once: int, *, swept: bool) -> None:
        """Create a wiki with a page, and a feed: new, or (`swept`) with its sweep done."""
        feed = {"grace_h": grace, "sweep_days": 365 if swept else 7}
        with self.store.writing() as rows:
            for table in metadata.tables.values():
                if table.name != "link_farms":
                    rows.execute(table.delete())
            known = ensure_wiki(rows, parse_wiki("modelwiki"), day=0)
            self.known = change_wiki(rows, known, settings={"feed": feed})
        self.model = ModelWiki(at_once=at_once)
        self.model.edit("A", URLS[0])
        self.archive, self.clock = KeepingArchive(), ManualClock(START)
        self.ever: set[str] = {URLS[0]}
        self.start()
        while swept and asyncio.run(self.feed.round()).is_busy:
            pass

    def start(self) -> None:
        """Create the feed, as a new process does."""
        shared = SyncServices(self.store, self.archive, self.clock, "test")
        self.feed = WikiFeed(self.known, self.model, shared)

    def free(self) -> list[str]:
        """Return the titles that no page has."""
        return [title for title in TITLES if self.model.titled(title) is None]

    def taken(self) -> list[str]:
        """Return the titles of all pages, sorted."""
        return sorted(page.title for page in self.model.there.values())

    @rule(title=st.sampled_from(TITLES), links=st.sets(st.sampled_from(URLS)), late=st.booleans())
    def edit(self, title: str, links: set[str], *, late: bool) -> None:
        """Write a page; if `late`, its new links come to the wiki's table of links later."""
        old = self.model.titled(title)
        page_id = self.model.edit(title, *sorted(links))
        if late:
            self.model.late.setdefault(page_id, old.links if old else ())
        self.ever |= links

    @rule(data=st.data(), redirect=st.booleans())
    def move(self, data: st.DataObject, *, redirect: bool) -> None:
        """Move a page, perhaps over another one."""
        title = data.draw(st.sampled_from(self.taken() or [""]))
        target = data.draw(st.sampled_from(TITLES))
        if title and title != target:
            self.model.move(title, target, redirect=redirect)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Delete a page."""
        title = data.draw(st.sampled_from(self.taken() or [""]))
        if title:
            self.model.delete(title)

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        """Restore a page."""
        title = data.draw(st.sampled_from(sorted(set(self.model.deleted) & set(self.free())) or [""]))
        if title:
            self.model.restore(title)

    @rule()
    def catch_up(self) -> None:
        """Run the wiki's deferred updates."""
        self.model.late.clear()

    @rule(seconds=st.sampled_from([1, 30, 4_000, 90_000, 8 * 86_400]))
    def wait(self, seconds: int) -> None:
        """Advance the clock; a wiki's deferred updates run within seconds of a save."""
        if seconds >= SETTLING_DELAY.total_seconds():
            self.model.late.clear()
        self.clock.advance(seconds=seconds)

    @rule()
    def work(self) -> None:
        """Run a round of the feed."""
        asyncio.run(self.feed.round(is_notified=True))

    @rule(number=st.integers(1, 6))
    def be_away(self, number: int) -> None:
        """Run a round in which the wiki does not answer one of the requests."""
        self.model.trouble_at = number
        with suppress(TransientError):
            asyncio.run(self.feed.round(is_notified=True))
        self.model.trouble_at = 0

    @rule(after=st.integers(0, 4), is_written=st.booleans())
    def be_killed(self, after: int, *, is_written: bool) -> None:
        """Kill the process at one of its writes, before or after it; start another one."""
        write, note, left = PageImporter.write, PageImporter.note, after

        def killed(original: Any) -> Any:
            def wrapped(*given: Any, **named: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0 and not is_written:
                    raise ProcessKilled
                result = original(*given, **named)
                if left < 0:
                    raise ProcessKilled
                return result

            return wrapped

        PageImporter.write, PageImporter.note = killed(write), killed(note)  # type: ignore[method-assign]
        try:
            with suppress(ProcessKilled):
                asyncio.run(self.feed.round(is_notified=True))
        finally:
            PageImporter.write, PageImporter.note = write, note  # type: ignore[method-assign]
        self.start()

    @rule()
    def forget(self) -> None:
        """Forget the wiki's changes, as after months: their deferred updates have long run."""
        self.model.late.clear()
        self.model.forget()

    @rule(is_away=st.booleans())
    def archive_turns(self, *, is_away: bool) -> None:
        """Make the archive unavailable or available."""
        self.archive.is_away = is_away

    @rule()
    def compare(self) -> None:
        """Assert that, once settled, the registry equals the wiki, and the archive has been given every link."""
        self.model.late.clear()
        self.archive.is_away = False
        for _ in range(4):
            self.clock.advance(hours=30)
            while asyncio.run(self.feed.round(is_notified=True)).is_busy:
                pass
        assert self.listed() == {page.page_id: (page.title, set(page.links)) for page in self.observed()}
        cited = {url for page in self.observed() for url in page.links}
        archived = {each.url for each in self.archive.taken}
        assert cited <= archived <= self.ever
        with self.store.reading() as rows:
            assert (
                rows.execute(
                    select(wanted.c.page).join(pages, pages.c.id == wanted.c.page).where(pages.c.namespace == 0)
                ).all()
                == []
            )

    def observed(self) -> list[Any]:
        """Return the pages that meet the criteria."""
        criteria = compile_criteria(FeedSettings(), self.model.facts_now)
        return [page for page in self.model.there.values() if criteria.refusal(page) is None]

    def listed(self) -> dict[int, tuple[str, set[str]]]:
        """Return title and URLs of the registry's pages in the observed namespace, by page ID."""
        with self.store.reading() as rows:
            there = rows.execute(select(pages.c.id, pages.c.page_id, pages.c.title).where(pages.c.namespace == 0)).all()
            page_by_id = {}
            for number, page_id, title in there:
                ids = rows.execute(
                    select(refs.c.url_id).where(refs.c.page == number, refs.c.gone_day.is_(None))
                ).scalars()
                page_by_id[page_id] = (title, {row.url for row in urls_by_id(rows, ids).values()})
        return page_by_id

    def teardown(self) -> None:
        """End every run with a comparison."""
        if hasattr(self, "feed"):
            self.compare()


@pytest.mark.slow
def test_the_registry_ends_as_the_wiki_is() -> None:
    """No sequence of edits, moves, deletions, restorations, failures and crashes leaves a difference."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_registry(Layout(Path(folder)))
        FeedingMachine.store = store
        try:
            run_state_machine_as_test(
                FeedingMachine, settings=settings(max_examples=examples(10), stateful_step_count=20)
            )
        finally:
            store.close()
