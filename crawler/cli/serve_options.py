"""Options of a front that is open to readers: for `weboid serve`, and for `weboid wiki watch --serve`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from core.errors import ConfigError
from playback.front.readers import parse_networks

_Command = TypeVar("_Command", bound=Callable[..., Any])
_LAST_PORT = 65_535
_NETWORKS = ("behind", "links_internal", "reviewers")

_OPTIONS = (
    click.option(
        "--replay-port",
        type=click.IntRange(0, _LAST_PORT),
        help="The copies' port, another origin; 0: a free one.  [default: the pages' port + 1]",
    ),
    click.option(
        "--origin", default="", help="The pages' origin as readers see it: https://a.example."
    ),
    click.option(
        "--replay-origin", default="", help="The copies' origin as readers see it: another."
    ),
    click.option(
        "--behind",
        multiple=True,
        metavar="NETWORK",
        help="A reverse proxy whose X-Forwarded-For tells who asks; may be given several times.",
    ),
    click.option(
        "--links-internal",
        multiple=True,
        metavar="NETWORK",
        help="Callers who may ask the link registry as often as they like, such as the wiki's own"
        " server; may be given several times.",
    ),
    click.option(
        "--links-token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The same for callers from elsewhere who send what it holds as `Authorization: Bearer …`.",
    ),
    click.option(
        "--reviewers",
        multiple=True,
        metavar="NETWORK",
        help="Whose people may judge copies at /quality; may be given several times.",
    ),
    click.option(
        "--reviewers-token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The same for people elsewhere: their password there, under any name, is what it holds.",
    ),
)


def serve_options(command: _Command) -> _Command:
    """Add the options: where copies are, what readers see of it, and who may do more than others."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def serve_words(options: dict[str, Any]) -> tuple[str, ...]:
    """Return the options that were given as words of a command line, checked.

    Raises:
        ConfigError: a network or an origin is none: said now, and not again and again by the front.
    """
    for name in _NETWORKS:
        parse_networks(options.get(name) or ())
    if options.get("origin") or options.get("replay_origin"):
        check_origins(options.get("origin", ""), options.get("replay_origin", ""))
    words = []
    for name, value in options.items():
        given = value if isinstance(value, tuple) else () if value in (None, "") else (value,)
        words += [f"--{name.replace('_', '-')}={each}" for each in given]
    return tuple(words)


def check_origins(front: str, replay: str) -> None:
    """Return when both are origins.

    Raises:
        ConfigError: one is missing, or is something else.
    """
    for name, text in (("--origin", front), ("--replay-origin", replay)):
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.netloc or any(parts[2:]):
            raise ConfigError(
                f"{name} must be an origin like https://archive.example, not {text!r}."
            )


def replay_port_for(port: int, named: int | None) -> int:
    """Return the copies' port: the named one, else the pages' port + 1, so that a restart keeps it.

    >>> replay_port_for(8080, None), replay_port_for(0, None), replay_port_for(8080, 9000)
    (8081, 0, 9000)
    """
    if named is not None:
        return named
    return port + 1 if 0 < port < _LAST_PORT else 0
