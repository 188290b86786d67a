"""Tests of `links.checker.check_worker`."""

from collections.abc import AsyncIterator

import pytest

from links.checker.check_run import CheckTally
from links.checker.check_worker import check_continuously
from links.registry.database import RegistryStore
from tests.support.check_rows import watch as watch_urls
from tests.support.server_farm import DayClock, ServerFarm, checking, running_server_farm

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds


NAMES = [f"h{number}.example" for number in range(60)]


@pytest.fixture
async def farm() -> AsyncIterator[ServerFarm]:
    async with running_server_farm() as running:
        yield running


async def test_a_watching_checker_looks_at_what_falls_due(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """Day after day, until it is stopped; what somebody adds meanwhile, too."""
    days = DayClock()
    watch_urls(sqlite_store, ["http://h0.example/"], day=days.day)
    passed: list[int] = []

    async with checking(sqlite_store, farm, NAMES, days=days) as checker:

        async def between(tally: CheckTally) -> None:
            passed.append(tally.stored)
            if len(passed) == 1:
                watch_urls(sqlite_store, ["http://h1.example/"], day=days.day)
            elif len(passed) == 2:
                days.day += 20
            else:
                checker.stop.set()

        await check_continuously(checker.context, checker.plan, checker.stop, between=between, idle_s=0.01)

    assert passed == [1, 1, 2]
