"""Any sequence of verbs, held against a plain model of the frontier."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from crawler.frontier.base import CLOCK_SLACK, Frontier, FrontierItem, HostBackOff, ItemState, Lane, NewItem
from tests.crawler.frontier.model import (
    CLAIMS_PER_ATTEMPT,
    HOSTS,
    JOBS,
    LONG_AGO,
    OPEN,
    SETTINGS,
    START,
    URLS,
    FrontierModel,
    HostModel,
    UrlModel,
    down,
    lane_order,
    politeness_of,
    up,
)
from tests.crawler.frontier.support import FrontierLocation
from tests.support.examples import examples

urls = st.sampled_from(URLS)
hosts = st.sampled_from(HOSTS)
lanes = st.sampled_from([Lane.STANDARD, Lane.STANDARD, Lane.HIGH, Lane.NOW])
memos = st.sampled_from(["", "", "seen"])
stored = st.sampled_from([0, 7, 1 << 33])
ZERO = timedelta(0)
MS = timedelta(milliseconds=1)
# Around the settings' own spans, where off-by-one errors live; and odd fractions of milliseconds.
spans = st.one_of(
    st.sampled_from([0, 1, 999, 1_000, 3_000, 4_000, 5_000, 7_000, 9_999, 10_000, 30_000]).map(
        lambda ms: timedelta(milliseconds=ms)
    ),
    st.integers(0, 20_000_000).map(lambda us: timedelta(microseconds=us)),
)
whiches = st.integers(0, 5)
maybe_spans = st.one_of(st.none(), spans)
# A host that was not asked at all has delay zero, which is worth more tests than chance gives it.
delays = st.one_of(st.none(), st.just(ZERO), spans)
ages = st.one_of(st.none(), st.just(ZERO), st.just(ZERO), st.integers(0, 15_000).map(lambda ms: ms * MS))


@dataclass(frozen=True)
class FrontierOperation:
    """Weight, preconditions and arguments of an operation of the model."""

    weight: int
    needs_claim: bool
    trouble: bool
    arguments: dict[str, st.SearchStrategy[Any]]


VERBS: dict[str, FrontierOperation] = {}


def verb(
    weight: int = 1, *, trouble: bool = False, **arguments: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a method of the machine be one of its verbs."""

    def entered(method: Callable[..., None]) -> Callable[..., None]:
        VERBS[method.__name__] = FrontierOperation(weight, "which" in arguments, trouble, arguments)
        return method

    return entered


