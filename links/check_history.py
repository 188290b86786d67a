"""Day numbers and the packed history of the checks of a link.

Day 0 is 1 January 2017; day 65535 is in the year 2196. All checks of a day share its number, so
histories can be compared, and the hour of a request is not disclosed.

>>> from datetime import UTC, date, datetime
>>> day_of(datetime(2017, 1, 2, 23, 59, tzinfo=UTC)), date_of(0)
(1, datetime.date(2017, 1, 1))

A run, in 5 bytes, is a period in which every check returned the same status code; of more than five the oldest is
dropped. Of several checks on one day the last counts, unless the run began earlier: then the day ends one run
and begins the next. A check for a day before the end of the newest run is ignored.
"""

import struct
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from core.errors import InvariantError

EPOCH = date(2017, 1, 1)
LAST_DAY = 0xFFFF


def day_of(moment: datetime) -> int:
    """Return the day number of a time in UTC, clamped to the calendar's range."""
    return day_of_date(moment.astimezone(UTC).date())


def day_of_date(when: date) -> int:
    """Return the day number of a date, clamped to the calendar's range."""
    return min(max((when - EPOCH).days, 0), LAST_DAY)


def date_of(day: int) -> date:
    """Return the date of a day number."""
    return EPOCH + timedelta(days=day)


RUNS = 5
RUN_BYTES = 5
_RUN = struct.Struct(">BHH")


class HistoryRun(NamedTuple):
    """Period of days with equal check codes."""

    code: int
    first: int
    last: int


History = tuple[HistoryRun, ...]  # oldest first


def add_check(history: History, code: int, day: int) -> History:
    """Return the history with a check added; InvariantError for a code or day out of range.

    >>> add_check((HistoryRun(1, 10, 17),), 18, 24)
    (HistoryRun(code=1, first=10, last=17), HistoryRun(code=18, first=24, last=24))
    """
    if not (0 <= code <= 0xFF and 0 <= day <= LAST_DAY):
        raise InvariantError(f"A history cannot store code {code} on day {day}.")
    if not history:
        return (HistoryRun(code, day, day),)
    newest = history[-1]
    if day < newest.last or (code == newest.code and day == newest.last):
        return history
    if code == newest.code:
        return (*history[:-1], HistoryRun(code, newest.first, day))
    if newest.first == newest.last == day:  # the day's last check counts
        return add_check(history[:-1], code, day)
    return (*history, HistoryRun(code, day, day))[-RUNS:]


def pack_history(history: History) -> bytes:
    """Encode the history in at most 25 bytes; InvariantError when it is longer or out of order."""
    if not _is_sound(history):
        raise InvariantError(f"This is not a history: {history!r}.")
    return b"".join(_RUN.pack(*run) for run in history)


def unpack_history(packed: bytes | None) -> History:
    """Decode a history from `pack_history`; empty for None. InvariantError for invalid bytes."""
    if packed is None:
        return ()
    is_whole = len(packed) % RUN_BYTES == 0
    history = tuple(HistoryRun(*run) for run in _RUN.iter_unpack(packed)) if is_whole else ()
    if not is_whole or not _is_sound(history):
        raise InvariantError(f"This is not a history: {packed.hex()}.")
    return history


def _is_sound(history: History) -> bool:
    if len(history) > RUNS or any(run.first > run.last for run in history):
        return False
    return all(old.last <= new.first and old.code != new.code for old, new in pairwise(history))
