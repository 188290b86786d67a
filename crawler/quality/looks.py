"""Looks that a run has at its own pages, with tools that are started when first needed.

Tools that fail are closed and started anew with the next look, after a pause that grows. That is told
once, and once more when it is over.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from core.clock import Clock
from core.errors import BadUrlError, WeboidError
from core.pages import PageInfo
from core.quality import Fault
from core.settings import QualitySettings
from core.timestamps import parse_warc_date, timestamp14
from core.urls import host_of
from crawler.companion import Beside
from crawler.composing import turns_for
from crawler.events import PageChecked
from crawler.frontier.base import Lane
from crawler.quality.changes import Changes
from crawler.quality.checking import Checked, Checker
from crawler.quality.keeping import keep
from crawler.quality.recording import record_checks
from crawler.quality.repairing import Bench, Repairs
from crawler.quality.sampling import Candidate
from crawler.waiting import GoingOn, Waiting
from links.books.quality import CheckedPage, checks_of
from links.store.store import Store
from proxy.manifests import read_manifest

RECORD_EVERY = 20  # checks
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
_REASON = "playback"  # that a run waits for, without waiting


@dataclass(frozen=True, slots=True)
class Tools:
    """What looks are had with.

    Attributes:
        checkers: look at copies, by level of playback.
        levels_of: at which of these levels a page's copies are looked at now.
        engine: versions of what shows and compares.
        store: the registry.
        pictures: the folder for pictures of checks.
        is_withheld: whether nothing of a capture may be shown, by its page id.
        became: what the page of a capture, by its id, had become in another; None: that cannot be said.
    """

    checkers: Mapping[str, Checker]
    levels_of: Callable[[PageInfo], Sequence[str]]
    engine: str
    store: Store
    pictures: Path
    is_withheld: Callable[[str], bool]
    became: Callable[[str, str], Changes | None]


OpenTools = Callable[[Beside], AbstractAsyncContextManager[Tools]]


def candidate_of(page: PageInfo) -> Candidate:
    """A page that was just archived, as one to be checked."""
    try:
        host = host_of(page.url)
    except BadUrlError:
        host = ""
    captured_at = parse_warc_date(page.captured_at)
    return Candidate(
        page_id=page.page_id,
        url=page.url,
        final_url=page.final_url,
        captured_at=captured_at,
        timestamp=timestamp14(captured_at),
        host=host,
        outcome=page.outcome,
        reason=page.reason,
        status=page.status,
        mime=page.mime,
        page_class=page.page_class,
        stored_bytes=page.stored_bytes,
        host_checked=True,
    )


class Inspector:
    """Checks pages that were just archived, and keeps what it finds."""

    def __init__(self, tools: Tools, report: Callable[[PageChecked], None], clock: Clock) -> None:
        self._tools = tools
        self._report = report
        self._clock = clock

    async def check(self, page: PageInfo, level: str) -> CheckedPage:
        """What is known of the page's copy, by a look of now or an earlier one of the same engine.

        Raises:
            UnavailableError: browser or playback are gone.
            TransientError: index, registry or decisions cannot be read or written.
            OSError: pictures cannot be written.
        """
        known = await asyncio.to_thread(self._known, page.page_id, level)
        if known is not None:
            return known
        candidate, checker = candidate_of(page), self._tools.checkers[level]
        checked = await checker.check(candidate)
        if Fault.NOT_SHOWN in checked.check.faults:
            # A playback that was just started again has shown nothing: that is not the copy's fault.
            checked = await checker.check(candidate)
        await asyncio.to_thread(self._keep, checked)
        check = checked.check
        self._report(
            PageChecked(
                check.url, check.page_id, check.level, check.verdict, check.score, check.reason
            )
        )
        return CheckedPage(check, candidate.host, candidate.page_class)

    def _known(self, page_id: str, level: str) -> CheckedPage | None:
        tools = self._tools
        with tools.store.reading() as rows:
            for row in checks_of(rows, [page_id]):
                if row.check.level == level and row.check.engine == tools.engine:
                    return row
        return None

    def _keep(self, checked: Checked) -> None:
        keep(self._tools.store, self._tools.pictures, checked, now=self._clock.now())


class Looks:
    """Looks and repairs beside a crew. A context manager: what was started ends with it.

    Attributes:
        desk: what the crew works with.
        troubles: failures since the last success.
        has_begun: whether `see_to_repairs` gave the crew something to do.
    """

    def __init__(
        self,
        desk: Beside,
        settings: QualitySettings,
        open_tools: OpenTools,
        new_id: Callable[[], str],
    ) -> None:
        self.desk = desk
        self.troubles = 0
        self.has_begun = False
        self._settings = settings
        self._open_tools = open_tools
        self._new_id = new_id
        self._left = settings.repairs
        self._unwritten = 0
        self._away_since = 0.0
        self._opened = AsyncExitStack()
        self._tools: Tools | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def attempt(self, do: Callable[[], Awaitable[None]], *, hurry: asyncio.Event) -> bool:
        """Do it; False, after a pause, when something failed. The pause is short once `hurry` is set."""
        desk = self.desk
        try:
            await do()
        except (WeboidError, OSError) as error:
            await self._close()
            if not self.troubles:
                self._away_since = desk.clock.monotonic()
                desk.report(Waiting(_REASON, f"Copies are not checked: {error}"))
            self.troubles += 1
            pause_s = min(FIRST_PAUSE_S * 2 ** (self.troubles - 1), LONGEST_PAUSE_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(hurry.wait(), pause_s)
            return False
        if self.troubles:
            desk.report(GoingOn(_REASON, desk.clock.monotonic() - self._away_since))
        self.troubles = 0
        return True

    async def look(self, page: PageInfo) -> None:
        """Check the page's copies; write what was found from time to time."""
        tools = await self._ready()
        inspector = Inspector(tools, self.desk.report, self.desk.clock)
        for level in await asyncio.to_thread(tools.levels_of, page):
            await inspector.check(page, level)
        self._unwritten += 1
        if self._unwritten >= RECORD_EVERY:
            await self.write()

    async def write(self) -> None:
        """Write into WARCs what was found, or said by people, and is not there yet."""
        tools, desk = await self._ready(), self.desk
        await record_checks(
            tools.store,
            desk.supervisor.proxy,
            bucket=desk.settings.proxy.dedup_bucket,
            new_id=self._new_id,
        )
        self._unwritten = 0

    async def see_to_repairs(self) -> None:
        """Compare what was captured again, have captured again what is broken, and write it all down."""
        tools, desk = await self._ready(), self.desk
        inspector = Inspector(tools, desk.report, desk.clock)
        repairs = Repairs(
            Bench(
                tools.store,
                desk.frontier,
                turns_for(desk.settings),
                lambda page_id: read_manifest(desk.layout, desk.index, page_id),
                inspector.check,
                tools.checkers.keys(),
                tools.is_withheld,
                desk.clock,
                desk.report,
                self._settings.repair_profile,
                Lane.HIGH if desk.endless else Lane.STANDARD,
                became=tools.became,
            )
        )
        await repairs.finish()
        before = len(repairs.begun())
        await repairs.begin(self._left)
        begun = len(repairs.begun()) - before
        self._left -= begun
        self.has_begun = begun > 0
        await self.write()

    async def _ready(self) -> Tools:
        if self._tools is None:
            self._tools = await self._opened.enter_async_context(self._open_tools(self.desk))
        return self._tools

    async def _close(self) -> None:
        """End what was started; what fails while it ends was not well before."""
        self._tools = None
        with contextlib.suppress(WeboidError, OSError):
            await self._opened.aclose()
        self._opened = AsyncExitStack()
