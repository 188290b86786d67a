"""`weboid wiki trial`: simulation of the coming weeks on a copy of the registry."""

import asyncio
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
from core.config.settings import Settings
from links.check_history import day_of
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker import due_urls
from links.checker.check_leases import ALL_HOSTS, release_all_leases, share_of_bucket
from links.checker.check_run import CheckRun, CheckTally
from links.checker.check_worker import CheckWorkerOptions, open_check_context, plan_from_settings
from links.checker.due_urls import DueUrl, links_awaiting_browser
from links.checker.result_store import CheckRules, RecordedResult, UrlCheckResult, record_results
from links.registry.database import RegistryStore, open_registry_store
from links.registry.pages import number_of
from links.registry.schema import refs, urls
from links.registry.urls import urls_by_id
from links.registry.wikis import Wiki, change_wiki
from links.states import preset_of
from links.url_parts import bucket_of
from net.address_policy import is_own
from playback.access.decision_store import copy_decisions
from warc.index.database import INDEX_URL
from weboid.app.collection_snapshot import make_trial_copy
from weboid.app.text_table import clean
from weboid.app.wiki_clients import settings_of_wiki
from weboid.app.wiki_intake import read_note
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import ExitCode, argument, cli_command, option
from weboid.cli.support.options import OUTPUT, CommandOutput
from weboid.cli.wiki.bot_setup import choose_wiki
from weboid.cli.wiki.wiki_watch import lease_holder_name
from wiki.settings import WikiSettings, replace_settings

_CLOCK = SystemClock()
_SHARED = frozenset({INDEX_URL, "WEBOID_FRONTIER", "WEBOID_DEDUP"})  # stores that are no copies
_GONE = CheckResult(
    StatusCode.REFUSED, CheckVerdict.FAILING, CheckMethod.HEAD, note="tcp: refused", whole_host=True
)


@dataclass
class _LinkForecast:
    """Simulated history of a link."""

    url: str
    failed: int = 0  # failed checks until it reached its state
    # times at which it reached each state
    events: list[dict[str, Any]] = field(default_factory=list)


@cli_command("trial")
def command(
    *,
    name: str = argument("[WIKI]", required=False, default=""),
    days: int = option("Days to simulate.", type=click.IntRange(1, 400), default=40),
    gone: tuple[str, ...] = option(
        "Simulate that this host no longer answers; may be given several times.", metavar="HOST"
    ),
    limit: int = option("So many links.", type=click.IntRange(1, 10_000), default=200),
    keep: Path | None = option(
        "Keep the copy there, for `weboid --clock-offset 40d … --collection DIR`.",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
    ),
    bot: bool = option(
        "Show what the bot would write then.", "--bot/--no-bot", default=True, show_default=False
    ),
    where: CommandTarget = TARGET,
    output: CommandOutput = OUTPUT,
) -> int:
    """Simulate the coming weeks of a wiki's links, and show the bot's edits at the end.

    Every link is checked once, now; each later check that is due, and each browser confirmation, is
    assumed to have the same result. --gone simulates the loss of a host. All happens on a copy of
    the
    registry: neither the real one nor the wiki is changed.
    """
    with ExitStack() as stack:
        root = keep or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "trial"
        url = where.settings.index.url
        copy = make_trial_copy(where.layout, root, url)
        if url:
            with where.stores.decisions() as decisions:
                copy_decisions(decisions, copy.decisions_db)
        store = stack.enter_context(closing(open_registry_store(copy, "")))
        wiki = _released(store, choose_wiki(store, name), read_note(where.layout).front)
        trial = _RegistryTrial(store, wiki, where.settings, limit)
        told = trial.run(days, {host.lower() for host in gone})
        document = {"wiki": str(wiki.name), "links": [vars(each) for each in told]}
        output.show(document, _lines(told, days))
        if bot and not output.is_json and any(each.events for each in told):
            click.echo(f"\nThe bot, {days} days from now:")
            return _bot(root, wiki, days, where.profile)
    return ExitCode.OK


def _released(store: RegistryStore, wiki: Wiki, front: str) -> Wiki:
    said = settings_of_wiki(wiki)
    bot = replace_settings(
        said.bot, "bot", enabled=False, account="", password_file="", front=said.bot.front or front
    )
    merged = WikiSettings(said.feed, bot, said.templates).merged_into(wiki.settings)
    with store.writing() as rows:
        change_wiki(rows, wiki, settings=merged)
        release_all_leases(rows)  # the checkers of a running watch
    return choose_wiki(store, str(wiki.name))


