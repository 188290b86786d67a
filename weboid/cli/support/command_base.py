"""Lazily imported click groups, groups with a default command, and exit codes."""

from collections.abc import Mapping
from enum import IntEnum
from importlib import import_module
from typing import Any

import click

from core.errors import (
    CollectionInUseError,
    CollectionVersionError,
    DiskFullError,
    InputError,
    TransientError,
    UnavailableError,
    WeboidError,
)
from weboid.cli.support.short_help import SHORT_HELP


class ExitCode(IntEnum):
    """Exit codes of commands."""

    OK = 0  # all that was asked for is done
    # fmt: off
    SOME_FAILED = 1  # done, but pages failed, lines were no URLs, `verify` found faults, or pictures differ
    # fmt: on
    INPUT = 2  # an argument, or a file that it names, is invalid
    UNAVAILABLE = 3  # something must be installed or started first; see `weboid doctor`
    DISK_FULL = 4  # free some space, then run the same command again
    COLLECTION = 5  # the collection is in use, or of another version
    STOPPED = 6  # stopped on request; the same command continues where it stopped
    INTERNAL = 70  # our own mistake


def exit_code_for(error: WeboidError) -> ExitCode:
    """Return the exit code of an error."""
    match error:
        case InputError():
            return ExitCode.INPUT
        case DiskFullError():
            return ExitCode.DISK_FULL
        case CollectionInUseError() | CollectionVersionError():
            return ExitCode.COLLECTION
        case UnavailableError() | TransientError():
            return ExitCode.UNAVAILABLE
        case _:
            return ExitCode.INTERNAL


class LazyGroup(click.Group):
    """Group whose commands are imported on use, which keeps `weboid --help` fast."""

    def __init__(self, *args: Any, commands_at: Mapping[str, str], **kwargs: Any) -> None:
        """Create the group from names and ``module`` (its `command`) or ``module:object`` paths."""
        super().__init__(*args, **kwargs)
        self._commands_at = commands_at

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return every command's name."""
        return sorted(self._commands_at)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Return the command of that name; None when there is none."""
        if name not in self._commands_at:
            return None
        module, _, attribute = self._commands_at[name].partition(":")
        command = getattr(import_module(module), attribute or "command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table of short helps, without importing them."""
        path: list[str] = []
        at: click.Context | None = ctx
        while at is not None and at.parent is not None:
            path.insert(0, at.info_name or "")
            at = at.parent
        known = SHORT_HELP.get(" ".join(path), {})
        names = self.list_commands(ctx)
        if set(names) != set(known):
            super().format_commands(ctx, formatter)
            return
        limit = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, click.Command(name, help=known[name]).get_short_help_str(limit))
                    for name in names
                ]
            )


class GroupWithDefault(click.Group):
    """Group with a default action: a first word that names no subcommand is its own argument."""

    allow_interspersed_args = True  # as a command: `weboid archive URL --json`

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, or leave them to the subcommand that the first one names."""
        if args and args[0] in self.list_commands(ctx):
            ctx.invoked_subcommand = args[0]
            ctx.args = list(args)
            return ctx.args
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand that was named, or this one."""
        if ctx.invoked_subcommand is None:
            return click.Command.invoke(self, ctx)
        name, command, rest = self.resolve_command(ctx, ctx.args)
        assert command is not None
        with command.make_context(name, rest, parent=ctx) as below:
            return command.invoke(below)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return its own parameters; without its arguments in the usage of a subcommand."""
        params = super().get_params(ctx)
        if ctx.command is self:
            return params
        return [each for each in params if not isinstance(each, click.Argument)]

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage of a plain command; subcommands are listed below the options."""
        return click.Command.collect_usage_pieces(self, ctx)


class LazyGroupWithDefault(LazyGroup, GroupWithDefault):
    """Group with a default action, whose subcommands are imported on use."""
