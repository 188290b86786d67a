"""The frontier that a command works on: the collection's own, or one in Redis."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from core.errors import UnavailableError
from core.layout import Layout
from core.redis_url import RedisUse, parse_redis_url
from core.settings import Settings
from crawler.cli.options import (
    collection_option,
    database_option,
    frontier_option,
    json_option,
    profile_option,
    wiki_profile_option,
    with_database,
    with_frontier,
)
from crawler.collection import read_collection
from crawler.frontier.base import Frontier
from crawler.frontier.opening import open_frontier
from crawler.operator import collection_settings
from crawler.overview import WORKER
from crawler.reporting import in_use


@dataclass(frozen=True, slots=True)
class Where:
    """What `--collection`, `--frontier` and `--profile` say.

    Attributes:
        layout: the collection's folders; it need not be there when the frontier is shared.
        settings: the profile, with the frontier's address.
        profile: its name or path.
    """

    layout: Layout
    settings: Settings
    profile: str = "default"

    @property
    def is_shared(self) -> bool:
        """Whether the frontier is one that several machines share."""
        return bool(self.settings.frontier.url)

    @property
    def name(self) -> str:
        """What the command works on, for people; without a password."""
        if not self.is_shared:
            return str(self.layout.root)
        return str(parse_redis_url(self.settings.frontier.url, RedisUse.FRONTIER))

    @contextmanager
    def frontier(self, *, make: bool = False) -> Iterator[Frontier]:
        """The frontier, closed at the end of the block.

        Args:
            make: make it when the collection has none.

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
        """Whether somebody works on the frontier, as far as one can see from here."""
        if not self.is_shared and in_use(self.layout):
            return True
        return bool(frontier.notes(WORKER, now=now)) or bool(frontier.stats(now).claimed)


def where_of(
    collection: Path, frontier_url: str, profile: str, *, unattended: bool = False
) -> Where:
    """What the options say; `unattended` as in `crawler.operator.collection_settings`.

    Raises:
        ConfigError: there is no such profile, it says something impossible, or the address is none.
    """
    settings = collection_settings(profile, collection, unattended=unattended)
    return Where(Layout(collection), with_frontier(settings, frontier_url), profile)


def where_options(function: Callable[..., int]) -> Callable[..., int]:
    """`--collection`, `--frontier`, `--database`, `--profile` and `--json`: `where` and `as_json`."""
    return _where_options(function, profile_option, unattended=False)


def wiki_where_options(function: Callable[..., int]) -> Callable[..., int]:
    """The same for what runs unattended for wikis: the profile is `wiki` unless one is named."""
    return _where_options(function, wiki_profile_option, unattended=True)


def _where_options(
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
        where = where_of(collection, frontier_url, profile, unattended=unattended)
        where = replace(where, settings=with_database(where.settings, database_url))
        return function(where=where, as_json=as_json, **rest)

    return command
