"""Is it them, or is it us?"""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from links.check_result import CheckMethod, CheckResult, CheckVerdict
from links.checker import check_run
from links.checker.due_urls import DueUrl
from links.checker.outage_guard import OutageGuard
from links.checker.result_store import UrlCheckResult
from links.registry.database import RegistryStore
from links.states import LinkHealth, LinkState
from tests.support.check_farm import Days, Farm, checking, farming, silent
from tests.support.check_rows import row_of, seen_of, watch

NAMES = [f"h{number}.example" for number in range(30)]
ALIVE = [f"alive{number}.example" for number in range(5)]


@pytest.fixture
async def farm() -> AsyncIterator[Farm]:
    async with farming() as running:
        yield running


def _watched(store: RegistryStore, days: Days) -> dict[str, int]:
    """Thirty hosts that are due, and five that were alive yesterday."""
    watch(
        store,
        [f"http://{name}/" for name in ALIVE],
        state=int(LinkState.ALIVE),
        checked_day=days.day - 1,
        day=days.day + 6,
    )
    return watch(store, [f"http://{name}/" for name in NAMES], day=days.day)


async def test_an_outage_of_ours_is_nobodys_failure(
    sqlite_store: RegistryStore, farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody answers, not even who did lately: it is waited for, and all are looked at again."""
    monkeypatch.setattr(check_run, "_OUTAGE_S", 0.05)
    days = Days()
    ids = _watched(sqlite_store, days)
    farm.hosts |= dict.fromkeys(NAMES + ALIVE, silent)

    def back_after_a_while() -> None:
        if sum(each.host in ALIVE for each in farm.asked) >= 8:
            farm.hosts.clear()

    farm.on_request = back_after_a_while
    async with checking(sqlite_store, farm, NAMES + ALIVE, days=days) as checker:
        tally = await checker.check()

    assert (tally.kept, tally.is_complete) == (30, True)
    assert tally.states == {LinkState.ALIVE: 30}
    assert all(row.verdict == "ok" for id_ in ids.values() for row in seen_of(sqlite_store, id_))


async def test_hosts_that_are_down_while_others_answer_have_failed(
    sqlite_store: RegistryStore, farm: Farm
) -> None:
    """However many they are: those that were alive lately still are."""
    days = Days()
    ids = _watched(sqlite_store, days)
    farm.hosts |= dict.fromkeys(NAMES, silent)

    async with checking(sqlite_store, farm, NAMES + ALIVE, days=days) as checker:
        tally = await checker.check()

    assert tally.states == {LinkState.DYING: 30}
    assert {row_of(sqlite_store, id_).fails for id_ in ids.values()} == {1}


async def test_a_registry_that_knows_nobody_alive_believes_what_it_sees(
    sqlite_store: RegistryStore, farm: Farm
) -> None:
    """There is nobody to ask."""
    days = Days()
    watch(sqlite_store, [f"http://{name}/" for name in NAMES], day=days.day)
    farm.hosts |= dict.fromkeys(NAMES, silent)

    async with checking(sqlite_store, farm, NAMES, days=days) as checker:
        tally = await checker.check()

    assert (tally.states, tally.is_complete) == ({LinkState.DYING: 30}, True)


def _result(number: int, *, answers: bool) -> tuple[DueUrl, UrlCheckResult]:
    url = DueUrl(number, b"", 0, f"h{number % 7}.example", "", 0, LinkHealth(), is_new=False)
    verdict = CheckVerdict.OK if answers else CheckVerdict.FAILING
    finding = CheckResult(1, verdict, CheckMethod.GET, http=200 if answers else None)
    return url, UrlCheckResult(number, finding, Days().now())


@given(st.lists(st.booleans(), max_size=60))
def test_what_is_held_back_comes_out_once(answering: list[bool]) -> None:
    """In the order in which it came."""
    guard = OutageGuard(silent_hosts=5)
    came: list[int] = []
    for number, answers in enumerate(answering):
        came += [result.url_id for _, result in guard.take(*_result(number, answers=answers))]
        assert not answers or guard.held == 0
    came += [result.url_id for _, result in guard.let_go()]

    assert came == list(range(len(answering)))
