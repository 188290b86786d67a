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
from click.testing import CliRunner, Result

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
    """Check each line of JSON against the command's schema. Raises AssertionError."""
    if "--json" not in arguments:
        return
    path = command_path(arguments)
    values = [json.loads(line) for line in output.splitlines() if line[:1] in ("{", "[")]
    if folder := os.environ.get(RECORD_FOLDER):
        _record(Path(folder), path, values)
    elif path in schemas():
        for value in values:
            faults = [
                f"{'.'.join(map(str, each.instance_path))}: {each.message}"
                for each in _validator(path).iter_errors(value)
            ]
            assert not faults, (
                f"{path} --json does not fit docs/reference/json-outputs.json "
                f"(see scripts/json_outputs.py): {faults[:5]}"
            )


def _record(folder: Path, path: str, values: list[Any]) -> None:
    for value in values:
        text = json.dumps({"command": path, "value": value})
        name = hashlib.sha256(text.encode()).hexdigest()[:20]
        (folder / f"{name}.json").write_text(text)


def install() -> None:
    """Check every call of the command line by Click's test runner."""
    invoke = CliRunner.invoke

    @functools.wraps(invoke)
    def checked(self: CliRunner, cli: click.Command, args: Any = None, **extra: Any) -> Result:
        result = invoke(self, cli, args, **extra)
        is_ended = result.exception is None or isinstance(result.exception, SystemExit)
        if cli is weboid and isinstance(args, list | tuple) and is_ended:
            check_output(list(args), result.stdout)
        return result

    CliRunner.invoke = checked  # type: ignore[method-assign, assignment]
