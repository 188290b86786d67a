"""How far a server's clock is ahead of ours, so that machines whose clocks differ agree.

Invariant: the answer is never older than a minute, nor from before our clock was set.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

CHECK_EVERY_S = 60.0
# Our clock and the monotonic one part by more only when somebody set ours.
STEP = timedelta(seconds=1)
_LOOKS = 3


class ServerClock:
    """The server's clock, looked at now and then.

    Args:
        server_now: what it says; None: reckon in our own time.
        monotonic: a clock that nobody sets, in seconds.
    """

    def __init__(
        self, server_now: Callable[[], datetime] | None, monotonic: Callable[[], float]
    ) -> None:
        self._server_now = server_now
        self._monotonic = monotonic
        self._seen: tuple[datetime, float] | None = None
        self._checked = 0.0
        self._offset = timedelta(0)

    @property
    def last(self) -> timedelta:
        """The last `offset`, for verbs to which no moment is told."""
        return self._offset

    def offset(self, now: datetime) -> timedelta:
        """What to add to our moments; `now` is the present one.

        Raises:
            whatever asking the server raises.
        """
        if self._server_now is None:
            return self._offset
        tick = self._monotonic()
        if self._is_due(now, tick):
            self._offset = self._measured(now, tick, self._server_now)
            self._checked = tick
        self._seen = now, tick
        return self._offset

    def _is_due(self, now: datetime, tick: float) -> bool:
        if self._seen is None or tick - self._checked > CHECK_EVERY_S:
            return True
        seen, then = self._seen
        return abs(now - seen - timedelta(seconds=tick - then)) > STEP

    def _measured(
        self, now: datetime, tick: float, server_now: Callable[[], datetime]
    ) -> timedelta:
        """Of some looks the quickest; it was answered half-way between question and answer."""
        quickest, offset = float("inf"), timedelta(0)
        for _ in range(_LOOKS):
            asked = self._monotonic()
            said = server_now()
            answered = self._monotonic()
            if answered - asked < quickest:
                quickest = answered - asked
                offset = said - (now + timedelta(seconds=(asked + answered) / 2 - tick))
        return offset
