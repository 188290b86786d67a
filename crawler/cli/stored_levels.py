"""Stored levels for commands that archive: the option, and the decisions of the collection."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import click

from core.layout import Layout
from core.settings import Settings
from core.stored_levels import StoredLevel
from crawler.stored_levels import StoredLevelOf
from playback.decisions.level_book import LevelBook
from playback.decisions.store import open_decisions

STORED_LEVELS = click.Choice([str(level) for level in StoredLevel])
_Command = TypeVar("_Command", bound=Callable[..., Any])


def store_option(command: _Command) -> _Command:
    """Add `--store`: what this run records, whatever was decided for wikis, domains and links."""
    return click.option(
        "--store",
        type=STORED_LEVELS,
        help="Record only so much of each page.  [default: as `weboid level` says, else everything]",
    )(command)


def with_store(settings: Settings, level: str | None) -> Settings:
    """Return the settings with the option's level; None leaves what they say."""
    if level is None:
        return settings
    return replace(settings, visit=replace(settings.visit, store=level))


@contextmanager
def opened_stored_levels(layout: Layout, database_url: str) -> Iterator[StoredLevelOf]:
    """Yield what tells stored levels by the decisions of a collection."""
    with closing(open_decisions(layout, database_url)) as store:
        book = LevelBook(store)

        def level_of(url: str, wiki: str) -> StoredLevel:
            return book.now().stored.ruling(url, wiki).level

        yield level_of
