"""`weboid wiki`: what a wiki cites is archived when it is saved, and watched."""

import click

from crawler.cli.groups import LazyGroup

_COMMANDS: dict[str, str] = {
    "add": "crawler.cli.wiki.add",
    "bot": "crawler.cli.wiki.bot",
    "check": "crawler.cli.wiki.check",
    "ls": "crawler.cli.wiki.ls",
    "read": "crawler.cli.wiki.read",
    "repair": "crawler.cli.wiki.repair",
    "sweep": "crawler.cli.wiki.sweep",
    "trial": "crawler.cli.wiki.trial",
    "watch": "crawler.cli.wiki.watch",
}


@click.command("wiki", cls=LazyGroup, commands_at=_COMMANDS)
def command() -> None:
    """Archive what a wiki cites, and watch over it.

    Nothing need be installed in the wiki: its API is asked what has changed. See docs/wiki.md.
    """
