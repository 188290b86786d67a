"""Extensions of a crawl let the crawl go first."""

import os
import subprocess
import sys

import psutil

from weboid.app.collection_repair import NICENESS, lower_priority

# A child with a child of its own; each says that it is there.
_PARENT = (
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c',"
    " 'import sys; print(1, flush=True); sys.stdin.read()']); child.wait()"
)


def test_a_process_and_its_children_go_behind_the_others() -> None:
    """Ours, which started them, does not; a process that is gone is passed over."""
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        lower_priority(process.pid)

        (child,) = psutil.Process(process.pid).children()
        members = (process.pid, child.pid)
        assert [os.getpriority(os.PRIO_PROCESS, each) for each in members] == [NICENESS] * 2
        assert os.getpriority(os.PRIO_PROCESS, 0) == ours
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    lower_priority(process.pid)
