"""`weboid wiki ls`, `check` and `trial`: watched wikis, their set-up, and a forecast of their links."""

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from sqlalchemy import Connection, delete

from core.clock import CLOCK_OFFSET
from core.config.settings import INDEX_URL, Settings
from core.errors import ConfigError
from core.json_values import json_facts
from core.layout import Layout
from core.timestamps import format_duration, warc_date
from links.registry.database import open_registry_store
from links.registry.farm_queries import count_contents, links_of
from links.registry.link_search import STATES
from links.registry.schema import leases
from links.registry.wikis import Wiki, all_farms, all_wikis, change_wiki, feeds_of
from playback.access.control import AccessControl
from playback.web.cached_links.cached_answer import AnswerOrigins, CopyState, answer_link
from playback.web.cached_links.cached_request import CachedQuestion, requested_url
from playback.web.copy_lookup import CopyLookup
from playback.web.page_store import PageStore
from playback.web.registry.registry_service import RegistrySource
from playback.web.registry.registry_values import Group
from weboid.app.reader_queue_status import ReaderQueueStatus
from weboid.app.text_table import clean
from weboid.app.wiki.wiki_clients import settings_of_wiki
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import FOLDER, FRONTIER, counted, output, table_lines, with_frontier
from weboid.cli.support.run_options import WEBOID
from weboid.cli.support.stores import STORES, CollectionStores
from wiki.settings import replace_settings
from wiki.sync.feed_context import CHANGES, SWEEP
from wiki.sync.sweep import SweepCursor, late_warning

if TYPE_CHECKING:
    from playback.web.cached_links.cached_api import LinkEvidenceReader
    from weboid.app.registry_trial import LinkForecast

COUNTED_MOST: Final = 1_000_000
JUDGED_MOST: Final = 10_000
_AT_ONCE: Final = 500
_HEAD: Final = (*("wiki", "pages>", "links>", "queued>", "dead>", "no copy>", "bot", "feeds", "api"),)
_SHOWN: Final = (CHANGES, SWEEP)  # to people; the others are workings of the feeder
_SHARED = frozenset({INDEX_URL, "WEBOID_FRONTIER", "WEBOID_DEDUP", "WEBOID_STORAGE"})  # stores that are not copies


@cli_command("ls")
def list_command(*, stores: CollectionStores = STORES, frontier_url: str = FRONTIER) -> None:
    """List the wikis, with their pages, links, states and bot.

    Links that are queued, dead or without a copy are counted among the first 10,000 of a wiki.
    """
    rows, documents, troubles = [], [], []
    with stores.registry() as store, _finder(stores, frontier_url) as finder, store.reading() as connection:
        for wiki in all_wikis(connection):
            document, feeds = _wiki_facts(connection, wiki, finder)
            documents.append(document)
            more = "+" if document["judged"] >= JUDGED_MOST else ""  # not all links were counted
            most = (f"{n:,}" if n < COUNTED_MOST else f"over {n:,}" for n in (document["pages"], document["links"]))
            counts = (f"{document[name]:,}{more}" for name in ("queued", "dead", "without_copy"))
            bot = {True: "on", False: "off", None: "?"}[document["bot"]]
            address = wiki.url or "no API is known: weboid wiki add URL --name …"
            rows.append((str(wiki.name), *most, *counts, bot, feeds, address))
            if document["trouble"]:
                troubles.append(f"{wiki.name}: {clean(document['trouble'])}")
        farms = [{"farm": farm.name, "address": farm.address, "hosts": farm.internal} for farm in all_farms(connection)]
    known = ["No wiki is known: `weboid wiki add URL` adds one, by any address of it."]
    output.show({"wikis": documents, "farms": farms}, (table_lines(_HEAD, rows) if rows else known) + troubles)


