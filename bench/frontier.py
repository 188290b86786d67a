"""The frontier in SQLite: URLs added and claimed a second, and what a thousand times the size costs.

Batches of 1,000 URLs over 10,000 hosts, 45 % of them known before, the host of each drawn at random
(worse than a page's links, which share hosts); claims in batches of 50, every host polite. A small
frontier of 10⁴ URLs and a large one of 10⁷ (``--quick``: 10⁶) take turns batch by batch, so that
a noisy machine troubles both alike. Rates are the large one's.

The frontiers are filled by SQL to the state that the verbs would have left, since adding 10⁷ URLs
one way or the other takes minutes.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import count

from bench import report
from core.urls import identity_key
from crawler.frontier.base import FrontierItem, NewItem
from crawler.frontier.slots import EPOCH_BITS
from crawler.frontier.sqlite import SqliteFrontier

HOSTS = 10_000
SMALL = 10_000
BATCH = 1_000
KNOWN_SHARE = 0.45
CLAIMS = 50
# URLs that duplicates are drawn from; their hashes lie all over the filter, as all hashes do.
KNOWN = 100_000
START = datetime(2026, 1, 1, tzinfo=UTC)
PATH = "/some/path/of/usual/length/page-{}.html?section=1"

FILL = f"""
INSERT INTO items (seq, id, url, host_id, lane, hops, via, added_ms)
WITH RECURSIVE n(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < :size)
SELECT seq, randomblob(16), 'https://www.host' || (seq * 7919 % {HOSTS}) || '.example.org'
       || '/some/path/of/usual/length/page-' || seq || '.html?section=1',
       1 + seq * 7919 % {HOSTS}, 2, 1, 'https://wiki.example.org/wiki/Some_page', 0
FROM n;
INSERT INTO seen SELECT randomblob(16) AS identity, seq FROM items WHERE seq > :known ORDER BY 1;
INSERT INTO queue SELECT lane, seq >> {EPOCH_BITS}, host_id, seq FROM items ORDER BY 1, 2, 3, 4;
INSERT INTO hosts (id, host, waiting_standard, head_standard, lane)
SELECT host_id, 'www.host' || (host_id - 1) || '.example.org', count(*), min(seq) >> {EPOCH_BITS}, 2
FROM items GROUP BY host_id;
UPDATE totals SET queued = :size, hosts = (SELECT count(*) FROM hosts);
"""


def url_of(number: int, host: int) -> str:
    """The URL of an item."""
    return f"https://www.host{host}.example.org{PATH.format(number)}"


class Subject:
    """A frontier that is measured."""

    def __init__(self, path: Path, size: int) -> None:
        self.size = size
        self.known = [url_of(seq, seq * 7919 % HOSTS) for seq in range(1, min(size, KNOWN) + 1)]
        self.frontier = SqliteFrontier(path)
        self._fill()
        self.numbers = count(10 * size)
        self.random = random.Random(size)
        self.now = START
        self.held: list[FrontierItem] = []
        self.seconds: dict[str, list[float]] = {"add": [], "claim": [], "complete": []}

    def _fill(self) -> None:
        identities = sorted(
            (blake2b(identity_key(url).encode(), digest_size=16).digest(), seq)
            for seq, url in enumerate(self.known, start=1)
        )
        values = {"size": self.size, "known": len(self.known)}
        with self.frontier._store.transaction() as db:  # noqa: SLF001 see the module docstring
            for statement in FILL.split(";"):
                named = {name: values[name] for name in values if f":{name}" in statement}
                db.execute(statement, named)
            db.executemany("INSERT INTO seen VALUES (?, ?)", identities)
        self.frontier._store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # noqa: SLF001 as above

    def batch(self) -> list[NewItem]:
        """The next URLs to add."""
        known = round(BATCH * KNOWN_SHARE)
        urls = self.random.sample(self.known, known)
        urls += [
            url_of(next(self.numbers), self.random.randrange(HOSTS)) for _ in range(BATCH - known)
        ]
        self.random.shuffle(urls)
        return [NewItem(url, hops=1, via="https://wiki.example.org/wiki/Page") for url in urls]

    def add(self) -> float:
        """Add a batch; seconds."""
        batch = self.batch()
        return self._timed("add", lambda: self.frontier.add(batch, now=self.now))

    def claim(self) -> float:
        """Claim a batch; seconds."""
        self.now += timedelta(milliseconds=50)
        return self._timed("claim", self._claim)

    def _claim(self) -> None:
        items = self.frontier.claim(now=self.now, worker="bench", limit=CLAIMS)
        assert len(items) == CLAIMS
        self.held += items

    def complete(self) -> None:
        """Complete what is held."""
        items, self.held = self.held, []
        self._timed("complete", lambda: self._complete(items))

    def _complete(self, items: list[FrontierItem]) -> None:
        for item in items:
            assert self.frontier.complete(
                item, now=self.now, outcome="ok", duration=timedelta(seconds=1)
            )

    def _timed(self, what: str, work: Callable[[], object]) -> float:
        started = time.perf_counter()
        work()
        took = time.perf_counter() - started
        self.seconds[what].append(took)
        return took

    def rate(self, what: str, each: int) -> float:
        """Items a second, over all turns."""
        return each * len(self.seconds[what]) / sum(self.seconds[what])


def ratio(small: Subject, large: Subject, what: str) -> float:
    """How fast the large one is beside the small one, over all turns, checkpoints included."""
    return sum(small.seconds[what]) / sum(large.seconds[what])


def main() -> None:
    """Run the benchmark and print its figures."""
    quick = report.arguments(__doc__ or "").quick
    size, turns = (1_000_000, 60) if quick else (10_000_000, 300)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        large = Subject(Path(folder) / "large.sqlite", size)
        small = Subject(Path(folder) / "small.sqlite", SMALL)
        megabytes = (Path(folder) / "large.sqlite").stat().st_size / 1e6
        print(
            f"filled with {size:,} URLs in {time.perf_counter() - started:.0f} s: {megabytes:,.0f} MB"
        )
        for _ in range(turns):
            for subject in (small, large):
                subject.add()
        for _ in range(turns):
            for subject in (small, large):
                subject.claim()
                subject.complete()
        for subject in (small, large):
            subject.frontier.close()
    show(small, large, size)


def show(small: Subject, large: Subject, size: int) -> None:
    """The table and the last line."""
    each = {"add": BATCH, "claim": CLAIMS, "complete": CLAIMS}
    rows = [("sqlite", f"{size:,} URLs", f"{SMALL:,} URLs", "ratio")]
    for what, number in each.items():
        big, little = (f"{subject.rate(what, number):,.0f}/s" for subject in (large, small))
        rows.append((what, big, little, f"{ratio(small, large, what):.2f}"))
    report.table(rows)
    report.figures(
        "frontier",
        {
            "sqlite_adds_per_s": large.rate("add", BATCH),
            "sqlite_claims_per_s": large.rate("claim", CLAIMS),
            "scale_ratio": min(ratio(small, large, what) for what in ("add", "claim")),
        },
    )


if __name__ == "__main__":
    main()
