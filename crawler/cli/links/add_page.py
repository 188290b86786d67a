"""`weboid links add-page`: one page and its links."""

import json
import sys
from pathlib import Path

import click

from core.clock import SystemClock
from core.errors import InputError
from crawler.cli.exits import Exit
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import clean
from links.books.importing import sorted_links
from links.books.looking import links_of_page, pages_by_title
from links.books.pages import PageName, PutPage, put_pages
from links.books.wikis import ensure_wiki, parse_wiki
from links.days import day_of
from links.rulebook import RuleBook
from links.sorting import WATCHED
from links.store.store import Store

_CLOCK = SystemClock()


@click.command("add-page")
@click.argument("wiki", metavar="WIKI")
@click.argument("page", metavar="PAGE")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option("--id", "page_id", type=click.IntRange(1), help="The wiki's number for the page.")
@click.option("--namespace", type=int, default=0, show_default=True, help="The page's namespace.")
@click.option("--add", "keep", is_flag=True, help="Beside the links that the page has already.")
@collection_option
@database_option
@json_option
def command(
    *,
    wiki: str,
    page: str,
    urls: tuple[str, ...],
    page_id: int | None,
    namespace: int,
    keep: bool,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Say which links a page of a wiki has.

    WIKI is a name such as dewiki@WMF, PAGE the page's title; the wiki's number for the page is needed
    once, by --id. URLs are read from standard input, one a line, when there are none or one is -. What
    the page had besides is taken for gone, unless --add is given.
    """
    given = [url for url in urls if url != "-"]
    if not urls or "-" in urls:
        given += [line.strip() for line in sys.stdin if line.strip()]
    with opened_registry(collection, database_url, make=True) as store:
        links = _put(store, wiki, PageName(page_id or 0, page, namespace), given, keep=keep)
    if as_json:
        facts = [{"url": text, "sort": sort, "note": note} for text, sort, note in links]
        click.echo(json.dumps({"wiki": wiki, "page": page, "links": facts}, ensure_ascii=False))
        return Exit.OK
    watched = sum(1 for _, sort, _ in links if sort in WATCHED)
    what = "link that is" if watched == 1 else "links that are"
    click.echo(f"{clean(page)} has {watched} {what} watched.")
    for text, sort, note in links:
        if sort not in WATCHED:
            click.echo(f"  {clean(text)[:500]}: {sort}{f', {clean(note)}' if note else ''}")
    return Exit.OK


def _put(
    store: Store, wiki_name: str, name: PageName, urls: list[str], *, keep: bool
) -> list[tuple[str, str, str]]:
    day = day_of(_CLOCK.now())
    with store.writing() as connection:
        wiki = ensure_wiki(connection, parse_wiki(wiki_name), day=day)
        if not name.page_id:
            known = pages_by_title(connection, wiki.id, [name.title])
            if not known:
                raise InputError(
                    f"{wiki.name} has no page {clean(name.title)!r} that is known: --id says the wiki's "
                    "number for it (curid in its address)."
                )
            there = known[name.title]
            name = PageName(there.page_id, name.title, there.namespace)
        if keep:
            urls = [*links_of_page(connection, wiki.id, name.page_id), *urls]
        rules = RuleBook().rules_of(connection, wiki.id)
        links = sorted_links(dict.fromkeys(urls), rules)
        put_pages(connection, wiki.id, [PutPage(name, links)], day=day)
    return [(link.text, str(link.sort), link.note) for link in links]
