"""What the SQLite frontier tells of itself, and the orders and notes that it hands on."""

from collections.abc import Sequence
from datetime import datetime

from core.timestamps import milliseconds, milliseconds_up
from crawler.frontier import books, listing, notices, slot_rows, tally
from crawler.frontier.base import (
    FrontierStats,
    HostBlock,
    HostOrder,
    HostReport,
    ItemRecord,
    ItemState,
    JobCounts,
    Minute,
)
from crawler.frontier.store import Store


class SqliteReports:
    """The verbs of a `Frontier` that move no item; each is one transaction of the store."""

    _store: Store

    def unfinished(self, now: datetime) -> int:
        """See `Frontier.unfinished`."""
        stats = self.stats(now)
        return stats.queued + stats.claimed

    def stats(self, now: datetime) -> FrontierStats:
        """See `Frontier.stats`."""
        with self._store.reading() as db:
            return tally.stats(db, milliseconds(now))

    def counts(self) -> dict[ItemState, int]:
        """See `Frontier.counts`."""
        with self._store.reading() as db:
            return tally.counts(db)

    def job_counts(self, job: str) -> JobCounts:
        """See `Frontier.job_counts`."""
        with self._store.reading() as db:
            return tally.job_counts(db, job)

    def minutes(self, now: datetime, *, count: int = 60) -> Sequence[Minute]:
        """See `Frontier.minutes`."""
        with self._store.reading() as db:
            return tally.minutes(db, milliseconds(now), count)

    def ls(
        self, state: ItemState, *, limit: int = 100, host: str | None = None
    ) -> Sequence[ItemRecord]:
        """See `Frontier.ls`."""
        with self._store.reading() as db:
            slot = None if host is None else slot_rows.by_name(db, host)
            if host is not None and slot is None:
                return []
            return listing.ls(db, state, limit, None if slot is None else slot.id)

    def scan(
        self, state: ItemState, *, cursor: str = "", limit: int = 1000
    ) -> tuple[Sequence[ItemRecord], str]:
        """See `Frontier.scan`."""
        with self._store.reading() as db:
            return listing.scan(db, state, cursor, limit)

    def find(self, url: str) -> ItemRecord | None:
        """See `Frontier.find`."""
        identity = books.identity_of(url)
        with self._store.reading() as db:
            return listing.find(db, identity)

    def find_all(self, urls: Sequence[str]) -> list[ItemRecord | None]:
        """See `Frontier.find_all`."""
        identities = [books.identity_of(url) for url in urls]
        with self._store.reading() as db:
            found = listing.find_all(db, identities)
        return [found.get(identity) for identity in identities]

    def blocks(self, *, now: datetime, limit: int = 100) -> Sequence[HostBlock]:
        """See `Frontier.blocks`."""
        with self._store.reading() as db:
            return slot_rows.blocks(db, milliseconds(now), limit)

    def host(self, host: str, *, now: datetime) -> HostReport | None:
        """See `Frontier.host`."""
        with self._store.reading() as db:
            return slot_rows.report(db, host, now)

    def hosts(self, order: HostOrder, *, now: datetime, limit: int = 20) -> Sequence[HostReport]:
        """See `Frontier.hosts`; among over 1,000 queues of a like length (a factor of two), any."""
        with self._store.reading() as db:
            return slot_rows.reports(db, order, now, limit)

    def give_order(self, kind: str, key: str, value: str) -> int:
        """See `Frontier.give_order`."""
        with self._store.transaction(durable=True) as db:
            return notices.give_order(db, kind, key, value)

    def take_back(self, kind: str, key: str) -> bool:
        """See `Frontier.take_back`."""
        with self._store.transaction(durable=True) as db:
            return notices.take_back(db, kind, key)

    def orders(self, kind: str) -> dict[str, str]:
        """See `Frontier.orders`."""
        with self._store.reading() as db:
            return notices.orders(db, kind)

    def put_note(
        self, kind: str, key: str, value: str, *, now: datetime, until: datetime | None = None
    ) -> None:
        """See `Frontier.put_note`."""
        until_ms = None if until is None else milliseconds_up(until)
        with self._store.transaction() as db:
            notices.put_note(db, kind, key, value, milliseconds(now), until_ms)

    def note(self, kind: str, key: str, *, now: datetime) -> str | None:
        """See `Frontier.note`."""
        with self._store.reading() as db:
            return notices.note(db, kind, key, milliseconds(now))

    def notes(self, kind: str, *, now: datetime) -> dict[str, str]:
        """See `Frontier.notes`."""
        with self._store.reading() as db:
            return notices.notes(db, kind, milliseconds(now))

    def erase_note(self, kind: str, key: str) -> None:
        """See `Frontier.erase_note`."""
        with self._store.transaction() as db:
            notices.erase_note(db, kind, key)
