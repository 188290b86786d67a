"""Database of the link registry: opening, transactions, schema upgrade, table copy, access from event loops.

An older or empty database is upgraded in one transaction; a newer one is not touched. Thread-safe; on SQLite writers
are serialized. A database that is unreachable, locked or overloaded raises TransientError.
"""

import asyncio
import logging
import math
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from core.config.database_urls import IndexAddress, error_words, parse_index_url
from core.errors import CollectionVersionError, TransientError, WeboidError
from core.layout import Layout, is_frozen, read_only_uri
from links.registry.schema import metadata
from links.registry.statements import DatabaseSnapshot
from net.backoff import ExponentialBackoff
from warc.local_storage import enable_wal

HEAD = "0013"  # the newest step's number; a test compares it with the folder
_version = sa.table("link_version", sa.column("version_num"))
MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x6C696E6B73  # "links": of PostgreSQL's advisory locks, held while tables are made


def version_of(connection: sa.Connection) -> str:
    """Return the schema version; empty when there are no tables."""
    if not sa.inspect(connection).has_table(_version.name):
        return ""
    return str(connection.execute(sa.select(_version)).scalar() or "")


def upgrade_schema(connection: sa.Connection, where: str, *, to: str = HEAD) -> None:
    """Apply the missing migration steps up to the version `to`; CollectionVersionError: unknown version."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    version = version_of(connection)
    if version == to:
        return
    files = {file.name.partition("_")[0]: file for file in migration_files(connection.dialect.name)}
    if version and version not in files:
        raise CollectionVersionError(
            f"The link registry at {where} has version {version[:40]}, this release supports versions up to {HEAD}: "
            f"install the release that made it, or a newer one."
        )
    if not version and sa.inspect(connection).has_table("link_urls"):
        raise CollectionVersionError(
            f"The tables of the link registry at {where} have no version: they are not Weboid's, or precede its first "
            "release. Move them away, then try again."
        )
    for number, file in files.items():
        if version < number <= to:
            for statement in file.read_text(encoding="utf-8").split(";\n"):
                if statement.strip():
                    connection.exec_driver_sql(statement)
    connection.execute(sa.delete(_version))
    connection.execute(sa.insert(_version).values(version_num=to))


def migration_files(dialect: str) -> list[Path]:
    """Return the SQL files of all schema steps for that database, in their order."""
    return sorted(MIGRATIONS_FOLDER.glob(f"*.{dialect}.sql"))


def create_schema(engine: sa.Engine, schema: str) -> None:
    """Create the schema that holds the tables if it is missing, as that needs a right of the role: PostgreSQL only."""
    with engine.begin() as connection:
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        if schema not in sa.inspect(connection).get_schema_names():
            connection.execute(sa.text(f'CREATE SCHEMA "{schema}"'))


_BUSY_TIMEOUT_S = 30.0
_WRITES = "weboid_writes"
_CONNECTIONS = 8
_IDLE = 4  # connections reserved for `snapshot`
_PRAGMAS = (
    "PRAGMA synchronous = NORMAL",
    "PRAGMA cache_size = -65536",  # KiB
    "PRAGMA mmap_size = 268435456",
)


class RegistryStore:
    """Database of the registry. Thread-safe; must be closed. `where` is its address without password."""

    def __init__(self, engine: sa.Engine, where: str, file: Path | None = None) -> None:
        self.engine = engine
        self._file = None if file is None else str(file)
        self._idle: deque[sa.Connection] = deque()
        self.where = where
        # Otherwise each PostgreSQL query would see data written since the previous one.
        self._reader = engine
        if self.is_shared:
            self._reader = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @property
    def is_shared(self) -> bool:
        """Return True for a database server, which several machines may use."""
        return self.engine.dialect.name == "postgresql"

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a connection that reads one snapshot; TransientError when the database does not answer."""
        with self.transient_outages(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open a connection whose changes are committed at the end; after a TransientError nothing was committed."""
        with self.transient_outages(), self.engine.connect() as plain:
            connection = plain.execution_options(**{_WRITES: True})
            with connection.begin():
                yield connection

    @contextmanager
    def snapshot(self) -> Iterator[DatabaseSnapshot]:
        """Open a snapshot for `SqlStatement.rows` only, at a tenth of the cost of `reading`."""
        with self.transient_outages():
            connection = self._held()
            driver: Any = connection.connection.driver_connection
            try:
                if not self.is_shared:
                    driver.execute("BEGIN")  # PostgreSQL's driver begins by itself
                yield DatabaseSnapshot(driver, self.engine.dialect)
                driver.rollback()
            except BaseException as error:
                if isinstance(error, WeboidError):  # the caller's: the connection is fine
                    driver.rollback()
                    self._keep(connection)
                else:
                    connection.invalidate()
                    connection.close()
                    self._let_go()  # the other idle connections are just as stale
                raise
            self._keep(connection)

    def close(self) -> None:
        """Close the database."""
        self._let_go()
        self.engine.dispose()

    def _held(self) -> sa.Connection:
        """Return an idle connection to the same file as the last one."""
        try:
            held = self._idle.pop()
        except IndexError:
            return self._reader.connect()
        if self._file is not None and held.info["file"] != _file(self._file):
            held.invalidate()
            held.close()
            return self._reader.connect()
        return held

    def _keep(self, held: sa.Connection) -> None:
        if len(self._idle) < _IDLE:
            self._idle.append(held)
        else:
            held.close()

    def _let_go(self) -> None:
        while self._idle:
            with suppress(IndexError):  # another thread may be quicker
                self._idle.pop().close()

    @contextmanager
    def transient_outages(self) -> Iterator[None]:
        """Convert the errors of an unavailable database into TransientError."""
        try:
            yield
        except Exception as error:
            if self._is_gone(error):
                reason = error_words(getattr(error, "orig", None) or error, "")
                raise TransientError(f"The link registry at {self.where} does not answer: {reason}.") from error
            raise

    def _is_gone(self, error: Exception) -> bool:
        if isinstance(error, PoolTimeoutError | DisconnectionError):
            return True
        driver: Any = self.engine.dialect.loaded_dbapi
        first = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            return True
        if isinstance(first, sqlite3.OperationalError):
            # A wrong statement is a bug; one whose tables are gone is not.
            wrong = first.sqlite_errorcode == sqlite3.SQLITE_ERROR
            return not wrong or "no such table: link_" in str(first)
        if isinstance(first, driver.OperationalError | driver.InterfaceError):
            return True
        return type(first) is sqlite3.DatabaseError  # "file is not a database", "malformed"


def open_registry_store(layout: Layout, url: str = "", *, read_limit_s: float = 0) -> RegistryStore:
    """Open and upgrade the registry of a collection, or of an index; CollectionVersionError if newer.

    PostgreSQL cancels statements that read for longer than `read_limit_s`, with a TransientError; 0: no limit.
    """
    address = parse_index_url(url) if url else None
    store, is_ready = _opened(layout, address, read_limit_s)
    try:
        if not is_ready:
            with store.transient_outages():
                if address is not None:
                    create_schema(store.engine, address.index)
            with store.writing() as connection:
                upgrade_schema(connection, store.where)
    except BaseException:
        store.close()
        raise
    return store


def open_registry_read_only(layout: Layout, url: str = "") -> RegistryStore | None:
    """Open the registry without an upgrade; None when it is missing or has another version."""
    if not url and not layout.links_db.is_file():
        return None
    store, is_ready = _opened(layout, parse_index_url(url) if url else None)
    if not is_ready:
        store.close()
    return store if is_ready else None


def _opened(layout: Layout, address: IndexAddress | None, read_limit_s: float = 0) -> tuple[RegistryStore, bool]:
    """Open the database; return it, and True when it has the current version."""
    if address is None:
        store = _own(layout.links_db)
    else:
        parameters = {**address.parameters, "connect_timeout": "5", "application_name": "weboid-links"}
        if read_limit_s:
            parameters["options"] += f" -c statement_timeout={read_limit_s * 1_000:.0f}"
        engine = sa.create_engine(
            "postgresql+psycopg://", connect_args=parameters, pool_size=_CONNECTIONS, pool_pre_ping=True
        )
        if read_limit_s:

            @sa.event.listens_for(engine, "begin")
            def _unlimited(connection: sa.Connection) -> None:
                if connection.get_execution_options().get(_WRITES, False):
                    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")

        store = RegistryStore(engine, str(address))
    try:
        with store.reading() as connection:
            return store, version_of(connection) == HEAD
    except BaseException:
        store.close()
        raise


def _own(path: Path) -> RegistryStore:
    """Open the database in a file; only this creates one, so that a missing file is an error elsewhere."""
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch()

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(
            read_only_uri(path) if is_frozen(path) else f"{path.as_uri()}?mode=rw",
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            check_same_thread=False,
            isolation_level=None,  # the library's own BEGIN comes too late
        )

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.QueuePool, pool_size=_CONNECTIONS)

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, record: Any) -> None:
        if not is_frozen(path):
            enable_wal(connection, path)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        record.info["file"] = _file(path)

    @sa.event.listens_for(engine, "checkout")
    def _taken(_connection: sqlite3.Connection, record: Any, _proxy: Any) -> None:
        # SQLite keeps writing to a file that was removed or replaced, so the data is lost.
        if record.info["file"] != _file(path):
            raise DisconnectionError(f"{path} is another file now")

    @sa.event.listens_for(engine, "begin")
    def _begun(connection: sa.Connection) -> None:
        # A writer that begins as a reader may find at its first change that it may not.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return RegistryStore(engine, str(path), path)


def _file(path: Path | str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 at each snapshot: a string takes half the time
    except OSError:
        return None
    return status.st_dev, status.st_ino


_AT_ONCE = 1_000


def copy_rows(source: sa.Connection, target: sa.Connection) -> None:
    """Copy all rows of the source's registry, one snapshot, over those of the target's, in batches."""
    reading = source.execution_options(yield_per=_AT_ONCE)
    for each in metadata.sorted_tables:
        target.execute(sa.delete(each))
        for part in reading.execute(sa.select(each)).mappings().partitions():
            target.execute(sa.insert(each), [dict(row) for row in part])


T = TypeVar("T")

_LOG = logging.getLogger(__name__)
FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 10.0


@dataclass(eq=False)
class RegistryThread:
    """Thread for one checker's reads and writes, in the order of their calls; during an outage they wait. Must be closed."""

    store: RegistryStore
    _: KW_ONLY
    monotonic: Callable[[], float]
    patience_s: float = math.inf  # maximum wait for an unavailable database
    first_delay_s: float = FIRST_DELAY_S
    away_since: float | None = field(default=None, init=False)  # monotonic; None: it answers

    def __post_init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="links-desk")

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` on a reading connection; retry until it answers, or raise TransientError at last."""
        return await self._patiently(partial(_run_on, self.store.reading, work))

    async def read_aside(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `read` in a separate thread, so that long reads do not delay a lease's renewal."""
        return await self._patiently(partial(_run_on, self.store.reading, work), aside=True)

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run idempotent `work` on a writing connection; retry, perhaps after a lost confirmation, until committed."""
        return await self._patiently(partial(_run_on, self.store.writing, work))

    async def do(self, work: Callable[[], T]) -> T:
        """Run `work`, which opens its own connections, with the same retries."""
        return await self._patiently(work)

    async def try_write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `write` without retries; TransientError when the database does not answer."""
        return await self._in_thread(partial(_run_on, self.store.writing, work))

    def close(self) -> None:
        """Stop the thread after its current work."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def _patiently(self, ask: Callable[[], T], *, aside: bool = False) -> T:
        pauses = ExponentialBackoff(self.first_delay_s, LONGEST_DELAY_S)
        while True:
            try:
                done = await (asyncio.to_thread(ask) if aside else self._in_thread(ask))
            except TransientError as error:
                now = self.monotonic()
                if self.away_since is None:
                    self.away_since = now
                    _LOG.warning("%s The checker waits for it.", error)
                if now - self.away_since > self.patience_s:
                    raise
                await asyncio.sleep(pauses.next_s())
            else:
                if self.away_since is not None:
                    _LOG.warning("The link registry answers again.")
                    self.away_since = None
                return done

    async def _in_thread(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, ask)


def _run_on(connect: Callable[[], AbstractContextManager[sa.Connection]], work: Callable[[sa.Connection], T]) -> T:
    with connect() as rows:
        return work(rows)
