"""Root command `weboid`, its `main()`, and its groups of lazily imported commands."""

import errno
import json
import logging
import os
import platform
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Never

import click

from core.clock import CLOCK_OFFSET
from core.clock import clock_offset as offset_now
from core.errors import DiskFullError, WeboidError, is_disk_full
from core.timestamps import format_duration
from weboid.cli.support import commands


def with_current_name(args: list[str]) -> list[str]:
    """Return the arguments with a command's present name for a former one, and report that."""
    for former in sorted(commands.FORMER_NAMES, key=len, reverse=True):
        words, present = former.split(), commands.FORMER_NAMES[former].split()
        flag = words.pop() if words[-1].startswith("--") else ""
        rest = args[len(words) :]
        is_present = flag and rest[:1] == present[len(words) :][:1]
        typed = [each if each in words else commands.VERBS.get(each, each) for each in args[: len(words)]]
        if typed != words or (flag and flag not in rest) or is_present:
            continue
        if flag:
            rest.remove(flag)
        click.echo(f"`weboid {former}` is now `weboid {commands.FORMER_NAMES[former]}`.", err=True)
        return [*present, *rest]
    return args


class _RootGroup(commands.LazyGroup):
    """Group of all commands, which takes former names of commands, too."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the arguments' present or former name; `help COMMAND` is its --help."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
        return super().resolve_command(ctx, with_current_name(args))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; it has succeeded when the reader of its output closes the pipe, as `head` does."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            output = select.poll()
            output.register(sys.stdout.fileno(), 0)
            if not output.poll(0):  # no error of standard output: another pipe is broken
                raise
            _discard_output()
            return commands.ExitCode.OK


def _discard_output() -> None:
    """Discard what is still to be written to standard output, which the interpreter would write at its end."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


