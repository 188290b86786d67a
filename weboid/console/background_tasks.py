"""Background tasks of the console: commands of Weboid as child processes, one after the other, with state and files.

Tasks are rows of `db/console.sqlite`; each has a folder in `cache/tasks`, which is removed with its row a week after its
end. Of several consoles of a collection one runs the tasks. A task whose console died has failed, and can be repeated.
"""

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from core.clock import Clock
from core.errors import OverloadedError
from core.json_values import FactsOf
from core.layout import Layout
from core.urls import mask_passwords
from crawler.status.collection_status import is_in_use
from weboid.app.link_facts import moment_text
from weboid.console.accounts import ConsoleDatabase

KEPT = timedelta(days=7)  # after its end
QUEUED_LIMIT = 20
RUN_LIMIT = timedelta(days=2)
_POLL_S = 1.0
_IN_USE = 5  # exit code of a command whose collection is written by another process
_ATTEMPTS = 30  # at a collection that runs have to leave; each waits for ten seconds
_ENDING_S = 10.0  # after SIGINT, before SIGKILL
_TAIL_BYTES = 1 << 16
_OUTPUT, _ERRORS, _FILES = "output.jsonl", "errors.txt", "files"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, actor TEXT NOT NULL, command TEXT NOT NULL, state TEXT NOT NULL,
    added INTEGER NOT NULL, began INTEGER, ended INTEGER, code INTEGER, result TEXT, error TEXT NOT NULL DEFAULT '',
    stops_runs INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS tasks_state ON tasks (state, id);
"""


class TaskState(StrEnum):
    """State of a task."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"  # running, and asked to stop, possibly by another console than the one that runs it
    DONE = "done"  # `code` 1: something of it failed
    FAILED = "failed"
    STOPPED = "stopped"


TaskFile = TypedDict("TaskFile", {"name": str, "bytes": int})
TaskFacts = Annotated[dict[str, Any], FactsOf(
    "TaskFacts", id=int, kind=str, actor=str, state=TaskState, code=int | None, error=str, added=datetime,
    began=datetime | None, ended=datetime | None, result=Any, files=list[TaskFile],
)]  # fmt: skip


