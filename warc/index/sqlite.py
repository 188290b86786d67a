"""Captures index in a SQLite file, the dedup index within it, and openers of the indexes that the settings name.

SQLite's write lock is the claim: it is taken before a digest is looked up and held until the rows are committed,
after the record is on disk. So no process ever sees another's claim, and a crash leaves none
(docs/decisions/004-one-lock.md).
"""

# ruff: noqa: S608 only constant names and placeholders go into the statements

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.config.settings import IndexSettings, ProxySettings
from core.errors import CollectionVersionError, ConfigError
from core.layout import Layout, is_frozen, read_only_uri
from warc.dedup.payloads import Claim, OriginalRecord, PayloadIndex, PayloadKey
from warc.index.database import SCHEMA_VERSION
from warc.index.protocol import CAPTURES_DDL, ROW_TYPES, CaptureIndex, columns
from warc.local_storage import enable_wal, write_transaction

if TYPE_CHECKING:
    from core.config.database_urls import IndexAddress, RedisAddress

BUSY_TIMEOUT_MS = 60_000
_CACHE_KIB = 32_768  # rows of a batch are all over the indexes, whose pages are else written several times

# One statement per row costs more than the row: number of rows per statement.
_ROWS_AT_ONCE = (64, 8, 1)
_INSERTIONS = {
    table: (f"INSERT OR IGNORE INTO {table} ({columns(row)}) VALUES ", f"({','.join('?' * len(row._fields))})")
    for table, row in ROW_TYPES.items()
}


class SqliteCaptureIndex(CaptureIndex):
    """Captures index of one collection. For use from one thread; `close` it."""

    shared = False
    _db: sqlite3.Connection

    def __init__(self, path: Path) -> None:
        """Open the index; create it if missing. Raises CollectionVersionError for another schema."""
        path.parent.mkdir(parents=True, exist_ok=True)
        frozen = path.exists() and is_frozen(path)
        self._db = sqlite3.connect(
            read_only_uri(path) if frozen else path, uri=frozen, isolation_level=None, check_same_thread=False
        )
        self._db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        if not frozen:
            enable_wal(self._db, path)
        self._db.execute(f"PRAGMA cache_size = {-_CACHE_KIB}")
        self._db.execute("PRAGMA synchronous = NORMAL")  # it can be made again from the WARCs
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA_VERSION):
            self._db.close()
            raise CollectionVersionError(
                f"{path} has schema {version}, this version reads {SCHEMA_VERSION}; run `weboid collection rebuild`."
            )
        if version == 0:
            with self.transaction():
                for statement in CAPTURES_DDL.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def checkpoint(self) -> None:
        """Move all data into the database's main file, so that it can be renamed."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def transaction(self) -> AbstractContextManager[None]:
        """Lock the index for writing; commit at the end, or roll back on any error."""
        return write_transaction(self._db)

    def originals(self, keys: Iterable[PayloadKey]) -> dict[PayloadKey, OriginalRecord]:
        """Return the records of those payloads that are known."""
        wanted = list(keys)
        originals = {}
        for start in range(0, len(wanted), 500):
            some = wanted[start : start + 500]
            values = ",".join(["(?,?)"] * len(some))
            query = (  # the join's order is fixed: a look-up for each, never a scan of payloads
                f"WITH wanted (digest, bucket) AS (VALUES {values})"
                f" SELECT digest, bucket, spelled, url, captured_ms, filename, offset, length"
                " FROM wanted CROSS JOIN payloads USING (digest, bucket)"
            )
            for digest, bucket, *original in self._db.execute(query, [text for key in some for text in key]):
                originals[PayloadKey(digest, bucket)] = OriginalRecord(*original)
        return originals

    def adopt(self, originals: Mapping[int, OriginalRecord]) -> None:
        """Set the payload locations of those revisits."""
        self._db.executemany(
            "UPDATE captures SET (orig_filename, orig_offset, orig_length) = (?, ?, ?) WHERE id = ?",
            ((each.filename, each.offset, each.length, row) for row, each in originals.items()),
        )

    def _run(self, query: str, values: Sequence[Any] = (), *, patient: bool = False) -> Any:
        del patient
        return self._db.execute(query, values)

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        statement, marks = _INSERTIONS[table]
        start = 0
        for size in _ROWS_AT_ONCE:
            while len(rows) - start >= size:
                values = [value for row in rows[start : start + size] for value in row]
                start += size
                self._db.execute(statement + ",".join([marks] * size), values)


class SqlitePayloadIndex(PayloadIndex):
    """Dedup index in a captures index, which stays the caller's; claims last for its transaction."""

    shared = False

    def __init__(self, index: SqliteCaptureIndex) -> None:
        self._index = index

    def claim(self, keys: Collection[PayloadKey], also: Sequence[str] = ()) -> dict[PayloadKey, OriginalRecord | Claim]:
        """Return for each key its original, or `Claim.YOURS` until the transaction ends."""
        originals = self.find(keys, also)
        return {key: originals.get(key, Claim.YOURS) for key in keys}

    def find(self, keys: Collection[PayloadKey], also: Sequence[str] = ()) -> dict[PayloadKey, OriginalRecord]:
        """Return the known originals."""
        if not also:
            return self._index.originals(keys)
        places = {key: [PayloadKey(key.digest, each) for each in (key.bucket, *also)] for key in keys}
        known = self._index.originals(dict.fromkeys(chain.from_iterable(places.values())))
        # The first of the buckets is assigned last.
        return {key: known[each] for key, wanted in places.items() for each in reversed(wanted) if each in known}

    def settle(self, originals: Mapping[PayloadKey, OriginalRecord]) -> frozenset[PayloadKey]:
        """Add the originals; the lock excludes other processes, so no claim is ever lost."""
        self.add(originals)
        return frozenset()

    def add(self, originals: Mapping[PayloadKey, OriginalRecord]) -> None:
        """Add the originals; the first of each key stays."""
        self._index.add_payloads(originals)