def _wiki_facts(reader: Connection, wiki: Wiki, finder: "LinkEvidenceReader | None") -> tuple[dict[str, Any], str]:
    """Return a wiki's settings, counts of its links by what readers see, and sync state; the state also in words."""
    now, bot, troubles = CLOCK.now(), None, []
    try:
        bot = settings_of_wiki(wiki).bot.enabled
    except ConfigError as error:
        troubles.append(str(error))
    feeds = {kind: feed for kind, feed in feeds_of(reader, wiki.id).items() if kind in _SHOWN}
    troubles += dict.fromkeys(feed.trouble for feed in feeds.values() if feed.trouble)
    if SWEEP in feeds and (slow := late_warning(SweepCursor.parse(feeds[SWEEP].cursor), now=now)):
        troubles.append(slow)
    parts, answers = [], []
    for kind in _SHOWN:
        if (feed := feeds.get(kind)) is not None:
            past = max((now - feed.moment).total_seconds(), 0)
            parts.append(f"{kind} {format_duration(past)} ago{' (stuck)' if feed.trouble else ''}")
    known = links_of(reader, wiki.id, limit=JUDGED_MOST)
    dead, bare = sum(row.state in STATES[Group.UNREACHABLE] for row in known), len(known)
    if finder is not None:
        for start in range(0, len(known), _AT_ONCE):
            batch = tuple(requested_url(row.url) for row in known[start : start + _AT_ONCE])
            evidence = finder.find(CachedQuestion(wiki.name, batch), is_internal=True)
            answers += [answer_link(facts, AnswerOrigins("", "")) for facts in evidence.facts]
        dead = sum(each.is_dead for each in answers)
        bare = sum(each.answer not in (CopyState.COPY, CopyState.QUEUED) for each in answers)
    settings: Any = None
    with suppress(ValueError):
        settings = json.loads(wiki.settings)
    document = {
        "wiki": str(wiki.name),
        **json_facts(wiki, "url pages_url"),
        **count_contents(reader, wiki.id, limit=COUNTED_MOST),
        "queued": sum(each.answer is CopyState.QUEUED for each in answers),
        "dead": dead,  # the cited content is not at the URL any more
        "without_copy": bare,  # here or elsewhere, and not queued
        "judged": len(known),  # links counted by what readers see
        "bot": bot,
        "counted_most": COUNTED_MOST,
        "feeds": {kind: {"moment": warc_date(feed.moment), "trouble": feed.trouble} for kind, feed in feeds.items()},
        "trouble": " ".join(troubles),
        "settings": settings,
    }
    return document, ", ".join(parts) or ("not begun" if wiki.url else "-")


@contextmanager
def _finder(stores: CollectionStores, frontier_url: str) -> Iterator["LinkEvidenceReader | None"]:
    """Yield the front's link evidence reader; None while nothing is archived."""
    from playback.web.cached_links.cached_api import LinkEvidenceReader

    layout = Layout(stores.root)
    if not stores.database_url and not layout.captures_db.exists():
        yield None
        return
    with (
        stores.index() as database,
        stores.decisions() as decisions,
        closing(RegistrySource(layout, stores.database_url)) as source,
        closing(ReaderQueueStatus(layout, with_frontier(Settings(), frontier_url), clock=CLOCK)) as status,
    ):
        pages = PageStore(database, AccessControl(decisions, database.rows, CLOCK.now))
        yield LinkEvidenceReader(source, CopyLookup(database, pages), status, CLOCK)


@cli_command("check")
def check_command(
    *,
    name: str = argument("[WIKI]", required=False, default=""),
    front: str | None = option("The front's origin.  [default: as `wiki watch` serves it]", metavar="ORIGIN"),
    replay: str | None = option("The copies' origin.  [default: the same]", metavar="ORIGIN"),
    webhook: str | None = option("Address of the webhook.  [default: that of `wiki watch`]", metavar="HOST:PORT"),
    secret_file: str | None = option(
        "The wiki's secret.  [default: the same]", "--webhook-secret-file", metavar="FILE"
    ),
    where: CommandTarget = TARGET,
) -> int:
    """Check a wiki's set-up, and name what to do.

    It checks API, front, copies, webhook, extension, archives and bot.

    Nothing is changed: the webhook gets a signed test request. Addresses are those of the last
    `weboid wiki watch` on this collection, or of the options. Exit code 1 when there is a problem.
    """
    from weboid.app.setup_check import SetupHealth  # with the clients of all that is checked: a second
    from weboid.app.wiki.wiki_intake import read_note
    from weboid.app.wiki.wiki_setup_check import WikiSetupCheck
    from weboid.cli.maintenance import finding_line
    from weboid.cli.wiki.bot_setup import choose_wiki

    note = read_note(where.layout).changed(front, replay, webhook, secret_file)
    with where.stores.registry() as store:
        wiki = choose_wiki(store, name)
        with where.stores.levels() as levels:
            rights = levels.now().rights
        check = WikiSetupCheck(wiki, note, where.settings, store, rights)
        findings = asyncio.run(check.run())
    document = {"wiki": str(wiki.name), "findings": [each.to_dict() for each in findings]}
    output.show(document, map(finding_line, findings))
    return ExitCode.SOME_FAILED if any(f.health is SetupHealth.BAD for f in findings) else ExitCode.OK


