"""`weboid wiki ls`: the wikis that are watched over, and how far their feeds are."""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click

from core.clock import SystemClock
from core.durations import told
from core.errors import ConfigError
from core.timestamps import warc_date
from crawler.cli.exits import Exit
from crawler.cli.links.opening import opened_registry
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import clean, table, width
from crawler.cli.wiki.opening import settings_of_wiki
from links.books.feeds import LEASE, Feed, feeds_of
from links.books.tallies import count_links, count_pages
from links.books.wikis import Wiki, all_wikis
from links.store.statements import Reader
from wiki.feeding.desk import CHANGES, SWEEP
from wiki.settings import WikiSettings

COUNTED_MOST: Final = 1_000_000
_SHOWN: Final = (CHANGES, SWEEP)  # to people; the others are workings of the feeder
_CLOCK = SystemClock()


@dataclass(frozen=True)
class Line:
    """A wiki, and what is known of it."""

    wiki: Wiki
    settings: WikiSettings | None  # None: they cannot be used
    pages: int
    links: int
    feeds: dict[str, Feed]
    trouble: str


@click.command("ls")
@collection_option
@database_option
@json_option
def command(*, collection: Path, database_url: str, as_json: bool) -> int:
    """List the wikis, how many pages and links of them are known, and what their feeds are at."""
    now = _CLOCK.now()
    with opened_registry(collection, database_url) as store, store.reading() as connection:
        lines = [_line(connection, wiki) for wiki in all_wikis(connection)]
    if as_json:
        click.echo(json.dumps({"wikis": [_facts(line) for line in lines]}, ensure_ascii=False))
        return Exit.OK
    if not lines:
        click.echo("No wiki is known: `weboid wiki add URL` adds one, by any address of it.")
        return Exit.OK
    rows = [
        (
            str(line.wiki.name),
            _many(line.pages),
            _many(line.links),
            _feeds(line, now),
            line.wiki.url or "no API is known: weboid wiki add URL --name …",
        )
        for line in lines
    ]
    for text in table(("wiki", "pages>", "links>", "feeds", "api"), rows, columns=width()):
        click.echo(text)
    for line in lines:
        if line.trouble:
            click.echo(f"{line.wiki.name}: {clean(line.trouble)}")
    return Exit.OK


def _line(reader: Reader, wiki: Wiki) -> Line:
    settings = None
    trouble = ""
    try:
        settings = settings_of_wiki(wiki)
    except ConfigError as error:
        trouble = str(error)
    feeds = {k: v for k, v in feeds_of(reader, wiki.id).items() if k in (CHANGES, SWEEP)}
    troubles = dict.fromkeys(feed.trouble for feed in feeds.values() if feed.trouble)
    return Line(
        wiki,
        settings,
        count_pages(reader, wiki.id, limit=COUNTED_MOST),
        count_links(reader, wiki.id, limit=COUNTED_MOST),
        feeds,
        " ".join([*([trouble] if trouble else []), *troubles]),
    )


def _many(count: int) -> str:
    return f"{count:,}" if count < COUNTED_MOST else f"over {COUNTED_MOST:,}"


def _feeds(line: Line, now: datetime) -> str:
    """How long ago the changes and the sweep came as far as they are, and whether somebody feeds it."""
    said = []
    for kind in _SHOWN:
        feed = line.feeds.get(kind)
        if feed is not None:
            past = max((now - feed.moment).total_seconds(), 0)
            said.append(f"{kind} {told(past)} ago{' (stuck)' if feed.trouble else ''}")
    lease = line.feeds.get(LEASE)
    if lease is not None and lease.moment > now:
        said.append("watched now")
    if said:
        return ", ".join(said)
    return "not begun" if line.wiki.url else "-"


def _facts(line: Line) -> dict[str, Any]:
    settings: Any = None
    with suppress(ValueError):
        settings = json.loads(line.wiki.settings)
    return {
        "wiki": str(line.wiki.name),
        "url": line.wiki.url,
        "pages_url": line.wiki.pages_url,
        "pages": line.pages,
        "links": line.links,
        "counted_most": COUNTED_MOST,
        "feeds": {
            kind: {"moment": warc_date(feed.moment), "trouble": feed.trouble}
            for kind, feed in line.feeds.items()
        },
        "trouble": line.trouble,
        "settings": settings,
    }
