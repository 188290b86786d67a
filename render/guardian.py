"""Watchdog program of one browser: kills its process group when the worker is gone.

It reads heartbeats of a browser that answers from a pipe whose other end only the worker holds. When they stop, or the
pipe closes, every process of the browser's session is killed; after the worker's death its folder is removed, too. A
renderer process that exceeds the memory limit is killed alone. Each action is reported as a line on standard output.

Run as a file with ``python -I -S``: it imports only small modules of the standard library.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

POLL_S = 0.25  # memory fills by a gigabyte a second, or two
SEARCH_S = 1.0  # new processes are searched for: to look through all of the machine's costs ten times as much
# A pause of the guardian itself, as in a paused container, is no evidence of a hang.
ASLEEP_S = 5.0
KILL_ROUNDS = 40
KILL_PAUSE_S = 0.05


def session_processes(session: int, *, zombies: bool = False) -> Iterator[int]:
    """Yield the processes of the session, its leader included."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):  # noqa: PTH208
        try:
            if os.getsid(pid) != session:
                continue
            if not zombies and Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] == b"Z":
                continue
        except OSError:  # it has ended
            continue
        yield pid


def kill_session(session: int) -> bool:
    """Kill all processes of the session, stopped and new ones too; return whether none is left."""
    for _ in range(KILL_ROUNDS):
        left = list(session_processes(session))
        if not left:
            return True
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        select.select([], [], [], KILL_PAUSE_S)
    return False


def own_bytes(pid: int) -> int:
    """Return the private memory of a process in bytes: resident and not shared."""
    _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_bytes().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def is_of_kind(pid: int, kind: str) -> bool:
    """Return whether it is such a process of Chromium's; renderers rewrite their arguments, separated by blanks."""
    return f"--type={kind}".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()


def watch(session: int, folder: str, silence_limit_s: float, memory_limit_bytes: int) -> None:
    """Watch the browser until the worker is gone; on a clean exit the worker ends this process."""
    heartbeat: float | None = None
    looked = time.monotonic()
    searched, pids = -SEARCH_S, list[int]()
    while True:
        ready, _, _ = select.select([0], [], [], POLL_S)
        now = time.monotonic()
        if ready:
            if not os.read(0, 4096):
                kill_session(session)
                rmtree(folder, ignore_errors=True)
                return
            heartbeat = now
        if heartbeat is not None and now - looked > ASLEEP_S:
            heartbeat = now
        looked = now
        if heartbeat is not None and now - heartbeat > silence_limit_s:
            _report(f"hung {now - heartbeat:.0f}")
            kill_session(session)
            heartbeat = None
        if now - searched >= SEARCH_S:
            searched, pids = now, list(session_processes(session, zombies=True))
        for pid in pids:
            with contextlib.suppress(OSError, ValueError, IndexError):
                if own_bytes(pid) > memory_limit_bytes and is_of_kind(pid, "renderer") and os.getsid(pid) == session:
                    os.kill(pid, signal.SIGKILL)
                    _report(f"memory {pid}")


def _report(line: str) -> None:
    # The pipe holds thousands of lines; without a reader they can be dropped.
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
