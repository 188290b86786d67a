"""Recording of a playback baseline before an upgrade, and of the same pages after it."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from core.clock import Clock
from core.config.settings import BrowserSettings
from core.layout import Layout
from net.stop_signals import StopSignals
from playback.access.levels import Level
from qa.baseline import (
    AFTER,
    BEFORE,
    BaselineFolder,
    BaselineView,
    PlaybackRegression,
    RegressionKind,
    compare_playback,
    encode_picture,
)
from qa.check_run import check_pages
from qa.checker import CheckOutcome, open_checkers
from qa.local_replay import ENGINE, open_browsers
from qa.sample import SampleCandidate, SampledPage

# Libraries that decide what a copy looks like.
_LIBRARIES = (
    "brotlicffi", "nh3", "pillow", "pypdfium2", "resvg-py", "tinycss2", "webencodings",
)  # fmt: skip
_SOURCES = (".py", ".js", ".css", ".html")
_LOOKED_AGAIN = {RegressionKind.WORSE, RegressionKind.CHANGED}


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """Options of a baseline run."""

    layout: Layout
    database_url: str
    browser: BrowserSettings
    level: Level  # the level at which copies are checked
    jobs: int
    clock: Clock
    told: Callable[[CheckOutcome], None]


def playback_fingerprint() -> str:
    """Return the playback versions and a digest of playback's sources and its libraries.

    The digest changes with every change of the sanitiser, whether or not its version changes.
    """
    digest = hashlib.sha256()
    root = Path(str(files("playback")))
    for path in sorted(root.rglob("*")):
        if path.suffix in _SOURCES:
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    for name in _LIBRARIES:
        digest.update(f"{name} {version(name)}".encode())
    return f"{ENGINE}, sources {digest.hexdigest()[:12]}"


async def record_before(
    looking: BaselineOptions, baseline: BaselineFolder, pages: Sequence[SampleCandidate]
) -> bool:
    """Record how the pages are played back, except those recorded already; False when it was stopped."""
    done = baseline.checks(BEFORE)
    todo = [page for page in pages if page.page_id not in done]
    return await _view_pages(
        looking, [todo], lambda _, checked: baseline.keep(BEFORE, _shown_of(checked))
    )


async def record_after(
    looking: BaselineOptions, baseline: BaselineFolder, pages: Sequence[SampleCandidate]
) -> tuple[bool, list[PlaybackRegression]]:
    """Record the pages again; return whether the run was completed, and the result of every page.

    Pages that differ are checked twice and the better result is kept, so that a moving animation or a
    slow machine is not reported as a change. Pages that were already found unchanged are skipped.
    """
    after = _UpgradeViews(baseline, pages)
    whole = await _view_pages(looking, [after.todo, after.again], after.keep)
    return whole, list(after.found.values())


class _UpgradeViews:
    """Checks after an upgrade."""

    def __init__(self, baseline: BaselineFolder, pages: Sequence[SampleCandidate]) -> None:
        self._baseline = baseline
        self._before = baseline.checks(BEFORE)
        self._pages = {page.page_id: page for page in pages if page.page_id in self._before}
        done = baseline.checks(AFTER)
        self.found = {
            page_id: self._held(baseline.shown(AFTER, done[page_id]))
            for page_id in self._pages
            if page_id in done
        }
        self.todo = [page for key, page in self._pages.items() if key not in done]  # pages to check
        # pages that differ and are checked a second time; it grows during the first turn
        self.again = [
            self._pages[key] for key, each in self.found.items() if each.course in _LOOKED_AGAIN
        ]

    def keep(self, turn: int, checked: CheckOutcome) -> None:
        """Store a result; one of the second turn only when its similarity is higher."""
        after, page_id = _shown_of(checked), checked.check.page_id
        found = self._held(after)
        if turn and not _is_better(found, self.found[page_id]):
            return
        self._baseline.keep(AFTER, after)
        self.found[page_id] = found
        if not turn and found.course in _LOOKED_AGAIN:
            self.again.append(self._pages[page_id])

    def _held(self, after: BaselineView) -> PlaybackRegression:
        before = self._before[after.check.page_id]
        return compare_playback(self._baseline.shown(BEFORE, before), after)


async def _view_pages(
    looking: BaselineOptions,
    turns: Sequence[Sequence[SampleCandidate]],
    keep: Callable[[int, CheckOutcome], None],
) -> bool:
    """Check the pages of each turn; a later turn may depend on an earlier turn's results."""
    if not any(turns):
        return True  # nothing is started for nothing
    with StopSignals(lambda: None) as stop:
        with stop.cut_short():
            async with (
                open_browsers(looking.browser, clock=looking.clock) as lend,
                open_checkers(
                    looking.layout,
                    looking.database_url,
                    [looking.level],
                    lend,
                    clock=looking.clock,
                    cached=False,
                ) as checkers,
            ):
                stop.listen()  # playback minds SIGTERM, too, once it runs
                for turn, pages in enumerate(turns):
                    await check_pages(
                        map(SampledPage, pages),
                        checkers[looking.level],
                        jobs=looking.jobs,
                        clock=looking.clock,
                        keep=lambda checked, turn=turn: keep(turn, checked),  # type: ignore[misc]
                        told=lambda checked, _: looking.told(checked),
                        stopping=stop.event,
                    )
        return not stop.event.is_set()


def _shown_of(checked: CheckOutcome) -> BaselineView:
    seen = checked.look
    if seen is None:
        return BaselineView(checked.check)
    return BaselineView(checked.check, encode_picture(seen.picture), seen.text)


def _is_better(found: PlaybackRegression, first: PlaybackRegression) -> bool:
    order = list(RegressionKind)
    one, other = order.index(found.course), order.index(first.course)
    return one > other or (one == other and found.likeness > first.likeness)
