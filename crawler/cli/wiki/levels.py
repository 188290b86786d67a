"""Levels that a wiki's users set for links, through the extension (A19): who may is decided here.

The wiki says who asks; what editors of that wiki may decide, `weboid level rights` says. In levels a
wiki goes by the name that it has in addresses of copies (`WikiName.in_levels`).
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager

from core.clock import Clock
from core.errors import InputError
from core.layout import Layout
from playback.decisions.level_book import LevelBook
from playback.decisions.level_targets import target_of
from playback.decisions.levels import Level, parse_actor
from playback.decisions.store import open_decisions
from wiki.feeding.bell import LevelAsked, LevelRefusedError, SetLevel


@contextmanager
def opened_levels(layout: Layout, database_url: str, clock: Clock) -> Iterator[SetLevel]:
    """What sets levels in a collection, for the block."""
    with closing(open_decisions(layout, database_url)) as store:
        book = LevelBook(store)

        async def set_level(asked: LevelAsked) -> str | None:
            return await asyncio.to_thread(_decide, book, asked, clock)

        yield set_level


def _decide(book: LevelBook, asked: LevelAsked, clock: Clock) -> str | None:
    """Set what was asked for; the level that holds then.

    Raises:
        LevelRefusedError: that user may not.
        InputError: that is no level, no link, or nobody.
    """
    wiki = asked.wiki.in_levels
    if asked.level is not None and asked.level not in set(Level):
        known = ", ".join(Level)
        raise InputError(f"There is no level {asked.level[:40]!r}; known: {known}.")
    level = None if asked.level is None else Level(asked.level)
    actor = parse_actor(f"{asked.user}@{wiki}")
    target = target_of(wiki=wiki, link=asked.url)
    rules = book.now()
    if level is None and rules.at(target) is None:  # there is nothing to take back
        return rules.ruling(target.what, wiki).level
    try:
        book.decide([target], level, actor=actor, now=clock.now(), reason=asked.reason)
    except InputError as error:
        raise LevelRefusedError(str(error)) from error
    return book.now().ruling(target.what, wiki).level