class _RegistryTrial:
    """Simulation of days on a copy of the registry."""

    def __init__(self, store: RegistryStore, wiki: Wiki, settings: Settings, limit: int) -> None:
        self._store = store
        self._settings = settings
        self._rules = CheckRules(preset_of(settings.links.preset), browser=True)
        self._links = self._chosen(wiki, limit)
        self._told: dict[int, _LinkForecast] = {
            each.id: _LinkForecast(each.url) for each in self._links
        }

    def run(self, days: int, gone: set[str]) -> list[_LinkForecast]:
        """Check once, then simulate the days; return the forecast of each link."""
        now = _CLOCK.now()
        found = {each.id: _GONE for each in self._links if each.host in gone}
        asked = [each for each in self._links if each.id not in found]
        if asked:
            found |= asyncio.run(self._look(asked))
        self._book(
            [UrlCheckResult(id_, _GONE, now) for id_, each in found.items() if each is _GONE], now
        )
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
            return due_urls.watched_urls_by_key(
                rows, [bytes(row.key) for row in rows.execute(question)]
            )

    async def _look(self, named: Sequence[DueUrl]) -> dict[int, CheckResult]:
        """Check these links as `weboid links check URL` does; return the results by link id."""
        found: dict[int, CheckResult] = {}

        def kept(booked: Sequence[RecordedResult], _tally: CheckTally) -> None:
            self._note(booked, _CLOCK.now())
            found.update((each.url_id, each.finding) for each in booked)

        parts = [share_of_bucket(each) for each in sorted({bucket_of(each.host) for each in named})]
        plan = plan_from_settings(self._settings.links, ALL_HOSTS)
        worker = CheckWorkerOptions(lease_holder_name(), is_own)
        async with open_check_context(
            self._store, self._settings, parts, worker, clock=_CLOCK
        ) as means:
            await means.tenure.take()
            await CheckRun(means, plan, on_kept=kept).run(asyncio.Event(), named=named)
        return found

    def _pass_day(self, now: datetime, found: dict[int, CheckResult]) -> None:
        with self._store.reading() as rows:
            known = urls_by_id(rows, list(found))
        today = day_of(now)
        results = [
            UrlCheckResult(number, finding, now)
            for number, finding in found.items()
            if (row := known.get(number)) is not None
            and row.due_day is not None
            and row.due_day <= today
            and row.checked_day != today
        ]
        self._book(results, now)
        with self._store.reading() as rows:
            waiting = links_awaiting_browser(rows, limit=10_000)
        self._book(
            [
                UrlCheckResult(
                    each.url_id, replace(found[each.url_id], how=CheckMethod.BROWSER), now
                )
                for each in waiting
                if each.url_id in found
            ],
            now,
        )

    def _book(self, results: Sequence[UrlCheckResult], now: datetime) -> None:
        if results:
            with self._store.writing() as rows:
                booked = record_results(rows, results, self._rules)
            self._note(booked, now)

    def _note(self, booked: Sequence[RecordedResult], now: datetime) -> None:
        for each in booked:
            told = self._told.get(each.url_id)
            if told is None:
                continue
            told.failed += each.finding.verdict is not CheckVerdict.OK
            if each.after is not each.before:
                event = {
                    "day": f"{now:%Y-%m-%d}",
                    "state": each.after.name.lower(),
                    "failed": told.failed,
                    "evidence": each.finding.note,
                }
                told.events.append(event)


def _lines(told: Sequence[_LinkForecast], days: int) -> list[str]:
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
    line = [sys.executable, "-m", "weboid", "wiki", "bot", "run", str(wiki.name), "--dry-run"]
    options = [f"--collection={root}", f"--profile={profile}"]
    env = {name: value for name, value in os.environ.items() if name not in _SHARED}
    ran = subprocess.run([*line, *options], env={**env, CLOCK_OFFSET: f"{days}d"}, check=False)
    # A bot without a front or archives refuses with the reason, as it would on that day.
    refused = (ExitCode.OK, ExitCode.SOME_FAILED, ExitCode.INPUT)
    return ExitCode.OK if ran.returncode in refused else ExitCode.SOME_FAILED
