"""The program's commands, with the words that call them."""

from collections.abc import Iterator

import click

from weboid.cli.main import weboid


def walk_commands(command: click.Command = weboid, path: str = "weboid") -> Iterator[tuple[str, click.Command]]:
    """Yield the command and all below it with their paths, such as ``weboid links ls``, in order."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from walk_commands(child, f"{path} {name}")
