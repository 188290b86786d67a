"""The processes of replay: started, watched, started again when they die, ended.

They accept from one listening socket, which they inherit: whoever is free takes the next connection,
and while one is started again the others answer on the same port.
"""

import asyncio
import json
import logging
import os
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.errors import UnavailableError

_LOG = logging.getLogger(__name__)

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
_RESTART_DELAY_S = 1.0  # before the first new start; then longer each time
_START_ATTEMPTS = 5
_MOST_WORKERS = 4


def default_workers() -> int:
    """A process of replay for each core, and four at most: each holds a cache of its own."""
    return min(len(os.sched_getaffinity(0)), _MOST_WORKERS)


class _Replay:
    """One process of replay: started, watched, started again when it dies."""

    def __init__(self, command: list[str], listener: socket.socket, more: dict[str, str]) -> None:
        self._command = [*command, "--listen-fd", str(listener.fileno())]
        self._listener = listener
        self._environment = {**os.environ, **more}
        self._process: Process | None = None

    async def start(self) -> None:
        """Start the process and wait until it answers.

        Raises:
            UnavailableError: it ended or said nothing.
        """
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            env=self._environment,
            pass_fds=[self._listener.fileno()],
        )
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _START_TIMEOUT_S)
            json.loads(line)["ready"]
        except (TimeoutError, ValueError, KeyError) as error:
            await self.stop()
            raise UnavailableError("Replay did not start; its own message says why.") from error

    async def stop(self) -> None:
        """Close its stdin, upon which it ends; kill it if it does not."""
        process = self._process
        if process is None:
            return
        self._process = None
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def keep_running(self) -> None:
        """Start it again whenever it dies; never returns."""
        while True:
            assert self._process is not None
            code = await self._process.wait()
            _LOG.error("playback.replay_died: code=%s", code)
            await self._start_again()

    async def _start_again(self) -> None:
        for attempt in range(1, _START_ATTEMPTS + 1):
            await asyncio.sleep(_RESTART_DELAY_S * attempt)
            try:
                return await self.start()
            except UnavailableError:
                if attempt == _START_ATTEMPTS:
                    raise
        return None


class Replays:
    """All processes of replay, on one listening socket."""

    def __init__(self, workers: list[_Replay]) -> None:
        self._workers = workers

    async def start(self) -> None:
        """Start them and wait until all answer.

        Raises:
            UnavailableError: one does not start.
        """
        await asyncio.gather(*(each.start() for each in self._workers))

    async def stop(self) -> None:
        """End them."""
        await asyncio.gather(*(each.stop() for each in self._workers))

    async def keep_running(self) -> None:
        """Start again whichever dies; ends only by an error."""
        tasks = [asyncio.create_task(each.keep_running()) for each in self._workers]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def running_replay(
    command: list[str], listener: socket.socket, more: dict[str, str], workers: int
) -> AsyncIterator[Replays]:
    """So many processes of replay until the end of the block; then all have ended.

    Args:
        command: starts one; ``--listen-fd`` is added.
        listener: what they accept from; it stays the caller's.
        more: variables that their environment has beside ours.
        workers: how many there are.

    Raises:
        UnavailableError: one does not start.
    """
    replay = Replays([_Replay(command, listener, more) for _ in range(workers)])
    try:
        await replay.start()
        yield replay
    finally:
        await replay.stop()
