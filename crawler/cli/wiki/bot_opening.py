"""What the commands of `weboid wiki bot` open: a wiki by its name, its API as the bot, our own captures."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from core.clock import SystemClock
from core.errors import InputError
from core.layout import Layout
from core.settings import Settings
from crawler.cli.wiki.opening import account_of, api_at, settings_of_wiki
from links.archives.adapters import Copy
from links.archives.services import WEBOID
from links.books.wikis import Wiki, all_wikis, known_wiki, parse_wiki
from links.store.store import Store
from playback.addresses import page_path
from playback.database import open_database
from playback.decisions.store import open_decisions
from playback.front.pages import PageStore
from playback.permits import Permits, TakenDownError
from wiki.api.account import read_account
from wiki.api.client import Api
from wiki.settings import BotSettings

CLOCK = SystemClock()


def wiki_named(store: Store, name: str) -> Wiki:
    """The wiki of that name; without a name the only one whose API is known.

    Raises:
        InputError: there is none, or several and none was named.
    """
    with store.reading() as rows:
        if name:
            return known_wiki(rows, parse_wiki(name))
        there = [wiki for wiki in all_wikis(rows) if wiki.url]
    if len(there) == 1:
        return there[0]
    if not there:
        raise InputError("No wiki is known: `weboid wiki add URL` adds one.")
    names = ", ".join(str(wiki.name) for wiki in there[:20])
    raise InputError(f"Several wikis are known; name one: {names}.")


def wikis_with_bot(store: Store) -> list[Wiki]:
    """The wikis that have their bot switched on."""
    with store.reading() as rows:
        there = [wiki for wiki in all_wikis(rows) if wiki.url]
    return [wiki for wiki in there if settings_of_wiki(wiki).bot.enabled]


def bot_api(wiki: Wiki, settings: Settings, *, needs_account: bool = True) -> Api:
    """The wiki's API, asked as the bot.

    Args:
        wiki: which.
        settings: of this machine.
        needs_account: without one of the bot's own the wiki is asked as its feed asks it.

    Raises:
        ConfigError: a setting cannot be used, or the file of the password.
        InputError: nobody said where the wiki is.
    """
    said = settings_of_wiki(wiki)
    if not wiki.url:
        raise InputError(f"Nobody said where {wiki.name} is: `weboid wiki add URL`.")
    bot = said.bot
    if bot.account and bot.password_file:
        basic = Path(said.feed.basic_file) if said.feed.basic_file else None
        account = read_account(bot.account, Path(bot.password_file), basic_file=basic)
    elif needs_account:
        raise InputError(
            f"The bot has no account on {wiki.name}: `weboid wiki bot on {wiki.name} --account USER@APP"
            " --password-file FILE`. It is never another account's."
        )
    else:
        account = account_of(said.feed)
    return api_at(wiki.url, account, settings, maxlag_s=bot.maxlag_s)


@dataclass
class OwnPages:
    """Our own captures, as copies that a wiki may cite; their titles for references that have none."""

    store: PageStore
    front: str
    titles: dict[str, str] = field(default_factory=dict)

    def nearest(self, url: str, at: datetime | None) -> Copy | None:
        """The good capture nearest to the moment; None without one."""
        try:
            found = self.store.nearest(url, at, exact=False)
        except TakenDownError:
            return None
        if found is None or found.rank or found.taken_down is not None:
            return None
        address = f"{self.front}{page_path(found.timestamp, found.url)}"
        self.titles[address] = found.title
        return Copy(WEBOID, address, found.timestamp, found.status, found.mime or "")

    def title(self, copy: Copy) -> str:
        """The title of a copy that was found here; empty for others."""
        return self.titles.get(copy.address, "")


@contextmanager
def own_pages(layout: Layout, url: str, bot: BotSettings) -> Iterator[OwnPages | None]:
    """Our own captures; None when the settings do not say where readers find them."""
    if not bot.front:
        yield None
        return
    with (
        closing(open_database(layout, url)) as database,
        closing(open_decisions(layout, url)) as decisions,
    ):
        store = PageStore(database, Permits(decisions, database.rows, CLOCK.now))
        yield OwnPages(store, bot.front.rstrip("/"))
