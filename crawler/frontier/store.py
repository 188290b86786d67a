"""One SQLite file: opened, checked, and used in transactions; its errors mapped to ours."""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.errors import (
    CollectionVersionError,
    DiskFullError,
    InvariantError,
    TransientError,
    UnavailableError,
)
from core.sqlite_uri import is_frozen, read_only_uri
from crawler.frontier.schema import APPLICATION_ID, BACK_OFFS, SCHEMA, SCHEMA_VERSION

# Another process may be checkpointing a large log; nobody holds a lock for longer than that.
_BUSY_TIMEOUT_S = 30.0
# A checkpoint every 128 MB instead of 4: a page that many additions touch is then copied once. It
# costs the verb that happens upon it some tenths of a second.
_CHECKPOINT_PAGES = 32_768
_CACHE_KIB = 16 * 1024
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Store:
    """The frontier's file at `path`, made when it is missing. Any thread may use it.

    Raises:
        CollectionVersionError: the file is another program's or another version's.
        UnavailableError: it cannot be opened or read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with self._mapped():
            self._db = _connect(path)
        try:
            with self._mapped(), _alone_in(path.parent):
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction that writes, alone among all processes; an error undoes all of it.

        Killing the process never loses what was committed. A power cut may lose the last commits
        (the store stays whole), unless one of them was `durable`.
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
        """One consistent view that waits for no writer."""
        with self._lock, self._mapped():
            self._db.execute("BEGIN")
            with _undone_on_error(self._db):
                yield self._db

    def close(self) -> None:
        """Close the file; twice does no harm."""
        with self._lock:
            self._db.close()

    def _prepare(self) -> None:
        if self._is_empty():
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("BEGIN IMMEDIATE")
            with _undone_on_error(self._db):
                self._create()
        elif not is_frozen(self._path) and not self._has_back_offs():
            self._db.execute(BACK_OFFS)
        for name, value in (
            ("synchronous", "NORMAL"),
            ("wal_autocheckpoint", _CHECKPOINT_PAGES),
            ("cache_size", -_CACHE_KIB),
            ("temp_store", "MEMORY"),
        ):
            self._db.execute(f"PRAGMA {name} = {value}")

    def _create(self) -> None:
        for statement in (*SCHEMA.split(";"), BACK_OFFS):
            self._db.execute(statement)
        self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _has_back_offs(self) -> bool:
        rows = self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'back_offs'")
        return rows.fetchone() is not None

    def _is_empty(self) -> bool:
        """Whether the tables are still to be made; what is not ours is refused."""
        version = self._pragma("user_version")
        program = self._pragma("application_id")
        tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if (version, program, tables) == (0, 0, 0):
            return True
        if (version, program) != (SCHEMA_VERSION, APPLICATION_ID):
            raise CollectionVersionError(
                f"{self._path} is no frontier of version {SCHEMA_VERSION} (it says {version}): "
                "use the version that made it, or move the file away to begin anew."
            )
        return False

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """SQLite's errors as ours, their cause kept."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise InvariantError(f"The books of {self._path} contradict: {error}.") from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in _BUSY:
                raise TransientError(f"{self._path} is busy: {error}.") from error
            if code == sqlite3.SQLITE_FULL:
                raise DiskFullError(f"{self._path} cannot grow: {error}.") from error
            raise UnavailableError(f"{self._path} cannot be used: {error}.") from error


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """While no other process is here: SQLite does not wait by itself to change a journal's mode."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _connect(path: Path) -> sqlite3.Connection:
    frozen = path.exists() and is_frozen(path)
    return sqlite3.connect(
        read_only_uri(path) if frozen else path,
        uri=frozen,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,  # transactions begin where we say
        check_same_thread=False,  # the lock above lets one thread in at a time
        cached_statements=256,
    )


@contextmanager
def _undone_on_error(db: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
