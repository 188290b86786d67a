"""Any sequence of verbs, held against a plain model of the frontier."""

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.base import Frontier, FrontierItem, ItemState, Lane, NewItem
from crawler.frontier.moves import CLAIMS_PER_ATTEMPT
from crawler.frontier.slots import EPOCH_BITS
from crawler.frontier.sqlite import SqliteFrontier

SETTINGS = FrontierSettings(attempts=2, lease_s=10, retry_delay_s=5)


class SqliteImplementation:
    """The frontier in SQLite, and how to make it old."""

    @staticmethod
    def open(folder: Path, politeness: PolitenessSettings) -> Frontier:
        """The frontier in that folder."""
        return SqliteFrontier(folder / "frontier.sqlite", politeness=politeness, settings=SETTINGS)

    @staticmethod
    def age(folder: Path, items: int) -> None:
        """Let it look as if so many items had come and gone, without the wait."""
        with closing(sqlite3.connect(folder / "frontier.sqlite")) as db, db:
            db.execute(
                "INSERT INTO items (seq, id, url, host_id, job_id, lane, place, hops, hops_off, via, "
                "memo, ended, added_ms) "
                "SELECT ifnull(max(seq), 0) + ?, x'00', '', 0, 0, 2, 0, 0, 0, '', '', 4, 0 FROM items",
                (items,),
            )


IMPLEMENTATIONS = {"sqlite": SqliteImplementation}
HOSTS = ("a.test", "b.test")
URLS = tuple(f"https://{host}/{page}" for host in HOSTS for page in range(3))
START = datetime(2026, 1, 1, tzinfo=UTC)

Moment = datetime
urls = st.sampled_from(URLS)
lanes = st.sampled_from([Lane.STANDARD, Lane.STANDARD, Lane.HIGH, Lane.NOW])
# Around the settings' own spans, where off-by-one errors live; and odd fractions of milliseconds.
spans = st.one_of(
    st.sampled_from([0, 1, 999, 1_000, 4_000, 5_000, 9_999, 10_000, 30_000]).map(
        lambda ms: timedelta(milliseconds=ms)
    ),
    st.integers(0, 20_000_000).map(lambda us: timedelta(microseconds=us)),
)


@dataclass
class Book:
    """What the model knows of one URL."""

    lane: Lane
    state: ItemState = ItemState.QUEUED
    due: Moment = START
    token: int = 0
    claimed: Moment = START
    seen: Moment = START
    attempts: int = 0
    failures: int = 0


@dataclass
class Slot:
    """What the model knows of one host."""

    rest: Moment = START
    block: Moment = START


@dataclass
class Model:
    """The books of the model."""

    visits_per_host: int
    politeness: PolitenessSettings
    books: dict[str, Book] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=lambda: {host: Slot() for host in HOSTS})

    def of(self, host: str, state: ItemState) -> list[Book]:
        """The host's URLs in that state."""
        prefix = f"https://{host}/"
        return [b for url, b in self.books.items() if url.startswith(prefix) and b.state is state]

    def held(self, item: FrontierItem) -> Book | None:
        """The claim, when it is the latest of its URL."""
        book = self.books[item.url]
        return book if book.state is ItemState.CLAIMED and book.token == item.token else None

    def rest(self, host: str, finished: Moment, duration: timedelta) -> None:
        """Let the host rest after a visit."""
        p = self.politeness
        seconds = max(p.min_delay_s, min(p.max_delay_s, p.delay_factor * duration.total_seconds()))
        slot = self.slots[host]
        slot.rest = max(slot.rest, up(finished + timedelta(seconds=seconds)))

    def reap(self, now: Moment) -> None:
        """Queue what a vanished worker held."""
        for url, book in self.books.items():
            if book.state is ItemState.CLAIMED and lease_end(book) <= now:
                book.attempts += 1
                dead = book.attempts >= CLAIMS_PER_ATTEMPT * SETTINGS.attempts
                book.state = ItemState.DEAD if dead else ItemState.QUEUED
                book.due = START
                self.rest(host_in(url), book.seen, book.seen - book.claimed)

    def lane_of(self, host: str, now: Moment) -> Lane | None:
        """The lane the host could give an item of at that moment; None when it cannot."""
        slot = self.slots[host]
        if len(self.of(host, ItemState.CLAIMED)) >= self.visits_per_host:
            return None
        if max(slot.rest, slot.block) > now:
            return None
        waiting = [book.lane for book in self.of(host, ItemState.QUEUED) if book.due <= now]
        return min(waiting, default=None)


def up(moment: Moment) -> Moment:
    """The moment, rounded up to milliseconds: the frontier may be late by less than one."""
    return moment + timedelta(microseconds=-moment.microsecond % 1000)


