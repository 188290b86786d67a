"""SQLite frontier database: transactions, rows of items and queues, up-to-date counters; tables: ``schema.sql``."""

import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from core.errors import CollectionVersionError, DiskFullError, InvariantError, TransientError, UnavailableError
from core.layout import is_frozen, read_only_uri
from core.urls import identity_key
from crawler.frontier.base import FrontierItem, ItemState, Lane
from crawler.frontier.host_slots import epoch_of
from warc.local_storage import locked_folder

SCHEMA_VERSION = 2
APPLICATION_ID = 0x77656266  # "webf"

_SCHEMA = Path(__file__).with_name("schema.sql")

_BUSY_TIMEOUT_S = 30.0  # another process may be checkpointing a large log; no lock is held for longer than that
# A checkpoint every 128 MB instead of 4: a page that many additions touch is then copied once. It
# costs the verb that happens upon it some tenths of a second.
_CHECKPOINT_PAGES = 32_768
_CACHE_KIB = 16 * 1024
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class FrontierDatabase:
    """Frontier's SQLite file, created when missing; thread-safe. Raises CollectionVersionError, UnavailableError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with self._mapped():
            frozen = path.exists() and is_frozen(path)
            self._db = sqlite3.connect(
                read_only_uri(path) if frozen else path,
                uri=frozen,
                timeout=_BUSY_TIMEOUT_S,
                isolation_level=None,  # transactions are begun explicitly
                check_same_thread=False,  # `_lock` lets one thread in at a time
                cached_statements=256,
            )
        try:
            with self._mapped(), locked_folder(path.parent):  # SQLite does not wait for a journal mode
                if self._is_empty():
                    self._db.execute("PRAGMA journal_mode = WAL")
                # The newest table, which some files of this version lack.
                newest = "SELECT 1 FROM sqlite_master WHERE name = 'back_offs'"
                if not frozen and self._db.execute(newest).fetchone() is None:
                    self._db.executescript(
                        f"BEGIN IMMEDIATE; {_SCHEMA.read_text()}; "
                        f"PRAGMA application_id = {APPLICATION_ID}; "
                        f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT"
                    )
                for name, value in (
                    ("synchronous", "NORMAL"),
                    ("wal_autocheckpoint", _CHECKPOINT_PAGES),
                    ("cache_size", -_CACHE_KIB),
                    ("temp_store", "MEMORY"),
                ):
                    self._db.execute(f"PRAGMA {name} = {value}")
        except BaseException:
            self._db.close()
            raise

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """Open a write transaction, exclusive among all processes; an error rolls it back.

        A power cut may lose the last commits (the store stays consistent), unless one of them was `durable`.
        """
        with self._lock, self._mapped():
            if durable:
                self._db.execute("PRAGMA synchronous = FULL")
            try:
                self._db.execute("BEGIN IMMEDIATE")
                with _undone_on_error(self._db):
                    yield self._db
            finally:
                if durable:
                    self._db.execute("PRAGMA synchronous = NORMAL")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a consistent read view that waits for no writer."""
        with self._lock, self._mapped():
            self._db.execute("BEGIN")
            with _undone_on_error(self._db):
                yield self._db

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            self._db.close()

    def _is_empty(self) -> bool:
        """Return True when the tables must be created; a foreign file is refused."""
        version = self._pragma("user_version")
        program = self._pragma("application_id")
        tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if (version, program, tables) == (0, 0, 0):
            return True
        if (version, program) != (SCHEMA_VERSION, APPLICATION_ID):
            raise CollectionVersionError(
                f"{self._path} is not a frontier of version {SCHEMA_VERSION} (it is {version}): use the release that "
                "made it, or move the file away to start with a new one."
            )
        return False

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Convert SQLite's errors to Weboid's, with their cause."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise InvariantError(f"The data in {self._path} is inconsistent: {error}.") from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in _BUSY:
                raise TransientError(f"{self._path} is busy: {error}.") from error
            if code == sqlite3.SQLITE_FULL:
                raise DiskFullError(f"{self._path} has no space left: {error}.") from error
            raise UnavailableError(f"{self._path} cannot be used: {error}.") from error


