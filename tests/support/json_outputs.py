"""Schemas of the commands' JSON outputs, checked whenever a test runs a command with ``--json``.

The schemas are in ``docs/reference/json-outputs.json``. With the environment variable WEBOID_RECORD_JSON
the outputs are written into that folder instead, from which ``python -m scripts.json_outputs FOLDER``
extends the schemas.
"""

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import jsonschema_rs

from weboid.cli.main import weboid

SCHEMAS_FILE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json-outputs.json"
RECORD_FOLDER = "WEBOID_RECORD_JSON"


def command_path(arguments: Iterable[str]) -> str:
    """Return the command that the arguments name, such as ``weboid links ls``."""
    command: click.Command = weboid
    words = ["weboid"]
    for word in arguments:
        if not isinstance(command, click.Group) or word.startswith("-"):
            break
        child = command.get_command(click.Context(command), word)
        if child is None:
            break
        command = child
        words.append(command.name or word)
    return " ".join(words)


@functools.cache
def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of one line of output of each command."""
    return dict(json.loads(SCHEMAS_FILE.read_text(encoding="utf-8"))["commands"])


@functools.cache
def _validator(path: str) -> Any:
    return jsonschema_rs.validator_for(schemas()[path])


def check_output(arguments: Sequence[str], output: str) -> None:
    """Check the lines that a command printed in a process of its own. Raises AssertionError."""
    if "--json" in arguments:
        path = command_path(arguments)
        for line in output.splitlines():
            check_line(path, line)


def check_line(path: str, line: str) -> None:
    """Check a line of JSON against the command's schema. Raises AssertionError."""
    if line[:1] not in ("{", "["):
        return
    value = json.loads(line)
    if folder := os.environ.get(RECORD_FOLDER):
        _record(Path(folder), path, value)
    elif path in schemas():
        faults = [
            f"{'.'.join(map(str, each.instance_path))}: {each.message}" for each in _validator(path).iter_errors(value)
        ]
        assert not faults, (
            f"{path} --json does not fit docs/reference/json-outputs.json (see scripts/json_outputs.py): {faults[:5]}"
        )


def _record(folder: Path, path: str, value: object) -> None:
    text = json.dumps({"command": path, "value": value})
    name = hashlib.sha256(text.encode()).hexdigest()[:20]
    (folder / f"{name}.json").write_text(text)


def install() -> None:
    """Check what commands print by `click.echo` in this process while their ``--json`` is given."""
    echo = click.echo

    @functools.wraps(echo)
    def checked(message: Any = None, *arguments: Any, **extra: Any) -> None:
        context = click.get_current_context(silent=True)
        is_error = bool(extra.get("err"))
        if context is not None and not is_error and isinstance(message, str) and _is_json(context):
            check_line(context.command_path, message)
        echo(message, *arguments, **extra)

    click.echo = checked


def _is_json(context: click.Context) -> bool:
    flags = [each.name for each in context.command.params if "--json" in each.opts]
    return any(name and context.params.get(name) for name in flags)
