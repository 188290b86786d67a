"""Effect of check results on the rows of URLs, written in batches exactly once.

A batch has a number (`advance_run`), in case its commit confirmation is lost. Results are applied to the current
rows: since the start of the check a person may have marked a URL, or a page lost it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, or_, select, update

from core.media_types import format_name
from core.storable_text import storable
from links.check_history import add_check, day_of, pack_history, unpack_history
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker.check_schedule import next_due
from links.checker.due_urls import URGENT_DAY
from links.checker.timetable import Deciding
from links.feedback.reports import drop_reports
from links.registry import quirks
from links.registry.archive_backlog import want_urls
from links.registry.citations import links_tagged_dead
from links.registry.quirks import HostQuirk, UrlQuirk
from links.registry.schema import observations, passes, urls
from links.registry.statements import insert_missing
from links.registry.urls import UrlRow, health_columns, row_of, select_url_rows
from links.states import PRESETS, SETTLED, CheckPreset, LinkState, needs_browser, next_health
from links.url_parts import split_identity

OBSERVATIONS = 8  # single checks that are kept of a URL at most
_FAILURES = frozenset({CheckVerdict.GONE, CheckVerdict.FAILING})
_NOTE_LIMIT = 500
_FINAL_LIMIT = 16_384
_CHANGED = ("checked_day", "due_day", "code", "history", "mime", "kib", "opinion_day")
_OPINION_DAYS = 3  # failures that old are still what a browser contradicts


@dataclass(frozen=True, slots=True)
class CheckRules:
    """Rules for the evaluation of results."""

    preset: CheckPreset  # the thresholds and intervals
    browser: bool  # a browser is available
    settings: Deciding | None = None  # manual settings of URLs (A16); None: none

    def of(self, url: str) -> "CheckRules":
        """Return the rules for that URL; TransientError when the registry does not answer."""
        if self.settings is None:
            return self
        name = self.settings(url, "preset")
        days = self.settings(url, "every_days")
        if name is None and days is None:
            return self
        # Values written by a newer version or by hand are ignored.
        preset = PRESETS.get(name or "", self.preset)
        preset = replace(preset, trusts_tags=self.preset.trusts_tags)
        if days is not None and days.isdecimal() and 0 < len(days) < 4:
            preset = replace(preset, alive_days=int(days), first_days=0, spread_days=0)
        return replace(self, preset=preset)


def effective_result(finding: CheckResult, quirks: frozenset[HostQuirk], *, browser: bool) -> CheckResult:
    """Return the result as it counts: where browsers reach pages, failures only ask for a browser check."""
    is_ours = finding.how in (CheckMethod.HEAD, CheckMethod.GET, CheckMethod.INFERRED)
    if not browser or not is_ours or HostQuirk.UNVERIFIABLE not in quirks:
        return finding
    if finding.verdict not in _FAILURES:
        return finding
    # An inference requests nothing: the URL's own check will.
    verdict = CheckVerdict.UNDECIDED if finding.how is CheckMethod.INFERRED else CheckVerdict.SUSPECT
    return replace(finding, verdict=verdict, note=f"unverifiable: {finding.note}")


def compute_update(stored: UrlRow, finding: CheckResult, day: int, rules: CheckRules) -> UrlRow:
    """Return the URL's row after a result, which went through `effective_result`."""
    before = stored.standing
    now = next_health(before, finding, day, rules.preset, browser=rules.browser)
    due = next_due(before, now, finding, day, rules.preset, stored.key)
    needs_opinion = rules.browser and needs_browser(now, rules.preset, day)
    mime, kib = _format(stored, finding)
    code, history = stored.code, stored.history
    if finding.code != StatusCode.NONE:
        code, history = finding.code, pack_history(add_check(unpack_history(history), finding.code, day))
    return stored._replace(
        **health_columns(now) | {"state": now.state},
        code=code,
        history=history,
        mime=mime,
        kib=kib,
        checked_day=day,
        # Whatever the result, the current pass must not check it again.
        due_day=None if due is None else max(due, day + 1, URGENT_DAY + 1),
        opinion_day=(day if stored.opinion_day is None else stored.opinion_day) if needs_opinion else None,
    )


