"""Checks while a run goes on: a companion that looks at the copies of what was just archived (U09).

    PageDone ─> waiting, the most suspect first ─> one look at a time ─> registry, pictures, the run's output
                                                        ╰─> records, through the run's own proxies
    nothing left ─> what is broken into the frontier ─> the crew works on ─> looked at, compared ─> …

It never holds up the crew: one page is looked at at a time, and when more wait than the settings say the
least suspect are left out; `weboid qa` finds them later. Playback and browser are its own, start with the
first page, and are started again when they die, which is told once.
"""

import asyncio
import heapq
import itertools
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import blake2b

from core.pages import Outcome, PageInfo
from core.settings import QualitySettings
from crawler.companion import Beside
from crawler.events import Event, PageDone
from crawler.quality.looks import Looks, OpenTools, candidate_of
from crawler.quality.sampling import suspected

log = logging.getLogger(__name__)

ROUND_S = (
    10.0  # while a run waits for more, what is broken and what is unwritten is seen to so often
)
TROUBLES = 3  # at the end of a run nobody waits for longer
_KEPT = frozenset({Outcome.COMPLETE, Outcome.PARTIAL})
_GAPS = 2.0  # how suspect a page is whose ledger has gaps
_SHARES = 1 << 32


def weight_of(page: PageInfo) -> float:
    """How suspect the page is; 1: not at all."""
    return suspected(candidate_of(page)).weight + (_GAPS if page.missing else 0.0)


def is_drawn(page_id: str, weight: float, share: float) -> bool:
    """Whether a page is among the share that is looked at: the same answer each time it is asked."""
    place = int.from_bytes(blake2b(page_id.encode(), digest_size=4).digest())
    return place < min(share * weight, 1.0) * _SHARES


class Backlog:
    """Pages that wait to be looked at, the most suspect first; when there are too many, the others go.

    Attributes:
        left_out: how many went.
    """

    def __init__(self, settings: QualitySettings) -> None:
        self._settings = settings
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, PageInfo]] = []
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, page: PageInfo) -> None:
        """Let the page wait, if it is drawn."""
        weight = weight_of(page)
        if page.outcome not in _KEPT or not is_drawn(page.page_id, weight, self._settings.share):
            return
        heapq.heappush(self._waiting, (-weight, next(self._numbers), page))
        if len(self._waiting) > max(1, self._settings.backlog):
            self._waiting.remove(max(self._waiting))
            heapq.heapify(self._waiting)
            self.left_out += 1

    def take(self) -> PageInfo:
        """The most suspect one."""
        return heapq.heappop(self._waiting)[2]

    def clear(self) -> None:
        """Leave out all of them."""
        self.left_out += len(self._waiting)
        self._waiting.clear()


class ChecksBeside:
    """A `crawler.companion.Companion`. One for one run."""

    def __init__(
        self, settings: QualitySettings, open_tools: OpenTools, *, new_id: Callable[[], str]
    ) -> None:
        """Open nothing yet.

        Args:
            settings: how many are looked at, and repaired.
            open_tools: starts what looks are had with.
            new_id: makes the identifier of a record.
        """
        self._settings = settings
        self._open_tools = open_tools
        self._new_id = new_id
        self._backlog = Backlog(settings)
        self._tries: Counter[str] = Counter()
        self._news = asyncio.Event()
        self._asked = asyncio.Event()  # to settle
        self._settled: asyncio.Future[bool] | None = None
        self._working: asyncio.Task[None] | None = None

    def note(self, event: Event) -> None:
        """Let a page that was archived wait for its look."""
        if isinstance(event, PageDone) and event.page is not None and not event.error:
            self._backlog.add(event.page)
            self._news.set()

    @asynccontextmanager
    async def beside(self, desk: Beside) -> AsyncIterator[None]:
        """Look at pages until the end of the block; a look under way is broken off."""
        desk_work = Looks(desk, self._settings, self._open_tools, self._new_id)
        self._working = asyncio.create_task(self._work(desk_work))
        try:
            yield
        finally:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
            if self._backlog.left_out:
                log.warning("quality.left_out pages=%d", self._backlog.left_out)

    async def settle(self) -> bool:
        """Look at what waits, and have captured again what is broken; whether that was begun."""
        assert self._working is not None
        self._settled = settled = asyncio.get_running_loop().create_future()
        self._asked.set()
        self._news.set()
        await asyncio.wait([settled, self._working], return_when=asyncio.FIRST_COMPLETED)
        self._settled = None
        self._asked.clear()
        return settled.done() and settled.result()

    async def _work(self, looks: Looks) -> None:
        try:
            async with looks:
                while True:
                    await self._turn(looks)
        except Exception:
            # Our own mistake: the crawl is not to pay for it, and goes on without us.
            log.exception("quality.ended")

    async def _turn(self, looks: Looks) -> None:
        """See to what is most urgent, or wait until something is."""
        settled = self._settled
        if settled is not None and looks.troubles >= TROUBLES:
            self._backlog.clear()
            settled.set_result(False)
            self._settled = None
        elif len(self._backlog):
            page = self._backlog.take()
            if not await looks.attempt(lambda: looks.look(page), hurry=self._asked):
                self._put_back(page)
        elif settled is not None:
            if await looks.attempt(looks.see_to_repairs, hurry=self._asked):
                settled.set_result(looks.has_begun)
                self._settled = None
        else:
            await self._wait(looks)

    def _put_back(self, page: PageInfo) -> None:
        """Let it be looked at once more; what fails again and again is left to `weboid qa`."""
        self._tries[page.page_id] += 1
        if self._tries[page.page_id] < TROUBLES:
            self._backlog.add(page)

    async def _wait(self, looks: Looks) -> None:
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), ROUND_S)
        except TimeoutError:
            do = looks.see_to_repairs if looks.desk.endless else looks.write
            await looks.attempt(do, hurry=self._asked)
