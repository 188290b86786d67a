"""`weboid search`: full-text search of the captures that public readers see."""

from contextlib import closing

import click

from playback.web.page_store import PageStore
from playback.web.site_pages import texts_as_json
from playback.web.text_search import TextSearch, TextSearchResult, parse_facets, parse_text_cursor
from warc.text_index.reader import open_text_index
from warc.text_index.store import MEDIA, STATES
from weboid.app.text_table import clean
from weboid.cli.support.commands import argument, cli_command, option
from weboid.cli.support.options import output
from weboid.cli.support.stores import STORES, CollectionStores


@cli_command("search")
def command(
    *,
    text: tuple[str, ...] = argument("TEXT...", required=True),
    host: str = option("Only pages of this host and its subdomains.", default=""),
    year: str = option("Only captures of this year: 2026.", default=""),
    lang: str = option("Only pages in this language: de.", default=""),
    media: str | None = option("Only this type.", choices=MEDIA),
    state: str | None = option("Only pages in this state.", choices=STATES),
    limit: int = option("Results at most.", within=(1, 300), default=20),
    after: str = option("Continue after the previous answer; it prints the value.", default=""),
    stores: CollectionStores = STORES,
) -> None:
    """Search the text, titles and addresses of archived pages.

    Each URL is one result: its newest capture whose text matches. Results contain all words; "quotation marks" in the
    text find a phrase, word* beginnings, and -word excludes a word (after `--`). What is taken down, held for a threat
    or captured with a login is not found. `weboid collection rebuild --only texts` makes the index again.
    """
    facets = parse_facets({"host": host, "year": year, "language": lang, "media": media or "", "state": state or ""})
    with (
        stores.readable() as (database, _decisions, access),
        closing(open_text_index(stores.layout, stores.database_url)) as index,
    ):
        search = TextSearch(index, PageStore(database, access))
        result = search.find(" ".join(text), facets, at=parse_text_cursor(after), limit=limit)
    output.show(texts_as_json(result) | {"after": str(result.next or "")}, _lines(result))


def _lines(result: TextSearchResult) -> list[str]:
    lines = []
    for each in result.results:
        snippet = "".join(click.style(text, bold=True) if is_hit else text for text, is_hit in each.snippet)
        lines += [f"{each.page.timestamp}  {clean(each.page.url)}"]
        lines += [f"    {clean(line)}" for line in (each.page.title,) if line]
        lines += [f"    {snippet}"] if snippet.strip() else []
    if result.next is not None:
        lines.append(f"More: --after {result.next}")
    elif not result.results:
        lines.append("Nothing was found.")
    return lines
