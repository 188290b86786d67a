"""Read-only captures index: query interface, SQLite connections, and coverage of the closed WARCs.

Queries are SQL that both databases accept, with values as ``:name``. A collection without an index is empty.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from core.captures import IMPORT_PREFIX
from core.errors import TransientError
from core.layout import Layout, is_frozen, read_only_uri
from core.page_manifest import VisitOutcome
from warc.local_storage import closed_warcs

SCHEMA_VERSION = 5

# An entry of a B-tree is at most 2,704 bytes, and a URL may be longer: its first characters are
# looked up, then all of it is compared. A character has at most four bytes.
KEY_CHARACTERS = 500

_BUSY_TIMEOUT_S = 2.0
_MOST_IDLE = 4
_Identity = tuple[int, int, int] | None
OTHER_VERSION = f"has another version than {SCHEMA_VERSION}: run `weboid collection rebuild`."


class IndexDatabase(Protocol):
    """Captures index opened for reading. Thread-safe unless noted; `close` it."""

    shared: bool  # whether it is a server, so that queries may have to wait
    has_key: str  # SQL condition: the row's urlkey is `key`; see `key_values`
    key: str  # SQL for the indexed prefix of the urlkey (`warc.index.database.KEY_CHARACTERS`)
    contains: str  # LIKE operator that ignores the case of ASCII letters
    in_range: str  # SQL condition: `low` <= urlkey < `high`; see `warc.index.queries`
    by_key: tuple[str, ...]  # ORDER BY terms for urlkey order that an index supports
    lookup_table: str  # table `asked` of many look-ups, made from its value (`lookup_value`)
    # SQL that joins to each row of `asked` the first pages that match ``{where}``, which contains
    # an ORDER BY and a LIMIT.
    joined_first: str

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a query, columns by name; none without an index; or TransientError."""

    def close(self) -> None:
        """Close the database."""


def page_outcome(database: IndexDatabase, page_id: str) -> VisitOutcome | None:
    """Return the outcome of the page's visit; None when its manifest is not in the index."""
    rows = database.rows("SELECT outcome FROM pages WHERE page_id = :page", {"page": page_id})
    return VisitOutcome(rows[0]["outcome"]) if rows else None


def key_values(key: str) -> dict[str, str]:
    """Return the values for `IndexDatabase.has_key`."""
    return {"key": key, "key_start": key[:KEY_CHARACTERS]}


LOOKUP_COLUMNS = ("place", "until_ms", "key", "key_start", "one", "two", "three", "four")


class LookupRow(NamedTuple):
    """Row of `IndexDatabase.asked`: a urlkey, four URLs, and the upper limit of capture times."""

    key: str
    urls: tuple[str, str, str, str]
    until_ms: int = 2**53


def lookup_value(rows: Iterable[LookupRow]) -> str:
    """Return the value of ``asked``; `place` numbers the rows."""
    return json.dumps(
        [(place, each.until_ms, each.key, each.key[:KEY_CHARACTERS], *each.urls) for place, each in enumerate(rows)]
    )


def in_lists(texts: Sequence[str], size: int = 200) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield placeholders and values of SQL ``IN`` lists with all texts, `size` in each."""
    for start in range(0, len(texts), size):
        values = {f"text_{n}": text for n, text in enumerate(texts[start : start + size])}
        yield ", ".join(f":{name}" for name in values), values


def escape_like(words: str) -> str:
    """Return the words as a literal LIKE pattern, with backslash as escape character."""
    return words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def open_database(layout: Layout, url: str) -> IndexDatabase:
    """Return the index at `url`, or the collection's own when empty. No connection is made yet."""
    if not url:
        return SqliteDatabase(layout.captures_db)
    # Imported only when a server is configured.
    from core.config.database_urls import parse_index_url
    from warc.index.postgres import PostgresDatabase

    return PostgresDatabase(parse_index_url(url))


_LOOKUP_SELECT = ", ".join(
    f"json_extract(item.value, '$[{number}]') AS {name}" for number, name in enumerate(LOOKUP_COLUMNS)
)
_LOOKUP_TABLE = f"(SELECT {_LOOKUP_SELECT} FROM json_each(:asked) AS item) AS asked"  # noqa: S608 constants


