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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from core.errors import TransientError
from core.index_url import IndexAddress, parse_index_url
from core.layout import Layout
from links.store.schema import metadata

_BUSY_TIMEOUT_S = 30.0
_WRITES = "weboid_writes"
_CONNECTIONS = 8
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

    def __init__(self, engine: Engine, where: str) -> None:
        self.engine = engine
        self.where = where

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
        with self._mapped(), self.engine.connect() as connection:
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

    def close(self) -> None:
        """Let go of the database."""
        self.engine.dispose()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, InterfaceError, PoolTimeoutError) as error:
            raise self._gone(error) from error
        except DBAPIError as error:
            if error.connection_invalidated:
                raise self._gone(error) from error
            raise

    def _gone(self, error: Exception) -> TransientError:
        said = " ".join(str(getattr(error, "orig", None) or error).split()).rstrip(".")
        return TransientError(f"The link registry at {self.where} does not answer: {said}.")


def open_store(layout: Layout, url: str = "") -> Store:
    """The registry of a collection, or the one beside the index that `url` names; brought up to date.

    Raises:
        ConfigError: `url` names none.
        TransientError: the database does not answer.
    """
    store = _shared(parse_index_url(url)) if url else _own(layout.links_db)
    try:
        with store.writing() as connection:
            metadata.create_all(connection)
    except BaseException:
        store.close()
        raise
    return store


def _own(path: Path) -> Store:
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": _BUSY_TIMEOUT_S, "check_same_thread": False},
        pool_size=_CONNECTIONS,
    )

    @event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # the library's own BEGIN comes too late
        for pragma in _PRAGMAS:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # A writer that begins as a reader may find at its first change that it may not.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return Store(engine, str(path))


def _shared(address: IndexAddress) -> Store:
    parameters = address.parameters
    schema = address.index
    engine = create_engine(
        "postgresql+psycopg://",
        connect_args={**parameters, "connect_timeout": "5", "application_name": "weboid-links"},
        pool_size=_CONNECTIONS,
        pool_pre_ping=True,
    )

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        connection.commit()

    return Store(engine, str(address))
