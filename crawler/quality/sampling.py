"""Which pages are checked, and in which order: the likeliest to be broken first (pure).

What an index says of a page tells little for sure, but gaps in its ledger, an odd class, a size unlike the
URL's earlier one or a host that nobody ever checked make it likelier that its copy lost something. A
sample is drawn by such suspicion, and keeps a share of ordinary pages, a few of every host: what nobody
suspects can be broken, too.

Pages come as a stream, those of a host side by side, and no more of them are held than are drawn.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from random import Random

from core.classes import GOOD, PageClass
from core.pages import Outcome

ORDINARY_SHARE = 0.25
_BIG_BYTES = 10_000_000
_CHANGED = 3.0  # so many times larger or smaller than the capture before
_UNLIKELY = 2.0  # of what is less suspect than this, the passes of `by_risk` make no difference
_SUSPECT = 4.0
_STEEPNESS = 3  # the few that are suspect must stand out among very many that are not


@dataclass(frozen=True, slots=True)
class Candidate:
    """A visited page that may be checked, as the captures index knows it.

    Attributes:
        page_id: its identifier.
        url: what was asked for.
        final_url: where it led.
        captured_at: the moment of its visit.
        timestamp: the same in 14 digits.
        host: canonical host of `url`.
        outcome: how the visit ended.
        reason: why it is not COMPLETE.
        status: HTTP status of the final document.
        mime: its bare media type.
        page_class: what the visitor was shown.
        stored_bytes: what its records take on disk.
        before_bytes: the same of the URL's capture before it; None when there was none.
        host_checked: whether any page of its host is known to have been checked.
    """

    page_id: str
    url: str
    final_url: str
    captured_at: datetime
    timestamp: str
    host: str
    outcome: str = Outcome.COMPLETE
    reason: str = ""
    status: int | None = None
    mime: str = ""
    page_class: PageClass = PageClass.UNJUDGED
    stored_bytes: int = 0
    before_bytes: int | None = None
    host_checked: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """A page that is to be checked.

    Attributes:
        page: which.
        weight: how suspect it is; 1: not at all.
        reasons: why, a few words each; empty for an ordinary page.
    """

    page: Candidate
    weight: float = 1.0
    reasons: tuple[str, ...] = ()


def suspected(page: Candidate) -> Chosen:
    """The page with what speaks for a look at its copy."""
    found = list(_suspicions(page))
    return Chosen(page, 1.0 + sum(each for each, _ in found), tuple(why for _, why in found))


def _suspicions(page: Candidate) -> Iterator[tuple[float, str]]:
    if page.outcome == Outcome.PARTIAL:
        yield 4.0, page.reason or "partial"
    if page.page_class not in GOOD:
        yield 3.0, f"class: {page.page_class}"
    if page.before_bytes is not None and page.before_bytes > 0 and page.stored_bytes >= 0:
        ratio = page.stored_bytes / page.before_bytes
        # A capture whose payloads were known already is small, whatever it shows.
        if ratio > _CHANGED or ratio < 1 / _CHANGED:
            yield (2.0 if ratio > 1 else 1.0), f"size: {ratio:.1f} times that of the one before"
    if page.stored_bytes > _BIG_BYTES:
        yield 1.0, f"big: {page.stored_bytes // 1_000_000} MB"
    if not page.host_checked:
        yield 1.0, "host: never checked"


class Sample:
    """A sample of a stream of pages: most by suspicion, some of every host by chance.

    Args:
        size: how many are drawn.
        dice: the chance; seeded, it draws the same again.
        ordinary: the share that is drawn by chance alone.
    """

    def __init__(self, size: int, dice: Random, *, ordinary: float = ORDINARY_SHARE) -> None:
        self._size = size
        self._most_ordinary = min(size, max(1, round(size * ordinary))) if size else 0
        self._dice = dice
        self._number = 0
        # Smallest first, so that the least wanted leaves: (key, number, page).
        self._suspects: list[tuple[float, int, Chosen]] = []
        self._ordinary: list[tuple[float, int, Chosen]] = []
        self._host = ""
        self._of_host: list[Chosen] = []
        self._host_count = 0

    def add(self, page: Candidate) -> None:
        """Let the page take its chance."""
        if not self._size:
            return
        chosen = suspected(page)
        self._number += 1
        # Efraimidis and Spirakis (2006): the largest of u^(1/w) are a weighted sample.
        key = self._dice.random() ** (1 / chosen.weight**_STEEPNESS)
        _keep(self._suspects, (key, self._number, chosen), self._size)
        if page.host != self._host:
            self._end_of_host()
            self._host = page.host
        self._host_count += 1
        if len(self._of_host) < self._most_ordinary:
            self._of_host.append(chosen)
        else:
            place = self._dice.randrange(self._host_count)
            if place < self._most_ordinary:
                self._of_host[place] = chosen

    def drawn(self) -> list[Chosen]:
        """What was drawn, the most suspect first."""
        self._end_of_host()
        taken = {each.page.page_id: each for _, _, each in self._ordinary}
        for _, _, each in sorted(self._suspects, key=lambda entry: -entry[0]):
            if len(taken) >= self._size:
                break
            taken.setdefault(each.page.page_id, each)
        return sorted(taken.values(), key=lambda each: (-each.weight, each.page.page_id))

    def _end_of_host(self) -> None:
        """The first pick of every host goes before any host's second."""
        self._dice.shuffle(self._of_host)
        for turn, chosen in enumerate(self._of_host):
            self._number += 1
            key = -(turn + self._dice.random())
            _keep(self._ordinary, (key, self._number, chosen), self._most_ordinary)
        self._of_host, self._host_count = [], 0


def _keep(
    heap: list[tuple[float, int, Chosen]], entry: tuple[float, int, Chosen], most: int
) -> None:
    if len(heap) < most:
        heapq.heappush(heap, entry)
    else:
        heapq.heappushpop(heap, entry)


def by_risk(read: Callable[[], Iterable[Candidate]]) -> Iterator[Chosen]:
    """Every page, the suspect ones before the others: the stream is read once for each kind.

    Args:
        read: begins the stream.
    """
    bounds = ((_SUSPECT, float("inf")), (_UNLIKELY, _SUSPECT), (0.0, _UNLIKELY))
    for least, below in bounds:
        for chosen in map(suspected, read()):
            if least <= chosen.weight < below:
                yield chosen
