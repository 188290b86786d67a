"""The command line: commands translate, the packages work."""

import logging
import sys
from importlib import import_module
from importlib.metadata import version

import click

from core.errors import WeboidError
from crawler.cli.exits import Exit, exit_for

# Loaded when they are called, so that `weboid --help` does not load the world. A module's `command`,
# or what stands behind the colon.
_COMMANDS = {
    "alive": "crawler.cli.alive",
    "archive": "crawler.cli.archive",
    "cache": "crawler.cli.cache",
    "crawl": "crawler.cli.crawl",
    "doctor": "crawler.cli.doctor",
    "enqueue": "crawler.cli.enqueue",
    "frontier": "crawler.cli.frontier",
    "hosts": "crawler.cli.hosts:hosts",
    "index": "crawler.cli.index",
    "level": "crawler.cli.level",
    "login": "crawler.cli.login",
    "monitor": "crawler.cli.monitor",
    "pause": "crawler.cli.steer:pause",
    "pause-host": "crawler.cli.hosts:pause_host",
    "playback": "crawler.cli.score:playback",
    "policy": "crawler.cli.policy",
    "resume": "crawler.cli.steer:resume",
    "resume-host": "crawler.cli.hosts:resume_host",
    "profile": "crawler.cli.profile",
    "proxy": "crawler.cli.proxy",
    "scan": "crawler.cli.scan",
    "serve": "crawler.cli.serve",
    "sheet": "crawler.cli.sheet",
    "status": "crawler.cli.status",
    "takedown": "crawler.cli.takedown",
    "worker": "crawler.cli.worker",
    "stop": "crawler.cli.steer:stop",
}


class LazyGroup(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Every command's name."""
        return sorted(_COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """The command of that name; None when there is none."""
        if name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[name].partition(":")
        command = getattr(import_module(module), attribute or "command")
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup)
@click.version_option(version("weboid"), prog_name="weboid")
@click.option("-v", "--verbose", is_flag=True, help="Say more about what goes on.")
def weboid(*, verbose: bool) -> None:
    """Archive what a wiki cites, and play it back safely."""
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(message)s", stream=sys.stderr)


def main() -> None:
    """Run the command line; every expected error ends with a sentence and its exit code."""
    try:
        code = weboid.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else Exit.OK)
    except click.ClickException as error:
        error.show()
        sys.exit(Exit.INPUT)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(Exit.STOPPED)
    except WeboidError as error:
        click.echo(f"weboid: {error}", err=True)
        sys.exit(exit_for(error))
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has had enough
        sys.exit(Exit.OK)
