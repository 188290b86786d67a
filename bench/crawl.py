"""A crawl of one documentation site, beside a plain browser that visits the same pages in the same order.

150 pages of a manual over TLS, one at a time, with what the default profile does and keeps.

- ``requests_ratio``: requests that reach the site, to those of a plain browser with its cache.
- ``cpu_of_bare``: CPU seconds a page of all processes, to those of a bare visit of the same browser: load,
  picture of the viewport, DOM, in one browser context.
- ``pages_ratio``: pages a minute, to those of an earlier revision (``--before``; default: the one before contexts were
  shared), which runs in a worktree of its own with the libraries of its lock. ``--before fresh``: to those with a fresh browser
  context for each page (`[visit] fresh`); so, too, where the repository lacks the revision.
- ``archived_ratio``: pages a minute, to those of the same visits without recorder, index and frontier.
- ``recrawl_bytes_ratio``: bytes of files that the unchanged site sends in a second crawl by a new run, to those of
  the first; ``confirmed_share``: requests of the second crawl that the site answers with 304.

Each ratio is taken within a round; the figure is the median of the rounds (``--rounds``, 1). The earlier revision visits the
first 50 pages, and the second crawl the first 30, so that a round takes 12 minutes at most on two quiet cores; the
time of each part is printed.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from bench import cpu, report
from bench.crew import archivists
from bench.pages import CLOCK, LoadCost, PageLoad, archive_settings, archived, timing
from core.config.settings import BehaviourSettings, Settings, VisitSettings
from core.page_manifest import VisitOutcome
from crawler.worker.crawl_events import Event, PageDone
from render.behaviours.catalog import load_behaviours
from render.browser import Browser, BrowserContext
from render.chromium import find_browser
from render.visit import VisitRequest, visit
from tests.support.sites import hosts
from tests.support.sites.kinds import kinds
from tests.support.sites.web import TestWeb

ROOT = Path(__file__).resolve().parents[1]
MANUAL = "manuals/javadoc"
PAGES, QUICK_PAGES = 150, 30
BEFORE_PAGES, RECRAWLED_PAGES = 50, 30
BEFORE, FRESH = "f8cc66e8", "fresh"  # the revision has the manual, and a context for each page
_LOADED = """new Promise((done) => {
  if (document.readyState === "complete") done(true);
  else addEventListener("load", () => done(true));
})"""


def manual_pages(count: int) -> list[str]:
    """Return pages of the manual that are documents of their own, in alphabetical order."""
    folder = kinds().root / MANUAL
    paths = [each for each in sorted(folder.rglob("*.html")) if each.stat().st_size > 4_000]
    return [f"https://{hosts.KINDS}/{MANUAL}/{each.relative_to(folder)}" for each in paths[:count]]


async def _bare(urls: Sequence[str], web: TestWeb) -> LoadCost:
    """Visit the pages in one browser context: load, picture, DOM."""
    async with await Browser.launch(
        Settings().browser, find_browser(), ca_spki=web.spki, hosts=web.resolve, clock=CLOCK
    ) as browser:
        context = await browser.open_context()
        with timing(None) as took:
            for url in urls:
                await _look(browser, context, url)
        await browser.close_context(context)
    return took


async def _look(browser: Browser, context: BrowserContext, url: str) -> None:
    """Load the page in a plain tab, without what a visit adds; read its DOM and take its picture."""
    connection = browser.connection
    sessions: asyncio.Queue[str] = asyncio.Queue()
    context.on_target = lambda session, _info: sessions.put_nowait(session)
    target = await connection.send("Target.createTarget", {"url": "about:blank", "browserContextId": context.id})
    session = await sessions.get()
    context.on_target = lambda other, _info: connection.post("Runtime.runIfWaitingForDebugger", {}, other)
    screen = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    await connection.send("Emulation.setDeviceMetricsOverride", screen, session)
    await connection.send("Runtime.runIfWaitingForDebugger", {}, session)
    await connection.send("Page.navigate", {"url": url}, session)
    for script in (_LOADED, "document.documentElement.outerHTML"):
        evaluated = {"expression": script, "awaitPromise": True, "returnByValue": True}
        await connection.send("Runtime.evaluate", evaluated, session)
    await connection.send("Page.captureScreenshot", {"format": "png"}, session)
    await connection.send("Target.closeTarget", target)


async def unrecorded(load: PageLoad, web: TestWeb) -> LoadCost:
    """Make the same visits in one browser context, straight from the web."""
    behaviours = load_behaviours(load.behaviours)
    async with await Browser.launch(
        Settings().browser, find_browser(), ca_spki=web.spki, hosts=web.resolve, clock=CLOCK
    ) as browser:
        context = await browser.open_context()
        with timing(None) as took:
            for url in load.urls:
                if not context.reusable:
                    await browser.close_context(context)
                    context = await browser.open_context()
                request = VisitRequest(url, context=context)
                seen = await visit(browser, request, load.visit, behaviours=behaviours, clock=CLOCK)
                assert seen.outcome is VisitOutcome.COMPLETE, (url, seen.reason)
    return took


async def _recrawl(load: PageLoad, web: TestWeb) -> tuple[float, float]:
    """Archive the pages in two runs; return the second's bytes to the first's, and its share of 304."""

    def note(event: Event) -> None:
        assert isinstance(event, PageDone), event

    sent, share, root = [], 0.0, kinds().root
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            web.clear()
            settings = archive_settings(load, web, 1)
            collection = Path(folder) / "collection"
            async with archivists(settings, note, clock=CLOCK, root=collection) as crew:
                await crew.archive(load.urls, 1)
            requests = web.requests()
            full = [each for each in requests if "\r\nif-none-match:" not in each.head.lower()]
            files = [root / each.target.partition("?")[0].lstrip("/") for each in full]
            sent.append(sum(each.stat().st_size for each in files if each.is_file()))
            share = 1 - len(full) / len(requests)
    return sent[1] / sent[0], share


@contextmanager
def _checkout(revision: str) -> Iterator[Path | None]:
    """Check a revision out into a temporary folder; None for "fresh", and for one that the repository lacks."""
    known = ["git", "-C", str(ROOT), "rev-parse", "--quiet", "--verify", revision + "^{commit}"]
    if revision == FRESH or subprocess.run(known, stdout=subprocess.DEVNULL, check=False).returncode:
        print(f"pages_ratio is to fresh contexts{f', for want of {revision}' if revision != FRESH else ''}.")
        yield None
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "before"
        worktree = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*worktree, "add", "--quiet", "--detach", str(folder), revision], check=True)
        try:
            pages = kinds().root  # copied, since a revision that builds another set removes this one
            shutil.copytree(pages, folder / pages.relative_to(ROOT), symlinks=True)
            yield folder
        finally:
            subprocess.run([*worktree, "remove", "--force", str(folder)], check=True)


def _python_of(folder: Path) -> Path:
    """Return the Python of an environment with the libraries that the checkout's lock names, made once."""
    lock = folder / "requirements" / "dev.txt"
    home = ROOT / ".cache" / "before" / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    python, is_ready = home / "bin" / "python", home / "ready"
    if not is_ready.exists():
        print("Making the environment of the earlier revision (about a minute)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
        builder = [*pip, "setuptools", "wheel"]  # one of its libraries is a source distribution
        subprocess.run(builder, check=True)
        subprocess.run([*pip, "--no-build-isolation", "--require-hashes", "-r", str(lock)], check=True)
        # Its recorder asks for its own version.
        subprocess.run([*pip, "--no-build-isolation", str(folder)], check=True)
        is_ready.touch()
    return python


def _of_checkout(folder: Path, urls: Sequence[str]) -> float:
    """Return the seconds that the checkout's own browser, recorder and settings take, by its `bench.pages`."""
    script = (
        "import asyncio, json, sys; from bench.pages import *; from core.config.settings import *\n"
        "urls = json.loads(sys.argv[1])\n"
        "with TestWeb.start(real=False, every_kind=True) as web:\n"
        "    make = globals().get('PageLoad') or Load\n"  # the name in earlier revisions
        "    load = make(urls, VisitSettings(), BehaviourSettings())\n"
        "    print(asyncio.run(archived(load, web, 1)).seconds)"
    )
    command = [str(_python_of(folder)), "-c", script, json.dumps(urls)]
    own = {**os.environ, "PYTHONPATH": str(folder)}  # before any other checkout that the environment names
    ran = subprocess.run(command, cwd=folder, env=own, stdout=subprocess.PIPE, text=True, check=True)
    return float(ran.stdout.split()[-1])


async def _round(urls: Sequence[str], web: TestWeb, before: Path | None) -> dict[str, float]:
    """Return the figures of one round, and those they are made of."""
    load = PageLoad(urls, VisitSettings(), BehaviourSettings())
    web.clear()
    bare = await _bare(urls, web)
    plain_requests = web.count()
    web.clear()
    shared = await archived(load, web, 1)
    requests = web.count()
    some = replace(load, urls=urls[:BEFORE_PAGES])
    some_s = shared.seconds if some == load else (await archived(some, web, 1)).seconds
    if before is not None:
        before_s = _of_checkout(before, some.urls)
    else:
        fresh = replace(some, visit=replace(some.visit, fresh=True))
        before_s = (await archived(fresh, web, 1)).seconds
    direct = await unrecorded(load, web)
    began = CLOCK.monotonic()
    recrawl_bytes_ratio, confirmed_share = await _recrawl(replace(load, urls=urls[:RECRAWLED_PAGES]), web)
    parts = {"bare": bare.seconds, "archived": shared.seconds, f"first {len(some.urls)}": some_s, "before": before_s}
    parts |= {"unrecorded": direct.seconds, "recrawl": CLOCK.monotonic() - began}
    print("Seconds: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in parts.items()), flush=True)
    return {
        "recrawl_bytes_ratio": recrawl_bytes_ratio,
        "confirmed_share": confirmed_share,
        "requests_ratio": requests / plain_requests,
        "cpu_of_bare": sum(shared.cpu.values()) / sum(bare.cpu.values()),
        "pages_ratio": before_s / some_s,
        "archived_ratio": direct.seconds / shared.seconds,
        "requests": requests / len(urls),
        "plain_requests": plain_requests / len(urls),
        "pages_per_minute": len(urls) / shared.seconds * 60,
        "bare_cpu_s": sum(bare.cpu.values()) / len(urls),
        **{f"{role}_cpu_s": shared.cpu[role] / len(urls) for role in cpu.ROLES},
    }


async def main() -> None:
    """Run the rounds; print a table and the figures."""
    asking = report.parser(__doc__ or "")
    asking.add_argument("--before", metavar="REVISION", default=BEFORE, help='to compare with, or "fresh"')
    asking.add_argument("--rounds", type=int, default=1, metavar="NUMBER", help="how often all is measured")
    arguments = asking.parse_args()
    urls = manual_pages(QUICK_PAGES if arguments.quick else PAGES)
    with TestWeb.start(real=False, every_kind=True) as web, _checkout(arguments.before) as before:
        rounds = [await _round(urls, web, before) for _ in range(arguments.rounds)]
    figures = {name: report.median([each[name] for each in rounds]) for name in rounds[0]}
    targets = {
        "requests_ratio": "<= 1.05", "cpu_of_bare": "<= 1.5", "pages_ratio": ">= 1.3",
        "archived_ratio": ">= 0.95",
    }  # fmt: skip
    report.table(
        [(f"{len(urls)} pages, {len(rounds)} rounds", "median", "target")]
        + [(name, f"{value:.3f}", targets.get(name, "")) for name, value in figures.items()]
    )
    report.figures("crawl", figures)


if __name__ == "__main__":
    asyncio.run(main())
