"""A checker whose database goes away, whose lease is taken, or that dies in mid-pass."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from core.errors import TransientError
from core.layout import Layout
from links.check_history import unpack_history
from links.checker import check_schedule, result_store
from links.checker.check_run import CheckTally
from links.checker.due_urls import ALL_HOSTS, HostShare, LeaseLostError
from links.checker.result_store import RecordedResult
from links.registry.database import RegistryStore
from links.registry.schema import leases, urls
from links.states import LinkState
from tests.support.check_rows import row_of
from tests.support.check_rows import watch as watch_urls
from tests.support.server_farm import DayClock, ServerFarm, checking, gone, running_server_farm
from tests.support.services.postgres import PostgresServer
from tests.support.services.registries import open_registry

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds

NAMES = [f"h{number}.example" for number in range(60)]


@pytest.fixture
async def farm() -> AsyncIterator[ServerFarm]:
    async with running_server_farm() as running:
        yield running


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """Start a server that a test may kill."""
    server = PostgresServer()
    yield server
    server.stop()


def _failures(store: RegistryStore) -> list[tuple[int, int]]:
    """Return for each URL its failures in a row, and the number of runs in its history."""
    with store.reading() as rows:
        url_rows = rows.execute(select(urls.c.fails, urls.c.history)).all()
    return [(row.fails, len(unpack_history(row.history))) for row in url_rows]


async def test_a_database_that_dies_in_mid_pass_is_waited_for(
    own_postgres: PostgresServer, tmp_path: Path, farm: ServerFarm
) -> None:
    """Checks go on meanwhile; then everything is kept, each result once."""
    days = DayClock()
    store = open_registry(Layout(tmp_path), own_postgres.database())
    farm.hosts |= dict.fromkeys(NAMES, gone)
    watch_urls(store, [f"http://{name}/{n}" for name in NAMES for n in range(2)], day=days.day)
    asked_while_away: list[int] = []

    def kill_at_the_fortieth() -> None:  # a third of the first window that the feed has loaded
        if len(farm.requests) >= 40 and not asked_while_away:
            own_postgres.kill()
            asked_while_away.append(len(farm.requests))
        elif len(asked_while_away) == 1 and len(farm.requests) >= asked_while_away[0] + 10:
            asked_while_away.append(len(farm.requests))
            own_postgres.start()

    farm.on_request = kill_at_the_fortieth
    async with checking(store, farm, NAMES, days=days) as checker:
        tally = await checker.check(connections=8)

    before, after = asked_while_away
    assert after >= before + 10
    assert (tally.stored, tally.is_complete) == (120, True)
    assert set(_failures(store)) == {(1, 1)}
    with store.reading() as rows:
        made = check_schedule.latest_runs(rows, limit=1)[0]
    assert (made.due, made.done, made.ended is not None) == (120, 120, True)
    store.close()


async def test_a_batch_whose_answer_was_lost_is_kept_once(
    sqlite_store: RegistryStore, farm: ServerFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database kept it, then went away: it is offered again, and known."""
    days = DayClock()
    farm.hosts |= dict.fromkeys(NAMES[:6], gone)
    watch_urls(sqlite_store, [f"http://{name}/" for name in NAMES[:6]], day=days.day)
    lost: list[bool] = []

    async with checking(sqlite_store, farm, NAMES[:6], days=days) as checker:
        real = checker.context.registry._in_thread

        async def losing(work: Callable[[], object]) -> object:
            done = await real(work)
            if isinstance(done, list) and done and isinstance(done[0], RecordedResult) and not lost:
                lost.append(True)
                raise TransientError("The answer was lost.")
            return done

        monkeypatch.setattr(checker.context.registry, "_in_thread", losing)
        tally = await checker.check()

    assert lost
    assert (tally.stored, tally.is_complete) == (6, True)
    assert set(_failures(sqlite_store)) == {(1, 1)}


