"""`weboid links`: what is cited where, and whether it still works."""

import click

from crawler.cli.groups import LazyGroup

_COMMANDS: dict[str, str] = {
    "confirm": "crawler.cli.links.confirm",
    "copies": "crawler.cli.links.copies",
    "recognise": "crawler.cli.links.recognise",
}


@click.command("links", cls=LazyGroup, commands_at=_COMMANDS)
def command() -> None:
    """Know what is cited where, and whether it still works.

    The registry keeps every external link of every page it is told of, looks at each for years, and
    answers at once. See docs/registry.md.
    """
