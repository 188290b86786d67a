"""Time budget of a visit, navigation to its URL, and the wait until the page is at rest.

A page is at rest when it has loaded, waits for no request and no timer, and its visible content has
not changed for a moment (``scripts/rest.js``). Long polls, streams and clocks do not delay it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from core.clock import Clock
from core.config.settings import VisitSettings
from render.cdp import CommandError
from render.child_targets import longest_timer_s
from render.page import COMMIT_LIMIT, BrowserPage

_T = TypeVar("_T")

# No single step may use more of the remaining time, since the next steps need some, too.
STEP_SHARE = 0.5


class VisitSteps:
    """Timed steps of one visit, started at once; all together have `timeout_s` seconds."""

    def __init__(self, timeout_s: float, clock: Clock) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._began = clock.monotonic()
        self.current = "open"  # name of the current step
        self.timings: dict[str, float] = {}  # seconds by step; repeated steps are added up
        # Reason for which the visit is not COMPLETE, a constant first; empty when it is
        self.shortfall = ""

    @property
    def spent_s(self) -> float:
        """Return the seconds since the start."""
        return self._clock.monotonic() - self._began

    @property
    def left_s(self) -> float:
        """Return the seconds to the deadline."""
        return max(0.0, self._timeout_s - self.spent_s)

    def share_s(self, limit_s: float = float("inf")) -> float:
        """Return the time limit of one step: `limit_s`, or less by its share of the time left."""
        return min(limit_s, self.left_s * STEP_SHARE)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the step and mark it as the current one."""
        self.current = name
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + self._clock.monotonic() - began

    def fall_short(self, reason: str) -> None:
        """Mark the visit as not COMPLETE; the first reason counts."""
        self.shortfall = self.shortfall or reason

    async def make(self, name: str, making: Awaitable[_T], *, limit_s: float = float("inf")) -> _T | None:
        """Await `making` and return its result; None, with a shortfall, on failure or timeout."""
        with self.step(name):
            result = await self.attempt(making, self.share_s(limit_s))
        if result is None:
            self.fall_short(f"missing: {name}")
        return result

    async def attempt(self, making: Awaitable[_T], limit_s: float) -> _T | None:
        """Await `making` and return its result; None when it fails or times out."""
        try:
            async with asyncio.timeout(limit_s):
                return await making
        except (TimeoutError, CommandError):
            return None


ABORTED = "net::ERR_ABORTED"


@dataclass(frozen=True, slots=True)
class NavigationResult:
    """Result of a navigation."""

    loader: str  # id of the document
    shown: bool  # whether a page is displayed
    error: str = ""  # the browser's reason without a document, e.g. ``net::ERR_CONNECTION_REFUSED``


async def navigate(page: BrowserPage, url: str) -> NavigationResult:
    """Navigate to the URL and return when its document is committed or has failed.

    A response that the browser would save instead of showing (a PDF, an archive) is cancelled: the
    first response decides, and the proxy stores it completely without the browser.
    """
    try:
        answer = await page.send("Page.navigate", {"url": url})
    finally:
        page.login.stop()
    loader = answer.get("loaderId", "")
    error = answer.get("errorText", "")
    if not error:
        return NavigationResult(loader, shown=True)
    document = page.log.documents.get(loader)
    if document is None and page.log.documents:
        loader, document = list(page.log.documents.items())[-1]
    # With a document: a download, or an HTTP error without a body, for which the browser has a page of its own.
    return NavigationResult(loader, shown=False, error=error if document is None else "")


# Duration of one query of the page; the network is checked in between.
SLICE_S = 1.0
# Maximum wait for activity other than loading.
SHOW_LIMIT_S = 8.0
# A timer's message takes this long at most on a busy machine; its due time is counted from its arrival.
TIMER_LATENCY_S = 0.5
# A page that navigates away at each query is not queried forever.
ASK_LIMIT = 100


@dataclass(slots=True)
class SettleResult:
    """Result of the wait for rest, filled in while waiting."""

    # Seconds by reason of waiting: ``load``, ``network``, ``timers``, ``dom``, ``fonts``,
    # ``images``, ``layout``, ``refresh``, ``worker`` (a service worker's installation), and ``quiet``, the observation time without any activity
    held: dict[str, float] = field(default_factory=dict)
    # Reasons that did not end within the limit, by the same names, each once
    restless: list[str] = field(default_factory=list)
    hung: bool = False  # True when the page stopped answering
    # True when its sandbox forbids scripts, which also stops waiting inside the page
    inert: bool = False

    def add(self, name: str, seconds: float) -> None:
        """Add seconds to a reason."""
        self.held[name] = self.held.get(name, 0.0) + seconds

    def give_up(self, *names: str) -> None:
        """Record reasons that did not end within the limit."""
        self.restless += [name for name in names if name and name not in self.restless]


@dataclass(frozen=True, slots=True)
class SettleLimits:
    """Time limits, in seconds."""

    quiet_s: float  # time without changes after which a page is at rest
    limit_s: float  # limit of the whole wait
    patience_s: float  # limit of waiting for timers and for changes in the same place
    answer_s: float  # time after which an unanswered page counts as hung

    @classmethod
    def of(cls, settings: VisitSettings, *, limit_s: float, answer_s: float) -> "SettleLimits":
        """Return the limits of the settings."""
        return cls(settings.settle_s, limit_s, settings.patience_s, answer_s)


