"""The set-up, on a small project of its own: whole or not at all, and quick when all is there."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from core.clock import SystemClock

ROOT = Path(__file__).resolve().parents[1]
PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "small"
version = "1"
[tool.setuptools]
py-modules = []
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the real set-up script and locks that ask for nothing."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "requirements").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts" / "setup")
    for lock in ("main", "dev", "replay"):
        (tmp_path / "requirements" / f"{lock}.txt").write_text(f"# {lock}\n")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def _setup(
    project: Path, level: str, *, builder: bool = True
) -> "subprocess.CompletedProcess[str]":
    # Without a network, what the locks would bring comes from the environment that runs the tests.
    path = sysconfig.get_paths()["purelib"] if builder else ""
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
    }
    return subprocess.run(
        [str(project / "scripts" / "setup"), level],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _make(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["make", "-C", str(ROOT), "--no-print-directory", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def _stamp(project: Path) -> str:
    stamp = project / ".venv" / ".weboid-ready"
    return stamp.read_text().split()[0] if stamp.is_file() else ""


@pytest.mark.slow
def test_half_an_installation_is_never_taken_for_a_whole_one(project: Path) -> None:
    """What fails takes the stamp away; the next run makes it whole; the one after says nothing."""
    good = (project / "requirements" / "main.txt").read_text()
    assert (_setup(project, "archive").returncode, _stamp(project)) == (0, "main")

    (project / "requirements" / "main.txt").write_text("nothing-of-that-name==1 --hash=sha256:00\n")
    failed = _setup(project, "archive")
    assert failed.returncode != 0
    assert _stamp(project) == ""

    (project / "requirements" / "main.txt").write_text(good)
    made = _setup(project, "archive")
    assert "requirements/main.txt" in made.stderr
    assert (made.returncode, _stamp(project)) == (0, "main"), made.stderr

    clock = SystemClock()
    began = clock.monotonic()
    again = _setup(project, "archive")
    assert (again.returncode, again.stderr) == (0, "")
    assert clock.monotonic() - began < 1.0


@pytest.mark.slow
def test_the_development_tools_stay_once_they_are_there(project: Path) -> None:
    """A later `make archive` finds the larger environment good, and renews it as the larger one."""
    assert _setup(project, "dev").returncode == 0
    assert _stamp(project) == "dev"

    content = _setup(project, "archive")
    assert (content.stderr, _stamp(project)) == ("", "dev")

    (project / "requirements" / "dev.txt").write_text("# a newer lock\n")
    renewed = _setup(project, "archive")
    assert "requirements/dev.txt" in renewed.stderr
    assert _stamp(project) == "dev"


@pytest.mark.slow
def test_an_environment_that_was_moved_is_made_anew(project: Path, tmp_path: Path) -> None:
    """Its programs name the place it was made at; elsewhere they would not run."""
    assert _setup(project, "archive").returncode == 0
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    project.rename(moved)
    made = _setup(moved, "archive")

    assert (made.returncode, _stamp(moved)) == (0, "main"), made.stderr
    assert str(moved) in (moved / ".venv" / "bin" / "pip").read_text()


def test_an_unknown_level_is_refused(project: Path) -> None:
    """One line says what there is."""
    refused = _setup(project, "everything")

    assert refused.returncode == 1
    assert refused.stderr.startswith("Usage: ")


def test_make_lists_its_targets() -> None:
    """`make` alone explains every target that a person may type."""
    shown = _make()
    targets = {line.split()[1] for line in shown.stdout.splitlines() if line.startswith("  make ")}

    assert shown.returncode == 0
    assert {
        "setup",
        "archive",
        "serve",
        "test",
        "check",
        "demo",
        "bench",
        "lock",
        "fresh",
        "clean",
    } <= targets


def test_archiving_without_a_list_says_how() -> None:
    """One line, before anything is installed."""
    shown = _make("archive", "URLS=")

    assert shown.returncode != 0
    assert "make archive URLS=" in shown.stderr


def test_this_python_is_one_that_the_set_up_takes() -> None:
    """The suite runs on a supported version."""
    assert sys.version_info >= (3, 11)
