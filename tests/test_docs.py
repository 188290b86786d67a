"""The documents name what exists, and leave nothing out."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
STATES = {"done", "partly", "planned"}
NONE = "\N{EN DASH}"

# The founding documents do not change: this list is frozen.
IDS = [
    f"{letter}{number:02d}"
    for letter, count in (("A", 25), ("W", 71), ("X", 11), ("U", 20), ("B", 16))
    for number in range(1, count + 1)
]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table of requirements."""

    name: str
    what: str
    state: str
    where: tuple[str, ...]
    tests: tuple[str, ...]


def _names(cell: str) -> tuple[str, ...]:
    return () if cell == NONE else tuple(re.split(r",\s*", cell))


def _rows() -> list[Row]:
    text = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if re.match(r"\| [A-Z]\d", line))
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [
        Row(a, what, state, _names(where), _names(tests)) for a, what, state, where, tests in cells
    ]


def test_every_requirement_has_exactly_one_row() -> None:
    """No row is lost, doubled or out of order."""
    assert [row.name for row in _rows()] == IDS


def test_every_row_says_what_is_asked_for_and_a_known_state() -> None:
    """A state is done, partly or planned."""
    assert [row for row in _rows() if row.state not in STATES or not row.what] == []


def test_a_row_that_is_begun_says_where() -> None:
    """What is done or partly done has a place in the code."""
    assert [row.name for row in _rows() if row.state != "planned" and not row.where] == []


def test_a_row_that_is_done_names_its_test() -> None:
    """Done means that a test shows it."""
    assert [row.name for row in _rows() if row.state == "done" and not row.tests] == []


@pytest.mark.parametrize("column", ["where", "tests"])
def test_every_place_that_a_row_names_exists(column: str) -> None:
    """Paths are the project's own files, and tests lie in tests/."""
    named = {name: row.name for row in _rows() for name in getattr(row, column)}
    missing = {name: row for name, row in named.items() if not (ROOT / name).is_file()}
    misplaced = [name for name in named if (column == "tests") != name.startswith("tests/")]

    assert missing == {}
    assert misplaced == []


def test_the_glossary_explains_a_word_once() -> None:
    """One word for one thing: no word has two rows."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    first = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    words = [word for cell in first if cell != "word" for word in cell.split(", ")]

    assert sorted(set(words)) == sorted(words)
