"""The captures index: rows written a second and look-ups, in SQLite and in PostgreSQL.

Both are filled with the same rows, in batches as proxies write them: a page of 60 captures with its
payloads and its manifest, one transaction each. A batch of SQLite is synced with the WARCs, not by
itself (it can be made again from them); one of PostgreSQL is on disk when it is committed. The two
take turns, so that a noisy machine troubles both alike. PostgreSQL is the one of this machine, over
TCP on loopback; a network adds its round trips, seven for a batch and one for a look-up.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import hashlib
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial

from bench import report
from core.config.database_urls import parse_index_url
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import unix_milliseconds, warc_date
from core.url_keys import replay_key
from playback.replay.capture_lookup import CaptureLookup as Lookup
from proxy.archivist_jobs import IndexBatch
from tests.support.services.postgres import PostgresServer
from warc.dedup.payloads import OriginalRecord, PayloadKey
from warc.index.database import IndexDatabase, SqliteDatabase
from warc.index.postgres import PostgresCaptureIndex, PostgresDatabase
from warc.index.protocol import CaptureIndex, CaptureRow
from warc.index.sqlite import SqliteCaptureIndex

ROWS_A_PAGE = 60
FULL, QUICK = 5_000, 500  # pages
LOOKUPS = 2_000
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def url_of(page: int, row: int) -> str:
    """Return a URL of average length."""
    return f"https://www{page % 997}.example.org/static/assets/{page}/part-{row:04}.html?v={page}"


def batch_of(page: int) -> IndexBatch:
    """Return the batch that the visit of a page writes."""
    at = BEGUN + timedelta(seconds=page)
    batch, filename = IndexBatch(), f"weboid-20260101000000-abcdefgh-{page // 500:05}.warc.gz"
    for row in range(ROWS_A_PAGE):
        url, offset = url_of(page, row), ((page % 500) * ROWS_A_PAGE + row) * 20_000
        digest = f"sha256:{hashlib.sha256(url.encode()).hexdigest()}"
        ms = unix_milliseconds(at) + row
        place = (filename, offset, 20_000)
        batch.rows.append(
            CaptureRow(
                replay_key(url),
                f"{at:%Y%m%d%H%M%S}",
                ms,
                url,
                "response",
                "text/html",
                200,
                digest,
                *place,
                None,
                None,
                None,
                f"{page:032x}",
                None,
            )
        )
        original = OriginalRecord(digest, url, ms, *place)
        batch.originals[PayloadKey(digest, "default")] = original
    page_url = url_of(page, 0)
    batch.pages.append(
        PageInfo(f"{page:032x}", page_url, page_url, warc_date(at), VisitOutcome.COMPLETE, title="A page")
    )
    batch.ends[filename] = (page % 500 + 1) * ROWS_A_PAGE * 20_000
    return batch


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that the call takes."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def write(index: CaptureIndex, batch: IndexBatch) -> None:
    """Write the batch in one transaction."""
    with index.transaction():
        batch.write(index)


def look(lookup: Lookup, page: int, row: int) -> None:
    """Look up one capture, as replay does for a part of a page."""
    capture = next(lookup.captures(url_of(page, row), BEGUN + timedelta(days=1)), None)
    assert capture is not None
    assert capture.page_id == f"{page:032x}"


def filled(indexes: dict[str, CaptureIndex], pages: int) -> dict[str, float]:
    """Fill both by turns; their rates, of all and of the last tenth."""
    spent = dict.fromkeys(indexes, 0.0)
    last = dict.fromkeys(indexes, 0.0)
    for page in range(pages):
        batch = batch_of(page)
        for name, index in indexes.items():
            seconds = timed(partial(write, index, batch))
            spent[name] += seconds
            last[name] += seconds if page >= pages - pages // 10 else 0.0
    rows, figures = pages * ROWS_A_PAGE, {}
    for name in indexes:
        figures[f"{name}_rows_per_s"] = rows / spent[name]
        figures[f"{name}_rows_per_s_at_the_end"] = rows / 10 / last[name]
        figures[f"{name}_batch_ms"] = 1000 * spent[name] / pages
    return figures


def looked_up(databases: dict[str, IndexDatabase], pages: int) -> dict[str, float]:
    """Look rows up in both by turns; milliseconds each."""
    chosen, figures = random.Random(1), {}
    took: dict[str, list[float]] = {name: [] for name in databases}
    lookups = {name: Lookup(database) for name, database in databases.items()}
    for _ in range(LOOKUPS):
        page, row = chosen.randrange(pages), chosen.randrange(ROWS_A_PAGE)
        for name, lookup in lookups.items():
            took[name].append(timed(partial(look, lookup, page, row)))
    for name, seconds in took.items():
        seconds.sort()
        figures[f"{name}_lookup_ms"] = 1000 * report.median(seconds)
        figures[f"{name}_lookup_p99_ms"] = 1000 * seconds[len(seconds) * 99 // 100]
    return figures


def measured(pages: int) -> dict[str, float]:
    """Measure both indexes; return all figures."""
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "captures.sqlite"
        server = PostgresServer()
        stack.callback(server.stop)
        address = parse_index_url(server.database())
        indexes: dict[str, CaptureIndex] = {
            "sqlite": SqliteCaptureIndex(path),
            "postgresql": PostgresCaptureIndex(address),
        }
        databases: dict[str, IndexDatabase] = {"sqlite": SqliteDatabase(path), "postgresql": PostgresDatabase(address)}
        for index in indexes.values():
            stack.callback(index.close)
        for database in databases.values():
            stack.callback(database.close)
        figures = filled(indexes, pages) | looked_up(databases, pages)
        (size,) = databases["postgresql"].rows("SELECT pg_database_size(current_database()) AS bytes", {})
        rows = pages * ROWS_A_PAGE
        figures["rows"] = rows
        figures["sqlite_bytes_per_row"] = path.stat().st_size / rows
        figures["postgresql_bytes_per_row"] = size["bytes"] / rows
    return figures


def main() -> None:
    """Print the figures."""
    options = report.arguments(__doc__ or "")
    figures = measured(QUICK if options.quick else FULL)
    rows = [("", "PostgreSQL", "SQLite", "ratio")]
    for name in ("rows_per_s", "rows_per_s_at_the_end", "batch_ms", "lookup_ms", "lookup_p99_ms",
                 "bytes_per_row"):  # fmt: skip
        ours, other = (figures[f"{kind}_{name}"] for kind in ("postgresql", "sqlite"))
        rows.append((name, f"{ours:,.2f}", f"{other:,.2f}", f"{ours / other:.2f}"))
    report.table(rows)
    report.figures("index", figures)


if __name__ == "__main__":
    main()
