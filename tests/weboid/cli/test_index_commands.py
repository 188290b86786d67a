"""`collection rebuild` and `verify` on a captures index in PostgreSQL."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from core.config.database_urls import parse_index_url
from core.config.settings import IndexSettings, Settings
from core.errors import CollectionInUseError, CollectionVersionError, IndexUnavailableError
from core.layout import Layout
from net.postgres_client import PostgresConnection
from tests.support.polling import wait_until
from tests.support.proxy_fixtures import ProxyInProcess, ScriptedOrigin, ok
from tests.support.services.redis_server import RedisServer
from tests.warc.index.test_sqlite import contents
from tests.warc.test_file_check import fetch
from warc.index.postgres import PostgresCaptureIndex, is_index_in_use
from warc.index.sqlite import open_shared
from warc.rebuild import rebuild_index, renew_index
from warc.verification import verify_collection

pytestmark = pytest.mark.proxy

SITE = "http://origin.example"
# (statement that damages the index, kind of the fault that is reported)
FAULTS = [
    ("DELETE FROM captures WHERE url LIKE '%/b'", "no-row"),
    ("UPDATE captures SET status = 404 WHERE url LIKE '%/b'", "row"),
    ("UPDATE captures SET orig_offset = 1 WHERE record_type = 'revisit'", "original"),
    ("DELETE FROM files", "unknown"),
]


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Start the Redis of the dedup index that belongs to the captures index."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def chosen(settings: Settings, database_url: str, redis_server: RedisServer, tmp_path: Path) -> Settings:
    """Return settings of machines that share both indexes."""
    dedup = f"{redis_server.url}?index={tmp_path.name}"
    return replace(
        settings, proxy=replace(settings.proxy, dedup_url=dedup), index=IndexSettings(url=database_url, patience_s=5.0)
    )


Launch = Callable[[], ProxyInProcess]


@pytest.fixture
def launch(tmp_path: Path, chosen: Settings, layout: Layout) -> Iterator[Launch]:
    """Yield a function that starts proxies on the one collection."""
    numbers = count()
    with ExitStack() as stack:

        def launcher() -> ProxyInProcess:
            proxy = ProxyInProcess(layout, chosen, f"proxy{next(numbers)}", tmp_path)
            stack.callback(proxy.stop)
            return proxy

        yield launcher


@pytest.fixture
async def sound(launch: Launch, origin: ScriptedOrigin, layout: Layout) -> Layout:
    """Write a collection with two proxies."""
    origin.answers = {path: ok(path[1:2].encode()) for path in ("/a", "/b", "/a-again")}
    one, two = launch(), launch()
    await fetch(one, f"{SITE}/a", f"{SITE}/b", page_id="one")
    await fetch(two, f"{SITE}/a-again", page_id="two")
    for proxy in (one, two):
        await asyncio.to_thread(proxy.stop)
    return layout


def spoil(url: str, statement: str) -> None:
    """Execute a statement directly on the index database."""
    with closing(PostgresConnection(parse_index_url(url))) as server:
        server.execute(statement)


def held(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of the index, by table."""
    with closing(PostgresCaptureIndex(parse_index_url(url))) as index:
        return contents(index)


def test_a_sound_collection_has_no_fault_until_a_file_is_gone(
    sound: Layout, chosen: Settings, database_url: str
) -> None:
    """Every record is held against its row, whoever wrote it; no file is made.

    A rebuilt index knows what lies in the folder, and names what it knew besides.
    """
    verdict = verify_collection(sound, index=chosen.index)

    assert [*verdict.faults, *verdict.notes] == []
    assert (verdict.files, verdict.rows) == (4, 5)
    assert verify_collection(sound, index=chosen.index, quick=True).is_sound
    assert not sound.captures_db.exists()

    gone = min(sound.archive.glob("weboid-*.gz"))
    gone.unlink()
    reports: list[str] = []
    rebuild_index(sound, bucket="default", index=chosen.index, report=reports.append)

    assert [text for text in reports if gone.name in text]
    assert gone.name not in {row[0] for row in held(database_url)["files"]}


def test_what_is_wrong_with_it_is_found_and_made_good(sound: Layout, chosen: Settings, database_url: str) -> None:
    """A rebuild gives the rows that writing gave; one that fails leaves the index as it was."""
    before = held(database_url)
    for statement, kind in FAULTS:
        spoil(database_url, statement)
        assert kind in {each.kind for each in verify_collection(sound, index=chosen.index).faults}
        rebuild_index(sound, bucket="default", index=chosen.index)

        assert held(database_url) == before
        assert verify_collection(sound, index=chosen.index).is_sound

    def fail(_name: str, _rows: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        rebuild_index(sound, bucket="default", index=chosen.index, progress=fail)
    assert held(database_url) == before
    with closing(PostgresConnection(parse_index_url(database_url))) as server:
        query = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE '%rebuilding'"
        assert server.execute(query).fetchone() == (0,)


def test_an_index_of_another_version_is_rebuilt(sound: Layout, chosen: Settings, database_url: str) -> None:
    """Its tables go, and what else lies in the schema stays."""
    before = held(database_url)
    spoil(database_url, "UPDATE version SET number = 1")
    spoil(database_url, "CREATE TABLE somebody_elses (x int)")
    with pytest.raises(CollectionVersionError):
        held(database_url)
    shared = open_shared(sound, chosen.proxy)
    assert shared is not None
    with closing(shared):
        rebuild_index(sound, bucket="default", index=chosen.index, shared=shared)

    assert held(database_url) == before
    spoil(database_url, "SELECT * FROM somebody_elses")


def test_an_index_is_not_rebuilt_under_those_who_write_it(
    launch: Launch, layout: Layout, chosen: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes first keeps the other out; readers of the collection may look all the time."""
    monkeypatch.setattr("warc.rebuild.LOCK_TRIES", 2)
    proxy = launch()
    assert is_index_in_use(database_url)
    with pytest.raises(CollectionInUseError, match="end the crawl"):
        rebuild_index(layout, bucket="default", index=chosen.index)
    proxy.stop()
    wait_until(lambda: not is_index_in_use(database_url))
    with renew_index(layout, chosen.index) as (fresh, _, _):
        with pytest.raises(IndexUnavailableError, match="being rebuilt"):
            held(database_url)
        assert fresh.counts()["captures"] == 0
