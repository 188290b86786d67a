"""`weboid wiki ls` and `check`: watched wikis with link counts and sync state, and their set-up."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import click
from sqlalchemy import Connection

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import ConfigError
from core.layout import Layout
from core.timestamps import format_duration, warc_date
from links.registry.farm_queries import count_links, count_pages, links_of
from links.registry.link_search import STATES
from links.registry.sync_state import LEASE, FeedCursor, feeds_of
from links.registry.wikis import Wiki, all_wikis
from playback.access.control import AccessControl
from playback.web.cached_links.cached_answer import AnswerOrigins, CopyState, answer_link
from playback.web.cached_links.cached_lookup import LinkEvidenceReader
from playback.web.cached_links.cached_request import CachedQuestion, asked_url
from playback.web.copy_lookup import CopyLookup
from playback.web.page_store import PageStore
from playback.web.registry.registry_service import LazyRegistrySource
from playback.web.registry.registry_values import Group
from weboid.app.reader_queue_status import ReaderQueueStatus
from weboid.app.setup_check import SetupHealth
from weboid.app.text_table import clean, table, width
from weboid.app.wiki_clients import settings_of_wiki
from weboid.app.wiki_intake import read_note
from weboid.app.wiki_setup_check import WikiSetupCheck
from weboid.cli.maintenance import finding_line
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import ExitCode, argument, cli_command, option
from weboid.cli.support.options import FRONTIER, OUTPUT, CommandOutput, with_frontier
from weboid.cli.support.stores import STORES, CollectionStores
from weboid.cli.wiki.bot_setup import choose_wiki
from wiki.settings import WikiSettings
from wiki.sync.feed_context import CHANGES, SWEEP
from wiki.sync.sweep import SweepCursor, late_warning

COUNTED_MOST: Final = 1_000_000
JUDGED_MOST: Final = 10_000
_AT_ONCE: Final = 500
_HEAD: Final = (
    *("wiki", "pages>", "links>", "queued>", "dead>", "no copy>", "bot", "feeds", "api"),
)
_SHOWN: Final = (CHANGES, SWEEP)  # to people; the others are workings of the feeder
_CLOCK = SystemClock()


@dataclass(frozen=True)
class WikiLinkCounts:
    """Counts of a wiki's links, by what readers see."""

    looked_at: int = 0  # links counted; at most `JUDGED_MOST`
    queued: int = 0  # in the queue, or waiting for their site
    dead: int = 0  # the cited content is not at the URL any more
    bare: int = 0  # without a copy, here or elsewhere, and not queued


@dataclass(frozen=True)
class WikiOverview:
    """Wiki with its counts and sync state."""

    wiki: Wiki
    settings: WikiSettings | None  # None: they cannot be used
    pages: int
    links: int
    feeds: dict[str, FeedCursor]
    trouble: str
    counts: WikiLinkCounts


@cli_command("ls")
def list_command(
    *,
    stores: CollectionStores = STORES,
    frontier_url: str = FRONTIER,
    output: CommandOutput = OUTPUT,
) -> None:
    """List the wikis: number of pages and links, the links' states, and the bot.

    Links that are queued, dead or without a copy are counted among the first 10,000 of a wiki.
    """
    now = _CLOCK.now()
    with (
        stores.registry() as store,
        _finder(stores, frontier_url) as finder,
        store.reading() as connection,
    ):
        lines = [_line(connection, wiki, finder, now) for wiki in all_wikis(connection)]
    if output.json({"wikis": [_facts(line) for line in lines]}):
        return
    if not lines:
        click.echo("No wiki is known: `weboid wiki add URL` adds one, by any address of it.")
        return
    rows = [
        (
            str(line.wiki.name),
            _many(line.pages),
            _many(line.links),
            *(_of_first(line.counts, each) for each in ("queued", "dead", "bare")),
            _bot(line),
            _feeds(line, now),
            line.wiki.url or "no API is known: weboid wiki add URL --name …",
        )
        for line in lines
    ]
    for text in table(_HEAD, rows, columns=width()):
        click.echo(text)
    for line in lines:
        if line.trouble:
            click.echo(f"{line.wiki.name}: {clean(line.trouble)}")


@contextmanager
def _finder(stores: CollectionStores, frontier_url: str) -> Iterator[LinkEvidenceReader | None]:
    """Yield the front's link evidence reader; None while nothing is archived."""
    layout = Layout(stores.root)
    if not stores.database_url and not layout.captures_db.exists():
        yield None
        return
    with (
        stores.index() as database,
        stores.decisions() as decisions,
        closing(LazyRegistrySource(layout, stores.database_url)) as source,
        closing(
            ReaderQueueStatus(layout, with_frontier(Settings(), frontier_url), clock=_CLOCK)
        ) as status,
    ):
        pages = PageStore(database, AccessControl(decisions, database.rows, _CLOCK.now))
        yield LinkEvidenceReader(source, CopyLookup(database, pages), status, _CLOCK)


