"""A registry, an archive that keeps what it is given, and a feeder of a real wiki."""

import asyncio
import tempfile
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from core.errors import TransientError
from core.layout import Layout
from links.registry.database import RegistryStore
from links.registry.pages import number_of
from links.registry.schema import pages, refs
from links.registry.urls import urls_by_id
from links.registry.wikis import Wiki, change_wiki, ensure_wiki, parse_wiki
from tests.links.conftest import shared_registry, store
from tests.support.clocks import ManualClock
from tests.support.services.registries import open_registry
from tests.support.sites.mediawiki import RunningWiki
from wiki.api.client import ApiSettings, WikiApi
from wiki.api.wikidata import WikibaseRepository
from wiki.sync.archive_queue import DueLink
from wiki.sync.feed_context import SyncServices, citation_readers
from wiki.sync.wiki_feed import FeedRound, WikiFeed
from wiki.sync.wiki_source import WikiSource

__all__ = ["FedRegistry", "KeepingArchive", "fed", "shared_registry", "store"]  # fixtures among them

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


@cache
def _empty() -> bytes:
    """Return the file of an empty registry: creating one takes longer than most tests run."""
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(Path(folder))
        open_registry(layout).close()
        return layout.links_db.read_bytes()


def opened(folder: Path) -> RegistryStore:
    """Open an empty registry in that folder."""
    layout = Layout(folder)
    layout.links_db.parent.mkdir(parents=True, exist_ok=True)
    layout.links_db.write_bytes(_empty())
    return open_registry(layout)


class KeepingArchive:
    """An archive that keeps what it takes."""

    def __init__(self) -> None:
        self.taken: list[DueLink] = []
        self.captured: dict[str, datetime] = {}
        self.is_away = False

    async def archived(self, urls: Sequence[str], since: datetime) -> Collection[str]:
        """Return those of the URLs that were captured since then."""
        return {url for url in urls if self.captured.get(url, START.min.replace(tzinfo=UTC)) >= since}

    async def take(self, urls: Sequence[DueLink]) -> None:
        """Keep them."""
        if self.is_away:
            raise TransientError("The frontier does not answer.")
        self.taken += urls


class FedRegistry:
    """A registry that is fed by one wiki.

    Attributes:
        archive: what was archived.
        clock: ours.
        address: of the wiki's api.php.
        api_settings: limits of its requests.
    """

    def __init__(self, store: RegistryStore, wiki: Wiki, api: str, *, attempts: int = 4) -> None:
        self.store = store
        self.wiki = wiki
        self.archive = KeepingArchive()
        self.clock = ManualClock(datetime.now(UTC))
        self.holder = "test"
        self.address = api
        self.api_settings = ApiSettings(gap_s=0, attempts=attempts)

    def set(self, **feed: Any) -> None:
        """Change the settings of the feed."""
        with self.store.writing() as rows:
            self.wiki = change_wiki(rows, self.wiki, settings={"feed": feed})

    def run(self, action: Callable[[WikiFeed], Coroutine[Any, Any, Any]]) -> Any:
        """Do something with a feeder that restarts, as after a crash."""

        async def begin() -> Any:
            async with (
                WikiApi(self.address, settings=self.api_settings) as api,
                WikibaseRepository(api, lambda address: WikiApi(address, settings=self.api_settings)) as items,
            ):
                shared = SyncServices(self.store, self.archive, self.clock, self.holder, citation_readers(self.clock))
                return await action(WikiFeed(self.wiki, WikiSource(api, items), shared))

        return asyncio.run(begin())

    def rounds(self, **how: Any) -> list[FeedRound]:
        """Run rounds until there is nothing more to do."""

        async def until_done(feed: WikiFeed) -> list[FeedRound]:
            done = [await feed.round(is_notified=True, **how)]
            while done[-1].is_busy:
                done.append(await feed.round(**how))
            return done

        rounds: list[FeedRound] = self.run(until_done)
        return rounds

    def settle(self) -> list[FeedRound]:
        """Advance the clock by 30 s and run rounds: saved pages are read a second time."""
        self.clock.advance(seconds=30)
        return self.rounds(sweeps=False)

    def taken(self, page_id: int) -> list[str]:
        """Return the URLs archived for a page, in order; the archive may also have those of earlier tests' pages."""
        return [each.url for each in self.archive.taken if each.page_id == page_id]

    def links(self, page_id: int) -> list[str]:
        """Return the URLs that a page has in the registry, sorted."""
        page = number_of(self.wiki.id, page_id)
        with self.store.reading() as rows:
            references = rows.execute(select(refs.c.url_id).where(refs.c.page == page, refs.c.gone_day.is_(None)))
            ids = [row[0] for row in references]
            return sorted(row.url for row in urls_by_id(rows, ids).values())

    def title(self, page_id: int) -> str | None:
        """Return a page's title in the registry; None when the registry does not know the page."""
        with self.store.reading() as rows:
            return rows.execute(
                select(pages.c.title).where(pages.c.id == number_of(self.wiki.id, page_id))
            ).scalar_one_or_none()


@pytest.fixture
def fed(wiki: RunningWiki, tmp_path: Path) -> Iterator[FedRegistry]:
    """Yield a registry whose feed has just begun; no sweep yet."""
    store = opened(tmp_path)
    with store.writing() as rows:
        known = ensure_wiki(rows, parse_wiki("testwiki"), day=0)
        known = change_wiki(rows, known, url=wiki.api())
    made = FedRegistry(store, known, wiki.api())
    made.rounds(sweeps=False)
    yield made
    store.close()
