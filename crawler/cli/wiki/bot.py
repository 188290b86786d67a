"""`weboid wiki bot`: citations of dead links mended on the wiki itself; off until it is switched on."""

import click

from crawler.cli.groups import LazyGroup

_COMMANDS: dict[str, str] = {
    "edits": "crawler.cli.wiki.bot_shown:edits_command",
    "off": "crawler.cli.wiki.bot_switch:off_command",
    "on": "crawler.cli.wiki.bot_switch:on_command",
    "review": "crawler.cli.wiki.bot_shown:review_command",
    "run": "crawler.cli.wiki.bot_run",
    "status": "crawler.cli.wiki.bot_shown:status_command",
}


@click.command("bot", cls=LazyGroup, commands_at=_COMMANDS)
def command() -> None:
    """Mend citations of dead links on a wiki, as a bot. See docs/bot.md.

    Nothing is edited until `on` has named an account of the bot's own; `run --dry-run` shows before
    that what would be. NAME may be left out where one wiki is known.
    """
