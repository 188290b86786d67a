"""`weboid sheet`: settings for a part of the web, changed while a crawl runs."""

import json
import tomllib
from typing import Any

import click

from core.errors import ConfigError, InputError
from core.profile import parse_sheet
from core.sheets import surt_prefix
from crawler.cli.exits import Exit
from crawler.cli.where import Where, where_options
from crawler.job import toml_value
from crawler.jobs import SHEET_ORDER


@click.group("sheet")
def command() -> None:
    """Settings for a part of the web, changed while a crawl runs.

    A sheet holds below a prefix: a host and those below it (example.org), a folder
    (example.org/wiki/), or a SURT prefix (org,example,). Where several match, the longest holds. Workers
    on all machines follow within a second; sheets of a profile hold as well, and are set there.
    """


@command.command("set")
@click.argument("prefix")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE...")
@where_options
def set_(*, prefix: str, changes: tuple[str, ...], where: Where, as_json: bool) -> int:
    """Change settings below PREFIX: visit.timeout_s=90, politeness.min_delay_s=5.

    What the sheet said before stays, unless it is named. Values are written as in a profile.
    """
    spelled = surt_prefix(prefix)
    changed = [_change(text) for text in changes]
    with where.frontier(make=True) as frontier:
        document = _document(frontier.orders(SHEET_ORDER).get(spelled, "{}"))
        for group, key, value in changed:
            document.setdefault(group, {})[key] = value
        sheet = parse_sheet(spelled, document)
        text = json.dumps({name: dict(keys) for name, keys in sheet.changes().items()})
        frontier.give_order(SHEET_ORDER, spelled, text)
    _say(spelled, document, as_json=as_json)
    return Exit.OK


@command.command("list")
@where_options
def list_(*, where: Where, as_json: bool) -> int:
    """The sheets that were set, by prefix."""
    with where.frontier() as frontier:
        orders = frontier.orders(SHEET_ORDER)
    if not orders and not as_json:
        click.echo(f"No sheets are set for {where.name}.")
    for prefix, text in orders.items():
        _say(prefix, _document(text), as_json=as_json)
    return Exit.OK


@command.command("remove")
@click.argument("prefix")
@where_options
def remove(*, prefix: str, where: Where, as_json: bool) -> int:
    """Take a sheet back."""
    spelled = surt_prefix(prefix)
    with where.frontier() as frontier:
        known = list(frontier.orders(SHEET_ORDER))
        if not frontier.take_back(SHEET_ORDER, spelled):
            names = ", ".join(known[:20]) or "none"
            raise InputError(f"There is no sheet {spelled!r}; set are: {names}.")
    click.echo(json.dumps({"removed": spelled}) if as_json else f"{spelled} is removed.")
    return Exit.OK


def _change(text: str) -> tuple[str, str, Any]:
    """Group, key and value of ``visit.timeout_s=90``; a value that is no TOML is a text."""
    name, equals, written = text.partition("=")
    group, dot, key = name.strip().partition(".")
    if not equals or not dot:
        raise InputError(f"{text[:100]!r} is no change: write GROUP.KEY=VALUE, as in a profile.")
    try:
        return group, key, tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return group, key, written


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"A sheet cannot be read: {error}.") from error
    return document if isinstance(document, dict) else {}


def _say(prefix: str, document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"prefix": prefix, **document}, ensure_ascii=False))
        return
    keys = [
        f"{group}.{key} = {toml_value(value)}"
        for group, table in document.items()
        for key, value in table.items()
    ]
    click.echo("\n  ".join([prefix, *keys]))
