"""Several wikis watched by one process: each alone with its troubles, all ended together."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.errors import InputError
from links.registry.database import RegistryStore
from links.registry.pages import find_pages
from links.registry.wikis import Wiki, WikiName, change_wiki, ensure_wiki, feeds_of, parse_wiki
from tests.wiki.sync.conftest import KeepingArchive, opened
from tests.wiki.sync.model import ModelWiki
from wiki.api.models import LoggedOutError, ReadOnlyError, ThrottledError
from wiki.sync import wiki_watcher
from wiki.sync.feed_context import SyncServices
from wiki.sync.wiki_feed import FeedRound, WikiFeed
from wiki.sync.wiki_source import WikiSource
from wiki.sync.wiki_watcher import WatcherReport, WikiWatcher, order_sweep, select_wikis


class ServedFarm:
    """Wikis in memory, a registry, and what a watch told."""

    def __init__(self, store: RegistryStore) -> None:
        self.store = store
        self.models: dict[WikiName, ModelWiki] = {}
        self.opened: list[str] = []
        self.archive = KeepingArchive()
        self.reports: list[WatcherReport] = []
        self.has_reported = asyncio.Event()

    def add(self, name: str) -> ModelWiki:
        """Add a wiki; it is polled once an hour, far less often than real ones."""
        with self.store.writing() as rows:
            wiki = ensure_wiki(rows, parse_wiki(name), day=0)
            url = f"https://{name}.net/api.php"
            wiki = change_wiki(rows, wiki, url=url, settings={"feed": {"poll_s": 3600}})
        self.models[wiki.name] = ModelWiki(at_once=50)
        return self.models[wiki.name]

    @asynccontextmanager
    async def open(self, wiki: Wiki) -> AsyncIterator[WikiSource]:
        """Yield a wiki's source."""
        self.opened.append(wiki.name.dbname)
        yield self.models[wiki.name]

    def tell(self, report: WatcherReport) -> None:
        """Note it."""
        self.reports.append(report)
        self.has_reported.set()

    def watch(self, *names: str, holder: str = "test") -> WikiWatcher:
        """Return a watcher of these wikis."""
        shared = SyncServices(self.store, self.archive, SystemClock(), holder)
        wanted = [parse_wiki(name) for name in names]
        return WikiWatcher(shared, self.open, names=wanted, on_report=self.tell)

    async def until(self, what: str) -> None:
        """Wait until a URL was archived, or a trouble was told."""
        async with asyncio.timeout(120):
            while not any(each.url == what for each in self.archive.taken) and not any(
                what in each.trouble for each in self.reports
            ):
                self.has_reported.clear()
                await self.has_reported.wait()


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[ServedFarm]:
    """Yield a farm without wikis."""
    store = opened(tmp_path)
    yield ServedFarm(store)
    store.close()


