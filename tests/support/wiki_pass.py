"""Simulate the passage of days: move all dates of a collection into the past.

The dates of the registry and of the captures index are moved; the WARCs stay unchanged.
"""

import sqlite3
from contextlib import closing
from datetime import timedelta

from sqlalchemy import BigInteger, Integer, LargeBinary, bindparam, select, update

from core.layout import Layout
from core.timestamps import parse_timestamp14, timestamp14
from links.check_history import HistoryRun, pack_history, unpack_history
from links.registry.schema import metadata, urls
from tests.support.services.registries import open_registry

_DAY_S = 86_400
_MOMENTS = ("moment", "since", "due", "checked", "expires")


def pass_days(layout: Layout, days: int) -> None:
    """Move all dates this many days into the past."""
    _move_registry(layout, days)
    _move_captures(layout, days)


def _move_registry(layout: Layout, days: int) -> None:
    with closing(open_registry(layout)) as store, store.writing() as rows:
        for table in metadata.sorted_tables:
            moved = {
                column.name: column - days * (_DAY_S if column.name in _MOMENTS else 1)
                for column in table.columns
                if isinstance(column.type, Integer | BigInteger)
                and (column.name in _MOMENTS or column.name.split("_")[-1] == "day")
            }
            if moved:
                rows.execute(update(table).values(moved))
        history_rows = rows.execute(select(urls.c.id, urls.c.history).where(urls.c.history.is_not(None)))
        shifted = [
            {
                "of": row.id,
                "new": pack_history(
                    tuple(
                        HistoryRun(run.code, run.first - days, run.last - days) for run in unpack_history(row.history)
                    )
                ),
            }
            for row in history_rows
        ]
        if shifted:
            change = update(urls).where(urls.c.id == bindparam("of"))
            rows.execute(change.values(history=bindparam("new", type_=LargeBinary)), shifted)


def _move_captures(layout: Layout, days: int) -> None:
    if not layout.captures_db.exists():
        return

    def moved(stamp: str) -> str:
        return timestamp14(parse_timestamp14(stamp) - timedelta(days=days))

    with closing(sqlite3.connect(layout.captures_db, timeout=120)) as database, database:
        database.create_function("moved", 1, moved)
        for table in ("captures", "pages"):
            database.execute(
                f"UPDATE {table} SET captured_ms = captured_ms - ?, timestamp = moved(timestamp)",
                (days * _DAY_S * 1_000,),
            )