async def test_a_locked_file_is_waited_for(tmp_path: Path, farm: ServerFarm) -> None:
    """Somebody else writes for longer than SQLite waits: nothing is lost, nothing is kept twice."""
    days = DayClock()
    store = open_registry(Layout(tmp_path))
    watch_urls(store, [f"http://{name}/" for name in NAMES], day=days.day)
    with store.engine.connect() as some:  # every later connection waits but briefly
        some.exec_driver_sql("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(Layout(tmp_path).links_db, isolation_level=None)
    held: list[int] = []

    async with checking(store, farm, NAMES, days=days) as checker:

        def hold() -> None:
            if not held and len(farm.requests) > 5:
                other.execute("BEGIN IMMEDIATE")
                held.append(len(farm.requests))
                asyncio.get_running_loop().call_later(0.4, other.execute, "COMMIT")

        farm.on_request = hold
        tally = await checker.check(connections=4)

    assert held
    assert (tally.stored, tally.is_complete) == (60, True)
    other.close()
    store.close()


async def test_results_that_wait_are_bounded(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """A pass begins no look whose result nobody could hold."""
    days = DayClock()
    watch_urls(sqlite_store, [f"http://{name}/" for name in NAMES], day=days.day)
    other = sqlite3.connect(Path(sqlite_store.where), isolation_level=None)

    async with checking(sqlite_store, farm, NAMES, days=days) as checker:
        task = asyncio.create_task(checker.check(connections=3, waiting=10))
        while len(farm.requests) < 1:
            await asyncio.sleep(0.005)
        other.execute("BEGIN IMMEDIATE")
        at_lock = len(farm.requests)
        seen = -1
        while seen != len(farm.requests):
            seen = len(farm.requests)
            await asyncio.sleep(0.15)
        other.execute("COMMIT")
        tally = await task

    assert seen <= at_lock + 10 + 3
    assert tally.stored == 60
    other.close()


async def test_a_checker_whose_lease_was_taken_writes_nothing(store: RegistryStore, farm: ServerFarm) -> None:
    """It ends, and says why; its URLs are still due."""
    days = DayClock()
    watch_urls(store, [f"http://{name}/" for name in NAMES[:8]], day=days.day)

    def taken() -> None:
        with store.writing() as rows:
            rows.execute(update(leases).values(holder="other", fence=leases.c.fence + 1))

    async with checking(store, farm, NAMES, days=days) as checker:
        taken()
        with pytest.raises(LeaseLostError):
            await checker.check()

    with store.reading() as rows:
        looked = select(func.count()).where(urls.c.checked_day.is_not(None))
        assert rows.execute(looked).scalar_one() == 0


async def test_two_checkers_share_the_hosts(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """Each with a part: every URL is looked at once, by one of them."""
    days = DayClock()
    ids = watch_urls(sqlite_store, [f"http://{name}/{n}" for name in NAMES for n in (1, 2)], day=days.day)

    async def part(number: int) -> CheckTally:
        async with checking(
            sqlite_store, farm, NAMES, days=days, holder=f"checker{number}", part=HostShare(number, 2)
        ) as checker:
            return await checker.check()

    one, two = await asyncio.gather(part(1), part(2))

    assert one.stored + two.stored == 120
    assert min(one.stored, two.stored) > 0
    assert len({(each.host, each.path) for each in farm.requests}) == len(farm.requests) == 120
    assert all(row_of(sqlite_store, id_).state == LinkState.ALIVE for id_ in ids.values())


_CRASHING = """
import asyncio, os, signal, sys
from pathlib import Path
from core.layout import Layout
from tests.support.services.registries import open_registry
from tests.support.server_farm import DayClock, ServerFarm, checking

async def main(folder, port, dns_port, day, after):
    sqlite_store = open_registry(Layout(Path(folder)))
    farm = ServerFarm()
    farm.port, farm.dns_port = port, dns_port
    def dying(_booked, tally):
        if tally.stored >= after:
            os.kill(os.getpid(), signal.SIGKILL)
    names = [f"h{number}.example" for number in range(60)]
    async with checking(sqlite_store, farm, names, days=DayClock(day), holder="dying") as checker:
        await checker.check(on_save=dying, connections=8, limit=60)  # or all are kept at once

asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
"""


async def test_a_checker_that_is_killed_loses_nothing(
    sqlite_store: RegistryStore, farm: ServerFarm, tmp_path: Path
) -> None:
    """Stored results count, all others are still due; the next checker goes on with the pass."""
    days = DayClock()
    farm.hosts |= dict.fromkeys(NAMES, gone)
    watch_urls(sqlite_store, [f"http://{name}/{n}" for name in NAMES for n in range(2)], day=days.day)
    command = [sys.executable, "-c", _CRASHING, str(tmp_path)]
    command += [str(number) for number in (farm.port, farm.dns_port, days.day, 20)]
    root = str(Path(__file__).parents[3])
    process = await asyncio.create_subprocess_exec(
        *command, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": root}, cwd=root
    )
    _, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == -signal.SIGKILL, errors.decode()
    with sqlite_store.reading() as rows:
        run = check_schedule.latest_runs(rows, limit=1)[0]
    assert 20 <= run.done < 120
    with sqlite_store.writing() as rows:
        rows.execute(update(leases).values(until=0))  # its lease ends

    async with checking(sqlite_store, farm, NAMES, days=days) as checker:
        tally = await checker.check()

    assert (tally.stored, tally.is_complete) == (120 - run.done, True)
    assert set(_failures(sqlite_store)) == {(1, 1)}
    with sqlite_store.reading() as rows:
        made = check_schedule.latest_runs(rows, limit=9)
    assert [(each.done, each.due) for each in made] == [(120, 120)]


def test_a_batch_of_a_pass_is_counted_once(sqlite_store: RegistryStore) -> None:
    """By its number."""
    with sqlite_store.writing() as rows:
        made = check_schedule.begin_run(rows, ALL_HOSTS, horizon=1, now=DayClock().now())
        assert result_store.advance_run(rows, made.id, 1, 10)
        assert not result_store.advance_run(rows, made.id, 1, 10)
        assert not result_store.advance_run(rows, made.id, 3, 10)
        assert result_store.advance_run(rows, made.id, 2, 5)
    with sqlite_store.reading() as rows:
        assert check_schedule.latest_runs(rows, limit=1)[0].done == 15
