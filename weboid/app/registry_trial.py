"""Trial of a registry: a copy of its collection without WARCs, and simulation of days on it."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import ConfigError, InputError, UnavailableError
from core.layout import CONFIG_FILE, Layout
from crawler.collection import copy_database, make_collection, trial_mark_path
from links.check_history import day_of
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker.check_run import CheckRun, CheckTally
from links.checker.check_worker import CheckWorkerOptions, open_check_context, plan_from_settings
from links.checker.due_urls import ALL_HOSTS, links_awaiting_browser, share_of_bucket
from links.checker.result_store import CheckRules, RecordedResult, UrlCheckResult, record_results
from links.registry.database import RegistryStore, copy_rows, open_registry_read_only, open_registry_store
from links.registry.pages import number_of
from links.registry.schema import refs, urls
from links.registry.urls import UrlRow, urls_by_id, urls_by_key
from links.registry.wikis import Wiki
from links.states import preset_of
from links.url_parts import bucket_of
from net.address_policy import is_own

_CLOCK = SystemClock()
_GONE = CheckResult(StatusCode.REFUSED, CheckVerdict.FAILING, CheckMethod.HEAD, note="tcp: refused", whole_host=True)


COPY_URLS_LIMIT = 2_000_000  # of a registry in PostgreSQL: about 1 GB in the copy
_NAMES = ("links_db", "captures_db", "decisions_db")


def make_trial_copy(layout: Layout, root: Path, database_url: str = "") -> Layout:
    """Copy registry, index and decisions (unless they are in PostgreSQL) into a new folder, marked as a trial."""
    if not database_url and not layout.links_db.exists():
        raise UnavailableError(f"{layout.root} has no link registry: `weboid wiki add` makes one.")
    if root.exists() and any(root.iterdir()):
        raise ConfigError(f"{root} is not empty: name a new folder for the trial.")
    if database_url:
        from warc.index.postgres import take_snapshot  # needs PostgreSQL's driver

        store = open_registry_read_only(layout, database_url)
        if store is None:
            raise UnavailableError("The database has no link registry: `weboid wiki add` makes one.")
        with closing(store):
            with store.reading() as rows:
                count = rows.execute(select(func.count()).select_from(urls)).scalar_one()
            if count > COPY_URLS_LIMIT:
                raise InputError(
                    f"The registry has {count:,} links, and a trial copies {COPY_URLS_LIMIT:,} at most. Read the wiki "
                    "into a collection of its own, without --database and [index] url: `weboid wiki add URL "
                    "--collection DIR`, `weboid wiki sweep --now --collection DIR`; then `weboid wiki trial "
                    "--collection DIR`."
                )
            copy = _new_copy(layout, root)
            with closing(open_registry_store(copy)) as own, store.reading() as original, own.writing() as here:
                copy_rows(original, here)
        take_snapshot(database_url, copy.captures_db)
        return copy
    copy = _new_copy(layout, root)
    for name in _NAMES:
        source: Path = getattr(layout, name)
        if source.exists():
            copy_database(source, getattr(copy, name))
    return copy


def _new_copy(layout: Layout, root: Path) -> Layout:
    copy = Layout(root)
    make_collection(copy, _CLOCK)
    trial_mark_path(copy).write_text(json.dumps({"copy_of": str(layout.root.absolute())}) + "\n")
    for path in (layout.marker, layout.root / CONFIG_FILE):
        if path.exists():
            (root / path.name).write_bytes(path.read_bytes())
    return copy


@dataclass
class LinkForecast:
    """Simulated history of a link."""

    url: str
    failed: int = 0  # failed checks until it reached its state
    # times at which it reached each state
    events: list[dict[str, Any]] = field(default_factory=list)


class RegistryTrial:
    """Simulation of days on a copy of the registry."""

    def __init__(self, store: RegistryStore, wiki: Wiki, settings: Settings, holder: str, limit: int) -> None:
        """Choose the links of a wiki, at most `limit`; `holder` names the process in leases."""
        self._store = store
        self._settings = settings
        self._holder = holder
        self._rules = CheckRules(preset_of(settings.links.preset), browser=True)
        its = (refs.c.page >= number_of(wiki.id, 0), refs.c.page < number_of(wiki.id + 1, 0))
        query = (
            select(urls.c.key)
            .where(urls.c.id.in_(select(refs.c.url_id).where(*its, refs.c.gone_day.is_(None))))
            .order_by(urls.c.key)
            .limit(limit)
        )
        with store.reading() as rows:
            keys = [bytes(row.key) for row in rows.execute(query)]
            self._links = urls_by_key(rows, keys)
        self._forecasts = {each.id: LinkForecast(each.url) for each in self._links}

    def run(self, days: int, lost_hosts: set[str]) -> list[LinkForecast]:
        """Check once, then simulate the days; return the forecast of each link."""
        now = _CLOCK.now()
        results = {each.id: _GONE for each in self._links if each.host in lost_hosts}
        others = [each for each in self._links if each.id not in results]
        unreachable = [UrlCheckResult(id_, _GONE, now) for id_ in results]
        if others:
            results |= asyncio.run(self._check(others))
        self._record(unreachable, now)
        for day in range(days + 1):
            self._pass_day(now + timedelta(days=day), results)
        return list(self._forecasts.values())

    async def _check(self, links: Sequence[UrlRow]) -> dict[int, CheckResult]:
        """Check these links as `weboid links check URL` does; return the results by link id."""
        results: dict[int, CheckResult] = {}

        def on_recorded(recorded: Sequence[RecordedResult], _tally: CheckTally) -> None:
            self._note(recorded, _CLOCK.now())
            results.update((each.url_id, each.finding) for each in recorded)

        parts = [share_of_bucket(each) for each in sorted({bucket_of(each.host) for each in links})]
        plan = plan_from_settings(self._settings.links, ALL_HOSTS)
        worker = CheckWorkerOptions(self._holder, is_own)
        async with open_check_context(self._store, self._settings, parts, worker, clock=_CLOCK) as context:
            await context.leases.take()
            await CheckRun(context, plan, on_save=on_recorded).run(asyncio.Event(), named=links)
        return results

    def _pass_day(self, now: datetime, results: dict[int, CheckResult]) -> None:
        with self._store.reading() as rows:
            stored = urls_by_id(rows, list(results))
        today = day_of(now)
        due = (row.id for row in stored.values() if row.due_day is not None and row.due_day <= today)
        numbers = [number for number in due if stored[number].checked_day != today]
        self._record([UrlCheckResult(number, results[number], now) for number in numbers], now)
        with self._store.reading() as rows:
            waiting = [each.url_id for each in links_awaiting_browser(rows, limit=10_000) if each.url_id in results]
        browser_results = ((number, replace(results[number], how=CheckMethod.BROWSER)) for number in waiting)
        self._record([UrlCheckResult(number, result, now) for number, result in browser_results], now)

    def _record(self, results: Sequence[UrlCheckResult], now: datetime) -> None:
        if results:
            with self._store.writing() as rows:
                recorded = record_results(rows, results, self._rules)
            self._note(recorded, now)

    def _note(self, recorded: Sequence[RecordedResult], now: datetime) -> None:
        for each in recorded:
            if (forecast := self._forecasts.get(each.url_id)) is None:
                continue
            forecast.failed += each.finding.verdict is not CheckVerdict.OK
            if each.after is not each.before:
                event = {"day": f"{now:%Y-%m-%d}", "state": each.after.name.lower(), "failed": forecast.failed}
                forecast.events.append(event | {"evidence": each.finding.note})
