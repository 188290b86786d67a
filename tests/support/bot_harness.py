"""A registry and a bot for a real wiki, with a clock of their own."""

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from sqlalchemy import update

from links.archives.archive_answers import ArchiveMemento
from links.archives.archive_client import ArchiveClient
from links.archives.copy_check import CopyCheckResult, CopyVerdict
from links.archives.copy_store import put_copies
from links.check_history import day_of
from links.check_result import StatusCode
from links.feedback.reporter_limits import ReporterDigests
from links.registry.bot_edits import BotEdit, newest_edits
from links.registry.database import RegistryStore
from links.registry.pages import PageName, PutPage, put_pages
from links.registry.schema import urls
from links.registry.urls import find_urls
from links.registry.wikis import Wiki, WikiName, change_wiki, ensure_wiki, wiki_of
from links.rules.link_class import ClassifiedLink, LinkClass
from links.states import LinkState
from tests.support.clocks import ShiftedClock
from tests.support.wiki_writer import BOT_SECRET, WikiWriter
from wiki.api.client import ApiSettings, ApiTiming, WikiApi
from wiki.api.credentials import WikiCredentials
from wiki.bot.page_edit import PageEditResult
from wiki.bot.remedies import CopyChecker, CopyPreferences
from wiki.bot.wiki_bot import BotDependencies, BotOptions, BotRunSummary, WikiBot, new_job_name
from wiki.bot.wikitext_adapter import PageAdapter
from wiki.settings import BotSettings, WikiSettings
from wiki.wikitext.template_map import rules_for

ARCHIVE = "https://web.archive.org/web/20250310000000/"
STAMP = "20250310000000"
DIED = timedelta(days=60)
_RULES = rules_for("en")
_NUMBERS = count(1)


class AdvancingClock(ShiftedClock):
    """Running clock that sleeps by moving forward; monotonic seconds move, too."""

    def monotonic(self) -> float:
        """Return the moved seconds."""
        return super().monotonic() + self.offset.total_seconds()

    async def sleep(self, seconds: float) -> None:
        """Move the clock instead of waiting."""
        self.offset += timedelta(seconds=seconds)


@dataclass
class FixedCopyChecker(CopyChecker):
    """Checker that finds copies of the archives and asks nobody about others.

    Attributes:
        addresses: the addresses that were to be cited.
        cited_as: what is seen at an address; GOOD at all others.
        standing_as: the same of addresses that pages have; UNCLEAR at all others.
    """

    client: ArchiveClient = field(init=False, repr=False)  # nobody is asked
    addresses: list[str] = field(default_factory=list)
    cited_as: dict[str, CopyVerdict] = field(default_factory=dict)
    standing_as: dict[str, CopyVerdict] = field(default_factory=dict)

    async def cited(self, address: str, url: str) -> CopyCheckResult:
        """Record the address; return its verdict in `cited_as`, GOOD by default."""
        del url
        self.addresses.append(address)
        return CopyCheckResult(self.cited_as.get(address, CopyVerdict.GOOD))

    async def standing(self, address: str, url: str) -> CopyCheckResult:
        """Return the address's verdict in `standing_as`, UNCLEAR by default."""
        del url
        return CopyCheckResult(self.standing_as.get(address, CopyVerdict.UNCLEAR))