async def settle(page: BrowserPage, limits: SettleLimits, rest: SettleResult, *, clock: Clock) -> None:
    """Wait until the page is at rest or a limit is reached; record the result in `rest`.

    Raises PageClosedError (it crashed or closed), BrowserUnavailableError (the browser is gone).
    """
    await _SettleWait(page, limits, rest, clock).run()


class _SettleWait:
    """Wait for one page."""

    def __init__(self, page: BrowserPage, limits: SettleLimits, rest: SettleResult, clock: Clock) -> None:
        self._page = page
        self._limits = limits
        self._rest = rest
        self._clock = clock
        self._end = clock.monotonic() + limits.limit_s
        self._timers_left_s = limits.patience_s
        self._unfinished = False
        self._show_left_s = SHOW_LIMIT_S
        self._has_queried = False
        self._looked_s = 0.0

    async def run(self) -> None:
        """Run the wait."""
        for _ in range(ASK_LIMIT):
            name = await self._until_loaded()
            if self._disturbed():
                return
            signs = self._signs()
            answer = await self._query(final=bool(name))
            if self._rest.hung:
                return
            if name:
                self._rest.give_up(name, *_still_moving(answer))
                return
            now_seen = self._signs()
            if signs[:2] == now_seen[:2] and signs != now_seen:
                # Observation counts, too, so that a page that keeps setting timers is not observed for long.
                self._timers_left_s -= self._looked_s
            if answer is None or self._is_unfinished(answer) or signs != now_seen:
                continue
            if answer["rested"] or self._show_left_s <= 0:
                self._rest.give_up(*answer["restless"], *_still_moving(answer))
                return
        self._rest.give_up("dom")

    def _is_unfinished(self, answer: dict[str, Any]) -> bool:
        """Return whether the page has just shown a reason to wait for longer timers."""
        page = self._page
        if self._unfinished or not answer["unfinished"]:
            return False
        self._unfinished = True
        patience_s = self._limits.patience_s
        self._timers_left_s += longest_timer_s(patience_s) - patience_s
        return page.timers.until(late=True) > self._clock.monotonic()

    def _disturbed(self) -> bool:
        page = self._page
        return page.log.overflowed or len(page.commits) > COMMIT_LIMIT

    def _signs(self) -> tuple[int, int, float]:
        """Return counters of activity; a change requires another observation."""
        page = self._page
        timers = page.timers.until(late=self._unfinished) if self._timers_left_s > 0 else 0.0
        return len(page.commits), page.log.news, timers

    async def _until_loaded(self) -> str:
        """Wait for browser events; return the reason still pending when time is up, else empty."""
        page, clock = self._page, self._clock
        while not page.gone and not self._disturbed():
            now = clock.monotonic()
            name, until = self._holder(now)
            if not name:
                return ""
            if now >= self._end:
                return name
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(until, self._end) - now):
                    await page.wait_changed()
                    while not any((page.loaded, page.gone, self._disturbed())):
                        await page.wait_changed()  # hundreds of times, with little ado
            spent = clock.monotonic() - now
            self._rest.add(name, spent)
            if name == "timers":
                self._timers_left_s -= spent
        return ""

    def _holder(self, now: float) -> tuple[str, float]:
        """Return the current reason to wait, and until when at most; empty when there is none."""
        page = self._page
        if not page.loaded:
            return "load", float("inf")
        if (held := page.log.holding_until(now)) is not None:
            return "network", held
        if (until := page.workers.until()) > now:
            return "worker", until
        # Set within the patience, a timer is awaited whole, however much shorter ones took before it.
        due = page.timers.until(late=self._unfinished)
        patience_s = self._limits.patience_s
        if self._unfinished:
            patience_s = longest_timer_s(patience_s)
        if self._timers_left_s > 0 and now < due <= now + patience_s + TIMER_LATENCY_S:
            return "timers", due
        return "", now

    async def _query(self, *, final: bool) -> dict[str, Any] | None:
        """Return the answer of ``rest.js``, even when time is up, to detect a hung page; None when it navigated."""
        limits, page = self._limits, self._page
        left_s = min(self._end - self._clock.monotonic(), self._show_left_s)
        slice_s = 0.0 if final else max(0.0, min(limits.quiet_s + SLICE_S, left_s))
        began = self._clock.monotonic()
        restart, self._has_queried = not self._has_queried, True
        try:
            async with asyncio.timeout(slice_s + limits.answer_s):
                answer: dict[str, Any] = await page.call(
                    "rest",
                    limits.quiet_s * 1000,
                    slice_s * 1000,
                    limits.patience_s * 1000,
                    page.log.scripted,
                    restart,
                    page.log.data_requested or len(page.children) > 0 or page.workers.exist,
                )
        except TimeoutError:
            self._rest.hung = True
            return None
        except CommandError:
            return None
        finally:
            spent = self._clock.monotonic() - began
            self._show_left_s -= spent
            self._looked_s = spent
        self._rest.inert = answer["inert"]
        for name, milliseconds in answer["held"].items():
            self._rest.add(name, milliseconds / 1000)
        return answer


def _still_moving(answer: dict[str, Any] | None) -> tuple[str, ...]:
    return () if answer is None or answer["rested"] else (answer["now"],)
