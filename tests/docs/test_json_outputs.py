"""Commands that only change or list decisions print JSON that fits its schema, and each is on the page."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.json_outputs import json_commands
from tests.support.json_outputs import RECORD_FOLDER, command_path, schemas
from weboid.cli.main import weboid

URL = "https://museum.harbour-town.org/lighthouse"
# In this order, in one collection: each finds what those before it have left.
COMMANDS = (
    "init --contact archive@example.org",
    "config show --presets",
    "config show --changed",
    "config check",
    f"crawl add {URL}",
    "queue hosts",
    "crawl pause museum.harbour-town.org --for 1h",
    "crawl resume museum.harbour-town.org",
    "crawl pause",
    "crawl resume",
    "queue ls",
    "sheet org,example) visit.pdf=true",
    "sheet",
    "sheet org,example) --remove",
    f"policy add {URL} --reason asked",
    "policy ls",
    f"policy ls {URL}",
    f"level set images --link {URL}",
    "level ls",
    f"level ls {URL}",
    f"level rm --link {URL}",
    "level ls --history",
    "level rights --wiki handbook --most html",
    "level rights --wiki handbook --editor Ann --most images",
    "level rights",
    "level rights --wiki handbook --remove",
    f"queue rm {URL} --yes",
    "scan lists add threats threats.txt --format urls",
    "scan lists ls",
    "scan lists rm threats",
    "setup full --check",
    "collection rebuild",
    "login ls",
    "status",
)


def run(arguments: str, folder: Path) -> str:
    """Run a command with ``--json`` and return its output."""
    words = [*arguments.split(), "--json"]
    if arguments.partition(" ")[0] != "setup" and arguments != "config show --presets":
        words += ["--collection", str(folder / "collection")]
    ran = CliRunner().invoke(weboid, words, standalone_mode=False)
    assert ran.exception is None, (arguments, ran.output, ran.exception)
    return ran.stdout


def test_what_commands_print_fits_the_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is checked where it is printed (tests/support/json_outputs.py)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "threats.txt").write_text("http://bad.example/\n")
    for arguments in COMMANDS:
        lines = run(arguments, tmp_path).splitlines()
        assert lines, arguments
        assert [json.loads(line) for line in lines]


def test_the_commands_above_have_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the check above checks something."""
    monkeypatch.delenv(RECORD_FOLDER, raising=False)
    paths = {command_path(arguments.split()) for arguments in COMMANDS}

    assert paths - schemas().keys() == set()


def test_schemas_are_of_the_commands_with_json() -> None:
    """Each command with the option has one; a command that was renamed takes its schema along."""
    assert schemas().keys() ^ set(json_commands()) == set()