@contextmanager
def _undone_on_error(db: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


# Codes of `items.ended`. A URL that is queued again gets a new row; the old one is history.
OPEN, DONE, SKIPPED, DEAD, SUPERSEDED = range(5)
ENDED = {DONE: ItemState.DONE, SKIPPED: ItemState.SKIPPED, DEAD: ItemState.DEAD}
ENDED_CODES = {state: code for code, state in ENDED.items()}


class ItemLocation(NamedTuple):
    """Number, state and queue position of a known URL."""

    seq: int
    host_id: int
    job_id: int
    lane: int
    place: int
    ended: int
    ended_ms: int | None
    memo: str


def identity_of(url: str) -> bytes:
    """Return 128 bits of the hash of the URL's identity key; BadUrlError for no web URL."""
    return blake2b(identity_key(url).encode(), digest_size=16).digest()


def last_seq(db: sqlite3.Connection) -> int:
    """Return the highest number given so far; 0 for none."""
    return int(db.execute("SELECT ifnull(max(seq), 0) FROM items").fetchone()[0])


def locate_item(db: sqlite3.Connection, identity: bytes) -> ItemLocation | None:
    """Find the URL's item; None when it is unknown."""
    row = db.execute(
        "SELECT i.seq, i.host_id, i.job_id, i.lane, i.place, i.ended, i.ended_ms, i.memo "
        "FROM seen AS s JOIN items AS i ON i.seq = s.seq WHERE s.identity = ?",
        (identity,),
    ).fetchone()
    return None if row is None else ItemLocation._make(row)


def first_in_queue(db: sqlite3.Connection, lane: Lane, head: int, host_id: int) -> tuple[int, int]:
    """Return place and number of the host's first item in the lane, from epoch `head` on, which the caller moves up."""
    epoch, last = head, None
    while last is None or epoch <= last:
        row = db.execute(
            "SELECT place, seq FROM queue WHERE lane = ? AND epoch = ? AND host_id = ? ORDER BY place, seq LIMIT 1",
            (lane, epoch, host_id),
        ).fetchone()
        if row is not None:
            return int(row[0]), int(row[1])
        last = epoch_of(last_seq(db)) if last is None else last
        epoch += 1
    raise InvariantError(f"Host {host_id} counts items in lane {lane}, but the queue has none.")


def remove_from_queue(db: sqlite3.Connection, lane: int, host_id: int, place: int, seq: int) -> bool:
    """Remove an item from its queue; False when it was not in there."""
    cursor = db.execute(
        "DELETE FROM queue WHERE lane = ? AND epoch = ? AND host_id = ? AND place = ? AND seq = ?",
        (lane, epoch_of(seq, place), host_id, place, seq),
    )
    return cursor.rowcount == 1


ITEM_COLUMNS = "i.id, i.url, h.host, i.lane, i.hops, i.via, i.attempts, j.job, i.hops_off, i.memo"


def frontier_item(row: Sequence[Any], token: int | None, host_down: str = "") -> FrontierItem:
    """Return the item with the values of `ITEM_COLUMNS`, which are in the order of its fields."""
    page_id, url, host, lane, hops, via, attempts, job, hops_off, memo = row
    page_id, claims = str(UUID(bytes=page_id)), attempts + (token is not None)
    return FrontierItem(page_id, url, host, Lane(lane), hops, via, claims, token or 0, job, hops_off, memo, host_down)


# ruff: noqa: S608 - only names of columns are pieced together; values are parameters


MINUTE_MS = 60_000
MINUTES_KEPT = 60
_ENDED_STATES = (ItemState.DONE, ItemState.SKIPPED, ItemState.DEAD)


class CountChanges:
    """Changes of the counts in one transaction, written at its end."""

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter()
        self._jobs: dict[int, Counter[str]] = {}
        self._ended: Counter[str] = Counter()
        self._rest_ms = 0

    def moved(self, job_id: int, old: ItemState | None, new: ItemState | None, count: int = 1) -> None:
        """Count items of a job that changed their state; None: new, or history."""
        job = self._jobs.setdefault(job_id, Counter())
        for state, by in ((old, -count), (new, count)):
            if state is not None:
                self._totals[state] += by
                job[state] += by
        if new in _ENDED_STATES:
            self._ended[new] += count

    def stored(self, job_id: int, count: int) -> None:
        """Add stored bytes of a completed item to the job."""
        for counts in (self._totals, self._jobs.setdefault(job_id, Counter()), self._ended):
            counts["bytes"] += count

    def count(self, name: str, by: int = 1) -> None:
        """Add to another column of `totals`."""
        self._totals[name] += by

    def rested(self, until_ms: int) -> None:
        """Record the end of a host's delay."""
        self._rest_ms = max(self._rest_ms, until_ms)

    def write(self, db: sqlite3.Connection, now_ms: int) -> None:
        """Write the counts; items that ended are counted at that moment."""
        _add(db, "UPDATE totals SET {}", self._totals)
        if self._rest_ms:
            db.execute("UPDATE totals SET rest_ms = max(rest_ms, ?)", (self._rest_ms,))
        for job_id, counts in self._jobs.items():
            _add(db, "UPDATE jobs SET {} WHERE id = ?", counts, job_id)
        if any(self._ended.values()):
            minute = now_ms // MINUTE_MS
            if not _add(db, "UPDATE minutes SET {} WHERE minute = ?", self._ended, minute):
                names = (*_ENDED_STATES, "bytes")
                db.execute(
                    f"INSERT INTO minutes (minute, {', '.join(names)}) VALUES (?, ?, ?, ?, ?)",
                    (minute, *(self._ended[name] for name in names)),
                )
                db.execute("DELETE FROM minutes WHERE minute < ?", (minute - MINUTES_KEPT,))


def _add(db: sqlite3.Connection, query: str, counts: Counter[str], *where: int) -> bool:
    changes = {name: by for name, by in counts.items() if by}
    if not changes:
        return False
    terms = ", ".join(f"{name} = {name} + ?" for name in changes)
    return db.execute(query.format(terms), (*changes.values(), *where)).rowcount > 0
