"""SQLite frontier database: tables, transactions, and counters kept up to date.

The separate parts of a frontier (U12) are separate tables:

seen      the unique-URL filter: 128 bits of the identity key's hash.
items     one row per URL, in order of arrival; written when added and when ended. Current ended rows
          (`item_rows.ENDED`) are indexed: the spelling `ended % 4 > 0` keeps the planner from taking it
          for a range to search.
queue     claimable items; `lane, epoch` first, so that additions stay close together on disk however
          many hosts there are. `place` is 0, or random (W40).
later     items that wait for a not-before moment.
due       done items that are queued again by themselves, and when.
claims    holder, token and lease end of each claim.
hosts     the slots; `lane, ready_ms` is the index of hosts by the moment of their next visit.
back_offs until when hosts are blocked by their last refusal; an operator's block is not in it.
attempts  the log: claims that did not complete their item.
totals    one row of counts, so that status needs no scan; and the tokens given so far.
jobs      the same by job; items name it by number.
minutes   items that ended in the last hour, by minute.
orders    orders of operators for all workers.
notes     notes shared between workers.
"""

import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.config.database_urls import is_frozen, read_only_uri
from core.errors import (
    CollectionVersionError,
    DiskFullError,
    InvariantError,
    TransientError,
    UnavailableError,
)
from crawler.frontier.base import ItemState
from warc.local_storage import locked_folder

SCHEMA_VERSION = 2
APPLICATION_ID = 0x77656266  # "webf"

# A table that files of this version from before it lack; `store.Store` adds it.
BACK_OFFS = """
CREATE TABLE IF NOT EXISTS back_offs (
    until_ms INTEGER NOT NULL,
    host_id INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (until_ms, host_id)
) WITHOUT ROWID
"""

SCHEMA = """
CREATE TABLE seen (
    identity BLOB PRIMARY KEY,
    seq INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE items (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    url TEXT NOT NULL,
    host_id INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    place INTEGER NOT NULL,
    hops INTEGER NOT NULL,
    hops_off INTEGER NOT NULL,
    via TEXT NOT NULL,
    memo TEXT NOT NULL,
    ended INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    added_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    outcome TEXT NOT NULL DEFAULT ''
);
CREATE INDEX items_ended ON items (ended, ended_ms) WHERE ended % 4 > 0;
CREATE INDEX items_ended_by_host ON items (host_id, ended, ended_ms) WHERE ended % 4 > 0;
CREATE TABLE queue (
    lane INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    host_id INTEGER NOT NULL,
    place INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (lane, epoch, host_id, place, seq)
) WITHOUT ROWID;
CREATE TABLE later (
    due_ms INTEGER NOT NULL,
    seq INTEGER NOT NULL UNIQUE,
    host_id INTEGER NOT NULL,
    PRIMARY KEY (due_ms, seq)
) WITHOUT ROWID;
CREATE INDEX later_by_host ON later (host_id, due_ms);
CREATE TABLE due (
    due_ms INTEGER NOT NULL,
    seq INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (due_ms, seq)
) WITHOUT ROWID;
CREATE TABLE claims (
    token INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL UNIQUE,
    host_id INTEGER NOT NULL,
    worker TEXT NOT NULL,
    claimed_ms INTEGER NOT NULL,
    renewed_ms INTEGER NOT NULL,
    lease_ms INTEGER NOT NULL
);
CREATE INDEX claims_by_lease ON claims (lease_ms);
CREATE INDEX claims_by_host ON claims (host_id);
CREATE TABLE hosts (
    id INTEGER PRIMARY KEY,
    host TEXT NOT NULL UNIQUE,
    next_ms INTEGER NOT NULL,
    blocked_ms INTEGER NOT NULL DEFAULT 0,
    blocked_reason TEXT NOT NULL DEFAULT '',
    down_ms INTEGER NOT NULL DEFAULT 0,
    refusals INTEGER NOT NULL DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 0,
    waiting_now INTEGER NOT NULL DEFAULT 0,
    waiting_high INTEGER NOT NULL DEFAULT 0,
    waiting_standard INTEGER NOT NULL DEFAULT 0,
    head_now INTEGER NOT NULL DEFAULT 0,
    head_high INTEGER NOT NULL DEFAULT 0,
    head_standard INTEGER NOT NULL DEFAULT 0,
    lane INTEGER,
    ready_ms INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    busy_ms INTEGER NOT NULL DEFAULT 0,
    mean_ms REAL
);
CREATE INDEX hosts_ready ON hosts (lane, ready_ms) WHERE lane IS NOT NULL;
CREATE INDEX hosts_blocked ON hosts (blocked_ms) WHERE blocked_ms > 0;
CREATE INDEX hosts_by_size ON hosts (size) WHERE size > 0;
CREATE INDEX hosts_by_mean ON hosts (mean_ms) WHERE mean_ms IS NOT NULL;
CREATE TABLE attempts (
    number INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    id BLOB NOT NULL,
    ending TEXT NOT NULL,
    reason TEXT NOT NULL,
    worker TEXT NOT NULL,
    claimed_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL
);
CREATE INDEX attempts_by_item ON attempts (seq);
CREATE TABLE totals (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    queued INTEGER NOT NULL DEFAULT 0,
    claimed INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    later INTEGER NOT NULL DEFAULT 0,
    due INTEGER NOT NULL DEFAULT 0,
    duplicates INTEGER NOT NULL DEFAULT 0,
    hosts INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 0,
    paused TEXT,
    token INTEGER NOT NULL DEFAULT 0,
    rest_ms INTEGER NOT NULL DEFAULT 0
);
INSERT INTO totals (one) VALUES (1);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL UNIQUE,
    queued INTEGER NOT NULL DEFAULT 0,
    claimed INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    began_ms INTEGER NOT NULL
);
CREATE TABLE minutes (
    minute INTEGER PRIMARY KEY,
    done INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    bytes INTEGER NOT NULL
);
CREATE TABLE orders (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE TABLE notes (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    until_ms INTEGER,
    PRIMARY KEY (kind, key)
);
CREATE INDEX notes_by_end ON notes (until_ms) WHERE until_ms IS NOT NULL;
"""


