"""Coverage of the closed WARCs by the collection's own index, read without opening it for writing."""

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from core.layout import Layout, read_only_uri
from warc.index.schema import SCHEMA_VERSION
from warc.local_storage import closed_warcs

OWN_PREFIXES = ("weboid-", "artifacts-")  # of the WARCs that our recorder names


def covered_by_file(database: Path) -> dict[str, int]:
    """Return the bytes that the index in that file covers, by WARC; {} when it cannot be read."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(read_only_uri(database), uri=True)) as old,
    ):
        return dict(old.execute("SELECT filename, indexed_to FROM files"))
    return {}


def schema_version(database: Path) -> int | None:
    """Return the schema version of the index in that file; None when it cannot be read."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(read_only_uri(database), uri=True)) as db,
    ):
        (version,) = db.execute("PRAGMA user_version").fetchone()
        return int(version)
    return None


def is_complete(layout: Layout) -> bool:
    """Return True when the collection's own index is of this version, and covers our closed WARCs."""
    if not layout.captures_db.exists():
        return not any(each.name.startswith(OWN_PREFIXES) for each in closed_warcs(layout))
    return schema_version(layout.captures_db) == SCHEMA_VERSION and not unindexed_warcs(layout)


def unindexed_warcs(layout: Layout) -> list[Path]:
    """Return our closed WARCs that the collection's own index does not cover completely."""
    covered = covered_by_file(layout.captures_db)
    return not_covered(layout, lambda name: covered.get(name, 0))


def not_covered(layout: Layout, indexed_to: Callable[[str], int]) -> list[Path]:
    """Return our closed WARCs that are longer than their `indexed_to`."""
    return [
        path
        for path in closed_warcs(layout)
        if path.name.startswith(OWN_PREFIXES) and indexed_to(path.name) < path.stat().st_size
    ]
