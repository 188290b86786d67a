"""Background tasks of the console."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.layout import Layout
from tests.support.clocks import ShiftedClock
from tests.support.polling import wait_until
from weboid.console.background_tasks import BackgroundTasks

pytestmark = pytest.mark.slow  # tasks are commands, each a process
OVER = ("done", "failed", "stopped")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Create an empty collection and return its layout."""
    layout = Layout(tmp_path / "collection")
    layout.databases.mkdir(parents=True)
    return layout


@pytest.fixture
def tasks(layout: Layout) -> Iterator[BackgroundTasks]:
    with closing(BackgroundTasks(layout, SystemClock(), {})) as it:
        yield it


def ended(tasks: BackgroundTasks, number: int) -> dict[str, Any]:
    """Wait until the task is over and return it."""
    wait_until(lambda: (tasks.task(number) or {})["state"] in OVER)
    return tasks.task(number) or {}


def test_a_task_has_its_commands_result_or_error(tasks: BackgroundTasks) -> None:
    """The last line of its output, or the end of its errors."""
    good = tasks.queue("list", "ada", lambda _: ["login ls", "--json"])
    bad = tasks.queue("list", "ada", lambda _: ["login rm", "--", "none"])

    odd = tasks.queue("list", "ada", lambda _: ["login rm", "--", "a\0b"])

    assert "cannot run" in ended(tasks, odd["id"])["error"]
    assert ended(tasks, good["id"])["result"] == {"logins": []}
    assert "none" in ended(tasks, bad["id"])["error"]
    assert [each["state"] for each in tasks.tasks()] == ["failed", "failed", "done"]


def test_errors_name_no_passwords(tasks: BackgroundTasks, layout: Layout) -> None:
    """Of an address to import from."""
    layout.marker.write_text('version = 1\nname = "Library"\n')
    words = ["import", "--json", "--", "https://ada:geheim@127.0.0.1/x.warc"]
    error = ended(tasks, tasks.queue("import", "ada", lambda _: words)["id"])["error"]

    assert "127.0.0.1" in error
    assert "geheim" not in error


def test_one_of_two_consoles_runs_the_tasks(tasks: BackgroundTasks, layout: Layout) -> None:
    """The other one goes on when it has ended."""
    ended(tasks, tasks.queue("list", "ada", lambda _: ["login ls", "--json"])["id"])
    with closing(BackgroundTasks(layout, SystemClock(), {})) as other:
        number = other.queue("list", "ada", lambda _: ["login ls", "--json"])["id"]
        assert ended(other, number)["state"] == "done"  # by the first
        tasks.close()
        again = other.queue("list", "ada", lambda _: ["login ls", "--json"])["id"]
        assert ended(other, again)["state"] == "done"


def test_a_task_of_a_console_that_died_has_failed(layout: Layout) -> None:
    """And those that waited are run."""
    BackgroundTasks(layout, SystemClock(), {}).close()
    with closing(sqlite3.connect(layout.console_db)) as rows, rows:
        rows.executemany(
            "INSERT INTO tasks (kind, actor, command, state, added) VALUES ('list', 'ada', ?, ?, 0)",
            (('["login ls"]', "running"), ('["login ls", "--json"]', "queued")),
        )
    for number in (1, 2):
        (layout.root / "cache" / "tasks" / str(number)).mkdir(parents=True)
    with closing(BackgroundTasks(layout, SystemClock(), {})) as tasks:
        states = [ended(tasks, number)["state"] for number in (1, 2)]

        assert states == ["failed", "done"]
        assert "start the task again" in (tasks.task(1) or {})["error"]


def test_old_tasks_go_with_their_files(layout: Layout) -> None:
    """A week after their end."""
    clock = ShiftedClock()
    with closing(BackgroundTasks(layout, clock, {})) as tasks:
        old = tasks.queue("list", "ada", lambda _: ["login ls", "--json"])["id"]
        ended(tasks, old)
        clock.offset = timedelta(days=8)
        ended(tasks, tasks.queue("list", "ada", lambda _: ["login ls", "--json"])["id"])
        wait_until(lambda: tasks.task(old) is None)

        wait_until(lambda: not (layout.root / "cache" / "tasks" / str(old)).exists())


def test_runs_leave_the_collection_for_an_import(layout: Layout, tmp_path: Path) -> None:
    """They are stopped, the command gets the collection, and they begin again."""
    layout.marker.write_text('version = 1\nname = "Library"\n')
    (tmp_path / "bad.warc").write_bytes(b"WARC/1.0\r\n")
    lock = layout.lock.open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    stopped: list[bool] = []

    def stop_runs() -> None:
        stopped.append(True)
        lock.close()

    with closing(BackgroundTasks(layout, SystemClock(), {}, stop_runs, lambda: stopped.append(False))) as tasks:
        words = ["import", "--json", "--", str(tmp_path / "bad.warc")]
        done = ended(tasks, tasks.queue("import", "ada", lambda _: words, stops_runs=True)["id"])

    assert (stopped, done["state"], done["code"]) == ([True, False], "done", 1), done


def test_a_task_is_stopped_by_another_console_than_runs_it(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command ends, and the next task is run."""
    monkeypatch.setattr("weboid.console.background_tasks._ENDING_S", 0.5)
    layout.marker.write_text('version = 1\nname = "Library"\n')
    os.mkfifo(tmp_path / "endless.warc")
    with (
        closing(BackgroundTasks(layout, SystemClock(), {})) as tasks,
        closing(BackgroundTasks(layout, SystemClock(), {})) as other,
        os.fdopen(os.open(tmp_path / "endless.warc", os.O_RDWR)),  # without an end
    ):
        slow = tasks.queue("import", "ada", lambda _: ["import", "--", str(tmp_path / "endless.warc")])["id"]
        wait_until(lambda: (tasks.task(slow) or {})["state"] == "running")
        other.stop(slow)

        assert (other.task(slow) or {})["state"] in ("stopping", "stopped")
        assert ended(tasks, slow)["state"] == "stopped"
        assert ended(tasks, tasks.queue("list", "ada", lambda _: ["login ls", "--json"])["id"])["state"] == "done"
