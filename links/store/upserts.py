"""Insert, or change what is there: each database's own form of it, with one face."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def upsert(
    connection: Connection, table: Table, keys: Sequence[str], rows: Sequence[dict[str, Any]]
) -> None:
    """Put the rows; where one with the same keys is there, it gets the values of all other columns.

    Args:
        connection: one that writes.
        table: of which.
        keys: columns that a row is found by: of its primary key, or of a unique constraint.
        rows: each with the same columns; no two with the same keys.
    """
    if not rows:
        return
    changed = [name for name in rows[0] if name not in keys]
    put = insert_into(connection, table)
    put = put.on_conflict_do_update(
        index_elements=list(keys), set_={name: put.excluded[name] for name in changed}
    )
    connection.execute(put, rows)


def merge(
    connection: Connection,
    table: Table,
    keys: Sequence[str],
    rows: Sequence[dict[str, Any]],
    change: Callable[[Any], tuple[dict[str, Any], ColumnElement[bool]]],
) -> None:
    """Put the rows; where one with the same keys is there, it is changed as `change` says.

    Args:
        connection: one that writes.
        table: of which.
        keys: columns that a row is found by.
        rows: each with the same columns; no two with the same keys.
        change: of the columns of the new row: what columns become, and under which condition.
    """
    if not rows:
        return
    put = insert_into(connection, table)
    becomes, condition = change(put.excluded)
    put = put.on_conflict_do_update(index_elements=list(keys), set_=becomes, where=condition)
    connection.execute(put, rows)


def insert_missing(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Put those rows that break no primary key and no unique constraint; the others stay as they are."""
    if rows:
        connection.execute(insert_into(connection, table).on_conflict_do_nothing(), rows)


def insert_into(connection: Connection, table: Table) -> sqlite.Insert:
    """An INSERT that knows what to do when a row is there, as the connection's database writes it."""
    if connection.dialect.name == "postgresql":
        # The two classes have what is used of them alike, but no base that has it.
        return postgresql.insert(table)  # type: ignore[return-value]
    return sqlite.insert(table)


def insert_new(connection: Connection, table: Table, row: dict[str, Any]) -> bool:
    """Put the row unless one with the same primary key is there; return whether it was put."""
    put = insert_into(connection, table).values(row).on_conflict_do_nothing()
    return connection.execute(put.returning(*table.primary_key)).first() is not None
