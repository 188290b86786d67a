"""A visit is begun when memory suffices; one may always run."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.worker.backpressure import CALM_S, FIRST_VISIT_BYTES, GROWN_S, MemoryLimit, free_bytes
from net.backoff import WaitEnded, WaitStarted
from tests.support.clocks import ManualClock

MB = 1_000_000


@dataclass
class MemoryReadings:
    """Memory as a test wants it."""

    free: int | None = 10_000 * MB
    held: int = 0
    clock: ManualClock = field(default_factory=ManualClock)
    events: list[WaitStarted | WaitEnded] = field(default_factory=list)

    def room(self) -> MemoryLimit:
        """Return the limit that these readings give."""
        return MemoryLimit(
            lambda: self.free, lambda: self.held, reserve_bytes=500 * MB, clock=self.clock, report=self.events.append
        )


async def admitted(room: MemoryLimit, wanted: int) -> int:
    """Return how many of so many visits are begun when none ends."""
    stopping, begun = asyncio.Event(), 0

    async def work() -> None:
        nonlocal begun
        async with room.take(stopping):
            begun += not stopping.is_set()
            await stopping.wait()

    working = [asyncio.create_task(work()) for _ in range(wanted)]
    for _ in range(wanted + 2):
        await asyncio.sleep(0)
    stopping.set()
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)
    return begun


async def test_visits_begin_while_memory_suffices() -> None:
    """A visit that has begun but not grown yet counts as if it had."""
    machine = MemoryReadings(free=500 * MB + 3 * FIRST_VISIT_BYTES)

    assert await admitted(machine.room(), 8) == 3


async def test_one_visit_may_always_run() -> None:
    """A machine without memory goes slowly; it does not stand still."""
    assert await admitted(MemoryReadings(free=0).room(), 8) == 1


async def test_nobody_waits_where_memory_is_unknown() -> None:
    """A system that says nothing is believed to have enough."""
    assert await admitted(MemoryReadings(free=None).room(), 8) == 8


async def test_what_a_visit_needs_is_learned_and_fades() -> None:
    """Heavy pages make room scarcer at once, light ones more plentiful in time."""
    machine = MemoryReadings()
    room, stopping = machine.room(), asyncio.Event()
    machine.held = 900 * MB
    async with room.take(stopping):
        pass
    heavy = room.visit_bytes
    machine.held = 50 * MB
    for _ in range(300):
        async with room.take(stopping):
            pass

    assert heavy == 900 * MB
    assert 50 * MB <= room.visit_bytes < 120 * MB


async def test_a_shortage_is_told_once_and_its_end_once() -> None:
    """However many visits wait, and for however long."""
    machine = MemoryReadings()
    room, stopping = machine.room(), asyncio.Event()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(room.take(stopping))
        machine.free = 100 * MB
        waiting = [asyncio.create_task(_pass(room, stopping)) for _ in range(3)]
        for _ in range(5):
            await asyncio.sleep(0)
        machine.free = 10_000 * MB
    await asyncio.gather(*waiting)
    machine.clock.seconds += CALM_S + GROWN_S
    await _pass(room, stopping)
    await _pass(room, stopping)

    assert [type(event) for event in machine.events] == [WaitStarted, WaitEnded]
    assert machine.events[0].reason == "memory"


async def _pass(room: MemoryLimit, stopping: asyncio.Event) -> None:
    async with room.take(stopping):
        pass


async def test_who_waits_is_let_go_when_a_visit_ends() -> None:
    """Nobody waits for a look at the clock when he need not."""
    machine = MemoryReadings()
    room, stopping = machine.room(), asyncio.Event()
    async with room.take(stopping):
        machine.free = 0
        waiting = asyncio.create_task(_pass(room, stopping))
        await asyncio.sleep(0)
    await waiting


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Write the files of a system with 4 GB available, in a control group that has a parent."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "groups/slice/ours").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/slice/ours\n")
    return tmp_path


def limit(folder: Path, most: str, current: int, idle: int = 0) -> None:
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{current}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {idle}\n")


def free(system: Path) -> int | None:
    return free_bytes(system / "proc", system / "groups")


def test_a_machine_without_groups_has_what_it_has(system: Path) -> None:
    """MemAvailable is in kibibytes."""
    assert free(system) == 4_000_000 * 1024


def test_the_narrowest_group_counts(system: Path) -> None:
    """Of ours and those above it; pages of files that nobody uses are free."""
    limit(system / "groups/slice/ours", "max", 10)
    limit(system / "groups/slice", "3000", 2500, idle=400)

    assert free(system) == 900


def test_a_container_sees_its_group_as_the_root(system: Path) -> None:
    """The path that /proc tells is then not below the mount."""
    (system / "proc/self/cgroup").write_text("0::/\n")
    limit(system / "groups", "3000", 1000)

    assert free(system) == 2000


def test_a_group_over_its_limit_has_nothing(system: Path) -> None:
    """Never less than nothing."""
    limit(system / "groups/slice/ours", "10", 20)

    assert free(system) == 0


@given(text=st.text(max_size=80), path=st.text(max_size=40))
def test_nonsense_is_unknown_not_an_error(tmp_path_factory: pytest.TempPathFactory, text: str, path: str) -> None:
    """Whatever the files hold."""
    folder = tmp_path_factory.mktemp("system")
    (folder / "self").mkdir()
    (folder / "meminfo").write_text(text, errors="replace")
    (folder / "self/cgroup").write_text(f"0::{path}", errors="replace")

    assert free_bytes(folder, folder / "groups") is None or text.startswith("MemAvailable:")


def test_this_machine_says_what_it_has() -> None:
    """The real files are read."""
    assert (free_bytes() or 0) > 0
