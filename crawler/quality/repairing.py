"""What failed is captured again, once, and the better capture becomes the one that is offered (U09).

    wanted ─begin─> begun ─(the visit)─> finish: no capture ───────────> failed
                                               ╰─ checked, compared ──> done-better, done-not-better

Each step is written down before the next one can have an effect, and each may be done again:

1. The order that makes the URL's next visit a repair (`crawler.repairs`), with the id that its item has.
2. The item is queued, which gives it another id: that of the new capture.
3. The registry: the repair has begun, and the id.
4. The crew visits, as it visits anything.
5. The new capture is checked; what came of it is kept, and the order is taken back.

Who dies after 1 or 2 finds the order and an item of another id, and goes on with 3 instead of asking for
a second visit; who dies after 3 or 4 finds the repair begun, and 5 waits for whoever comes next.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from core.clock import Clock
from core.errors import BadUrlError
from core.pages import Outcome, PageInfo
from core.quality import MOST_CHARACTERS, Check, Judge
from core.urls import fetch_key, identity_key
from crawler.events import PageRepaired
from crawler.frontier.base import AddResult, Frontier, ItemRecord, ItemState, Lane, NewItem
from crawler.jobs import LOOK_S
from crawler.quality.changes import Changes
from crawler.quality.choosing import Choice, Side, choose
from crawler.repairs import (
    REPAIR_ORDER,
    REPAIR_PROFILE,
    Repair,
    bucket_for,
    give_repair,
    read_repairs,
    take_back_repair,
)
from crawler.turns import Turns
from links.books.quality import checks_of, keep_checks
from links.books.quality_rows import CheckedPage, RepairState
from links.books.repairs import (
    awaiting_repair,
    in_repair,
    repair_begun,
    repair_ended,
    want_repair,
)
from links.store.store import Store

AT_ONCE = 100  # repairs that have begun and not ended: each is an order that every worker reads
_WAITING = frozenset({ItemState.QUEUED, ItemState.CLAIMED})
_OPEN = frozenset({RepairState.WANTED, RepairState.BEGUN})
_KEPT = frozenset({Outcome.COMPLETE, Outcome.PARTIAL})


@dataclass(frozen=True, slots=True)
class Bench:
    """What repairs are made with.

    Attributes:
        store: the registry.
        frontier: where URLs are handed to who visits them.
        turns: whose turn a URL takes that the frontier does not know.
        manifest_of: the manifest of a page by its id; None when it cannot be read.
        check: checks a capture at a level, and keeps what it finds.
        levels: at which it can; repairs of copies at others are left to others.
        is_withheld: whether nothing of a capture may be shown, by its page id: it was taken down, say.
        clock: the time.
        report: told how each repair ended.
        profile: laid over the settings of the visits.
        lane: where they are queued.
        reach_s: an order has reached every worker after so long.
        became: what the page of a capture, by its id, had become in another; None: that cannot be said.
    """

    store: Store
    frontier: Frontier
    turns: Turns
    manifest_of: Callable[[str], PageInfo | None]
    check: Callable[[PageInfo, str], Awaitable[CheckedPage]]
    levels: Collection[str]
    is_withheld: Callable[[str], bool]
    clock: Clock
    report: Callable[[PageRepaired], None]
    profile: str = REPAIR_PROFILE
    lane: Lane = Lane.STANDARD
    reach_s: float = 2 * LOOK_S
    became: Callable[[str, str], Changes | None] = lambda _old, _new: None


class Repairs:
    """Begins repairs, and finishes them."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def wanted(self, limit: int) -> list[CheckedPage]:
        """What `begin` would begin with."""
        with self._bench.store.reading() as rows:
            return awaiting_repair(rows, limit)

    def begun(self) -> list[CheckedPage]:
        """Repairs that have begun and not ended."""
        with self._bench.store.reading() as rows:
            return in_repair(rows, AT_ONCE)

    def others_wait(self) -> bool:
        """Whether the frontier has more before it than the visits of repairs."""
        frontier = self._bench.frontier
        found = frontier.find_all(list(read_repairs(frontier)))
        ours = sum(record is not None and record.state in _WAITING for record in found)
        return frontier.unfinished(self._bench.clock.now()) > ours

    async def begin(self, limit: int) -> AddResult:
        """Have what is wanted captured again, at most so many; what was added to the frontier."""
        bench, done = self._bench, AddResult()
        orders = self._orders()
        rows = self.wanted(min(limit, max(0, AT_ONCE - len(self.begun()))))
        bucket = bucket_for(bench.clock.now())
        ordered = [(row, await self._order(row, orders, bucket)) for row in rows]
        if any(repair is not None for _, repair in ordered):
            # Whoever claims one of these items has to know that it is a repair.
            await asyncio.sleep(bench.reach_s)
        for row, repair in ordered:
            if repair is not None:
                added = await self._queue(row, repair)
                done = AddResult(
                    done.added + added.added,
                    done.duplicates + added.duplicates,
                    done.requeued + added.requeued,
                )
        return done

    def _orders(self) -> dict[str, Repair]:
        """The orders of repairs that are wanted or have begun; what is left of others is taken back."""
        frontier = self._bench.frontier
        orders = read_repairs(frontier)
        with self._bench.store.reading() as rows:
            known = checks_of(rows, [order.page_id for order in orders.values()])
        alive = {each.check.page_id for each in known if each.repair in _OPEN}
        for key in [key for key, order in orders.items() if order.page_id not in alive]:
            frontier.take_back(REPAIR_ORDER, key)
            del orders[key]
        return orders

    async def _order(
        self, row: CheckedPage, orders: dict[str, Repair], bucket: str
    ) -> Repair | None:
        """Let the URL's next visit be a repair, unless it is one already; None when it cannot be one."""
        bench, page_id = self._bench, row.check.page_id
        try:
            url = fetch_key(row.check.url, allow_single_label=True)
            record = bench.frontier.find(url)
        except BadUrlError:
            self._end(row, Choice(RepairState.FAILED, "No URL that could be visited."))
            return None
        if await asyncio.to_thread(bench.is_withheld, page_id):
            self._end(row, Choice(RepairState.FAILED, "Taken down: it is not captured again."))
            return None
        if record is not None and record.state is ItemState.CLAIMED:
            return None  # it is being visited right now, as ever; the next time
        key = identity_key(url)
        if key not in orders:
            old = await asyncio.to_thread(bench.manifest_of, page_id)
            login = old.login if old is not None else ""
            orders[key] = Repair(page_id, bucket, login, bench.profile, _id_of(record))
            give_repair(bench.frontier, url, orders[key])
        return orders[key]

    async def _queue(self, row: CheckedPage, repair: Repair) -> AddResult:
        """Queue the URL, in the job and at the place that it has, and note that the repair begins."""
        bench, added = self._bench, AddResult()
        url = fetch_key(row.check.url, allow_single_label=True)
        record = bench.frontier.find(url)
        if _id_of(record) == repair.item_before:
            if record is not None and record.state is ItemState.CLAIMED:
                return added  # by somebody who may not have known; the next time
            if record is None:
                items = await bench.turns.assign([NewItem(url, bench.lane)])
            else:
                was = record.item
                items = [
                    NewItem(url, bench.lane, was.hops, was.via, was.job, was.hops_off, was.host)
                ]
            added = bench.frontier.add(items, now=bench.clock.now(), again=timedelta(0))
            record = bench.frontier.find(url)
        with bench.store.writing() as rows:
            repair_begun(rows, row.check.page_id, _id_of(record), now=bench.clock.now())
        return added

    def over(self) -> list[CheckedPage]:
        """Repairs that have begun and whose visits are over, whoever made them: `finish` can end them."""
        return [row for row in self.begun() if not self._is_to_come(row)]

    def _is_to_come(self, row: CheckedPage) -> bool:
        record = self._bench.frontier.find(row.check.url)
        is_ours = record is not None and record.item.id == row.repair_page_id
        return is_ours and record is not None and record.state in _WAITING

    async def finish(self) -> int:
        """Compare what was captured again with what it was to repair; how many repairs ended.

        Raises:
            UnavailableError: playback does not answer; the repairs stay as they are.
            BrowserUnavailableError: no browser starts.
        """
        ended = 0
        for row in self.begun():
            if row.check.level not in self._bench.levels:
                continue
            choice = await self._outcome(row)
            if choice is not None:
                self._end(row, choice)
                ended += 1
        return ended

    async def _outcome(self, row: CheckedPage) -> Choice | None:
        """What came of the repair; None while nothing did."""
        bench, new_id = self._bench, row.repair_page_id
        page = await asyncio.to_thread(bench.manifest_of, new_id) if new_id else None
        if page is None:
            return self._without_capture(row)
        if page.outcome not in _KEPT:
            return Choice(RepairState.FAILED, f"No new capture came about: {page.reason}.")
        new = await bench.check(page, row.check.level)
        old_page = await asyncio.to_thread(bench.manifest_of, row.check.page_id)
        status = old_page.status if old_page is not None else None
        became = await asyncio.to_thread(bench.became, row.check.page_id, new_id)
        choice = choose(
            Side(_counting(row), row.page_class, status),
            Side(_counting(new), page.page_class, page.status),
            became,
        )
        if choice.old_stays:
            marked = new._replace(check=replace(new.check, better=row.check.page_id))
            with bench.store.writing() as rows:
                keep_checks(rows, [marked], bench.clock.now())
        return choice

    def _without_capture(self, row: CheckedPage) -> Choice | None:
        """What became of a visit that left no manifest."""
        bench, url = self._bench, row.check.url
        record = bench.frontier.find(url)
        if record is None or record.item.id != row.repair_page_id:
            # The frontier that it was handed to is gone; nobody has visited it for us.
            take_back_repair(bench.frontier, url)
            with bench.store.writing() as rows:
                want_repair(rows, row.check.page_id, row.check.level, now=bench.clock.now())
            return None
        if record.state in _WAITING:
            return None
        if record.state is ItemState.DONE:
            return Choice(RepairState.FAILED, "The manifest of the new capture cannot be read.")
        reason = record.outcome.rstrip(".")
        return Choice(RepairState.FAILED, f"No new capture came about: {reason}.")

    def _end(self, row: CheckedPage, choice: Choice) -> None:
        """Write down what came of it, and tell."""
        bench, page_id, url = self._bench, row.check.page_id, row.check.url
        said = f"{row.check.reason} {choice.reason}".strip()[:MOST_CHARACTERS]
        now = bench.clock.now()
        with bench.store.writing() as rows:
            if not repair_ended(rows, page_id, choice.state, row.repair_page_id, now=now):
                return  # somebody else was quicker, and told it
            keep_checks(rows, [row._replace(check=replace(row.check, reason=said))], now)
        with suppress(BadUrlError):
            take_back_repair(bench.frontier, url)
        bench.report(
            PageRepaired(url, page_id, str(choice.state), choice.reason, row.repair_page_id)
        )


def _counting(row: CheckedPage) -> Check:
    """The check with the verdict that counts, and whose it is."""
    judge = Judge.PERSON if row.review else row.check.judge
    return replace(row.check, verdict=row.verdict, judge=judge)


def _id_of(record: ItemRecord | None) -> str:
    return record.item.id if record is not None else ""
