"""Options that several commands share."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from core.index_url import parse_index_url
from core.settings import Settings
from playback.database import INDEX_URL

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


def database_option(command: _Command) -> _Command:
    """`--database URL`, or the environment variable: a command line shows its password to everyone."""
    option = click.option(
        "--database",
        "database_url",
        default="",
        envvar=INDEX_URL,
        show_envvar=True,
        metavar="URL",
        help="A captures index in PostgreSQL, postgresql://user@host:port/name, instead of the "
        "collection's own.",
    )
    return option(command)


def with_database(settings: Settings, url: str) -> Settings:
    """The settings with the index that `--database` names; as they are without it.

    Raises:
        ConfigError: it names none.
    """
    if not url:
        return settings
    parse_index_url(url)
    return replace(settings, index=replace(settings.index, url=url))
