"""The reference pages say what the code does."""

from pathlib import Path

import click
import pytest

from scripts.reference import DOCS, PAGES, SHORT_HELP_FILE, short_help_module
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


def test_the_short_helps_are_those_of_the_commands() -> None:
    """Groups list their commands from a table, which is made from the commands' own help."""
    assert SHORT_HELP_FILE.read_text(encoding="utf-8") == short_help_module()


def test_the_help_of_every_command_fits_eighty_columns() -> None:
    """As a terminal has them."""
    wide: list[str] = []

    def walk(command: click.Command, context: click.Context) -> None:
        wide.extend(line for line in command.get_help(context).splitlines() if len(line) > 80)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                below = click.Context(child, context, name, terminal_width=80)
                walk(child, below)

    walk(weboid, click.Context(weboid, None, "weboid", terminal_width=80))

    assert wide == []
