"""Passes over all that is due: noted, gone on with after a crash, and foretold (W38).

A pass of a part begins when none is open and ends when everything that was due at its beginning was
looked at. One that was broken off is gone on with: what it did counts, what it did not is still due.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from core.settings import LinksSettings
from links.checking import due
from links.checking.parts import Part
from links.host_gaps import HostGaps
from links.marks import Marks, standing
from links.presets import Preset, preset_of
from links.schedule import Outlook, pass_outlook
from links.states import State
from links.store.schema import hosts, passes, urls

NAMED = "named"  # the part of passes over URLs that somebody named
_RATED = 20  # passes that the rate is seen from
_TELLING_LOOKS = 1_000  # a shorter pass waits for its hosts more than it works …
_TELLING_S = 3_600  # … unless it went on for so long


@dataclass(frozen=True, slots=True)
class PassRow:
    """A pass.

    Attributes:
        id: its row's.
        part: of the hosts.
        started: in seconds since 1970.
        ended: in seconds since 1970; None while it goes on, or when it was broken off.
        due: URLs that were due when it began, and since, when it was gone on with.
        done: URLs looked at.
        batch: the last batch of results that was kept.
    """

    id: int
    part: str
    started: int
    ended: int | None
    due: int
    done: int
    batch: int


def begin(connection: Connection, part: Part, *, horizon: int, now: datetime) -> PassRow:
    """The part's open pass, or a new one."""
    left = due.count_due(connection, part, horizon)
    found = connection.execute(
        select(passes)
        .where(passes.c.part == str(part), passes.c.ended.is_(None))
        .order_by(passes.c.started.desc())
        .limit(1)
    ).first()
    if found is None:
        return _new(connection, str(part), left, now)
    whole = found.done + left
    connection.execute(update(passes).where(passes.c.id == found.id).values(due=whole))
    return _pass(found, due_now=whole)


def begin_named(connection: Connection, count: int, *, now: datetime) -> PassRow:
    """A pass over so many URLs that somebody named."""
    return _new(connection, NAMED, count, now)


def end(connection: Connection, pass_id: int, *, now: datetime) -> None:
    """The pass has looked at everything."""
    connection.execute(
        update(passes).where(passes.c.id == pass_id).values(ended=int(now.timestamp()))
    )


def latest(connection: Connection, *, limit: int) -> list[PassRow]:
    """The newest passes first, those over named URLs left out."""
    found = connection.execute(
        select(passes)
        .where(passes.c.part != NAMED)
        .order_by(passes.c.started.desc(), passes.c.id.desc())
        .limit(limit)
    )
    return [_pass(row) for row in found]


def looks_per_s(rows: list[PassRow], *, now: datetime) -> float | None:
    """How fast checkers are when they are busy, all parts together; None when no pass tells.

    Of each part its fastest pass counts: a slower one had less to do.
    """
    best: dict[str, float] = {}
    for row in rows:
        seconds = max((row.ended or int(now.timestamp())) - row.started, 1)
        if row.done >= _TELLING_LOOKS or (row.done and seconds >= _TELLING_S):
            best[row.part] = max(best.get(row.part, 0.0), row.done / seconds)
    return sum(best.values()) if best else None


def outlook(connection: Connection, settings: LinksSettings, *, now: datetime) -> Outlook | None:
    """Whether everything is looked at in time; None while no pass tells how fast looks are.

    It counts all URLs: seconds for millions of them, minutes for hundreds of millions.
    """
    rate = looks_per_s(latest(connection, limit=_RATED), now=now)
    if rate is None:
        return None
    preset = preset_of(settings.preset)
    counted = connection.execute(
        select(urls.c.state, func.count()).where(urls.c.due_day.is_not(None)).group_by(urls.c.state)
    )
    links: dict[int, int] = {}
    for state, count in counted:
        interval = interval_of(State(state), preset)
        links[interval] = links.get(interval, 0) + count
    largest = connection.execute(
        select(urls.c.host_id, func.count().label("links"))
        .where(urls.c.due_day.is_not(None))
        .group_by(urls.c.host_id)
        .order_by(func.count().desc())
        .limit(1)
    ).first()
    gaps = HostGaps(settings.host_gap_s)
    name = ""
    if largest is not None:
        gaps.decide(Marks(standing(connection), _Moment(now)).setting)
        found = connection.execute(select(hosts.c.name).where(hosts.c.id == largest.host_id))
        name = found.scalar_one()
    return pass_outlook(
        links,
        rate,
        pass_days=settings.pass_days,
        largest_host=0 if largest is None else largest.links,
        host_gap_s=gaps.base(name),
    )


@dataclass(frozen=True, slots=True)
class _Moment:
    """A clock that stands still."""

    moment: datetime

    def now(self) -> datetime:
        """Return the moment."""
        return self.moment

    def monotonic(self) -> float:
        """Return its seconds."""
        return self.moment.timestamp()


def interval_of(state: State, preset: Preset) -> int:
    """Days between two looks at a link in that state, of a dead one in the long run."""
    match state:
        case State.DYING:
            return preset.failing_days
        case State.DEAD:
            return preset.dead_limit_days if preset.dead_growth else preset.dead_days
        case State.BLOCKED:
            return preset.blocked_days
        case State.USURPED | State.DEVIATED:
            return preset.seldom_days
        case _:
            return preset.alive_days


def longest_due(connection: Connection, *, day: int) -> int:
    """For how many days the URL that waits longest has been due; 0 when none is."""
    first = connection.execute(
        select(urls.c.due_day)
        .where(urls.c.due_day > due.URGENT_DAY)
        .order_by(urls.c.due_day)
        .limit(1)
    ).scalar()
    return 0 if first is None else max(day - int(first), 0)


def _new(connection: Connection, part: str, count: int, now: datetime) -> PassRow:
    started = int(now.timestamp())
    made = connection.execute(insert(passes).values(part=part, started=started, due=count))
    assert made.inserted_primary_key is not None
    return PassRow(made.inserted_primary_key[0], part, started, None, count, 0, 0)


def _pass(row: Any, due_now: int | None = None) -> PassRow:
    count = row.due if due_now is None else due_now
    return PassRow(row.id, row.part, row.started, row.ended, count, row.done, row.batch)
