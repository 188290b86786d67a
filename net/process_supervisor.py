"""Process supervisor: starts several commands, restarts those that end, stops them all.

Each part is a process of its own, so that one that dies or hangs takes nobody with it, and so that the
same commands can be run on several machines instead. A part stays, or is run again some time after it
has ended. One that stays and ends is started again, sooner at first, later when it goes on ending.
Should we die, the kernel ends our children (`setpriv --pdeathsig`).
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from core.clock import Clock
from core.errors import UnavailableError

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
STEADY_S = 60.0  # who lived for so long is started again at once
LINE_LIMIT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ManagedProcess:
    """A command of the household.

    Attributes:
        name: what people see before its lines.
        command: the program and its arguments.
        every_s: run again so long after it has ended; 0: it stays.
        first_s: its first start comes so late.
    """

    name: str
    command: tuple[str, ...]
    every_s: float = 0.0
    first_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ProcessOutput:
    """A line that a part wrote."""

    part: str
    line: str


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """A part that stays has ended, or one that comes again has failed.

    Attributes:
        code: its exit code; below zero: the signal that ended it.
        again_s: it is started again after so long.
    """

    part: str
    code: int
    again_s: float


class ProcessSupervisor:
    """Runs parts until it is told to stop."""

    def __init__(
        self,
        parts: Sequence[ManagedProcess],
        *,
        clock: Clock,
        report: Callable[[ProcessOutput | ProcessExit], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Take the parts, and what their environment has beside ours: what others need not see."""
        self._parts = parts
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        self._clock = clock
        self._report = report
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def run(self, stopping: asyncio.Event) -> None:
        """Run all parts; after `stopping` is set they are told so, and waited for.

        A cancellation tells them a second time, which ends what they have begun.

        Raises:
            UnavailableError: no process can be started.
        """
        keeping = [asyncio.create_task(self._keep(part, stopping)) for part in self._parts]
        if not keeping:
            await stopping.wait()
            return
        ending = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait([ending, *keeping], return_when=asyncio.FIRST_COMPLETED)
            stopping.set()
            self._tell()
            await asyncio.gather(*keeping)
        except asyncio.CancelledError:
            self._tell()
            raise
        finally:
            ending.cancel()
            stopping.set()
            self._tell()
            _, left = await asyncio.wait(keeping, timeout=LONGEST_PAUSE_S)
            for process in self._running.values():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            if left:
                await asyncio.wait(left)

    def _tell(self) -> None:
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()

    async def _keep(self, part: ManagedProcess, stopping: asyncio.Event) -> None:
        pause_s = FIRST_PAUSE_S
        if await _paused(part.first_s, stopping):
            return
        while not stopping.is_set():
            begun = self._clock.monotonic()
            code = await self._once(part)
            if stopping.is_set():
                return
            if part.every_s:
                pause_s = part.every_s
            elif self._clock.monotonic() - begun >= STEADY_S:
                pause_s = FIRST_PAUSE_S
            if code or not part.every_s:
                self._report(ProcessExit(part.name, code, pause_s))
            if await _paused(pause_s, stopping):
                return
            if not part.every_s:
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _once(self, part: ManagedProcess) -> int:
        """Start it and pass on what it says; its exit code."""
        try:
            process = await asyncio.create_subprocess_exec(
                *("setpriv", "--pdeathsig", "TERM", *part.command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=LINE_LIMIT_BYTES,
                start_new_session=True,  # a terminal's Ctrl-C is ours to pass on
                env=self._environment,
            )
        except OSError as error:
            raise UnavailableError(f"{part.name} cannot be started: {error}.") from error
        self._running[part.name] = process
        try:
            assert process.stdout is not None
            await self._pass_on(part.name, process.stdout)
            return await process.wait()
        finally:
            del self._running[part.name]

    async def _pass_on(self, name: str, lines: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await lines.readline()
            except ValueError:  # longer than anybody would read
                continue
            if not line:
                return
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                self._report(ProcessOutput(name, text))


async def _paused(seconds: float, stopping: asyncio.Event) -> bool:
    """Whether it was told to stop before the time had passed."""
    try:
        await asyncio.wait_for(stopping.wait(), seconds)
    except TimeoutError:
        return False
    return True


def describe_exit(code: int) -> str:
    """An exit code, for people."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
