"""Access decisions in PostgreSQL, shared by several machines."""

import re
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from core.config.database_urls import IndexAddress, error_words
from core.errors import TransientError
from playback.access.decision_store import TABLES, Values
from warc.index.postgres import PostgresDatabase, storable_values, translate_query

HELD_S = 0.1  # so long a version counts: a decision holds within a second, and this is well below
_OPTIONS = {"application_name": "weboid-decisions", "connect_timeout": "3"}
_RELATIONS = re.findall(r"CREATE (?:TABLE|INDEX) IF NOT EXISTS (\w+)", TABLES)
_LOCK = 7_130_223  # advisory lock for table creation; any otherwise unused number


class PostgresDecisionStore:
    """Decision store in PostgreSQL, created by the first change. Thread-safe; `close` after use."""

    def __init__(self, address: IndexAddress, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._reading = PostgresDatabase(address)
        self._monotonic = monotonic
        self._cached: tuple[float, int] | None = None
        self._lock = threading.Lock()
        self._has_tables = False

    def version(self) -> int:
        """Return the version of the last change, at most `HELD_S` seconds old."""
        now = self._monotonic()
        cached = self._cached
        if cached is None or now - cached[0] >= HELD_S:
            rows = self.rows("SELECT n FROM decision_version", {})
            cached = self._cached = (now, int(rows[0]["n"]) if rows else 0)
        return cached[1]

    def rows(self, query: str, values: Values) -> list[Any]:
        """Run a query and return its rows."""
        return self._reading.rows(query, values)

    def change(self, changes: Iterable[tuple[str, Values]]) -> None:
        """Apply the changes in one transaction."""
        with self._lock:
            try:
                conninfo = make_conninfo(**self._address.parameters, **_OPTIONS)
                with closing(psycopg.connect(conninfo)) as connection:
                    if not self._has_tables:
                        # An existing schema is used if the role may not create one.
                        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                        schema, relations = self._address.index, len(_RELATIONS)
                        query = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"
                        if connection.execute(query, (schema,)).fetchone() != (1,):
                            connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
                        query = (
                            "SELECT count(*) FROM pg_class JOIN pg_namespace AS n ON n.oid ="
                            " relnamespace WHERE nspname = %s AND relname = ANY(%s)"
                        )
                        existing = connection.execute(query, (schema, _RELATIONS)).fetchone()
                        if existing != (relations,):
                            connection.execute(TABLES.encode())
                        connection.commit()  # before anything else is locked
                        self._has_tables = True
                    # Serialises writers, so that numbers and versions are consistent.
                    connection.execute("SELECT n FROM decision_version FOR UPDATE")
                    for query, values in changes:
                        connection.execute(translate_query(query), storable_values(values))
                    connection.execute("UPDATE decision_version SET n = n + 1")
                    connection.commit()
            except psycopg.Error as error:
                words = error_words(error, self._address.password)
                text = f"The decision was not kept at {self._address}: {words}."
                raise TransientError(text) from None
            self._cached = None

    def close(self) -> None:
        """Close the connections."""
        self._reading.close()
