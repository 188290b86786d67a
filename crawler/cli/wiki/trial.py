"""`weboid wiki trial`: what would happen to a wiki's links in the coming weeks, on a copy of the registry."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
from sqlalchemy import select

from core.clock import CLOCK_OFFSET, SystemClock
from core.settings import Settings
from crawler.cli.exits import Exit
from crawler.cli.tables import clean
from crawler.cli.where import Where, where_options
from crawler.cli.wiki.bot_opening import wiki_named
from crawler.cli.wiki.opening import settings_of_wiki
from crawler.cli.wiki.watch import holder_name
from crawler.cli.wiki.watch_note import read_note
from crawler.trial_copy import make_trial_copy
from links.books.pages import number_of
from links.books.urls import urls_by_id
from links.books.wikis import Wiki, change_wiki
from links.checking import due
from links.checking.booking import Booked, Result, book
from links.checking.due import DueUrl
from links.checking.judging import Rules
from links.checking.leases import release_all
from links.checking.opining import awaiting_opinion
from links.checking.parts import WHOLE, part_of_bucket
from links.checking.passing import Passing
from links.checking.plans import Tally
from links.checking.working import Worker, means_of, plan_of
from links.days import day_of
from links.findings import Finding, How, Verdict
from links.locator import bucket_of
from links.presets import preset_of
from links.status import Code
from links.store.schema import refs, urls
from links.store.store import Store, open_store
from playback.database import INDEX_URL
from playback.decisions.store import copy_decisions, open_decisions
from proxy.addresses import is_own
from wiki.settings import WikiSettings, changed

_CLOCK = SystemClock()
_SHARED = frozenset({INDEX_URL, "WEBOID_FRONTIER", "WEBOID_DEDUP"})  # stores that are no copies
_GONE = Finding(Code.REFUSED, Verdict.FAILING, How.HEAD, note="tcp: refused", whole_host=True)


@dataclass
class _Told:
    """What happened to a link.

    Attributes:
        failed: looks that failed, until it came to its state.
        events: when it came to which state.
    """

    url: str
    failed: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)


@click.command("trial")
@click.argument("name", required=False, default="", metavar="[WIKI]")
@click.option(
    "--days", type=click.IntRange(1, 400), default=40, show_default=True, help="How far to look."
)
@click.option(
    "--gone",
    multiple=True,
    metavar="HOST",
    help="As if nobody answered at this host any more; may be given several times.",
)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="So many links."
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the copy there, for `weboid --clock-offset 40d … --collection DIR`.",
)
@click.option("--bot/--no-bot", default=True, help="Show what the bot would write then.")
@where_options
def command(
    *,
    name: str,
    days: int,
    gone: tuple[str, ...],
    limit: int,
    keep: Path | None,
    bot: bool,
    where: Where,
    as_json: bool,
) -> int:
    """Show what would happen to a wiki's links, and what the bot would write then.

    Every link is looked at once, now; what was seen is then taken to be seen again whenever the schedule
    has it looked at, and a browser to see the same. --gone lets a host be gone. All happens on a copy of
    the registry: neither the real one nor the wiki is changed.
    """
    with ExitStack() as stack:
        root = keep or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "trial"
        url = where.settings.index.url
        copy = make_trial_copy(where.layout, root, url)
        if url:
            with closing(open_decisions(where.layout, url)) as decisions:
                copy_decisions(decisions, copy.decisions_db)
        store = stack.enter_context(closing(open_store(copy, "")))
        wiki = _released(store, wiki_named(store, name), read_note(where.layout).front)
        trial = _Trial(store, wiki, where.settings, limit)
        told = trial.run(days, {host.lower() for host in gone})
        if as_json:
            document = {"wiki": str(wiki.name), "links": [vars(each) for each in told]}
            click.echo(json.dumps(document, ensure_ascii=False))
        else:
            for line in _lines(told, days):
                click.echo(line)
        if bot and not as_json and any(each.events for each in told):
            click.echo(f"\nThe bot, {days} days from now:")
            return _bot(root, wiki, days, where.profile)
    return Exit.OK


def _released(store: Store, wiki: Wiki, front: str) -> Wiki:
    """Let the copy be nobody's, its bot have no account, and know where readers find copies."""
    said = settings_of_wiki(wiki)
    bot = changed(
        said.bot, "bot", enabled=False, account="", password_file="", front=said.bot.front or front
    )
    merged = WikiSettings(said.feed, bot, said.templates).merged_into(wiki.settings)
    with store.writing() as rows:
        change_wiki(rows, wiki, settings=merged)
        release_all(rows)  # the checkers of a running watch
    return wiki_named(store, str(wiki.name))


