"""Archiving a list from beginning to end: collection, frontier, supervisor, workers, account."""

import asyncio
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from core.clock import Clock
from core.pages import Outcome
from core.settings import Settings
from crawler.collection import Collection, open_collection
from crawler.composing import Stores, compose
from crawler.events import Event, PageDone
from crawler.frontier.base import AddResult, Frontier, ItemState, NewItem
from crawler.frontier.sqlite import SqliteFrontier
from crawler.supervisor import FileRecovered, running
from crawler.worker import Crew
from proxy.checksums import complete, lacking
from proxy.disk import Disk
from proxy.index.opening import open_index
from proxy.recovery import interrupted, put_in_order

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class Account:
    """What a run did.

    Attributes:
        added: what became of the URLs that were given.
        outcomes: pages by outcome.
        failed: pages given up, with the reason.
        records: captures and artifacts written.
        stored_bytes: their compressed size.
        left: pages still to do when the run was stopped.
        seconds: duration of the run.
        stopped: whether somebody said stop.
    """

    added: AddResult = field(default_factory=AddResult)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    failed: list[tuple[str, str]] = field(default_factory=list)
    records: int = 0
    stored_bytes: int = 0
    left: int = 0
    seconds: float = 0.0
    stopped: bool = False

    def note(self, event: Event) -> None:
        """Count the event."""
        if not isinstance(event, PageDone):
            return
        if event.error:
            self.failed.append((event.url, event.error))
        if event.page is not None:
            self.outcomes[event.page.outcome] += 1
            self.records += event.page.records
            self.stored_bytes += event.page.stored_bytes


@dataclass(frozen=True, slots=True)
class Order:
    """What to archive, where, and how.

    Attributes:
        urls: fetch keys.
        root: the collection's folder.
        settings: the profile.
        workers: visits at the same time.
        again: archive also what was archived before.
    """

    urls: Sequence[str]
    root: Path
    settings: Settings
    workers: int
    again: bool = False


async def archive(
    order: Order,
    *,
    clock: Clock,
    started: Callable[[AddResult, int], None],
    report: Callable[[Event], None],
    stopping: Callable[[], None] = lambda: None,
) -> Account:
    """Archive the URLs; what an earlier run left over is finished, what it finished is left alone.

    Args:
        order: what to do.
        clock: the time.
        started: told what was added and how many pages are to be done, before the first visit.
        report: told each event.
        stopping: told when the first signal asked to stop.

    Raises:
        CollectionInUseError, CollectionVersionError, UnavailableError: the collection.
        BrowserUnavailableError, ProxyUnavailableError: they do not start.
        DiskFullError: there was no space for as long as the settings say, or there is none at all;
            what is left is done by the next run.
        LimitReachedError: the run has received all that it may.
    """
    begun, account = clock.monotonic(), Account()

    def note(event: Event) -> None:
        account.note(event)
        report(event)

    with _Stop(stopping) as stop:
        try:
            async with open_collection(order.root, clock=clock) as collection:
                layout = collection.layout
                with SqliteFrontier(
                    layout.frontier_db,
                    settings=order.settings.frontier,
                    politeness=order.settings.politeness,
                ) as frontier:
                    _take_over(frontier, clock)
                    items = (NewItem(url) for url in order.urls)
                    account.added = frontier.add(items, now=clock.now(), again=order.again)
                    account.left = frontier.unfinished(clock.now())
                    started(account.added, account.left)
                    try:
                        await _work(order, collection, frontier, clock, note, stop)
                    finally:
                        account.left = frontier.unfinished(clock.now())
        except asyncio.CancelledError:
            if not stop.at_once:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        account.stopped = stop.event.is_set()
    account.seconds = clock.monotonic() - begun
    return account


async def _work(
    order: Order,
    collection: Collection,
    frontier: Frontier,
    clock: Clock,
    note: Callable[[Event], None],
    stop: "_Stop",
) -> None:
    """Start what is needed and let the crew work; nothing is started when there is nothing to do."""
    layout, settings = collection.layout, order.settings
    if not frontier.unfinished(clock.now()):
        if interrupted(layout) or lacking(layout):
            await asyncio.to_thread(_put_in_order, collection, settings, clock, note)
        return
    # An index of another version is refused before anything is started.
    with closing(open_index(layout, settings.index)) as index:
        async with running(collection, settings, clock=clock, report=note) as supervisor:
            stores = Stores(
                frontier, supervisor, index, Disk(layout.archive, settings.proxy.disk_reserve_bytes)
            )
            crew = Crew(
                compose(stores, settings, clock=clock, report=note),
                lease_s=settings.frontier.lease_s,
                name=f"{socket.gethostname()}:{os.getpid()}",
                stopping=stop.event,
            )
            try:
                await crew.run(order.workers)
            except BaseExceptionGroup as group:
                raise _first(group) from group


def _put_in_order(
    collection: Collection, settings: Settings, clock: Clock, note: Callable[[Event], None]
) -> None:
    """Do what a proxy does at its start: there is nothing to archive, but a crash left something."""
    done = put_in_order(collection.layout, settings.proxy, now=clock.now(), index=settings.index)
    for each in done:
        note(FileRecovered.of(each.to_dict()))
    with closing(open_index(collection.layout, settings.index)) as index:
        complete(collection.layout, index)


def _take_over(frontier: Frontier, clock: Clock) -> None:
    """Give back what a killed run had claimed: we hold the collection, so nobody works on it."""
    while claimed := frontier.ls(ItemState.CLAIMED, limit=1000):
        for record in claimed:
            frontier.release(record.item, now=clock.now(), reason="the worker is gone")


class _Stop:
    """What SIGINT and SIGTERM mean: the first stops gently, the second at once.

    Attributes:
        event: set by the first.
        at_once: whether there was a second.
    """

    def __init__(self, told: Callable[[], None]) -> None:
        self.event = asyncio.Event()
        self.at_once = False
        self._told = told

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._signalled)
        return self

    def __exit__(self, *_: object) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _signalled(self) -> None:
        if not self.event.is_set():
            self.event.set()
            self._told()
        elif not self.at_once and self._task is not None:
            self.at_once = True
            self._task.cancel()


def _first(group: BaseException) -> BaseException:
    """The first error of a group: the others are its consequences."""
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group