def _counts(reader: Connection, wiki: Wiki, finder: LinkEvidenceReader | None) -> WikiLinkCounts:
    known = links_of(reader, wiki.id, limit=JUDGED_MOST)
    if finder is None:
        dead = sum(row.state in STATES[Group.UNREACHABLE] for row in known)
        return WikiLinkCounts(len(known), 0, dead, len(known))
    answers = []
    for start in range(0, len(known), _AT_ONCE):
        batch = tuple(asked_url(row.url) for row in known[start : start + _AT_ONCE])
        evidence = finder.find(CachedQuestion(wiki.name, batch), is_internal=True)
        answers += [
            answer_link(facts, AnswerOrigins("", ""), finder.day) for facts in evidence.facts
        ]
    return WikiLinkCounts(
        len(answers),
        sum(each.answer is CopyState.QUEUED for each in answers),
        sum(each.is_dead for each in answers),
        sum(each.answer not in (CopyState.COPY, CopyState.QUEUED) for each in answers),
    )


def _of_first(counts: WikiLinkCounts, name: str) -> str:
    """Return a count; with a plus where not all links were counted."""
    more = "+" if counts.looked_at >= JUDGED_MOST else ""
    return f"{getattr(counts, name):,}{more}"


def _bot(line: WikiOverview) -> str:
    if line.settings is None:
        return "?"
    return "on" if line.settings.bot.enabled else "off"


def _line(
    reader: Connection, wiki: Wiki, finder: LinkEvidenceReader | None, now: datetime
) -> WikiOverview:
    settings = None
    trouble = ""
    try:
        settings = settings_of_wiki(wiki)
    except ConfigError as error:
        trouble = str(error)
    feeds = {k: v for k, v in feeds_of(reader, wiki.id).items() if k in (CHANGES, SWEEP)}
    troubles = dict.fromkeys(feed.trouble for feed in feeds.values() if feed.trouble)
    slow = late_warning(SweepCursor.parse(feeds[SWEEP].cursor), now=now) if SWEEP in feeds else ""
    return WikiOverview(
        wiki,
        settings,
        count_pages(reader, wiki.id, limit=COUNTED_MOST),
        count_links(reader, wiki.id, limit=COUNTED_MOST),
        feeds,
        " ".join([*([trouble] if trouble else []), *troubles, *([slow] if slow else [])]),
        _counts(reader, wiki, finder),
    )


def _many(count: int) -> str:
    return f"{count:,}" if count < COUNTED_MOST else f"over {COUNTED_MOST:,}"


def _feeds(line: WikiOverview, now: datetime) -> str:
    parts = []
    for kind in _SHOWN:
        feed = line.feeds.get(kind)
        if feed is not None:
            past = max((now - feed.moment).total_seconds(), 0)
            parts.append(f"{kind} {format_duration(past)} ago{' (stuck)' if feed.trouble else ''}")
    lease = line.feeds.get(LEASE)
    if lease is not None and lease.moment > now:
        parts.append("watched now")
    if parts:
        return ", ".join(parts)
    return "not begun" if line.wiki.url else "-"


def _facts(line: WikiOverview) -> dict[str, Any]:
    settings: Any = None
    with suppress(ValueError):
        settings = json.loads(line.wiki.settings)
    return {
        "wiki": str(line.wiki.name),
        "url": line.wiki.url,
        "pages_url": line.wiki.pages_url,
        "pages": line.pages,
        "links": line.links,
        "queued": line.counts.queued,
        "dead": line.counts.dead,
        "without_copy": line.counts.bare,
        "judged": line.counts.looked_at,
        "bot": line.settings.bot.enabled if line.settings is not None else None,
        "counted_most": COUNTED_MOST,
        "feeds": {
            kind: {"moment": warc_date(feed.moment), "trouble": feed.trouble}
            for kind, feed in line.feeds.items()
        },
        "trouble": line.trouble,
        "settings": settings,
    }


@cli_command("check")
def check_command(
    *,
    name: str = argument("[WIKI]", required=False, default=""),
    front: str | None = option(
        "The front's origin.  [default: as `wiki watch` serves it]", metavar="ORIGIN"
    ),
    replay: str | None = option("The copies' origin.  [default: the same]", metavar="ORIGIN"),
    bell: str | None = option(
        "Address of the webhook.  [default: that of `wiki watch`]", metavar="HOST:PORT"
    ),
    secret_file: str | None = option("The wiki's secret.  [default: the same]", metavar="FILE"),
    where: CommandTarget = TARGET,
    output: CommandOutput = OUTPUT,
) -> int:
    """Check a wiki's set-up: API, front, copies, webhook, extension, archives, bot.

    Nothing is changed: the webhook gets a signed test request. Addresses are those of the last
    `weboid wiki watch` on this collection, or of the options. Exit code 1 when there is a problem.
    """
    note = read_note(where.layout).changed(front, replay, bell, secret_file)
    with where.stores.registry() as store:
        wiki = choose_wiki(store, name)
        with where.stores.levels() as levels:
            rights = levels.now().rights
        check = WikiSetupCheck(wiki, note, where.settings, store, rights)
        findings = asyncio.run(check.run())
    if output.is_json:
        document = {"wiki": str(wiki.name), "findings": [each.to_dict() for each in findings]}
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(finding_line(finding))
    return (
        ExitCode.SOME_FAILED if any(f.health is SetupHealth.BAD for f in findings) else ExitCode.OK
    )
