"""Day numbers and the packed history of the checks of a link.

Day 0 is 1 January 2017; day 65535 is in the year 2196. All of a day's checks share its number, so two
histories can be compared (the Julian Day that begins at a day's noon is 2,457,755 more), and nobody reads from them at what hour somebody asked.

>>> from datetime import UTC, date, datetime
>>> day_of(datetime(2017, 1, 2, 23, 59, tzinfo=UTC)), date_of(0)
(1, datetime.date(2017, 1, 1))

Every look between a run's two days gave its code. What is kept is 5 bytes a run, 25 in all; the oldest
run leaves first. Of several looks of one day the last one counts, unless the run began earlier: then the
day ends one run and begins the next. What comes late, for a day before the newest run's last, adds
nothing.
"""

import struct
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from core.errors import InvariantError

EPOCH = date(2017, 1, 1)
LAST_DAY = 0xFFFF


def day_of(moment: datetime) -> int:
    """The moment's day in UTC; what lies outside of the calendar is its first or last day."""
    return day_of_date(moment.astimezone(UTC).date())


def day_of_date(when: date) -> int:
    """The date's day; what lies outside of the calendar is its first or last day."""
    return min(max((when - EPOCH).days, 0), LAST_DAY)


def date_of(day: int) -> date:
    """The day's date."""
    return EPOCH + timedelta(days=day)


RUNS = 5
RUN_BYTES = 5
_RUN = struct.Struct(">BHH")


class HistoryRun(NamedTuple):
    """Days on which every look gave the same."""

    code: int
    first: int
    last: int


History = tuple[HistoryRun, ...]  # oldest first


def add_check(history: History, code: int, day: int) -> History:
    """The history with a look of that day.

    >>> add_check((HistoryRun(1, 10, 17),), 18, 24)
    (Run(code=1, first=10, last=17), Run(code=18, first=24, last=24))

    Raises:
        InvariantError: the code is no byte, or the day has no number.
    """
    if not (0 <= code <= 0xFF and 0 <= day <= LAST_DAY):
        raise InvariantError(f"No history can hold code {code} on day {day}.")
    if not history:
        return (HistoryRun(code, day, day),)
    newest = history[-1]
    if day < newest.last or (code == newest.code and day == newest.last):
        return history
    if code == newest.code:
        return (*history[:-1], HistoryRun(code, newest.first, day))
    if newest.first == newest.last == day:  # the day's last look counts
        return add_check(history[:-1], code, day)
    return (*history, HistoryRun(code, day, day))[-RUNS:]


def pack_history(history: History) -> bytes:
    """The history in at most 25 bytes; `unpack_history` is its inverse.

    Raises:
        InvariantError: it is longer, or its runs are out of order.
    """
    if not _is_sound(history):
        raise InvariantError(f"This is no history: {history!r}.")
    return b"".join(_RUN.pack(*run) for run in history)


def unpack_history(packed: bytes | None) -> History:
    """The history that `pack_history` kept; empty for None.

    Raises:
        InvariantError: these are no such bytes.
    """
    if packed is None:
        return ()
    if len(packed) % RUN_BYTES:
        raise InvariantError(f"This is no history: {packed.hex()}.")
    history = tuple(HistoryRun(*run) for run in _RUN.iter_unpack(packed))
    if not _is_sound(history):
        raise InvariantError(f"This is no history: {packed.hex()}.")
    return history


def _is_sound(history: History) -> bool:
    if len(history) > RUNS or any(run.first > run.last for run in history):
        return False
    return all(old.last <= new.first and old.code != new.code for old, new in pairwise(history))
