"""A plain model of the frontier: what the contract says, without any thought of speed."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from core.config.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.base import CLOCK_SLACK, FrontierItem, ItemState, Lane

HOSTS = ("a.test", "b.test", "c.test")
URLS = tuple(f"https://{host}/{page}" for host in HOSTS for page in range(3))
JOBS = ("", "j")
START = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
SETTINGS = FrontierSettings(attempts=2, lease_s=10, retry_delay_s=5, high_every=2, standard_every=3)
# A lease that runs out counts for less than a failure.
CLAIMS_PER_ATTEMPT = 3
OPEN = (ItemState.QUEUED, ItemState.CLAIMED)

Moment = datetime


def politeness_of(visits: int) -> PolitenessSettings:
    """Short spans, so that random histories cross them."""
    return PolitenessSettings(
        delay_factor=2,
        min_delay_s=1,
        max_delay_s=4,
        visits_per_host=visits,
        crawl_delay_limit_s=8,
        host_retry_s=3,
        host_retry_limit_s=10,
        host_failures=2,
        host_down_s=7,
    )


def up(moment: Moment) -> Moment:
    """Return the moment rounded up to milliseconds: the frontier may be late by less than one."""
    return moment + timedelta(microseconds=-moment.microsecond % 1000)


def down(moment: Moment) -> Moment:
    """Return the moment cut to milliseconds."""
    return moment - timedelta(microseconds=moment.microsecond % 1000)


@dataclass
class UrlModel:
    """State of one URL in the model."""

    host: str
    lane: Lane
    job: str
    number: int
    state: ItemState = ItemState.QUEUED
    later: Moment | None = None
    due: Moment | None = None
    memo: str = ""
    outcome: str = ""
    ended: Moment = LONG_AGO
    token: int = 0
    claimed: Moment = START
    seen: Moment = START
    attempts: int = 0
    failures: int = 0

    @property
    def lease_end(self) -> Moment:
        """Return when the claim's lease expires."""
        return self.seen + timedelta(seconds=SETTINGS.lease_s)


@dataclass
class HostModel:
    """State of one host in the model."""

    rest: Moment = LONG_AGO
    block: Moment = LONG_AGO
    down: Moment = LONG_AGO
    refusals: int = 0
    done: int = 0
    bytes: int = 0
    busy: timedelta = timedelta(0)
    mean: float | None = None

    def ready(self, now: Moment) -> Moment:
        """Return when the delay and block of the host end; while it is down, when its block alone ends."""
        return self.block if self.down > now else max(self.rest, self.block)


