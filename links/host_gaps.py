"""Gap between two requests to one host: the general one, what people set for a host, and what 429 taught.

A 429 doubles a host's gap, up to `BACKOFF_LIMIT_S`; `CALM` other answers in a row halve it again. What was
learned outlives a pass. A mark's setting ``gap_s`` for a host or domain takes the place of the general gap,
where the owner of a large site allows more, or wants less.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from core.errors import BadUrlError

BACKOFF_LIMIT_S = 60.0  # 429 makes a gap no longer than this
CALM = 8  # answers in a row after which a gap that 429 made longer is halved
LEAST_GAP_S = 0.05  # that people may set for a host …
LARGEST_GAP_S = 120.0  # … and the largest: a look of two requests must end within its turns
SETTING = "gap_s"

Deciding = Callable[[str, str], str | None]  # `links.marks.Marks.setting`: of a URL, by key


def parse_gap(text: str) -> float | None:
    """Return the seconds that a setting says; None when it is no gap.

    >>> parse_gap("0.5"), parse_gap("0"), parse_gap("nan")
    (0.5, None, None)
    """
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if LEAST_GAP_S <= seconds <= LARGEST_GAP_S else None


@dataclass(slots=True)
class _Backoff:
    seconds: float
    calm: int = 0


class HostGaps:
    """The gaps of one checker.

    Attributes:
        learned_day: the day on which hosts were told of that limited us before; None: never yet.
    """

    def __init__(self, gap_s: float, *, memory: int = 50_000) -> None:
        """Take the general gap; of hosts that said 429 so many are remembered at most."""
        self.gap_s = gap_s
        self.learned_day: int | None = None
        self._memory = memory
        self._backoffs: dict[str, _Backoff] = {}
        self._setting: Deciding = lambda _url, _key: None

    def decide(self, setting: Deciding) -> None:
        """Take what people set for hosts from now on."""
        self._setting = setting

    def of(self, host: str) -> float:
        """Return the seconds from the end of one request to the host to the next."""
        backoff = self._backoffs.get(host)
        base = self.base(host)
        return base if backoff is None else max(base, backoff.seconds)

    def base(self, host: str) -> float:
        """Return the host's gap as long as it never says 429."""
        with suppress(BadUrlError):
            text = self._setting(f"https://{host}/", SETTING)
            found = None if text is None else parse_gap(text)
            if found is not None:
                return found
        return self.gap_s

    def refused(self, host: str) -> bool:
        """Double the gap after a 429; return whether it was as long as it gets before."""
        backoff = self._backoffs.get(host)
        was = 0.0 if backoff is None else backoff.seconds
        self._set(host, min(max(2 * self.base(host), 2 * was), BACKOFF_LIMIT_S))
        return was >= BACKOFF_LIMIT_S

    def answered(self, host: str) -> None:
        """Count an answer that was no 429."""
        backoff = self._backoffs.get(host)
        if backoff is None:
            return
        backoff.calm += 1
        if backoff.calm >= CALM:
            if backoff.seconds > 2 * self.base(host):
                self._set(host, backoff.seconds / 2)
            else:
                del self._backoffs[host]

    def begin_slowly(self, host: str) -> None:
        """Begin with twice the gap at a host that limited us before; it shortens as after a 429."""
        if host not in self._backoffs:
            self._set(host, min(2 * self.base(host), BACKOFF_LIMIT_S))

    def _set(self, host: str, seconds: float) -> None:
        while len(self._backoffs) >= self._memory and host not in self._backoffs:
            del self._backoffs[next(iter(self._backoffs))]
        self._backoffs[host] = _Backoff(seconds)
