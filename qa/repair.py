"""Repair of broken captures: recapture once, then offer the better of the two.

The page class of the visit counts first: an error page, a wall or a bot challenge never replaces the page itself,
however good its copy is. Nor does another page at the URL, or one with much less content, as long as more is left of
the old copy. Then the verdict counts, and between two broken ones the score (docs/how-to/quality.md).

    wanted ─begin─> begun ─(the visit)─> finish: no capture ───────────> failed
                                               ╰─ checked, compared ──> done-better, done-not-better

Each step is stored before the next one can have an effect, and each is idempotent:

1. The order that makes the URL's next visit a repair (`crawler.jobs.job_settings`), with the present item id.
2. The item is queued, which gives it another id: that of the new capture.
3. The registry: the repair has begun, and the id.
4. A worker visits the URL like any other.
5. The new capture is checked; the result is stored, and the order is withdrawn.

A run that finds the order and an item of another id continues with step 3, without a second visit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from core.clock import Clock
from core.errors import BadUrlError
from core.page_classes import WITHHELD, PageClass, class_rank
from core.page_manifest import PageInfo, VisitOutcome
from core.playback_check import MOST_CHARACTERS, PlaybackCheck, PlaybackFault, QaVerdict, VerdictSource, choice_penalty
from core.urls import fetch_key, identity_key
from crawler.frontier.base import REPAIR_ORDER, Frontier, ItemRecord, ItemState, Lane, NewItem
from crawler.frontier.host_slots import SlotAssigner
from crawler.jobs.crawl_orders import REPAIR_PROFILE, RepairVisit, bucket_for, cancel_repair, order_repair, read_repairs
from crawler.jobs.job_settings import ORDERS_POLL_S
from crawler.worker.crawl_events import PageRepaired
from links.registry.database import RegistryStore
from qa.check_store import begin_repair, end_repair, find_checks, list_repairs, store_checks, want_repair
from qa.check_table import CheckedPage, RepairState
from qa.page_changes import PageChanges, PageDrift

MARGIN = 0.05  # minimum gain of the better of two broken copies
_ORDER = {QaVerdict.GOOD: 0, QaVerdict.DOUBTFUL: 1, QaVerdict.UNCHECKED: 2, QaVerdict.BROKEN: 3}
# Changes after which the URL no longer has the page.
_NOT_THE_PAGE = {
    PageDrift.OTHER_PAGE: "another page",
    PageDrift.OTHER_OWNER: "the words of another owner",
    PageDrift.GONE: "that the page is gone",
}
_READABLE = 0.5  # of the words: what has fewer left is not worth more than another page
_LESS = 0.5  # of the remaining content of the old copy
_FEWEST_PARTS = 3  # of which some can be missing
_FEWEST_WORDS = 40  # the same of words
# Faults that are not evidence of a playback problem.
_NOT_PLAYBACK = frozenset({PlaybackFault.DAMAGED, PlaybackFault.UNFINISHED})


@dataclass(frozen=True, slots=True)
class CaptureSide:
    """One of the two captures to compare: the check with the effective verdict, class and status."""

    check: PlaybackCheck
    page_class: PageClass
    status: int | None = None

    @property
    def rank(self) -> int:
        """Return the class rank of the capture, regardless of its copy; lower is better."""
        return class_rank(self.page_class, self.status)

    @property
    def offered(self) -> int:
        """Return the rank in playback's choice: the lowest is offered, then the newest."""
        return self.rank + choice_penalty(self.check)


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """Final state of a repair, and a sentence for users."""

    state: RepairState
    reason: str
    old_stays: bool = False  # the new capture must be marked, or it would be offered as the newer one


def choose_capture(old: CaptureSide, new: CaptureSide, became: PageChanges | None = None) -> RepairOutcome:
    """Choose between a broken capture and its recapture; `became` are the page's changes between them."""
    still = " It is still broken." if new.check.verdict is QaVerdict.BROKEN else ""

    def better(message: str) -> RepairOutcome:
        return RepairOutcome(RepairState.DONE_BETTER, f"Captured again, and better: {message}")

    def stays(message: str) -> RepairOutcome:
        # The new one is marked where it would be offered otherwise.
        old_stays = new.offered <= old.offered
        return RepairOutcome(RepairState.DONE_NOT_BETTER, f"Captured again, no better{message}", old_stays)

    if new.page_class in WITHHELD:
        return RepairOutcome(RepairState.FAILED, "The site sent a bot challenge: there is no new copy.")
    if new.rank < old.rank:
        return better(f"the site shows {_page(new)} now, not {_page(old)}.{still}")
    if less := _page(new) if new.rank != old.rank else _lost_content(old, new, became):
        return stays(f": the site shows {less} now. The old capture stays.")
    came, was = _ORDER[new.check.verdict], _ORDER[old.check.verdict]
    copy = f"the copy is {new.check.verdict}"
    if new.check.verdict is QaVerdict.UNCHECKED:
        why = new.check.reason.rstrip(".") or "no artifacts"
        copy = f"the copy could not be compared ({why})"
    if came != was:
        return better(f"{copy}.") if came < was else stays(f": {copy}. The old capture stays.")
    if new.check.verdict is not QaVerdict.BROKEN:
        return RepairOutcome(RepairState.DONE_NOT_BETTER, f"Captured again: {copy}, like the previous capture.")
    gain = (new.check.score or 0.0) - (old.check.score or 0.0)
    if gain >= MARGIN:
        return better(f"{gain:.0%} more of it is shown.{still}")
    same = (set(old.check.faults) & set(new.check.faults)) - _NOT_PLAYBACK
    if same and PlaybackFault.DAMAGED not in new.check.faults:
        return stays(f": a playback fault ({', '.join(sorted(map(str, same)))}).")
    return stays(".")


