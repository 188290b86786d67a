"""Check schedule: next due day of a link, log of check runs, links by state for each day, and forecast.

Due days are spread by the URL's key and the day only, so that equal checks give equal days. A run of a share
ends when everything that was due at its beginning was checked; an interrupted run is resumed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from core.config.settings import LinksSettings
from links.check_history import LAST_DAY
from links.check_result import CheckResult, CheckVerdict
from links.checker import due_urls
from links.checker.due_urls import HostShare
from links.checker.timetable import HostGaps
from links.feedback.marks import MarkSet, read_marks
from links.registry.schema import passes, state_counts, urls
from links.states import SETTLED, CheckPreset, LinkHealth, LinkState, preset_of

STATE_DAYS = 90  # days of links by state that are shown
_DAY_S = 86_400
_RETRY_LIMIT_DAYS = 30  # hosts that ask for more are checked nevertheless
_NOT_WORKING = frozenset({LinkState.DEAD, LinkState.BLOCKED, LinkState.USURPED, LinkState.DEVIATED})
_MIX = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: multiples of it are far apart
_64_BITS = (1 << 64) - 1


def next_due(
    before: LinkHealth, after: LinkHealth, finding: CheckResult, day: int, preset: CheckPreset, key: bytes
) -> int | None:
    """Return the day of the check of the URL with that key that follows the one of `day`; None: never."""
    if after.state in SETTLED:
        return None
    if finding.verdict is CheckVerdict.UNDECIDED:
        # These are not checked earlier after an undecided check.
        days = interval_of(after.state, preset) if after.state in _NOT_WORKING else preset.undecided_days
    else:
        days = _interval(before, after, day, preset, key)
    if finding.retry_after_s is not None:
        days = max(days, min(math.ceil(finding.retry_after_s / _DAY_S), _RETRY_LIMIT_DAYS))
    return min(day + max(days, 1), LAST_DAY)


def _interval(before: LinkHealth, after: LinkHealth, day: int, preset: CheckPreset, key: bytes) -> int:
    state, days = after.state, interval_of(after.state, preset)
    if state is LinkState.DYING:
        return days
    if state is LinkState.DEAD:
        was_dead = before.state is LinkState.DEAD
        if not was_dead or before.last_fail is None or after.last_fail is None:
            return days
        grown = after.last_fail - before.last_fail + preset.dead_growth if preset.dead_growth else 0
        return min(max(grown, days), preset.dead_limit_days)
    if state is LinkState.ALIVE and before.state is LinkState.UNKNOWN and preset.first_days:
        return 1 + _spread(key, day, preset.first_days)
    return days + _spread(key, day, preset.spread_days + 1)


def _spread(key: bytes, day: int, days: int) -> int:
    """Compute a pseudorandom number below `days` from key and day."""
    mixed = (int.from_bytes(key[:8], "big") ^ ((day + 1) * _MIX)) * _MIX & _64_BITS
    return (mixed >> 32) * days >> 32


@dataclass(frozen=True, slots=True)
class CheckForecast:
    """Forecast whether all links are checked in time."""

    days: float  # of one check of every link; infinite when there are links and no progress
    load: float  # daily due checks as part of the capacity; above 1 links wait longer
    fits: bool  # `days` is within the maximum of a run
    sentence: str  # the same in English, with a remedy when it does not fit


def forecast_checks(
    links: Mapping[int, int], looks_per_s: float, *, pass_days: int = 28, largest_host: int = 0, host_gap_s: float = 6.0
) -> CheckForecast:
    """Compute how long a check of all links, counted by days between checks, takes (W38).

    >>> forecast_checks({7: 30_000}, 0.5).sentence
    'Checking all 30,000 links takes about 17 hours; 10 % of the capacity is due.'
    """
    total = sum(links.values())
    a_day = max(looks_per_s, 0.0) * _DAY_S
    due = sum(count / max(days, 1) for days, count in links.items())
    by_rate, load = (each / a_day if a_day else math.inf if each else 0.0 for each in (total, due))
    days = max(by_rate, largest_host * host_gap_s / _DAY_S)
    fits = days <= pass_days
    if math.isinf(days):
        takes = "forever, since no checks are done"
    elif days < 2:
        takes = "less than an hour" if days * 24 < 1 else f"about {days * 24:.0f} hours"
    else:
        takes = f"about {days:,.0f} days"
    sentence = f"Checking all {total:,} links takes {takes}"
    if fits and load <= 1:
        sentence += f"; {load:.0%} of the capacity is due.".replace("%", " %")
    elif fits:
        sentence += f", but {load:.1f} times as many links are due as can be checked, so some wait."
    else:
        sentence += f", and should take {pass_days} days at most. "
        if by_rate > pass_days:
            needed = total / (pass_days * _DAY_S)
            sentence += (
                f"{needed:,.2f} checks per second are needed, {looks_per_s:,.2f} are done: allow more connections, or "
                "let another machine check a part of the hosts."
            )
        else:
            sentence += (
                f"One host has {largest_host:,} of them, {host_gap_s:g} s apart: only a shorter interval helps, if "
                "its owner agrees: `weboid links mark gap_s=1 HOST`."
            )
    return CheckForecast(days, load, fits, sentence)


NAMED_RUN = "named"  # the part of passes over named URLs
_RATED = 20  # passes that the rate is seen from
_TELLING_LOOKS = 1_000  # a shorter pass waits for its hosts more than it works …
_TELLING_S = 3_600  # … unless it lasted this long


class CheckRunRow(NamedTuple):
    """Row of a check run, in the order of the columns of `passes`."""

    id: int  # its row's
    part: str  # of the hosts
    started: int  # in seconds since 1970
    ended: int | None  # in seconds since 1970; None while it runs, or when it was interrupted
    due: int  # URLs that were due at its beginning and when it was resumed
    done: int  # URLs checked
    batch: int  # the last stored batch of results


def begin_run(connection: Connection, part: HostShare, *, horizon: int, now: datetime) -> CheckRunRow:
    """Return the share's open run, or create one."""
    left = due_urls.count_due(connection, part, horizon)
    open_run = connection.execute(
        select(passes)
        .where(passes.c.part == str(part), passes.c.ended.is_(None))
        .order_by(passes.c.started.desc())
        .limit(1)
    ).first()
    if open_run is None:
        return new_run(connection, str(part), left, now=now)
    whole = open_run.done + left
    connection.execute(update(passes).where(passes.c.id == open_run.id).values(due=whole))
    return CheckRunRow(*open_run)._replace(due=whole)


