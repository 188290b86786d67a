"""The registry's database: SQLite beside a collection, or PostgreSQL for several machines.

    with store.reading() as rows:      # one snapshot
        rows.execute(select(urls.c.state)…)
    with store.writing() as rows:      # all of it, or nothing
        rows.execute(insert(urls)…)

Statements are SQLAlchemy's over `links.store.schema` and run on both. Any thread may ask; on SQLite
writers take turns. What goes wrong is one of ours: TransientError when the database is gone, locked
or full of questions, and trying later helps.
"""

import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from core.errors import TransientError, WeboidError
from core.index_url import IndexAddress, parse_index_url
from core.layout import Layout
from core.sqlite_uri import is_frozen, read_only_uri
from links.store.statements import Snapshot
from links.store.upgrading import HEAD, bring_up_to_date, make_schema, version_of

_BUSY_TIMEOUT_S = 30.0
_WRITES = "weboid_writes"
_CONNECTIONS = 8
_IDLE = 4  # connections that are kept beside for `snapshot`
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA cache_size = -65536",  # KiB
    "PRAGMA mmap_size = 268435456",
)


class Store:
    """The registry's database. From any thread; `close` it.

    Attributes:
        engine: SQLAlchemy's.
        where: the database for people: a path, or an address without password.
    """

    def __init__(self, engine: Engine, where: str, file: Path | None = None) -> None:
        self.engine = engine
        self._file = file
        self._idle: deque[Connection] = deque()
        self.where = where
        # On PostgreSQL each question would else see what was written since the one before.
        self._reader = engine
        if self.is_shared:
            self._reader = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )

    @property
    def is_shared(self) -> bool:
        """Whether it is a server, which several machines may ask."""
        return self.engine.dialect.name == "postgresql"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection whose questions all see the same moment.

        Raises:
            TransientError: the database does not answer.
        """
        with self._mapped(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection whose changes are kept together when the block ends well.

        Raises:
            TransientError: the database does not answer; nothing was kept.
        """
        with self._mapped(), self.engine.connect() as plain:
            connection = plain.execution_options(**{_WRITES: True})
            with connection.begin():
                yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """As `reading`, for `links.store.statements.Statement.rows` alone, at a tenth of its price.

        Raises:
            TransientError: the database does not answer.
        """
        with self._mapped():
            held = self._held()
            driver: Any = held.connection.driver_connection
            try:
                if not self.is_shared:
                    driver.execute("BEGIN")  # PostgreSQL's driver begins by itself
                yield Snapshot(driver, self.engine.dialect)
                driver.rollback()
            except BaseException as error:
                self._end_badly(held, error)
                raise
            self._keep(held)

    def close(self) -> None:
        """Let go of the database."""
        self._let_go()
        self.engine.dispose()

    def _held(self) -> Connection:
        """A connection that no transaction uses; of the same file as the last."""
        try:
            held = self._idle.pop()
        except IndexError:
            return self._reader.connect()
        if self._file is not None and held.info["file"] != _file(self._file):
            held.invalidate()
            held.close()
            return self._reader.connect()
        return held

    def _keep(self, held: Connection) -> None:
        if len(self._idle) < _IDLE:
            self._idle.append(held)
        else:
            held.close()

    def _end_badly(self, held: Connection, error: BaseException) -> None:
        """Keep the connection when the fault is the asker's; else let go of all."""
        driver: Any = held.connection.driver_connection
        if isinstance(error, WeboidError):
            driver.rollback()
            self._keep(held)
            return
        held.invalidate()
        held.close()
        self._let_go()  # those that wait beside it are no better

    def _let_go(self) -> None:
        while self._idle:
            with suppress(IndexError):  # another thread may be quicker
                self._idle.pop().close()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._is_gone(error):
                raise self._gone(error) from error
            raise

    def _is_gone(self, error: Exception) -> bool:
        """Whether it says that the database is not there, in use, or no database any more."""
        if isinstance(error, PoolTimeoutError | DisconnectionError):
            return True
        driver: Any = self.engine.dialect.loaded_dbapi
        first = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            return True
        if isinstance(first, sqlite3.OperationalError):
            # A statement that is wrong is a mistake of ours; one whose tables are gone is none.
            wrong = first.sqlite_errorcode == sqlite3.SQLITE_ERROR
            return not wrong or "no such table: link_" in str(first)
        if isinstance(first, driver.OperationalError | driver.InterfaceError):
            return True
        return type(first) is sqlite3.DatabaseError  # "file is not a database", "malformed"

    def _gone(self, error: Exception) -> TransientError:
        said = " ".join(str(getattr(error, "orig", None) or error).split()).rstrip(".")
        return TransientError(f"The link registry at {self.where} does not answer: {said}.")


def open_store(layout: Layout, url: str = "") -> Store:
    """The registry of a collection, or the one beside the index that `url` names; brought up to date.

    Raises:
        ConfigError: `url` names none.
        CollectionVersionError: a newer Weboid made it.
        TransientError: the database does not answer.
    """
    address = parse_index_url(url) if url else None
    store = _own(layout.links_db) if address is None else _shared(address)
    try:
        with store.reading() as connection:
            is_ready = version_of(connection) == HEAD
        if not is_ready:
            _prepare(store, address)
    except BaseException:
        store.close()
        raise
    return store


def open_to_read(layout: Layout, url: str = "") -> Store | None:
    """The registry as it is; None when there is none yet, or one of another version: nothing is made.

    Raises:
        ConfigError: `url` names none.
        TransientError: the database does not answer.
    """
    if not url and not layout.links_db.is_file():
        return None
    store = _shared(parse_index_url(url)) if url else _own(layout.links_db)
    try:
        with store.reading() as connection:
            is_ready = version_of(connection) == HEAD
    except BaseException:
        store.close()
        raise
    if not is_ready:
        store.close()
        return None
    return store


def _prepare(store: Store, address: IndexAddress | None) -> None:
    with store._mapped():  # noqa: SLF001
        if address is not None:
            make_schema(store.engine, address.index)
    with store.writing() as connection:
        bring_up_to_date(connection, store.where)


def _own(path: Path) -> Store:
    """The database in a file; nothing but this makes one, so that a file that is gone is told."""
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

    engine = create_engine(
        "sqlite://", creator=connect, poolclass=QueuePool, pool_size=_CONNECTIONS
    )

    @event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, record: Any) -> None:
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        record.info["file"] = _file(path)

    @event.listens_for(engine, "checkout")
    def _taken(_connection: sqlite3.Connection, record: Any, _proxy: Any) -> None:
        # SQLite goes on writing to a file that was removed or replaced: to nowhere.
        if record.info["file"] != _file(path):
            raise DisconnectionError(f"{path} is another file now")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # A writer that begins as a reader may find at its first change that it may not.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return Store(engine, str(path), path)


def _file(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _shared(address: IndexAddress) -> Store:
    engine = create_engine(
        "postgresql+psycopg://",
        connect_args={
            **address.parameters,
            "connect_timeout": "5",
            "application_name": "weboid-links",
        },
        pool_size=_CONNECTIONS,
        pool_pre_ping=True,
    )
    return Store(engine, str(address))
