"""The command line: commands translate, the packages work."""

import logging
import sys
from importlib.metadata import version

import click

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
