"""How long a look-up takes in a captures index of so many rows."""

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from bench import report
from core.index_schema import CAPTURES_DDL
from playback.database import KeptSqliteDatabase
from playback.replay.index import CaptureIndex

_BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
_BEGUN_MS = int(_BEGUN.timestamp() * 1000)
_LOOKUPS = 3_000
_COLUMNS = "urlkey, timestamp, captured_ms, url, record_type, mime, status, digest, filename, offset, length"


def lookup_us(rows: int) -> float:
    """Microseconds of the median look-up of an image among `rows` captures, three of each URL."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "captures.sqlite"
        with closing(sqlite3.connect(path)) as database:
            database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
            tables = CAPTURES_DDL.split(";")
            indexes = [each for each in tables if "CREATE INDEX" in each]
            database.executescript(";".join(each for each in tables if each not in indexes))
            database.executemany(
                f"INSERT INTO captures ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                _captures(rows),
            )
            database.commit()
            database.executescript(";".join(indexes))
        with closing(KeptSqliteDatabase(path)) as kept:
            return report.median(list(_timed(CaptureIndex(kept), rows)))


def _captures(rows: int) -> Iterator[tuple[object, ...]]:
    for row in range(rows):
        number, turn = row // 3, row % 3
        moment = _BEGUN_MS + turn * 86_400_000
        yield (
            f"example,site{number % 997})/static/{number}.png", "20260101000000", moment, _url(number),
            "response", "image/png", 200, f"sha256:{row:064x}", f"w-{row // 50_000:05}.warc.gz",
            (row % 50_000) * 20_000, 20_000,
        )  # fmt: skip


def _url(number: int) -> str:
    return f"https://site{number % 997}.example/static/{number}.png"


def _timed(index: CaptureIndex, rows: int) -> Iterator[float]:
    chosen = Random(1)
    for _ in range(_LOOKUPS):
        url = _url(chosen.randrange(rows // 3))
        begun = time.perf_counter()
        found = next(index.captures(url, _BEGUN, window=timedelta(days=30)), None)
        yield 1e6 * (time.perf_counter() - begun)
        assert found is not None
        assert found.url == url