# Another process may be checkpointing a large log; no lock is held for longer than that.
_BUSY_TIMEOUT_S = 30.0
# A checkpoint every 128 MB instead of 4: a page that many additions touch is then copied once. It
# costs the verb that happens upon it some tenths of a second.
_CHECKPOINT_PAGES = 32_768
_CACHE_KIB = 16 * 1024
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class FrontierDatabase:
    """Frontier's SQLite file at `path`, created when it is missing. Thread-safe.

    Raises:
        CollectionVersionError: the file is another program's or another version's.
        UnavailableError: it cannot be opened or read.
    """

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
            with (
                self._mapped(),
                locked_folder(path.parent),
            ):  # SQLite does not wait for a journal mode
                if self._is_empty():
                    self._db.execute("PRAGMA journal_mode = WAL")
                    self._db.execute("BEGIN IMMEDIATE")
                    with _undone_on_error(self._db):
                        for statement in (*SCHEMA.split(";"), BACK_OFFS):
                            self._db.execute(statement)
                        self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                        self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                elif not is_frozen(self._path):
                    named = "SELECT 1 FROM sqlite_master WHERE name = 'back_offs'"
                    if self._db.execute(named).fetchone() is None:
                        self._db.execute(BACK_OFFS)
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

        Killing the process never loses a commit. A power cut may lose the last commits (the store stays
        consistent), unless one of them was `durable`.
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
                f"{self._path} is no frontier of version {SCHEMA_VERSION} (it says {version}): "
                "use the version that made it, or move the file away to start with a new one."
            )
        return False

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Convert SQLite's errors to ours, their cause kept."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise InvariantError(f"The data in {self._path} is inconsistent: {error}.") from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in _BUSY:
                raise TransientError(f"{self._path} is busy: {error}.") from error
            if code == sqlite3.SQLITE_FULL:
                raise DiskFullError(f"{self._path} cannot grow: {error}.") from error
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


# ruff: noqa: S608 - only names of columns are pieced together; values are parameters


MINUTE_MS = 60_000
MINUTES_KEPT = 60
_ENDED_STATES = (ItemState.DONE, ItemState.SKIPPED, ItemState.DEAD)


class CountChanges:
    """Changes of the counts in one transaction, written at its end.

    Every change of an item's state is recorded once.
    """

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter()
        self._jobs: dict[int, Counter[str]] = {}
        self._ended: Counter[str] = Counter()
        self._rest_ms = 0

    def moved(
        self, job_id: int, old: ItemState | None, new: ItemState | None, count: int = 1
    ) -> None:
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
            db.execute("UPDATE totals SET rest_ms = ?1 WHERE rest_ms < ?1", (self._rest_ms,))
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
