"""Pages a minute archived, beside the same browser that archives nothing.

Both load the same pages of the same web with the same settings, as many at a time, and take the same
pictures; ours also writes every response and artifact, seals, and completes. Starting browser and
proxies is in neither. The ratio is taken within a round; the figure is the median of the rounds.

``real``: MediaWiki, Debian's manuals and applications, with what the default profile does and keeps.
``gallery``: 91 small subresources over TLS, with nothing but a viewport screenshot, the worst case:
the browser does the least.
``whole``: the same with what the default profile does and keeps.

CPU seconds a page are told by role as measured meanwhile, and by step for a few more pages that are
visited one at a time, because several at a time share their browser's processes.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from unittest.mock import patch

from bench import cpu, report
from bench.crew import archivists
from core.clock import SystemClock
from core.config.settings import (
    BehaviourSettings,
    EgressSettings,
    PolitenessSettings,
    ProxySettings,
    Settings,
    VisitSettings,
)
from core.page_manifest import VisitOutcome
from crawler.worker.crawl_events import Event, PageDone
from render.behaviours.catalog import load_behaviours
from render.browser import Browser
from render.chromium import find_browser
from render.visit import VisitRequest, visit
from tests.support.sites.web import TestWeb

CLOCK = SystemClock()
AT_A_TIME = 4
RATIOS = {"real": "archived_ratio", "gallery": "gallery_ratio", "whole": "whole_ratio"}
# Nothing is shared between pages, archived or not: a crawl that shares is measured by `bench.crawl`.
WHOLE = VisitSettings(fresh=True)
VIEW_ONLY = replace(WHOLE, full_page=False, thumbnail=False, dom=False, text=False, favicon=False)


@dataclass(frozen=True, slots=True)
class PageLoad:
    """Pages to visit, and how."""

    urls: Sequence[str]
    visit: VisitSettings
    behaviours: BehaviourSettings


@dataclass(slots=True)
class LoadCost:
    """Cost of a load: seconds, and CPU seconds by role."""

    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)


@contextmanager
def timing(meter: cpu.CpuMeter | None) -> Iterator[LoadCost]:
    """Yield the cost of the block, set at its end; callers start and end processes outside of it."""
    took = LoadCost()
    if meter is not None:
        meter.begin()
    before, start = cpu.used(), time.perf_counter()
    yield took
    took.seconds, took.cpu = time.perf_counter() - start, cpu.since(before)
    if meter is not None:
        meter.turn(cpu.AROUND)


async def unarchived(
    load: PageLoad, web: TestWeb, at_a_time: int = AT_A_TIME, meter: cpu.CpuMeter | None = None
) -> LoadCost:
    """Load the pages in the same browser, straight from the web; return the cost."""
    settings = Settings()
    executable = find_browser()
    todo = iter(load.urls)
    async with await Browser.launch(
        settings.browser, executable, ca_spki=web.spki, hosts=web.resolve, clock=CLOCK
    ) as browser:
        behaviours = load_behaviours(load.behaviours)

        async def work() -> None:
            for url in todo:
                seen = await visit(browser, VisitRequest(url), load.visit, behaviours=behaviours, clock=CLOCK)
                assert seen.outcome is VisitOutcome.COMPLETE, (url, seen.outcome, seen.reason)

        with timing(meter) as took:
            await asyncio.gather(*(work() for _ in range(at_a_time)))
    return took


def archive_settings(load: PageLoad, web: TestWeb, at_a_time: int) -> Settings:
    """Return the settings of a crawl of the test web without delays."""
    return Settings(
        visit=load.visit,
        behaviours=load.behaviours,
        egress=EgressSettings(allow=("127.0.0.0/8",), resolve=web.resolve, ca_file=web.ca_file),
        proxy=ProxySettings(disk_reserve_bytes=0, processes=1),
        politeness=PolitenessSettings(min_delay_s=0.0, max_delay_s=0.0, visits_per_host=at_a_time),
    )


async def archived(
    load: PageLoad, web: TestWeb, at_a_time: int = AT_A_TIME, meter: cpu.CpuMeter | None = None
) -> LoadCost:
    """Archive the pages through frontier, browser, proxy, disk and index; return the cost."""
    settings = archive_settings(load, web, at_a_time)
    done: list[PageDone] = []

    def note(event: Event) -> None:
        assert isinstance(event, PageDone), event
        assert event.page is not None, event
        assert event.page.outcome is VisitOutcome.COMPLETE, (event.url, event.page.reason)
        done.append(event)

    async with archivists(settings, note, clock=CLOCK) as crew:
        with timing(meter) as took:
            await crew.archive(load.urls, at_a_time)
    assert len(done) == len(load.urls)
    return took


@dataclass(slots=True)
class LoadComparison:
    """Both sides of some rounds."""

    pages: int = 0
    ours: list[LoadCost] = field(default_factory=list)
    plain: list[LoadCost] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Return the ratio of pages a minute, archived over unarchived: the median of the rounds."""
        pairs = zip(self.ours, self.plain, strict=True)
        return report.median([plain.seconds / ours.seconds for ours, plain in pairs])

    def per_minute(self, side: Sequence[LoadCost]) -> float:
        """Return the pages a minute, the median of the rounds."""
        return report.median([self.pages / took.seconds * 60 for took in side])

    def cpu_s(self, side: Sequence[LoadCost], role: str) -> float:
        """Return the CPU seconds a page of that role."""
        return sum(took.cpu[role] for took in side) / (self.pages * len(side))


