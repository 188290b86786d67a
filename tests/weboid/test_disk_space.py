"""A disk that is nearly full: the run waits, says so, and goes on by itself (C-10)."""

import itertools
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.commands import WeboidRunner
from tests.support.stored_records import RULES, check

pytestmark = [pytest.mark.browser, pytest.mark.proxy]
MB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Put the collection on a file system of 64 MB, most of it taken by `filler`."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], check=True)
    (folder / "collection").mkdir()
    (tmp_path / "collection").symlink_to(folder / "collection")
    (folder / "filler").write_bytes(os.urandom(40 * MB))
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def weboid(weboid_with: Callable[..., WeboidRunner], small_disk: Path) -> WeboidRunner:
    """Return a runner whose disk reserve is larger than the free space."""
    assert small_disk.is_dir()
    return weboid_with(proxy={"disk_reserve_bytes": 30 * MB})


def start(weboid: WeboidRunner) -> "subprocess.Popen[str]":
    """Start a run of one page and return when it says that it waits."""
    profile = ("--profile", str(weboid.profile))
    process = weboid.start("archive", "--json", *profile, f"{RULES}/page/plain")
    assert process.stdout is not None
    events = (json.loads(line) for line in process.stdout)
    started, paused = itertools.islice((e for e in events if e["event"] != "progress"), 2)
    assert started["event"] == "started"
    assert (paused["event"], paused["reason"]) == ("paused", "disk")
    assert paused["free_bytes"] < 30 * MB < paused["wanted_bytes"]
    return process


def test_a_run_waits_for_space_and_goes_on_by_itself(weboid: WeboidRunner, small_disk: Path) -> None:
    """No page is begun below the reserve; as soon as there is space it is archived."""
    process = start(weboid)
    (small_disk / "filler").unlink()
    out, _ = process.communicate(timeout=120)
    all_events = [json.loads(line) for line in out.splitlines()]
    events = [event for event in all_events if event["event"] != "progress"]
    check(weboid.collection)

    assert process.returncode == 0
    assert [event["event"] for event in events] == ["resumed", "page", "summary"]
    assert (events[1]["outcome"], events[1]["attempts"]) == ("complete", 1)


def test_ctrl_c_ends_a_run_that_waits_for_space(weboid: WeboidRunner) -> None:
    """It stops as any run does; what was not begun is left."""
    process = start(weboid)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    summary = json.loads(out.splitlines()[-1])

    assert process.returncode == 6
    assert (summary["left"], summary["stopped"]) == (1, True)


def test_a_run_that_shall_not_wait_ends_and_loses_nothing(weboid: WeboidRunner, small_disk: Path) -> None:
    """`--no-wait`: the exit code says so; the same command goes on when there is space."""
    full = weboid.archive("--no-wait", f"{RULES}/page/plain")
    (small_disk / "filler").unlink()
    roomy = weboid.archive("--no-wait", f"{RULES}/page/plain")

    assert full.code == 4
    assert "free some space" in full.err
    assert roomy.code == 0
    assert roomy.pages[f"{RULES}/page/plain"]["outcome"] == "complete"


def test_a_full_disk_is_told_in_one_line(weboid_with: Callable[..., WeboidRunner], small_disk: Path) -> None:
    """Without a reserve the writes themselves fail: the run ends with its own exit code, no traceback."""
    weboid = weboid_with(proxy={"disk_reserve_bytes": 0, "disk_wait_s": 0})
    free = os.statvfs(small_disk)
    with (small_disk / "more").open("wb") as more:
        more.write(os.urandom(free.f_bavail * free.f_bsize - 2 * MB))
    ran = weboid.archive(*(f"{RULES}/page/plain?{number}" for number in range(60)))

    assert ran.code == 4
    assert "Traceback" not in ran.err
    (line,) = [line for line in ran.err.splitlines() if line.startswith("weboid: ")]
    assert "disk" in line or "full" in line
