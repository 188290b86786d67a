"""Processes that let all others go first: what looks at copies beside a crawl takes what the crawl leaves.

Where the system does not tell a process's children, or does not allow it, nothing changes.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

NICENESS = 15  # of 19; at equal load such a process gets a thirtieth of what others get


def give_way(pid: int) -> None:
    """Let the process, and all that it has started, go behind the others; what it starts follows."""
    for each in family(pid):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, each, NICENESS)


def family(pid: int) -> Iterator[int]:
    """The process, and all that descend from it, as of now."""
    yield pid
    for child in _children(pid):
        yield from family(child)


def children_named(pid: int, word: str) -> list[int]:
    """Children of the process that have the word in their command line."""
    found = []
    for child in _children(pid):
        with suppress(OSError):
            if word.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found