class SqliteDatabase:
    """Index of one collection, opened again when its file was replaced. Thread-safe; `close` it."""

    shared = False
    has_key = "urlkey = :key"
    key = "urlkey"
    contains = "LIKE"
    in_range = "urlkey >= :low AND urlkey < :high"
    by_key: tuple[str, ...] = ("urlkey",)
    lookup_table = _LOOKUP_TABLE
    joined_first = "CROSS JOIN pages ON pages.page_id IN (SELECT page_id FROM pages WHERE {where})"

    def __init__(
        self, path: Path, connect: Callable[[Path], sqlite3.Connection | None] | None = None, name: str = "captures"
    ) -> None:
        """Store the path; `connect` opens another kind of file for reading, None: there is none yet.

        `name` is that of the kind in `weboid collection rebuild --only`.
        """
        self._path = path
        self._connect = connect or _open
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[tuple[_Identity, sqlite3.Connection]] = []
        self._is_closed = False

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a query."""
        # Device, inode and, for a file on a read-only medium, modification time: a database opened
        # as immutable does not notice changes, so it is opened again after a write.
        try:
            status = self._path.stat()
            changed_ns = status.st_mtime_ns if is_frozen(self._path) else 0
            identity: _Identity = (status.st_dev, status.st_ino, changed_ns)
        except OSError:
            identity = None
        connection = self._pooled(identity) or self._connect(self._path)
        if connection is None:
            return []
        try:
            rows = connection.execute(query, values).fetchall()
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise unreadable_index(self._name, error) from error
            raise
        with self._lock:
            if not self._is_closed and identity is not None and len(self._idle) < _MOST_IDLE:
                self._idle.append((identity, connection))
                return rows
        connection.close()
        return rows

    def close(self) -> None:
        """Close the pooled connections."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _pooled(self, identity: _Identity) -> sqlite3.Connection | None:
        """Return a pooled connection to that file; close those to replaced files."""
        with self._lock:
            old = [each for each in self._idle if each[0] != identity]
            self._idle = [each for each in self._idle if each[0] == identity]
            pooled = self._idle.pop()[1] if self._idle else None
        for _, connection in old:
            connection.close()
        return pooled


def unreadable_index(name: str, error: sqlite3.Error) -> TransientError:
    """Return the error of an index that SQLite cannot read; of a damaged one with the command that writes it again."""
    if isinstance(error, sqlite3.OperationalError):  # locked, no space, no rights: the file may be sound
        return TransientError(f"The index of {name} cannot be read: {error}.")
    return TransientError(
        f"The index of {name} is damaged ({error}). `weboid collection rebuild --only {name}` writes it again."
    )


def open_read_only(path: Path, name: str) -> sqlite3.Connection:
    """Open the index of that name for reading in any thread, or raise TransientError."""
    try:
        connection = sqlite3.connect(
            read_only_uri(path), uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise unreadable_index(name, error) from error
    return connection


def _open(path: Path) -> sqlite3.Connection | None:
    """Open a read-only connection; None when there is no index yet."""
    if not path.exists():
        _require_new(path)
        return None
    connection = open_read_only(path, "captures")
    try:
        tables = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE name IN ('captures', 'pages')"
        ).fetchone()[0]
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        connection.close()
        raise unreadable_index("captures", error) from error
    if tables != 2:  # its writer has created the file, not yet the schema
        connection.close()
        _require_new(path)
        return None
    if version not in (0, SCHEMA_VERSION):
        connection.close()
        raise TransientError(f"The captures index {OTHER_VERSION}")
    return connection


def _require_new(path: Path) -> None:
    """Raise TransientError when there are closed WARCs but no index: the index was lost."""
    if any((path.parent.parent / "archive").glob("*.warc.gz")):
        raise TransientError(
            f"The captures index {path} is missing, though there are WARCs: run `weboid collection rebuild`."
        )


OWN_PREFIXES = ("weboid-", "artifacts-", IMPORT_PREFIX)  # of WARCs named by the recorder or by an import


def covered_by_file(database: Path) -> dict[str, int]:
    """Return the bytes that the index in that file covers, by WARC; {} when it cannot be read."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(read_only_uri(database), uri=True)) as old:
        return dict(old.execute("SELECT filename, indexed_to FROM files"))
    return {}


def schema_version(database: Path) -> int | None:
    """Return the schema version of the index in that file; None when it cannot be read."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(read_only_uri(database), uri=True)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        return int(version)
    return None


def is_complete(layout: Layout) -> bool:
    """Return True when the collection's own index is of this version, and covers our closed WARCs."""
    if not layout.captures_db.exists():
        return not any(each.name.startswith(OWN_PREFIXES) for each in closed_warcs(layout))
    return schema_version(layout.captures_db) == SCHEMA_VERSION and not unindexed_warcs(layout)


def unindexed_warcs(layout: Layout) -> list[Path]:
    """Return our closed WARCs that the collection's own index does not cover completely."""
    covered = covered_by_file(layout.captures_db)
    return not_covered(layout, lambda name: covered.get(name, 0))


def not_covered(layout: Layout, indexed_to: Callable[[str], int]) -> list[Path]:
    """Return our closed WARCs that are longer than their `indexed_to`."""
    return [
        path
        for path in closed_warcs(layout)
        if path.name.startswith(OWN_PREFIXES) and indexed_to(path.name) < path.stat().st_size
    ]
