"""Timers that a page has set and that are still to fire, as its documents tell of them (pure).

``scripts/timers.js`` runs in each document before its first script and tells through a binding in how
many milliseconds the last timer fires that was set to a short time, and with a plus before it the same
of those up to `LONGEST_MS`. A page might call the binding, too: what it says can only make us wait a
little longer.
"""

from typing import Any

from core.clock import Clock

BINDING = "weboidTimer"
LONGEST_MS = 5_000  # a timer that was set to more is never waited for
LIMIT = 500  # documents and lateness whose timers are heard of


class Timers:
    """When the timers of a page's documents fire."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[tuple[str, int, bool], float] = {}

    def told(self, params: dict[str, Any], session: str) -> bool:
        """Take in a call of the binding from a document of that session; whether it told anything."""
        said: str = params["payload"]
        wait_ms = said.removeprefix("+")
        if len(wait_ms) > 6 or not (wait_ms.isascii() and wait_ms.isdigit()):
            return False
        timer = (session, params["executionContextId"], wait_ms != said)
        if timer not in self._due and len(self._due) >= LIMIT:
            return False
        self._due[timer] = self._clock.monotonic() + min(int(wait_ms), LONGEST_MS) / 1000
        return True

    def until(self, *, late: bool = False) -> float:
        """When the last timer fires that is known and was set to a short time; 0.0: there is none.

        Args:
            late: those that were set to `LONGEST_MS` at most count, too.
        """
        return max(
            (due for (*_, is_late), due in self._due.items() if late or not is_late), default=0.0
        )

    def clear(self) -> None:
        """The page went elsewhere: its timers are gone."""
        self._due.clear()
