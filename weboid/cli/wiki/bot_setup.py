"""`weboid wiki bot on` and `off`, and the API client and own captures of the bot."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from core.config.settings import Settings
from core.errors import InputError
from links.registry.database import RegistryStore
from links.registry.lookups import links_of_wiki
from links.registry.urls import urls_by_id
from links.registry.wikis import Wiki, all_wikis, known_wiki, parse_wiki
from weboid.app.copy_sources import open_own_captures
from weboid.app.wiki.bot_run import change_bot, switch_parts
from weboid.app.wiki.wiki_clients import bot_api, settings_of_wiki
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import argument, cli_command, option, option_dict
from weboid.cli.support.options import counted, output
from wiki.api.edit_request import BotAccount, allows_run, read_bot_account
from wiki.api.page_query import read_text
from wiki.bot.remedies import LOST_STATES
from wiki.settings import TALK_MODES, BotSettings, WikiSettings, replace_settings

_COUNTED: Final = 1_000  # lost links that are searched for copies of our own


def choose_wiki(store: RegistryStore, name: str) -> Wiki:
    """Return the wiki of that name; without a name the only one whose API is known."""
    with store.reading() as rows:
        if name:
            return known_wiki(rows, parse_wiki(name))
        wikis = [wiki for wiki in all_wikis(rows) if wiki.url]
    if len(wikis) == 1:
        return wikis[0]
    if not wikis:
        raise InputError("No wiki is known: `weboid wiki add URL` adds one.")
    names = ", ".join(str(wiki.name) for wiki in wikis[:20])
    raise InputError(f"Several wikis are known; name one: {names}.")


def front_origin(front: str | None) -> str | None:
    """Parse `--front`: an origin; empty for ``-``, no front; None when it was not given."""
    if front is None or front == "-":
        return None if front is None else ""
    parts = urlsplit(front)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.query:
        raise InputError(f"{front[:200]!r} is not an origin such as https://archive.example.org.")
    return f"{parts.scheme}://{parts.netloc}"


def source_warnings(store: RegistryStore, where: CommandTarget, wiki: Wiki, bot: BotSettings) -> list[str]:
    """Return warnings about the bot's sources of copies."""
    if bot.front:
        return []
    here = _lost_with_copies(store, where, wiki)
    way = f"set it by `weboid wiki bot on {wiki.name} --front ORIGIN`, for a dry run by --front"
    if not where.settings.links.archives:
        known = f"{here}, but no public address is known. " if here else ""
        raise InputError(
            f"{known}The bot needs copies to cite on {wiki.name}: those of this archive, for which it needs the origin of"
            f" the reader pages ({way}), or those of other archives ([links] archives in weboid.toml)."
        )
    return [f"{here}, but no public address is known, so they are not cited: {way}."] if here else []


def _lost_with_copies(store: RegistryStore, where: CommandTarget, wiki: Wiki) -> str:
    """Return in words how many of the wiki's lost links have a good copy here; empty: none."""
    states = [int(each) for each in LOST_STATES]
    with store.reading() as rows:
        uses = links_of_wiki(rows, wiki, limit=_COUNTED, states=states)
        lost = [row.url for row in urls_by_id(rows, {use.url_id for use in uses}).values()]
    with open_own_captures(where.layout, where.settings.index.url, "") as own:
        count = sum(own(url, None) is not None for url in lost)
    if not count:
        return ""
    least = "at least " if len(uses) == _COUNTED else ""
    return f"{least}{count:,} dead link{' has' if count == 1 else 's have'} a copy here"


_SETTING_OPTIONS: dict[str, Any] = {
    "run_page": option("Edit only while the first line of this page is yes or run.", metavar="TITLE"),
    "edits_per_minute": option("Maximum number of edits per minute.", type=click.FloatRange(0.01, 600)),
    "talk": option("Post messages on talk pages: never, beside edits, or only messages, no edits.", choices=TALK_MODES),
    "convert_bare": option("Convert bare references to citations.", "--convert-bare/--keep-bare", default=None),
    "tag_dead": option("Tag dead links that have no copy.", "--tag-dead/--no-tag-dead", default=None),
    "mark": option("Mark edits with the bot flag.", "--mark/--no-mark", default=None),
}


