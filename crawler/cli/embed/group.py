"""`weboid embed`: cached copies beside the links of any HTML."""

import click

from crawler.cli.groups import LazyGroup

_COMMANDS: dict[str, str] = {
    "filter": "crawler.cli.embed.filtering",
    "proxy": "crawler.cli.embed.proxying",
    "urls": "crawler.cli.embed.urls",
}


@click.command("embed", cls=LazyGroup, commands_at=_COMMANDS)
def command() -> None:
    """Put the cached copy beside each external link of any HTML.

    For wikis of every engine, and for sites of plain files: nothing is installed there. See
    docs/embedding.md.
    """
