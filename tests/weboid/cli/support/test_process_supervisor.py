"""Several commands under one roof."""

import asyncio
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from core.clock import SystemClock
from weboid.cli.support.child_commands import ManagedProcess, ProcessExit, ProcessOutput, ProcessSupervisor

STAYS = "import signal, time\nprint('here', flush=True)\nsignal.pause()"


def python(text: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", text)


class ReportListener:
    """Hears what is reported, and stops the household when it has heard enough."""

    def __init__(self, enough: int) -> None:
        self.events: list[ProcessOutput | ProcessExit] = []
        self.stopping = asyncio.Event()
        self._enough = enough

    def __call__(self, event: ProcessOutput | ProcessExit) -> None:
        """Record the event; stop after enough of them."""
        self.events.append(event)
        if len(self.events) >= self._enough:
            self.stopping.set()


async def test_what_parts_say_is_passed_on_with_their_names() -> None:
    """Each line, from whichever of its two streams."""
    ear = ReportListener(2)
    text = "import sys\nprint('one', file=sys.stderr)\n" + STAYS
    await ProcessSupervisor([ManagedProcess("a", python(text))], clock=SystemClock(), report=ear).run(ear.stopping)
    assert ear.events == [ProcessOutput("a", "one"), ProcessOutput("a", "here")]


@pytest.mark.slow
async def test_a_part_that_dies_is_started_again() -> None:
    """It is told why, and the others do not notice."""
    ear = ReportListener(4)
    parts = [ManagedProcess("ends", python("raise SystemExit(3)")), ManagedProcess("stays", python(STAYS))]
    await ProcessSupervisor(parts, clock=SystemClock(), report=ear).run(ear.stopping)
    ends = [event for event in ear.events if isinstance(event, ProcessExit)]
    assert [(each.part, each.code) for each in ends[:2]] == [("ends", 3), ("ends", 3)]
    assert ends[0].again_s < ends[1].again_s
    assert ear.events.count(ProcessOutput("stays", "here")) == 1


@pytest.mark.slow
async def test_a_part_that_is_held_is_not_started_again() -> None:
    """Not before it is held no more; its first start does not ask."""
    ear, answers = ReportListener(3), [True, True, False]
    part = ManagedProcess("a", python("print('here')"), is_held=lambda: answers.pop(0))
    await ProcessSupervisor([part], clock=SystemClock(), report=ear).run(ear.stopping)

    assert [type(event) for event in ear.events] == [ProcessOutput, ProcessExit, ProcessOutput]
    assert answers == []


async def test_a_part_that_comes_again_is_not_told_of_when_it_did_well() -> None:
    """Only what it says."""
    ear = ReportListener(2)
    part = ManagedProcess("daily", python("print('done')"), every_s=0.01)
    await ProcessSupervisor([part], clock=SystemClock(), report=ear).run(ear.stopping)
    assert ear.events == [ProcessOutput("daily", "done")] * 2


async def test_nobody_is_left_behind() -> None:
    """After the end no process of a part lives, though one of them ignores what it is told."""
    ear = ReportListener(2)
    deaf = (
        "import signal, os\nsignal.signal(15, lambda *_: None)\nprint(os.getpid(), flush=True)\nwhile 1: signal.pause()"
    )
    mild = "import signal, os\nprint(os.getpid(), flush=True)\nsignal.pause()"
    parts = [ManagedProcess("deaf", python(deaf)), ManagedProcess("mild", python(mild))]
    task = asyncio.create_task(ProcessSupervisor(parts, clock=SystemClock(), report=ear).run(ear.stopping))
    await ear.stopping.wait()
    pids = [int(event.line) for event in ear.events if isinstance(event, ProcessOutput)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weboid.cli.support.child_commands.LONGEST_PAUSE_S", 0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_parts_end_with_their_parent() -> None:
    """Also when it is killed."""
    program = f"""
import asyncio, os
from core.clock import SystemClock
from weboid.cli.support.child_commands import ProcessSupervisor, ManagedProcess
part = ManagedProcess("a", ({sys.executable!r}, "-S", "-c", "import os, signal; print(os.getpid(), flush=True); signal.pause()"))
async def main():
    await ProcessSupervisor([part], clock=SystemClock(), report=lambda said: print(said.line, flush=True)).run(asyncio.Event())
asyncio.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    child = os.pidfd_open(pid)
    try:
        parent.kill()
        parent.wait()
        # A descriptor of a process can be read when it has ended.
        assert select.select([child], [], [], 60)[0]
    finally:
        os.close(child)
        parent.stdout.close()
