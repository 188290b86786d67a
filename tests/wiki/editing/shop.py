"""A registry and a bot for a real wiki, with a clock of their own."""

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from sqlalchemy import update

from links.archives.adapters import Copy
from links.archives.copies import put
from links.archives.looking import Seen, Sight
from links.books.edits import Edit, newest_edits
from links.books.pages import PageName, PutPage, put_pages
from links.books.urls import find_urls
from links.books.wikis import Wiki, WikiName, change_wiki, ensure_wiki, wiki_of
from links.days import day_of
from links.reporters import Reporters
from links.sorting import Sort, Sorted
from links.states import State
from links.status import Code
from links.store.schema import urls
from links.store.store import Store
from tests.wiki.writing import BOT_SECRET, Writer
from wiki.api.account import Account
from wiki.api.client import Api, Manners
from wiki.api.client import Timing as ApiTiming
from wiki.editing.acting import Outcome
from wiki.editing.crafts import Craft
from wiki.editing.deciding import Choosing
from wiki.editing.guarding import Timing
from wiki.editing.running import Bot, Makers, Tally, Wish, new_job
from wiki.editing.wikitexts import Kit
from wiki.settings import BotSettings, WikiSettings
from wiki.wikitext.rules import rules_for

ARCHIVE = "https://web.archive.org/web/20250310000000/"
STAMP = "20250310000000"
DIED = timedelta(days=60)
_RULES = rules_for("en")
_NUMBERS = count(1)


class ShopClock:
    """The real time, and as much more as tests let pass."""

    def __init__(self) -> None:
        self.passed = timedelta()
        self._start = datetime.now(UTC)

    def now(self) -> datetime:
        """The moment."""
        return datetime.now(UTC) + self.passed

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return (self.now() - self._start).total_seconds()

    async def sleep(self, seconds: float) -> None:
        """Let so long pass at once."""
        self.passed += timedelta(seconds=seconds)


@dataclass
class Sights:
    """What is seen of copies: those of the archives are there; nobody is asked about others.

    Attributes:
        asked: the addresses that were to be cited.
        cited_as: what is seen at an address; GOOD at all others.
        standing_as: the same of addresses that pages have; UNCLEAR at all others.
    """

    asked: list[str] = field(default_factory=list)
    cited_as: dict[str, Sight] = field(default_factory=dict)
    standing_as: dict[str, Sight] = field(default_factory=dict)

    async def cited(self, address: str, url: str) -> Seen:
        """What is seen."""
        del url
        self.asked.append(address)
        return Seen(self.cited_as.get(address, Sight.GOOD))

    async def standing(self, address: str, url: str) -> Seen:
        """The same."""
        del url
        return Seen(self.standing_as.get(address, Sight.UNCLEAR))


