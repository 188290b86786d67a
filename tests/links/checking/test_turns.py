"""Turns at hosts."""

import asyncio
import itertools
import time

import pytest

from links.checking.turns import HostTurns

GAP_S = 0.03


async def test_no_host_is_asked_closer_than_its_gap() -> None:
    """The gap begins when the request before it is over, however many wait."""
    turns = HostTurns(GAP_S, monotonic=time.monotonic)
    spans: list[tuple[float, float]] = []

    async def look() -> None:
        with turns.look():
            for _ in range(2):
                await turns.take("a.example")
                began = time.monotonic()
                await asyncio.sleep(0.002)
                spans.append((began, time.monotonic()))

    await asyncio.gather(*(look() for _ in range(5)))

    spans.sort()
    assert len(spans) == 10
    # A look lets go a moment after its request was over, so its gap is longer, never shorter.
    assert all(after[0] - before[1] >= GAP_S for before, after in itertools.pairwise(spans))


async def test_other_hosts_do_not_wait() -> None:
    """A taken host holds up nobody else."""
    turns = HostTurns(3600.0, monotonic=time.monotonic)

    with turns.look():
        await turns.take("a.example")

        async def other() -> None:
            with turns.look():
                await turns.take("b.example")

        await asyncio.wait_for(asyncio.create_task(other()), 30)


async def test_looks_that_cross_do_not_wait_for_each_other() -> None:
    """Each is led to the other's host: whoever waits has let go before."""
    turns = HostTurns(GAP_S, monotonic=time.monotonic)
    met = asyncio.Barrier(2)

    async def look(first: str, second: str) -> None:
        with turns.look():
            await turns.take(first)
            await met.wait()
            await turns.take(second)

    await asyncio.wait_for(
        asyncio.gather(look("a.example", "b.example"), look("b.example", "a.example")), 30
    )


async def test_a_look_that_would_wait_too_long_is_ended() -> None:
    """And it knows why; the one that had the host has it still."""
    turns = HostTurns(10.0, monotonic=time.monotonic, longest_wait_s=5.0)
    crowded: list[bool] = []

    async def late() -> None:
        with turns.look() as look:
            try:
                await turns.take("a.example")
            finally:
                crowded.append(look.is_crowded)

    with turns.look():
        await turns.take("a.example")
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(late())

    assert crowded == [True]


async def test_closing_ends_those_that_wait() -> None:
    """What has its turn goes on."""
    turns = HostTurns(100.0, monotonic=time.monotonic)
    began = asyncio.Event()

    async def waiting() -> None:
        with turns.look():
            began.set()
            await turns.take("a.example")

    with turns.look() as first:
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
        with turns.look():
            await turns.take("a.example")

    with turns.look():
        await turns.take("a.example")
        first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
    first.cancel()  # it has the host now, and waits for the gap

    await asyncio.wait_for(second, 30)
    assert first.cancelled()
