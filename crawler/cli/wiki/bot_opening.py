"""What the commands of `weboid wiki bot` open: a wiki by its name, its API as the bot, our own captures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from core.clock import SystemClock
from core.errors import InputError
from core.layout import Layout
from core.settings import Settings
from crawler.cli.links.archives_asked import OwnCaptures, opened_captures
from crawler.cli.where import Where
from crawler.cli.wiki.opening import account_of, api_at, settings_of_wiki
from links.books.looking import links_of_wiki
from links.books.urls import urls_by_id
from links.books.wikis import Wiki, all_wikis, known_wiki, parse_wiki
from links.store.store import Store
from wiki.api.account import read_account
from wiki.api.client import Api
from wiki.editing.deciding import LOST
from wiki.settings import BotSettings

CLOCK = SystemClock()
_COUNTED: Final = 1_000  # lost links that are looked through for copies of ours


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


@contextmanager
def own_captures(layout: Layout, url: str, bot: BotSettings) -> Iterator[OwnCaptures | None]:
    """Open our own captures; None when the settings do not say where readers find them."""
    if not bot.front:
        yield None
        return
    with opened_captures(layout, url, bot.front) as own:
        yield own


def front_origin(front: str | None) -> str | None:
    """Return what `--front` says: an origin; empty for ``-``, nowhere; None when it was not given.

    Raises:
        InputError: it is no origin.
    """
    if front is None or front == "-":
        return None if front is None else ""
    parts = urlsplit(front)
    if (
        parts.scheme not in ("http", "https")
        or not parts.netloc
        or parts.path.strip("/")
        or parts.query
    ):
        raise InputError(f"{front[:200]!r} is no origin, such as https://archive.example.org.")
    return f"{parts.scheme}://{parts.netloc}"


def source_warnings(store: Store, where: Where, wiki: Wiki, bot: BotSettings) -> list[str]:
    """Return what is to be said of where the bot takes copies from.

    Raises:
        InputError: from nowhere: every edit would say that no copy exists, whatever exists.
    """
    if bot.front:
        return []
    here = _lost_with_copies(store, where, wiki)
    way = (
        f"`weboid wiki bot on {wiki.name} --front ORIGIN` names it (with `run --dry-run`: --front)"
    )
    if not where.settings.links.archives:
        known = f"{here}, but no public address is known. " if here else ""
        raise InputError(
            f"{known}The bot needs copies to cite on {wiki.name}: our own, at the address of the front"
            f" that readers reach ({way}), or those of other archives ([links] archives in the profile)."
        )
    return (
        [f"{here}, but no public address is known, so they are not cited: {way}."] if here else []
    )


def _lost_with_copies(store: Store, where: Where, wiki: Wiki) -> str:
    """Return in words how many of the wiki's lost links have a good copy here; empty: none."""
    states = [int(each) for each in LOST]
    with store.reading() as rows:
        uses = links_of_wiki(rows, wiki, limit=_COUNTED, states=states)
        lost = [row.url for row in urls_by_id(rows, {use.url_id for use in uses}).values()]
    with opened_captures(where.layout, where.settings.index.url, "") as own:
        count = sum(own(url, None) is not None for url in lost)
    if not count:
        return ""
    least = "at least " if len(uses) == _COUNTED else ""
    return f"{least}{count:,} dead link{' has' if count == 1 else 's have'} a copy here"