@dataclass
class BotHarness:
    """Registry, wiki, clock and settings with which a test lets the bot work.

    Attributes:
        slept: how long the bot wanted to wait, each time.
        step: told of each step; a test may raise there.
    """

    store: RegistryStore
    wiki: Wiki
    writer: WikiWriter
    login: str
    clock: AdvancingClock = field(default_factory=AdvancingClock)
    step: Callable[[str], None] = lambda _name: None
    adapter: Callable[[PageAdapter], PageAdapter] = lambda adapter: adapter
    slept: list[float] = field(default_factory=list)
    sights: FixedCopyChecker = field(default_factory=FixedCopyChecker)
    _apis: dict[str, WikiApi] = field(default_factory=dict)
    _open_apis: AsyncExitStack = field(default_factory=AsyncExitStack)

    def page(self, text: str, states: Mapping[str, LinkState], *, title: str = "") -> tuple[str, int]:
        """Write a page whose links are in these states: its title and number."""
        title = title or f"Mended {next(_NUMBERS)}"
        page_id, _ = self.writer.write(title, text)
        self.know(title, page_id, states)
        return title, page_id

    def know(self, title: str, page_id: int, states: Mapping[str, LinkState]) -> None:
        """Let the registry know the page's links."""
        links = tuple(ClassifiedLink(url, LinkClass.WATCHED, url) for url in states)
        day = day_of(self.clock.now() - timedelta(days=200))
        with self.store.writing() as rows:
            put_pages(rows, self.wiki.id, [PutPage(PageName(page_id, title), links)], day=day)
        for url, state in states.items():
            self.turn(url, state)

    def turn(self, url: str, state: LinkState, *, code: int = StatusCode.NOT_FOUND) -> None:
        """Set a link's state, checked today; a lost link failed first `DIED` ago."""
        today = day_of(self.clock.now())
        is_lost = state in (LinkState.DEAD, LinkState.USURPED)
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

    def give_copy(self, url: str, timestamp: str = STAMP, *, service: str = "wayback", address: str = "") -> str:
        """Store an archive's copy of the link; return its address."""
        address = address or f"https://web.archive.org/web/{timestamp}/{url}"
        with self.store.writing() as rows:
            number = find_urls(rows, [url])[url].id
            put_copies(rows, number, [ArchiveMemento(service, address, timestamp, 200)], day_of(self.clock.now()))
        return address

    def set(self, **values: Any) -> None:
        """Change the bot's settings."""
        with self.store.writing() as rows:
            wiki = wiki_of(rows, self.wiki.id)
            there = WikiSettings.parse(wiki.settings)
            made = replace(there, bot=replace(there.bot, **values))
            change_wiki(rows, wiki, settings=made.merged_into(wiki.settings))

    async def run(self, *titles: str, **run_options: Any) -> tuple[BotRunSummary, list[PageEditResult | BotEdit]]:
        """Run the bot on these pages; return its summary and the results that it reported."""
        reports: list[PageEditResult | BotEdit] = []
        async with self.bot() as bot:
            bot.on_result, bot.run_options = reports.append, BotOptions(titles, **run_options)
            tally = await bot.run()
        return tally, reports

    async def look_back(self) -> BotRunSummary:
        """Let the bot check what became of its edits."""
        async with self.bot() as bot:
            return await bot.look_back()

    @asynccontextmanager
    async def bot(self, *, address: str = "") -> AsyncIterator[WikiBot]:
        """Yield a bot; it stays logged in from one run of a test to the next."""
        address = address or self.writer.api
        if address not in self._apis:
            api = WikiApi(
                address,
                WikiCredentials(self.login, BOT_SECRET),
                settings=ApiSettings(gap_s=0.0),
                timing=ApiTiming(clock=self.clock, sleep=self.clock.sleep),
            )
            self._apis[address] = await self._open_apis.enter_async_context(api)
        makers = BotDependencies(
            self._adapter, CopyPreferences(self.clock.now()), self.sights, ReporterDigests(b"k" * 32), self.step
        )
        job = new_job_name(self.clock.now(), random.Random(next(_NUMBERS)))
        timing = ApiTiming(self.clock, self._sleep)
        yield WikiBot(self.store, self._apis[address], self.wiki, makers, timing, job)

    async def close(self) -> None:
        """Log out."""
        await self._open_apis.aclose()

    def text(self, title: str) -> str:
        """Return the page's current text."""
        reply = self.writer.ask(action="query", titles=title, prop="revisions", rvprop="content|user", rvslots="main")
        revision = reply["query"]["pages"][0]["revisions"][0]
        content: str = revision["slots"]["main"]["content"]
        return content

    def revisions(self, title: str) -> list[dict[str, Any]]:
        """Return the page's latest 50 revisions, newest first."""
        reply = self.writer.ask(
            action="query", titles=title, prop="revisions", rvprop="ids|user|comment|flags|tags", rvlimit=50
        )
        revisions: list[dict[str, Any]] = reply["query"]["pages"][0]["revisions"]
        return revisions

    def edits(self) -> list[BotEdit]:
        """Return the wiki's bot edits in the registry, newest first."""
        with self.store.reading() as rows:
            return newest_edits(rows, self.wiki.id, limit=500)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self.clock.sleep(seconds)

    def _adapter(self, settings: BotSettings, now: datetime) -> PageAdapter:
        return self.adapter(PageAdapter(_RULES, _RULES).with_settings(settings, now))


def open_bot_harness(store: RegistryStore, writer: WikiWriter, login: str) -> BotHarness:
    """Add the wiki to the registry, with the bot switched on; return its harness."""
    with store.writing() as rows:
        wiki = ensure_wiki(rows, WikiName("shop"), day=3_000)
        wiki = change_wiki(rows, wiki, url=writer.api)
    harness = BotHarness(store, wiki, writer, login)
    harness.set(enabled=True, account=login, password_file="/secret", edits_per_minute=600.0)
    return harness
