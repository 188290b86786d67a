"""Read-only captures index in PostgreSQL or a replica: a small pool of connections, bounded waiting."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from core.config.database_urls import IndexAddress, error_words
from core.errors import TransientError
from net.postgres_client import hang_up
from warc.index.database import LOOKUP_COLUMNS, OTHER_VERSION
from warc.index.protocol import KEY_CHARACTERS

MOST_CONNECTIONS = 16
ANSWER_LIMIT_S = 10.0
WATCH_S = 1.0
_OPTIONS = {
    "application_name": "weboid-playback",
    "connect_timeout": "3",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
_SESSION = f"-c default_transaction_read_only=on -c statement_timeout={ANSWER_LIMIT_S:.0f}s"
# A table is missing among those that are there.
_IS_OLDER = "SELECT 1 WHERE to_regclass('pages') IS NOT NULL AND to_regclass('qualities') IS NULL"
_NAMES = re.compile(r"'[^']*'|:([a-z_]\w*)")
_Connection = psycopg.Connection[dict[str, Any]]


_LOOKUP_SELECT = ", ".join(
    f"CAST(item.value ->> {number} AS bigint) AS {name}"
    if name in ("place", "until_ms")
    else f"item.value ->> {number} AS {name}"
    for number, name in enumerate(LOOKUP_COLUMNS)
)
_LOOKUP_TABLE = (
    f"(SELECT {_LOOKUP_SELECT}"  # noqa: S608 constants
    " FROM json_array_elements(CAST(:asked AS json)) AS item (value)) AS asked"
)


class PostgresDatabase:
    """Read-only index in a PostgreSQL database. Thread-safe; `close` it."""

    shared = True
    # The index is of the key's beginning (`warc.index.protocol`).
    has_key = f"left(urlkey, {KEY_CHARACTERS}) = :key_start AND urlkey = :key"
    key = f"left(urlkey, {KEY_CHARACTERS})"
    contains = "ILIKE"
    in_range = (
        f"left(urlkey, {KEY_CHARACTERS}) >= :low_start AND left(urlkey, {KEY_CHARACTERS}) <= :high_start"
        " AND urlkey >= :low AND urlkey < :high"
    )
    by_key: tuple[str, ...] = (f"left(urlkey, {KEY_CHARACTERS})", "urlkey")
    asked = _LOOKUP_TABLE
    joined_first = "CROSS JOIN LATERAL (SELECT * FROM pages WHERE {where}) AS pages"

    def __init__(self, address: IndexAddress, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._monotonic = monotonic
        parameters = address.parameters
        options = f"{parameters.pop('options')} {_SESSION}"
        self._conninfo = make_conninfo(**parameters, **_OPTIONS, options=options)
        self._idle: list[_Connection] = []
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        self._asking: dict[_Connection, float] = {}  # until when an answer is waited for
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._watching: threading.Thread | None = None

    def rows(self, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a query; TransientError if the server does not answer in time."""
        if not self._free.acquire(timeout=ANSWER_LIMIT_S):
            raise TransientError(f"The captures index at {self._address} has too many questions.")
        try:
            pooled = self._kept()
            if pooled is not None:
                try:
                    return self._ask(pooled, query, values)
                except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                    if isinstance(error, errors.QueryCanceled):  # it was slow, not broken
                        raise
            connection = psycopg.connect(self._conninfo, autocommit=True, row_factory=dict_row)
            with self._lock:
                if self._watching is None:
                    self._watching = threading.Thread(target=self._watch, daemon=True)
                    self._watching.start()
            return self._ask(connection, query, values)
        except (psycopg.Error, OSError) as error:
            words = error_words(error, self._address.password)
            raise TransientError(f"The captures index at {self._address} cannot be read: {words}.") from None
        finally:
            self._free.release()

    def close(self) -> None:
        """Close the connections."""
        self._over.set()
        while (connection := self._kept()) is not None:
            connection.close()
        if self._watching is not None:
            self._watching.join()

    def _kept(self) -> _Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _ask(self, connection: _Connection, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._lock:
            self._asking[connection] = self._monotonic() + ANSWER_LIMIT_S + WATCH_S
        try:
            rows = connection.execute(translate_query(query), storable_values(values)).fetchall()
        except errors.UndefinedTable:
            if connection.execute(_IS_OLDER).fetchall():
                connection.close()
                raise TransientError(f"The captures index at {self._address} {OTHER_VERSION}") from None
            rows = []  # its writers have not come yet
        except BaseException:
            connection.close()
            raise
        finally:
            with self._lock:
                del self._asking[connection]
        with self._lock:
            self._idle.append(connection)
        return rows

    def _watch(self) -> None:
        """Close connections whose queries take too long: the server is stuck."""
        while not self._over.wait(WATCH_S):
            now = self._monotonic()
            with self._lock:
                late = [each for each, until in self._asking.items() if until < now]
            for connection in late:
                hang_up(connection)


@lru_cache(maxsize=64)
def translate_query(query: str) -> bytes:
    """Convert named parameters to the library's form; quoted text is unchanged."""
    return _NAMES.sub(lambda match: f"%({match[1]})s" if match[1] else match[0], query.replace("%", "%%")).encode()


def storable_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values as they were stored: no text in PostgreSQL contains NUL."""
    return {name: value.replace("\0", "\ufffd") if isinstance(value, str) else value for name, value in values.items()}
