"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def collection_option(command: _Command) -> _Command:
    """`--collection DIR`."""
    option = click.option(
        "--collection",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("collection"),
        show_default=True,
        help="The folder that holds WARCs, index and frontier.",
    )
    return option(command)


def json_option(command: _Command) -> _Command:
    """`--json`."""
    option = click.option("--json", "as_json", is_flag=True, help="JSON for machines.")
    return option(command)


def profile_option(command: _Command) -> _Command:
    """`--profile NAME`."""
    option = click.option(
        "--profile",
        default="default",
        show_default=True,
        help="A profile's name, or the path of a TOML file.",
    )
    return option(command)


def frontier_option(command: _Command) -> _Command:
    """`--frontier URL`."""
    option = click.option(
        "--frontier",
        "frontier_url",
        default="",
        metavar="URL",
        help="A frontier in Redis, redis://host:port/number?frontier=NAME, instead of the "
        "collection's own.",
    )
    return option(command)
