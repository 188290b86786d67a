"""The command line: commands translate, the packages work."""

import logging
import os
import sys
from importlib.metadata import version

import click

from core.clock import CLOCK_OFFSET
from core.clock import clock_offset as offset_now
from core.errors import WeboidError
from crawler.cli.exits import Exit, exit_for
from crawler.cli.groups import LazyGroup

_COMMANDS = {
    "alive": "crawler.cli.alive",
    "archive": "crawler.cli.archive",
    "cache": "crawler.cli.cache",
    "crawl": "crawler.cli.crawl",
    "diff": "crawler.cli.diff",
    "doctor": "crawler.cli.doctor",
    "embed": "crawler.cli.embed.group",
    "enqueue": "crawler.cli.enqueue",
    "frontier": "crawler.cli.frontier",
    "hosts": "crawler.cli.hosts:hosts",
    "index": "crawler.cli.index",
    "level": "crawler.cli.level",
    "links": "crawler.cli.links.group",
    "login": "crawler.cli.login",
    "monitor": "crawler.cli.monitor",
    "pause": "crawler.cli.steer:pause",
    "pause-host": "crawler.cli.hosts:pause_host",
    "policy": "crawler.cli.policy",
    "qa": "crawler.cli.qa.group",
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
    "wiki": "crawler.cli.wiki.group",
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS)
@click.version_option(version("weboid"), prog_name="weboid")
@click.option("-v", "--verbose", is_flag=True, help="Say more about what goes on.")
@click.option(
    "--clock-offset",
    metavar="DURATION",
    help="Move the clock forward, on the copy of a trial (`weboid wiki trial --keep DIR`): 10d.",
)
def weboid(*, verbose: bool, clock_offset: str | None) -> None:
    """Archive what a wiki cites, and play it back safely."""
    if clock_offset:
        os.environ[CLOCK_OFFSET] = clock_offset  # the processes that we start have the same time
    if moved := offset_now():
        click.echo(f"weboid: the clock is moved by {moved}: this is a trial.", err=True)
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(message)s", stream=sys.stderr)


def main() -> None:
    """Run the command line; every expected error ends with a sentence and its exit code."""
    os.umask(os.umask(0o077) | 0o007)  # what we write is for the owner, and for a group if he likes
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
