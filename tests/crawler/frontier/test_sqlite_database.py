"""Tests of `crawler.frontier.sqlite_database`."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import InvariantError, TransientError
from crawler.frontier import host_slots
from crawler.frontier.sqlite_database import FrontierDatabase, last_seq
from crawler.frontier.sqlite_frontier import SqliteFrontier


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the frontier's file."""
    return tmp_path / "frontier.sqlite"


def test_a_lock_that_stays_is_transient(path: Path) -> None:
    """Somebody's hanging transaction is waited for, then reported; nothing changed."""
    SqliteFrontier(path).close()
    store = FrontierDatabase(path)
    store._db.execute("PRAGMA busy_timeout = 50")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TransientError, match="busy"), store.transaction():
            pass
        other.execute("ROLLBACK")
    with store.transaction() as db:
        assert last_seq(db) == 0
    store.close()


def test_an_error_within_a_verb_undoes_all_of_it(path: Path) -> None:
    """One transaction a verb."""
    store = FrontierDatabase(path)

    def stopped_midway(error: Exception | None) -> None:
        with store.transaction() as db:
            host_slots.create_slot(db, "a.test")
            if error is not None:
                raise error
            host_slots.create_slot(db, "a.test")

    with pytest.raises(ValueError, match="midway"):
        stopped_midway(ValueError("midway"))
    with pytest.raises(InvariantError, match="UNIQUE"):
        stopped_midway(None)

    with store.reading() as db:
        assert host_slots.slot_by_name(db, "a.test") is None
    store.close()