class _JsonFormatter(logging.Formatter):
    """Log lines as JSON objects: time, level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False)


def _print_versions(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 of click
    """Print the versions of the program, its libraries and the browser, and end."""
    if not value:
        return
    from importlib.metadata import version

    from render.chromium import find_browser

    click.echo(f"weboid, version {version('weboid')}")
    try:
        browser = find_browser()
        click.echo(f"browser {browser.version} ({browser.path})")
    except WeboidError:
        click.echo("browser: none found; see `weboid doctor`")
    libraries = ("warcio", "nh3", "pillow", "sqlalchemy", "redis", "click")
    click.echo(", ".join(f"{name} {version(name)}" for name in libraries))
    click.echo(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    context.exit()


@click.group(
    cls=_RootGroup, commands_at=commands.COMMANDS["weboid"], sections=commands.COMMANDS["sections"], rare="alive sheet"
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Show the versions of program, browser and libraries, and exit.",
)
@click.option("-q", "--quiet", is_flag=True, envvar="WEBOID_QUIET", help="Print errors and results only.")
@click.option("-v", "--verbose", is_flag=True, envvar="WEBOID_VERBOSE", help="Log more details.")
@click.option("--no-color", is_flag=True, envvar="WEBOID_NO_COLOR", help="Print without colours.")
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    envvar="WEBOID_LOG_FORMAT",
    help="Format of log lines on standard error.",
)
@click.option(
    "--clock-offset",
    metavar="DURATION",
    envvar=CLOCK_OFFSET,
    help="Move the clock forward, on the copy of a trial (`weboid wiki trial --keep DIR`): 10d.",
)
@click.pass_context
def weboid(
    context: click.Context, *, quiet: bool, verbose: bool, no_color: bool, log_format: str, clock_offset: str | None
) -> None:
    """Archive web pages, or what a wiki cites; replay them safely; check links."""
    if clock_offset:
        os.environ[CLOCK_OFFSET] = clock_offset  # the processes that we start have the same time
    if moved := offset_now():
        click.echo(
            f"weboid: the clock is moved by {format_duration(moved.total_seconds())}: this is a trial.", err=True
        )
    if no_color or os.environ.get("NO_COLOR"):  # https://no-color.org
        os.environ["NO_COLOR"] = "1"
        context.color = False
    handler = logging.StreamHandler(sys.stderr)
    is_json = log_format == "json"
    handler.setFormatter(_JsonFormatter() if is_json else logging.Formatter("%(levelname)s %(message)s"))
    level = logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, handlers=[handler])
    context.meta[commands.QUIET] = quiet


def main(arguments: Sequence[str] | None = None) -> Never:
    """Run the command line; every expected error ends with a message and its exit code."""
    os.umask(os.umask(0o077) | 0o007)  # what we write is for the owner, and for a group if he likes
    # A standard stream that the shell closed (>&-): else the next file, a WARC or database, would get its number.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode)  # noqa: SIM115 for the process's life
            os.set_inheritable(stream.fileno(), True)  # noqa: FBT003 positional only
            setattr(sys, name, stream)
    try:
        code = weboid.main(arguments, prog_name="weboid", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else commands.ExitCode.OK)
    except click.ClickException as error:
        error.show()
        sys.exit(commands.ExitCode.INPUT)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(commands.ExitCode.STOPPED)
    except WeboidError as error:
        cause: BaseException | None = error
        while cause is not None and not is_disk_full(cause):
            cause = cause.__cause__
        if cause is not None and not isinstance(error, DiskFullError):
            sys.exit(_report_full_disk(str(error)))
        click.echo(f"weboid: {error}", err=True)
        sys.exit(commands.exit_code_for(error))
    except Exception as error:  # noqa: BLE001 the exit code is for scripts
        sys.exit(_report_unexpected(error))


def _report_unexpected(error: Exception) -> commands.ExitCode:
    """Print an error that no command expects, of the machine in one line; return its exit code."""
    import sqlite3
    import traceback

    number = error.errno if isinstance(error, OSError) else None
    text = f"{error.filename or 'the output'}: {error.strerror}" if isinstance(error, OSError) else str(error)
    is_database = isinstance(error, sqlite3.OperationalError)
    if is_disk_full(error):
        return _report_full_disk(text)
    if number == errno.ENAMETOOLONG:
        click.echo(f"weboid: {text}.", err=True)
        return commands.ExitCode.INPUT
    if number in {errno.EACCES, errno.EPERM, errno.EROFS}:
        click.echo(f"weboid: {text}. Run the command as its owner, or change the rights.", err=True)
        return commands.ExitCode.UNAVAILABLE
    if is_database:
        click.echo(f"weboid: {text}. Check who may write the collection, and its free space.", err=True)
        return commands.ExitCode.UNAVAILABLE
    traceback.print_exc()
    click.echo("weboid: This is a fault of the program: report it with these lines and `weboid --version`.", err=True)
    return commands.ExitCode.INTERNAL


def _report_full_disk(text: str) -> commands.ExitCode:
    """Print what could not be written; return the exit code."""
    click.echo(f"weboid: The disk is full ({text.rstrip('.')}). Free some space, then run the command again.", err=True)
    _discard_output()
    return commands.ExitCode.DISK_FULL


@commands.cli_command(
    "links",
    cls=commands.LazyGroup,
    commands_at=commands.COMMANDS["links"],
    rare="add-page confirm exclude interwiki mirror passes purge recognise report spam",
    has_json=False,
)
def links_group() -> None:
    """Manage the registry of cited links and their state.

    The registry stores every external link of every known page, checks each for years, and answers
    at once. See docs/reference/registry.md.
    """


@commands.cli_command(
    "wiki", cls=commands.LazyGroup, commands_at=commands.COMMANDS["wiki"], rare="read repair set sweep", has_json=False
)
def wiki_group() -> None:
    """Archive the pages a wiki cites, and watch their links.

    Nothing has to be installed in the wiki: its API is polled for changes. See docs/how-to/wiki.md.
    """


@commands.cli_command("bot", cls=commands.LazyGroup, commands_at=commands.COMMANDS["bot"], has_json=False)
def bot_group() -> None:
    """Repair citations of dead links on a wiki, as a bot. See docs/how-to/bot.md.

    Nothing is edited until `on` has named an account of the bot's own; `run --dry-run` shows the
    planned edits before that. NAME may be omitted where one wiki is known.
    """


@commands.cli_command(
    "embed", cls=commands.LazyGroup, commands_at=commands.COMMANDS["embed"], rare="urls", has_json=False
)
def embed_group() -> None:
    """Insert the cached copy next to each external link of any HTML.

    For wikis of every engine, and for sites of plain files: nothing is installed there. See docs/how-to/embedding.md.
    """