async def compare(loads: Sequence[PageLoad], web: TestWeb) -> LoadComparison:
    """Run one round for each load; every other one begins with the other side."""
    comparison = LoadComparison(len(loads[0].urls))
    for number, load in enumerate(loads):
        for archiving in (True, False) if number % 2 else (False, True):
            if archiving:
                comparison.ours.append(await archived(load, web))
            else:
                comparison.plain.append(await unarchived(load, web))
    return comparison


async def by_step(load: PageLoad, web: TestWeb) -> tuple[cpu.CpuMeter, cpu.CpuMeter]:
    """Measure the CPU seconds by step, archived and not, of pages visited one at a time."""
    meters = (cpu.CpuMeter(), cpu.CpuMeter())
    for meter, make in zip(meters, (archived, unarchived), strict=True):
        with patch("render.visit.VisitSteps", cpu.metered(meter)):
            await make(load, web, 1, meter)
        meter.visits = len(load.urls)
    return meters


def galleries(web: TestWeb, rounds: range, pages: int, *, view_only: bool = False) -> list[PageLoad]:
    """Return loads of galleries; no page is used twice, so nothing is cached or known."""
    visiting = VIEW_ONLY if view_only else WHOLE
    behaviours = BehaviourSettings(run=()) if view_only else BehaviourSettings()
    return [
        PageLoad([web.gallery(number * pages + each) for each in range(pages)], visiting, behaviours)
        for number in rounds
    ]


def tell(kinds: dict[str, LoadComparison]) -> None:
    """Print speed and CPU of each kind."""
    rows = [("pages a minute, 4 at a time", "archived", "not archived", "ratio")]
    for name, comparison in kinds.items():
        ours, plain = comparison.per_minute(comparison.ours), comparison.per_minute(comparison.plain)
        rows.append((name, f"{ours:.0f}", f"{plain:.0f}", f"{comparison.ratio:.2f}"))
    rows.append(("CPU seconds a page", "archived", "not archived", "ratio"))
    for name, comparison in kinds.items():
        for role in cpu.ROLES:
            ours, plain = comparison.cpu_s(comparison.ours, role), comparison.cpu_s(comparison.plain, role)
            share = f"{ours / plain:.2f}" if plain > 0 else "-"
            rows.append((f"{name}: {role}", f"{ours:.3f}", f"{plain:.3f}", share))
    report.table(rows)


def tell_steps(ours: cpu.CpuMeter, plain: cpu.CpuMeter) -> None:
    """Print CPU by step."""
    rows = [("CPU ms a page by step", "archived: worker", "browser + proxy", "not: browser")]
    for step in sorted(ours.steps, key=lambda each: -sum(ours.steps[each].values())):
        worker, browser, proxy = (ours.per_page(step, role) for role in cpu.ROLES)
        bare = plain.per_page(step, "browser")
        rows.append((step, f"{worker:.0f}", f"{browser:.0f} + {proxy:.0f}", f"{bare:.0f}"))
    report.table(rows)


async def main() -> None:
    """Run, print, tell."""
    quick = report.arguments(__doc__ or "").quick
    rounds, pages = (2, 8) if quick else (5, 60)
    with TestWeb.start(real=True) as web:
        urls = web.urls.real_pages[: 12 if quick else None]
        real = PageLoad(urls, WHOLE, BehaviourSettings())
        warm = PageLoad(urls[:4], WHOLE, BehaviourSettings())
        await unarchived(warm, web)  # the wiki's own caches fill on the first view
        kinds = {"real": await compare([real] * (1 if quick else 3), web)}
        views = galleries(web, range(rounds), pages, view_only=True)
        kinds["gallery"] = await compare(views, web)
        kinds["whole"] = await compare(galleries(web, range(rounds, 2 * rounds), pages), web)
        few = galleries(web, range(2 * rounds, 2 * rounds + 1), pages)[0].urls[:2]
        some = urls[: 12 if quick else None : 4 if quick else 1]
        sample = PageLoad([*some, *few], WHOLE, BehaviourSettings())
        meters = await by_step(sample, web)
    tell(kinds)
    tell_steps(*meters)
    figures: dict[str, float] = {}
    for name, prefix in (("real", "real_"), ("gallery", ""), ("whole", "whole_")):
        comparison = kinds[name]
        figures[RATIOS[name]] = comparison.ratio
        figures[f"{prefix}pages_per_minute"] = comparison.per_minute(comparison.ours)
        figures[f"{prefix}unarchived_pages_per_minute"] = comparison.per_minute(comparison.plain)
        for role in cpu.ROLES:
            figures[f"{prefix}{role}_cpu_s"] = comparison.cpu_s(comparison.ours, role)
    report.figures("pages", figures)


if __name__ == "__main__":
    asyncio.run(main())