@cli_command("on")
def on_command(
    *,
    name: str = argument("[NAME]", required=False, default=""),
    account: str | None = option("The bot's own account: name of a bot password.", metavar="USER@APP"),
    password_file: str | None = option("Its bot password, or an OAuth 2 token.", metavar="FILE"),
    values: dict[str, Any] = option_dict(_SETTING_OPTIONS),
    front: str | None = option("Public origin of our own copies; - for none.", metavar="ORIGIN"),
    pages: tuple[str, ...] = option("Only for this page.", "--page", metavar="TITLE"),
    domains: tuple[str, ...] = option("Only for links of this domain.", "--domain", metavar="HOST"),
    messages_read: bool = option("Confirm that messages on the bot's talk page were read; it does not edit before."),
    where: CommandTarget = TARGET,
) -> None:
    """Switch on the bot for a wiki, with an account of its own.

    The rights of the account are checked.

    Repeated, the given options change and the rest stays. Nothing is edited by this: `weboid wiki
    bot run --dry-run` shows the planned edits, `weboid wiki bot run` makes them.
    """
    if pages or domains:
        _switch(where, name, pages, domains, is_on=True)
        return
    if password_file:
        password_file = str(Path(password_file).expanduser().absolute())
    changes = {**values, "account": account, "password_file": password_file, "front": front_origin(front)}
    with where.stores.registry() as store:
        wiki = choose_wiki(store, name)
        settings = settings_of_wiki(wiki)
        bot = replace_settings(settings.bot, "bot", enabled=True, **changes)
        if not bot.account or not bot.password_file:
            raise InputError(
                "The bot needs an account of its own: create one on the wiki, log in with it, create a bot password "
                "at Special:BotPasswords, and give --account USER@APP --password-file FILE."
            )
        if bot.account == settings.feed.account and "@" not in bot.account:
            raise InputError("The bot needs its own account, not the one that reads the wiki.")
        merged = WikiSettings(settings.feed, bot, settings.templates).merged_into(wiki.settings)
        tried = wiki._replace(settings=json.dumps(merged, ensure_ascii=False))
        unsourced = source_warnings(store, where, wiki, bot)
        me, warnings = asyncio.run(_check_account(tried, bot, where.settings, is_read=messages_read))
        warnings += unsourced
        change_bot(store, wiki, bot)
    lines = [f"The bot may edit {wiki.name} as {me.name}.", *(f"- {warning}" for warning in warnings)]
    lines.append(f"`weboid wiki bot run {wiki.name} --dry-run` shows what it would do.")
    output.show({"wiki": str(wiki.name), "user": me.name, "warnings": warnings}, lines)


@cli_command("off")
def off_command(
    *,
    name: str = argument("[NAME]", required=False, default=""),
    pages: tuple[str, ...] = option("Only for this page.", "--page", metavar="TITLE"),
    domains: tuple[str, ...] = option("Only for links of this domain.", "--domain", metavar="HOST"),
    where: CommandTarget = TARGET,
) -> None:
    """Switch off the bot for a wiki, or for pages and domains of it.

    A run in progress follows at its next batch of pages. `on --page` and `on --domain` switch it on
    again; `weboid wiki bot show` lists the exclusions.
    """
    if pages or domains:
        _switch(where, name, pages, domains, is_on=False)
        return
    with where.stores.registry() as store:
        wiki = choose_wiki(store, name)
        change_bot(store, wiki, replace_settings(settings_of_wiki(wiki).bot, "bot", enabled=False))
    text = f"The bot no longer edits {wiki.name}. Its past edits stay, and are in `bot ls`."
    output.show({"wiki": str(wiki.name), "enabled": False}, text)


def _switch(where: CommandTarget, name: str, pages: Sequence[str], domains: Sequence[str], *, is_on: bool) -> None:
    """Switch the bot on or off for pages and domains of a wiki."""
    with where.stores.registry() as store:
        wiki = choose_wiki(store, name)
        bot = switch_parts(store, wiki, pages=pages, domains=domains, is_on=is_on)
    facts = {"wiki": str(wiki.name), "not_pages": bot.not_pages, "not_domains": bot.not_domains}
    pages_off, domains_off = counted(len(bot.not_pages), "page"), counted(len(bot.not_domains), "domain")
    output.show(facts, f"The bot skips {pages_off} and {domains_off}.")


async def _check_account(
    wiki: Wiki, bot: BotSettings, settings: Settings, *, is_read: bool
) -> tuple[BotAccount, list[str]]:
    """Query the account; return it and warnings about it."""
    async with bot_api(wiki, settings) as api:
        me = await read_bot_account(api)
        if is_read and me.has_messages:
            await api.post(action="clearhasmsg")
        page = await read_text(api, bot.run_page) if bot.run_page else None
    if me.blocked:
        raise InputError(f"The account {me.name} is {me.blocked}.")
    if "edit" not in me.rights:
        raise InputError(f"The account {me.name} may not edit: grant its bot password “Edit existing pages”.")
    warnings = []
    if bot.mark and "bot" not in me.rights:
        warnings.append(
            "The account has no bot flag (or its password lacks “High-volume access”): its edits appear in "
            "everybody's recent changes. Ask the wiki's bureaucrats, or use --no-mark."
        )
    if not bot.run_page:
        warnings.append("There is no run page: only `bot off` or a message to the bot stops it.")
    elif page is None:
        warnings.append(f"The run page {bot.run_page} is missing: nothing is edited until it exists and says yes.")
    elif not allows_run(page):
        warnings.append(f"The run page {bot.run_page} does not say yes or run: nothing is edited.")
    if me.has_messages and not is_read and bot.stop_on_messages:
        warnings.append("The bot has unread messages. Nothing is edited until --messages-read is given.")
    return me, warnings