@dataclass
class Shop:
    """What a test needs to let the bot work.

    Attributes:
        slept: how long the bot wanted to wait, each time.
        step: told of each step; a test may raise there.
    """

    store: Store
    wiki: Wiki
    writer: Writer
    login: str
    clock: ShopClock = field(default_factory=ShopClock)
    step: Callable[[str], None] = lambda _name: None
    craft: Callable[[Craft], Craft] = lambda craft: craft
    slept: list[float] = field(default_factory=list)
    sights: Sights = field(default_factory=Sights)

    def page(self, text: str, states: Mapping[str, State], *, title: str = "") -> tuple[str, int]:
        """Write a page whose links are in these states: its title and number."""
        title = title or f"Mended {next(_NUMBERS)}"
        page_id, _ = self.writer.write(title, text)
        self.know(title, page_id, states)
        return title, page_id

    def know(self, title: str, page_id: int, states: Mapping[str, State]) -> None:
        """Let the registry know the page's links."""
        links = tuple(Sorted(url, Sort.WATCHED, url) for url in states)
        day = day_of(self.clock.now() - timedelta(days=200))
        with self.store.writing() as rows:
            put_pages(rows, self.wiki.id, [PutPage(PageName(page_id, title), links)], day=day)
        for url, state in states.items():
            self.turn(url, state)

    def turn(self, url: str, state: State, *, code: int = Code.NOT_FOUND) -> None:
        """Let a link be in a state, looked at today; a lost one since two months."""
        today = day_of(self.clock.now())
        is_lost = state in (State.DEAD, State.USURPED)
        died = day_of(self.clock.now() - DIED) if is_lost else None
        with self.store.writing() as rows:
            number = find_urls(rows, [url])[url].id
            values = {
                "state": int(state),
                "code": int(code),
                "checked_day": today,
                "first_fail_day": died,
                "due_day": today + 7,
            }
            rows.execute(update(urls).where(urls.c.id == number).values(values))

    def give_copy(
        self, url: str, timestamp: str = STAMP, *, service: str = "wayback", address: str = ""
    ) -> str:
        """Let an archive have a copy of the link: its address."""
        address = address or f"https://web.archive.org/web/{timestamp}/{url}"
        with self.store.writing() as rows:
            number = find_urls(rows, [url])[url].id
            put(rows, number, [Copy(service, address, timestamp, 200)], day_of(self.clock.now()))
        return address

    def set(self, **values: Any) -> None:
        """Change the bot's settings."""
        with self.store.writing() as rows:
            wiki = wiki_of(rows, self.wiki.id)
            there = WikiSettings.parse(wiki.settings)
            made = replace(there, bot=replace(there.bot, **values))
            change_wiki(rows, wiki, settings=made.merged_into(wiki.settings))

    async def run(self, *titles: str, **wish: Any) -> tuple[Tally, list[Outcome | Edit]]:
        """Let the bot run on these pages: what it did, and what it told."""
        told: list[Outcome | Edit] = []
        async with self.bot() as bot:
            tally = await bot.run(Wish(titles, **wish), told=told.append)
        return tally, told

    async def look_back(self) -> Tally:
        """Let the bot look what became of its edits."""
        async with self.bot() as bot:
            return await bot.look_back()

    @asynccontextmanager
    async def bot(self, *, address: str = "") -> AsyncIterator[Bot]:
        """A bot, logged in."""
        timing = ApiTiming(clock=self.clock, sleep=self.clock.sleep)
        manners = Manners(gap_s=0.0)
        account = Account(self.login, BOT_SECRET)
        async with Api(address or self.writer.api, account, manners=manners, timing=timing) as api:
            makers = Makers(
                self._craft,
                lambda now, _settings: Choosing(now),
                self.sights,
                Reporters(b"k" * 32),
                self.step,
            )
            job = new_job(self.clock.now(), random.Random(next(_NUMBERS)))
            yield Bot(self.store, api, self.wiki, makers, Timing(self.clock, self._sleep), job=job)

    def text(self, title: str) -> str:
        """The page's text now."""
        told = self.writer.ask(
            action="query", titles=title, prop="revisions", rvprop="content|user", rvslots="main"
        )
        revision = told["query"]["pages"][0]["revisions"][0]
        content: str = revision["slots"]["main"]["content"]
        return content

    def revisions(self, title: str) -> list[dict[str, Any]]:
        """The page's history, the newest first."""
        told = self.writer.ask(
            action="query",
            titles=title,
            prop="revisions",
            rvprop="ids|user|comment|flags|tags",
            rvlimit=50,
        )
        found: list[dict[str, Any]] = told["query"]["pages"][0]["revisions"]
        return found

    def edits(self) -> list[Edit]:
        """What the book has, the newest first."""
        with self.store.reading() as rows:
            return newest_edits(rows, self.wiki.id, limit=500)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self.clock.sleep(seconds)

    def _craft(self, now: datetime, settings: BotSettings) -> Craft:
        return self.craft(Kit(_RULES, _RULES).craft(settings, now))


def open_shop(store: Store, writer: Writer, login: str) -> Shop:
    """A registry that knows the wiki, with the bot switched on."""
    with store.writing() as rows:
        wiki = ensure_wiki(rows, WikiName("shop"), day=3_000)
        wiki = change_wiki(rows, wiki, url=writer.api)
    shop = Shop(store, wiki, writer, login)
    shop.set(enabled=True, account=login, password_file="/secret", edits_per_minute=600.0)
    return shop
