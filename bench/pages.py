"""Pages a minute archived, beside the same browser that archives nothing.

Both load the same pages of the same web with the same settings, as many at a time, and take the same
pictures; ours also writes every response and artifact, seals, and completes. Starting browser and
proxies is in neither. The ratio is taken within a round; the figure is the median of the rounds.

``real``: MediaWiki, Debian's manuals and applications, with the default artifacts.
``gallery``: 91 small subresources over TLS, a viewport screenshot, no scrolling: the worst case.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench import report
from core.clock import SystemClock
from core.pages import Outcome
from core.settings import (
    BehaviourSettings,
    EgressSettings,
    PolitenessSettings,
    ProxySettings,
    Settings,
    VisitSettings,
)
from crawler.collection import open_collection
from crawler.composing import Stores, compose
from crawler.events import Event, PageDone
from crawler.frontier.base import NewItem
from crawler.frontier.sqlite import SqliteFrontier
from crawler.supervisor import running
from crawler.worker import Crew
from proxy.index.sqlite import SqliteCaptureIndex
from render.behaviours.running import load_behaviours
from render.browser import Browser
from render.executable import find_browser
from render.visit import VisitRequest, visit
from tests.sites.web import TestWeb

CLOCK = SystemClock()
AT_A_TIME = 4
VIEW_ONLY = VisitSettings(full_page=False, thumbnail=False, dom=False, text=False)


@dataclass(frozen=True, slots=True)
class Load:
    """Pages to visit, and how."""

    urls: Sequence[str]
    visit: VisitSettings
    behaviours: BehaviourSettings


async def unarchived(load: Load, web: TestWeb) -> float:
    """Seconds for the pages in the same browser, straight from the web."""
    settings = Settings()
    executable = find_browser()
    todo = iter(load.urls)
    async with await Browser.launch(
        settings.browser, executable, ca_spki=web.spki, hosts=web.resolve, clock=CLOCK
    ) as browser:
        behaviours = load_behaviours(load.behaviours)

        async def work() -> None:
            for url in todo:
                seen = await visit(
                    browser, VisitRequest(url), load.visit, behaviours=behaviours, clock=CLOCK
                )
                assert seen.outcome is Outcome.COMPLETE, (url, seen.outcome, seen.reason)

        start = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(AT_A_TIME)))
        return time.perf_counter() - start


async def archived(load: Load, web: TestWeb, processes: int) -> float:
    """Seconds for the pages through frontier, browser, proxy, disk and index."""
    settings = Settings(
        visit=load.visit,
        behaviours=load.behaviours,
        egress=EgressSettings(allow=("127.0.0.0/8",), resolve=web.resolve, ca_file=web.ca_file),
        proxy=ProxySettings(disk_reserve_bytes=0, processes=processes),
        politeness=PolitenessSettings(min_delay_s=0.0, max_delay_s=0.0, visits_per_host=AT_A_TIME),
    )
    done: list[PageDone] = []

    def note(event: Event) -> None:
        assert isinstance(event, PageDone), event
        assert event.page is not None, event
        assert event.page.outcome is Outcome.COMPLETE, (event.url, event.page.reason)
        done.append(event)

    with tempfile.TemporaryDirectory() as folder:
        async with (
            open_collection(Path(folder) / "collection", clock=CLOCK) as collection,
            running(collection, settings, clock=CLOCK) as supervisor,
        ):
            layout = collection.layout
            index = SqliteCaptureIndex(layout.captures_db)
            with SqliteFrontier(
                layout.frontier_db, settings=settings.frontier, politeness=settings.politeness
            ) as frontier:
                stores = Stores(frontier, supervisor, index, disk=None)
                means = compose(stores, settings, clock=CLOCK, report=note)
                crew = Crew(means, lease_s=settings.frontier.lease_s, name="bench")
                start = time.perf_counter()
                frontier.add((NewItem(url) for url in load.urls), now=CLOCK.now())
                await crew.run(AT_A_TIME)
                seconds = time.perf_counter() - start
            index.close()
    assert len(done) == len(load.urls)
    return seconds


async def compare(
    loads: Sequence[Load], web: TestWeb, processes: int
) -> tuple[float, float, float]:
    """(pages a minute archived, unarchived, ratio): medians over one round a load."""
    ours, plain, ratios = [], [], []
    for load in loads:
        count = len(load.urls)
        bare = await unarchived(load, web)
        kept = await archived(load, web, processes)
        plain.append(count / bare * 60)
        ours.append(count / kept * 60)
        ratios.append(bare / kept)
    return report.median(ours), report.median(plain), report.median(ratios)


def galleries(web: TestWeb, rounds: int, pages: int) -> list[Load]:
    """Loads of galleries; no page is used twice, so nothing is cached or known."""
    return [
        Load(
            [web.gallery(number * pages + each) for each in range(pages)],
            VIEW_ONLY,
            BehaviourSettings(run=()),
        )
        for number in range(rounds)
    ]


async def main() -> None:
    """Run, print, tell."""
    quick = report.arguments(__doc__ or "").quick
    rounds, pages = (3, 8) if quick else (5, 60)
    with TestWeb.start(real=True) as web:
        urls = web.urls.real_pages[: 12 if quick else None]
        real = Load(urls, VisitSettings(), BehaviourSettings(limit_s=2.0))
        warm = Load(urls[:4], VisitSettings(), BehaviourSettings())
        await unarchived(warm, web)  # the wiki's own caches fill on the first view
        r_ours, r_plain, r_ratio = await compare([real] * (1 if quick else 3), web, 1)
        g_ours, g_plain, g_ratio = await compare(galleries(web, rounds, pages), web, 1)
    report.table(
        [
            ("pages a minute, 4 at a time", "archived", "not archived", "ratio"),
            ("real sites, default artifacts", f"{r_ours:.0f}", f"{r_plain:.0f}", f"{r_ratio:.2f}"),
            ("gallery of 91 over TLS", f"{g_ours:.0f}", f"{g_plain:.0f}", f"{g_ratio:.2f}"),
        ]
    )
    report.figures(
        "pages",
        {
            "archived_ratio": r_ratio,
            "gallery_ratio": g_ratio,
            "pages_per_minute": g_ours,
            "unarchived_pages_per_minute": g_plain,
            "real_pages_per_minute": r_ours,
        },
    )


if __name__ == "__main__":
    asyncio.run(main())
