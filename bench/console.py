"""The operator's console: answers over a large collection, and the cost of live pictures.

- ``overview_p95_ms``, ``queue_p95_ms``, ``versions_p95_ms``: the overview, a host of the queue, and the calendar of a URL
  with 100,000 captures, over HTTP; ``scan_ms``: counting the same rows once, which the overview does not do.
- ``…_cpu_ms``: CPU of the same answers, client included, which a busy machine hardly changes.
- ``save_now_ms``: the answer to a URL to be captured now, over the API.
- ``search_p95_ms``: captures of a site; ``title_p95_ms``: by words of their title, a scan of the newest.
- ``live_cost``: percent of the pages per CPU second that a viewer of live pictures costs; ``idle_cost``: without one.

Ten million captures and a million queue items; with ``--quick`` a twentieth.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import shutil
import sqlite3
import tempfile
import time

import httpx
from aiohttp import web

from bench import cpu, report
from core.clock import SystemClock
from core.config.settings import FrontierSettings, PolitenessSettings, VisitSettings
from core.layout import COLLECTION_VERSION, Layout
from crawler.frontier.base import Frontier, NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.worker.live_view import ask_for_pictures, store_pictures
from net.backoff import StoreRetry
from render.browser import Browser
from render.visit import VisitRequest, visit
from tests.support.browser_screen import launch_browser
from tests.support.console_server import serve_console
from warc.index.protocol import CAPTURES_DDL

HOT = "https://hot.example/"
_FIRST_MS = 1_500_000_000_000
_VISITS, _ROUNDS = 12, 9
_ASKED, _HOT = 60, 100_000  # answers of a page, and captures of one URL
_CLOCK = SystemClock()


# Pages, one a minute; the first `hot` are of one URL.
_PAGES = f"""
INSERT INTO pages WITH RECURSIVE numbers (n, url, urlkey) AS (
    SELECT 0, :url, 'example,hot)/' UNION ALL SELECT n + 1,
        CASE WHEN n + 1 < :hot THEN :url ELSE printf('https://site-%d.example/page/%d', (n + 1) % 5000, n + 1) END,
        CASE WHEN n + 1 < :hot THEN 'example,hot)/' ELSE printf('example,site-%d)/page/%d', (n + 1) % 5000, n + 1) END
    FROM numbers WHERE n + 1 < :count)