class _Trial:
    """Days that pass on a copy of the registry."""

    def __init__(self, store: Store, wiki: Wiki, settings: Settings, limit: int) -> None:
        self._store = store
        self._settings = settings
        self._rules = Rules(preset_of(settings.links.preset), browser=True)
        self._links = self._chosen(wiki, limit)
        self._told: dict[int, _Told] = {each.id: _Told(each.url) for each in self._links}

    def run(self, days: int, gone: set[str]) -> list[_Told]:
        """Look once, then let the days pass; what happened to each link."""
        now = _CLOCK.now()
        found = {each.id: _GONE for each in self._links if each.host in gone}
        asked = [each for each in self._links if each.id not in found]
        if asked:
            found |= asyncio.run(self._look(asked))
        self._book([Result(id_, _GONE, now) for id_, each in found.items() if each is _GONE], now)
        for day in range(days + 1):
            self._pass_day(now + timedelta(days=day), found)
        return list(self._told.values())

    def _chosen(self, wiki: Wiki, limit: int) -> list[DueUrl]:
        its = (refs.c.page >= number_of(wiki.id, 0), refs.c.page < number_of(wiki.id + 1, 0))
        question = (
            select(urls.c.key)
            .where(urls.c.id.in_(select(refs.c.url_id).where(*its, refs.c.gone_day.is_(None))))
            .order_by(urls.c.key)
            .limit(limit)
        )
        with self._store.reading() as rows:
            return due.by_keys(rows, [bytes(row.key) for row in rows.execute(question)])

    async def _look(self, named: Sequence[DueUrl]) -> dict[int, Finding]:
        """Look at these now, as `weboid links check URL` does; what was found, by their numbers."""
        found: dict[int, Finding] = {}

        def kept(booked: Sequence[Booked], _tally: Tally) -> None:
            self._note(booked, _CLOCK.now())
            found.update((each.url_id, each.finding) for each in booked)

        parts = [part_of_bucket(each) for each in sorted({bucket_of(each.host) for each in named})]
        plan = plan_of(self._settings.links, WHOLE)
        worker = Worker(holder_name(), is_own)
        async with means_of(self._store, self._settings, parts, worker, clock=_CLOCK) as means:
            await means.tenure.take()
            await Passing(means, plan, on_kept=kept).run(asyncio.Event(), named=named)
        return found

    def _pass_day(self, now: datetime, found: dict[int, Finding]) -> None:
        """See again what was seen of the links that are due, and let the browser see the same."""
        with self._store.reading() as rows:
            known = urls_by_id(rows, list(found))
        today = day_of(now)
        results = [
            Result(number, finding, now)
            for number, finding in found.items()
            if (row := known.get(number)) is not None
            and row.due_day is not None
            and row.due_day <= today
            and row.checked_day != today
        ]
        self._book(results, now)
        with self._store.reading() as rows:
            waiting = awaiting_opinion(rows, limit=10_000)
        self._book(
            [
                Result(each.url_id, replace(found[each.url_id], how=How.BROWSER), now)
                for each in waiting
                if each.url_id in found
            ],
            now,
        )

    def _book(self, results: Sequence[Result], now: datetime) -> None:
        if results:
            with self._store.writing() as rows:
                booked = book(rows, results, self._rules)
            self._note(booked, now)

    def _note(self, booked: Sequence[Booked], now: datetime) -> None:
        for each in booked:
            told = self._told.get(each.url_id)
            if told is None:
                continue
            told.failed += each.finding.verdict is not Verdict.OK
            if each.after is not each.before:
                event = {
                    "day": f"{now:%Y-%m-%d}",
                    "state": each.after.name.lower(),
                    "failed": told.failed,
                    "evidence": each.finding.note,
                }
                told.events.append(event)


def _lines(told: Sequence[_Told], days: int) -> list[str]:
    """Return what happened, the links that end first."""
    lines = []
    same = 0
    for each in told:
        if not each.events:
            same += 1
            continue
        lines.append(clean(each.url))
        for event in each.events:
            why = f" ({event['evidence']})" if event["evidence"] else ""
            after = f" after {event['failed']} failed checks" if event["failed"] else ""
            lines.append(clean(f"  {event['day']}  {event['state']}{after}{why}"))
    lines.append(f"{same} of {len(told)} links stay as they are for {days} days.")
    return lines


def _bot(root: Path, wiki: Wiki, days: int, profile: str) -> int:
    """Show what the bot would write, with the clock moved."""
    line = [sys.executable, "-m", "crawler.cli", "wiki", "bot", "run", str(wiki.name), "--dry-run"]
    options = [f"--collection={root}", f"--profile={profile}"]
    env = {name: value for name, value in os.environ.items() if name not in _SHARED}
    ran = subprocess.run([*line, *options], env={**env, CLOCK_OFFSET: f"{days}d"}, check=False)
    # One without a front or archives refuses and says why, as it would on that day.
    refused = (Exit.OK, Exit.SOME_FAILED, Exit.INPUT)
    return Exit.OK if ran.returncode in refused else Exit.SOME_FAILED