def _lost_content(old: CaptureSide, new: CaptureSide, became: PageChanges | None) -> str:
    """Return what the site shows in place of the page; empty if the old copy has not more, or a person reviewed it."""
    check = old.check
    left = check.score or 0.0
    if check.judge is VerdictSource.PERSON or check.verdict is not QaVerdict.BROKEN:
        return ""
    if became is not None and (check.text or 0.0) >= _READABLE:
        if became.drift in _NOT_THE_PAGE:
            return _NOT_THE_PAGE[became.drift]
        text = became.text
        if text is not None and text.words_seen >= _FEWEST_WORDS:
            share = text.words_shown / text.words_seen
            if share < _LESS * left:
                return f"{share:.0%} of the words"
    if check.parts_seen >= _FEWEST_PARTS:
        share = new.check.parts_shown / check.parts_seen
        if share < _LESS * left:
            return f"{share:.0%} of the parts"
    return ""


def _page(side: CaptureSide) -> str:
    if side.page_class is PageClass.HTTP_ERROR or not side.page_class:
        return f"status {side.status}" if side.status else "a page"
    return "the page" if side.page_class is PageClass.OK else f"a page of class {side.page_class}"


# Repairs that have begun and not ended: each is an order that every worker reads.
OPEN_REPAIRS_LIMIT = 100
_WAITING = frozenset({ItemState.QUEUED, ItemState.CLAIMED})
_OPEN = frozenset({RepairState.WANTED, RepairState.BEGUN})
_STORED = frozenset({VisitOutcome.COMPLETE, VisitOutcome.PARTIAL})


