"""Levels of a wiki: what is recorded of what it cites, and what its users set for links (A18, A19).

Through the extension users ask for levels of links; who may is decided here: the wiki says who
asks; what its editors may decide, `weboid level rights` says. In levels a wiki goes by the name that it
has in addresses of copies (`WikiName.in_levels`).
"""

import asyncio
import getpass
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from typing import Any, TypeVar

from core.clock import Clock
from core.errors import InputError
from core.layout import Layout
from core.stored_levels import DEFAULT_STORED_LEVEL, StoredLevel
from playback.decisions.level_book import LevelBook
from playback.decisions.level_targets import target_of
from playback.decisions.levels import Actor, Level, LevelDecision, RuleTable, parse_actor
from playback.decisions.store import open_decisions
from wiki.feeding.bell import (
    LevelAsked,
    RefusedRequestError,
    SetLevel,
    SetWikiLevels,
    WikiLevelsAsked,
)

LOCAL_SETTINGS = "#LocalSettings.php"  # an actor's name that no user of MediaWiki can have
_Kind = TypeVar("_Kind", Level, StoredLevel)


@contextmanager
def opened_levels(layout: Layout, database_url: str, clock: Clock) -> Iterator[SetLevel]:
    """What sets levels in a collection, for the block."""
    with closing(open_decisions(layout, database_url)) as store:
        book = LevelBook(store)

        async def set_level(asked: LevelAsked) -> str | None:
            return await asyncio.to_thread(_decide, book, asked, clock)

        yield set_level


@contextmanager
def opened_wiki_levels(layout: Layout, database_url: str, clock: Clock) -> Iterator[SetWikiLevels]:
    """Yield what sets the levels of whole wikis in a collection."""
    with closing(open_decisions(layout, database_url)) as store:
        book = LevelBook(store)

        async def set_wiki_levels(asked: WikiLevelsAsked) -> None:
            await asyncio.to_thread(_follow_local_settings, book, asked, clock)

        yield set_wiki_levels


def _follow_local_settings(book: LevelBook, asked: WikiLevelsAsked, clock: Clock) -> None:
    """Let what LocalSettings.php says hold for the wiki, as far as its right reaches.

    Raises:
        InputError: that is no level, or the wiki may not set it.
    """
    target = target_of(wiki=asked.wiki.in_levels)
    actor = Actor(LOCAL_SETTINGS, asked.wiki.in_levels)
    shown = _level(asked.shown, Level)
    stored = _level(asked.stored, StoredLevel)
    rules, now = book.now(), clock.now()
    if _is_news(rules.at(target), shown, actor):
        book.decide([target], shown, actor=actor, now=now, reason="$wgWeboidLevel")
    if _is_news(rules.stored.at(target), stored, actor):
        book.decide_stored([target], stored, actor=actor, now=now, reason="$wgWeboidStore")


def _is_news(held: LevelDecision[Any] | None, level: StrEnum | None, actor: Actor) -> bool:
    """Return True when the wiki's rule has to change; without a setting only its own rule goes."""
    if level is None:
        return held is not None and held.actor == actor
    return held is None or held.level is not level


def _level(text: str | None, kind: type[_Kind]) -> _Kind | None:
    if text is not None and text not in set(kind):
        raise InputError(f"There is no level {text[:40]!r}; known: {', '.join(kind)}.")
    return None if text is None else kind(text)


def stored_level_of_wiki(
    layout: Layout, database_url: str, wiki: str, level: StoredLevel | None, clock: Clock
) -> StoredLevel:
    """Return the stored level of what a wiki's pages cite; give it one first unless that is None."""
    target = target_of(wiki=wiki)
    with closing(open_decisions(layout, database_url)) as store:
        book = LevelBook(store)
        held = book.now().stored.at(target)
        if level is not None and (held is None or held.level is not level):
            actor = Actor(getpass.getuser())
            book.decide_stored(
                [target], level, actor=actor, now=clock.now(), reason="weboid wiki add"
            )
        rules = book.now().stored
        ruling = rules.at(target) or rules.at(target_of())
    return DEFAULT_STORED_LEVEL if ruling is None or ruling.level is None else ruling.level


def _decide(book: LevelBook, asked: LevelAsked, clock: Clock) -> str:
    """Set what was asked for; the level that holds then.

    Raises:
        RefusedRequestError: that user may not.
        InputError: that is no level, no link, or nobody.
    """
    wiki = asked.wiki.in_levels
    actor = parse_actor(f"{asked.user}@{wiki}")
    target = target_of(wiki=wiki, link=asked.url)

    def rules() -> RuleTable[Any]:
        return book.now().stored if asked.is_stored else book.now()

    level = _level(asked.level, StoredLevel) if asked.is_stored else _level(asked.level, Level)
    if level is not None or rules().at(target) is not None:  # else there is nothing to take back
        decide: Callable[..., None] = book.decide_stored if asked.is_stored else book.decide
        try:
            decide([target], level, actor=actor, now=clock.now(), reason=asked.reason)
        except InputError as error:
            raise RefusedRequestError(str(error)) from error
    return str(rules().ruling(target.what, wiki).level)
