"""`weboid wiki bot show`, `ls` and `review`: past bot edits and their outcome."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import click

from core.errors import InputError
from links.registry.bot_edits import BotEdit, EditKind, EditState, count_edits, last_made, newest_edits
from links.registry.database import RegistryStore
from links.registry.pages import find_pages
from links.registry.urls import urls_by_id
from links.registry.wikis import Wiki
from weboid.app.text_table import clean, table, width
from weboid.app.wiki.bot_run import edit_facts
from weboid.app.wiki.wiki_clients import settings_of_wiki
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import argument, cli_command, option
from weboid.cli.support.options import OUTPUT, CommandOutput
from weboid.cli.support.stores import actor_name
from weboid.cli.wiki.bot_setup import CLOCK, choose_wiki, source_warnings
from wiki.bot.past_edits import RevertReview, edits_to_review, review_revert
from wiki.settings import to_json

_MOST_LINKS: Final = 2  # of an edit in a line; --json has all
_MOST_OFF: Final = 10  # pages and domains; --json has all
_LONGEST: Final = 1_000  # characters of a citation that are shown
_STATES = [each.name.lower() for each in EditState]


@cli_command("show")
def show_command(
    *,
    name: str = argument("[NAME]", required=False, default=""),
    where: CommandTarget = TARGET,
    output: CommandOutput = OUTPUT,
) -> None:
    """Show whether the bot is on, its account, and its edits' outcomes."""
    with where.stores.registry() as store:
        wiki = choose_wiki(store, name)
        bot = settings_of_wiki(wiki).bot
        with store.reading() as rows:
            pages = count_edits(rows, wiki.id, EditKind.PAGE)
            talk = count_edits(rows, wiki.id, EditKind.TALK)
            last = last_made(rows, wiki.id)
        try:
            warnings = source_warnings(store, where, wiki, bot)
        except InputError as error:
            warnings = [str(error)]
    results = {state.name.lower(): count for state, count in sorted(pages.items())}
    document = {
        "wiki": str(wiki.name),
        "enabled": bot.enabled,
        "settings": to_json(bot),
        "edits": results,
        "messages": {state.name.lower(): count for state, count in sorted(talk.items())},
        "last": _moment(last) if last else None,
        "warnings": warnings,
    }
    if output.json(document):
        return
    how = f"on, as {bot.account}" if bot.enabled else "off"
    click.echo(clean(f"The bot is {how} on {wiki.name}."))
    if bot.run_page:
        click.echo(clean(f"It runs while {bot.run_page} has the text yes."))
    if off := [*bot.not_pages, *bot.not_domains]:
        more = f" and {len(off) - _MOST_OFF:,} more" if len(off) > _MOST_OFF else ""
        click.echo(clean(f"It leaves alone {', '.join(off[:_MOST_OFF])}{more}."))
    for warning in warnings:
        click.echo(clean(f"- {warning}"))
    for state, count in results.items():
        click.echo(f"{count:>9,} {state}")
    if last:
        click.echo(f"The last edit: {_moment(last)}.")
    if pages.get(EditState.REVERTED):
        click.echo("Reverted edits await a review: `weboid wiki bot review` shows them.")


@cli_command("ls")
def list_command(
    *,
    name: str = argument("[NAME]", required=False, default=""),
    states: tuple[str, ...] = option(
        f"Only edits in this state: {', '.join(_STATES)}.", "--state", type=click.Choice(_STATES), metavar="STATE"
    ),
    limit: int = option("Number of edits, at most.", type=click.IntRange(1, 10_000), default=50),
    where: CommandTarget = TARGET,
    output: CommandOutput = OUTPUT,
) -> None:
    """List the bot's edits, newest first."""
    wanted = [EditState[each.upper()] for each in states] or list(EditState)
    with where.stores.registry() as store:
        wiki = choose_wiki(store, name)
        with store.reading() as rows:
            edits = newest_edits(rows, wiki.id, wanted, limit=limit)
        _show(store, wiki, edits, output=output)


@cli_command("review")
def review_command(
    *,
    name: str = argument("[NAME]", required=False, default=""),
    accept: tuple[int, ...] = option("Accept the revert: make no such edit again.", type=int, metavar="ID"),
    decline: tuple[int, ...] = option("The edit was right: it may be repeated.", type=int, metavar="ID"),
    reason: str = option("In a few words.", default="", metavar="TEXT"),
    actor: str | None = option("Author of the change.  [default: you]", metavar="NAME"),
    limit: int = option("Number of edits, at most.", type=click.IntRange(1, 10_000), default=50),
    where: CommandTarget = TARGET,
    output: CommandOutput = OUTPUT,
) -> None:
    """Show the edits that people undid; accept or decline each undo.

    An undone edit is not repeated on its page until the undo is declined here, and its link counts
    as reported by its author. Accepting closes the case permanently.
    """
    if both := set(accept) & set(decline):
        raise click.UsageError(f"{min(both)} cannot be accepted and declined.")
    with where.stores.registry() as store:
        wiki = choose_wiki(store, name)
        done = [
            review_revert(store, wiki.id, number, RevertReview(is_right, actor_name(actor), reason), now=CLOCK.now())
            for numbers, is_right in ((accept, True), (decline, False))
            for number in numbers
        ]
        edits = done or edits_to_review(store, wiki.id, limit=limit)
        _show(store, wiki, edits, output=output)
        if not output.is_json:
            for edit in edits:
                for change in edit.changes:
                    if change.is_undone:
                        click.echo(f"Edit {edit.id}, {change.kind}:")
                        click.echo(f"  - {clean(change.before)[:_LONGEST]}")
                        click.echo(f"  + {clean(change.after)[:_LONGEST]}")
        if not edits and not output.is_json:
            click.echo("Nothing awaits a review.")


def _show(store: RegistryStore, wiki: Wiki, edits: Sequence[BotEdit], output: CommandOutput) -> None:
    with store.reading() as rows:
        pages = find_pages(rows, wiki.id, {edit.page_id for edit in edits})
        links = urls_by_id(rows, {change.url_id for edit in edits for change in edit.changes})
    titles = {number: page.title for number, page in pages.items()}
    names = {number: row.url for number, row in links.items()}
    if output.is_json:
        for edit in edits:
            facts = edit_facts(edit)
            facts["page"] = titles.get(edit.page_id)
            facts["moment"] = _moment(edit.moment)
            for each, change in zip(facts["changes"], edit.changes, strict=True):
                each["url"] = names.get(change.url_id)
            click.echo(json.dumps(facts, ensure_ascii=False))
        return
    if not edits:
        return
    head = ("edit>", "when", "state", "page", "links", "revision>", "undone by", "note")
    lines = [
        (
            str(edit.id),
            _moment(edit.moment)[:16],
            edit.state.name.lower() + (" (talk)" if edit.kind is EditKind.TALK else ""),
            titles.get(edit.page_id, f"number {edit.page_id}"),
            _links(edit, names),
            str(edit.rev or ""),
            edit.undone_by,
            edit.note,
        )
        for edit in edits
    ]
    for line in table(head, lines, columns=width()):
        click.echo(line)


def _links(edit: BotEdit, names: Mapping[int, str]) -> str:
    """Return an edit's links in one line: undone ones first, and the number of further ones."""
    results = [
        f"{names.get(each.url_id, '?')} ({each.kind}{', undone' if each.is_undone else ''})"
        for each in sorted(edit.changes, key=lambda each: not each.is_undone)
    ]
    more = len(results) - _MOST_LINKS
    return " ".join([*results[:_MOST_LINKS], *([f"and {more:,} more"] if more > 0 else [])])


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