@dataclass
class FrontierModel:
    """The books of the model."""

    visits: int
    books: dict[str, UrlModel] = field(default_factory=dict)
    slots: dict[str, HostModel] = field(default_factory=dict)
    jobs: dict[str, Counter[str]] = field(default_factory=dict)
    minutes: dict[Moment, Counter[str]] = field(default_factory=dict)
    duplicates: int = 0
    bytes: int = 0
    numbers: int = 0
    paused: bool = False

    def __post_init__(self) -> None:
        self.politeness = politeness_of(self.visits)

    @property
    def longest_rest(self) -> timedelta:
        """Return the longest time that a host may rest."""
        p = self.politeness
        return timedelta(seconds=max(p.min_delay_s, p.max_delay_s, p.crawl_delay_limit_s))

    def of(self, host: str, state: ItemState) -> list[UrlModel]:
        """Return the host's URLs in that state."""
        return [b for b in self.books.values() if b.host == host and b.state is state]

    def held(self, item: FrontierItem) -> UrlModel | None:
        """Return the URL's entry if the item is its latest claim and still held, else None."""
        book = self.books[item.url]
        return book if book.state is ItemState.CLAIMED and book.token == item.token else None

    def queue(self, url: str, host: str, lane: Lane, job: str, memo: str = "") -> None:
        """Queue a URL, new or again."""
        self.numbers += 1
        self.slots.setdefault(host, HostModel())
        self.jobs.setdefault(job, Counter())
        self.books[url] = UrlModel(host, lane, job, self.numbers, memo=memo)

    def ended(self, book: UrlModel, state: ItemState, outcome: str, now: Moment) -> None:
        """Record the end of an item."""
        book.state, book.outcome, book.ended = state, outcome, down(now)
        minute = self.minutes.setdefault(now.replace(second=0, microsecond=0), Counter())
        minute[state] += 1

    def rested(self, host: str, until: Moment, now: Moment) -> None:
        """Let a host rest."""
        slot = self.slots[host]
        slot.rest = max(slot.rest, up(min(until, now + self.longest_rest)))

    def free(self, book: UrlModel, finished: Moment, duration: timedelta | None, delay: timedelta | None) -> bool:
        """End a claim; False when the host was not asked."""
        if delay == timedelta(0):
            return False
        if delay is None:
            p = self.politeness
            took = finished - book.claimed if duration is None else duration
            wanted = min(p.max_delay_s, p.delay_factor * took.total_seconds())
            delay = timedelta(seconds=max(p.min_delay_s, wanted))
        self.rested(book.host, finished + delay, finished)
        return True

    def finish(self, book: UrlModel, now: Moment, duration: timedelta | None, delay: timedelta | None) -> bool:
        """End a visit; False when the host was not asked."""
        book.attempts += 1
        if not self.free(book, now, duration, delay):
            return False
        slot = self.slots[book.host]
        took = now - book.claimed if duration is None else duration
        milliseconds = max(took // timedelta(milliseconds=1), 0)
        slot.busy += timedelta(milliseconds=milliseconds)
        slot.mean = milliseconds if slot.mean is None else slot.mean + (milliseconds - slot.mean) / 5
        return True

    def tidy(self, now: Moment) -> None:
        """Do what a claim does first: cut long rests, expire leases, queue what is due."""
        for slot in self.slots.values():
            if slot.rest > down(now) + self.longest_rest + CLOCK_SLACK:
                slot.rest = down(now) + self.longest_rest
        for book in list(self.books.values()):
            if book.state is ItemState.CLAIMED and book.lease_end <= now:
                self.free(book, book.seen, book.seen - book.claimed, None)
                book.attempts += 1
                book.state = ItemState.QUEUED
                if book.attempts >= CLAIMS_PER_ATTEMPT * SETTINGS.attempts:
                    self.ended(book, ItemState.DEAD, "its leases expired repeatedly", now)
            if book.later is not None and book.later <= now:
                book.later = None
        due = [(b.due, b.number, url) for url, b in self.books.items() if b.due is not None]
        for moment, _, url in sorted(due):
            if moment <= now:
                book = self.books[url]
                self.queue(url, book.host, Lane.HIGH, book.job, book.memo)

    def waiting(self, host: str) -> list[UrlModel]:
        """Return the host's queued URLs that wait for no moment of their own."""
        return [book for book in self.of(host, ItemState.QUEUED) if book.later is None]

    def stands(self, host: str, now: Moment) -> Lane | None:
        """Return the lane of the host's highest item; None when the host can give none now."""
        if len(self.of(host, ItemState.CLAIMED)) >= self.visits:
            return None
        if self.slots[host].ready(now) > now:
            return None
        return min((book.lane for book in self.waiting(host)), default=None)

    def next_moment(self, now: Moment) -> Moment | None:
        """Return the moment by which a claim may next return an item; None if never."""
        if self.paused:
            return None
        moments = [b.lease_end for b in self.books.values() if b.state is ItemState.CLAIMED]
        moments += [b.later for b in self.books.values() if b.later is not None]
        moments += [b.due for b in self.books.values() if b.due is not None]
        for host, slot in self.slots.items():
            if self.waiting(host) and len(self.of(host, ItemState.CLAIMED)) < self.visits:
                ready = slot.ready(now)
                if slot.rest > down(now) + self.longest_rest + CLOCK_SLACK:
                    ready = max(slot.block, down(now) + self.longest_rest)
                moments.append(ready)
        return max(now, min(moments)) if moments else None


def lane_order(token: int) -> tuple[Lane, ...]:
    """Return the order in which a claim with that token tries the lanes."""
    if token % SETTINGS.standard_every == 0:
        return Lane.STANDARD, Lane.HIGH, Lane.NOW
    if token % SETTINGS.high_every == 0:
        return Lane.HIGH, Lane.NOW, Lane.STANDARD
    return Lane.NOW, Lane.HIGH, Lane.STANDARD
