"""Browsers killed, again and again: what is left of them.

Each round starts a browser, opens a page in it, kills one of its processes, the first, a renderer or
any other in turn, and closes it; in every tenth round all of it is stopped first. ``zombies``,
``orphans``: processes of any of them that are still there in the end, ended and not reaped, or
alive. ``folders``: temporary folders. ``descriptors``: more open ones than in the beginning.
``rss_mb``: what the worker's own memory grew by.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from dataclasses import dataclass, field

import psutil

from bench import report
from core.clock import SystemClock
from core.config.settings import BrowserSettings
from core.errors import TransientError
from render.browser import Browser
from render.chromium import PageOptions, find_browser
from render.page import open_page
from warc.local_storage import ScratchKind

CLOCK = SystemClock()
OPTIONS = PageOptions(800, 600, "bench", "en", "1")
SEEN_S = 5.0


@dataclass(slots=True)
class ProcessSurvivors:
    """Processes that are alive, by number and start time, so that a number used again is another's."""

    seen: set[psutil.Process] = field(default_factory=set)

    def note(self, session: int) -> list[psutil.Process]:
        """Record the processes of a browser's session, and return them."""
        processes = []
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.Error):
                if os.getsid(pid) == session:
                    processes.append(psutil.Process(pid))
        self.seen |= set(processes)
        return processes

    def left(self) -> tuple[int, int]:
        """Return (zombies, orphans), once everything had up to `SEEN_S` seconds to end."""
        psutil.wait_procs(self.seen, timeout=SEEN_S)
        states = []
        for each in self.seen:
            with contextlib.suppress(psutil.Error):
                if each.is_running():
                    states.append(each.status())
        zombies = states.count(psutil.STATUS_ZOMBIE)
        return zombies, len(states) - zombies


async def kill(toll: ProcessSurvivors, number: int) -> None:
    """Run one round: start a browser, kill one process or, every tenth round, suspend all; close it."""
    browser = await Browser.launch(BrowserSettings(), find_browser(), clock=CLOCK)
    try:
        with contextlib.suppress(TransientError):
            async with browser.context() as context:
                await open_page(context, None, OPTIONS, CLOCK)
                family = toll.note(browser.pid)
                if number % 10 == 9:
                    for each in family:
                        each.suspend()
                    return
                family[number % len(family)].send_signal(signal.SIGKILL)
    finally:
        await browser.close()


async def main() -> None:
    """Run, print, tell."""
    parser = report.parser(__doc__ or "")
    parser.add_argument("--rounds", type=int, help="1,000, or 30 with --quick")
    arguments = parser.parse_args()
    rounds = arguments.rounds or (30 if arguments.quick else 1_000)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        tempfile.tempdir = folder  # other browsers of this machine are not ours to count
        await swing(rounds)
        tempfile.tempdir = None


async def swing(rounds: int) -> None:
    """Kill so many browsers."""
    toll, own = ProcessSurvivors(), psutil.Process()
    await kill(toll, 0)
    descriptors, memory, began = own.num_fds(), own.memory_info().rss, time.perf_counter()
    for number in range(rounds):
        await kill(toll, number)
    took = time.perf_counter() - began
    zombies, orphans = toll.left()
    figures: dict[str, float] = {
        "rounds": rounds,
        "processes": len(toll.seen),
        "zombies": zombies,
        "orphans": orphans,
        "folders": len(list(Path(tempfile.gettempdir()).glob(f"{ScratchKind.BROWSER}*"))),
        "descriptors": own.num_fds() - descriptors,
        "rss_mb": (own.memory_info().rss - memory) / 1e6,
    }
    rows = [("browsers killed", f"{rounds}", f"{took:.0f} s", "wanted")]
    rows += [(name, f"{value:.0f}", "", "") for name, value in figures.items() if name != "rounds"]
    report.table(rows)
    report.figures("zombies", figures)


if __name__ == "__main__":
    asyncio.run(main())
