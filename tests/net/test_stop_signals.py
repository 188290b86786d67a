"""Stop signals of a process: the first stops gently, the second cancels."""

import asyncio
import os
import signal

import pytest

from net.stop_signals import StopSignals, first_error, wait_for_any


async def signalled(signals: StopSignals) -> None:
    """Send SIGTERM to this process, and wait until it was handled."""
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(signals.event.wait(), 120)


async def test_the_first_signal_sets_the_event_and_reports_once() -> None:
    """Nothing is cancelled."""
    reports: list[str] = []
    with StopSignals(lambda: reports.append("stopping")) as signals:
        await signalled(signals)
    assert (reports, signals.at_once) == (["stopping"], False)


async def test_the_second_signal_ends_a_block_early() -> None:
    """The task goes on after the block."""
    with StopSignals(lambda: None) as signals:
        await signalled(signals)
        with signals.cut_short():
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(30)
        assert signals.at_once
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancellation_from_elsewhere_leaves_the_block() -> None:
    """Only the second signal is handled."""
    begun = asyncio.Event()

    async def work() -> None:
        with StopSignals(lambda: None) as signals, signals.cut_short():
            begun.set()
            await asyncio.sleep(30)

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_waiting_ends_with_the_first_event_or_the_time() -> None:
    """The result says which."""
    first, second = asyncio.Event(), asyncio.Event()
    assert not await wait_for_any(first, second, timeout_s=0.01)
    second.set()
    assert await wait_for_any(first, second, timeout_s=30)


def test_the_first_error_of_nested_groups_is_the_cause() -> None:
    """The others are its consequences."""
    cause = ValueError("cause")
    group = BaseExceptionGroup("outer", [BaseExceptionGroup("inner", [cause]), KeyError("later")])
    assert first_error(group) is cause
