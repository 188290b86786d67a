"""The second look at the few tests that failed: scripts/suite.py."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
# Passes or fails by turns, as its name's letters say: a turn is a file that it leaves.
BY_TURNS = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("turns", {turns!r})
def test_by_turns(turns):
    seen = Path(__file__).parent / f"seen-{{turns}}"
    now = len(seen.read_text()) if seen.exists() else 0
    seen.write_text("x" * (now + 1))
    assert turns[now] == "p"
"""


@dataclass
class Outcome:
    """How a run of the suite ended."""

    code: int
    said: str


def outcome(folder: Path, source: str) -> Outcome:
    """Run a suite of one file."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(source)
    order = (
        "import sys; from pathlib import Path; from scripts.suite import suite; "
        "raise SystemExit(suite(Path(sys.argv[1]), ['-q']))"
    )
    told = subprocess.run(
        [sys.executable, "-c", order, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return Outcome(told.returncode, told.stdout)


def test_a_test_that_passes_every_time_alone_is_named_and_refuses_nothing(tmp_path: Path) -> None:
    """It failed once among the others: the run is good, and says which test is unsteady."""
    seen = outcome(tmp_path, BY_TURNS.format(turns=["pppp", "fppp"]))
    assert seen.code == 0
    assert seen.said.rstrip().endswith("test_it.py::test_by_turns[fppp]")
    assert "UNSTEADY" in seen.said
    assert (tmp_path / "seen-fppp").read_text() == "xxxx"
    assert (tmp_path / "seen-pppp").read_text() == "x"


@pytest.mark.parametrize("turns", ["ff", "fpf", "fppf"])
def test_a_test_that_fails_once_more_fails_the_suite(tmp_path: Path, turns: str) -> None:
    """Whichever of the looks it is."""
    seen = outcome(tmp_path, BY_TURNS.format(turns=[turns, "pppp"]))
    assert seen.code == 1
    assert "UNSTEADY" not in seen.said


def test_many_failures_are_not_looked_at_again(tmp_path: Path) -> None:
    """Four tests that would pass alone fail the suite."""
    seen = outcome(tmp_path, BY_TURNS.format(turns=["fppp", "fppppp", "fpppp", "fppppppp"]))
    assert seen.code == 1
    assert "4 tests failed" in seen.said
    assert (tmp_path / "seen-fppp").read_text() == "x"


def test_a_suite_that_cannot_be_collected_fails_at_once(tmp_path: Path) -> None:
    """The exit code is that of pytest."""
    assert outcome(tmp_path, "import nothing_of_this_name\n").code == 2


def test_a_suite_that_passes_is_run_once(tmp_path: Path) -> None:
    """Nothing is looked at again."""
    seen = outcome(tmp_path, BY_TURNS.format(turns=["pf"]))
    assert seen.code == 0
    assert "Look" not in seen.said
