"""Options and parameter types that several commands share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from core.clock import clock_offset
from core.config.profile import check_settings, parse_size
from core.config.settings import INDEX_URL, Settings
from core.errors import DiskFullError, InputError, is_disk_full
from core.timestamps import parse_duration, parse_moment, warc_date
from weboid.app.operator_identity import contact_notice
from weboid.cli.support.commands import JSON, QUIET, is_set, option, option_dict


class ParsedType(click.ParamType[Any]):
    """Parameter type that a function parses from text, or only checks; it fails with an InputError."""

    def __init__(self, name: str, parse: Callable[[str], object], *, is_check: bool = False) -> None:
        """`name` represents the value in the help; `is_check`: the value remains a text."""
        self.name = name
        self._parse = parse
        self._is_check = is_check

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """Return the value; one that is parsed already, such as a default, as it is."""
        if not isinstance(value, str) or (self._is_check and not value):
            return value
        try:
            parsed = self._parse(value)
            return value if self._is_check else parsed
        except InputError as error:
            self.fail(str(error), param, ctx)


EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


def _listen_address(text: str) -> object:
    from crawler.status.status_server import parse_listen_address

    return parse_listen_address(text)


def _origin(text: str) -> str:
    from weboid.app.collection_config import parse_origin

    return parse_origin(text)


ORIGIN = ParsedType("text", _origin)
ADDRESS = ParsedType("host:port", _listen_address, is_check=True)
DURATION, SIZE = ParsedType("duration", parse_duration), ParsedType("size", parse_size)


def _parse_interval(text: str) -> timedelta:
    if interval := parse_duration(text):
        return interval
    raise InputError("an interval is at least a second: write 90s, 15m, 2h or 1d.")


INTERVAL = ParsedType("duration", _parse_interval)  # at which a command repeats its work


@contextmanager
def named_file(name: str | Path, action: str = "read", remedy: str = "") -> Iterator[None]:
    """Raise errors of the system in the block as InputError, or DiskFullError, that name the file."""
    try:
        yield
    except OSError as error:
        from weboid.app.text_table import clean

        shown = clean(str(name))
        if is_disk_full(error):
            raise DiskFullError(
                f"{shown}: the disk is full. Free some space, then give the same command again."
            ) from error
        raise InputError(f"{shown} cannot be {action}: {error.strerror or error}.{remedy}") from error


def end_moment(text: str, *, now: datetime, option: str) -> datetime:
    """Return the end time given as a duration from now or as a date; `option` is named in errors."""
    try:
        return now + parse_duration(text)
    except InputError:
        moment = parse_moment(text)
    if moment <= now:
        raise InputError(f"{text} is in the past; omit {option} for no end.")
    return moment


def start_moment(text: str, *, now: datetime) -> datetime:
    """Return the start time given as a duration before now or as a date."""
    with suppress(InputError):
        return now - parse_duration(text)
    try:
        return parse_moment(text)
    except InputError as error:
        raise InputError(
            f"{text[:40]!r} is neither a date nor a duration of at most a century: "
            "write 2026-12-31, 2026-12-31T18:00 (UTC), 12h or 3d."
        ) from error


def _check_trial_clock(_ctx: click.Context, _param: click.Parameter, root: Path) -> Path:
    if clock_offset():
        from crawler.collection import check_trial_clock

        check_trial_clock(root)
    return root


def value_or_file(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Return the address; ``@FILE`` is the file's content, so that a password is not exposed."""
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{value[1:]} cannot be read: {error}.") from error


def _address(form: str, envvar: str, *, show_envvar: bool = False) -> Any:
    """Return an option for the address of a shared store; ``@FILE`` stands for a file's content."""
    return option(
        f"{form}, instead of the collection's own.",
        f"--{envvar.removeprefix('WEBOID_').lower()}",
        default="",
        metavar="URL",
        envvar=envvar,
        show_envvar=show_envvar,
        callback=value_or_file,
    )


