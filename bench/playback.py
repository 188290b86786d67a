"""Playback beside stock pywb: images a second and core, pages, look-ups, and how soon a capture plays.

Both read the same WARCs with as many processes, one each, are asked by the same client for the same
captures over kept-alive connections, and take turns; a ratio is taken within a round, and the median
of the rounds is the figure. Stock is ``wayback``, frameless, with a CDXJ index of the collection. What
counts is the CPU time of the serving processes, makers and all, so that a client on the same cores and
a server that waits flatter nobody: images a second and core are images per second of it. Seconds on
the clock are printed beside.

A page is 100 KB of HTML, its final DOM, at the default level; stock rewrites the same bytes. Cold, each
is asked for the first time; warm, again, on another connection, and stock has nothing to be warm with.

How soon a capture plays is measured through the real proxy: from the moment when a client of the proxy
has the last byte of a response to the moment when replay answers for it.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import psutil

from bench import report
from bench.certificate import write_certificate
from bench.lookups import FULL, QUICK, SMALL, lookup_figures
from bench.playback_client import ReplayClient
from bench.proxy import HOST, child, our_proxy, settings
from bench.proxy_client import ProxyLoadClient
from core.timestamps import timestamp14
from playback.replay.full.text_rewriter import find_pywb_python
from tests.support.playback_fixtures import CollectionBuilder, png
from tests.support.services.ports import free_port

ROOT = Path(__file__).resolve().parents[1]
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
STAMP = timestamp14(AT)
SITE = "https://site.example"
IMAGE_BYTES, PAGE_BYTES = 50_000, 100_000
_WAYBACK = "import sys; from pywb.apps.cli import wayback; sys.argv[0] = 'wayback'; wayback()"
_CONFIG = """
collections_root: _none
enable_auto_colls: false
framed_replay: false
redirect_to_exact: false
collections: {c: {index: %s, archive_paths: %s}}
"""


def build(folder: Path, images: int, pages: int) -> None:
    """Build a collection of images and pages, with an index and a configuration for stock pywb."""
    noise = random.Random(1)
    with closing(CollectionBuilder(folder)) as builder:
        for number in range(images):
            body = png() + noise.randbytes(IMAGE_BYTES)
            builder.response(f"{SITE}/i{number}.png", body, mime="image/png", at=AT)
        for number in range(pages):
            url, page = f"{SITE}/p{number}", page_of(noise, number)
            builder.response(url, page.encode(), at=AT)
            builder.page(url, page, at=AT)
    with closing(sqlite3.connect(folder / "db" / "captures.sqlite")) as database:
        rows = database.execute(
            "SELECT urlkey, timestamp, url, mime, status, digest, length, offset, filename"
            " FROM captures WHERE record_type = 'response'"
        ).fetchall()
    names = ("url", "mime", "status", "digest", "length", "offset", "filename")
    lines = sorted(
        f"{key} {stamp} {json.dumps(dict(zip(names, map(str, rest), strict=True)))}\n" for key, stamp, *rest in rows
    )
    (folder / "stock.cdxj").write_text("".join(lines))
    (folder / "config.yaml").write_text(_CONFIG % (folder / "stock.cdxj", f"{folder}/archive/"))


def page_of(noise: random.Random, number: int) -> str:
    """Return 100 KB of HTML as articles have it: paragraphs, links, lists, images, some style."""
    words = [f"{noise.getrandbits(40):x}" for _ in range(400)]
    parts = [f"<!DOCTYPE html><html><head><title>{number}</title><style>p{{color:#222}}</style><body>"]
    size = 0
    while size < PAGE_BYTES:
        text = " ".join(noise.choices(words, k=60))
        part = (
            f'<div class="c"><h2 id="h{size}">{text[:30]}</h2><p style="margin:1em">{text}'
            f' <a href="/p{noise.randrange(999)}?q={size}" title="x">{text[:20]}</a> <em>{text[:9]}</em></p>'
            f'<ul><li>{text[:40]}</li><li><a href="https://other.example/{size}">{text[:9]}</a></li></ul>'
            f'<img src="/i{noise.randrange(99)}.png" width="8" height="8" alt="x"></div>\n'
        )
        parts.append(part)
        size += len(part)
    return "".join(parts) + "</body></html>"


@dataclass(frozen=True, slots=True)
class BenchServer:
    """An archive that answers.

    Attributes:
        prefix: of its addresses, up to the modifier.
    """

    port: int
    process: psutil.Process
    prefix: str

    def cpu(self) -> float:
        """Return the CPU seconds of it and of its children so far."""
        total = 0.0
        for each in (self.process, *self.process.children(recursive=True)):
            spent = each.cpu_times()
            total += spent.user + spent.system
        return total

    def images(self, count: int) -> list[str]:
        """Return the addresses of the images."""
        return [f"{self.prefix}im_/{SITE}/i{number}.png" for number in range(count)]

    def pages(self, count: int) -> list[str]:
        """Return the addresses of the pages."""
        return [f"{self.prefix}/{SITE}/p{number}" for number in range(count)]


@contextmanager
def ours(folder: Path) -> Iterator[BenchServer]:
    """Run our replay, one process and its makers."""
    command = [sys.executable, "-m", "playback.replay", "--collection", str(folder)]
    command += ["--front-origin", "http://front.example"]
    with _started(command) as process:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        yield BenchServer(port, psutil.Process(process.pid), f"/c/{STAMP}")


@contextmanager
def stock(folder: Path) -> Iterator[BenchServer]:
    """Run stock pywb, one process."""
    port = free_port()
    command = [str(find_pywb_python()), "-c", _WAYBACK, "-p", str(port), "-b", "127.0.0.1"]
    with _started([*command, "-d", str(folder)]) as process:
        while process.poll() is None:
            try:
                ReplayClient(port).get("/")
                break
            except OSError:
                time.sleep(0.05)
        yield BenchServer(port, psutil.Process(process.pid), f"/c/{STAMP}")
        process.terminate()


@contextmanager
def _started(command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@dataclass(frozen=True, slots=True)
class ClientRun:
    """Throughput and latency of one run of the client.

    Attributes:
        a_second: answers.
        a_core_second: answers per second of the server's CPU time.
        ms: the median answer's.
    """

    a_second: float
    a_core_second: float
    ms: float


def ask(server: BenchServer, paths: list[str], count: int, *, connections: int = 4, known: bool = False) -> ClientRun:
    """Ask for the paths by turns."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(paths))
        file.flush()
        command = [sys.executable, "-m", "bench.playback_client", str(server.port), str(count)]
        command += [str(connections), file.name, *(["etags"] if known else [])]
        before = server.cpu()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        spent = server.cpu() - before
    took = json.loads(done.stdout)
    if known:  # the first answers, which told the ETags, count as others do
        count += len(paths)
    return ClientRun(count / took["seconds"], count / max(spent, 0.01), took["ms"][0])


