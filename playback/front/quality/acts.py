"""What reviewers do: judge a copy, take that back, have it captured again.

Everything blocks; Starlette runs it in threads.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

from sqlalchemy import Connection

from core.clock import Clock
from core.errors import TransientError
from core.quality import Verdict
from links.books.quality import CheckedPage, RepairState, checks_of, review, want_repair
from links.store.store import Store

_PATIENCE_S = 5.0
_WRITERS = 2
WAITING = frozenset({RepairState.WANTED, RepairState.BEGUN})


class Act(StrEnum):
    """What a reviewer's button does."""

    GOOD = "good"
    BAD = "bad"
    CLEAR = "clear"
    RECRAWL = "recrawl"


JUDGED = {Act.GOOD: Verdict.GOOD, Act.BAD: Verdict.BROKEN, Act.CLEAR: Verdict.UNCHECKED}


class Acts:
    """Does it. From any thread.

    Args:
        registry: gives the registry.
        clock: tells when.
    """

    def __init__(self, registry: Callable[[], Store], clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._writers = threading.BoundedSemaphore(_WRITERS)

    def do(self, act: Act, page_id: str, level: str, *, by: str, note: str) -> bool:
        """Do it; False when nothing is known of the capture any more.

        Raises:
            TransientError: the registry does not answer; nothing was done.
        """
        now = self._clock.now()
        with self._writing() as rows:
            if act is Act.RECRAWL:
                # What waits already goes on waiting, and what is under way is not begun again.
                known = checks_of(rows, [page_id])
                waits = any(row.repair in WAITING for row in known)
                return waits or want_repair(rows, page_id, level, now=now)
            return review(rows, page_id, level, JUDGED[act], by=by, note=note, now=now)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A connection that writes; when others wait for one already, nobody waits long."""
        if not self._writers.acquire(timeout=_PATIENCE_S):
            raise TransientError("The link registry is being written to.")
        try:
            with self._registry().writing() as rows:
                yield rows
        finally:
            self._writers.release()


def pressed(row: CheckedPage) -> list[Act]:
    """Which of the buttons are down."""
    down = {
        Act.GOOD: row.review is Verdict.GOOD,
        Act.BAD: row.review is Verdict.BROKEN,
        Act.RECRAWL: row.repair in WAITING,
    }
    return [act for act, is_down in down.items() if is_down]
