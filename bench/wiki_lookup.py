"""Cached copies beside links: one question for all links of a page, and the same asked one by one.

What is asked is the front itself, called without a socket: `POST /links/api/cached` for 1, 100, 500 and
1,000 links of one wiki, on SQLite, with 10^6 URLs in the registry and a capture of every second of them
(`--quick`: 10^5). Of what is asked, 60 % have a copy, 15 % are queued in a frontier of 10^5 URLs, 15 % are
dead without a copy, 10 % nobody has ever seen; all are re-encoded for each question. Median and 95th
percentile of some dozen questions; and the processor time of each, asker included, which other work on the
machine touches less.

The baseline is what a page's links cost without the bulk question: the same 500 URLs, each asked for in a
question of its own.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import json
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx
from starlette.types import ASGIApp

from bench import links_lookups, report
from core.clock import SystemClock
from core.config.settings import Settings
from core.layout import Layout
from core.timestamps import timestamp14, unix_milliseconds
from core.url_keys import replay_key
from crawler.frontier.base import NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from links.check_history import HistoryRun, pack_history
from links.check_result import StatusCode
from links.registry.database import open_registry_store
from links.states import LinkState
from playback.access.decision_store import open_decisions
from playback.web.asgi_app import WebOptions, create_app
from playback.web.rate_limits import RateLimitPolicy, parse_networks
from playback.web.registry.registry_service import LinkRegistry, RegistrySource
from warc.index.database import open_database
from warc.index.protocol import CAPTURES_DDL
from weboid.app.reader_queue_status import ReaderQueueStatus

SIZES = (1, 100, 500, 1_000)
EVERYBODY = parse_networks(["0.0.0.0/0"])  # internal: told how links are doing, as often as they ask
CAPTURED = datetime(2026, 10, 1, 12, 0, tzinfo=UTC)
_FIGURES = {False: (1_000_000, 100_000, 40), True: (100_000, 20_000, 12)}


@dataclass
class UrlKinds:
    """The numbers of URLs by what is known of them, to draw from."""

    copied: Sequence[int]
    queued: Sequence[int]
    dead: Sequence[int]
    hosts: int
    chosen: random.Random

    def question(self, size: int) -> list[str]:
        """Return `size` URLs, mixed."""
        drawn = self.chosen.choices(range(4), (60, 15, 15, 10), k=size)
        return [self._one(kind) for kind in drawn]

    def _one(self, kind: int) -> str:
        if kind == 3:
            number = self.chosen.randrange(10**9)
            return f"https://never-{number % 1_000}.net/seen/{number}"
        return url_of(self.chosen.choice((self.copied, self.queued, self.dead)[kind]), self.hosts)


def url_of(number: int, hosts: int) -> str:
    """Return the URL that `links_lookups.fill` gave the number."""
    path = f"/news/2019/03/an-article-about-something-{number}.html"
    return f"https://www.host-{number % hosts}.net{path}"


def figures(*, quick: bool) -> dict[str, float]:
    """Measure everything, print a table and return the figures."""
    count, queued, rounds = _FIGURES[quick]
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(Path(folder, "collection"))
        layout.databases.mkdir(parents=True)
        kinds = fill(layout, count, queued)
        settings = Settings()
        with (
            closing(open_database(layout, "")) as database,
            closing(open_decisions(layout, "")) as decisions,
            closing(RegistrySource(layout)) as source,
            closing(ReaderQueueStatus(layout, settings, clock=SystemClock())) as status,
        ):
            app = create_app(
                database, decisions, replay_origin="http://127.0.0.1:8081",
                origin="http://127.0.0.1:8080",
                around=WebOptions(links=LinkRegistry(source, RateLimitPolicy(internal=EVERYBODY)), status=status),
            )  # fmt: skip
            return asyncio.run(measure(app, kinds, rounds))


def fill(layout: Layout, count: int, queued: int) -> UrlKinds:
    """Fill a registry, captures and a frontier; every second URL has a copy, every tenth is dead."""
    hosts = max(count // 20, 1)
    with closing(open_registry_store(layout)) as store:
        links_lookups.fill(store, count)
        with closing(store.engine.raw_connection()) as held:
            disk = held.driver_connection
            assert disk is not None
            history = pack_history(
                (HistoryRun(StatusCode.FINE, 2_000, 2_800), HistoryRun(StatusCode.NOT_FOUND, 2_810, 2_990))
            )
            disk.execute("UPDATE link_urls SET history = ?", (history,))
            disk.execute(
                f"UPDATE link_urls SET state = {LinkState.DEAD:d}, fails = 5, first_fail_day = 2900 WHERE id % 10 = 4"
            )
            held.commit()
    with closing(sqlite3.connect(layout.captures_db)) as index:
        index.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; {CAPTURES_DDL}")
        columns = "page_id, url, urlkey, timestamp, captured_ms, final_url, outcome, reason, status, mime, title"
        index.executemany(
            f"INSERT INTO pages ({columns}, records, stored_bytes, seconds, page_class, class_score,"
            " class_evidence) VALUES (?, ?, ?, ?, ?, ?, 'complete', '', 200, 'text/html', ?, 60,"
            " 1, 1.0, 'ok', 1.0, '')",
            _pages(range(0, count, 2), hosts),
        )
        index.executemany(
            "INSERT INTO captures (urlkey, timestamp, captured_ms, url, record_type, mime, status,"
            " digest, filename, offset, length, page_id) VALUES (?, ?, ?, ?, 'response', 'text/html',"
            " 200, ?, 'a.warc.gz', ?, 1000, ?)",
            _captures(range(0, count, 2), hosts),
        )
        index.commit()
    waiting = range(1, count, max(2 * (count // (2 * queued)), 2))
    settings = Settings()
    with closing(open_frontier(layout, settings.frontier, settings.politeness)) as frontier:
        now = datetime.now(UTC)
        items = [NewItem(url_of(number, hosts)) for number in waiting]
        for start in range(0, len(items), 5_000):
            frontier.add(items[start : start + 5_000], now=now)
    dead = range(3, count, 10)
    return UrlKinds(range(0, count, 2), waiting, dead, hosts, random.Random(1))


def _pages(numbers: range, hosts: int) -> Iterator[tuple[object, ...]]:
    stamp, ms = timestamp14(CAPTURED), unix_milliseconds(CAPTURED)
    for number in numbers:
        url = url_of(number, hosts)
        # Identifiers come in no order, as real ones do.
        page_id = f"{number * 2654435761 % 2**32:08x}-{number:x}"
        yield (page_id, url, replay_key(url), stamp, ms, url, f"Article {number}")


def _captures(numbers: range, hosts: int) -> Iterator[tuple[object, ...]]:
    stamp, ms = timestamp14(CAPTURED), unix_milliseconds(CAPTURED)
    for number in numbers:
        url = url_of(number, hosts)
        page_id = f"{number * 2654435761 % 2**32:08x}-{number:x}"
        yield (replay_key(url), stamp, ms, url, f"sha256:{number:064x}", number, page_id)


async def measure(app: ASGIApp, kinds: UrlKinds, rounds: int) -> dict[str, float]:
    """Measure look-ups of each size, print a table and return the milliseconds."""
    measurements: dict[str, float] = {}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        for size in SIZES:  # opens what is opened when it is first asked
            await ask(client, kinds.question(size))
        for size in SIZES:
            began = time.process_time()
            times = sorted([await ask(client, kinds.question(size)) for _ in range(rounds)])
            measurements[f"lookup_{size}_cpu_ms"] = (time.process_time() - began) * 1_000 / rounds
            measurements[f"lookup_{size}_ms"] = report.median(times)
            measurements[f"lookup_{size}_p95_ms"] = times[int(len(times) * 0.95)]
        alone = [await ask(client, [url]) for url in kinds.question(500)]
    measurements["one_by_one_500_ms"] = sum(alone)
    measurements["lookup_500_ratio"] = sum(alone) / measurements["lookup_500_ms"]
    rows: list[tuple[str, ...]] = [
        ("links in one question", "median ms", "p95 ms", "CPU ms", "one by one ms", "target")
    ]
    for size in SIZES:
        figures_ = [measurements[f"lookup_{size}_{each}"] for each in ("ms", "p95_ms", "cpu_ms")]
        baseline, target = (f"{sum(alone):.0f}", "< 50") if size == 500 else ("", "")
        rows.append((str(size), *(f"{each:.1f}" for each in figures_), baseline, target))
    report.table(rows)
    return measurements


async def ask(client: httpx.AsyncClient, urls: list[str]) -> float:
    """Query the URLs; return the milliseconds until the answer."""
    body = json.dumps({"wiki": "dewiki@WMF", "urls": urls})
    begun = time.perf_counter()
    answer = await client.post("/links/api/cached", content=body, headers={"Content-Type": "text/plain"})
    taken = (time.perf_counter() - begun) * 1_000
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert document["is_whole"]
    assert len(document["links"]) == len(urls)
    return taken


def main() -> None:
    """Print them."""
    measurements = figures(quick=report.arguments(__doc__.splitlines()[0]).quick)
    report.figures("wiki_lookup", measurements)


if __name__ == "__main__":
    main()