class BackgroundTasks(ConsoleDatabase):
    """Tasks of a collection, which a thread of its own runs, from the first one on."""

    def __init__(
        self,
        layout: Layout,
        clock: Clock,
        environment: Mapping[str, str],
        stop_runs: Callable[[], object] = lambda: None,  # asks runs to end after their pages in progress
        resume_runs: Callable[[], object] = lambda: None,  # lets them begin again
    ) -> None:
        """Open the file; `environment` is added to that of the commands."""
        super().__init__(layout.console_db, clock, _SCHEMA)
        self._layout, self._folder = layout, layout.root / "cache" / "tasks"
        self._stop_runs, self._resume_runs = stop_runs, resume_runs
        self._environment = {**os.environ, **environment}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        with self._rows() as rows:
            is_unfinished = rows.execute(
                "SELECT 1 FROM tasks WHERE state IN ('queued', 'running', 'stopping')"
            ).fetchone()
        if is_unfinished:
            self._begin()

    def close(self) -> None:
        """Stop the task that runs, and close the file; tasks that wait are run at the next start."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        super().close()

    def queue(
        self, kind: str, actor: str, command: Callable[[Path], Sequence[str]], *, stops_runs: bool = False
    ) -> TaskFacts:
        """Queue the command made for the task's folder; `stops_runs`: once runs have left. Raises OverloadedError."""
        with self._rows() as rows:
            waiting = rows.execute("SELECT count(*) FROM tasks WHERE state = 'queued'").fetchone()[0]
            if waiting >= QUEUED_LIMIT:
                raise OverloadedError(f"{waiting} tasks are already waiting: try again later.", retry_after_s=60)
            values = (kind, actor, "[]", TaskState.STOPPED, self._now, stops_runs)
            query = "INSERT INTO tasks (kind, actor, command, state, added, stops_runs) VALUES (?, ?, ?, ?, ?, ?)"
            number = rows.execute(query, values).lastrowid or 0
        files = self._folder / str(number) / _FILES
        files.mkdir(parents=True, exist_ok=True)
        with self._rows() as rows:
            words = json.dumps([str(each) for each in command(files)])
            rows.execute("UPDATE tasks SET command = ?, state = 'queued' WHERE id = ?", (words, number))
        self._begin()
        return self.task(number) or {}

    def task(self, number: int) -> TaskFacts | None:
        """Return a task; None when there is none of that number."""
        with self._rows() as rows:
            row = rows.execute("SELECT * FROM tasks WHERE id = ?", (number,)).fetchone()
        return None if row is None else self._facts(row)

    def tasks(self, *, kind: str = "", before: int | None = None, limit: int = 50) -> list[TaskFacts]:
        """Return the tasks, of one kind or all, with numbers below `before`, the newest first."""
        query = "SELECT * FROM tasks WHERE ? IN ('', kind) AND (? IS NULL OR id < ?) ORDER BY id DESC LIMIT ?"
        with self._rows() as rows:
            tasks = rows.execute(query, (kind, before, before, limit)).fetchall()
        return [self._facts(each) for each in tasks]

    def file(self, number: int, name: str) -> Path | None:
        """Return the path of a finished task's file; None when it has none of that name."""
        task = self.task(number)
        if task is None or task["state"] != TaskState.DONE or name not in {each["name"] for each in task["files"]}:
            return None
        return self._folder / str(number) / _FILES / name

    def stop(self, number: int) -> None:
        """Stop a task that waits or runs."""
        with self._rows() as rows:
            values = (self._now, number)
            rows.execute("UPDATE tasks SET state = 'stopped', ended = ? WHERE id = ? AND state = 'queued'", values)
            rows.execute("UPDATE tasks SET state = 'stopping' WHERE id = ? AND state = 'running'", (number,))

    def _facts(self, row: sqlite3.Row) -> TaskFacts:
        names = ("id", "kind", "actor", "state", "code", "error")
        folder = self._folder / str(row["id"]) / _FILES
        files: list[TaskFile] = []
        for each in sorted(folder.glob("*")):
            with suppress(FileNotFoundError):  # a file of the command's own, which it has removed or renamed
                if each.is_file():
                    files.append({"name": each.name, "bytes": each.stat().st_size})
        return {
            **{name: row[name] for name in names},
            **{name: moment_text(row[name]) for name in ("added", "began", "ended")},
            "result": None if row["result"] is None else json.loads(row["result"]),
            "files": files,
        }

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # it ends when the file cannot be written
                self._thread = threading.Thread(target=self._work, name="background tasks", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / ".lock").open("w") as lock:
            while not self._closed.is_set():  # until no other console has the tasks
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    self._closed.wait(_POLL_S)
            else:
                return
            with self._rows() as rows:
                error = "The console stopped while the task was running: start the task again."
                query = "UPDATE tasks SET state = 'failed', ended = ?, error = ? WHERE state IN ('running', 'stopping')"
                rows.execute(query, (self._now, error))
            while not self._closed.is_set():
                with self._rows() as rows:
                    query = "SELECT id, command, stops_runs FROM tasks WHERE state = 'queued' ORDER BY id LIMIT 1"
                    following = rows.execute(query).fetchone()
                    is_stopped = False
                    if following is not None:
                        values = (self._now, following["id"])
                        query = "UPDATE tasks SET state = 'running', began = ? WHERE id = ? AND state = 'queued'"
                        is_stopped = not rows.execute(query, values).rowcount  # by another console, just now
                if following is None:
                    self._closed.wait(_POLL_S)
                elif not is_stopped:
                    stops_runs = bool(following["stops_runs"])
                    try:
                        self._run(following["id"], json.loads(following["command"]), stops_runs=stops_runs)
                    except (OSError, ValueError) as error:  # too many words, a NUL in one, no process or space
                        query = "UPDATE tasks SET state = 'failed', ended = ?, error = ? WHERE id = ?"
                        with self._rows() as rows:
                            rows.execute(query, (self._now, f"The command cannot run: {error}.", following["id"]))
                    self._remove_old()

    def _run(self, number: int, words: Sequence[str], *, stops_runs: bool) -> None:
        """Run a task's command to its end, and store its result."""
        folder = self._folder / str(number)
        first, *rest = words  # `--` and what follows it stay at the end
        command = ("setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "weboid", *first.split())
        command = (*command, f"--collection={self._layout.root}", *rest)
        code, has_stopped = _IN_USE, False
        try:
            for _ in range(_ATTEMPTS if stops_runs else 1):
                if was_in_use := stops_runs and is_in_use(self._layout):
                    self._stop_runs()
                    has_stopped = True
                code = self._perform(command, folder, number)
                if code != _IN_USE or self._is_ending(number) or not was_in_use:
                    break
        finally:
            if has_stopped:
                self._resume_runs()
        is_stopped = self._is_ending(number)
        state = TaskState.DONE if code in (0, 1) else TaskState.FAILED
        lines = _tail(folder / _OUTPUT).splitlines()
        try:
            result = json.dumps(json.loads(lines[-1])) if lines else None
        except ValueError:
            result = None
        error = "" if state is TaskState.DONE else mask_passwords(_tail(folder / _ERRORS).strip()[-2_000:])
        with self._rows() as rows:
            query = "UPDATE tasks SET state = ?, ended = ?, code = ?, result = ?, error = ? WHERE id = ?"
            last = TaskState.STOPPED if is_stopped and state is not TaskState.DONE else state
            rows.execute(query, (last, self._now, code, result, error, number))

    def _perform(self, command: Sequence[str], folder: Path, number: int) -> int:
        """Run a command once, until its end or that of the task; return its exit code."""
        began, interrupted_at = self._clock.monotonic(), None
        with (folder / _OUTPUT).open("wb") as output, (folder / _ERRORS).open("wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=self._environment,
                start_new_session=True,
            )  # fmt: skip
            while True:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_S)
                    break
                now = self._clock.monotonic()
                if interrupted_at is not None and now - interrupted_at > _ENDING_S:
                    os.killpg(process.pid, signal.SIGKILL)
                elif interrupted_at is None and (self._is_ending(number) or now - began > RUN_LIMIT.total_seconds()):
                    process.send_signal(signal.SIGINT)
                    interrupted_at = now
        return process.returncode

    def _is_ending(self, number: int) -> bool:
        with self._rows() as rows:
            state = rows.execute("SELECT state FROM tasks WHERE id = ?", (number,)).fetchone()["state"]
        return state == TaskState.STOPPING or self._closed.is_set()

    def _remove_old(self) -> None:
        with self._rows() as rows:
            before = self._now - int(KEPT.total_seconds())
            old = [each["id"] for each in rows.execute("SELECT id FROM tasks WHERE ended < ?", (before,))]
        for number in old:
            shutil.rmtree(self._folder / str(number), ignore_errors=True)
            with self._rows() as rows:
                rows.execute("DELETE FROM tasks WHERE id = ?", (number,))


def _tail(path: Path) -> str:
    """Return the end of a file as text."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
        return file.read().decode(errors="replace")
