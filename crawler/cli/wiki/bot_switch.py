"""`weboid wiki bot on` and `off`: whether a wiki is edited, as whom, and how."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from core.errors import InputError
from core.settings import Settings
from crawler.cli.exits import Exit
from crawler.cli.links.opening import opened_registry
from crawler.cli.where import Where, where_options
from crawler.cli.wiki.bot_opening import bot_api, front_origin, source_warnings, wiki_named
from crawler.cli.wiki.opening import settings_of_wiki
from links.books.wikis import Wiki, change_wiki
from links.store.store import Store
from wiki.api.edits import Me, clear_messages, who_am_i
from wiki.api.revisions import read_text
from wiki.editing.guarding import says_yes
from wiki.settings import TALK, BotSettings, WikiSettings, changed


@click.command("on")
@click.argument("name", required=False, default="", metavar="[NAME]")
@click.option(
    "--account", metavar="USER@APP", help="An account of the bot's own: a bot password's name."
)
@click.option("--password-file", metavar="FILE", help="Its bot password, or an OAuth 2 token.")
@click.option("--run-page", metavar="TITLE", help="Edits are made only while it says yes or run.")
@click.option("--edits-per-minute", type=click.FloatRange(0.01, 600), help="At most.")
@click.option("--talk", type=click.Choice(TALK), help="Messages on talk pages.")
@click.option("--convert-bare/--keep-bare", default=None, help="Bare references become citations.")
@click.option(
    "--tag-dead/--no-tag-dead", default=None, help="Tag dead links that nobody has a copy of."
)
@click.option("--mark/--no-mark", default=None, help="Edits carry the bot flag.")
@click.option("--front", metavar="ORIGIN", help="Where readers find our own copies; - for nowhere.")
@click.option("--messages-read", is_flag=True, help="What people wrote to the bot was read.")
@where_options
def on_command(
    *,
    name: str,
    account: str | None,
    password_file: str | None,
    front: str | None,
    messages_read: bool,
    where: Where,
    as_json: bool,
    **values: Any,
) -> int:
    """Let the bot edit a wiki: as an account of its own, which is asked what it may.

    Said again, what is given changes and the rest stays. Nothing is edited by this: `weboid wiki bot run
    --dry-run` shows what would be, `weboid wiki bot run` does it.
    """
    if password_file:
        password_file = str(Path(password_file).expanduser().absolute())
    given = {
        **values,
        "account": account,
        "password_file": password_file,
        "front": front_origin(front),
    }
    with opened_registry(where.layout.root, where.settings.index.url) as store:
        wiki = wiki_named(store, name)
        said = settings_of_wiki(wiki)
        bot = changed(said.bot, "bot", enabled=True, **given)
        if not bot.account or not bot.password_file:
            raise InputError(
                "The bot needs an account of its own: make one on the wiki, log in with it, make a bot "
                "password at Special:BotPasswords, and give --account USER@APP --password-file FILE."
            )
        if bot.account == said.feed.account and "@" not in bot.account:
            raise InputError("The bot's account must be its own, not the one that reads.")
        tried = _with(wiki, said, bot)
        unsourced = source_warnings(store, where, wiki, bot)
        me, warnings = asyncio.run(_look(tried, bot, where.settings, is_read=messages_read))
        warnings += unsourced
        _write(store, wiki, said, bot)
    if as_json:
        click.echo(json.dumps({"wiki": str(wiki.name), "user": me.name, "warnings": warnings}))
        return Exit.OK
    click.echo(f"The bot may edit {wiki.name} as {me.name}.")
    for warning in warnings:
        click.echo(f"- {warning}")
    click.echo(f"`weboid wiki bot run {wiki.name} --dry-run` shows what it would do.")
    return Exit.OK


@click.command("off")
@click.argument("name", required=False, default="", metavar="[NAME]")
@where_options
def off_command(*, name: str, where: Where, as_json: bool) -> int:
    """Let the bot edit a wiki no more; a run that is under way stops at its next batch of pages."""
    with opened_registry(where.layout.root, where.settings.index.url) as store:
        wiki = wiki_named(store, name)
        said = settings_of_wiki(wiki)
        _write(store, wiki, said, changed(said.bot, "bot", enabled=False))
    if as_json:
        click.echo(json.dumps({"wiki": str(wiki.name), "enabled": False}))
    else:
        click.echo(f"The bot edits {wiki.name} no more. What it did stays, and is in `bot edits`.")
    return Exit.OK


async def _look(
    wiki: Wiki, bot: BotSettings, settings: Settings, *, is_read: bool
) -> tuple[Me, list[str]]:
    """Who the account is, and what is odd about it.

    Raises:
        InputError: it may not edit.
    """
    async with bot_api(wiki, settings) as api:
        me = await who_am_i(api)
        if is_read and me.has_messages:
            await clear_messages(api)
        page = await read_text(api, bot.run_page) if bot.run_page else None
    if me.blocked:
        raise InputError(f"The account {me.name} is {me.blocked}.")
    if "edit" not in me.rights:
        raise InputError(
            f"The account {me.name} may not edit: grant its bot password “Edit existing pages”."
        )
    return me, list(_warnings(me, bot, page, is_read=is_read))


def _warnings(me: Me, bot: BotSettings, page: str | None, *, is_read: bool) -> list[str]:
    found = []
    if bot.mark and "bot" not in me.rights:
        found.append(
            "The account has no bot flag (or its password lacks “High-volume access”): its edits are "
            "seen by everybody who watches recent changes. Ask the wiki's bureaucrats, or say --no-mark."
        )
    if bot.run_page and page is None:
        found.append(
            f"The run page {bot.run_page} is missing: nothing is edited until it says yes."
        )
    elif bot.run_page and not says_yes(page or ""):
        found.append(f"The run page {bot.run_page} does not say yes or run: nothing is edited.")
    if not bot.run_page:
        found.append("There is no run page: only `bot off` and a message to the bot stop it.")
    if me.has_messages and not is_read and bot.stop_on_messages:
        found.append("Somebody wrote to the bot. Nothing is edited until --messages-read is given.")
    return found


def _write(store: Store, wiki: Wiki, said: WikiSettings, bot: BotSettings) -> None:
    with store.writing() as rows:
        change_wiki(
            rows,
            wiki,
            settings=WikiSettings(said.feed, bot, said.templates).merged_into(wiki.settings),
        )


def _with(wiki: Wiki, said: WikiSettings, bot: BotSettings) -> Wiki:
    """The wiki as it would be with these settings."""
    merged = WikiSettings(said.feed, bot, said.templates).merged_into(wiki.settings)
    return wiki._replace(settings=json.dumps(merged, ensure_ascii=False))
