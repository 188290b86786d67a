"""A database that goes away is told as one thing: try again later."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from core.errors import TransientError
from core.layout import Layout
from links.registry.database import RegistryStore, open_registry_store
from links.registry.statements import SqlStatement
from links.registry.urls import ensure_urls, find_urls
from tests.support.services.postgres import PostgresServer

URL = "https://a.net/"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


@pytest.fixture
def filled(layout: Layout) -> Iterator[RegistryStore]:
    """Yield a registry with a URL, whose connections have been used."""
    with closing(open_registry_store(layout)) as store:
        with store.writing() as rows:
            ensure_urls(rows, [URL], day=1)
        assert _is_stored(store)
        yield store


def _is_stored(store: RegistryStore) -> bool:
    with store.reading() as rows:
        there = bool(find_urls(rows, [URL]))
    with store.snapshot() as reader:
        assert bool(find_urls(reader, [URL])) == there
    return there


def _write(store: RegistryStore) -> None:
    with store.writing() as rows:
        ensure_urls(rows, ["https://b.net/"], day=2)


def _gone(store: RegistryStore) -> None:
    with pytest.raises(TransientError, match="link registry"), store.reading() as rows:
        find_urls(rows, [URL])
    with pytest.raises(TransientError, match="link registry"), store.snapshot() as reader:
        find_urls(reader, [URL])
    with pytest.raises(TransientError, match="link registry"):
        _write(store)


def test_a_file_that_was_removed_is_told_and_not_rebuilt(filled: RegistryStore, layout: Layout) -> None:
    """SQLite itself would go on writing to nowhere."""
    layout.links_db.rename(layout.links_db.with_suffix(".away"))

    _gone(filled)
    assert not layout.links_db.exists()

    layout.links_db.with_suffix(".away").rename(layout.links_db)
    assert _is_stored(filled)


def test_another_file_in_its_place_is_read(filled: RegistryStore, layout: Layout, tmp_path: Path) -> None:
    """A backup that was put back is what is read from then on."""
    with closing(open_registry_store(Layout(tmp_path / "other"))) as empty:
        pass
    for name in ("-wal", "-shm"):
        Path(f"{layout.links_db}{name}").unlink(missing_ok=True)
    Layout(tmp_path / "other").links_db.replace(layout.links_db)

    assert not _is_stored(filled)
    assert empty.where != filled.where


@pytest.mark.parametrize("content", [b"", b"this is no database at all" * 400])
def test_a_file_that_is_no_database_any_more_is_told(filled: RegistryStore, layout: Layout, content: bytes) -> None:
    """Emptied or overwritten by somebody."""
    filled.close()
    for name in ("-wal", "-shm"):
        Path(f"{layout.links_db}{name}").unlink(missing_ok=True)
    layout.links_db.write_bytes(content)

    _gone(filled)


def test_a_registry_that_is_no_database_does_not_open(layout: Layout) -> None:
    """The same error as when it was open."""
    layout.databases.mkdir(parents=True)
    layout.links_db.write_bytes(b"no database" * 1_000)

    with pytest.raises(TransientError, match="does not answer"):
        open_registry_store(layout)


def test_a_locked_file_is_told(filled: RegistryStore, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """After waiting; readers are not held up by a writer."""
    with closing(sqlite3.connect(layout.links_db, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert _is_stored(filled)
        with filled.engine.connect() as held:
            driver = held.connection.driver_connection
            assert driver is not None
            driver.execute("PRAGMA busy_timeout = 1")
        with pytest.raises(TransientError, match="locked"):
            _write(filled)


def test_a_mistake_of_ours_is_not_called_an_outage(store: RegistryStore) -> None:
    """Trying later would not help."""
    with pytest.raises(Exception, match="nonsense") as raised, store.reading() as rows:
        rows.execute(text("SELECT nonsense FROM link_urls"))
    assert not isinstance(raised.value, TransientError)


def test_a_server_cancels_what_reads_for_too_long(layout: Layout, database_url: str) -> None:
    """Nothing of it runs on after the request; what writes may take its time, and the next question is answered."""
    running = text("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep(%'")
    with closing(open_registry_store(layout, database_url, read_limit_s=0.3)) as store:
        with store.writing() as rows:
            rows.execute(text("SELECT pg_sleep(0.6)"))
            ensure_urls(rows, [URL], day=1)
        with pytest.raises(TransientError, match="statement timeout"), store.reading() as rows:
            rows.execute(text("SELECT pg_sleep(60)"))
        with pytest.raises(TransientError, match="statement timeout"), store.snapshot() as reader:
            SqlStatement(select(func.pg_sleep(60))).rows(reader, {})

        with store.reading() as rows:
            assert rows.execute(running).scalar() == 0
        assert _is_stored(store)


@pytest.mark.slow
def test_a_server_that_is_killed_is_told_and_found_again(layout: Layout) -> None:
    """Nothing of an unfinished block is kept, and the first question after the restart is answered."""
    server = PostgresServer()
    try:
        with closing(open_registry_store(layout, server.database())) as store:
            with store.writing() as rows:
                ensure_urls(rows, [URL], day=1)
            assert _is_stored(store)

            def unfinished() -> None:
                with store.writing() as rows:
                    ensure_urls(rows, ["https://c.net/"], day=1)
                    server.kill()
                    ensure_urls(rows, ["https://d.net/"], day=1)

            with pytest.raises(TransientError, match="link registry"):
                unfinished()
            _gone(store)

            server.start()
            with store.reading() as rows:
                assert list(find_urls(rows, [URL, "https://c.net/", "https://d.net/"])) == [URL]
            _write(store)
            assert _is_stored(store)
    finally:
        server.stop()
