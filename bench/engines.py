"""Engines of the level `full` on the same captures: how many pages each shows as they were captured.

- ``ours_pass_pct``: the level `full` of this project, pywb's rewriting with changes of ours;
- ``pywb_pass_pct``: stock `wayback` of the pywb environment, on the same WARCs;
- ``wabac_pass_pct``: wabac.js as ReplayWeb.page ships it, with ``--replayweb FOLDER``, the unpacked npm
  package `replaywebpage`; its service worker reads the same WARCs.

Each page is framed, settled, and led through the behaviours of its capture by the QA engine, which then
judges it by picture, text and parts, all three alike. The pages are those of `bench.fidelity`, or of the
collection that ``--collection`` names.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import html
import http.server
import json
import re
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from warcio.archiveiterator import ArchiveIterator

from bench import report
from bench.fidelity import QUICK_EVERY, archived
from core.clock import SystemClock
from core.config.settings import BrowserSettings
from core.layout import Layout
from core.timestamps import from_unix_milliseconds
from core.urls import host_of
from playback.access.decision_store import open_decisions
from playback.access.levels import Level
from playback.replay.full.text_rewriter import find_pywb_python
from qa.checker import PlaybackChecker
from qa.copy_view import CopyAddress
from qa.local_replay import CollectionReplay, StoredPage, open_browsers, running_replay
from qa.sample import SampleCandidate
from tests.support.commands import WeboidRunner
from tests.support.polling import wait_until
from tests.support.sites import hosts
from tests.support.sites.kinds import kinds
from tests.support.sites.web import TestWeb
from warc.index.database import open_database

_JOBS = 2
_HELD_S = 60.0
_CLOCK = SystemClock()
_ADDRESS = re.compile(r"https?://[^/]+/(?:w/)?all/\d{14}(?:[a-z]{2,4}_)?/(.+)", re.DOTALL)
# The page is loaded when its picture comes, which is when the frame's document has.
_FRAME = """<!doctype html><iframe src="{address}"></iframe>"""
_WABAC = """<!doctype html><iframe></iframe><img src="/hold?{key}" alt=""><script type="module">
const [frame, worker] = [document.querySelector("iframe"), navigator.serviceWorker];
frame.onload = () => {{ if (frame.src) fetch("/release?{key}"); }};
worker.onmessage = ({{ data }}) => {{ if (data.msg_type === "collAdded") frame.src = {address}; }};
const add = () => worker.controller.postMessage({{ msg_type: "addColl", name: "all", skipExisting: true,
  file: {{ sourceUrl: location.origin + "/{key}.warc.gz" }} }});
worker.oncontrollerchange = add;
await worker.register("/sw.js", {{ scope: "/" }});
</script>"""


class _EngineReplay(CollectionReplay):
    """The collection, with its copies at another engine's addresses."""

    address_of: Callable[[str, str], CopyAddress] | None = None

    def page(self, page_id: str) -> StoredPage | None:
        stored = super().page(page_id)
        if stored is None or self.address_of is None:
            return stored
        url, moment = _PAGES[page_id]
        return replace(stored, address=self.address_of(moment, url))

    def original(self, url: str) -> str | None:
        match = _ADDRESS.fullmatch(url)
        return match[1] if match is not None else super().original(url)


_PAGES: dict[str, tuple[str, str]] = {}  # URL and moment by page id


