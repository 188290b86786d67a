"""Turns at hosts."""

import asyncio
import itertools
import time

import pytest

from links.checker.host_turns import HostTurns
from links.checker.timetable import HostGaps

GAP_S = 0.03


async def test_no_host_is_asked_closer_than_its_gap() -> None:
    """The gap begins when the request before it is over, however many wait."""
    turns = HostTurns(GAP_S, monotonic=time.monotonic)
    spans: list[tuple[float, float]] = []

    async def check() -> None:
        with turns.active_check():
            for _ in range(2):
                await turns.take("a.example")
                began = time.monotonic()
                await asyncio.sleep(0.002)
                spans.append((began, time.monotonic()))

    await asyncio.gather(*(check() for _ in range(5)))

    spans.sort()
    assert len(spans) == 10
    # A check lets go a moment after its request was over, so its gap is longer, never shorter.
    assert all(after[0] - before[1] >= GAP_S for before, after in itertools.pairwise(spans))


async def test_other_hosts_do_not_wait() -> None:
    """A taken host holds up nobody else."""
    turns = HostTurns(3600.0, monotonic=time.monotonic)

    with turns.active_check():
        await turns.take("a.example")

        async def other() -> None:
            with turns.active_check():
                await turns.take("b.example")

        await asyncio.wait_for(asyncio.create_task(other()), 120)


async def test_checks_that_cross_do_not_wait_for_each_other() -> None:
    """Each is led to the other's host: whoever waits has let go before."""
    turns = HostTurns(GAP_S, monotonic=time.monotonic)
    met = asyncio.Barrier(2)

    async def check(first: str, second: str) -> None:
        with turns.active_check():
            await turns.take(first)
            await met.wait()
            await turns.take(second)

    await asyncio.wait_for(asyncio.gather(check("a.example", "b.example"), check("b.example", "a.example")), 120)


async def test_a_check_that_would_wait_too_long_is_ended() -> None:
    """And it knows why; the one that had the host has it still."""
    turns = HostTurns(10.0, monotonic=time.monotonic, longest_wait_s=5.0)
    crowded: list[bool] = []

    async def late() -> None:
        with turns.active_check() as active:
            try:
                await turns.take("a.example")
            finally:
                crowded.append(active.is_crowded)

    with turns.active_check():
        await turns.take("a.example")
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(late())

    assert crowded == [True]


async def test_closing_ends_those_that_wait() -> None:
    """A check that has its turn goes on."""
    turns = HostTurns(100.0, monotonic=time.monotonic)
    began = asyncio.Event()

    async def waiting() -> None:
        with turns.active_check():
            began.set()
            await turns.take("a.example")

    with turns.active_check() as first:
        await turns.take("a.example")
        task = asyncio.create_task(waiting())
        await began.wait()
        await asyncio.sleep(0)
        turns.close()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert not first.is_crowded


async def test_a_cancelled_wait_leaves_the_host_to_the_next() -> None:
    """Also when it was just handed over."""
    turns = HostTurns(GAP_S, monotonic=time.monotonic)

    async def wait() -> None:
        with turns.active_check():
            await turns.take("a.example")

    with turns.active_check():
        await turns.take("a.example")
        first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
    first.cancel()  # it has the host now, and waits for the gap

    await asyncio.wait_for(second, 120)
    assert first.cancelled()


async def test_so_many_ask_at_a_time_and_those_that_wait_for_a_host_hold_nobody_up() -> None:
    """A check that waits gives its connection to the next, and gets one again in its turn (W41)."""
    turns = HostTurns(GAP_S, monotonic=time.monotonic)
    turns.allow(2)
    asking, most = 0, 0
    parked: list[int] = []
    turns.on_parked = lambda: parked.append(turns.parked)

    async def check(number: int) -> None:
        nonlocal asking, most
        with turns.active_check():
            for host in (f"h{number}.example", f"h{number}.example"):
                await turns.take(host)
                asking += 1
                most = max(most, asking)
                await asyncio.sleep(0.005)
                asking -= 1

    await asyncio.wait_for(asyncio.gather(*(check(number) for number in range(9))), 120)

    assert most == 2
    assert len(parked) == 9
    assert max(parked) > 2
    assert turns.ask_fewer() == turns.ask_fewer() == 1


async def test_a_cancelled_wait_for_a_connection_leaves_it_to_the_next() -> None:
    """Also when it was just granted."""
    turns = HostTurns(GAP_S, monotonic=time.monotonic)
    turns.allow(1)

    async def wait(host: str) -> None:
        with turns.active_check():
            await turns.take(host)

    with turns.active_check():
        await turns.take("a.example")
        first, second = (asyncio.create_task(wait(f"{name}.example")) for name in "bc")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    first.cancel()

    await asyncio.wait_for(second, 120)
    assert first.cancelled()


def test_a_gap_grows_with_429_and_shrinks_again() -> None:
    """Doubled each time up to a minute; halved after eight other answers (seed of W56)."""
    gaps = HostGaps(6.0)
    assert [(gaps.refused("a"), gaps.of("a")) for _ in range(5)] == [
        (False, 12.0),
        (False, 24.0),
        (False, 48.0),
        (False, 60.0),
        (True, 60.0),
    ]
    for _ in range(8):
        gaps.answered("a")
    assert (gaps.of("a"), gaps.of("b")) == (30.0, 6.0)
    gaps.decide(lambda url, _key: "0.5" if url == "https://b/" else "nonsense")
    assert (gaps.of("b"), gaps.of("c")) == (0.5, 6.0)
