"""Archiving a list: its URLs into the frontier, and each of them visited."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from core.clock import Clock
from core.settings import Settings
from crawler.companion import Companion
from crawler.composing import turns_for
from crawler.events import Event
from crawler.frontier.base import AddResult, Frontier, NewItem
from crawler.logins import NO_LOGINS, Logins
from crawler.running import Account, Run, perform


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
    """

    urls: Sequence[str]
    root: Path
    settings: Settings
    workers: int
    again: timedelta | None = None
    endless: bool = False
    logins: Logins = NO_LOGINS
    companion: Companion | None = None


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
        items = await turns_for(order.settings).assign(NewItem(url) for url in order.urls)
        return frontier.add(items, now=clock.now(), again=order.again)

    run = Run(
        order.root,
        order.settings,
        order.workers,
        endless=order.endless,
        logins=order.logins,
        companion=order.companion,
    )
    return await perform(
        run, prepare, clock=clock, started=started, report=report, stopping=stopping
    )
