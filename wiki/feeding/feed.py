"""One wiki's feeder: changes into the registry, links that are due to the archive, sweeps in between.

    feed = WikiFeed(wiki, source, shared)
    while …: done = await feed.round(is_rung=…)       # a bounded piece of work

A round does first what somebody waits for: changes, pages that were asked for, links that are due; then
what spreads from templates and categories; then a part of the sweep. All is written with the cursor
that tells of it (`wiki.feeding.putting`), so a round may end anywhere. One round at a time.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from links.books.wanted import WantedRow, next_due
from links.books.wikis import Wiki
from wiki.feeding.deciding import read_settling
from wiki.feeding.desk import LEASE_LENGTH, SETTLING, Desk, Shared
from wiki.feeding.following import Followed, follow, look_again, read_asked, read_stale, spread
from wiki.feeding.putting import Outcome
from wiki.feeding.reading import parts
from wiki.feeding.source import Source
from wiki.feeding.spam_lists import SpamListFetcher
from wiki.feeding.sweeper import Sweeper
from wiki.feeding.sweeping import Sweep
from wiki.feeding.wanting import BATCH, Handed, HandOver

HINTS_LIMIT = 10_000
SECOND_LOOKS = 200  # pages in one round

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Done:
    """What a round did.

    Attributes:
        followed: changes that were dealt with.
        pages: what was written of pages that changed, were asked for, or use what changed.
        handed: what became of links that were due.
        swept: what was written of pages that were swept.
        sweep: the sweep as it stands; None: there is none yet.
        is_busy: there is more to do at once.
    """

    followed: Followed = field(default_factory=Followed)
    pages: Outcome = field(default_factory=Outcome)
    handed: Handed = field(default_factory=Handed)
    swept: Outcome = field(default_factory=Outcome)
    sweep: Sweep | None = None
    is_busy: bool = False


class WikiFeed:
    """The feeder of one wiki.

    Attributes:
        desk: its books and facts.
        sweeper: its sweeps.
    """

    def __init__(self, wiki: Wiki, source: Source, shared: Shared) -> None:
        """Take the wiki, who asks it, and what feeders share."""
        self.desk = Desk(wiki, source, shared)
        self._spam_lists = SpamListFetcher(self.desk)
        self._hand_over = HandOver(shared.store, wiki.id, wiki.name, shared.archive, shared.rules)
        self.sweeper = Sweeper(self.desk, self._hand_over.offer_again)
        self._hints: set[int] = set()
        self._polled_at: datetime | None = None
        self._has_more = False

    @property
    def wiki(self) -> Wiki:
        """The wiki as the registry has it."""
        return self.desk.wiki

    def hint(self, page_ids: Iterable[int]) -> None:
        """Look at these pages with the next poll: somebody says that they changed."""
        for page_id in page_ids:
            if len(self._hints) < HINTS_LIMIT:
                self._hints.add(page_id)

    async def round(self, *, is_rung: bool = False, sweeps: bool = True) -> Done:
        """A bounded piece of work.

        Args:
            is_rung: the wiki is asked for changes although it was a moment ago.
            sweeps: a sweep that is due or at work goes on.

        Raises:
            FeedHeldError: another process feeds the wiki.
            ConfigError: the settings cannot be used.
            WikiRenamedError: there is another wiki than before.
            WeboidError: the wiki or the registry cannot be asked. What was not written comes again.
        """
        await self.desk.refresh()
        await self._spam_lists.refresh()
        followed = await self._follow(is_rung=is_rung)
        pages = followed.pages.plus(await look_again(self.desk))
        handed, is_more_due = await self._hand_on()
        stale, is_more_stale = await read_stale(self.desk)
        asked, is_more_asked = await read_asked(self.desk)
        stale, is_more_stale = stale.plus(asked), is_more_stale or is_more_asked
        spread_to, is_more_spread = await spread(self.desk)
        swept = await self.sweeper.go_on() if sweeps and not followed.is_more else Outcome()
        sweep = self.sweeper.sweep()
        is_sweeping = sweeps and sweep is not None and not sweep.is_done
        later = stale.plus(spread_to).plus(swept)
        is_busy = followed.is_more or is_more_due or is_more_stale or is_more_spread or is_sweeping
        is_busy = is_busy or bool(later.added)  # which nobody has handed on yet
        return Done(
            followed, pages.plus(stale).plus(spread_to), handed, swept, sweep, is_busy=is_busy
        )

    async def rest_s(self) -> float:
        """How long there is nothing to do, unless somebody rings: seconds.

        Never so long that the lease would end, nor because the clock was put back.
        """
        now = self.desk.now()
        poll = timedelta(seconds=max(self.desk.feed.poll_s, 1.0))
        moments = [(self._polled_at or now - poll) + poll]
        settling = read_settling(self.desk.cursor(SETTLING))
        if settling:
            first = min(settling.values()) - now.timestamp()
            moments.append(now + timedelta(seconds=max(first, 0.0)))
        due = await asyncio.to_thread(self._next_due) if self.desk.feed.archive else None
        if due is not None:
            moments.append(due)
        longest = min(poll, LEASE_LENGTH / 2)
        return max(min(min(moments) - now, longest).total_seconds(), 0.0)

    async def _follow(self, *, is_rung: bool) -> Followed:
        now = self.desk.now()
        poll = timedelta(seconds=self.desk.feed.poll_s)
        is_due = self._polled_at is None or not timedelta(0) <= now - self._polled_at < poll
        if not (is_due or is_rung or self._hints or self._has_more):
            return Followed()
        hinted, self._hints = self._hints, set()
        try:
            followed = await follow(self.desk, hinted)
        except BaseException:
            self._hints |= hinted
            raise
        self._polled_at, self._has_more = now, followed.is_more
        return followed

    async def _hand_on(self) -> tuple[Handed, bool]:
        """Hand on what is due; what had to wait is looked at once more before."""
        if not self.desk.feed.archive:
            return Handed(), False
        now = self.desk.now()
        rows = await asyncio.to_thread(self._hand_over.due, now)
        if not rows:
            return Handed(), False
        is_full = len(rows) == BATCH
        if self.desk.feed.grace_h > 0:
            rows, is_cut = await self._second_look(rows, now)
            is_full = is_full or is_cut
        handed = await self._hand_over.hand_on(
            rows, now=now, days=self.desk.feed.archived_days, own=self.desk.own_origins
        )
        return handed, is_full and not handed.put_off

    async def _second_look(
        self, rows: list[WantedRow], now: datetime
    ) -> tuple[list[WantedRow], bool]:
        """Those of the links that their pages still have, read just now; and whether others wait."""
        page_ids = list(dict.fromkeys(row.page_id for row in rows))
        looked = page_ids[:SECOND_LOOKS]
        for some in parts(looked):
            await self.desk.write(await self.desk.read(ids=some), {})
        chosen = {(row.page, row.url_id) for row in rows if row.page_id in set(looked)}
        there = await asyncio.to_thread(self._hand_over.due, now)
        return [row for row in there if (row.page, row.url_id) in chosen], len(page_ids) > len(
            looked
        )

    def _next_due(self) -> datetime | None:
        with self.desk.store.snapshot() as reader:
            return next_due(reader, self.wiki.id)
