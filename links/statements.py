"""What SQLAlchemy spells once for each database, or not at all."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

T = TypeVar("T")

PARAMETERS = 500  # of one statement: SQLite's own limit was 999 for long


def insert_into(connection: Connection, table: Table) -> sqlite.Insert:
    """An INSERT that may say ``on_conflict_do_update``, for the connection's database."""
    if connection.dialect.name == "postgresql":
        # The two classes have these methods alike, but no base that has them.
        return postgresql.insert(table)  # type: ignore[return-value]
    return sqlite.insert(table)


def batches(values: Iterable[T], size: int = PARAMETERS) -> Iterator[list[T]]:
    """The values in lists of so many, the last one with what is left.

    >>> list(batches("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch
