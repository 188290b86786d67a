"""Fidelity on pages of every kind: what is captured, and how many copies show what was captured.

- ``coverage_pct``: distinct URLs that a plain browser asks for when somebody opens each page and scrolls to
  its end, and that the WARCs of `weboid archive` with its defaults hold; ``busy_coverage_pct`` the same
  while two processes keep both cores busy.
- ``default_pass_pct`` and ``full_pass_pct``: pages whose copy at the default level, and at level full, the
  QA engine (`weboid qa`) judges to be equal to what the browser showed at the capture.

``--peer NAME=COMMAND`` archives the same pages by another program: ``{list}`` in the command is the file of
URLs, ``{folder}`` an empty folder whose WARCs are read afterwards; the variables FIDELITY_RESOLVE (as of
Chromium's --host-resolver-rules) and FIDELITY_CA (a file) say how it reaches the pages.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import multiprocessing
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from bench import report
from core.errors import WeboidError
from render.browser_process import BrowserProcess, privilege_prefix
from render.cdp import CdpConnection
from render.chromium import find_browser
from tests.support.commands import WeboidRunner, profile_for
from tests.support.sites import hosts
from tests.support.sites.kinds import kinds
from tests.support.sites.web import TestWeb

QUICK_EVERY = 8
_QUIET_S = 2.5  # a page that asks for nothing for so long has asked for everything
_LONGEST_S = 20.0
_SCROLL = "scrollBy(0, innerHeight); [scrollY + innerHeight >= document.documentElement.scrollHeight - 2]"
# Values that are new at each visit: moments and random numbers of cache-busters.
_FRESH = re.compile(r"=(?:\d{10,}|0\.\d{6,})(?=&|$)")
Urls = dict[str, set[str]]  # page -> what was asked for
Cells = dict[str, dict[str, str]]  # page -> column -> what is shown of it


def figures(*, quick: bool, peers: Sequence[str], only: str, table: bool) -> dict[str, float]:
    """Return all figures; print them, what is missing, and with `table` a row for each page in Markdown."""
    with TestWeb.start(real=False, every_kind=True) as web, tempfile.TemporaryDirectory() as name:
        pages = [f"https://{hosts.KINDS}{path}" for path in kinds().pages if only in path]
        pages = pages[:: QUICK_EVERY if quick else 1]
        folder = Path(name)
        folder.chmod(0o755)
        truth = asyncio.run(_visited(web, pages, folder))
        wanted = set().union(*truth.values())
        print(f"{len(pages)} pages; a plain browser asks for {len(wanted)} distinct URLs.")
        cells: Cells = {page: {} for page in pages}
        alone = archived(web, pages, folder / "alone")
        with _busy():
            busy = archived(web, pages, folder / "busy")
        values = {
            "coverage_pct": _covered(truth, alone.collection, "in the WARC", cells),
            "busy_coverage_pct": _covered(truth, busy.collection, "both cores busy", cells),
            "default_pass_pct": _passed(alone, "images", cells),
            "full_pass_pct": _passed(alone, "full", cells),
        }
        for peer in peers:
            peer_name, _, command = peer.partition("=")
            values[f"{peer_name}_coverage_pct"] = _covered(
                truth, _peer(web, pages, folder / peer_name, command), peer_name, cells
            )
    if table:
        columns = dict.fromkeys(name for row in cells.values() for name in row)
        print(f"| page | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
        for page, row in cells.items():
            values_of = " | ".join(row.get(name, "") for name in columns)
            print(f"| {page.removeprefix(f'https://{hosts.KINDS}/')} | {values_of} |")
    goals = {"coverage_pct": "99.5", "busy_coverage_pct": "99"}
    report.table(
        [(f"{len(pages)} pages, {len(wanted)} URLs", "%", "target")]
        + [(name, f"{value:.1f}", goals.get(name, "97")) for name, value in values.items()]
    )
    return values


async def _visited(web: TestWeb, pages: Sequence[str], folder: Path) -> Urls:
    """Return what each page makes a plain browser ask for: opened, and scrolled to its end."""
    executable = find_browser()
    profile = folder / "profile"
    profile.mkdir(mode=0o777)
    profile.chmod(0o777)
    line = [str(executable.path), f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    line += ["--headless=new", "--window-size=1280,800", *web.chromium_arguments()]
    prefix = privilege_prefix(root=os.geteuid() == 0, executable=executable.path)
    process = BrowserProcess([*prefix, *line], home=profile)
    connection = CdpConnection(process.read_fd, process.write_fd)
    urls_by_page: Urls = {}
    try:
        for page in pages:
            web.clear()
            await _scrolled(web, connection, page)
            urls_by_page[page] = {_FRESH.sub("=", each.url) for each in web.requests()}
    finally:
        connection.close()
        await process.close()
    return urls_by_page


async def _scrolled(web: TestWeb, connection: CdpConnection, page: str) -> None:
    context = (await connection.send("Target.createBrowserContext"))["browserContextId"]
    try:
        target = await connection.send(
            "Target.createTarget", {"url": "about:blank", "browserContextId": context, "width": 1280, "height": 800}
        )
        session = (await connection.send("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}))[
            "sessionId"
        ]
        await connection.send("Page.navigate", {"url": page}, session)
        await _quiet(web)
        for _ in range(60):
            at_end = await connection.send("Runtime.evaluate", {"expression": _SCROLL, "returnByValue": True}, session)
            await _quiet(web, still_s=0.4)
            if at_end.get("result", {}).get("value") == [True]:
                break
        await _quiet(web)
    except WeboidError as error:
        print(f"{page}: {error}", file=sys.stderr)
    finally:
        await connection.send("Target.disposeBrowserContext", {"browserContextId": context})


async def _quiet(web: TestWeb, *, still_s: float = _QUIET_S) -> None:
    loop = asyncio.get_running_loop()
    began = since = loop.time()
    count = -1
    while loop.time() - since < still_s and loop.time() - began < _LONGEST_S:
        if (now := web.count()) != count:
            count, since = now, loop.time()
        await asyncio.sleep(0.05)


def archived(web: TestWeb, pages: Sequence[str], folder: Path) -> WeboidRunner:
    """Return a collection in the folder with a capture of each page."""
    folder.mkdir()
    (folder / "urls.txt").write_text("\n".join(pages))
    weboid = WeboidRunner(folder, profile_for(web, folder / "profile.toml"))
    ran = weboid.archive("--list", "urls.txt")
    for url, page in ran.pages.items():
        if page["outcome"] != "complete":
            print(f"{url}: {page['outcome']} {page.get('reason', '')}")
    return weboid


def _stored(folder: Path) -> set[str]:
    """Return the URLs of all responses and revisits in the WARCs of a folder."""
    urls = set()
    for path in sorted(folder.rglob("*.warc*")):
        with path.open("rb") as file:
            urls |= {
                _FRESH.sub("=", record.rec_headers.get_header("WARC-Target-URI"))
                for record in ArchiveIterator(file)
                if record.rec_type in {"response", "revisit"}
            }
    return urls


def _covered(truth: Urls, folder: Path, title: str, cells: Cells) -> float:
    """Return the percentage of distinct URLs that are stored; print those that are not."""
    stored = _stored(folder)
    wanted: set[str] = set().union(*truth.values())
    for page, urls in truth.items():
        cells[page][title] = f"{len(urls & stored)} of {len(urls)}"
        _tell_missing(page, urls - stored, title)
    return 100 * len(wanted & stored) / len(wanted)


def _tell_missing(page: str, missing: Collection[str], title: str) -> None:
    for url in sorted(missing)[:5]:
        print(f"missing {title}: {page}: {url}")
    if len(missing) > 5:
        print(f"missing {title}: {page}: {len(missing) - 5} more")


def _passed(weboid: WeboidRunner, level: str, cells: Cells) -> float:
    """Return the percentage of pages whose copy at this level is judged good."""
    weboid.run("level", "set", level, "--default", "--collection", str(weboid.collection))
    good = 0
    for page in _verdicts(weboid, level):
        good += page["verdict"] == "good"
        cells[page["url"]][level] = f"{page['verdict']} ({page.get('score', 0):.2f})"
        if page["verdict"] != "good":
            print(f"{level}: {page['verdict']} {page.get('score')}: {page['url']}: {page['reason']}")
    return 100 * good / len(cells)


def _verdicts(weboid: WeboidRunner, level: str) -> Iterator[dict[str, Any]]:
    options = ["--all", "--level", level, "--no-record", "--json"]
    ran = weboid.run("qa", *options, "--collection", str(weboid.collection))
    for each in ran.events:
        if "verdict" in each:
            yield each


@contextmanager
def _busy() -> Iterator[None]:
    """Keep two cores busy until the block ends."""
    burners = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(2)]
    for each in burners:
        each.start()
    try:
        yield
    finally:
        for each in burners:
            each.kill()
            each.join()


def _burn() -> None:
    while True:
        sum(range(10_000))


def _peer(web: TestWeb, pages: Sequence[str], folder: Path, command: str) -> Path:
    folder.mkdir()
    listing = folder.with_suffix(".txt")
    listing.write_text("\n".join(pages))
    rules = next(each for each in web.chromium_arguments() if "resolver" in each)
    environment = {"FIDELITY_RESOLVE": rules.partition("=")[2], "FIDELITY_CA": web.ca_file}
    subprocess.run(
        shlex.split(command.format(list=listing, folder=folder)), check=False, env={**os.environ, **environment}
    )
    return folder


if __name__ == "__main__":
    asking = report.parser(__doc__ or "")
    asking.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    asking.add_argument("--only", default="", metavar="TEXT", help="pages whose path holds it")
    asking.add_argument("--table", action="store_true", help="print a row for each page, in Markdown")
    given = asking.parse_args()
    found = figures(quick=given.quick, peers=given.peer, only=given.only, table=given.table)
    report.figures("fidelity", found)