def figures(*, quick: bool, only: str, replayweb: str, collection: str) -> dict[str, float]:
    """Return the share of each engine; what it does not show is printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        if not collection:
            with TestWeb.start(real=False, every_kind=True) as web:
                pages = [f"https://{hosts.KINDS}{path}" for path in kinds().pages if only in path]
                weboid = archived(web, pages[:: QUICK_EVERY if quick else 1], folder / "alone")
        else:
            weboid = WeboidRunner(folder, folder / "none")
            weboid.collection = Path(collection)
        weboid.run("level", "set", "full", "--default", "--collection", str(weboid.collection))
        layout = Layout(weboid.collection)
        candidates = _candidates(layout, only)
        values = {"ours_pass_pct": asyncio.run(_share("ours", layout, candidates, None))}
        with _static(layout, replayweb) as front, _wayback(folder, layout) as wayback:

            def by_pywb(moment: str, url: str) -> CopyAddress:
                # Framed, as it is by default.
                return CopyAddress(f"http://{wayback}/all/{moment}/{url}", (wayback,), framed=True)

            def by_wabac(moment: str, url: str) -> CopyAddress:
                copy = f"/w/all/{moment}mp_/{url}"
                page_id = next(key for key, value in _PAGES.items() if value == (url, moment))
                return CopyAddress(_frame(front, _WABAC, page_id, copy), (front,), framed=True)

            values["pywb_pass_pct"] = asyncio.run(_share("pywb", layout, candidates, by_pywb))
            if replayweb:
                values["wabac_pass_pct"] = asyncio.run(_share("wabac", layout, candidates, by_wabac))
    report.table(
        [(f"{len(candidates)} pages", "% shown as captured")]
        + [(name.partition("_")[0], f"{value:.1f}") for name, value in values.items()]
    )
    return values


def _candidates(layout: Layout, only: str) -> list[SampleCandidate]:
    with closing(open_database(layout, "")) as database:
        rows = database.rows("SELECT * FROM pages WHERE mime = 'text/html' ORDER BY url", {})
    candidates = [
        SampleCandidate(
            row["page_id"],
            row["url"],
            row["final_url"],
            from_unix_milliseconds(row["captured_ms"]),
            row["timestamp"],
            host_of(row["url"]),
        )
        for row in rows
        if only in row["url"]
    ]
    _PAGES.update({each.page_id: (each.url, each.timestamp) for each in candidates})
    return candidates


async def _share(
    name: str, layout: Layout, candidates: list[SampleCandidate], address_of: Callable[[str, str], CopyAddress] | None
) -> float:
    """Return the percentage of pages that the engine shows as they were captured."""
    good = 0
    turns = asyncio.Semaphore(_JOBS)
    async with AsyncExitStack() as stack:
        origins = await stack.enter_async_context(running_replay(layout, "", full=True, fonts=True, cached=True))
        lend = await stack.enter_async_context(open_browsers(BrowserSettings(), clock=_CLOCK))
        pool = stack.enter_context(ThreadPoolExecutor())
        database = stack.enter_context(closing(open_database(layout, "")))
        decisions = stack.enter_context(closing(open_decisions(layout, "")))
        replay = _EngineReplay(layout, database, decisions, origins, Level.FULL, _CLOCK)
        replay.address_of = address_of
        checker = PlaybackChecker(replay, lend, pool, _CLOCK)

        async def check(page: SampleCandidate) -> None:
            nonlocal good
            async with turns:
                playback_check = (await checker.check(page)).check
            good += playback_check.verdict == "good"
            if playback_check.verdict != "good":
                print(f"{name}: {playback_check.verdict} {playback_check.score}: {page.url}: {playback_check.reason}")

        await asyncio.gather(*(check(page) for page in candidates))
    return 100 * good / len(candidates)


@contextmanager
def _wayback(folder: Path, layout: Layout) -> Iterator[str]:
    """Run stock pywb on the collection's WARCs; yield its host and port."""
    python = find_pywb_python()
    home = folder / "pywb"
    home.mkdir()
    manager = [str(python.with_name("wb-manager"))]
    subprocess.run([*manager, "init", "all"], cwd=home, check=True, capture_output=True)
    for path in _warcs(layout):
        subprocess.run([*manager, "add", "all", str(path)], cwd=home, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    line = [str(python.with_name("wayback")), "-b", "127.0.0.1", "-p", str(port)]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(line, cwd=home, stdout=log, stderr=log)
        try:
            wait_until(lambda: process.poll() is None and _is_open(port), 60)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _warcs(layout: Layout) -> list[Path]:
    paths = layout.archive.glob("*.warc.gz*")
    return sorted(path for path in paths if not path.name.startswith("artifacts-"))


def _frame(front: str, page: str, key: str, copy: str) -> str:
    key = key or f"{len(_FRAMES)}"
    address = html.escape(copy) if page is _FRAME else json.dumps(copy).replace("<", "\\u003c")
    _FRAMES[key] = page.format(address=address, key=key)
    return f"http://{front}/frame?{key}"


_FRAMES: dict[str, str] = {}


class _StoredRecord(NamedTuple):
    page_id: str
    kind: str
    digest: str
    data: bytes


def _records(layout: Layout) -> Iterator[_StoredRecord]:
    for path in _warcs(layout):
        with path.open("rb") as file:
            records = ArchiveIterator(file)
            for record in records:
                head, kind = record.rec_headers, record.rec_type
                offset = records.get_record_offset()
                page_id = head.get_header("WARC-Page-ID") or ""
                digest = head.get_header("WARC-Payload-Digest") or ""
                length = records.get_record_length()
                data = path.read_bytes()[offset : offset + length]
                yield _StoredRecord(page_id, kind, digest, data)


def _warc_of(page_id: str, records: list[_StoredRecord]) -> bytes:
    """Return the page's records, and those that its revisits are about: all of them would load slowly."""
    revisited = {each.digest for each in records if each.page_id == page_id and each.kind == "revisit"}
    return b"".join(
        each.data
        for each in records
        if each.page_id == page_id or (each.kind == "response" and each.digest in revisited)
    )


@contextmanager
def _static(layout: Layout, replayweb: str) -> Iterator[str]:
    """Serve framing pages, a WARC of each page, and the service worker; yield host and port."""
    records = list(_records(layout)) if replayweb else []
    worker = Path(replayweb) / "sw.js"
    released: dict[str, threading.Event] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        """One request."""

        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            kind, body, status = "text/html; charset=utf-8", b"", 200
            if parts.path == "/frame":
                body = _FRAMES[parts.query].encode()
            elif parts.path in ("/hold", "/release"):
                event = released.setdefault(parts.query, threading.Event())
                event.set() if parts.path == "/release" else event.wait(_HELD_S)
            elif parts.path == "/sw.js":
                kind, body = "text/javascript", worker.read_bytes()
            elif parts.path.endswith(".warc.gz"):
                kind = "application/octet-stream"
                body = _warc_of(parts.path[1:].removesuffix(".warc.gz"), records)
            else:
                status = 404
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                with suppress(OSError):  # the browser may have closed its connection
                    self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


if __name__ == "__main__":
    asking = report.parser(__doc__ or "")
    asking.add_argument("--only", default="", metavar="TEXT", help="pages whose path holds it")
    asking.add_argument("--replayweb", default="", metavar="FOLDER", help="npm's replaywebpage")
    asking.add_argument("--collection", default="", metavar="FOLDER", help="archived before")
    given = asking.parse_args()
    report.figures(
        "engines", figures(quick=given.quick, only=given.only, replayweb=given.replayweb, collection=given.collection)
    )
