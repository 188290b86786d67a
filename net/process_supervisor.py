"""Process supervisor: starts several commands, restarts those that end, stops them all.

A command runs permanently, restarted with growing delays, or at intervals. If the supervisor dies, the kernel ends its
children (`setpriv --pdeathsig`).
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from core.clock import Clock
from core.errors import UnavailableError
from net.stop_signals import wait_for_any

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
STEADY_S = 60.0  # who lived for so long is started again at once
LINE_LIMIT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ManagedProcess:
    """Command run by the supervisor."""

    name: str  # prefix of its output lines
    command: tuple[str, ...]
    every_s: float = 0.0  # delay from its end to the next run; 0: permanent
    first_s: float = 0.0  # delay of its first start


@dataclass(frozen=True, slots=True)
class ProcessOutput:
    """Line of output of a process."""

    part: str
    line: str


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """End of a permanent process, or failure of a periodic one."""

    part: str
    code: int  # its exit code; below zero: the signal that ended it
    again_s: float


class ProcessSupervisor:
    """Supervisor of processes until it is stopped."""

    def __init__(
        self,
        parts: Sequence[ManagedProcess],
        *,
        clock: Clock,
        report: Callable[[ProcessOutput | ProcessExit], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Store the processes, and additions to their environment, such as secrets."""
        self._parts = parts
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        self._clock = clock
        self._report = report
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def run(self, stopping: asyncio.Event) -> None:
        """Run all processes until `stopping` is set; a cancellation aborts their work. Raises UnavailableError."""
        keeping = [asyncio.create_task(self._keep(part, stopping)) for part in self._parts]
        if not keeping:
            await stopping.wait()
            return
        ending = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait([ending, *keeping], return_when=asyncio.FIRST_COMPLETED)
            stopping.set()
            self._terminate()
            await asyncio.gather(*keeping)
        except asyncio.CancelledError:
            self._terminate()
            raise
        finally:
            ending.cancel()
            stopping.set()
            self._terminate()
            _, left = await asyncio.wait(keeping, timeout=LONGEST_PAUSE_S)
            for process in self._running.values():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            if left:
                await asyncio.wait(left)

    def _terminate(self) -> None:
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()

    async def _keep(self, part: ManagedProcess, stopping: asyncio.Event) -> None:
        pause_s = FIRST_PAUSE_S
        if await wait_for_any(stopping, timeout_s=part.first_s):
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
            if await wait_for_any(stopping, timeout_s=pause_s):
                return
            if not part.every_s:
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _once(self, part: ManagedProcess) -> int:
        """Run it once, forward its output, and return its exit code."""
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
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:  # longer than anybody would read
                    continue
                if not line:
                    return await process.wait()
                text = line.decode("utf-8", "replace").rstrip()
                if text:
                    self._report(ProcessOutput(part.name, text))
        finally:
            del self._running[part.name]


def describe_exit(code: int) -> str:
    """Format an exit code for display."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
