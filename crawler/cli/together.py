"""What else runs where a wiki is watched: archiving, checking, confirming, serving, each a command.

On one machine these share the collection's folder, and nobody has to know that they are many. In a
cluster each is a service of its own (docker-compose.yml), and the watcher runs alone (`--feed-only`).
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from core.settings import LinksSettings
from crawler.cli.tables import clean
from crawler.household import Ended, Part, Said, why

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_WEBOID = (sys.executable, "-m", "crawler.cli")


@dataclass(frozen=True, slots=True)
class Home:
    """Where the household works.

    Attributes:
        collection: the folder.
        profile: its name or path.
        frontier_url: of a shared frontier, whose workers archive; empty: we do.
        database_url: of a shared index and registry; empty: the collection's own.
        workers: visits at the same time.
        serve: where readers are served, (host, port); None: nowhere.
        internal: networks whose callers ask that front about links as often as they like.
        as_json: parts speak JSON lines.
        qa: look at the copies of what is archived; None: as the profile says.
    """

    collection: Path
    profile: str
    frontier_url: str = ""
    database_url: str = ""
    workers: int = 1
    serve: tuple[str, int] | None = None
    internal: tuple[str, ...] = ()
    as_json: bool = False
    qa: bool | None = None


def parts_of(home: Home, links: LinksSettings) -> list[Part]:
    """The commands that run beside a watcher; `links` is what the profile says of links."""
    found = [
        _part(home, "check", "links check --watch"),
        _part(home, "confirm", "links confirm --every=5m --hand-over"),
        # Does nothing where no wiki has its bot switched on.
        _part(home, "bot", "wiki bot run --all", every_s=_HOUR, first_s=_MINUTE),
        _part(home, "replace", "links replace --test", every_s=_DAY, first_s=5 * _MINUTE),
        _part(home, "purge", "links purge", every_s=_DAY, first_s=30 * _MINUTE),
    ]
    if not home.frontier_url:
        looks = {None: "", True: " --qa", False: " --no-qa"}[home.qa]
        crew = _part(home, "archive", f"archive --stay --workers={home.workers}{looks}")
        found.insert(0, crew)
    if links.archives:
        found += [
            _part(home, "copies", "links copies --find", every_s=_HOUR, first_s=10 * _MINUTE),
            _part(home, "verify", "links copies --verify", every_s=_DAY, first_s=20 * _MINUTE),
        ]
    if links.mirror != "never":
        found.append(_part(home, "mirror", "links mirror --every=10m"))
    if home.serve is not None:
        found.append(_serving(home, *home.serve))
    return found


def speaker(*, as_json: bool) -> Callable[[Said | Ended], None]:
    """Tells what parts say: their lines behind their names, or as JSON lines with ``part``."""

    def tell(event: Said | Ended) -> None:
        if isinstance(event, Ended):
            again = f"started again in {event.again_s:.0f} s"
            facts = {"event": "ended", "code": event.code, "again_s": event.again_s}
            text = f"ended ({why(event.code)}), {again}"
        else:
            facts, text = _read(event.line), clean(event.line)
        if as_json:
            click.echo(json.dumps({"part": event.part, **facts}, ensure_ascii=False))
        else:
            click.echo(f"{event.part:>8} | {text}")

    return tell


def _read(line: str) -> dict[str, object]:
    """A line as facts; one that is no JSON object is told as it is."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"event": "said", "line": line}


def environment_of(home: Home) -> dict[str, str]:
    """The shared stores, for the parts: a command line shows passwords to everyone."""
    named = {
        "WEBOID_FRONTIER": home.frontier_url,
        "WEBOID_DATABASE": home.database_url,
    }
    return {name: value for name, value in named.items() if value}


def _part(home: Home, name: str, words: str, *, every_s: float = 0.0, first_s: float = 0.0) -> Part:
    options = [f"--collection={home.collection}", f"--profile={home.profile}"]
    if home.as_json:
        options.append("--json")
    return Part(name, (*_WEBOID, *words.split(), *options), every_s, first_s)


def _serving(home: Home, host: str, port: int) -> Part:
    options = (f"--collection={home.collection}", f"--host={host}", f"--port={port}")
    internal = (f"--links-internal={each}" for each in home.internal)
    return Part("serve", (*_WEBOID, "serve", *options, *internal))
