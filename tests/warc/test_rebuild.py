"""An index of the previous release is upgraded in place, from the manifests of its pages."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from core.layout import Layout
from core.page_manifest import PageScreen
from tests.support.playback_fixtures import CollectionBuilder
from warc.index.database import SCHEMA_VERSION
from warc.rebuild import upgrade_index

PHONE = PageScreen(width=390, height=844, mobile=True, language="de-DE,de;q=0.9")
NEW_COLUMNS = (("captures", "login"), ("pages", "device"), ("pages", "language"), ("pages", "login"))
QUERIES = (
    "SELECT url, login FROM captures ORDER BY id",
    "SELECT url, device, language, login FROM pages ORDER BY url",
    "SELECT name FROM sqlite_master ORDER BY name",
    "PRAGMA user_version",
)


def _contents(layout: Layout) -> list[list[Any]]:
    with closing(sqlite3.connect(layout.captures_db)) as db:
        return [db.execute(query).fetchall() for query in QUERIES]


def _make_previous(layout: Layout) -> None:
    """Take from the index what schema 5 added to schema 4."""
    with closing(sqlite3.connect(layout.captures_db, isolation_level=None)) as db:
        db.execute("DROP INDEX captures_by_login")
        db.execute("DROP INDEX pages_by_login")
        for table, column in NEW_COLUMNS:
            db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        db.execute("PRAGMA user_version = 4")


def test_upgraded_index_is_the_one_that_this_release_writes(tmp_path: Path) -> None:
    """L12: what was captured with a login is marked, its artifacts too; nothing else is."""
    with closing(CollectionBuilder(tmp_path)) as builder:
        builder.page("http://a.test/", "<p>Private", text="Private", screen=PHONE, login="account")
        builder.page("http://b.test/", "<p>Public", text="Public")
    layout = Layout(tmp_path)
    written = _contents(layout)
    assert ("http://a.test/", "phone", "de-DE", "account") in written[1]
    _make_previous(layout)
    messages: list[str] = []

    assert upgrade_index(layout, messages.append)

    assert _contents(layout) == [*written[:-1], [(SCHEMA_VERSION,)]]
    assert len(messages) == 2
    assert not upgrade_index(layout, messages.append)


def test_other_versions_are_left_to_a_rebuild(tmp_path: Path) -> None:
    """Of no version but the previous one is it known what is missing."""
    with closing(CollectionBuilder(tmp_path)):
        pass
    layout = Layout(tmp_path)
    for version in (1, SCHEMA_VERSION + 1):
        with closing(sqlite3.connect(layout.captures_db)) as db:
            db.execute(f"PRAGMA user_version = {version}")

        assert not upgrade_index(layout, lambda _text: None)
