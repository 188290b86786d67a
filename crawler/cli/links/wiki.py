"""`weboid links wiki`: the wikis that the registry knows, and their farms."""

import json
from pathlib import Path
from typing import Any

import click

from core.clock import SystemClock
from core.errors import InputError
from crawler.cli.exits import Exit
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import clean, table, width
from links.books.wikis import (
    PUBLIC,
    Farm,
    Wiki,
    all_farms,
    all_wikis,
    change_wiki,
    ensure_wiki,
    find_farm,
    parse_wiki,
    put_farm,
)
from links.days import date_of, day_of
from wiki.settings import WikiSettings

_CLOCK = SystemClock()


@click.command("wiki")
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--url", metavar="URL", help="Its api.php.")
@click.option("--pages-url", metavar="URL", help="Where its pages are, with $1 for a title.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=JSON",
    help="A setting of it, such as public=false: the front tells its pages and links to internal callers alone.",
)
@click.option("--new-farm", is_flag=True, help="Make the farm that NAME says after its @.")
@click.option("--farm-hosts", metavar="REGEX", help="Which hosts are the farm's own (RE2).")
@click.option(
    "--farm-address",
    metavar="URL",
    help="The farm's first page; its host is one of the farm's own.",
)
@collection_option
@database_option
@json_option
def command(
    *,
    name: str | None,
    url: str | None,
    pages_url: str | None,
    settings: tuple[str, ...],
    new_farm: bool,
    farm_hosts: str | None,
    farm_address: str | None,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Add a wiki or change what is known of it; without NAME show all.

    NAME is a database's name and a farm's, such as dewiki@WMF; a farm is a project whose wikis belong
    together, and readers of one are never told of pages of another. Without @ the farm is WMF.
    """
    if name is None:
        return _show_all(collection, database_url, as_json=as_json)
    wanted = parse_wiki(name)
    given = _settings(settings)
    with (
        opened_registry(collection, database_url, make=True) as store,
        store.writing() as connection,
    ):
        there = find_farm(connection, wanted.farm)
        if there is None and not new_farm:
            known = ", ".join(farm.name for farm in all_farms(connection))
            raise InputError(
                f"There is no farm {wanted.farm} (known: {known}); --new-farm makes it."
            )
        if there is None or farm_hosts is not None or farm_address is not None:
            put_farm(
                connection,
                wanted.farm,
                address=_or(farm_address, there.address if there else ""),
                internal=_or(farm_hosts, there.internal if there else ""),
            )
        wiki = ensure_wiki(connection, wanted, day=day_of(_CLOCK.now()))
        merged = {**json.loads(wiki.settings), **given} if given else None
        wiki = change_wiki(connection, wiki, url=url, pages_url=pages_url, settings=merged)
    if as_json:
        click.echo(json.dumps(_facts(wiki), ensure_ascii=False))
    else:
        click.echo(f"{wiki.name} is known.")
    return Exit.OK


def _show_all(collection: Path, database_url: str, *, as_json: bool) -> int:
    with opened_registry(collection, database_url) as store, store.reading() as connection:
        wikis, farms = all_wikis(connection), all_farms(connection)
    if as_json:
        document = {
            "wikis": [_facts(wiki) for wiki in wikis],
            "farms": [_farm_facts(farm) for farm in farms],
        }
        click.echo(json.dumps(document, ensure_ascii=False))
        return Exit.OK
    if not wikis:
        click.echo("No wiki is known; `weboid links import` and `weboid links wiki NAME` add one.")
        return Exit.OK
    rows = [
        (str(wiki.name), f"{date_of(wiki.added_day)}", wiki.url, wiki.pages_url) for wiki in wikis
    ]
    for line in table(("wiki", "since", "api", "pages"), rows, columns=width()):
        click.echo(line)
    return Exit.OK


def _settings(given: tuple[str, ...]) -> dict[str, Any]:
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(f"{text[:80]!r} sets nothing: write KEY=JSON, such as {PUBLIC}=false.")
        try:
            found[key.strip()] = json.loads(value)
        except ValueError as error:
            raise InputError(f"The value of {clean(key)} is no JSON: {error}.") from error
    if not isinstance(found.get(PUBLIC, True), bool):
        raise InputError(f"{PUBLIC} is true, or false: then only internal callers are told of it.")
    groups = {key: found[key] for key in ("feed", "bot", "templates") if key in found}
    WikiSettings.parse(json.dumps(groups))  # what cannot be used is told now, not by the feed
    return found


def _or(given: str | None, before: str) -> str:
    return before if given is None else given


def _facts(wiki: Wiki) -> dict[str, Any]:
    return {
        "wiki": str(wiki.name),
        "url": wiki.url,
        "pages_url": wiki.pages_url,
        "settings": json.loads(wiki.settings),
        "since": str(date_of(wiki.added_day)),
    }


def _farm_facts(farm: Farm) -> dict[str, Any]:
    return {"farm": farm.name, "address": farm.address, "hosts": farm.internal}
