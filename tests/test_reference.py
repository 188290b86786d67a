"""The reference pages say what the code does."""

import re
from pathlib import Path

import click
import pytest

from core.config.settings import Settings
from scripts.command_tree import walk_commands
from scripts.interfaces import environment_page
from scripts.reference import DOCS, OVERRIDES, PAGES, SHORT_HELP_FILE, short_help_table, value_range
from weboid.cli.main import weboid


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_reference_page_is_up_to_date(name: str) -> None:
    """`python -m scripts.reference` would change nothing."""
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name]()


def test_every_exit_code_and_setting_is_explained() -> None:
    """No row of the reference is without its meaning."""
    for name in PAGES:
        for line in Path(DOCS / name).read_text(encoding="utf-8").splitlines():
            assert not line.endswith("|  |"), line


@pytest.mark.parametrize("name", sorted(OVERRIDES))
def test_an_option_that_overrides_a_setting_exists(name: str) -> None:
    """In a command that archives or crawls, and the setting in its group."""
    group, key = name.split(".")
    options = {
        option
        for command in ("archive", "crawl")
        for each in weboid.get_command(click.Context(weboid), command).params  # type: ignore[union-attr]
        for option in each.opts
    }

    assert hasattr(getattr(Settings(), group), key)
    assert OVERRIDES[name] in options


def test_ranges_are_those_that_settings_are_checked_for() -> None:
    """Bounds on both sides, one side, above zero; names of a choice; none for free text."""
    settings = Settings()
    ranges = {
        "visit.picture_quality": "1 to 100",
        "visit.rendered_share": "0 to 1",
        "visit.picture_format": "`png`, `jpeg`, `webp`",
        "policy.robots": "`obey`, `ignore`",
        "proxy.processes": "≥ 1",
        "frontier.lease_s": "> 0",
        "scope.depth": "≥ -1",
        "visit.user_agent": "",
        "visit.pdf": "",
    }
    for name, text in ranges.items():
        group, key = name.split(".")
        assert value_range(group, key, getattr(getattr(settings, group), key)) == text


def test_every_environment_variable_is_explained() -> None:
    """Each that the program's sources name is on the page."""
    packages = ("core", "net", "warc", "classify", "proxy", "render", "links", "playback")
    files = [
        file
        for package in (*packages, "wiki", "crawler", "qa", "weboid")
        for file in (DOCS.parent / package).rglob("*.py")
    ]
    named = {name for file in files for name in re.findall(r"\bWEBOID_[A-Z_]+\b", file.read_text())}

    assert "WEBOID_COLLECTION" in named
    assert {name for name in named if f"`{name}`" not in environment_page()} == set()


def test_every_global_option_has_a_variable() -> None:
    """Of the program's name; `NO_COLOR` besides, as other programs have it."""
    for option in weboid.params:
        if option.name in ("version", "help"):
            continue
        names = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
        assert [each for each in names if each.startswith("WEBOID_")], option.name


def test_the_short_helps_are_those_of_the_commands() -> None:
    """Groups list their commands from a table, which is made from the commands' own help."""
    assert SHORT_HELP_FILE.read_text(encoding="utf-8") == short_help_table()


def test_the_help_of_every_command_fits_eighty_columns() -> None:
    """As a terminal has them."""
    wide = [
        line
        for path, command in walk_commands()
        for line in command.get_help(click.Context(command, info_name=path, terminal_width=80)).splitlines()
        if len(line) > 80
    ]

    assert wide == []


def test_no_short_help_is_cut_in_eighty_columns() -> None:
    """Lists of commands end no line with an ellipsis."""
    cut = [
        line
        for path, command in walk_commands()
        if isinstance(command, click.Group)
        for line in command.get_help(click.Context(command, info_name=path, terminal_width=80)).splitlines()
        if line.endswith("...") and not line.startswith("Usage:")
    ]

    assert cut == []
