"""The way to the registry's database, and its thread for an event loop."""

import asyncio
import threading
import time
from contextlib import closing
from datetime import datetime, timedelta

import pytest
from sqlalchemy import insert, select, update

from links.checker.check_worker import take_leases
from links.checker.due_urls import ALL_HOSTS, LeaseHeldError, LeaseLostError
from links.checker.result_writer import LeaseHolder
from links.registry.database import RegistryStore, RegistryThread
from links.registry.schema import hosts, leases
from tests.support.server_farm import DayClock

HOST = {"name": "example.org", "domain_index": "org.example.", "domain": "example.org", "bucket": 1}


def test_what_is_written_can_be_read(store: RegistryStore) -> None:
    """A block that ends well is kept."""
    with store.writing() as rows:
        rows.execute(insert(hosts), [HOST])

    with store.reading() as rows:
        assert rows.execute(select(hosts.c.name)).scalar_one() == "example.org"


def test_a_block_that_fails_keeps_nothing(store: RegistryStore) -> None:
    def fail() -> None:
        with store.writing() as rows:
            rows.execute(insert(hosts), [HOST])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    with store.reading() as rows:
        assert rows.execute(select(hosts)).all() == []


async def test_a_checker_that_waits_ends_when_its_lease_is_taken(sqlite_store: RegistryStore) -> None:
    """Whatever it does between its passes is broken off, with the reason."""
    days = DayClock()
    with closing(RegistryThread(sqlite_store, monotonic=days.monotonic)) as registry:
        mine = LeaseHolder(registry, [ALL_HOSTS], "mine", clock=days, length_s=0)  # renewed all the time
        await mine.take()

        async def wait() -> None:
            async with mine.renewed():
                with sqlite_store.writing() as rows:
                    rows.execute(update(leases).values(holder="other"))
                await asyncio.Event().wait()

        with pytest.raises(LeaseLostError):
            await wait()


class _MinuteClock(DayClock):
    """A clock on which a minute passes each time that somebody looks at it."""

    def __init__(self) -> None:
        super().__init__()
        self._minutes = 0

    def now(self) -> datetime:
        self._minutes += 1
        return super().now() + timedelta(minutes=self._minutes)


async def test_a_dead_checkers_part_is_taken_when_its_lease_is_over(sqlite_store: RegistryStore) -> None:
    """Whoever comes waits for that, and tells whom it waits for."""
    days, clock = DayClock(), _MinuteClock()
    holders: list[str] = []
    with closing(RegistryThread(sqlite_store, monotonic=days.monotonic)) as registry:
        await LeaseHolder(registry, [ALL_HOSTS], "dead", clock=days).take()
        taken = await take_leases(
            *(LeaseHolder(registry, [ALL_HOSTS], "next", clock=clock), asyncio.Event()),
            clock=clock,
            waiting=lambda error: holders.append(error.holder),
            look_again_s=0.01,
        )

    assert (taken, holders) == (True, ["dead"])


async def test_a_living_checkers_part_is_not_taken(sqlite_store: RegistryStore) -> None:
    """It renewed its lease while the other waited, who then gives up."""
    days, clock = DayClock(), _MinuteClock()
    with closing(RegistryThread(sqlite_store, monotonic=days.monotonic)) as registry:
        living = LeaseHolder(registry, [ALL_HOSTS], "living", clock=clock, length_s=3600)
        await living.take()
        renewed: list[asyncio.Task[None]] = []
        with pytest.raises(LeaseHeldError, match="living"):
            await take_leases(
                *(LeaseHolder(registry, [ALL_HOSTS], "other", clock=days), asyncio.Event()),
                clock=days,
                waiting=lambda _: renewed.append(asyncio.create_task(living.renew())),
                look_again_s=0.01,
            )
        await asyncio.gather(*renewed)


async def test_a_long_question_holds_up_no_lease(sqlite_store: RegistryStore) -> None:
    """`read_aside` has a thread of its own: reads and writes go on meanwhile (W38)."""
    is_over = threading.Event()
    registry = RegistryThread(sqlite_store, monotonic=time.monotonic)
    with closing(registry):
        long = asyncio.create_task(registry.read_aside(lambda _rows: is_over.wait(240)))
        assert await asyncio.wait_for(registry.write(lambda _rows: 7), 240) == 7
        assert not long.done()
        is_over.set()
        assert await long
