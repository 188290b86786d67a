"""The documents name what exists, and leave nothing out."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

import click
import pytest

from core.config.settings import Settings
from links.registry.schema import metadata
from weboid.cli.main import weboid

ROOT = Path(__file__).resolve().parents[1]
STATES = {"done", "partly", "planned"}
MISSING = "**Missing:** "
NONE = "\N{EN DASH}"

# The founding documents do not change: this list is frozen.
IDS = [
    f"{letter}{number:02d}"
    for letter, count in (("A", 25), ("W", 71), ("X", 11), ("U", 20), ("B", 16), ("C", 1))
    for number in range(1, count + 1)
]


@dataclass(frozen=True, slots=True)
class RequirementRow:
    """One row of the table of requirements."""

    name: str
    what: str
    state: str
    reached: str
    where: tuple[str, ...]
    tests: tuple[str, ...]


def _names(cell: str) -> tuple[str, ...]:
    return () if cell == NONE else tuple(re.split(r",\s*", cell))


def _rows() -> list[RequirementRow]:
    text = (ROOT / "docs" / "project" / "requirements.md").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if re.match(r"\| [A-Z]\d", line))
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [
        RequirementRow(a, what, state, reached, _names(where), _names(tests))
        for a, what, state, reached, where, tests in cells
    ]


def _reached_by(beginning: str) -> list[tuple[str, str]]:
    """Return the code spans of the column "reached by" that match from their start, with their rows."""
    return [
        (row.name, span)
        for row in _rows()
        for span in re.findall(r"`([^`]+)`", row.reached)
        if re.match(beginning, span)
    ]


def _command(words: list[str]) -> click.Command | None:
    command: click.Command | None = weboid
    for word in words:
        if not isinstance(command, click.Group):
            return None
        command = command.get_command(click.Context(command), word)
    return command


def _options(command: click.Command) -> set[str]:
    return {
        name for each in command.params if isinstance(each, click.Option) for name in (*each.opts, *each.secondary_opts)
    }


def _sources(folder: str, ending: str) -> str:
    files = sorted((ROOT / folder).rglob(f"*{ending}"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def test_every_requirement_has_exactly_one_row() -> None:
    """No row is lost, doubled or out of order."""
    assert [row.name for row in _rows()] == IDS


def test_every_row_says_what_is_asked_for_and_a_known_state() -> None:
    """A state is done, partly or planned."""
    assert [row for row in _rows() if row.state not in STATES or not row.what] == []


def test_every_row_says_how_a_user_reaches_it() -> None:
    """A command, a setting, a page or a default."""
    assert [row.name for row in _rows() if not row.reached.strip(NONE)] == []


def test_a_row_says_what_is_missing_exactly_when_it_is_partly_done() -> None:
    """Nothing is missing from what is done."""
    assert [row.name for row in _rows() if (MISSING in row.what) != (row.state == "partly")] == []


def test_the_counts_above_the_table_are_those_of_its_rows() -> None:
    """So many done, partly, planned."""
    rows = _rows()
    done, partly, planned = (sum(row.state == state for row in rows) for state in ("done", "partly", "planned"))
    summary = f"{len(rows)} rows, of which {done} are done, {partly} partly, {planned} planned"

    assert summary in (ROOT / "docs" / "project" / "requirements.md").read_text(encoding="utf-8")


def test_commands_and_options_that_rows_name_exist() -> None:
    """An option alone belongs to the command before it in its row."""
    unknown: list[tuple[str, str]] = []
    last: tuple[str, click.Command | None] = ("", None)
    for name, span in _reached_by("weboid |--"):
        words = [word for word in span.split() if not word.startswith("--")]
        if words:
            last = (name, _command(words[1:]))
        options = {word for word in span.split() if word.startswith("--")}
        row, command = last
        if row != name or command is None or not options <= _options(command):
            unknown.append((name, span))

    assert unknown == []


def test_settings_that_rows_name_exist() -> None:
    """`[group] key`, as a profile has them."""
    groups = {each.name: getattr(Settings(), each.name) for each in fields(Settings)}
    known = {f"[{name}] {key.name}" for name, group in groups.items() if is_dataclass(group) for key in fields(group)}

    assert {span for _, span in _reached_by(r"\[")} - known == set()


def test_addresses_that_rows_name_are_served() -> None:
    """As the front's source has them, before placeholders and parameters."""
    source = _sources("playback/web", ".py") + _sources("qa/web", ".py")
    paths = {re.split(r"[?]|/[A-Z]", span)[0] for _, span in _reached_by("/")}

    assert {path for path in paths if not re.search(rf'"{re.escape(path)}["/]', source)} == set()


def test_settings_and_pages_of_the_extension_that_rows_name_exist() -> None:
    """Special:LinkSearch is MediaWiki's own; the extension adds to it."""
    folder = ROOT / "wiki" / "mediawiki" / "Weboid"
    extension = json.loads((folder / "extension.json").read_text(encoding="utf-8"))
    known = {f"$wg{name}" for name in extension["config"]}
    known |= {f"Special:{name}" for name in (*extension["SpecialPages"], "LinkSearch")}

    assert {span for _, span in _reached_by(r"\$wg|Special:")} - known == set()


def test_a_row_that_is_begun_says_where() -> None:
    """Requirements that are done or partly done name a place in the code."""
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


def test_the_page_about_the_registry_names_every_table() -> None:
    """And none that is gone."""
    text = (ROOT / "docs" / "reference" / "registry.md").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`(link_[a-z_]+)`", text) if "externallinks" not in name}

    assert named == set(metadata.tables)


def test_the_glossary_explains_a_word_once() -> None:
    """One word for one thing: no word has two rows."""
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    first = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    words = [word for cell in first if cell != "word" for word in cell.split(", ")]

    assert sorted(set(words)) == sorted(words)


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Every page is in the navigation, and every link and anchor leads somewhere."""
    ran = subprocess.run(
        [Path(sys.executable).with_name("mkdocs"), "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert "WARNING" not in ran.stderr
    assert (tmp_path / "reference" / "cli.html").exists()
