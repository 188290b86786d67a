"""CPU seconds by role, and by the step of a visit that they were spent in.

A process tree's time is what its living processes used and what those that ended left to whoever
reaped them, so nothing is lost when a renderer ends between two readings.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

from render.settle import VisitSteps

ROLES = ("worker", "browser", "proxy")
AROUND = "between"  # what belongs to no step: claims, records, the index, the manifest


def used() -> dict[str, float]:
    """Return the CPU seconds so far: of this process, of its browsers, and of its proxies.

    Other children, such as the web that is visited, are left out.
    """
    seconds = dict.fromkeys(ROLES, 0.0)
    seconds["worker"] = time.process_time()
    roots: dict[int, str] = {}
    own = os.getpid()
    for child in psutil.Process(own).children(recursive=True):
        try:
            parent = child.ppid()
            role = _role(child) if parent == own else roots.get(parent, "")
            if not role:
                continue
            roots[child.pid] = role
            spent = child.cpu_times()
        except psutil.Error:
            continue  # it ended meanwhile, and is in its parent's sum
        seconds[role] += spent.user + spent.system
        if role == "browser":
            seconds[role] += spent.children_user + spent.children_system
    return seconds


def _role(child: psutil.Process) -> str:
    command = child.cmdline()
    if command[1:3] == ["-m", "proxy"]:
        return "proxy"
    is_driver = "run-driver" in command  # Playwright's, whose child the browser is
    is_browser = any(part.startswith("--user-data-dir") for part in command)
    return "browser" if is_driver or is_browser else ""


def since(before: Mapping[str, float]) -> dict[str, float]:
    """Return the CPU seconds by role since a reading."""
    now = used()
    return {role: max(now[role] - before[role], 0.0) for role in ROLES}


@dataclass(slots=True)
class CpuMeter:
    """CPU seconds by step and role, of visits that are made one at a time.

    Attributes:
        steps: the seconds, summed over the visits.
        visits: how many.
    """

    steps: dict[str, dict[str, float]] = field(default_factory=dict)
    visits: int = 0
    _own: float = 0.0
    _last: dict[str, float] = field(default_factory=lambda: dict.fromkeys(ROLES, 0.0))
    _step: str = AROUND

    def begin(self) -> None:
        """Start measuring: what was used up to now does not count."""
        self._read()

    def turn(self, step: str) -> str:
        """Attribute the time from now on to `step`; return the step before it."""
        last, now = self._last, self._read()
        sums = self.steps.setdefault(self._step, defaultdict(float))
        for role in ROLES:
            sums[role] += max(now[role] - last[role], 0.0)
        before, self._step = self._step, step
        return before

    def per_page(self, step: str, role: str) -> float:
        """Return the milliseconds a visit."""
        return self.steps.get(step, {}).get(role, 0.0) / max(self.visits, 1) * 1000

    def _read(self) -> dict[str, float]:
        """Return the CPU seconds by role, without what the readings themselves cost."""
        began = time.process_time()
        self._last = used()
        self._last["worker"] = began - self._own
        self._own += time.process_time() - began
        return self._last


def metered(meter: CpuMeter) -> type[VisitSteps]:
    """Return a kind of `VisitSteps` that reports each step to `meter`, which has begun."""

    class MeteredSteps(VisitSteps):
        @contextmanager
        def step(self, name: str) -> Iterator[None]:
            outer = meter.turn(name)
            try:
                with super().step(name):
                    yield
            finally:
                meter.turn(outer)

    return MeteredSteps