def _complete_profile(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    from crawler.profiles import builtin_profiles

    return [name for name in builtin_profiles() if name.startswith(begun)]


def _profile(default: str) -> Any:
    return option(
        "A preset, or the path of a TOML file; weboid.toml in the collection is applied over it.",
        default=default,
        envvar="WEBOID_PROFILE",
        shell_complete=_complete_profile,
    )


class CommandOutput:
    """Standard output of the command that runs: text, or with `--json` a line of JSON for each result."""

    @property
    def is_json(self) -> bool:
        """Return True if the output is JSON."""
        return is_set(JSON)

    @property
    def is_quiet(self) -> bool:
        """Return True if errors and results only are printed (`-q`)."""
        return is_set(QUIET)

    def show(self, facts: object, text: str | Iterable[str]) -> None:
        """Print the facts as JSON, or else the text."""
        if self.json(facts):
            return
        for line in (text,) if isinstance(text, str) else text:
            click.echo(line)

    def say(self, text: str, *, err: bool = False) -> None:
        """Print a line for people: nothing with `--json`."""
        if not self.is_json:
            click.echo(text, err=err)

    def table(self, facts: object, head: Sequence[str], rows: Sequence[Sequence[object]], empty: str = "") -> None:
        """Print the facts as JSON, or else the rows as a table; in place of a table without rows `empty`, if given."""
        self.show(facts, table_lines(head, rows) if rows or not empty else empty)

    def json(self, facts: object) -> bool:
        """Print the facts, moments as WARC dates, and return True, if the output is JSON."""
        if self.is_json:
            click.echo(json.dumps(facts, ensure_ascii=False, default=warc_date))
        return self.is_json


output = CommandOutput()


def counted(count: int, noun: str) -> str:
    """Return a number and what it counts.

    >>> counted(1, "page"), counted(2000, "page")
    ('1 page', '2,000 pages')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def table_lines(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the rows as a table of the terminal's width: numbers with separators, moments to the minute, None empty."""
    from weboid.app.text_table import table, width

    return table(head, [[_cell(value) for value in row] for row in rows], columns=width())


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return "" if value is None else f"{value:,}" if type(value) is int else str(value)


COLLECTION = option(
    "Folder of WARCs, index and frontier.",
    "--collection",
    type=FOLDER,
    default=Path("collection"),
    envvar="WEBOID_COLLECTION",
    callback=_check_trial_clock,
)
PROFILE, WIKI_PROFILE = _profile("default"), _profile("wiki")
WORKERS = option(
    "Number of pages at the same time.",
    within=(1, 64),
    default=lambda: min(2 * (os.cpu_count() or 1), 8),
    show_default="two per core, at most 8",
    envvar="WEBOID_WORKERS",
)
CHECK_JOBS = option(
    "Number of pages at the same time.",
    within=(1, 64),
    default=lambda: 1 + (os.cpu_count() or 1),
    show_default="one more than cores",
)
FRONTIER = _address("A frontier in Redis, redis://host:port/number?frontier=NAME", "WEBOID_FRONTIER")
DATABASE = _address(
    "Index, link registry and decisions in PostgreSQL, postgresql://user@host:port/name", INDEX_URL, show_envvar=True
)
STORAGE = option(
    "Object storage for closed WARCs, s3://bucket/prefix, instead of [storage] url.",
    "--storage",
    default="",
    metavar="URL",
    envvar="WEBOID_STORAGE",
)
CONSOLE_ADDRESS = "127.0.0.1:8090"
CONSOLE = option(
    f"Serve the operator's console, too; without an address on {CONSOLE_ADDRESS}.",
    "--console",
    default="",
    type=ADDRESS,
    is_flag=False,
    flag_value=CONSOLE_ADDRESS,
)
CONSOLE_ORIGIN = option(
    "Public origin of the console, behind a proxy with TLS.", "--console-origin", type=ORIGIN, default=""
)
DEDUP = _address("A dedup index in Redis, redis://host:port/number?index=NAME", "WEBOID_DEDUP")


@dataclass(frozen=True, slots=True)
class SharedStores:
    """Addresses of stores that several machines share; empty: the collection's own."""

    frontier_url: str = ""
    database_url: str = ""
    dedup_url: str = ""
    storage_url: str = ""

    def set_in(self, settings: Settings) -> Settings:
        """Return the profile with these addresses, of which some commands need fewer than a run: not checked."""
        settings = with_database(with_frontier(settings, self.frontier_url), self.database_url)
        if self.dedup_url:
            settings = replace(settings, proxy=replace(settings.proxy, dedup_url=self.dedup_url))
        if self.storage_url:
            settings = replace(settings, storage=replace(settings.storage, url=self.storage_url))
        return settings

    def applied_to(self, settings: Settings) -> Settings:
        """Return the profile with these addresses; ConfigError: one is invalid, or they conflict."""
        settings = self.set_in(settings)
        check_settings(settings, source="the command line")
        return _checked_stores(settings)


SHARED = option_dict(
    {"frontier_url": FRONTIER, "database_url": DATABASE, "dedup_url": DEDUP, "storage_url": STORAGE}, SharedStores
)


def warn_missing_contact(contact: str) -> None:
    """Print a warning on standard error when no contact address is set."""
    if notice := contact_notice(contact):
        click.echo(notice, err=True)


def with_frontier(settings: Settings, url: str) -> Settings:
    """Return the settings with the frontier of `--frontier`; unchanged without it."""
    if not url:
        return settings
    from core.config.database_urls import RedisUse, parse_redis_url

    parse_redis_url(url, RedisUse.FRONTIER)
    return replace(settings, frontier=replace(settings.frontier, url=url))


def with_database(settings: Settings, url: str) -> Settings:
    """Return the settings with the index of `--database`; unchanged without it."""
    if url:
        from core.config.database_urls import parse_index_url

        parse_index_url(url)
        settings = replace(settings, index=replace(settings.index, url=url))
    return _checked_stores(settings)


def _checked_stores(settings: Settings) -> Settings:
    """Return the settings; ConfigError: the clock is shifted, and they name a store that is not a copy."""
    if clock_offset():
        from crawler.collection import check_trial_stores

        check_trial_stores(settings)
    return settings
