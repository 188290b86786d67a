"""The link registry: results of looks kept in a second.

A checker that looks at a thousand URLs a second has to keep as many results. Batches of 500 as a pass
makes them, each in a transaction of its own, in SQLite; half a percent of the links fail at any time.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

from bench import report
from core.layout import Layout
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker.result_store import CheckRules, UrlCheckResult, record_results
from links.checker.result_writer import BATCH
from links.registry.database import open_registry_store
from links.registry.urls import ensure_urls
from links.states import DEFAULT

FINE = CheckResult(StatusCode.FINE, CheckVerdict.OK, CheckMethod.HEAD, http=200, mime="text/html")
GONE = CheckResult(StatusCode.NOT_FOUND, CheckVerdict.GONE, CheckMethod.GET, http=404)
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
ROUNDS = 3


def figures(*, quick: bool) -> dict[str, float]:
    """Measure, and print a table."""
    count = 10_000 if quick else 50_000
    rules = CheckRules(DEFAULT, browser=True)
    with tempfile.TemporaryDirectory() as folder, closing(open_registry_store(Layout(Path(folder)))) as store:
        with store.writing() as rows:
            names = [f"http://h{number % 2_000}.example/{number}" for number in range(count)]
            ids = list(ensure_urls(rows, names, day=3_000).values())
        best = 0.0
        for number in range(ROUNDS):
            moment = BEGUN + timedelta(days=8 * number)
            began = time.perf_counter()
            for start in range(0, count, BATCH):
                results = [
                    UrlCheckResult(id_, GONE if id_ % 200 == 0 else FINE, moment) for id_ in ids[start : start + BATCH]
                ]
                with store.writing() as rows:
                    record_results(rows, results, rules)
            best = max(best, count / (time.perf_counter() - began))
    print(f"Results kept in a second, SQLite, batches of {BATCH}: {best:,.0f}")
    return {"bookings_per_s": round(best)}


if __name__ == "__main__":
    report.figures("links", figures(quick="--quick" in sys.argv))
