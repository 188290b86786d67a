"""The set-up, on a small project of its own: whole or not at all, and quick when all is there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


# Python as far as the script uses it: makes a folder for `-m venv`, refuses locks that name what is nowhere.
PYTHON = """\
#!/bin/sh
case "$2" in
venv)
    mkdir -p "$4/bin"
    cp "$0" "$4/bin/python"
    echo "#!$(pwd -P)/$4/bin/python" >"$4/bin/pip"
    ;;
pip)
    for argument; do
        ! grep -qs -e nothing-of-that-name -- "$argument" || exit 1
    done
    ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a project with the real setup script and lock files that require nothing."""
    folder = tmp_path / "project"
    (folder / "scripts").mkdir(parents=True)
    (folder / "requirements").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", folder / "scripts" / "setup")
    for lock in ("main", "dev", "replay"):
        (folder / "requirements" / f"{lock}.txt").write_text(f"# {lock}\n")
    (folder / "pyproject.toml").write_text(PROJECT)
    return folder


def _setup(project: Path, level: str) -> "subprocess.CompletedProcess[str]":
    programs = project.parent / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "python3").write_text(PYTHON)
    (programs / "python3").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PATH": path}
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
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def _stamp(project: Path) -> str:
    stamp = project / ".venv" / ".weboid-ready"
    return stamp.read_text().split()[0] if stamp.is_file() else ""


def test_half_an_installation_is_never_taken_for_a_whole_one(project: Path) -> None:
    """A failure removes the stamp; the next run completes the installation; the one after prints nothing."""
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

    again = _setup(project, "archive")
    assert (again.returncode, again.stderr) == (0, "")


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


def test_an_environment_that_was_moved_is_rebuilt(project: Path) -> None:
    """Its programs name the place it was made at; elsewhere they would not run."""
    assert _setup(project, "archive").returncode == 0
    moved = project.with_name("moved")
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
    assert {"setup", "archive", "serve", "test", "check", "demo", "bench", "lock", "fresh", "clean"} <= targets


def test_archiving_without_a_list_says_how() -> None:
    """One line, before anything is installed."""
    shown = _make("archive", "URLS=")

    assert shown.returncode != 0
    assert "make archive URLS=" in shown.stderr


def test_this_python_is_one_that_the_set_up_takes() -> None:
    """The suite runs on a supported version."""
    assert sys.version_info >= (3, 11)