def down(moment: Moment) -> Moment:
    """The moment, cut to milliseconds."""
    return moment - timedelta(microseconds=moment.microsecond % 1000)


def lease_end(book: Book) -> Moment:
    """When the claim's lease runs out."""
    return book.seen + timedelta(seconds=SETTINGS.lease_s)


def host_in(url: str) -> str:
    """The host of one of our URLs."""
    return url.split("/")[2]


class FrontierMachine(RuleBasedStateMachine):
    """Workers, dying and late ones among them, at one frontier."""

    implementation: type[SqliteImplementation]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now = START
        self.handed_out: list[FrontierItem] = []
        self.ids: dict[str, str] = {}
        self.frontier: Frontier
        self.model: Model

    @initialize(visits=st.sampled_from([1, 2]))
    def begin(self, visits: int) -> None:
        """An empty frontier."""
        self.politeness = PolitenessSettings(
            delay_factor=2, min_delay_s=1, max_delay_s=4, visits_per_host=visits
        )
        self.model = Model(visits, self.politeness)
        self.reopen()

    @rule()
    def reopen(self) -> None:
        """A restart changes nothing."""
        if hasattr(self, "frontier"):
            self.frontier.close()
        self.frontier = self.implementation.open(Path(self.folder.name), self.politeness)

    @rule(items=st.integers(1, 3 << EPOCH_BITS))
    def age(self, items: int) -> None:
        """Items by the hundred thousand come and go."""
        self.implementation.age(Path(self.folder.name), items)

    @rule(span=spans)
    def wait(self, span: timedelta) -> None:
        """Time passes."""
        self.now += span

    @rule(off=st.integers(-1_000, 1_000))
    def approach(self, off: int) -> None:
        """The moment of the next wake-up, within a millisecond of it."""
        wakeup = self.frontier.next_wakeup(self.now)
        if wakeup is not None:
            self.now = max(self.now, wakeup + timedelta(microseconds=off))

    @rule(wanted=st.lists(urls, max_size=6), lane=lanes, again=st.booleans())
    def add(self, wanted: list[str], lane: Lane, again: bool) -> None:
        """URLs are found, known ones among them."""
        added = requeued = 0
        for url in dict.fromkeys(wanted):
            book = self.model.books.get(url)
            if book is None:
                self.model.books[url] = Book(lane)
                added += 1
            elif again and book.state in (ItemState.DONE, ItemState.DEAD):
                self.model.books[url] = Book(lane)
                requeued += 1
            elif again:
                book.lane = min(book.lane, lane)

        result = self.frontier.add(
            [NewItem(u, lane) for u in wanted], now=self.now, again=timedelta(0) if again else None
        )

        assert (result.added, result.requeued) == (added, requeued)
        assert result.added + result.requeued + result.duplicates == len(wanted)

    @rule(limit=st.integers(1, 4))
    def claim(self, limit: int) -> None:
        """A worker asks for work."""
        self.model.reap(down(self.now))
        items = self.frontier.claim(now=self.now, worker="w", limit=limit)

        assert len(items) <= limit
        for item in items:
            book = self.model.books[item.url]
            lane = self.model.lane_of(item.host, self.now)
            assert book.state is ItemState.QUEUED, "never two holders of an item"
            assert lane is not None, "the host's delay, block and visits are kept to"
            assert book.due <= self.now, "a retry waits for its moment"
            assert item.lane is book.lane
            assert all(item.token > earlier.token for earlier in self.handed_out)
            book.state, book.token = ItemState.CLAIMED, item.token
            book.claimed = book.seen = down(self.now)
            assert item.attempts == book.attempts + 1
            self.handed_out.append(item)
        if len(items) < limit:
            left = [self.model.lane_of(host, self.now) for host in HOSTS]
            assert left == [None] * len(HOSTS), "nothing that may be claimed is held back"

    @precondition(lambda self: self.handed_out)
    @rule(data=st.data(), duration=st.one_of(st.none(), spans))
    def complete(self, data: st.DataObject, duration: timedelta | None) -> None:
        """Some claim ends well, maybe one lost long ago."""
        item = data.draw(st.sampled_from(self.handed_out[-6:]))
        book = self.model.held(item)

        accepted = self.frontier.complete(item, now=self.now, outcome="ok", duration=duration)

        assert accepted == (book is not None), "only the latest claim may end"
        if book is not None:
            self.end(item, book, duration, ItemState.DONE)

    @precondition(lambda self: self.handed_out)
    @rule(data=st.data(), after=st.one_of(st.none(), spans))
    def retry(self, data: st.DataObject, after: timedelta | None) -> None:
        """Some claim ends badly."""
        item = data.draw(st.sampled_from(self.handed_out[-6:]))
        book = self.model.held(item)
        not_before = None if after is None else self.now + after

        state = self.frontier.retry(item, now=self.now, reason="x", not_before=not_before)

        assert (state is not None) == (book is not None)
        if book is not None:
            book.failures += 1
            wait = timedelta(seconds=SETTINGS.retry_delay_s * 2 ** (book.failures - 1))
            book.due = up(not_before or self.now + wait)
            dead = book.failures >= SETTINGS.attempts
            assert state is (ItemState.DEAD if dead else ItemState.QUEUED)
            self.end(item, book, None, ItemState.DEAD if dead else ItemState.QUEUED)

    @precondition(lambda self: self.handed_out)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """Some claim ends for good."""
        item = data.draw(st.sampled_from(self.handed_out[-6:]))
        book = self.model.held(item)

        assert self.frontier.fail(item, now=self.now, reason="x") == (book is not None)
        if book is not None:
            self.end(item, book, None, ItemState.DEAD)

    @precondition(lambda self: self.handed_out)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """Some claim is given back."""
        item = data.draw(st.sampled_from(self.handed_out[-6:]))
        book = self.model.held(item)

        assert self.frontier.release(item, now=self.now) == (book is not None)
        if book is not None:
            book.state, book.due = ItemState.QUEUED, START

    @precondition(lambda self: self.handed_out)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        """Some holder gives a sign of life."""
        item = data.draw(st.sampled_from(self.handed_out[-6:]))
        book = self.model.held(item)

        assert self.frontier.renew(item, now=self.now) == (book is not None)
        if book is not None:
            book.seen = down(self.now)

    @rule(host=st.sampled_from(HOSTS), span=spans, lift=st.booleans())
    def block(self, host: str, span: timedelta, lift: bool) -> None:
        """A host asks to be left alone, or is freed."""
        moment = self.now if lift else self.now + span
        slot = self.model.slots[host]
        if up(moment) <= down(self.now) or up(moment) > slot.block:
            slot.block = up(moment)

        self.frontier.block_until(host, moment, "x", now=self.now)

    @invariant()
    def nothing_is_lost(self) -> None:
        """The counts are the model's."""
        if not hasattr(self, "model"):
            return
        states = [book.state for book in self.model.books.values()]
        assert self.frontier.counts() == {state: states.count(state) for state in ItemState}

    @invariant()
    def the_wake_up_is_never_late(self) -> None:
        """Whoever sleeps until then misses nothing."""
        if not hasattr(self, "model"):
            return
        wakeup = self.frontier.next_wakeup(self.now)
        if any(self.model.lane_of(host, self.now) is not None for host in HOSTS):
            assert wakeup == self.now
        states = {book.state for book in self.model.books.values()}
        if not states & {ItemState.QUEUED, ItemState.CLAIMED}:
            assert wakeup is None
        elif ItemState.CLAIMED in states:
            leases = [
                lease_end(book)
                for book in self.model.books.values()
                if book.state is ItemState.CLAIMED
            ]
            assert wakeup is not None
            assert wakeup <= max(self.now, min(leases))
        else:
            assert wakeup is not None

    def end(
        self, item: FrontierItem, book: Book, duration: timedelta | None, state: ItemState
    ) -> None:
        """Write the end of a claim into the model."""
        book.state = state
        book.attempts += 1
        self.model.rest(
            item.host, self.now, self.now - book.claimed if duration is None else duration
        )

    def teardown(self) -> None:
        """Every URL is in the books as it should be, and all that is left can be worked off."""
        if hasattr(self, "model"):
            for url, book in self.model.books.items():
                record = self.frontier.find(url)
                assert record is not None
                assert (record.state, record.item.lane) == (book.state, book.lane)
                assert record.item.attempts == book.attempts + (book.state is ItemState.CLAIMED)
            self.work_off()
        if hasattr(self, "frontier"):
            self.frontier.close()
        self.folder.cleanup()

    def work_off(self) -> None:
        """Sleep until each wake-up and complete what can be claimed, until nothing is left."""
        open_states = (ItemState.QUEUED, ItemState.CLAIMED)
        left = {url for url, book in self.model.books.items() if book.state in open_states}
        for _ in range(50 * len(URLS)):
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


@pytest.mark.slow
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_no_sequence_of_verbs_breaks_the_books(implementation: str) -> None:
    """One holder an item, nothing lost, delays kept, late holders refused, nothing held back."""
    machine = type(
        "Machine", (FrontierMachine,), {"implementation": IMPLEMENTATIONS[implementation]}
    )

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
