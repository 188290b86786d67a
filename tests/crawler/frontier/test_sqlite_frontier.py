"""Frontier in SQLite alone: its file, its processes, its indexes."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from core.clock import SystemClock
from core.config.settings import FrontierSettings, PolitenessSettings
from core.errors import CollectionVersionError, DiskFullError, InputError, UnavailableError
from core.layout import Layout
from crawler.frontier import transitions
from crawler.frontier.base import HostBackOff, HostOrder, ItemState, Lane, NewItem
from crawler.frontier.host_slots import EPOCH_BITS
from crawler.frontier.redis_frontier import RedisFrontier
from crawler.frontier.sqlite_frontier import SqliteFrontier, open_frontier
from tests.support.services.redis_server import RedisServer

ROOT = Path(__file__).parents[3]
SECOND = timedelta(seconds=1)
NO_DELAY = PolitenessSettings(delay_factor=0, min_delay_s=0, max_delay_s=0)

# A worker that claims and completes for ever, so many days from now, and says what it did once it is
# committed.
WORKER = """
import os
import sys
from datetime import timedelta
from pathlib import Path
from core.clock import SystemClock
from core.config.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.base import NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier

path, name, ahead = Path(sys.argv[1]), sys.argv[2], timedelta(days=int(sys.argv[3]))
clock = SystemClock()
say = lambda line: os.write(1, line.encode() + b"\\n")  # in one piece, whoever else writes
frontier = SqliteFrontier(
    path,
    politeness=PolitenessSettings(delay_factor=0, min_delay_s=0, max_delay_s=0),
    settings=FrontierSettings(lease_s=30, attempts=100),
)
while True:
    now = clock.now() + ahead
    for item in frontier.claim(now=now, worker=name, limit=3):
        say(f"claimed {item.token} {item.url}")
        links = [NewItem(f"{item.url}/{link}", hops=item.hops + 1) for link in range(2)]
        if item.hops < 4:
            frontier.add(links, now=now)
        if frontier.complete(item, now=now, outcome="ok"):
            say(f"completed {item.token} {item.url}")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the frontier's file."""
    return tmp_path / "frontier.sqlite"


@contextmanager
def running(path: Path, name: str, ahead: int, output: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a worker process that reports to that file descriptor; kill it at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, path, name, str(ahead)],
        stdout=output,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_killed_process_loses_nothing_that_it_reported(path: Path) -> None:
    """Kill -9 at any moment: what was committed stays, the rest is claimable again."""
    with SqliteFrontier(path) as frontier:
        frontier.add([NewItem(f"https://{host}.test/x") for host in "abcdefgh"], now=datetime(2026, 1, 1, tzinfo=UTC))
    reported: list[str] = []
    for life in range(6):
        source, sink = os.pipe()
        with open(source, encoding="ascii") as lines:  # noqa: PTH123 a descriptor, not a path
            with running(path, f"w{life}", life, sink) as process:
                os.close(sink)
                # A few lines more each time, so that it dies in the midst of different verbs.
                reported += [lines.readline() for _ in range(20 + 7 * life)]
                process.send_signal(signal.SIGKILL)
            reported += lines

    claimed = [line.split() for line in reported if line.startswith("claimed ")]
    completed = [line.split() for line in reported if line.startswith("completed ")]
    assert len({url for _, _, url in completed}) == len(completed) > 30
    assert len({token for _, token, _ in claimed}) == len(claimed)
    with SqliteFrontier(path, politeness=NO_DELAY) as frontier:
        for _, _, url in completed:
            record = frontier.find(url)
            assert record is not None
            assert record.state is ItemState.DONE
        now = SystemClock().now() + timedelta(days=99)
        left = frontier.unfinished(now)
        done = frontier.counts()[ItemState.DONE]
        for _ in range(left):
            now += SECOND
            for item in frontier.claim(now=now, worker="last", limit=100):
                assert frontier.complete(item, now=now, outcome="ok")
        assert frontier.unfinished(now) == 0
        assert frontier.counts()[ItemState.DONE] == done + left
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.slow
def test_processes_share_the_work_without_sharing_an_item(path: Path) -> None:
    """Three processes: every item is completed once, and no lock error reaches anybody."""
    count = 120
    with SqliteFrontier(path) as frontier:
        frontier.add(
            [NewItem(f"https://h{number}.test/a/b/c/d/e", hops=9) for number in range(count)],
            now=datetime(2026, 1, 1, tzinfo=UTC),
        )
    completed: list[str] = []
    # One pipe for all: POSIX writes short lines in one piece.
    source, sink = os.pipe()
    with (
        open(source, encoding="ascii") as lines,  # noqa: PTH123 a descriptor, not a path
        running(path, "1", 0, sink),
        running(path, "2", 0, sink),
        running(path, "3", 0, sink),
    ):
        os.close(sink)
        while len(completed) < count:
            line = lines.readline()
            assert line, "all workers died"
            if line.startswith("completed "):
                completed.append(line.split()[2])

    assert len(set(completed)) == len(completed) == count
    with SqliteFrontier(path) as frontier:
        assert frontier.counts()[ItemState.DONE] == count


