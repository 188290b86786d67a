"""`weboid links search`: which links a pattern means, and the pages that have them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from sqlalchemy import Connection

from crawler.cli.exits import Exit
from crawler.cli.links.named import wiki_named
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import clean, fitted, table, width
from links.books.wikis import Wiki, all_wikis
from links.days import date_of
from links.link_patterns import LinkPattern, parse_link_pattern
from links.link_search import STATES, Found, FoundLink, StateClass, Wanted, search_links
from links.rulebook import RuleBook, search_warnings
from links.store.store import Store

_STATES = click.Choice([str(state) for state in StateClass])
_WARNINGS_SHOWN = 3
_WIKIS_ASKED = 200  # exclusion lists are compared with for a search over all wikis


@click.command("search")
@click.argument("pattern")
@click.option("--wiki", metavar="DBNAME@FARM", help="Only links on that wiki's pages.")
@click.option(
    "--namespace",
    "namespaces",
    type=int,
    multiple=True,
    help="Only links on pages of that namespace; may be repeated.",
)
@click.option("--state", "state", type=_STATES, help="Only links in that state.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True)
@click.option("--after", default="", metavar="PLACE", help="Go on where an answer ended.")
@collection_option
@database_option
@json_option
def command(
    *,
    pattern: str,
    wiki: str | None,
    namespaces: tuple[int, ...],
    state: str | None,
    limit: int,
    after: str,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Find links by a pattern, as MediaWiki's LinkSearch does.

    example.org is that host, *.example.org all below it, too, example.org/path what begins so, 127.0.*
    and [2001:db8:*] networks; http and https are meant alike, unless the pattern names one. See
    docs/link-search.md.
    """
    meant = parse_link_pattern(pattern)
    with opened_registry(collection, database_url) as store:
        with store.reading() as rows:
            of_wiki = None if wiki is None else wiki_named(rows, wiki)
            warnings = _warnings(rows, meant, of_wiki)
        wanted = Wanted(
            wiki_id=None if of_wiki is None else of_wiki.id,
            namespaces=namespaces,
            states=frozenset() if state is None else STATES[StateClass(state)],
        )
        found: list[FoundLink] = []
        for part in _parts(store, meant, wanted, limit=limit, after=after):
            found += part.links
            after = part.after
    if as_json:
        document = {
            "pattern": meant.text,
            "links": [link_facts(link) for link in found],
            "after": after,
            "warnings": warnings,
        }
        click.echo(json.dumps(document, ensure_ascii=False))
        return Exit.OK
    for line in _lines(found):
        click.echo(line)
    if after:
        click.echo(f"There may be more: --after {after}", err=True)
    for warning in warnings[:_WARNINGS_SHOWN]:
        click.echo(clean(warning), err=True)
    if len(warnings) > _WARNINGS_SHOWN:
        others = len(warnings) - _WARNINGS_SHOWN
        click.echo(f"So do {others} other wikis; --wiki asks one of them.", err=True)
    return Exit.OK


def link_facts(link: FoundLink) -> dict[str, Any]:
    """A link as JSON values."""
    return {
        "url": link.url,
        "state": link.state.name.lower(),
        "code": link.code,
        "checked": None if link.checked_day is None else str(date_of(link.checked_day)),
        "pages": [
            {
                "wiki": page.wiki,
                "page_id": page.page_id,
                "namespace": page.namespace,
                "title": page.title,
            }
            for page in link.pages
        ],
        "more_pages": link.more_pages,
    }


def _parts(
    store: Store, pattern: LinkPattern, wanted: Wanted, *, limit: int, after: str
) -> Iterator[Found]:
    """Answers until there are so many links, or no more."""
    left = limit
    while True:
        with store.reading() as rows:
            part = search_links(rows, pattern, wanted, limit=left, after=after)
        yield part
        left -= len(part.links)
        after = part.after
        if not left or not after:
            return


def _warnings(rows: Connection, pattern: LinkPattern, wiki: Wiki | None) -> list[str]:
    """What the exclusion lists of the wikis that are searched keep out."""
    asked = all_wikis(rows)[:_WIKIS_ASKED] if wiki is None else [wiki]
    named = {each.id: str(each.name) for each in asked}
    return search_warnings(rows, RuleBook(), pattern, named)


def _lines(found: Sequence[FoundLink]) -> list[str]:
    if not found:
        return ["There is no such link."]
    rows = [
        (
            link.state.name.lower(),
            "never" if link.checked_day is None else str(date_of(link.checked_day)),
            link.url,
        )
        for link in found
    ]
    head, *lines = table(("state", "checked", "link"), rows, columns=width())
    told = [head]
    for link, line in zip(found, lines, strict=True):
        told.append(line)
        if link.pages:
            told.append(fitted(f"    on {_pages(link)}", width()))
    return told


def _pages(link: FoundLink) -> str:
    named = [f"{page.title} ({page.wiki})" for page in link.pages]
    return ", ".join(named) + (", …" if link.more_pages else "")
