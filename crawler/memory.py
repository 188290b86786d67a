"""How much memory is left: of the machine, and of each control group that we are in."""

import contextlib
from pathlib import Path

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")


def free_bytes(proc: Path = PROC, groups: Path = GROUPS) -> int | None:
    """Memory that can be had before somebody is killed for it; None where the system does not say.

    The least of what the machine has (MemAvailable, proc(5)) and of what each control group above us
    allows (cgroup v2: memory.max less memory.current, to which its idle file pages are added: they
    are given back first).

    Args:
        proc: where the system tells of itself.
        groups: where control groups are mounted.
    """
    known = [_machine(proc), *(_group(folder) for folder in _folders(proc, groups))]
    return min((each for each in known if each is not None), default=None)


def _machine(proc: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _folders(proc: Path, groups: Path) -> list[Path]:
    """Our control group's folder and those above it; in a container ours is often all we see."""
    with contextlib.suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            hierarchy, _, path = line.partition("::")
            if hierarchy == "0" and ".." not in path:
                own = groups / path.strip("/")
                return [own, *(each for each in own.parents if each.is_relative_to(groups))]
    return []


def _group(folder: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        limit = (folder / "memory.max").read_text().strip()
        if limit != "max":
            current = int((folder / "memory.current").read_text())
            return max(0, int(limit) - current + _idle(folder))
    return None


def _idle(folder: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            if line.startswith("inactive_file "):
                return int(line.split()[1])
    return 0