def test_many_may_open_a_new_frontier_at_once(tmp_path: Path) -> None:
    """The first makes the tables, the others find them."""
    barrier = threading.Barrier(8)

    def opened(_: int) -> int:
        count = 0
        for number in range(10):
            barrier.wait()
            with SqliteFrontier(tmp_path / f"{number}.sqlite") as frontier:
                count += sum(frontier.counts().values())
        return count

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(opened, range(8))) == [0] * 8


def test_the_frontier_of_another_version_is_refused(path: Path) -> None:
    """Books are never read by rules they were not written by."""
    SqliteFrontier(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")

    with pytest.raises(CollectionVersionError, match="99"):
        SqliteFrontier(path)


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    """A wrong path must not cost anybody their data."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()

    with pytest.raises(CollectionVersionError):
        SqliteFrontier(path)

    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database, but long enough to be looked at " * 50])
def test_a_file_that_is_no_database_is_unavailable(path: Path, content: bytes) -> None:
    """SQLite's error arrives as ours."""
    path.write_bytes(content)

    with pytest.raises(UnavailableError, match=str(path)):
        SqliteFrontier(path)


def test_a_folder_that_is_missing_is_unavailable(tmp_path: Path) -> None:
    """The text names the file."""
    with pytest.raises(UnavailableError, match="missing"):
        SqliteFrontier(tmp_path / "missing" / "frontier.sqlite")


def test_a_closed_frontier_is_unavailable(path: Path) -> None:
    """No verb after close."""
    frontier = SqliteFrontier(path)
    frontier.close()
    frontier.close()

    with pytest.raises(UnavailableError):
        frontier.counts()


def test_a_full_disk_is_named_and_changes_nothing(path: Path) -> None:
    """The crawl pauses on it; the books stay whole."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with SqliteFrontier(path) as frontier:
        frontier.add([NewItem("https://a.test/")], now=now)
        db = frontier._store._db
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")

        with pytest.raises(DiskFullError):
            frontier.add([NewItem(f"https://a.test/{n}") for n in range(5_000)], now=now)

        db.execute("PRAGMA max_page_count = 1000000")
        assert frontier.unfinished(now) == 1
        assert frontier.add([NewItem("https://a.test/1")], now=now).added == 1


def test_a_host_is_searched_across_epochs_in_the_order_of_addition(path: Path) -> None:
    """A rare host's items lie far apart; one that comes back goes to its old place."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    urls = [f"https://rare.test/{number}" for number in range(4)]
    with SqliteFrontier(path, politeness=NO_DELAY) as frontier:
        for url in urls:
            frontier.add([NewItem(url)], now=now)
            with closing(sqlite3.connect(path)) as db, db:
                db.execute(
                    "INSERT INTO items (seq, id, url, host_id, job_id, lane, place, hops, hops_off, via, "
                    "memo, ended, added_ms) "
                    "SELECT max(seq) + ?, x'00', '', 0, 0, 2, 0, 0, 0, '', '', 4, 0 FROM items",
                    (5 << EPOCH_BITS,),
                )
        order = []
        first = frontier.claim(now=now, worker="w")[0]
        frontier.release(first, now=now)
        for _ in urls:
            (item,) = frontier.claim(now=now, worker="w")
            order.append(item.url)
            frontier.complete(item, now=now, outcome="ok")

    assert order == urls


def test_every_question_that_verbs_ask_is_answered_by_an_index(path: Path) -> None:
    """O(log n) a verb: no statement of any verb reads a table from end to end, or sorts one."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    statements: list[str] = []
    with SqliteFrontier(path, settings=FrontierSettings(attempts=2)) as frontier:
        db = frontier._store._db
        db.set_trace_callback(statements.append)
        exercise(frontier, now)
        db.set_trace_callback(None)
        plans = {
            statement: [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
            for statement in statements
            if statement.split()[0] in ("SELECT", "UPDATE", "DELETE", "INSERT")
        }

    assert len(plans) > 60
    for statement, plan in plans.items():
        for step in plan:
            # One row; the first or last entry of a b-tree; the rows within a listing's limit.
            listed = {"SCAN s", "SCAN queue", "SCAN later", "SCAN claims"}
            fine = (
                not step.startswith("SCAN")
                or step == "SCAN totals"
                or (step in listed and "LIMIT" in statement)
                or ("max(seq)" in statement or "min(" in statement)
            )
            assert fine, (step, statement)
            assert "TEMP B-TREE" not in step or "SCAN s" in plan, (step, statement)


def exercise(frontier: SqliteFrontier, now: datetime) -> None:
    """Call every verb, through every branch of it."""
    urls = [f"https://h{number % 3}.test/{number}" for number in range(9)]
    frontier.add(map(NewItem, urls), now=now)
    frontier.add([NewItem(urls[8], Lane.NOW)], now=now, again=timedelta(0))
    one, two, three = frontier.claim(now=now, worker="w", limit=3)
    frontier.renew(one, now=now)
    frontier.complete(one, now=now, outcome="ok")
    frontier.retry(two, now=now, reason="x")
    frontier.fail(three, now=now, reason="x")
    frontier.add([NewItem(one.url), NewItem(three.url)], now=now, again=timedelta(0))
    now += timedelta(hours=1)
    for item in frontier.claim(now=now, worker="w", limit=3):
        frontier.release(item, now=now, reason="x")
    frontier.claim(now=now + 60 * SECOND, worker="w")
    frontier.claim(now=now + timedelta(hours=2), worker="w")
    exercise_endings(frontier, now + timedelta(hours=3))
    frontier.block_until("h1.test", now + 60 * SECOND, "x", now=now)
    frontier.back_off(HostBackOff("h2.test", "x"), now=now)
    for _ in range(9):
        frontier.back_off(HostBackOff("h0.test", "x", down=True), now=now)
    frontier.rest({"h0.test": now}, now=now)
    frontier.claim(now=now + timedelta(days=2), worker="w")
    frontier.discard(urls, now=now, reason="x")
    frontier.pause("x")
    frontier.resume()
    frontier.give_order("k", "k", "v")
    frontier.take_back("k", "k")
    frontier.put_note("k", "k", "v", now=now)
    frontier.erase_note("k", "k")
    exercise_reports(frontier, urls, now)


def exercise_endings(frontier: SqliteFrontier, now: datetime) -> None:
    """End items in every way, with all parameters."""
    frontier.add([NewItem(f"https://e{n}.test/", job="j") for n in range(3)], now=now)
    one, two, three = frontier.claim(now=now, worker="w", limit=3)
    frontier.complete(one, now=now, outcome="ok", due=now + 60 * SECOND, memo="m", stored_bytes=1)
    frontier.skip(two, now=now, reason="x")
    frontier.release(three, now=now, not_before=now + 60 * SECOND)
    frontier.claim(now=now + 60 * SECOND, worker="w", limit=9)


def exercise_reports(frontier: SqliteFrontier, urls: list[str], now: datetime) -> None:
    """Call every report."""
    frontier.next_wakeup(now)
    frontier.stats(now)
    frontier.counts()
    frontier.job_counts("j")
    frontier.minutes(now)
    frontier.find(urls[0])
    frontier.blocks(now=now)
    frontier.host("h1.test", now=now)
    frontier.orders("k")
    frontier.note("k", "k", now=now)
    frontier.notes("k", now=now)
    for order in HostOrder:
        frontier.hosts(order, now=now)
    for state in ItemState:
        frontier.ls(state)
        frontier.ls(state, host="h1.test")
        cursor = "begin"
        while cursor:
            _, cursor = frontier.scan(state, cursor=cursor.removeprefix("begin"), limit=1)


def test_identifiers_come_from_where_they_are_told_to(path: Path) -> None:
    """Randomness is an argument."""
    ids = map(UUID, map("{:032x}".format, range(1, 9)))
    with SqliteFrontier(path, new_id=lambda: next(ids)) as frontier:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        frontier.add([NewItem("https://a.test/")], now=now)

        assert frontier.claim(now=now, worker="w")[0].id == str(UUID(int=1))


def test_one_claim_tidies_up_a_bounded_number_of_leases(path: Path) -> None:
    """A verb stays short after a long pause; the next claims do the rest."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    count = transitions.TIDY_LIMIT + 100
    with SqliteFrontier(path) as frontier:
        frontier.add([NewItem(f"https://h{n}.test/") for n in range(count)], now=now)
        assert len(frontier.claim(now=now, worker="w", limit=count)) == count
        now += timedelta(hours=1)

        assert len(frontier.claim(now=now, worker="w", limit=count)) == transitions.TIDY_LIMIT
        assert frontier.next_wakeup(now) == now
        assert len(frontier.claim(now=now, worker="w", limit=count)) == 100


@pytest.mark.parametrize("cursor", ["nonsense", "9:9:9", "2:x", "::", "2:" + "9" * 40])
def test_a_cursor_that_no_scan_gave_is_refused(path: Path, cursor: str) -> None:
    """It may come from a command line."""
    with SqliteFrontier(path) as frontier, pytest.raises(InputError):
        frontier.scan(ItemState.QUEUED, cursor=cursor)


def test_file_from_before_back_offs_were_noted_is_completed(tmp_path: Path) -> None:
    """Opening it adds the table; nothing else changes."""
    path, now = tmp_path / "frontier.sqlite", datetime(2026, 11, 21, tzinfo=UTC)
    with SqliteFrontier(path) as frontier:
        frontier.add([NewItem("https://a.example.org/")], now=now)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE back_offs")
    with SqliteFrontier(path) as frontier:
        frontier.back_off(HostBackOff("a.example.org", "503"), now=now)
        assert frontier.claim(now=now, worker="w") == []
        assert len(frontier.claim(now=now + timedelta(days=1), worker="w")) == 1


def test_the_settings_say_where_the_frontier_is(redis_server: RedisServer, tmp_path: Path) -> None:
    """Without an address it is the collection's own file."""
    shared = FrontierSettings(url=f"{redis_server.url}?frontier=of-settings")
    layout = Layout(tmp_path)
    layout.databases.mkdir(parents=True)

    with open_frontier(layout, shared, PolitenessSettings()) as frontier:
        assert isinstance(frontier, RedisFrontier)
    with open_frontier(layout, FrontierSettings(), PolitenessSettings()) as frontier:
        assert isinstance(frontier, SqliteFrontier)