@dataclass(frozen=True, slots=True)
class RepairManager:
    """Manager that begins and finishes repairs."""

    store: RegistryStore
    frontier: Frontier
    turns: SlotAssigner  # assigns the slot of a URL that the frontier does not know
    manifest_of: Callable[[str], PageInfo | None]  # by page id; None when it cannot be read
    check: Callable[[PageInfo, str], Awaitable[CheckedPage]]  # checks a capture at a level and stores the result
    levels: Collection[str]  # levels that it can check; repairs of copies at others are left to other processes
    is_withheld: Callable[[str], bool]  # whether a capture, by its page id, must not be shown
    clock: Clock
    report: Callable[[PageRepaired], None]  # called with the end of each repair
    profile: str = REPAIR_PROFILE  # profile applied to the visits
    lane: Lane = Lane.STANDARD  # lane in which they are queued
    reach_s: float = 2 * ORDERS_POLL_S  # seconds after which an order has reached every worker
    became: Callable[[str, str], PageChanges | None] = lambda _old, _new: None  # between captures; None: unknown

    def wanted(self, limit: int) -> list[CheckedPage]:
        """Return the pages that `begin` would begin with."""
        with self.store.reading() as rows:
            return list_repairs(rows, RepairState.WANTED, limit)

    def begun(self) -> list[CheckedPage]:
        """Return repairs that have begun and not ended."""
        with self.store.reading() as rows:
            return list_repairs(rows, RepairState.BEGUN, OPEN_REPAIRS_LIMIT)

    def others_wait(self) -> bool:
        """Return whether the frontier holds waiting items besides repairs."""
        records = self.frontier.find_all(list(read_repairs(self.frontier)))
        repair_count = sum(record is not None and record.state in _WAITING for record in records)
        return self.frontier.unfinished(self.clock.now()) > repair_count

    async def begin(self, limit: int) -> int:
        """Queue wanted repairs, up to the limit; return the number of those that have begun."""
        orders = read_repairs(self.frontier)
        with self.store.reading() as reader:
            known = find_checks(reader, [order.page_id for order in orders.values()])
        open_ids = {each.check.page_id for each in known if each.repair in _OPEN}
        # Orders of repairs that are neither wanted nor begun are withdrawn.
        for key in [key for key, order in orders.items() if order.page_id not in open_ids]:
            self.frontier.take_back(REPAIR_ORDER, key)
            del orders[key]
        rows = self.wanted(min(limit, max(0, OPEN_REPAIRS_LIMIT - len(self.begun()))))
        bucket = bucket_for(self.clock.now())
        ordered = [(row, repair) for row in rows if (repair := await self._order(row, orders, bucket)) is not None]
        if ordered:
            # Workers must have read the orders before they claim these items.
            await asyncio.sleep(self.reach_s)
        return sum([await self._queue(row, repair) for row, repair in ordered])

    async def _order(self, row: CheckedPage, orders: dict[str, RepairVisit], bucket: str) -> RepairVisit | None:
        """Make the URL's next visit a repair, unless it already is one; None when that is impossible."""
        page_id = row.check.page_id
        try:
            url = fetch_key(row.check.url, allow_single_label=True)
            record = self.frontier.find(url)
        except BadUrlError:
            self._end(row, RepairOutcome(RepairState.FAILED, "It has no URL that can be visited."))
            return None
        if await asyncio.to_thread(self.is_withheld, page_id):
            self._end(row, RepairOutcome(RepairState.FAILED, "Taken down: it is not captured again."))
            return None
        if record is not None and record.state is ItemState.CLAIMED:
            return None  # it is being visited right now, as ever; the next time
        key = identity_key(url)
        if key not in orders:
            old = await asyncio.to_thread(self.manifest_of, page_id)
            orders[key] = RepairVisit(page_id, bucket, old.login if old else "", self.profile, _id_of(record))
            order_repair(self.frontier, url, orders[key])
        return orders[key]

    async def _queue(self, row: CheckedPage, repair: RepairVisit) -> bool:
        """Queue the URL with its present job and slot, and mark the repair as begun; False: not now."""
        url = fetch_key(row.check.url, allow_single_label=True)
        record = self.frontier.find(url)
        if _id_of(record) == repair.item_before:
            if record is not None and record.state is ItemState.CLAIMED:
                return False  # by a worker that may not know the order; retry in the next run
            if record is None:
                items = await self.turns.assign([NewItem(url, self.lane)])
            else:
                was = record.item
                items = [NewItem(url, self.lane, was.hops, was.via, was.job, was.hops_off, was.host)]
            self.frontier.add(items, now=self.clock.now(), again=timedelta(0))
            record = self.frontier.find(url)
        with self.store.writing() as rows:
            return begin_repair(rows, row.check.page_id, _id_of(record), now=self.clock.now())

    def over(self) -> list[CheckedPage]:
        """Return begun repairs whose visits have ended: `finish` can end them."""
        over = []
        for row in self.begun():
            record = self.frontier.find(row.check.url)
            if record is None or record.item.id != row.repair_page_id or record.state not in _WAITING:
                over.append(row)
        return over

    async def finish(self) -> None:
        """Compare recaptures with the captures they repair; UnavailableError: playback or browser cannot be used."""
        for row in self.begun():
            if row.check.level in self.levels and (choice := await self._outcome(row)) is not None:
                self._end(row, choice)

    async def _outcome(self, row: CheckedPage) -> RepairOutcome | None:
        new_id = row.repair_page_id
        page = await asyncio.to_thread(self.manifest_of, new_id) if new_id else None
        if page is None:
            # A visit without a manifest: derive the result from its frontier record.
            url = row.check.url
            record = self.frontier.find(url)
            if record is None or record.item.id != new_id:
                # The frontier it was queued in no longer has it: want the repair again.
                cancel_repair(self.frontier, url)
                with self.store.writing() as rows:
                    want_repair(rows, row.check.page_id, row.check.level, now=self.clock.now())
                return None
            if record.state in _WAITING:
                return None
            reason = f"There is no new capture: {record.outcome.rstrip('.')}."
            if record.state is ItemState.DONE:
                reason = "The manifest of the new capture cannot be read."
            return RepairOutcome(RepairState.FAILED, reason)
        if page.outcome not in _STORED:
            return RepairOutcome(RepairState.FAILED, f"There is no new capture: {page.reason}.")
        new = await self.check(page, row.check.level)
        old_page = await asyncio.to_thread(self.manifest_of, row.check.page_id)
        status = old_page.status if old_page is not None else None
        became = await asyncio.to_thread(self.became, row.check.page_id, new_id)
        old_side = CaptureSide(row.effective_check, row.page_class, status)
        choice = choose_capture(old_side, CaptureSide(new.effective_check, page.page_class, page.status), became)
        if choice.old_stays:
            marked = new._replace(check=replace(new.check, better=row.check.page_id))
            with self.store.writing() as rows:
                store_checks(rows, [marked], self.clock.now())
        return choice

    def _end(self, row: CheckedPage, choice: RepairOutcome) -> None:
        page_id, url = row.check.page_id, row.check.url
        message = f"{row.check.reason} {choice.reason}".strip()[:MOST_CHARACTERS]
        now = self.clock.now()
        with self.store.writing() as rows:
            if not end_repair(rows, page_id, choice.state, row.repair_page_id, now=now):
                return  # another process has ended and reported it
            store_checks(rows, [row._replace(check=replace(row.check, reason=message))], now)
        with suppress(BadUrlError):
            cancel_repair(self.frontier, url)
        self.report(PageRepaired(url, page_id, str(choice.state), choice.reason, row.repair_page_id))


def _id_of(record: ItemRecord | None) -> str:
    return record.item.id if record is not None else ""
