"""Archiving a list: its URLs into the frontier, and each of them visited."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from core.clock import Clock
from core.settings import Settings
from crawler.companion import Companion
from crawler.composing import turns_for
from crawler.events import Event
from crawler.frontier.base import AddResult, Frontier, NewItem
from crawler.logins import NO_LOGINS, Logins
from crawler.running import Account, Run, perform
from crawler.stored_levels import StoredLevelOf
from crawler.turns import Turns

BATCH = 5_000  # URLs of a commit: lists are read as streams


@dataclass(frozen=True, slots=True)
class Order:
    """What to archive, where, and how.

    Attributes:
        urls: fetch keys.
        root: the collection's folder.
        settings: the profile.
        workers: visits at the same time.
        again: archive also what was archived at least so long ago (zero: all; A02); None: nothing.
        endless: when nothing is left, wait for what others put into the collection's frontier.
        logins: opened.
        companion: works beside the crew; None: nobody does.
        stored_level_of: knows what was decided on how much is recorded.
    """

    urls: Iterable[str]
    root: Path
    settings: Settings
    workers: int
    again: timedelta | None = None
    endless: bool = False
    logins: Logins = NO_LOGINS
    companion: Companion | None = None
    stored_level_of: StoredLevelOf = field(kw_only=True)


async def add_all(
    frontier: Frontier,
    turns: Turns,
    items: Iterable[NewItem],
    *,
    now: Callable[[], datetime],
    again: timedelta | None,
) -> AddResult:
    """Add any number of items, a batch at a time; return what became of them."""
    iterator, result = iter(items), AddResult()
    while batch := list(islice(iterator, BATCH)):
        result += frontier.add(await turns.assign(batch), now=now(), again=again)
    return result


async def archive(
    order: Order,
    *,
    clock: Clock,
    started: Callable[[AddResult, int], None],
    report: Callable[[Event], None],
    stopping: Callable[[], None] = lambda: None,
) -> Account:
    """Archive the URLs; arguments and errors are those of `crawler.running.perform`."""

    async def prepare(frontier: Frontier) -> AddResult:
        turns = turns_for(order.settings)
        items = map(NewItem, order.urls)
        return await add_all(frontier, turns, items, now=clock.now, again=order.again)

    run = Run(
        order.root,
        order.settings,
        order.workers,
        endless=order.endless,
        logins=order.logins,
        companion=order.companion,
        stored_level_of=order.stored_level_of,
    )
    return await perform(
        run, prepare, clock=clock, started=started, report=report, stopping=stopping
    )
