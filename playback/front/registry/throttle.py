"""Who may ask how often (W23): token buckets for a reader, the reader's range, and everybody.

A bucket holds `burst` tokens and gains `per_s` of them each second. A question takes one, or is told
how long to wait; one that was dear is charged for it afterwards, and the next has to wait longer. Memory is bounded: what was used longest ago is forgotten first, and because all
share the last bucket, somebody with ever new addresses gains nothing by that.

Buckets are this process's, unless `SharedBuckets` keeps them for several; while those cannot be had,
this process's count.
"""

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass

from playback.front.readers import Address, neighbourhood, one_reader
from playback.front.registry.shared_throttle import Bucket, SharedBuckets

MOST_BUCKETS = 20_000
_ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens that come back each second, and how many there are at most."""

    per_s: float
    burst: float


@dataclass(frozen=True, slots=True)
class Rates:
    """What one reader, one range and everybody together may ask.

    The defaults allow every sensible use: a gadget asks once for each page that is opened, a bot a
    few times a second.
    """

    reader: Rate = Rate(5, 60)
    range: Rate = Rate(15, 180)
    everybody: Rate = Rate(300, 3_000)


class Throttle:
    """Counts questions. From any thread; the caller tells the time, in seconds that never go back."""

    def __init__(
        self,
        rates: Rates,
        *,
        most: int = MOST_BUCKETS,
        shared: SharedBuckets | None = None,
        name: str = "",
    ) -> None:
        """Prepare the buckets.

        Args:
            rates: what may be asked.
            most: how many buckets this process remembers.
            shared: keeps the buckets of several processes; None: each has its own.
            name: tells these buckets there from those of other questions.
        """
        self._rates = rates
        self._shared = shared
        self._name = name
        self._most = most
        self._lock = threading.Lock()
        # What is left, and when that was so; the least recently used first.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, address: Address, now: float) -> int:
        """0 when the question may be answered, and it is counted; else whole seconds to wait."""
        if self._shared is not None:
            shared_wait = self._shared.wait_s(self._shared_buckets(address))
            if shared_wait is not None:
                return shared_wait
        with self._lock:
            left = self._all_left(address, now)
            wait = max((1 - have) / rate.per_s for _, rate, have in left)
            if wait > _ROUNDING_S:
                return math.ceil(wait - _ROUNDING_S)
            self._take(left, 1, now)
            return 0

    def charge(self, address: Address, now: float, cost: float) -> None:
        """Count a question that is being answered as so many more; it may leave a debt."""
        if self._shared is not None and self._shared.charge(self._shared_buckets(address), cost):
            return
        with self._lock:
            self._take(self._all_left(address, now), cost, now)

    def __len__(self) -> int:
        return len(self._buckets)

    def _shared_buckets(self, address: Address) -> list[Bucket]:
        return [
            (f"{self._name} {name}", rate.per_s, rate.burst) for name, rate in self._named(address)
        ]

    def _all_left(self, address: Address, now: float) -> list[tuple[str, Rate, float]]:
        return [(name, rate, self._left(name, rate, now)) for name, rate in self._named(address)]

    def _named(self, address: Address) -> tuple[tuple[str, Rate], ...]:
        return (
            (one_reader(address), self._rates.reader),
            (f"range {neighbourhood(address)}", self._rates.range),
            ("", self._rates.everybody),
        )

    def _take(self, left: list[tuple[str, Rate, float]], cost: float, now: float) -> None:
        for name, rate, have in left:
            self._buckets[name] = (max(have - cost, -rate.burst), now)
            self._buckets.move_to_end(name)
        while len(self._buckets) > self._most:
            self._buckets.popitem(last=False)

    def _left(self, name: str, rate: Rate, now: float) -> float:
        have, at = self._buckets.get(name, (rate.burst, now))
        return min(rate.burst, have + max(now - at, 0.0) * rate.per_s)
