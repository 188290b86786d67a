"""Which checks a command is about: the filters of the report, as options."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from core.classes import PageClass
from core.quality import Fault, Verdict
from links.books.quality import Filter
from playback.decisions.levels import Level
from playback.front.quality.asking import UNCHECKED, parse_filter

_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option(
        "--verdict",
        type=click.Choice([*filter(None, map(str, Verdict)), UNCHECKED]),
        help="Only these: a person's verdict counts before the machine's.",
    ),
    click.option("--host", metavar="HOST", help="Only pages of that host."),
    click.option(
        "--class",
        "page_class",
        type=click.Choice([*filter(None, map(str, PageClass))]),
        help="Only visits that were shown this.",
    ),
    click.option(
        "--fault", type=click.Choice([*map(str, Fault)]), help="Only copies with this fault."
    ),
    click.option("--below", metavar="SCORE", help="Only scores below it: 0.8, or 80%."),
    click.option("--level", type=click.Choice([*map(str, Level)]), help="Only checks at it."),
    click.option("--unreviewed", is_flag=True, help="Only what no person has judged."),
)


def filter_options(command: _Command) -> _Command:
    """The options; `filter_of` takes their values."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def filter_of(given: dict[str, Any]) -> Filter:
    """The filter that the options' values name.

    Raises:
        InputError: the host or the score is none.
    """
    named = {
        "verdict": given["verdict"],
        "host": given["host"],
        "class": given["page_class"],
        "fault": given["fault"],
        "below": given["below"],
        "level": given["level"],
        "unreviewed": "1" if given["unreviewed"] else "",
    }
    return parse_filter({name: value or "" for name, value in named.items()})
