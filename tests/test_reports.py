"""Reports of failed tests: short, and never the end of the process that makes them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PICTURES = """
import random

def test_pictures():
    white = b"\\xff" * 1_440_000
    noise = random.Random(1).randbytes(400_000)
    assert white[:500_000] + noise + white[900_000:] == white
"""
# A time limit raises wherever a loop is; this function is nothing but places without a line.
NO_LINES = """
def lost():
    raise TimeoutError("no line")

NOWHERE = b"\\xff"  # eight instructions without a location
lost.__code__ = lost.__code__.replace(co_linetable=NOWHERE * len(lost.__code__.co_code))

def test_lost():
    lost()

def test_next():
    pass
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return pytest's output for both files with `CI` set, under which pytest truncates nothing."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\ntimeout = 60\nasyncio_default_fixture_loop_scope = function\n"
    )
    (folder / "test_pictures.py").write_text(PICTURES)
    (folder / "test_lines.py").write_text(NO_LINES)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "tests.support.reports", "-p", "no:randomly", "-n1",
         "-p", "no:cacheprovider", str(folder)],
        cwd=folder, env={**os.environ, "CI": "true", "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip


def test_two_pictures_are_told_apart_by_where_they_differ(output: str) -> None:
    """Their whole difference has a hundred thousand lines, and takes minutes to find."""
    assert "At index 500000 diff" in output
    assert "from pytest-timeout" not in output
    assert "FAILED test_pictures.py::test_pictures" in output


def test_an_error_at_a_place_without_a_line_is_a_failure_like_any_other(output: str) -> None:
    """The tests behind it are run."""
    assert "TimeoutError: no line" in output
    assert "INTERNALERROR" not in output
    assert "2 failed, 1 passed" in output
