"""The same visits on Playwright and on this project's own driver, straight from the web.

Pages of a manual over TLS, one at a time in one browser context of the same browser: load, rest (a quarter of a second
without requests and changes), pictures of the viewport and of the whole page, DOM, text. No behaviours, no recorder.

- ``driver_ratio``: pages a minute on Playwright, to those on ours; above 1 Playwright is quicker.
- ``driver_cpu_ratio``: CPU seconds a page of all processes, likewise; below 1 Playwright needs less.

Playwright's visit does less: ours also notes each request with its sizes and initiator, finds and places links, closes
windows, waits for timers, classifies the page and checks its pictures. So the figures are its upper bound.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import time
from collections.abc import Sequence

from playwright.async_api import BrowserContext, async_playwright

from bench import report
from bench.crawl import manual_pages, unrecorded
from bench.pages import LoadCost, PageLoad, timing
from core.config.settings import BehaviourSettings, VisitSettings
from render.chromium import find_browser
from tests.support.sites.web import TestWeb

PAGES, QUICK_PAGES = 100, 20
VISIT = VisitSettings(thumbnail=False, favicon=False)
# How long nothing has changed, in seconds; the page itself notes its last change from the beginning.
_WATCH = """
let changed = performance.now();
const kinds = { subtree: true, childList: true, attributes: true, characterData: true };
new MutationObserver(() => (changed = performance.now())).observe(document, kinds);
window.unchangedSeconds = () => (performance.now() - changed) / 1000;
"""
_LINKS = "() => Array.from(document.links, (link) => link.href)"


async def _visit(context: BrowserContext, url: str) -> None:
    """Make the artifacts of one page with Playwright."""
    page = await context.new_page()
    pending, last = set[object](), time.monotonic()

    def begins(request: object) -> None:
        nonlocal last
        pending.add(request)
        last = time.monotonic()

    def ends(request: object) -> None:
        nonlocal last
        pending.discard(request)
        last = time.monotonic()

    page.on("request", begins)
    page.on("requestfinished", ends)
    page.on("requestfailed", ends)
    await page.goto(url, wait_until="load")
    while True:
        still_s = await page.evaluate("unchangedSeconds()")
        if not pending:
            still_s = min(still_s, time.monotonic() - last)
        if not pending and still_s >= VISIT.settle_s:
            break
        await asyncio.sleep(max(VISIT.settle_s - still_s, 0.02))
    for is_full in (False, True):
        assert await page.screenshot(full_page=is_full)
    assert await page.content()
    assert await page.inner_text("body")
    assert await page.evaluate(_LINKS) is not None
    await page.close()


async def _played(urls: Sequence[str], web: TestWeb) -> LoadCost:
    """Visit the pages with Playwright, in our browser."""
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=str(find_browser().path), args=web.chromium_arguments())
        size = {"width": VISIT.viewport_width, "height": VISIT.viewport_height}
        context = await browser.new_context(viewport=size)  # type: ignore[arg-type] # its TypedDict
        await context.add_init_script(_WATCH)
        with timing(None) as took:
            for url in urls:
                await _visit(context, url)
        await browser.close()
    return took


async def main() -> None:
    """Run the rounds, by turns; print a table and the figures."""
    arguments = report.arguments(__doc__ or "")
    urls = manual_pages(QUICK_PAGES if arguments.quick else PAGES)
    load = PageLoad(urls, VISIT, BehaviourSettings(run=()))
    rounds: list[tuple[LoadCost, LoadCost]] = []
    with TestWeb.start(real=False, every_kind=True) as web:
        for number in range(2 if arguments.quick else 5):
            turns = [_played(urls, web), unrecorded(load, web)]
            first = await turns.pop(number % 2)
            second = await turns.pop()
            rounds.append((second, first) if number % 2 else (first, second))
    figures = {
        "driver_ratio": report.median([ours.seconds / theirs.seconds for theirs, ours in rounds]),
        "driver_cpu_ratio": report.median(
            [sum(theirs.cpu.values()) / sum(ours.cpu.values()) for theirs, ours in rounds]
        ),
        "playwright_per_minute": report.median([len(urls) / t.seconds * 60 for t, _ in rounds]),
        "own_per_minute": report.median([len(urls) / t.seconds * 60 for _, t in rounds]),
    }
    heads = [(f"{len(urls)} pages, {len(rounds)} rounds", "median", "target")]
    targets = {"driver_ratio": ">= 0.95 to change"}
    report.table(heads + [(n, f"{v:.3f}", targets.get(n, "")) for n, v in figures.items()])
    report.figures("driver", figures)


if __name__ == "__main__":
    asyncio.run(main())
