"""Collection, frontier and selected items that a command works on."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from core.config.database_urls import RedisUse, parse_redis_url
from core.config.settings import Settings
from core.errors import UnavailableError
from core.layout import Layout
from core.regexes import compile_pattern
from crawler.collection import read_collection
from crawler.frontier.backend import open_frontier
from crawler.frontier.base import Frontier
from crawler.frontier.frontier_export import ItemSelection
from crawler.status.collection_status import WORKER_SERVICE, is_in_use
from weboid.app.operator_identity import collection_settings
from weboid.cli.support.options import (
    collection_option,
    database_option,
    frontier_option,
    host_name,
    json_option,
    profile_option,
    wiki_profile_option,
    with_database,
    with_frontier,
)


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """Values of `--collection`, `--frontier` and `--profile`.

    Attributes:
        layout: the collection's folders; it need not exist when the frontier is shared.
        settings: the profile, with the frontier's address.
        profile: its name or path.
    """

    layout: Layout
    settings: Settings
    profile: str = "default"

    @property
    def is_shared(self) -> bool:
        """Return True if several machines share the frontier."""
        return bool(self.settings.frontier.url)

    @property
    def name(self) -> str:
        """Return the target's name for output, without a password."""
        if not self.is_shared:
            return str(self.layout.root)
        return str(parse_redis_url(self.settings.frontier.url, RedisUse.FRONTIER))

    @contextmanager
    def frontier(self, *, make: bool = False) -> Iterator[Frontier]:
        """Yield the frontier.

        Args:
            make: create it when the collection has none.

        Raises:
            UnavailableError: there is no collection, it has no frontier, or that does not answer.
            CollectionVersionError: it was made by another version.
        """
        if not self.is_shared:
            read_collection(self.layout.root)
            if not make and not self.layout.frontier_db.exists():
                raise UnavailableError(
                    f"{self.layout.root} has no frontier yet: `weboid archive` or "
                    "`weboid enqueue` makes one."
                )
        with open_frontier(
            self.layout, self.settings.frontier, self.settings.politeness
        ) as frontier:
            yield frontier

    def is_worked_on(self, frontier: Frontier, *, now: datetime) -> bool:
        """Return True if a process works on the frontier, as far as is visible from here."""
        if not self.is_shared and is_in_use(self.layout):
            return True
        return bool(frontier.notes(WORKER_SERVICE, now=now)) or bool(frontier.stats(now).claimed)


def command_target(
    collection: Path, frontier_url: str, profile: str, *, unattended: bool = False
) -> CommandTarget:
    """Create the target; `unattended` as in `weboid.app.operator_identity.collection_settings`.

    Raises:
        ConfigError: the profile is missing or invalid, or the address is invalid.
    """
    settings = collection_settings(profile, collection, unattended=unattended)
    return CommandTarget(Layout(collection), with_frontier(settings, frontier_url), profile)


def target_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add `--collection`, `--frontier`, `--database`, `--profile` (`where`) and `--json`."""
    return _target_options(function, profile_option, unattended=False)


def wiki_target_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the same for unattended wiki commands: the default profile is `wiki`."""
    return _target_options(function, wiki_profile_option, unattended=True)


def _target_options(
    function: Callable[..., int],
    profile_option_: Callable[[Callable[..., int]], Callable[..., int]],
    *,
    unattended: bool,
) -> Callable[..., int]:
    @collection_option
    @frontier_option
    @database_option
    @profile_option_
    @json_option
    @functools.wraps(function)
    def command(
        *,
        collection: Path,
        frontier_url: str,
        database_url: str,
        profile: str,
        as_json: bool,
        **rest: Any,
    ) -> int:
        where = command_target(collection, frontier_url, profile, unattended=unattended)
        where = replace(where, settings=with_database(where.settings, database_url))
        return function(where=where, as_json=as_json, **rest)

    return command


host_option = click.option("--host", type=host_name, metavar="HOST", help="Only this host's.")
job_option = click.option("--job", metavar="NAME", help="Only this crawl's; '': of plain lists.")
reason_option = click.option(
    "--reason", default="", metavar="TEXT", help="Only those whose reason holds this."
)
match_option = click.option(
    "--match", metavar="PATTERN", help="Only URLs in which this pattern (RE2) is found."
)
dry_option = click.option("--dry-run", is_flag=True, help="Show what would be done.")


def selection_of(
    host: str | None, job: str | None, reason: str, match: str | None
) -> ItemSelection:
    """Return the item selection of the options.

    Raises:
        ConfigError: the pattern cannot be run.
    """
    pattern = None if match is None else compile_pattern(match, where="--match")
    return ItemSelection(host=host, job=job, reason=reason, pattern=pattern)


def search_progress(what: str, *, quiet: bool) -> Progress:
    """Return a progress line for a terminal; without output elsewhere."""
    console = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn(f"{what} {{task.completed:,.0f}}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
