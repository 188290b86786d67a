"""The root command: exit codes of what no command expects, and output that nobody reads."""

import os
import subprocess
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.layout import Layout
from crawler.collection import make_collection
from tests.support.commands import WEBOID, WeboidRunner
from weboid.cli import main as cli_main
from weboid.cli.support.commands import ExitCode


@pytest.fixture
def own(tmp_path: Path) -> WeboidRunner:
    """Return a runner in a folder with an empty collection."""
    made = WeboidRunner(tmp_path, tmp_path / "profile.toml")
    make_collection(Layout(made.collection), SystemClock())
    return made


@pytest.mark.slow
def test_a_command_whose_output_is_cut_off_has_succeeded(own: WeboidRunner) -> None:
    """As with `| head -1` in a script with `set -o pipefail`: the reader has what it wants."""
    words = [str(WEBOID), "config", "show"]
    with subprocess.Popen(words, cwd=own.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.read(1)
        running.stdout.close()
        messages = running.stderr.read().decode()

    assert running.returncode == 0
    assert "Traceback" not in messages


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_is_an_empty_one(own: WeboidRunner, closed: str) -> None:
    """No file that is opened later gets its number, and the command ends well."""
    command = f'"{WEBOID}" status --collection "{own.collection}" {closed}'
    ran = subprocess.run(["sh", "-c", command], cwd=own.folder, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert bool(ran.stdout) is (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.slow
def test_output_to_a_full_disk_is_reported_in_a_line(own: WeboidRunner) -> None:
    """With the exit code of a full disk; Linux has a device for it."""
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [str(WEBOID), "config", "show"], cwd=own.folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert ran.returncode == ExitCode.DISK_FULL
    assert ran.stderr.splitlines()[-1].startswith("weboid: The disk is full (the output: No space left on device).")


@pytest.mark.slow
def test_a_frontier_on_a_full_disk_is_reported_as_such(own: WeboidRunner) -> None:
    """SQLite says only that there was an I/O error: it cannot enlarge its shared memory."""
    assert own.call("crawl", "add", "https://a.example/").code == ExitCode.OK
    small = own.folder / "small"
    small.mkdir()
    lines = (
        'mount -t tmpfs -o size=4m none "$1"',
        'cp -a "$2/." "$1"',
        '{ dd if=/dev/zero of="$1/fill" bs=4k status=none 2>&1; "$0" status --collection "$1"; }',
    )
    command = ["unshare", "-m", "sh", "-c", " && ".join(lines), str(WEBOID), str(small), str(own.collection)]

    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.returncode == ExitCode.DISK_FULL
    assert "weboid: The disk is full (" in ran.stderr
    assert ran.stderr.endswith("Free some space, then run the command again.\n")


def test_a_database_that_cannot_be_written_is_reported_in_a_line(own: WeboidRunner) -> None:
    """`webhooks ls` makes its tables; here a folder is in their place."""
    own.collection.joinpath("db", "webhooks.sqlite").mkdir(parents=True)

    ran = own.call("webhooks", "ls")

    assert ran.code == ExitCode.UNAVAILABLE
    assert ran.err == "weboid: unable to open database file. Check who may write the collection, and its free space.\n"


_NO_RIGHTS = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")  # root without its capabilities obeys modes


@pytest.mark.slow
@pytest.mark.parametrize("words", ["status", "archive https://a.example/", "config check"])
def test_a_collection_of_another_user_is_reported_in_a_line(own: WeboidRunner, words: str) -> None:
    """Not even the configuration can be looked for in it."""
    command = [*(_NO_RIGHTS if os.geteuid() == 0 else ()), str(WEBOID), *words.split()]
    own.collection.chmod(0)
    try:
        ran = subprocess.run(command, cwd=own.folder, capture_output=True, text=True, check=False)
    finally:
        own.collection.chmod(0o700)

    assert ran.returncode == ExitCode.UNAVAILABLE
    assert ran.stderr.startswith("weboid: collection/weboid.toml: Permission denied. Run the command as its owner")


@pytest.mark.slow
def test_a_cache_that_cannot_be_deleted_is_reported(own: WeboidRunner) -> None:
    """A script does not take it for an empty cache."""
    folder = own.collection / "cache" / "playback" / "ab"
    folder.mkdir(parents=True)
    (folder / "copy").write_bytes(b"x")
    folder.chmod(0o500)
    command = [*(_NO_RIGHTS if os.geteuid() == 0 else ()), str(WEBOID), "collection", "cache", "--clear"]
    try:
        ran = subprocess.run(command, cwd=own.folder, capture_output=True, text=True, check=False)
    finally:
        folder.chmod(0o700)

    assert ran.returncode == ExitCode.UNAVAILABLE
    assert "could be deleted: run the command as its owner, or change the rights." in ran.stderr
    assert (folder / "copy").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("queue hosts --limit many", "'many' is not a whole number."),
        ("serve --window-days many", "'many' is not a number."),
    ],
)
def test_numbers_are_asked_for_in_plain_words(own: WeboidRunner, words: str, message: str) -> None:
    """Not by the names of click's types."""
    ran = own.call(*words.split())

    assert ran.code == ExitCode.INPUT
    assert message in ran.err


@pytest.mark.parametrize(
    ("folder", "code", "message"),
    [
        ("/".join(["a" * 100] * 5), ExitCode.UNAVAILABLE, "use one of at most 450."),
        ("a" * 300, ExitCode.INPUT, "weboid.toml: File name too long."),
    ],
)
def test_a_path_that_is_too_long_is_reported_in_a_line(
    own: WeboidRunner, folder: str, code: ExitCode, message: str
) -> None:
    """SQLite opens no longer ones, the file system no such names."""
    ran = own.call("init", "--collection", folder)

    assert ran.code == code
    assert message in ran.err.splitlines()[-1]
    assert "Traceback" not in ran.err


def test_a_fault_of_the_program_has_an_exit_code_of_its_own(own: WeboidRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """No script takes it for a page that failed; the lines are for a report."""

    def broken(*_: object, **_more: object) -> None:
        raise KeyError("broken")

    monkeypatch.setattr(cli_main, "with_current_name", broken)

    ran = own.call("config", "show")

    assert ran.code == ExitCode.INTERNAL
    assert "KeyError: 'broken'" in ran.err
    assert "report it with these lines and `weboid --version`" in ran.err.splitlines()[-1]
