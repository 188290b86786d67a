"""The second look at the few tests that failed: scripts/suite.py."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from scripts.suite import suite

pytestmark = pytest.mark.slow

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
    output: str


class RunSuite(Protocol):
    """Runs a suite of one file in the test's folder."""

    def __call__(self, source: str) -> Outcome:
        """Return how it ended."""
        ...


@pytest.fixture
def outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> RunSuite:
    """Runs a suite of one file."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(source: str) -> Outcome:
        (tmp_path / "test_it.py").write_text(source)
        code = suite(tmp_path, ["-q"])
        return Outcome(code, capfd.readouterr().out)

    return run


def test_a_test_that_passes_every_time_alone_is_named_and_refuses_nothing(tmp_path: Path, outcome: RunSuite) -> None:
    """It failed once among the others: the run is good, and says which test is unsteady."""
    seen = outcome(BY_TURNS.format(turns=["pppp", "fppp"]))
    assert seen.code == 0
    assert seen.output.rstrip().endswith("test_it.py::test_by_turns[fppp]")
    assert "UNSTEADY" in seen.output
    assert (tmp_path / "seen-fppp").read_text() == "xxxx"
    assert (tmp_path / "seen-pppp").read_text() == "x"


def test_a_test_that_fails_once_more_fails_the_suite(outcome: RunSuite) -> None:
    """Even when it passed alone before."""
    seen = outcome(BY_TURNS.format(turns=["fpf", "pppp"]))
    assert seen.code == 1
    assert "UNSTEADY" not in seen.output


def test_many_failures_are_not_looked_at_again(tmp_path: Path, outcome: RunSuite) -> None:
    """Four tests that would pass alone fail the suite."""
    seen = outcome(BY_TURNS.format(turns=["fppp", "fppppp", "fpppp", "fppppppp"]))
    assert seen.code == 1
    assert "4 tests failed" in seen.output
    assert (tmp_path / "seen-fppp").read_text() == "x"


def test_a_suite_that_cannot_be_collected_fails_at_once(outcome: RunSuite) -> None:
    """The exit code is that of pytest."""
    assert outcome("import nothing_of_this_name\n").code == 2


def test_a_suite_that_passes_is_run_once(outcome: RunSuite) -> None:
    """Nothing is looked at again."""
    seen = outcome(BY_TURNS.format(turns=["pf"]))
    assert seen.code == 0
    assert "Look" not in seen.output