@dataclass(slots=True)
class PlaybackRounds:
    """Runs of both servers, measured by turns."""

    ours: list[ClientRun] = field(default_factory=list)
    stock: list[ClientRun] = field(default_factory=list)

    def ratio(self) -> float:
        """Return the answers per CPU second, ours over stock's of the same round: the median."""
        pairs = zip(self.ours, self.stock, strict=True)
        return report.median([mine.a_core_second / its.a_core_second for mine, its in pairs])

    def of(self, which: list[ClientRun], name: str) -> float:
        """Return the median of a figure."""
        return report.median([getattr(each, name) for each in which])


def serving(folder: Path, *, rounds: int, images: int, pages: int, count: int) -> dict[str, float]:
    """Measure images and pages, from both."""
    figures: dict[str, float] = {}
    by_turns = PlaybackRounds()
    with ours(folder) as mine, stock(folder) as its:
        for server in (mine, its):  # code and files are warm
            ask(server, server.images(images), images // 4)
        cold = ask(mine, mine.pages(pages), pages, connections=1)
        warm = ask(mine, mine.pages(pages), 4 * pages, connections=1)
        rewritten = ask(its, its.pages(pages), pages, connections=1)
        for _ in range(rounds):
            by_turns.ours.append(ask(mine, mine.images(images), count))
            by_turns.stock.append(ask(its, its.images(images), count // 8))
        unchanged = ask(mine, mine.images(images), count, known=True)
    figures["image_rps_ratio"] = by_turns.ratio()
    for name, which in (("image", by_turns.ours), ("stock_image", by_turns.stock)):
        figures[f"{name}_rps_per_core"] = by_turns.of(which, "a_core_second")
        figures[f"{name}_rps"] = by_turns.of(which, "a_second")
        figures[f"{name}_ms"] = by_turns.of(which, "ms")
    figures["not_modified_rps_per_core"] = unchanged.a_core_second
    figures |= {"page_cold_ms": cold.ms, "page_warm_ms": warm.ms, "stock_page_ms": rewritten.ms}
    figures["page_cold_cpu_ms"] = 1000 / cold.a_core_second
    figures["stock_page_cpu_ms"] = 1000 / rewritten.a_core_second
    with ours(folder) as again:  # a new process, what was made still lies in files
        figures["page_restarted_ms"] = ask(again, again.pages(pages), pages, connections=1).ms
    return figures


async def playable(captures: int) -> dict[str, float]:
    """Measure the seconds from the last byte at the proxy's client to the first answer of replay."""
    took = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "collection"
        certificate = write_certificate(Path(name) / "origin.pem", HOST)
        with child("bench.origin", str(certificate)) as origin:
            folder.mkdir()
            chosen = settings(int(origin), certificate)
            with our_proxy(folder, "proxy", chosen) as proxy, ours(folder) as replay:
                client = ReplayClient(replay.port)
                async with proxy.visit("bench", bucket="default") as visit:
                    auth = f"{visit.credentials.username}:{visit.credentials.password}"
                    browser = ProxyLoadClient(visit.credentials.port, auth, HOST, 443)
                    for number in range(captures):
                        await asyncio.to_thread(browser.get, f"/20000/k{number}")
                        took.append(await asyncio.to_thread(_until_it_plays, client, number))
                    await visit.seal(grace_s=5.0)
    took.sort()
    return {"playable_p95_s": took[len(took) * 95 // 100], "playable_median_s": report.median(took)}


def _until_it_plays(client: ReplayClient, number: int) -> float:
    begun = time.perf_counter()
    path = f"/c/{timestamp14(datetime.now(UTC))}/https://{HOST}/20000/k{number}"
    while client.get(path)[0] == 404:
        if time.perf_counter() - begun > 30:
            raise TimeoutError("A capture does not become playable.")
        time.sleep(0.005)
    return time.perf_counter() - begun


def main() -> None:
    """Run, print, tell."""
    quick = report.arguments(__doc__ or "").quick
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "collection"
        images, pages = (150, 30) if quick else (1_000, 200)
        build(folder, images, pages)
        size = partial(serving, rounds=3 if quick else 7, count=1_000 if quick else 8_000)
        figures = size(folder, images=images, pages=pages)
    figures |= asyncio.run(playable(40 if quick else 200))
    figures |= lookup_figures(QUICK if quick else FULL)
    cells = {key: f"{value:,.2f}" for key, value in figures.items()}
    report.table(
        [
            ("", "ours", "stock pywb", "ratio or target"),
            ("images a second and core (50 KB)", cells["image_rps_per_core"],
             cells["stock_image_rps_per_core"], cells["image_rps_ratio"]),
            ("  a second, 4 connections, one process", cells["image_rps"], cells["stock_image_rps"], ""),
            ("  ms an image, median", cells["image_ms"], cells["stock_image_ms"], ""),
            ("unchanged (304) a second and core", cells["not_modified_rps_per_core"], "", ""),
            ("page of 100 KB, cold: ms", cells["page_cold_ms"], cells["stock_page_ms"], "< 50"),
            ("    CPU ms", cells["page_cold_cpu_ms"], cells["stock_page_cpu_ms"], ""),
            ("  warm: ms", cells["page_warm_ms"], "", "< 5"),
            ("  after a restart, from files", cells["page_restarted_ms"], "", ""),
            ("captured to playable, p95: s", cells["playable_p95_s"], "", "< 1"),
            (f"look-up at {figures['lookup_rows']:,.0f} captures: µs", cells["lookup_us_large"], "", ""),
            (f"  over that at {SMALL:,}", cells["lookup_ratio"], "", "flat"),
        ]
    )  # fmt: skip
    report.figures("playback", figures)


if __name__ == "__main__":
    main()
