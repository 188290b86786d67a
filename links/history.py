"""A link's short history: up to five runs of one code, each with its first and last day (W54).

Every look between a run's two days gave its code. What is kept is 5 bytes a run, 25 in all; the oldest
run leaves first. Of several looks of one day the last one counts, unless the run began earlier: then the
day ends one run and begins the next. What comes late, for a day before the newest run's last, adds
nothing.
"""

from typing import NamedTuple

RUNS = 5
RUN_BYTES = 5


class Run(NamedTuple):
    """Days on which every look gave the same."""

    code: int
    first: int
    last: int


History = tuple[Run, ...]  # oldest first


def add(history: History, code: int, day: int) -> History:
    """The history with a look of that day.

    Raises:
        InvariantError: the code is no byte, or the day has no number.
    """
    raise NotImplementedError


def pack(history: History) -> bytes:
    """The history in at most 25 bytes; `unpack` is its inverse."""
    raise NotImplementedError


def unpack(packed: bytes | None) -> History:
    """The history that `pack` kept; empty for None.

    Raises:
        InvariantError: these are no such bytes.
    """
    raise NotImplementedError