SELECT printf('%032x', n), url, urlkey, strftime('%Y%m%d%H%M%S', {_FIRST_MS // 1_000} + n * 60, 'unixepoch'),
    {_FIRST_MS} + n * 60000, url, 'complete', '', 200, 'text/html', 'Page number ' || n, 3, 5000, 1.0, 'ok', 0.9, '',
    '', '', '' FROM numbers
"""


def make_collection(root: Path, captures: int, items: int) -> Layout:
    """Write the index and the queue of a large collection, without WARCs."""
    layout = Layout(root)
    for folder in (layout.archive, layout.databases, layout.reports):
        folder.mkdir(parents=True)
    layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
    database = sqlite3.connect(layout.captures_db)
    database.executescript(f"PRAGMA synchronous = OFF; PRAGMA cache_size = -500000; {CAPTURES_DDL}")
    database.executescript("PRAGMA journal_mode = OFF; DROP INDEX pages_by_key; DROP INDEX pages_by_time")
    with database:  # indexes are made at once
        database.execute(_PAGES, {"url": HOT, "hot": min(captures // 10, _HOT), "count": captures})
    database.executescript(f"{CAPTURES_DDL}; PRAGMA journal_mode = WAL")
    database.close()
    with open_frontier(layout, FrontierSettings(), PolitenessSettings()) as frontier:
        for start in range(0, items, 5_000):
            urls = (f"https://host-{number % 20_000}.example/{number}" for number in range(start, start + 5_000))
            frontier.add(map(NewItem, urls), now=_CLOCK.now())
    return layout


def answers(layout: Layout, captures: int) -> dict[str, float]:
    """Measure the pages."""
    began = time.perf_counter()
    with sqlite3.connect(layout.captures_db) as database:
        database.execute("SELECT outcome, count(*) FROM pages GROUP BY outcome").fetchall()
    figures = {"scan_ms": 1e3 * (time.perf_counter() - began)}
    with serve_console(layout) as console, httpx.Client(base_url=console.address, timeout=60) as client:
        console.sign_in(client)
        while console.stores.status.status().holdings is None:  # counted by a thread, now and then
            time.sleep(1)
        for name, path in {
            "overview": "/console",
            "queue": "/console/crawl/queue?host=host-7.example",
            "versions": f"/console/captures/url?url={HOT}",
            "search": "/console/captures?in=host&q=site-7.example",
            "title": f"/console/captures?q=number+{captures - 4_711}",
        }.items():
            client.get(path)  # templates are loaded
            times = []
            for _ in range(_ASKED):
                before = time.perf_counter(), time.process_time()
                client.get(path).raise_for_status()
                times.append((time.perf_counter() - before[0], time.process_time() - before[1]))
            for unit, each in zip(("p95", "cpu"), zip(*times, strict=True), strict=True):
                figures[f"{name}_{unit}_ms"] = 1e3 * sorted(each)[int(0.95 * _ASKED)]
        saved = [f"https://saved.example/{number}" for number in range(30)]
        spent = []
        for url in saved:
            began = time.perf_counter()
            headers = {"Origin": console.address}
            client.post("/api/v1/captures", json={"url": url}, headers=headers).raise_for_status()
            spent.append(1e3 * (time.perf_counter() - began))
        figures["save_now_ms"] = report.median(spent)
    return figures


async def _visit_all(browser: Browser, frontier: Frontier, urls: list[str], mode: str) -> float:
    """Return the CPU seconds of visits, two at a time, while pictures are stored as in a worker process."""

    class Pool:
        def pages(self) -> object:
            return browser.pages

    async def watch() -> None:
        patience = StoreRetry(_CLOCK, lambda _event: None)
        while True:
            if mode == "live":
                ask_for_pictures(frontier, now=_CLOCK.now())
            await store_pictures(frontier, Pool(), patience, _CLOCK)  # type: ignore[arg-type]
            await asyncio.sleep(0.5)

    watching = asyncio.create_task(watch()) if mode != "none" else None
    rest = iter(urls)

    async def work() -> None:
        for url in rest:
            await visit(browser, VisitRequest(url), VisitSettings(), clock=_CLOCK)

    before = cpu.used()
    await asyncio.gather(work(), work())
    spent = sum(cpu.since(before).values())
    if watching is not None:
        watching.cancel()
    return spent


async def live_costs(frontier: Frontier) -> dict[str, float]:
    """Measure visits with a viewer, without one, and without live pictures at all, in turn."""
    words = "".join(f"<p>{'All of these words are read. ' * 12}</p>" for _ in range(60))

    async def page(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=f"<title>{request.path}</title>{words}", content_type="text/html")

    runner = web.ServerRunner(web.Server(page))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    spent: dict[str, list[float]] = {"none": [], "live": [], "idle": []}
    async with await launch_browser() as browser:
        urls = [f"{origin}/{number}" for number in range(_VISITS)]
        await _visit_all(browser, frontier, urls, "none")
        for turn in range(_ROUNDS):
            for mode in sorted(spent, key=lambda name: (len(name) + ord(name[0])) * (turn + 7) % 11):  # in any order
                spent[mode].append(await _visit_all(browser, frontier, urls, mode))
    await runner.cleanup()
    plain = spent.pop("none")  # compared turn by turn: a machine's load changes between them
    return {
        f"{mode}_cost": 100
        * (1 - 1 / report.median([with_it / without for with_it, without in zip(seconds, plain, strict=True)]))
        for mode, seconds in spent.items()
    }


def main() -> None:
    """Make the collection, ask, visit; print the figures."""
    quick = report.arguments(__doc__ or "").quick
    captures, items = (500_000, 50_000) if quick else (10_000_000, 1_000_000)
    root = Path(tempfile.mkdtemp(prefix="weboid-bench-", dir=Path.home()))
    try:
        layout = make_collection(root / "collection", captures, items)
        figures = answers(layout, captures)
        with open_frontier(layout, FrontierSettings(), PolitenessSettings()) as frontier:
            figures |= asyncio.run(live_costs(frontier))
    finally:
        shutil.rmtree(root)
    targets = {"overview_p95_ms": "< 100", "search_p95_ms": "< 150", "live_cost": "< 5", "save_now_ms": "< 50"}
    head = (f"{captures / 1e6:g} million captures, {items / 1e6:g} million items", "figure", "target")
    report.table([head] + [(name, f"{value:.1f}", targets.get(name, "")) for name, value in figures.items()])
    report.figures("console", figures)


if __name__ == "__main__":
    main()
