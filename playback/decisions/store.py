"""Where decisions are kept, and how a change of them is seen at once.

A decision counts from the moment it is written, on every route and in every process (P-22): whoever
answers readers holds what it read as a `Watched` value, and looks at the store's version before each
answer. A store that is there and cannot be read is an error, never an empty one: playback fails closed.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from core.errors import TransientError
from core.layout import Layout
from playback.decisions.schema import TABLES

Values = Mapping[str, Any]
T = TypeVar("T")

_BUSY_TIMEOUT_S = 5.0


class DecisionStore(Protocol):
    """Decisions of one archive. From any thread; `close` it."""

    def version(self) -> int:
        """A number that differs after each change; 0 while nothing was ever decided.

        Raises:
            TransientError: the store is there and cannot be read.
        """
        ...

    def rows(self, query: str, values: Values) -> list[Any]:
        """The answer's rows, whose columns are found by name; none while nothing was ever decided.

        Raises:
            TransientError: the store is there and cannot be read.
        """
        ...

    def change(self, changes: Iterable[tuple[str, Values]]) -> None:
        """Make all of the changes, or none, and raise the version.

        Raises:
            TransientError: they could not be made.
        """
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


def open_decisions(layout: Layout) -> DecisionStore:
    """The decisions about a collection. Nothing is opened yet."""
    return SqliteDecisionStore(layout.decisions_db)


class SqliteDecisionStore:
    """The decisions of one collection, in a file that the first change creates."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None

    def version(self) -> int:
        """The number of the last change."""
        found = self.rows("SELECT n FROM decision_version", {})
        return int(found[0]["n"]) if found else 0

    def rows(self, query: str, values: Values) -> list[Any]:
        """The answer's rows."""
        with self._lock:
            try:
                connection = self._connected()
                return [] if connection is None else connection.execute(query, values).fetchall()
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise TransientError(f"The decisions cannot be read: {error}.") from error

    def change(self, changes: Iterable[tuple[str, Values]]) -> None:
        """Make the changes."""
        with self._lock:
            try:
                connection = self._connected() or self._created()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    for query, values in changes:
                        connection.execute(query, values)
                    connection.execute("UPDATE decision_version SET n = n + 1")
                    connection.execute("COMMIT")
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise TransientError(f"The decision was not kept: {error}.") from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._opened = None

    def _connected(self) -> sqlite3.Connection | None:
        """The connection to the file that is there now; None when there is none."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._close()
            return None
        identity = (found.st_dev, found.st_ino)
        if self._connection is None or identity != self._opened:
            self._close()
            self._connection, self._opened = self._open(), identity
        return self._connection

    def _created(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = self._open()
        found = self._path.stat()
        self._opened = (found.st_dev, found.st_ino)
        return self._connection

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(TABLES)
        return connection


class Watched(Generic[T]):
    """What `load` made of a store, made again after every change of the store. From any thread."""

    def __init__(self, store: DecisionStore, load: Callable[[DecisionStore], T]) -> None:
        self._store = store
        self._load = load
        self._held: tuple[int, T] | None = None

    def now(self) -> T:
        """The value as of now.

        Raises:
            TransientError: the store cannot be read.
        """
        version = self._store.version()
        held = self._held
        if held is None or held[0] != version:
            # The version first: what is read afterwards is at least as new.
            held = self._held = (version, self._load(self._store))
        return held[1]
