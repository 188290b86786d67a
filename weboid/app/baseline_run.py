"""Recording of a baseline before an upgrade, and of the same pages after it."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from core.clock import Clock
from core.config.settings import BrowserSettings
from core.layout import Layout
from net.stop_signals import StopSignals
from playback.access.levels import Level
from playback.playback_server import find_replay_python
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
from qa.checker import CheckOutcome
from qa.local_replay import ENGINE, open_browsers, open_checkers
from qa.sample import SampleCandidate, SampledPage

_SOURCES = (".py", ".js", ".css", ".html")
_LOOKED_AGAIN = {RegressionKind.WORSE, RegressionKind.CHANGED}


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """How pages are looked at.

    Attributes:
        layout: the collection.
        database_url: its index, when that is a server's.
        browser: settings of the browsers.
        level: at which copies are looked at.
        jobs: pages at the same time.
        clock: the time.
        told: told each page that is done.
    """

    layout: Layout
    database_url: str
    browser: BrowserSettings
    level: Level
    jobs: int
    clock: Clock
    told: Callable[[CheckOutcome], None]


def playback_fingerprint() -> str:
    """Who plays copies back here: versions, and a digest of playback's sources and its libraries.

    A maintainer who changes the sanitiser has another engine at once, whether its version says so or not.
    """
    digest = hashlib.sha256()
    root = Path(str(files("playback")))
    for path in sorted(root.rglob("*")):
        if path.suffix in _SOURCES:
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    for path in sorted(
        find_replay_python().parents[1].glob("lib/python*/site-packages/*.dist-info")
    ):
        digest.update(path.name.encode())
    return f"{ENGINE}, sources {digest.hexdigest()[:12]}"


async def record_before(
    looking: BaselineOptions, baseline: BaselineFolder, pages: Sequence[SampleCandidate]
) -> bool:
    """Keep how the pages are shown; those that are kept already are left out.

    Returns:
        False when somebody said stop.
    """
    done = baseline.checks(BEFORE)
    todo = [page for page in pages if page.page_id not in done]
    return await _view_pages(
        looking, [todo], lambda _, checked: baseline.keep(BEFORE, _shown_of(checked))
    )


async def record_after(
    looking: BaselineOptions, baseline: BaselineFolder, pages: Sequence[SampleCandidate]
) -> tuple[bool, list[PlaybackRegression]]:
    """Keep how the pages are shown now; what differs is looked at once more, and the better look counts.

    So an animation that stood elsewhere, or a machine that was slow, is no change. Pages that were looked
    at already, and were unchanged, are left out.

    Returns:
        False when somebody said stop; and what became of every page that was looked at.
    """
    after = _UpgradeViews(baseline, pages)
    whole = await _view_pages(looking, [after.todo, after.again], after.keep)
    return whole, list(after.found.values())


class _UpgradeViews:
    """The looks after an upgrade.

    Attributes:
        found: what became of each page so far, by its id.
        todo: pages to be looked at.
        again: those that differ, to be looked at once more; it grows while the others are looked at.
    """

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
        self.todo = [page for key, page in self._pages.items() if key not in done]
        self.again = [
            self._pages[key] for key, each in self.found.items() if each.course in _LOOKED_AGAIN
        ]

    def keep(self, turn: int, checked: CheckOutcome) -> None:
        """Write a look down; one of the second turn only when it shows more likeness."""
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
    """Look at the pages of each turn; a later turn may get its pages from an earlier one's looks."""
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