def _format(stored: UrlRow, finding: CheckResult) -> tuple[str | None, int | None]:
    """Return the unusual type and its length (W57, W66); HEAD sets a type only where none is known."""
    is_seen = finding.verdict is CheckVerdict.OK and finding.how is not CheckMethod.BROWSER
    name = format_name(finding.mime) if is_seen and finding.mime else None
    by_head = finding.how is CheckMethod.HEAD and (stored.mime or name in ("", "binary"))
    if name is None or (by_head and stored.mime != name):
        return stored.mime, stored.kib
    if not name:
        return None, None
    length = finding.length
    same = stored.kib if stored.mime == name else None
    return name, same if length is None else min(-(-length // 1024), 0x7FFFFFFF)


_AT_ONCE = 500
# A page's "dead link" tag.
_TAGGED_DEAD = CheckResult(StatusCode.NONE, CheckVerdict.GONE, CheckMethod.PERSON)


@dataclass(frozen=True, slots=True)
class UrlCheckResult:
    """Check result of a URL in the registry."""

    url_id: int  # the URL's row
    finding: CheckResult
    moment: datetime  # time of the check, aware


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """Stored result."""

    url_id: int  # the URL's row
    url: str  # its identity key
    finding: CheckResult
    before: LinkState
    after: LinkState  # the state now
    due_day: int | None  # the day of the next check; None: never
    awaits_opinion: bool  # a browser check is needed


def record_results(
    connection: Connection, results: Sequence[UrlCheckResult], rules: CheckRules
) -> list[RecordedResult]:
    """Store check results, oldest first. URLs that are no longer watched are skipped."""
    # In rounds without duplicate URLs, each within the size of a statement.
    rounds: list[dict[int, UrlCheckResult]] = []
    placed: dict[int, int] = {}
    for result in results:
        number = placed.get(result.url_id, -1) + 1
        while number < len(rounds) and len(rounds[number]) >= _AT_ONCE:
            number += 1
        if number >= len(rounds):
            rounds.append({})
        rounds[number][result.url_id] = result
        placed[result.url_id] = number
    booked_rounds = (_book_once(connection, list(batch.values()), rules) for batch in rounds)
    return [each for booked in booked_rounds for each in booked]


def advance_run(connection: Connection, pass_id: int, batch: int, done: int) -> bool:
    """Record a batch of the run and its number of checks; return False when it was recorded before."""
    changed = connection.execute(
        update(passes)
        .where(passes.c.id == pass_id, passes.c.batch == batch - 1)
        .values(batch=batch, done=passes.c.done + done)
    )
    return changed.rowcount == 1


def delay_hosts(connection: Connection, delays: Mapping[int, int], *, horizon: int) -> None:
    """Move URLs of these hosts that are due up to the horizon to a later day, without a result."""
    for host_id, due_day in delays.items():
        connection.execute(
            update(urls).where(urls.c.host_id == host_id, urls.c.due_day <= horizon).values(due_day=due_day)
        )


def _book_once(connection: Connection, results: list[UrlCheckResult], rules: CheckRules) -> list[RecordedResult]:
    query = (
        select_url_rows()
        .where(urls.c.id.in_(sorted(result.url_id for result in results)))
        .order_by(urls.c.id)  # always locked in the same order
        .with_for_update(of=urls)
    )
    rows = {row[0]: row_of(row) for row in connection.execute(query)}
    if not rows:
        return []
    days = [day_of(result.moment) for result in results]
    held = quirks.quirks_of(connection, {row.host for row in rows.values()}, day=max(days))
    tagged = links_tagged_dead(connection, rows) if rules.preset.trusts_tags else frozenset()
    batch = _RowBatch(day=max(days), now=max(result.moment for result in results))
    for result, day in zip(results, days, strict=True):
        row = rows.get(result.url_id)
        if row is None:
            continue
        finding = effective_result(result.finding, held.get(row.host, frozenset()), browser=rules.browser)
        if row.state in SETTLED:
            facts = (row.id, row.url, result.finding, row.state, row.state, row.due_day)
            batch.booked.append(RecordedResult(*facts, awaits_opinion=False))
            continue
        judged_by = rules.of(row.url)
        if row.id in tagged and finding.verdict in _FAILURES:
            health = next_health(row.standing, _TAGGED_DEAD, day, judged_by.preset, browser=rules.browser)
            row = row._replace(**health_columns(health) | {"state": health.state})
        batch.add(result, finding, row, compute_update(row, finding, day, judged_by))
        where, last = split_identity(row.url), row.last_fail_day
        is_failing = row.state in (LinkState.DYING, LinkState.DEAD) and last is not None and day - last <= _OPINION_DAYS
        for kind, is_there in quirks.detect_host_quirks(where, result.finding, is_known_failing=is_failing).items():
            batch.of_hosts[row.host_id, kind] = is_there
        for url_kind, value in quirks.detect_url_quirks(where, result.finding).items():
            batch.of_urls[row.id, url_kind] = value
    batch.write(connection)
    return batch.booked


class _RowBatch:
    """Changes by results, collected for a few statements."""

    def __init__(self, *, day: int, now: datetime) -> None:
        self.booked: list[RecordedResult] = []
        self._day = day
        self._now = now
        self._changed: list[dict[str, Any]] = []
        self._observed: list[dict[str, Any]] = []
        self._answering: list[int] = []
        self._revived: list[int] = []
        self.of_hosts: dict[tuple[int, HostQuirk], bool] = {}
        self.of_urls: dict[tuple[int, UrlQuirk], str] = {}

    def add(self, result: UrlCheckResult, finding: CheckResult, stored: UrlRow, row: UrlRow) -> None:
        facts = (row.id, row.url, result.finding, stored.state, row.state, row.due_day)
        self.booked.append(RecordedResult(*facts, awaits_opinion=row.opinion_day is not None))
        changed = {name: getattr(row, name) for name in _CHANGED}
        self._changed.append({"b_id": row.id, **changed, **health_columns(row.standing)})
        is_alike = finding.verdict is CheckVerdict.OK and row.state is stored.state and finding.code == stored.code
        if stored.is_new or not is_alike:
            self._observed.append(
                {
                    "url_id": row.id,
                    "moment": int(result.moment.timestamp()),
                    "how": int(finding.how),
                    "code": finding.code,
                    "verdict": str(finding.verdict),
                    "http": finding.http if finding.http is not None and 0 <= finding.http <= 999 else None,
                    "final_url": storable(finding.final_url[:_FINAL_LIMIT]),
                    "note": storable(finding.note[:_NOTE_LIMIT]),
                    "similarity": finding.similarity,
                }
            )
        methods = (CheckMethod.HEAD, CheckMethod.GET, CheckMethod.BROWSER)
        if finding.verdict is CheckVerdict.OK and finding.how in methods:
            self._answering.append(row.id)
        if row.state is LinkState.ALIVE and stored.state is not LinkState.ALIVE:
            self._revived.append(row.id)

    def write(self, connection: Connection) -> None:
        if self._changed:
            connection.execute(update(urls).where(urls.c.id == bindparam("b_id")), self._changed)
        if self._observed:
            insert_missing(connection, observations, self._observed)
            # Keep the newest checks of each of these URLs.
            ids = [row["url_id"] for row in self._observed]
            counted = connection.execute(
                select(observations.c.url_id)
                .where(observations.c.url_id.in_(ids))
                .group_by(observations.c.url_id)
                .having(func.count() > OBSERVATIONS)
            )
            for (url_id,) in counted.all():
                oldest = connection.execute(
                    select(observations.c.moment, observations.c.how)
                    .where(observations.c.url_id == url_id)
                    .order_by(observations.c.moment.desc(), observations.c.how.desc())
                    .limit(1)
                    .offset(OBSERVATIONS - 1)
                ).one()
                older = or_(
                    observations.c.moment < oldest.moment,
                    and_(observations.c.moment == oldest.moment, observations.c.how < oldest.how),
                )
                connection.execute(delete(observations).where(observations.c.url_id == url_id, older))
        if self._answering:  # W14: reports about a URL that answers are not needed
            drop_reports(connection, self._answering)
        if self._revived:  # what was down when it was cited can be archived now
            want_urls(connection, self._revived, now=self._now)
        quirks.write_host_quirks(connection, self.of_hosts, day=self._day)
        quirks.write_url_quirks(connection, self.of_urls, day=self._day)