class FrontierMachine(RuleBasedStateMachine):
    """Workers, dying and late ones among them, at one frontier."""

    new_place: Callable[[], FrontierLocation]

    def __init__(self) -> None:
        super().__init__()
        self.place = type(self).new_place()
        self.now = START
        self.handed_out: list[FrontierItem] = []
        self.orders: dict[str, str] = {}
        self.version = 0
        self.frontier: Frontier
        self.model: FrontierModel

    @initialize(
        visits=st.sampled_from([1, 2]),
        calm=st.booleans(),
        seeds=st.permutations(URLS),
        lane=st.lists(lanes, min_size=len(URLS), max_size=len(URLS)),
    )
    def begin(self, visits: int, calm: bool, seeds: list[str], lane: list[Lane]) -> None:
        """Open a new frontier with seeds; calm histories have no pauses and no failing hosts."""
        self.calm = calm
        self.model = FrontierModel(visits)
        self.reopen()
        self.add(list(zip(seeds[:6], lane, strict=False)), None, "", None)

    @rule(data=st.data())
    def act(self, data: st.DataObject) -> None:
        """Run one verb: separate rules would be left out of half of the histories each."""
        weights = {
            name: each.weight
            for name, each in VERBS.items()
            if not ((each.needs_claim and not self.handed_out) or (each.trouble and self.calm))
        }
        names = [name for name, weight in weights.items() for _ in range(weight)]
        name = data.draw(st.sampled_from(names), label="verb")
        values = data.draw(st.fixed_dictionaries(VERBS[name].arguments), label="arguments")
        getattr(self, name)(**values)

    def reopen(self) -> None:
        """Open the frontier again, as after a restart, which changes nothing."""
        if hasattr(self, "frontier"):
            self.frontier.close()
        self.frontier = self.place.open(politeness_of(self.model.visits), SETTINGS)

    @verb(
        items=st.integers(1, 200_000),
        restarts=st.booleans(),
        key=st.sampled_from("kl"),
        order=st.one_of(st.none(), st.sampled_from("12")),
    )
    def operate(self, items: int, restarts: bool, key: str, order: str | None) -> None:
        """Add and remove items by the hundred thousand, give orders, restart processes."""
        if restarts:
            self.reopen()
        else:
            self.place.age(items)
        self.order(key, order)
        self.look()

    @verb(span=spans)
    def wait(self, span: timedelta) -> None:
        """Time passes."""
        self.now += span

    @verb(off=st.integers(-1_000, 1_000))
    def approach(self, off: int) -> None:
        """Advance the clock to the next wake-up, within a millisecond of it."""
        wakeup = self.frontier.next_wakeup(self.now)
        if wakeup is not None:
            self.now = max(self.now, wakeup + timedelta(microseconds=off))

    @verb(seconds=st.sampled_from([1, 30, 61, 69, 200]))
    def put_back(self, seconds: int) -> None:
        """Somebody puts the clock back; not to before a host came up again."""
        over = [slot.down for slot in self.model.slots.values() if slot.down <= self.now]
        bounds = over
        if not self.place.cuts_rests_at_once:
            longest = self.model.longest_rest + CLOCK_SLACK
            bounds += [slot.rest - longest for slot in self.model.slots.values()]
        self.now = max([self.now - timedelta(seconds=seconds), *bounds])

    @verb(
        3,
        wanted=st.lists(st.tuples(urls, lanes), max_size=6),
        again=ages,
        job=st.sampled_from(JOBS),
        host=st.one_of(st.none(), hosts),
    )
    def add(self, wanted: list[tuple[str, Lane]], again: timedelta | None, job: str, host: str | None) -> None:
        """Add URLs, known ones among them; hosts may share their turns."""
        added = requeued = 0
        firsts: dict[str, Lane] = {}
        for url, lane in wanted:
            firsts.setdefault(url, lane)
        for url, lane in firsts.items():
            book = self.model.books.get(url)
            if book is None:
                self.model.queue(url, host or host_in(url), lane, job)
                added += 1
            elif again is not None and book.state in OPEN:
                book.lane = min(book.lane, lane)
            elif again is not None and (not again or down(self.now) - book.ended >= again):
                self.model.queue(url, host or host_in(url), lane, job, book.memo)
                requeued += 1
        self.model.duplicates += len(wanted) - added - requeued

        items = [NewItem(url, lane, job=job, host=host or "") for url, lane in wanted]
        result = self.frontier.add(items, now=self.now, again=again)

        assert (result.added, result.requeued) == (added, requeued)
        assert result.added + result.requeued + result.duplicates == len(wanted)

    @verb(4, limit=st.integers(1, 4))
    def claim(self, limit: int) -> None:
        """Claim items and compare them with the model."""
        if not self.model.paused:
            self.model.tidy(self.now)
        items = self.frontier.claim(now=self.now, worker="w", limit=limit)

        assert len(items) <= limit
        assert not (items and self.model.paused), "nothing is handed out while paused"
        for item in items:
            self.check_claimed(item)
        if len(items) < limit and not self.model.paused:
            left = [self.model.stands(host, self.now) for host in self.model.slots]
            assert left == [None] * len(left), "nothing that may be claimed is held back"

    @verb(6, limit=st.integers(1, 4), delay=delays, again=spans)
    def work(self, limit: int, delay: timedelta | None, again: timedelta) -> None:
        """Claim items, complete them and advance the clock."""
        before = len(self.handed_out)
        self.claim(limit)
        for item in self.handed_out[before:]:
            book = self.model.books[item.url]
            assert self.frontier.complete(item, now=self.now, outcome="ok", delay=delay)
            self.complete_book(book, None, delay, 0)
            book.due, book.memo = None, ""
        self.now += again

    def check_claimed(self, item: FrontierItem) -> None:
        """Assert that the item is the one due to this claim, and record it in the model."""
        model, book = self.model, self.model.books[item.url]
        slot = model.slots[book.host]
        lane = model.stands(book.host, self.now)
        assert book.state is ItemState.QUEUED, "never two holders of an item"
        assert lane is not None, "the host's delay, block and visits are kept to"
        assert book.later is None, "a retry waits for its moment"
        order = lane_order(item.token)
        stands = {host: model.stands(host, self.now) for host in model.slots}
        first = next(each for each in order if each in stands.values())
        assert lane is first, "the host stands in the first lane where one stands"
        rivals = [host for host, other in stands.items() if other is first]
        longest = min(model.slots[host].ready(self.now) for host in rivals)
        assert slot.ready(self.now) == longest, "the host that may be asked for longest is first"
        waiting = model.waiting(book.host)
        assert item.lane is book.lane is next(each for each in order if any(other.lane is each for other in waiting)), (
            "the host gives of the first lane where something waits"
        )
        assert book.number == min(each.number for each in waiting if each.lane is book.lane)
        assert all(item.token > earlier.token for earlier in self.handed_out)
        assert item.attempts == book.attempts + 1
        assert (item.host, item.job, item.memo) == (book.host, book.job, book.memo)
        assert bool(item.host_down) == (slot.down > self.now)
        book.state, book.token = ItemState.CLAIMED, item.token
        book.claimed = book.seen = down(self.now)
        self.handed_out.append(item)

    @verb(3, which=whiches, duration=maybe_spans, delay=delays, size=stored, due=maybe_spans, memo=memos)
    def complete(
        self,
        which: int,
        duration: timedelta | None,
        delay: timedelta | None,
        size: int,
        due: timedelta | None,
        memo: str,
    ) -> None:
        """Complete a claim, maybe one lost long ago."""
        item, book = self.some_claim(which)
        due_at = None if due is None else self.now + due

        accepted = self.frontier.complete(
            item, now=self.now, outcome="ok", duration=duration, delay=delay, stored_bytes=size, due=due_at, memo=memo
        )

        assert accepted == (book is not None), "only the latest claim may end"
        if book is not None:
            self.complete_book(book, duration, delay, size)
            book.due, book.memo = None if due_at is None else up(due_at), memo

    def complete_book(self, book: UrlModel, duration: timedelta | None, delay: timedelta | None, size: int) -> None:
        """Write a completion into the model."""
        slot = self.model.slots[book.host]
        if self.model.finish(book, self.now, duration, delay):
            slot.refusals, slot.down = 0, LONG_AGO
            slot.done += 1
            slot.bytes += size
        self.model.ended(book, ItemState.DONE, "ok", self.now)
        self.model.minutes[self.now.replace(second=0, microsecond=0)]["bytes"] += size
        self.model.bytes += size
        self.model.jobs[book.job]["bytes"] += size

    @verb(which=whiches, after=maybe_spans, duration=maybe_spans, delay=delays)
    def retry(self, which: int, after: timedelta | None, duration: timedelta | None, delay: timedelta | None) -> None:
        """End a claim with a retry."""
        item, book = self.some_claim(which)
        not_before = None if after is None else self.now + after

        state = self.frontier.retry(
            item, now=self.now, reason="x", not_before=not_before, duration=duration, delay=delay
        )

        assert (state is not None) == (book is not None)
        if book is not None:
            self.model.finish(book, self.now, duration, delay)
            book.failures += 1
            if book.failures >= SETTINGS.attempts:
                assert state is ItemState.DEAD
                self.model.ended(book, ItemState.DEAD, "x", self.now)
            else:
                assert state is ItemState.QUEUED
                wait = timedelta(seconds=SETTINGS.retry_delay_s * 2 ** (book.failures - 1))
                book.state, book.later = ItemState.QUEUED, up(not_before or self.now + wait)

    @verb(which=whiches, skip=st.booleans(), duration=maybe_spans, delay=delays)
    def fail_or_skip(self, which: int, skip: bool, duration: timedelta | None, delay: timedelta | None) -> None:
        """End a claim for good."""
        item, book = self.some_claim(which)
        verb = self.frontier.skip if skip else self.frontier.fail

        accepted = verb(item, now=self.now, reason="x", duration=duration, delay=delay)

        assert accepted == (book is not None)
        if book is not None:
            self.model.finish(book, self.now, duration, delay)
            state = ItemState.SKIPPED if skip else ItemState.DEAD
            self.model.ended(book, state, "x", self.now)

    @verb(which=whiches, after=maybe_spans)
    def release(self, which: int, after: timedelta | None) -> None:
        """Release a claim, with or without a not-before moment."""
        item, book = self.some_claim(which)
        not_before = None if after is None else self.now + after

        assert self.frontier.release(item, now=self.now, not_before=not_before) == bool(book)
        if book is not None:
            book.state = ItemState.QUEUED
            book.later = None if not_before is None else up(not_before)

    @verb(which=whiches)
    def renew(self, which: int) -> None:
        """Renew the lease of a claim."""
        item, book = self.some_claim(which)

        assert self.frontier.renew(item, now=self.now) == (book is not None)
        if book is not None:
            book.seen = max(book.seen, down(self.now))

    @verb(wanted=st.lists(urls, max_size=3, unique=True))
    def discard(self, wanted: list[str]) -> None:
        """Discard URLs as an operator does."""
        count = 0
        for book in filter(None, map(self.model.books.get, wanted)):
            if book.state is ItemState.QUEUED:
                self.model.ended(book, ItemState.SKIPPED, "purged", self.now)
                book.later = None
                count += 1
            elif book.due is not None:
                book.due = None
                count += 1

        assert self.frontier.discard(wanted, now=self.now, reason="purged") == count

    @verb(trouble=True, host=hosts, span=spans)
    def rest(self, host: str, span: timedelta) -> None:
        """Let a host rest as after a request outside its visits."""
        if host in self.model.slots:
            self.model.rested(host, self.now + span, self.now)

        self.frontier.rest({host: self.now + span}, now=self.now)

    @verb(trouble=True, host=hosts, span=spans, lift=st.booleans())
    def block(self, host: str, span: timedelta, lift: bool) -> None:
        """Block a host, or lift its block."""
        moment = self.now if lift else self.now + span
        slot = self.model.slots.setdefault(host, HostModel())
        if moment <= self.now:
            slot.block, slot.down, slot.refusals = LONG_AGO, LONG_AGO, 0
        else:
            slot.block = max(slot.block, up(moment))

        self.frontier.block_until(host, moment, "x", now=self.now)

    @verb(trouble=True, host=hosts, is_down=st.booleans(), blocks=st.booleans(), span=maybe_spans)
    def back_off(self, host: str, is_down: bool, blocks: bool, span: timedelta | None) -> None:
        """Back off from a host that fails or refuses requests as a whole."""
        slot = self.model.slots.setdefault(host, HostModel())
        slot.refusals += 1
        at_least = None if span is None else self.now + span
        named = [] if at_least is None else [up(at_least)]
        if is_down and slot.refusals >= self.model.politeness.host_failures:
            slot.block = LONG_AGO
            slot.down = expected = max([up(self.now + 7_000 * MS), slot.down, *named])
        else:
            wait = min(3 * 2 ** (slot.refusals - 1), 10) * 1_000 * MS * blocks
            slot.block = expected = max([up(self.now + wait), slot.block, *named])
            slot.down = LONG_AGO

        until = self.frontier.back_off(
            HostBackOff(host, "x", at_least=at_least, down=is_down, blocks=blocks), now=self.now
        )

        assert until == expected

    @verb(trouble=True, on=st.booleans())
    def pause(self, on: bool) -> None:
        """Pause or resume the crawl."""
        self.model.paused = on
        if on:
            self.frontier.pause("x")
        else:
            self.frontier.resume()

    def order(self, key: str, value: str | None) -> None:
        """Give an operator's order, or take it back."""
        if value is not None:
            self.orders[key] = value
            assert self.frontier.give_order("o", key, value) > self.version
        else:
            assert self.frontier.take_back("o", key) == (self.orders.pop(key, None) is not None)
        assert self.frontier.orders("o") == self.orders

    @invariant()
    def nothing_is_lost(self) -> None:
        """Assert that counts and statistics agree with the model."""
        if not hasattr(self, "model"):
            return
        books = self.model.books.values()
        states = [book.state for book in books]
        assert self.frontier.counts() == {state: states.count(state) for state in ItemState}
        stats = self.frontier.stats(self.now)
        late = [b for b in books if b.state is ItemState.CLAIMED and b.lease_end <= self.now]
        assert stats.claimed == states.count(ItemState.CLAIMED) - len(late)
        assert stats.queued == states.count(ItemState.QUEUED) + len(late)
        assert stats.skipped == states.count(ItemState.SKIPPED)
        assert stats.later == sum(book.later is not None for book in books)
        assert stats.due == sum(book.due is not None for book in books)
        assert (stats.duplicates, stats.bytes) == (self.model.duplicates, self.model.bytes)
        assert stats.hosts == len(self.model.slots)
        assert stats.version >= self.version
        self.version = stats.version

    @invariant()
    def the_wake_up_is_never_late(self) -> None:
        """Whoever sleeps until then misses nothing."""
        if not hasattr(self, "model"):
            return
        wakeup = self.frontier.next_wakeup(self.now)
        latest = self.model.next_moment(self.now)
        assert (wakeup is None) == (latest is None)
        if wakeup is not None and latest is not None:
            assert self.now <= wakeup <= latest

    def look(self) -> None:
        """Assert that every report agrees with the model."""
        for host in HOSTS:
            self.look_at_host(host)
        for job in JOBS:
            self.look_at_job(job)
        for minute in self.frontier.minutes(self.now):
            ended = self.model.minutes.get(minute.begins_at, Counter())
            for state in (ItemState.DONE, ItemState.SKIPPED, ItemState.DEAD):
                assert getattr(minute, state) == ended[state]
            assert minute.bytes == ended["bytes"]
        for state in ItemState:
            self.look_at_state(state)

    def look_at_host(self, host: str) -> None:
        """Assert that the host's report agrees with the model."""
        report = self.frontier.host(host, now=self.now)
        slot = self.model.slots.get(host)
        assert (report is None) == (slot is None)
        if report is None or slot is None:
            return
        assert report.waiting == len(self.model.waiting(host))
        assert report.active == len(self.model.of(host, ItemState.CLAIMED))
        assert report.ready_at == max(self.now, slot.ready(self.now))
        assert (report.done, report.bytes, report.busy) == (slot.done, slot.bytes, slot.busy)
        assert abs(report.mean / MS - (slot.mean or 0)) < 1
        assert report.failures == slot.refusals
        assert report.blocked_until == (slot.block if slot.block > self.now else None)
        assert report.down_until == (slot.down if slot.down > self.now else None)

    def look_at_job(self, job: str) -> None:
        """Assert that the job's counts agree with the model."""
        counts = self.frontier.job_counts(job)
        books = [book for book in self.model.books.values() if book.job == job]
        for state in ItemState:
            assert getattr(counts, state) == sum(book.state is state for book in books)
        assert counts.bytes == self.model.jobs.get(job, Counter())["bytes"]
        assert (counts.began_at is None) == (job not in self.model.jobs)

    def look_at_state(self, state: ItemState) -> None:
        """Assert that a scan and a listing return exactly the items in that state."""
        scanned, cursor = self.frontier.scan(state, limit=2)
        scanned_urls = [record.item.url for record in scanned]
        while cursor:
            scanned, cursor = self.frontier.scan(state, cursor=cursor, limit=2)
            scanned_urls += [record.item.url for record in scanned]
        expected = sorted(url for url, book in self.model.books.items() if book.state is state)
        assert sorted(set(scanned_urls)) == expected
        listed = [r for host in HOSTS for r in self.frontier.ls(state, host=host)]
        assert sorted(record.item.url for record in listed) == expected
        everything = self.frontier.ls(state)
        assert {record.item.url for record in everything} == set(expected)
        if state is ItemState.CLAIMED:
            tokens = [record.item.token for record in everything]
            assert all(one < next_one for one, next_one in pairwise(tokens))

    def some_claim(self, which: int) -> tuple[FrontierItem, UrlModel | None]:
        """Return one of the latest claims, and its model entry when it is still held."""
        item = self.handed_out[-1 - which % len(self.handed_out)]
        return item, self.model.held(item)

    def teardown(self) -> None:
        """Assert that every record agrees with the model and that all remaining items can be worked off."""
        try:
            if hasattr(self, "model"):
                for url, book in self.model.books.items():
                    self.check_record(url, book)
                self.work_off()
        finally:
            if hasattr(self, "frontier"):
                self.frontier.close()

    def check_record(self, url: str, book: UrlModel) -> None:
        """Assert that the record of a URL agrees with the model."""
        record = self.frontier.find(url)
        assert record is not None
        assert (record.state, record.item.lane) == (book.state, book.lane)
        assert (record.item.host, record.item.job) == (book.host, book.job)
        assert record.outcome == book.outcome
        assert record.item.memo == book.memo
        assert record.due_at == (book.later or book.due)
        assert record.item.attempts == book.attempts + (book.state is ItemState.CLAIMED)
        claimed = book.state is ItemState.CLAIMED
        assert record.lease_until == (book.lease_end if claimed else None)
        assert record.worker == ("w" if claimed else "")
        assert record.ended_at == (None if book.state in OPEN else book.ended)

    def work_off(self) -> None:
        """Sleep until each wake-up and complete what can be claimed, until nothing is left."""
        self.frontier.resume()
        left = {url for url, book in self.model.books.items() if book.state in OPEN}
        for _ in range(CLAIMS_PER_ATTEMPT * 50 * len(URLS)):
            wakeup = self.frontier.next_wakeup(self.now)
            if wakeup is None:
                break
            self.now = max(self.now, wakeup)
            for item in self.frontier.claim(now=self.now, worker="last", limit=9):
                assert self.frontier.complete(item, now=self.now, outcome="ok")
                left.discard(item.url)
        dead = {record.item.url for record in self.frontier.ls(ItemState.DEAD)}
        assert left <= dead, "only leases that keep running out may have buried an item"
        assert self.frontier.unfinished(self.now) == 0


def host_in(url: str) -> str:
    return url.split("/")[2]


@pytest.mark.slow
def test_no_sequence_of_verbs_breaks_the_books(new_place: Callable[[], FrontierLocation]) -> None:
    """One holder an item, nothing lost, delays kept, late holders refused, nothing held back."""
    machine = type("Machine", (FrontierMachine,), {"new_place": staticmethod(new_place)})

    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples(25), stateful_step_count=50, suppress_health_check=list(HealthCheck)),
    )
