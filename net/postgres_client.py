"""PostgreSQL connection that reconnects, limits waiting and maps errors."""

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo

from core.config.database_urls import IndexAddress, error_words
from core.errors import IndexUnavailableError, InputError, WeboidError

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 30.0  # a statement writes a batch's rows; a scan by a command may take longer
WATCH_S = 1.0
LOCK_NAME = "weboid.use."
# The system detects a dead machine or cable, even without queries.
OPTIONS = {
    "application_name": "weboid",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_REMEDY = "Start PostgreSQL there, or correct [index] url."
_DATA_ERRORS = (errors.DataError, errors.ProgramLimitExceeded, errors.IntegrityError)


def hang_up(connection: psycopg.Connection[Any]) -> None:
    """End the connection of a server that hangs from another thread; never raises."""
    with (
        suppress(psycopg.Error, OSError),
        # A number of our own for the same socket: closing it leaves the library's open.
        socket.socket(fileno=os.dup(connection.fileno())) as sock,
    ):
        sock.shutdown(socket.SHUT_RDWR)


class PostgresConnection:
    """Connection to a PostgreSQL server, made at the first query. Thread-safe; `close` it.

    Outside of a transaction an idempotent query is repeated once when a server restart broke the connection. A query
    over its time limit ends the connection, as a server that hangs sends no error.
    """

    def __init__(self, address: IndexAddress, *, holds: bool = True) -> None:
        """Store the address. With `holds` an open connection blocks a rebuild of the index."""
        self._holds = holds
        self._address = address
        self._place = f"The captures index at {address}"
        self._turn = threading.RLock()  # a transaction is one thread's
        self._connection: psycopg.Connection[Any] | None = None
        self._within = False
        self._deadline = float("inf")
        self._over = threading.Event()
        self._watching: threading.Thread | None = None

    def execute(
        self, query: str, values: Sequence[Any] | None = None, *, patient: bool = False
    ) -> "psycopg.Cursor[Any]":
        """Run a query, or several without values; `patient`: no time limit. InputError: a value cannot be stored.

        Raises IndexUnavailableError without an answer or access, and closes the connection.
        """
        with self._turn:
            again = self._connection is not None and not self._within
            try:
                return self._ask(query, values, patient=patient)
            except IndexUnavailableError:
                if not again:
                    raise
            return self._ask(query, values, patient=patient)

    @contextmanager
    def transaction(self, begin: str = "BEGIN") -> Iterator[None]:
        """Commit at the end of the block, or roll back on any error; a failed commit may have happened."""
        with self._turn:
            self.execute(begin)
            self._within = True
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._connection is not None and not self._connection.closed:
                    try:
                        self._ask("ROLLBACK", None, patient=False)
                    except WeboidError as error:
                        log.warning("index.not_rolled_back error=%s", error)
                        self._drop()
                raise
            finally:
                self._within = False

    def copy_out(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Stream the rows of a query of any length. Inside a transaction; raises as `execute`."""
        try:
            with self._connected().cursor(name="weboid") as cursor:
                cursor.itersize = 10_000
                cursor.execute(query.encode())
                yield from cursor
        except psycopg.Error as error:
            raise self._as_ours(error) from None

    def close(self) -> None:
        """Close the connection."""
        self._over.set()
        self._drop()
        if self._watching is not None:
            self._watching.join()

    def _ask(self, query: str, values: Sequence[Any] | None, *, patient: bool) -> "psycopg.Cursor[Any]":
        connection = self._connected()
        if not patient:
            self._deadline = time.monotonic() + ANSWER_TIMEOUT_S
        try:
            # Statements without values are too short to benefit from a cached plan.
            return connection.execute(query.encode(), values, prepare=None if values else False)
        except (psycopg.Error, OSError) as error:
            raise self._as_ours(error) from None
        finally:
            self._deadline = float("inf")

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        if self._within:
            words = "the connection was lost during a transaction"
            raise IndexUnavailableError(f"{self._place} does not answer: {words}. {_REMEDY}")
        try:
            options = OPTIONS | {"target_session_attrs": "read-write"}
            connection = psycopg.connect(make_conninfo(**self._address.parameters, **options), autocommit=True)
        except (psycopg.Error, OSError) as error:
            raise self._as_ours(error) from None
        if self._holds:  # take the shared lock that a rebuild of the index takes exclusively
            query = b"SELECT pg_try_advisory_lock_shared(hashtextextended(%s, 0))"
            try:
                row = connection.execute(query, (LOCK_NAME + self._address.index,)).fetchone()
            except (psycopg.Error, OSError) as error:
                connection.close()
                raise self._as_ours(error) from None
            if row is None or not row[0]:
                connection.close()
                raise IndexUnavailableError(
                    f"{self._place} is being rebuilt: wait for `weboid collection rebuild` to finish."
                )
        self._connection = connection
        if self._watching is None:
            self._watching = threading.Thread(target=self._watch, name="postgresql", daemon=True)
            self._watching.start()
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _watch(self) -> None:
        """Close the connection when a query exceeds its time limit."""
        while not self._over.wait(WATCH_S):
            connection = self._connection
            if connection is not None and time.monotonic() >= self._deadline:
                log.warning("index.silent seconds=%.0f", ANSWER_TIMEOUT_S)
                hang_up(connection)

    def _as_ours(self, error: Exception) -> WeboidError:
        words = error_words(error, self._address.password)
        if isinstance(error, _DATA_ERRORS):
            return InputError(f"{self._place} cannot store this: {words}.")
        if not self._within or isinstance(error, psycopg.OperationalError | OSError):
            self._drop()
        if "FATAL" in words and "starting up" not in words:
            text = f"refuses the login: {words}. Correct [index] url, or the server's permissions."
        elif isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError):
            text = f"does not answer: {words}. {_REMEDY}"
        else:
            text = f"cannot be used: {words}. PostgreSQL's own log says more."
        return IndexUnavailableError(f"{self._place} {text}")
