"""A link's short history: up to five runs of one code, each with its first and last day (W54).

Every look between a run's two days gave its code. What is kept is 5 bytes a run, 25 in all; the oldest
run leaves first. Of several looks of one day the last one counts, unless the run began earlier: then the
day ends one run and begins the next. What comes late, for a day before the newest run's last, adds
nothing.
"""

import struct
from itertools import pairwise
from typing import NamedTuple

from core.errors import InvariantError
from links.days import LAST_DAY

RUNS = 5
RUN_BYTES = 5
_RUN = struct.Struct(">BHH")


class Run(NamedTuple):
    """Days on which every look gave the same."""

    code: int
    first: int
    last: int


History = tuple[Run, ...]  # oldest first


def add(history: History, code: int, day: int) -> History:
    """The history with a look of that day.

    >>> add((Run(1, 10, 17),), 18, 24)
    (Run(code=1, first=10, last=17), Run(code=18, first=24, last=24))

    Raises:
        InvariantError: the code is no byte, or the day has no number.
    """
    if not (0 <= code <= 0xFF and 0 <= day <= LAST_DAY):
        raise InvariantError(f"No history can hold code {code} on day {day}.")
    if not history:
        return (Run(code, day, day),)
    newest = history[-1]
    if day < newest.last or (code == newest.code and day == newest.last):
        return history
    if code == newest.code:
        return (*history[:-1], Run(code, newest.first, day))
    if newest.first == newest.last == day:  # the day's last look counts
        return add(history[:-1], code, day)
    return (*history, Run(code, day, day))[-RUNS:]


def pack(history: History) -> bytes:
    """The history in at most 25 bytes; `unpack` is its inverse.

    Raises:
        InvariantError: it is longer, or its runs are out of order.
    """
    if not _is_sound(history):
        raise InvariantError(f"This is no history: {history!r}.")
    return b"".join(_RUN.pack(*run) for run in history)


def unpack(packed: bytes | None) -> History:
    """The history that `pack` kept; empty for None.

    Raises:
        InvariantError: these are no such bytes.
    """
    if packed is None:
        return ()
    if len(packed) % RUN_BYTES:
        raise InvariantError(f"This is no history: {packed.hex()}.")
    history = tuple(Run(*run) for run in _RUN.iter_unpack(packed))
    if not _is_sound(history):
        raise InvariantError(f"This is no history: {packed.hex()}.")
    return history


def _is_sound(history: History) -> bool:
    if len(history) > RUNS or any(run.first > run.last for run in history):
        return False
    return all(old.last <= new.first and old.code != new.code for old, new in pairwise(history))
