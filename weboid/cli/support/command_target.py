"""Collection, frontier, its cluster's secret, and selected items that a command works on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from core.config.database_urls import RedisUse, parse_redis_url
from core.config.settings import Settings
from core.errors import ConfigError, UnavailableError
from core.hosts import host_name
from core.layout import Layout
from core.regexes import compile_pattern
from crawler.collection import read_collection
from crawler.frontier.base import Frontier
from crawler.frontier.frontier_export import ItemSelection
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.status.collection_status import is_worked_on
from proxy.control.handshake import ClusterSecret
from weboid.app.operator_identity import collection_settings
from weboid.cli.support import options
from weboid.cli.support.commands import made_by, option
from weboid.cli.support.stores import CollectionStores


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """Values of `--collection`, `--frontier` and `--profile`."""

    layout: Layout  # the collection's folders; it need not exist when the frontier is shared
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

    @property
    def stores(self) -> CollectionStores:
        """Return the collection's other stores."""
        return CollectionStores(self.layout.root, self.settings.index.url)

    @contextmanager
    def frontier(self, *, make: bool = False) -> Iterator[Frontier]:
        """Yield the frontier; `make` it when the collection has none."""
        if not self.is_shared:
            read_collection(self.layout.root)
            if not make and not self.layout.frontier_db.exists():
                raise UnavailableError(
                    f"{self.layout.root} has no frontier yet: `weboid archive` or `weboid crawl add` makes one."
                )
        with open_frontier(self.layout, self.settings.frontier, self.settings.politeness) as frontier:
            yield frontier

    def is_worked_on(self, frontier: Frontier, *, now: datetime) -> bool:
        """Return True if a process works on the frontier, as far as is visible from here."""
        return is_worked_on(None if self.is_shared else self.layout, frontier, now=now)


def _target_option(default_profile: Any, *, unattended: bool) -> Any:
    def command_target(
        collection: Path = options.COLLECTION,
        frontier_url: str = options.FRONTIER,
        database_url: str = options.DATABASE,
        profile: str = default_profile,
    ) -> CommandTarget:
        settings = collection_settings(profile, collection, unattended=unattended)
        settings = options.with_database(options.with_frontier(settings, frontier_url), database_url)
        return CommandTarget(Layout(collection), settings, profile)

    return made_by(command_target)


TARGET = _target_option(options.PROFILE, unattended=False)
WIKI_TARGET = _target_option(options.WIKI_PROFILE, unattended=True)
HOST = option("Only this host's.", type=host_name, metavar="HOST")
JOB = option("Only items of this crawl; '': of plain lists.", metavar="NAME")
REASON = option("Only items whose reason contains this.", default="", metavar="TEXT")
MATCH = option("Only URLs that match this RE2 pattern.", metavar="PATTERN")
DRY_RUN = option("Show what would be done.")


def selection_of(
    host: str | None = HOST, job: str | None = JOB, reason: str = REASON, match: str | None = MATCH
) -> ItemSelection:
    """Return the item selection of the options."""
    pattern = None if match is None else compile_pattern(match, where="--match")
    return ItemSelection(host=host, job=job, reason=reason, pattern=pattern)


SELECTION = made_by(selection_of)


def _secret_file(purpose: str, *, is_needed: bool) -> Any:
    def secret(context: click.Context, parameter: click.Parameter, value: str) -> ClusterSecret | None:
        text = os.environ.get("WEBOID_SECRET", "")
        if value:
            text = options.value_or_file(context, parameter, f"@{value}")
        elif not (text or is_needed):
            return None
        if not text:
            raise click.UsageError(
                "A secret is needed: name its file with --secret-file, or put it into WEBOID_SECRET; "
                "`openssl rand -hex 32` makes one."
            )
        try:
            return ClusterSecret.of(text)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error

    return option(
        f"{purpose}; without it the environment variable WEBOID_SECRET.",
        "--secret-file",
        metavar="FILE",
        default="",
        envvar="WEBOID_SECRET_FILE",
        callback=secret,
    )


SECRET = _secret_file("Shared secret of workers and proxies, at least 32 characters", is_needed=True)
CLUSTER_SECRET = _secret_file("The cluster's shared secret, with --frontier", is_needed=False)
