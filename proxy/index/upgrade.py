"""Upgrade of a collection's captures index from the schema of the previous release, in place."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

from core.errors import CollectionVersionError
from core.index_schema import CAPTURES_DDL, MARK_LOGINS, SCHEMA_VERSION
from core.layout import Layout
from core.sqlite_uri import is_frozen, read_only_uri
from proxy.index.sqlite import BUSY_TIMEOUT_MS
from proxy.manifests import read_manifest_at

_PREVIOUS_VERSION = 4
_COLUMNS = """
ALTER TABLE captures ADD COLUMN login TEXT;
ALTER TABLE pages ADD COLUMN device TEXT NOT NULL DEFAULT '';
ALTER TABLE pages ADD COLUMN language TEXT NOT NULL DEFAULT '';
ALTER TABLE pages ADD COLUMN login TEXT NOT NULL DEFAULT ''
"""
_MANIFESTS = (
    "SELECT page_id, filename, offset, length FROM captures"
    " WHERE url LIKE 'urn:pageinfo:%' AND urlkey <> '' AND page_id IS NOT NULL ORDER BY captured_ms"
)
_CONDITIONS = "UPDATE pages SET device = ?, language = ?, login = ? WHERE page_id = ?"


def upgrade_index(layout: Layout, told: Callable[[str], None]) -> bool:
    """Bring the collection's own index from schema 4 to 5; return True when that was needed.

    The new columns name what a page was seen with, which its manifest in the WARC says. A manifest
    that cannot be read leaves them empty, as `weboid index rebuild` does.

    Args:
        layout: the collection. One that cannot be written to is left as it is.
        told: called with a sentence before and after.

    Raises:
        CollectionVersionError: it is not of that schema, whatever it says, or cannot be written.
    """
    path = layout.captures_db
    if not path.exists() or is_frozen(path) or _version(layout) != _PREVIOUS_VERSION:
        return False
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        try:
            db.execute("BEGIN IMMEDIATE")  # two processes may start at once
            if db.execute("PRAGMA user_version").fetchone()[0] != _PREVIOUS_VERSION:
                return False
            _upgrade(db, layout, told)
            db.execute("COMMIT")
        except sqlite3.Error as error:  # closing the database rolls back
            raise CollectionVersionError(
                f"{path} cannot be upgraded ({error}); run `weboid index rebuild`."
            ) from error
    told("The captures index is upgraded.")
    return True


def _upgrade(db: sqlite3.Connection, layout: Layout, told: Callable[[str], None]) -> None:
    (pages,) = db.execute("SELECT count(*) FROM pages").fetchone()
    told(f"Upgrading the captures index: reading the manifests of {pages:,} pages.")
    for statement in _COLUMNS.split(";"):
        db.execute(statement)
    for page_id, *place in db.execute(_MANIFESTS).fetchall():
        manifest = read_manifest_at(layout, *place)
        if manifest is not None:
            seen_with = (manifest.device, manifest.language, manifest.login, page_id)
            db.execute(_CONDITIONS, seen_with)
    for statement in CAPTURES_DDL.split(";"):
        db.execute(statement)
    db.execute(MARK_LOGINS)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _version(layout: Layout) -> int:
    with closing(sqlite3.connect(read_only_uri(layout.captures_db), uri=True)) as db:
        try:
            return int(db.execute("PRAGMA user_version").fetchone()[0])
        except sqlite3.Error:  # damaged: who opens it says so
            return 0
