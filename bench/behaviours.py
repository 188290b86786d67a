"""Milliseconds that each behaviour costs, on a page that needs none of them and on longer ones.

``simple``: one screen of text. ``five``: five screens with ten pictures. ``rich``: the same with 2,000
elements, details, tabs, lazy pictures, a menu and a banner. The figure is the median of the rounds;
what a behaviour makes the page load is waited for afterwards and not counted here.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import base64
from collections.abc import Sequence

from bench import report
from core.clock import SystemClock
from core.config.settings import BehaviourSettings, BrowserSettings, VisitSettings
from render.behaviours.catalog import NAMES, load_behaviours
from render.browser import Browser
from render.chromium import find_browser
from render.visit import VisitRequest, visit

CLOCK = SystemClock()
DEFAULT = BehaviourSettings().run
QUICK = VisitSettings(view=False, full_page=False, thumbnail=False, dom=False, text=False)
DOT = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
TEXT = "<p>" + "Words that a reader reads. " * 12
PICTURES = "".join(f"<img src='/p{n}' width=300 height=200>" for n in range(10))
FIVE = f"<title>Five</title>{PICTURES}<main style='min-height:4000px'>{TEXT * 10}</main>"
RICH = (
    f"{FIVE}<nav><ul><li>Menu<ul><li>Inner</ul></ul></nav>"
    "<div role=tablist><b role=tab aria-selected=true>1</b><b role=tab>2</b></div>"
    f"{'<details><summary>more</summary>x</details>' * 20}{'<span>word</span> ' * 2000}"
    f"{''.join(f'<img data-src=/l{n}>' for n in range(20))}"
    "<div id=cookies style='position:fixed;bottom:0'>We use cookies <button onclick='parentNode.remove()'>Reject all</button></div>"
)
PAGES = {"/simple": f"<title>Simple</title>{TEXT * 3}", "/five": FIVE, "/rich": RICH}


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            path = head.split(b" ", 2)[1].decode()
            page = PAGES.get(path)
            body = DOT if page is None else page.encode()
            kind = "image/gif" if page is None else "text/html; charset=utf-8"
            writer.write(
                f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def measure(browser: Browser, url: str, run: Sequence[str], rounds: int) -> dict[str, float]:
    """Return the milliseconds by behaviour, and of the one question that spares the others, ``survey``."""
    behaviours = load_behaviours(BehaviourSettings(run=tuple(run)))
    spent: dict[str, list[float]] = {name: [] for name in ("survey", *run)}
    for _ in range(rounds):
        seen = await visit(browser, VisitRequest(url), QUICK, behaviours=behaviours, clock=CLOCK)
        for name, values in spent.items():
            values.append(seen.timings.get(name, 0.0) * 1000)
    return {name: report.median(values) for name, values in spent.items()}


async def compare(rounds: int) -> dict[str, dict[str, float]]:
    """Return the milliseconds by page and behaviour."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    timings = {}
    async with server, await Browser.launch(BrowserSettings(), find_browser(), clock=CLOCK) as it:
        for path in PAGES:
            url = f"http://127.0.0.1:{port}{path}"
            default = await measure(it, url, DEFAULT, rounds)
            others = await measure(it, url, NAMES, rounds)
            timings[path.strip("/")] = {**others, **default}
    return timings


def main() -> None:
    """Print the table and the figures."""
    quick = report.arguments(__doc__ or "").quick
    timings = asyncio.run(compare(3 if quick else 15))
    rows = [("milliseconds", *timings)]
    for name in ("survey", *NAMES):
        marked = f"{name} (default)" if name in DEFAULT else name
        rows.append((marked, *(f"{page[name]:.1f}" for page in timings.values())))
    sums = {page: sum(spent[name] for name in ("survey", *DEFAULT)) for page, spent in timings.items()}
    rows.append(("default, together", *(f"{value:.1f}" for value in sums.values())))
    report.table([(a, b, c, d) for a, b, c, d in rows])
    report.figures("behaviours", {f"{page}_ms": value for page, value in sums.items()})


if __name__ == "__main__":
    main()
