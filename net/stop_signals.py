"""Stop signals: the first SIGINT or SIGTERM stops gently, the second at once."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Handler of SIGINT and SIGTERM: the first stops gently, the second at once."""

    def __init__(self, on_stop: Callable[[], None]) -> None:
        self.event = asyncio.Event()  # set by the first signal
        self.at_once = False  # there was a second signal
        self._on_stop = on_stop

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self.listen()
        return self

    def listen(self) -> None:
        """Install the handlers, replacing existing ones."""
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._signalled)

    def __exit__(self, *_: object) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _signalled(self) -> None:
        if not self.event.is_set():
            self.event.set()
            self._on_stop()
        else:
            self.hurry()

    @contextmanager
    def cut_short(self) -> Iterator[None]:
        """Run a block that the second signal may end early; other cancellations propagate."""
        try:
            yield
        except asyncio.CancelledError:
            if not self.at_once or self._task is None:
                raise
            self._task.uncancel()

    def hurry(self) -> None:
        """Act as on a second signal."""
        if not self.at_once and self._task is not None:
            self.at_once = True
            self._task.cancel()


async def wait_for_any(*events: asyncio.Event, timeout_s: float) -> bool:
    """Wait at most this long until one of the events is set; return True when one is."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    return bool(done)


def first_error(group: BaseException) -> BaseException:
    """Return the first error of a group: the others are its consequences."""
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


async def wait_unless_stopped(length: timedelta) -> bool:
    """Wait for that time; return False when a stop was requested."""
    with StopSignals(lambda: None) as stop:
        try:
            await asyncio.wait_for(stop.event.wait(), length.total_seconds())
        except TimeoutError:
            return True
    return False