def open_index(layout: Layout, settings: IndexSettings) -> CaptureIndex:
    """Open the configured index; raises ConfigError, CollectionVersionError or IndexUnavailableError."""
    if settings.url:
        from core.config.database_urls import parse_index_url
        from warc.index.postgres import PostgresCaptureIndex  # a sixth of a run's start

        return PostgresCaptureIndex(parse_index_url(settings.url))
    return SqliteCaptureIndex(layout.captures_db)


def check_index(address: "IndexAddress") -> None:
    """Check that the index at the address answers, or raise IndexUnavailableError."""
    from net.postgres_client import PostgresConnection

    with closing(PostgresConnection(address, holds=False)) as server:
        server.execute("SELECT 1")


def open_shared(layout: Layout, settings: ProxySettings) -> PayloadIndex | None:
    """Open several machines' dedup index, or None; ConfigError: another address, DedupUnavailableError."""
    if not settings.dedup_url:
        return None
    from core.config.database_urls import RedisUse, parse_redis_url
    from warc.dedup.redis_payloads import RedisPayloadIndex  # loads the Redis client

    return RedisPayloadIndex(parse_redis_url(settings.dedup_url, RedisUse.DEDUP), layout.owners)


def check_shared(address: "RedisAddress") -> None:
    """Check that the dedup index at the address answers, or raise DedupUnavailableError."""
    from warc.dedup.redis_payloads import dedup_server

    with closing(dedup_server(address)) as server:
        server.script("find", [f"{address.tag}:alive:".encode()], [b""])


def open_payloads(layout: Layout, settings: ProxySettings, index: CaptureIndex) -> PayloadIndex:
    """Open the dedup index at `dedup_url`, else the collection's own, unfit for a shared `index`; as `open_shared`."""
    if (shared := open_shared(layout, settings)) is not None:
        return shared
    if not isinstance(index, SqliteCaptureIndex):
        raise ConfigError(
            "[index] url needs [proxy] dedup_url: machines that share an index also share a dedup"
            " index, which is in Redis."
        )
    return SqlitePayloadIndex(index)