def new_run(connection: Connection, part: str, count: int, *, now: datetime) -> CheckRunRow:
    """Create a run over that many URLs of the share, or `NAMED_RUN`."""
    statement = insert(passes).values(part=part, started=int(now.timestamp()), due=count).returning(*passes.c)
    return CheckRunRow(*connection.execute(statement).one())


def end_run(connection: Connection, pass_id: int, *, now: datetime) -> None:
    """Mark the run as complete."""
    connection.execute(update(passes).where(passes.c.id == pass_id).values(ended=int(now.timestamp())))


def count_states(connection: Connection, *, day: int) -> list[dict[str, int]]:
    """Return the rows of `state_counts` for that day, from all URLs (seconds for millions); none when it has some."""
    if connection.execute(select(state_counts.c.day).where(state_counts.c.day == day).limit(1)).first() is not None:
        return []
    rows = connection.execute(select(urls.c.state, func.count()).group_by(urls.c.state))
    return [{"day": day, "state": state, "links": links} for state, links in rows]


def states_by_day(connection: Connection, *, since: int) -> dict[int, dict[LinkState, int]]:
    """Return the counted links by day from `since` on and by state, the oldest day first."""
    table = state_counts
    counts_by_day: dict[int, dict[LinkState, int]] = {}
    query = select(table).where(table.c.day >= since).order_by(table.c.day, table.c.state)
    for day, state, links in connection.execute(query):
        counts_by_day.setdefault(day, {})[LinkState(state)] = links
    return counts_by_day


def latest_runs(connection: Connection, *, limit: int) -> list[CheckRunRow]:
    """Return the newest runs first, without those over named URLs."""
    rows = connection.execute(
        select(passes)
        .where(passes.c.part != NAMED_RUN)
        .order_by(passes.c.started.desc(), passes.c.id.desc())
        .limit(limit)
    )
    return [CheckRunRow(*row) for row in rows]


def checks_per_s(rows: list[CheckRunRow], *, now: datetime) -> float | None:
    """Compute the rate of busy checkers by each share's fastest run; None when no run shows it."""
    best: dict[str, float] = {}
    for row in rows:
        seconds = max((row.ended or int(now.timestamp())) - row.started, 1)
        if row.done >= _TELLING_LOOKS or (row.done and seconds >= _TELLING_S):
            best[row.part] = max(best.get(row.part, 0.0), row.done / seconds)
    return sum(best.values()) if best else None


def run_forecast(connection: Connection, settings: LinksSettings, *, now: datetime) -> CheckForecast | None:
    """Compute the forecast from all URLs (seconds for millions); None while no run shows the rate."""
    rate = checks_per_s(latest_runs(connection, limit=_RATED), now=now)
    if rate is None:
        return None
    preset = preset_of(settings.preset)
    counted = connection.execute(
        select(urls.c.state, func.count()).where(urls.c.due_day.is_not(None)).group_by(urls.c.state)
    )
    links: dict[int, int] = {}
    for state, count in counted:
        is_growing = state == LinkState.DEAD and preset.dead_growth
        interval = preset.dead_limit_days if is_growing else interval_of(LinkState(state), preset)
        links[interval] = links.get(interval, 0) + count
    gaps = HostGaps(settings.host_gap_s)
    gaps.decide(MarkSet(read_marks(connection), lambda: now).setting)
    largest = due_urls.count_by_host(connection, due_urls.ALL_HOSTS, LAST_DAY, limit=1)
    name, most = largest[0] if largest else ("", 0)
    return forecast_checks(links, rate, pass_days=settings.pass_days, largest_host=most, host_gap_s=gaps.base(name))


def interval_of(state: LinkState, preset: CheckPreset) -> int:
    """Return the days between two checks of a link in that state, of a dead one at first."""
    match state:
        case LinkState.DYING:
            return preset.failing_days
        case LinkState.DEAD:
            return preset.dead_days
        case LinkState.BLOCKED:
            return preset.blocked_days
        case LinkState.USURPED | LinkState.DEVIATED:
            return preset.seldom_days
        case _:
            return preset.alive_days


def longest_due(connection: Connection, *, day: int) -> int:
    """Return for how many days the longest waiting URL has been due; 0 when none is."""
    first = due_urls.next_due_day(connection, after=due_urls.URGENT_DAY)
    return 0 if first is None else max(day - first, 0)