@pytest.mark.slow
def test_a_bell_brings_a_save_on_at_once(farm: ServedFarm) -> None:
    """Long before the next poll; pages that are named are looked at without any change noted."""

    async def story() -> None:
        model = farm.add("onewiki")
        watch, stop = farm.watch(), asyncio.Event()
        model.edit("A", "https://first.net/")
        running = asyncio.create_task(watch.run(stop))
        await farm.until("https://first.net/")

        model.edit("A", "https://second.net/")
        assert watch.notify("onewiki", None)
        await farm.until("https://second.net/")

        page_id = model.edit("B", "https://third.net/")
        model.log.clear()
        assert watch.notify("onewiki", "WMF", (page_id,))
        await farm.until("https://third.net/")
        assert not watch.notify("onewiki", "other")
        stop.set()
        await running

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble",
    [
        ReadOnlyError("The wiki is read-only.", retry_s=1),
        ThrottledError("The wiki is too busy."),
        LoggedOutError("The account is not taken."),
        ValueError("a mistake of our own"),
    ],
    ids=["read-only", "throttled", "logged-out", "mistake"],
)
def test_a_wiki_in_trouble_keeps_no_other_waiting(
    farm: ServedFarm, trouble: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits, tells why, and goes on when it can; meanwhile the others are fed."""
    monkeypatch.setattr(wiki_watcher, "FIRST_BACK_OFF_S", 0.05)
    monkeypatch.setattr(wiki_watcher, "TROUBLE_RETRY_S", 0.05)

    async def story() -> str:
        bad, good = farm.add("badwiki"), farm.add("goodwiki")
        bad.edit("A", "https://bad.net/")
        good.edit("A", "https://good.net/")
        bad.trouble = [trouble] * 3
        stop = asyncio.Event()
        running = asyncio.create_task(farm.watch().run(stop))
        await farm.until("https://good.net/")
        await farm.until(str(trouble) if not isinstance(trouble, ValueError) else "ValueError")
        bad.trouble.clear()
        await farm.until("https://bad.net/")
        stop.set()
        await running
        with farm.store.snapshot() as reader:
            return feeds_of(reader, select_wikis(farm.store, [])[0].id)["changes"].trouble

    assert asyncio.run(story()) == ""


def test_the_trouble_of_a_wiki_stands_in_the_registry(farm: ServedFarm) -> None:
    """For whoever asks what is wrong; `once` says that not all is well."""
    model = farm.add("onewiki")
    model.trouble = [LoggedOutError("The account is not taken.")]

    assert not asyncio.run(farm.watch().once())

    (wiki,) = select_wikis(farm.store, [])
    with farm.store.snapshot() as reader:
        assert feeds_of(reader, wiki.id)["changes"].trouble == "The account is not taken."


def test_once_does_all_there_is_to_do(farm: ServedFarm) -> None:
    """For cron: changes, the sweep, links that are due, of every wiki; then it lets go of them."""
    for name in ("onewiki", "twowiki"):
        farm.add(name).edit("A", f"https://by-{name}.net/")

    assert asyncio.run(farm.watch().once())
    assert asyncio.run(farm.watch(holder="another").once())

    taken = {each.url for each in farm.archive.taken}
    assert taken == {"https://by-onewiki.net/", "https://by-twowiki.net/"}


def test_internal_error_over_one_wiki_ends_no_other(farm: ServedFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its trouble is told and stands in the registry; what it has is done the next time."""
    for name in ("onewiki", "twowiki"):
        farm.add(name).edit("A", f"https://by-{name}.net/")
    round_, errors = WikiFeed.round, [OverflowError("int too large")]

    async def faulty(self: WikiFeed, **options: Any) -> FeedRound:
        if errors:
            raise errors.pop()
        return await round_(self, **options)

    monkeypatch.setattr(WikiFeed, "round", faulty)
    is_well = asyncio.run(farm.watch().once())

    assert not is_well
    assert {each.url for each in farm.archive.taken} == {"https://by-twowiki.net/"}
    assert ["OverflowError" in each.trouble for each in farm.reports if each.trouble] == [True]
    assert asyncio.run(farm.watch().once())
    assert "https://by-onewiki.net/" in {each.url for each in farm.archive.taken}


def test_a_wiki_that_is_added_later_is_watched(farm: ServedFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without names all wikis are meant, those to come as well."""
    monkeypatch.setattr(wiki_watcher, "NEW_WIKIS_S", 0.05)

    async def story() -> None:
        farm.add("onewiki").edit("A", "https://one.net/")
        stop = asyncio.Event()
        running = asyncio.create_task(farm.watch().run(stop))
        await farm.until("https://one.net/")
        farm.add("twowiki").edit("A", "https://two.net/")
        await farm.until("https://two.net/")
        stop.set()
        await running

    asyncio.run(story())


def test_only_named_wikis_are_watched(farm: ServedFarm) -> None:
    """Others are not even opened."""
    for name in ("onewiki", "twowiki"):
        farm.add(name)

    asyncio.run(farm.watch("twowiki").once())

    assert farm.opened == ["twowiki"]


def test_a_wiki_that_is_not_known_is_told(farm: ServedFarm) -> None:
    """With those that are."""
    farm.add("onewiki")

    with pytest.raises(InputError, match="onewiki@WMF"):
        asyncio.run(farm.watch("nowiki").once())


def test_a_wiki_is_opened_again_when_its_address_changes(farm: ServedFarm) -> None:
    """Settings that decide how a wiki is asked hold without a restart."""

    async def story() -> None:
        model = farm.add("onewiki")
        model.edit("A", "https://one.net/")
        watch, stop = farm.watch(), asyncio.Event()
        running = asyncio.create_task(watch.run(stop))
        await farm.until("https://one.net/")
        (wiki,) = select_wikis(farm.store, [])
        with farm.store.writing() as rows:
            change_wiki(rows, wiki, url="https://moved.net/api.php")
        model.edit("B", "https://two.net/")
        watch.notify("onewiki", None)
        await farm.until("https://two.net/")
        model.edit("C", "https://three.net/")
        watch.notify("onewiki", None)
        await farm.until("https://three.net/")
        stop.set()
        await running

    asyncio.run(story())
    assert farm.opened == ["onewiki", "onewiki"]


def test_a_sweep_can_be_asked_of_a_watch(farm: ServedFarm) -> None:
    """Whoever feeds the wiki sweeps it with its next round; one that is at work is left alone."""
    model = farm.add("onewiki")
    model.edit("A", "https://one.net/")
    asyncio.run(farm.watch().once())
    (wiki,) = select_wikis(farm.store, [])
    model.log.clear()
    page_id = model.edit("B", "https://two.net/")
    model.log.clear()

    assert order_sweep(farm.store, wiki, now=SystemClock().now())
    assert not order_sweep(farm.store, wiki, now=SystemClock().now())
    asyncio.run(farm.watch().once())

    with farm.store.snapshot() as reader:
        assert find_pages(reader, wiki.id, [page_id])
