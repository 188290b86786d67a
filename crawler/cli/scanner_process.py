"""The virus scanner beside what archives and serves, where clamd is found: `weboid scan`, as a process."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from crawler.cli.together import WEBOID
from playback.database import INDEX_URL
from playback.scanning.clamd import find_clamd

END_S: Final = 30.0  # for the payload under way
_Command = TypeVar("_Command", bound=Callable[..., Any])


def scan_option(command: _Command) -> _Command:
    """`--scan/--no-scan`."""
    option = click.option(
        "--scan/--no-scan",
        default=True,
        help="Show what is archived to clamd, where one is found (docs/scanning.md).  [default: scan]",
    )
    return option(command)


def scan_once(collection: Path, database_url: str) -> None:
    """Scan what has no verdict yet, where clamd is found; what it finds is said on standard error."""
    clamd = find_clamd(os.environ)
    if clamd:
        command = _command(collection, clamd)
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=2,
            env=_environment(database_url),
            check=False,
        )


@contextmanager
def scanning_beside(collection: Path, database_url: str) -> Iterator[None]:
    """Scan what comes until the end of the block, where clamd is found."""
    clamd = find_clamd(os.environ)
    if not clamd or not os.access(collection, os.W_OK):
        yield
        return
    process = subprocess.Popen(
        # Should we be killed, the kernel ends it.
        ("setpriv", "--pdeathsig", "TERM", *_command(collection, clamd), "--watch"),  # noqa: S607
        stdin=subprocess.DEVNULL,
        stdout=2,
        env=_environment(database_url),
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _command(collection: Path, clamd: str) -> tuple[str, ...]:
    return (*WEBOID, "scan", f"--collection={collection}", f"--clamd={clamd}")


def _environment(database_url: str) -> dict[str, str]:
    """Return ours with the index: a command line shows its password to everyone."""
    return {**os.environ, **({INDEX_URL: database_url} if database_url else {})}
