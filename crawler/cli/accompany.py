"""`--qa` of the commands that archive: who looks at the copies while a run goes on."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import click

from core.errors import InputError
from core.settings import Settings
from crawler.companion import Companion

_Command = TypeVar("_Command", bound=Callable[..., Any])


def qa_option(command: _Command) -> _Command:
    """`--qa`."""
    option = click.option(
        "--qa/--no-qa",
        "qa",
        default=None,
        help="Look at the copies of pages as they are archived, and capture again what is broken."
        "  [default: as the profile says]",
    )
    return option(command)


def companion_for(settings: Settings, *, qa: bool | None) -> Companion | None:
    """Who works beside the run; None: nobody, and nothing of it is loaded.

    Raises:
        InputError: it is wanted where others archive.
    """
    if qa and settings.frontier.url:
        raise InputError(
            "Pages of a shared frontier are archived elsewhere: look at their copies with `weboid qa`."
        )
    wanted = settings.quality.check if qa is None else qa
    if not wanted or settings.frontier.url:
        return None
    companion: Companion = import_module("crawler.cli.qa.beside").checks_beside(settings.quality)
    return companion
