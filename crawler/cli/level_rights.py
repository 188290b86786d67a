"""`weboid level rights`: what a wiki's editors may decide about levels."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from core.clock import SystemClock
from core.timestamps import warc_date
from crawler.cli.exits import Exit
from crawler.cli.groups import GroupWithDefault
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import table, width
from playback.decisions.levels import Actor, Level, Right, Scope, check_wiki, parse_actor

_CLOCK = SystemClock()
_REACHES = {
    Scope.LINK: ("links",),
    Scope.DOMAIN: ("links", "domains"),
    Scope.WIKI: ("links", "domains", "the wiki"),
}
_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group("rights", cls=GroupWithDefault, invoke_without_command=True)
@click.option("--history", is_flag=True, help="Every decision about rights, the oldest first.")
@collection_option
@database_option
@json_option
def rights(*, history: bool, collection: Path, database_url: str, as_json: bool) -> int:
    """Show what the editors of each wiki may decide.

    An operator may decide anything; editors only what is shown here, within their own wiki.
    """
    from crawler.cli.level import opened_book  # it loads us

    with opened_book(collection, database_url) as book:
        shown = book.rights_history() if history else list(book.now().rights)
    if as_json:
        click.echo(json.dumps({"rights": [_facts(each) for each in shown]}, ensure_ascii=False))
        return Exit.OK
    for line in _lines(shown) if shown else ["No editor may decide anything."]:
        click.echo(line)
    return Exit.OK


def _options(function: _Command) -> _Command:
    for option in (
        json_option,
        database_option,
        collection_option,
        click.option("--reason", default="", help="Why, for whoever asks later."),
        click.option("--actor", metavar="NAME", help="Who decides.  [default: you]"),
        click.option("--editor", default="", metavar="NAME", help="One editor.  [default: all]"),
        click.option("--wiki", required=True, help="Within which wiki."),
    ):
        function = option(function)
    return function


@rights.command("allow")
@click.option(
    "--most",
    type=click.Choice([str(level) for level in Level]),
    required=True,
    help="The most that they may allow.",
)
@click.option("--domains", is_flag=True, help="They decide on domains, too, not only on links.")
@click.option(
    "--whole-wiki",
    is_flag=True,
    help="They decide on domains and on the wiki itself, as its LocalSettings.php does.",
)
@_options
def allow_command(*, most: str, domains: bool, whole_wiki: bool, **options: Any) -> int:
    """Let a wiki's editors decide up to a level; a later decision replaces an earlier one.

    Lowering it lowers at once what they allowed before.
    """
    scope = Scope.WIKI if whole_wiki else Scope.DOMAIN if domains else Scope.LINK
    return _change(Level(most), scope, **options)


@rights.command("withdraw")
@_options
def withdraw_command(**options: Any) -> int:
    """Let them decide no more; what they decided still takes away, but allows nothing."""
    return _change(None, Scope.LINK, **options)


def _change(
    most: Level | None,
    scope: Scope,
    *,
    wiki: str,
    editor: str,
    actor: str | None,
    reason: str,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    from crawler.cli.level import actor_of, opened_book  # it loads us

    name = _editor(editor, check_wiki(wiki))
    right = Right(0, wiki, name, scope, most, actor_of(actor), _CLOCK.now(), reason)
    with opened_book(collection, database_url) as book:
        book.allow(right)
    if as_json:
        click.echo(json.dumps(_facts(right), ensure_ascii=False))
    else:
        click.echo(_told(right))
    return Exit.OK


def _editor(text: str, wiki: str) -> str:
    """The editor's name, with or without its wiki."""
    return parse_actor(f"{text.removesuffix(f'@{wiki}')}@{wiki}").name if text else ""


def _told(right: Right) -> str:
    who = str(Actor(right.editor, right.wiki)) if right.editor else f"Editors of {right.wiki}"
    if right.most is None:
        return f"{who}: no right any more."
    return f"{who}: levels of {' and '.join(_REACHES[right.scope])}, {right.most} at most."


def _facts(right: Right) -> dict[str, Any]:
    return {
        "wiki": right.wiki,
        "editor": right.editor or None,
        "scope": right.scope,
        "most": right.most,
        "actor": str(right.actor),
        "decided_at": warc_date(right.decided_at),
        "reason": right.reason,
    }


def _lines(shown: Iterable[Right]) -> list[str]:
    rows = [
        (
            each.wiki,
            each.editor or "(all)",
            ", ".join(_REACHES[each.scope]),
            each.most or "(withdrawn)",
            str(each.actor),
            f"{each.decided_at:%Y-%m-%d %H:%M}",
            each.reason,
        )
        for each in shown
    ]
    head = ("wiki", "editor", "decides on", "most", "by", "decided", "reason")
    return table(head, rows, columns=width())
