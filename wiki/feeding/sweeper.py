"""A sweep, done a part at a time beside everything else (B01, W36, W37)."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from core.errors import WeboidError
from links.books.pages import PageRow, untouched
from links.books.wanted import Priority
from links.days import day_of
from wiki.feeding import sweeping
from wiki.feeding.desk import SWEEP, Desk
from wiki.feeding.putting import Outcome
from wiki.feeding.source import PAGES_AT_ONCE, Listed, Listing, Source
from wiki.feeding.sweeping import DONE, REST, List, Sweep

log = logging.getLogger(__name__)


class OfferAgain(Protocol):
    """`wiki.feeding.wanting.HandOver.offer_again`."""

    async def __call__(
        self, page_ids: Sequence[int], *, now: datetime, own: Collection[str] = ()
    ) -> int:
        """Want again those links of the pages that have no good copy."""
        ...


class Sweeper:
    """Sweeps one wiki; it remembers the part of a list that it is at."""

    def __init__(self, desk: Desk, offer_again: OfferAgain) -> None:
        """Take the wiki's desk, and who wants again what has no good copy."""
        self._desk = desk
        self._offer_again = offer_again
        self._at: tuple[List, str] | None = None
        self._waiting: list[Listed] = []
        self._resume = ""
        self._told_day: int | None = None
        self._gone_through = Outcome()  # since the cursor was written

    def sweep(self) -> Sweep | None:
        """The sweep as it stands, what is not yet noted included."""
        sweep = Sweep.parse(self._desk.cursor(SWEEP))
        return sweep and self._counted(sweep)

    async def begin(self) -> Sweep:
        """A new sweep now; one that is at work goes on."""
        there = Sweep.parse(self._desk.cursor(SWEEP))
        if there is not None and not there.is_done:
            return there
        now = self._desk.now()
        begun = sweeping.begun(there, now=now, day=day_of(now))
        await self._desk.note({SWEEP: begun.text()})
        return begun

    async def go_on(self) -> Outcome:
        """Sweep a part, when a sweep is at work or due.

        Raises:
            WeboidError: the wiki or the registry cannot be asked; that part comes again.
        """
        desk = self._desk
        sweep = Sweep.parse(desk.cursor(SWEEP))
        if sweeping.is_due(sweep, now=desk.now(), days=desk.feed.sweep_days):
            sweep = await self.begin()
        if sweep is None or sweep.is_done:
            return Outcome()
        self._tell_late(sweep)
        lists = sweeping.lists_of(desk.criteria(), desk.facts)
        at = sweeping.current(sweep, lists)
        if at is None:
            return await self._rest(sweep)
        if at != self._at:
            listing = await list_part(desk.source, *at)
            self._at, self._waiting, self._resume = at, list(listing.pages), listing.resume
            self._gone_through = Outcome()
        part, self._waiting = self._waiting[:PAGES_AT_ONCE], self._waiting[PAGES_AT_ONCE:]
        try:
            return await self._part(sweep, at[0], part, lists)
        except BaseException:
            self._at = None  # that part of the list comes again
            raise

    def _tell_late(self, sweep: Sweep) -> None:
        now = self._desk.now()
        sentence = sweeping.late(sweep, now=now)
        if sentence and self._told_day != day_of(now):
            self._told_day = day_of(now)
            log.warning("%s: %s", self._desk.wiki.name, sentence)

    async def _part(self, sweep: Sweep, at: List, part: list[Listed], lists: list[List]) -> Outcome:
        desk = self._desk
        namespaces = desk.criteria().namespaces
        ids = [each.page_id for each in part if each.namespace in namespaces and each.page_id]
        outcome = Outcome()
        if ids:
            read = await desk.read(ids=ids)
            outcome = await desk.write(read, {}, priority=Priority.SWEPT, is_first=sweep.is_first)
            if not sweep.is_first and desk.feed.archive:
                await self._offer(ids)
        self._gone_through = self._gone_through.plus(outcome)
        if not self._waiting:
            after = sweeping.after_part(self._counted(sweep), at, self._resume, lists)
            await desk.note({SWEEP: after.text()})
            self._at, self._gone_through = None, Outcome()
        return outcome

    async def _offer(self, ids: list[int]) -> None:
        """Offer the pages' links to the archive again; an internal error leaves that to the next sweep."""
        try:
            await self._offer_again(ids, now=self._desk.now(), own=self._desk.own_origins)
        except WeboidError:
            raise
        except Exception:
            log.exception("%s: the links of pages %s cannot be offered", self._desk.wiki.name, ids)

    async def _rest(self, sweep: Sweep) -> Outcome:
        """Look at pages that no list had: gone, or not observed any more (W27, W37)."""
        rows = await asyncio.to_thread(self._untouched, sweep)
        outcome = Outcome()
        if rows:
            read = await self._desk.read(ids=[row.page_id for row in rows])
            after = replace(sweep, kind=REST, after=rows[-1].id)
            outcome = await self._desk.write(
                read, {SWEEP: after.text()}, priority=Priority.SWEPT, is_first=sweep.is_first
            )
            sweep = after
        if len(rows) < PAGES_AT_ONCE:
            await self._desk.note({SWEEP: replace(sweep, kind=DONE, name="", resume="").text()})
            log.info("%s: swept, %s pages", self._desk.wiki.name, sweep.pages)
        return outcome

    def _untouched(self, sweep: Sweep) -> list[PageRow]:
        desk = self._desk
        with desk.store.snapshot() as reader:
            return untouched(
                reader,
                desk.wiki.id,
                before=sweep.began_day,
                after=sweep.after,
                limit=PAGES_AT_ONCE,
            )

    def _counted(self, sweep: Sweep) -> Sweep:
        done = self._gone_through
        return replace(sweep, pages=sweep.pages + done.pages, links=sweep.links + done.links)


async def list_part(source: Source, at: List, resume: str) -> Listing:
    """A part of one of the lists that a sweep goes through.

    Raises:
        WeboidError: the wiki cannot be asked.
    """
    if at.kind == sweeping.NAMESPACE:
        return await source.listed(int(at.name), resume)
    if at.kind == sweeping.TEMPLATE:
        return await source.using(at.name, resume)
    return await source.members(at.name, resume, are_categories=False)
