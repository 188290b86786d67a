"""Cost of bad pages for others: each kind beside good pages, in the same browser.

A bad page may cost its own deadline, and no more: it ends by then, and every page beside it is
complete. ``own`` is the time of the bad page's visit, ``beside`` the median time of the good pages
that ran at the same time, ``alone`` that of the same pages without it. A page that kills the browser
takes the others' visits along; they are made again.

``overrun``: the most that a bad page took over its deadline, in seconds. ``incomplete``: good pages
that were not complete in the end. ``slowdown``: the worst of beside over alone.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psutil

from bench import report
from bench.crew import archivists
from core.clock import SystemClock
from core.config.settings import (
    BehaviourSettings,
    BrowserSettings,
    EgressSettings,
    PolitenessSettings,
    ProxySettings,
    Settings,
    VisitSettings,
)
from core.page_manifest import VisitOutcome
from crawler.worker.crawl_events import Event, PageDone, PageRetried

CLOCK = SystemClock()
AT_A_TIME = 4
DEADLINE_S = 20.0
GRACE_S = 4.0  # the end of a context, the seal, and a machine that is busy
STREAM_BYTES = 500_000_000
CHUNK = b"x" * (1 << 16)
GOOD = "<!doctype html><title>Good</title><h1>A good page</h1><p>" + "words and words " * 400

SCRIPTS = {
    "infinite script": "addEventListener('load', () => { for (;;) {} })",
    "100,000 elements": "let s = ''; for (let i = 0; i < 1e5; i++) s += '<div><b>' + i + '</b></div>';"
    "document.body.innerHTML = s",
    "500 MB stream": "fetch('/stream').then((r) => r.arrayBuffer())",
    "endless scroll": "setInterval(() => { const d = document.createElement('div');"
    "d.style.height = '2000px'; document.body.append(d); fetch('/more?' + Math.random()) }, 20)",
    "crash of the renderer": "const kept = new Uint8Array(2e8).fill(7); fetch('/crash')",
    "crash of the browser": "fetch('/kill')",
    "memory bomb": "const kept = []; setInterval(() => kept.push(new Uint8Array(64 << 20).fill(1)), 20)",
    "10,000 frames": "const t = setInterval(() => { for (let i = 0; i < 100; i++) {"
    "const f = document.createElement('iframe'); f.srcdoc = 'x' + i; document.body.append(f) }"
    "if (frames.length > 9999) clearInterval(t) }, 1)",
    "fork of workers": "const u = URL.createObjectURL(new Blob(['for (;;) {}']));setInterval(() => new Worker(u), 5)",
    "windows and dialogs": "for (let i = 0; i < 1000; i++) { open('/good?w' + i); alert(i) }",
}
QUICK = ("infinite script", "crash of the browser", "memory bomb")


@dataclass(slots=True)
class MixedPages:
    """Good pages, and one bad one of every kind."""

    port: int = 0
    on_crash: Callable[[], None] = lambda: None
    on_kill: Callable[[], None] = lambda: None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._answer(head.split(b" ", 2)[1].decode(), writer)
        writer.close()

    async def _answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        kind = path.removeprefix("/bad/").replace("_", " ")
        if path == "/stream":
            writer.write(
                f"HTTP/1.1 200 OK\r\nContent-Length: {STREAM_BYTES}\r\n"
                "Content-Type: application/octet-stream\r\n\r\n".encode()
            )
            for _ in range(STREAM_BYTES // len(CHUNK) + 1):
                writer.write(CHUNK)
                await writer.drain()
            raise ConnectionError
        if path == "/crash":
            self.on_crash()
        if path == "/kill":
            self.on_kill()
        body = GOOD
        if kind in SCRIPTS:
            body = f"<!doctype html><title>Bad</title><body><h1>Bad</h1><script>{SCRIPTS[kind]}</script>"
        data = body.encode()
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
        )
        await writer.drain()


@dataclass(slots=True)
class PoolOutcome:
    """Pages that the workers completed, and those to try again."""

    done: dict[str, PageDone] = field(default_factory=dict)
    again: int = 0

    def note(self, event: Event) -> None:
        """Keep pages by URL."""
        if isinstance(event, PageDone):
            self.done[event.url] = event
        self.again += isinstance(event, PageRetried)

    def seconds(self, part: str) -> list[float]:
        """Return the seconds of the pages that have `part` in their URL and a manifest."""
        pages = [event.page for url, event in self.done.items() if part in url]
        return [page.seconds for page in pages if page is not None]


@asynccontextmanager
async def serving() -> AsyncIterator[MixedPages]:
    """Serve the pages on a free port of 127.0.0.1 until the end of the block."""
    web = MixedPages()
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0)
    web.port = server.sockets[0].getsockname()[1]
    try:
        yield web
    finally:
        server.close()


def settings_for(web: MixedPages) -> Settings:
    """Return settings with short deadlines, one attempt, and a browser that all share."""
    address = f"127.0.0.1:{web.port}"
    return Settings(
        visit=VisitSettings(timeout_s=DEADLINE_S),
        behaviours=BehaviourSettings(),
        browser=BrowserSettings(page_memory_mb=1_000, hang_limit_s=10.0),
        egress=EgressSettings(allow=("127.0.0.0/8",), resolve={"good.test": address, "bad.test": address}),
        proxy=ProxySettings(disk_reserve_bytes=0),
        politeness=PolitenessSettings(min_delay_s=0.0, max_delay_s=0.0, visits_per_host=AT_A_TIME),
    )


def largest_renderer() -> None:
    """Kill the page that holds the most memory."""
    pages = [
        each for each in psutil.Process().children(recursive=True) if "--type=renderer" in " ".join(each.cmdline())
    ]
    max(pages, key=lambda each: each.memory_info().rss).kill()


def browsers() -> None:
    """Kill every browser."""
    for each in psutil.Process().children():
        if any("--remote-debugging-pipe" in part for part in each.cmdline()):
            os.killpg(each.pid, signal.SIGKILL)


async def crawl(web: MixedPages, urls: list[str]) -> PoolOutcome:
    """Archive the URLs; what became of them."""
    settings, outcome = settings_for(web), PoolOutcome()
    async with archivists(settings, outcome.note, clock=CLOCK) as crew:
        await crew.archive(urls, AT_A_TIME)
    return outcome


async def main() -> None:
    """Run, print, tell."""
    quick = report.arguments(__doc__ or "").quick
    kinds = QUICK if quick else tuple(SCRIPTS)
    rows = [("bad page, beside 12 good ones", "own s", "alone s", "beside s")]
    overrun, slowdown, incomplete = 0.0, 0.0, 0
    async with serving() as web:
        good = [f"http://good.test:80/good?{n}" for n in range(12)]
        alone = report.median((await crawl(web, good)).seconds("good.test"))
        for kind in kinds:
            killed = False

            def once(act: Callable[[], None]) -> Callable[[], None]:
                def strike() -> None:
                    nonlocal killed
                    if not killed:
                        killed = True
                        act()

                return strike

            web.on_crash, web.on_kill = once(largest_renderer), once(browsers)
            outcome = await crawl(web, [f"http://bad.test/bad/{kind.replace(' ', '_')}", *good])
            own = max(outcome.seconds("bad.test"), default=0.0)
            beside = report.median(outcome.seconds("good.test"))
            pages = [event.page for url, event in outcome.done.items() if "good.test" in url]
            whole = sum(page is not None and page.outcome is VisitOutcome.COMPLETE for page in pages)
            incomplete += len(good) - whole
            overrun = max(overrun, own - DEADLINE_S)
            slowdown = max(slowdown, beside / alone)
            bad = next((e for url, e in outcome.done.items() if "bad.test" in url), None)
            reason = bad.page.reason if bad is not None and bad.page is not None else "no page"
            rows.append((f"{kind} ({reason})", f"{own:.1f}", f"{alone:.2f}", f"{beside:.2f}"))
            print(*rows[-1], f"{whole} good", sep="  ", flush=True)
    report.table(rows)
    print(f"deadline {DEADLINE_S:g} s; good pages not complete: {incomplete}")
    report.figures("badpages", {"overrun": overrun, "incomplete": incomplete, "slowdown": slowdown})


if __name__ == "__main__":
    asyncio.run(main())
