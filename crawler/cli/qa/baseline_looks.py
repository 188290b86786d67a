"""Looks at a fixed sample of pages, through a playback that makes every copy anew."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from core.clock import Clock
from core.layout import Layout
from core.settings import BrowserSettings
from crawler.cli.qa.opening import looking_browsers, opened_checkers
from crawler.cli.qa.playing import ENGINE
from crawler.quality.baselines import AFTER, BEFORE, Baseline, Shown, kept_picture
from crawler.quality.checking import Checked
from crawler.quality.regressing import Course, Regression, regression
from crawler.quality.running import check_pages
from crawler.quality.sampling import Candidate, Chosen
from crawler.stopping import Stop
from playback.decisions.levels import Level
from playback.server import find_replay_python

_SOURCES = (".py", ".js", ".css", ".html")
_LOOKED_AGAIN = {Course.WORSE, Course.CHANGED}


@dataclass(frozen=True, slots=True)
class Looking:
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
    told: Callable[[Checked], None]


def engine_here() -> str:
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


async def look_before(looking: Looking, baseline: Baseline, pages: Sequence[Candidate]) -> bool:
    """Keep how the pages are shown; those that are kept already are left out.

    Returns:
        False when somebody said stop.
    """
    done = baseline.checks(BEFORE)
    todo = [page for page in pages if page.page_id not in done]
    return await _looked(
        looking, [todo], lambda _, checked: baseline.keep(BEFORE, _shown_of(checked))
    )


async def look_after(
    looking: Looking, baseline: Baseline, pages: Sequence[Candidate]
) -> tuple[bool, list[Regression]]:
    """Keep how the pages are shown now; what differs is looked at once more, and the better look counts.

    So an animation that stood elsewhere, or a machine that was slow, is no change. Pages that were looked
    at already, and were unchanged, are left out.

    Returns:
        False when somebody said stop; and what became of every page that was looked at.
    """
    after = _After(baseline, pages)
    whole = await _looked(looking, [after.todo, after.again], after.keep)
    return whole, list(after.found.values())


class _After:
    """The looks after an upgrade.

    Attributes:
        found: what became of each page so far, by its id.
        todo: pages to be looked at.
        again: those that differ, to be looked at once more; it grows while the others are looked at.
    """

    def __init__(self, baseline: Baseline, pages: Sequence[Candidate]) -> None:
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

    def keep(self, turn: int, checked: Checked) -> None:
        """Write a look down; one of the second turn only when it shows more likeness."""
        after, page_id = _shown_of(checked), checked.check.page_id
        found = self._held(after)
        if turn and not _is_better(found, self.found[page_id]):
            return
        self._baseline.keep(AFTER, after)
        self.found[page_id] = found
        if not turn and found.course in _LOOKED_AGAIN:
            self.again.append(self._pages[page_id])

    def _held(self, after: Shown) -> Regression:
        before = self._before[after.check.page_id]
        return regression(self._baseline.shown(BEFORE, before), after)


async def _looked(
    looking: Looking,
    turns: Sequence[Sequence[Candidate]],
    keep: Callable[[int, Checked], None],
) -> bool:
    """Look at the pages of each turn; a later turn may get its pages from an earlier one's looks."""
    if not any(turns):
        return True  # nothing is started for nothing
    with Stop(lambda: None) as stop:
        with stop.cut_short():
            async with (
                looking_browsers(looking.browser, clock=looking.clock) as lend,
                opened_checkers(
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
                        map(Chosen, pages),
                        checkers[looking.level],
                        jobs=looking.jobs,
                        clock=looking.clock,
                        keep=lambda checked, turn=turn: keep(turn, checked),  # type: ignore[misc]
                        told=lambda checked, _: looking.told(checked),
                        stopping=stop.event,
                    )
        return not stop.event.is_set()


def _shown_of(checked: Checked) -> Shown:
    seen = checked.look
    if seen is None:
        return Shown(checked.check)
    return Shown(checked.check, kept_picture(seen.picture), seen.text)


def _is_better(found: Regression, first: Regression) -> bool:
    order = list(Course)
    one, other = order.index(found.course), order.index(first.course)
    return one > other or (one == other and found.likeness > first.likeness)