@cli_command("trial")
def trial_command(
    *,
    name: str = argument("[WIKI]", required=False, default=""),
    days: int = option("Days to simulate.", within=(1, 400), default=40),
    gone: tuple[str, ...] = option("Simulate that this host is down; may be given several times.", metavar="HOST"),
    limit: int = option("Maximum number of links.", within=(1, 10_000), default=200),
    keep: Path | None = option(
        "Keep the copy in this folder, for `weboid --clock-offset 40d … --collection DIR`.", type=FOLDER, metavar="DIR"
    ),
    bot: bool = option(
        "Show what the bot would write at that time.", "--bot/--no-bot", default=True, show_default=False
    ),
    front: str | None = option("Public origin of our own copies, which the bot would cite.", metavar="ORIGIN"),
    where: CommandTarget = TARGET,
) -> int:
    """Simulate the coming weeks of a wiki's links and the bot's edits.

    Every link is checked once, now; each later check that is due, and each browser confirmation, is
    assumed to have the same result. --gone simulates the loss of a host. All happens on a copy of the
    registry: neither the real one nor the wiki is changed.
    """
    from playback.access.decision_store import copy_decisions
    from weboid.app.registry_trial import RegistryTrial, make_trial_copy  # with the link checker: half a second
    from weboid.app.wiki.wiki_intake import read_note
    from weboid.cli.wiki.bot_setup import choose_wiki, front_origin
    from weboid.cli.wiki.wiki_watch import lease_holder_name

    cited = front_origin(front)
    with ExitStack() as stack:
        root = keep or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "trial"
        url = where.settings.index.url
        copy = make_trial_copy(where.layout, root, url)
        if url:
            with where.stores.decisions() as decisions:
                copy_decisions(decisions, copy.decisions_db)
        store = stack.enter_context(closing(open_registry_store(copy, "")))
        wiki = choose_wiki(store, name)
        settings = settings_of_wiki(wiki)
        if cited is None:
            cited = settings.bot.front or read_note(where.layout).front
        off = {"enabled": False, "account": "", "password_file": "", "front": cited}
        settings = replace(settings, bot=replace_settings(settings.bot, "bot", **off))
        with store.writing() as rows:
            change_wiki(rows, wiki, settings=settings.merged_into(wiki.settings))
            rows.execute(delete(leases))  # of the checkers of a running watch
        wiki = choose_wiki(store, str(wiki.name))
        trial = RegistryTrial(store, wiki, where.settings, lease_holder_name(), limit)
        forecasts = trial.run(days, {host.lower() for host in gone})
        document = {"wiki": str(wiki.name), "links": [vars(each) for each in forecasts]}
        output.show(document, _lines(forecasts, days))
        if bot and not output.is_json and any(each.events for each in forecasts):
            click.echo(f"\nThe bot, {days} days from now:")
            own = (f"--collection={root}", f"--profile={where.profile}")
            environ = {name: value for name, value in os.environ.items() if name not in _SHARED}
            ran = subprocess.run(
                [*WEBOID, "wiki", "bot", "run", str(wiki.name), "--dry-run", *own],
                env={**environ, CLOCK_OFFSET: f"{days}d"},
                check=False,
            )
            # A bot without a front or archives refuses with the reason, as it would on that day.
            refused = (ExitCode.OK, ExitCode.SOME_FAILED, ExitCode.INPUT)
            return ExitCode.OK if ran.returncode in refused else ExitCode.SOME_FAILED
    return ExitCode.OK


def _lines(forecasts: Sequence["LinkForecast"], days: int) -> list[str]:
    lines = []
    for each in forecasts:
        lines += [clean(each.url)] if each.events else []
        for event in each.events:
            why = f" ({event['evidence']})" if event["evidence"] else ""
            after = f" after {counted(event['failed'], 'failed check')}" if event["failed"] else ""
            lines.append(clean(f"  {event['day']}  {event['state']}{after}{why}"))
    if not forecasts:
        return ["The wiki has no links yet: `weboid wiki sweep` reads its pages."]
    same = sum(not each.events for each in forecasts)
    return [*lines, f"{same} of {len(forecasts)} links do not change within {days} days."]
