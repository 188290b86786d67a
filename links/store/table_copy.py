"""Copy a registry from one database into another, table by table."""

from sqlalchemy import Connection, delete, insert, select

from links.store.schema import metadata

_AT_ONCE = 1_000


def copy_rows(source: Connection, target: Connection) -> None:
    """Replace all rows of the target's registry by those of the source's.

    Both are of the present version; the source's rows are read some at a time.

    Args:
        source: a connection that reads one snapshot, of SQLite or PostgreSQL.
        target: a connection that writes.
    """
    reading = source.execution_options(yield_per=_AT_ONCE)
    for table in metadata.sorted_tables:
        target.execute(delete(table))
        for part in reading.execute(select(table)).mappings().partitions():
            target.execute(insert(table), [dict(row) for row in part])
