"""Is it them, or is it us?"""

from collections.abc import AsyncIterator

import pytest

from links.checker import check_run
from links.registry.database import RegistryStore
from links.states import LinkState
from tests.support.check_rows import row_of, seen_of, watch
from tests.support.server_farm import DayClock, ServerFarm, checking, running_server_farm, silent

NAMES = [f"h{number}.example" for number in range(30)]
ALIVE = [f"alive{number}.example" for number in range(5)]


@pytest.fixture
async def farm() -> AsyncIterator[ServerFarm]:
    async with running_server_farm() as running:
        yield running


def _watched(store: RegistryStore, days: DayClock) -> dict[str, int]:
    """Add thirty hosts that are due, and five that were alive yesterday."""
    watch(
        store,
        [f"http://{name}/" for name in ALIVE],
        state=int(LinkState.ALIVE),
        checked_day=days.day - 1,
        day=days.day + 6,
    )
    return watch(store, [f"http://{name}/" for name in NAMES], day=days.day)


async def test_an_outage_of_ours_is_nobodys_failure(
    sqlite_store: RegistryStore, farm: ServerFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody answers, not even who did lately: it is waited for, and all are looked at again."""
    monkeypatch.setattr(check_run, "_OUTAGE_S", 0.05)
    days = DayClock()
    ids = _watched(sqlite_store, days)
    farm.hosts |= dict.fromkeys(NAMES + ALIVE, silent)

    def back_after_a_while() -> None:
        if sum(each.host in ALIVE for each in farm.requests) >= 8:
            farm.hosts.clear()

    farm.on_request = back_after_a_while
    async with checking(sqlite_store, farm, NAMES + ALIVE, days=days) as checker:
        tally = await checker.check()

    assert (tally.stored, tally.is_complete) == (30, True)
    assert tally.states == {LinkState.ALIVE: 30}
    assert all(row.verdict == "ok" for id_ in ids.values() for row in seen_of(sqlite_store, id_))


async def test_hosts_that_are_down_while_others_answer_have_failed(
    sqlite_store: RegistryStore, farm: ServerFarm
) -> None:
    """However many they are: those that were alive lately still are."""
    days = DayClock()
    ids = _watched(sqlite_store, days)
    farm.hosts |= dict.fromkeys(NAMES, silent)

    async with checking(sqlite_store, farm, NAMES + ALIVE, days=days) as checker:
        tally = await checker.check()

    assert tally.states == {LinkState.DYING: 30}
    assert {row_of(sqlite_store, id_).fails for id_ in ids.values()} == {1}


async def test_a_registry_that_knows_nobody_alive_believes_what_it_sees(
    sqlite_store: RegistryStore, farm: ServerFarm
) -> None:
    """There is nobody to ask."""
    days = DayClock()
    watch(sqlite_store, [f"http://{name}/" for name in NAMES], day=days.day)
    farm.hosts |= dict.fromkeys(NAMES, silent)

    async with checking(sqlite_store, farm, NAMES, days=days) as checker:
        tally = await checker.check()

    assert (tally.states, tally.is_complete) == ({LinkState.DYING: 30}, True)
