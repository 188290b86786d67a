"""Folders for what a process needs while it lives: gone when it ends, and after it was killed."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from warc.local_storage import ScratchKind, remove_abandoned, scratch_folder

OWNER = """
import sys
from warc.local_storage import ScratchKind, scratch_folder
with scratch_folder(ScratchKind.RUN) as folder:
    (folder / "proxy0.sock").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder, for this test and the processes that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def owner() -> tuple["subprocess.Popen[str]", Path]:
    """A process that has a folder, and the folder."""
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.timeout(300)
def test_what_a_killed_process_left_goes_with_the_next_and_a_live_ones_stays(base: Path) -> None:
    """Whatever either is for; and one's own is gone at the end."""
    killed, left = owner()
    living, kept = owner()
    try:
        assert left.exists()
        killed.send_signal(signal.SIGKILL)
        killed.communicate()

        with scratch_folder(ScratchKind.VERIFY) as own:
            assert sorted(base.iterdir()) == sorted([kept, own])
            assert (kept / "proxy0.sock").exists()
        assert list(base.iterdir()) == [kept]
    finally:
        living.communicate("")

    assert not kept.exists()


def test_what_is_nobodys_for_sure_stays(tmp_path: Path) -> None:
    """A folder that nobody locked yet, one of another name, and what a link of such a name leads to."""
    (tmp_path / "weboid-run-new").mkdir()
    other = tmp_path / "weboid-other"
    other.mkdir()
    (other / ".lock").touch()
    (tmp_path / "weboid-run-link").symlink_to(other)
    (tmp_path / "weboid-run-file").touch()
    before = sorted(tmp_path.rglob("*"))

    assert remove_abandoned(tmp_path) == []

    assert sorted(tmp_path.rglob("*")) == before
