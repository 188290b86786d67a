"""Look-ups in the captures index as replay asks them: microseconds each, at ten thousand rows and at N.

The index is SQLite's, as a collection has it, filled with pages of ten parts. Half of the questions are
for a part near its page's moment, a quarter for a page and its DOM, a quarter for what was never
archived. A tenth of all pages are captures of one URL, which is asked for as often as all others together.
`lookup_ratio` is the time of a look-up at N over that at ten thousand.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from bench import report
from core.captures import ArtifactKind, artifact_uri
from core.timestamps import timestamp14, unix_milliseconds
from playback.replay.capture_lookup import CaptureLookup
from warc.index.database import SqliteDatabase
from warc.index.protocol import CAPTURES_DDL

PARTS = 9  # and the DOM
SMALL, QUICK, FULL = 10_000, 1_000_000, 10_000_000  # captures
LOOKUPS = 2_000
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
OFTEN = "https://often.example/front"
_OFTEN_KEY = "example,often)/front"


def build(path: Path, rows: int) -> None:
    """Make an index of so many captures, without the code that writes one: that takes minutes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        tables = [each for each in CAPTURES_DDL.split(";") if "INDEX" not in each]
        connection.executescript(";".join(tables))
        connection.execute("BEGIN")
        pages = rows // (PARTS + 1)
        connection.executemany(f"INSERT INTO captures VALUES ({', '.join('?' * 18)})", _captures(pages))
        connection.executemany(f"INSERT INTO pages VALUES ({', '.join('?' * 20)})", _pages(pages))
        connection.execute("COMMIT")
        connection.executescript(CAPTURES_DDL)  # sorted in one go
        connection.execute("PRAGMA journal_mode = WAL")


def _place(page: int) -> tuple[str, str, datetime]:
    """Return URL, replay key and time of a page; every tenth is the one that is captured often."""
    at = BEGUN + timedelta(seconds=page)
    if page % 10 == 0:
        return OFTEN, _OFTEN_KEY, at
    host = page % 997
    return f"https://h{host}.example/page/{page}", f"example,h{host})/page/{page}", at


def _captures(pages: int) -> Iterator[tuple[Any, ...]]:
    number = 0
    for page in range(pages):
        url, key, at = _place(page)
        ms, stamp, page_id = unix_milliseconds(at), timestamp14(at), f"{page:032x}"
        urls = [(artifact_uri(ArtifactKind.DOM, url), f"urn:dom:{url}", "resource", None), (url, key, "response", 200)]
        urls += [(f"{url}/{part}.png", f"{key}/{part}.png", "response", 200) for part in range(PARTS - 1)]
        for each, its_key, kind, status in urls:
            number += 1
            yield (
                number, its_key, stamp, ms, each, kind, "image/png", status, f"sha256:{number:064x}",
                "weboid-1.warc.gz", number * 1000, 900, None, None, None, page_id, None, None,
            )  # fmt: skip


def _pages(pages: int) -> Iterator[tuple[Any, ...]]:
    for page in range(pages):
        url, key, at = _place(page)
        yield (
            f"{page:032x}", url, key, timestamp14(at), unix_milliseconds(at), url, "complete", "", 200,
            "text/html", "A page", 10, 9_000, 1.0, "ok", 0.9, "", "desktop", "en", "",
        )  # fmt: skip


def questions(index: CaptureLookup, pages: int) -> Callable[[random.Random], None]:
    """Return a function that makes one look-up, drawn by the given generator."""

    def ask(chosen: random.Random) -> None:
        page = chosen.randrange(pages)
        if chosen.random() < 0.5:
            page -= page % 10
        url, _, at = _place(page)
        kind = chosen.random()
        if kind < 0.5:
            part = chosen.randrange(PARTS - 1)
            assert next(index.captures(f"{url}/{part}.png", at + timedelta(days=1)), None)
        elif kind < 0.75:
            page_facts = index.page(url, at + timedelta(seconds=chosen.choice((0, 5))))
            assert page_facts is not None
            assert index.artifact(page_facts, ArtifactKind.DOM) is not None
        else:
            assert index.page(f"{url}/never", at) is None
            assert next(index.captures(f"{url}/never.png", at), None) is None

    return ask


def lookup_us(rows: int) -> float:
    """Return the microseconds a look-up in an index of so many captures; the median of twenty rounds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "captures.sqlite"
        build(path, rows)
        with closing(SqliteDatabase(path)) as database:
            ask = questions(CaptureLookup(database), rows // (PARTS + 1))
            for _ in range(LOOKUPS // 4):  # warm
                ask(random.Random(0))
            chosen, rounds = random.Random(1), []
            for _ in range(20):
                begun = time.perf_counter()
                for _ in range(LOOKUPS // 20):
                    ask(chosen)
                rounds.append((time.perf_counter() - begun) / (LOOKUPS // 20))
            return 1e6 * report.median(rounds)


def lookup_figures(rows: int) -> dict[str, float]:
    """Measure a small and a large index; return both times in microseconds and their ratio."""
    small, large = lookup_us(SMALL), lookup_us(rows)
    return {"lookup_us_small": small, "lookup_us_large": large, "lookup_rows": rows, "lookup_ratio": large / small}


def main() -> None:
    """Print the figures."""
    options = report.arguments(__doc__ or "")
    figures = lookup_figures(QUICK if options.quick else FULL)
    large, small = figures["lookup_us_large"], figures["lookup_us_small"]
    report.table(
        [
            ("", f"{figures['lookup_rows']:,.0f} rows", f"{SMALL:,} rows", "ratio"),
            ("us a look-up", f"{large:.1f}", f"{small:.1f}", f"{figures['lookup_ratio']:.2f}"),
        ]
    )
    report.figures("lookups", figures)


if __name__ == "__main__":
    main()
