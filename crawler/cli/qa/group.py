"""`weboid qa`: whether what was kept is what the visitor saw."""

import click

from crawler.cli.groups import LazyGroup

_COMMANDS: dict[str, str] = {
    "baseline": "crawler.cli.qa.baseline",
    "compare": "crawler.cli.qa.compare",
    "drift": "crawler.cli.qa.drift",
}


@click.command("qa", cls=LazyGroup, commands_at=_COMMANDS)
def command() -> None:
    """Hold what was kept against what the visitor saw."""
