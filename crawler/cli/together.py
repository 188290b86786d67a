"""What else runs where a wiki is watched: archiving, checking, confirming, serving, each a command.

On one machine these share the collection's folder, and nobody has to know that they are many. In a
cluster some are services of their own, and the watcher leaves them out (`--without`); or it runs alone
(`--feed-only`).
"""

import json
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import click

from core.clock import Clock
from core.settings import LinksSettings
from crawler.cli.tables import clean
from crawler.household import Ended, Part, Said, why

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_RETRY_WORDS = frozenset({"again", "later"})  # as `crawler.cli.run_lines.aside_for` begins them
_RETRIES_EVERY = timedelta(hours=1)
_RETRY_HOSTS = 10_000
# All that may run beside a watcher; `--without` takes these.
PART_NAMES = (
    *("archive", "check", "confirm", "bot", "replace", "purge", "copies", "verify", "mirror"),
    *("serve", "scan", "lists"),
)
WEBOID = (sys.executable, "-m", "crawler.cli")


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
        serve_options: further options of `weboid serve`, such as ``--replay-port=8081``.
        as_json: parts speak JSON lines.
        qa: look at the copies of what is archived; None: as the profile says.
        clamd: where a virus scanner listens; empty: there is none.
        without: names of parts that run elsewhere, of `PART_NAMES`.
    """

    collection: Path
    profile: str
    frontier_url: str = ""
    database_url: str = ""
    workers: int = 1
    serve: tuple[str, int] | None = None
    serve_options: tuple[str, ...] = ()
    as_json: bool = False
    qa: bool | None = None
    clamd: str = ""
    without: frozenset[str] = frozenset()


def parts_of(home: Home, links: LinksSettings) -> list[Part]:
    """Return the commands that run beside a watcher; `links` is what the profile says of links."""
    return [each for each in _all_parts(home, links) if each.name not in home.without]


def _all_parts(home: Home, links: LinksSettings) -> list[Part]:
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
        # What is dead when it is first seen is rescued while readers still wait for it.
        find = _part(home, "copies", "links copies --find", every_s=5 * _MINUTE, first_s=_MINUTE)
        verify = _part(home, "verify", "links copies --verify", every_s=_DAY, first_s=20 * _MINUTE)
        found += [find, verify]
    else:  # says how many links are lost because nobody is asked
        found.append(
            _part(home, "copies", "links copies --find", every_s=_DAY, first_s=10 * _MINUTE)
        )
    if links.mirror != "never":
        found.append(_part(home, "mirror", "links mirror --every=10m"))
    if not home.database_url:
        # Brings bad-address lists up to date whose files have changed; nothing where there are none.
        found.append(_bare(home, "lists", "scan lists refresh", every_s=_HOUR, first_s=_MINUTE))
    if home.clamd:
        found.append(_bare(home, "scan", f"scan --watch --clamd={home.clamd}"))
    if home.serve is not None:
        found.append(_serving(home, *home.serve))
    return found


def stamped(text: str, now: datetime) -> str:
    """Return a line of a log, with its moment before it.

    >>> stamped("check | 3 due", datetime(2026, 11, 22, 17, 5, 9))
    '2026-11-22 17:05:09 check | 3 due'
    """
    return f"{now:%Y-%m-%d %H:%M:%S} {text}"


def speaker(*, as_json: bool, clock: Clock) -> Callable[[Said | Ended], None]:
    """Tells what parts say: their lines with time and name before them, or as JSON lines with ``part``."""
    retries = _Retries()

    def tell(event: Said | Ended) -> None:
        if isinstance(event, Ended):
            again = f"started again in {event.again_s:.0f} s"
            facts = {"event": "ended", "code": event.code, "again_s": event.again_s}
            text = f"ended ({why(event.code)}), {again}"
        else:
            facts, text = _read(event.line), clean(event.line)
        if as_json:
            click.echo(json.dumps({"part": event.part, **facts}, ensure_ascii=False))
            return
        now = clock.now()
        if (line := retries.shown(text, now)) is not None:
            click.echo(stamped(f"{event.part:>8} | {line}", now))

    return tell


class _Retries:
    """Attempts at one host that bring nothing: told once, then once an hour with how many there were."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, str], tuple[datetime, int]] = OrderedDict()

    def shown(self, line: str, now: datetime) -> str | None:
        """Return the line as it is to be told; None: not now."""
        word, _, rest = line.partition(" ")
        if word not in _RETRY_WORDS:
            return line
        try:
            host = urlsplit(rest.split()[0]).netloc
        except (ValueError, IndexError):
            return line
        told, more = self._told.pop((word, host), (None, 0))
        is_told = told is None or now - told >= _RETRIES_EVERY
        if len(self._told) >= _RETRY_HOSTS:
            self._told.popitem(last=False)
        self._told[word, host] = (now, 0) if is_told or told is None else (told, more + 1)
        if not is_told:
            return None
        return f"{line} ({more} more of {host} since the last line)" if more else line


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
    named = f"{words} --profile={home.profile}"
    return _bare(home, name, named, every_s=every_s, first_s=first_s)


def _bare(home: Home, name: str, words: str, *, every_s: float = 0.0, first_s: float = 0.0) -> Part:
    """A command that takes no profile."""
    options = [f"--collection={home.collection}"]
    if home.as_json:
        options.append("--json")
    return Part(name, (*WEBOID, *words.split(), *options), every_s, first_s)


def _serving(home: Home, host: str, port: int) -> Part:
    options = (f"--collection={home.collection}", f"--host={host}", f"--port={port}")
    # The household scans by itself.
    return Part("serve", (*WEBOID, "serve", "--no-scan", *options, *home.serve_options))
