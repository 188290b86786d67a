"""A captures index in PostgreSQL that dies, hangs, or is cut off: delayed, and nothing is lost."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.config.database_urls import parse_index_url
from core.config.settings import IndexSettings, ProxySettings, Settings
from core.errors import ConfigError, IndexUnavailableError
from core.layout import Layout
from core.timestamps import parse_warc_date
from net import postgres_client as index_server
from proxy.archivist_jobs import IndexBacklog, IndexBatch
from proxy.request_log import RequestLogEntry, RequestOutcome
from tests.support.polling import wait_until
from tests.support.proxy_fixtures import ProxyBrowser, ProxyInProcess, ScriptedOrigin, check, ok, records
from tests.support.services.postgres import PostgresServer
from tests.support.services.redis_server import RedisServer
from tests.support.services.relay import ControlledRelay
from tests.warc.index.test_sqlite import DIGESTS, FILES, contents, original, page, row
from warc.dedup.payloads import PayloadKey
from warc.index.postgres import PostgresCaptureIndex
from warc.recovery import recover_collection

pytestmark = pytest.mark.proxy

SITE = "http://origin.example"
NOW = parse_warc_date("2026-11-21T00:00:00Z")
Launch = Callable[..., ProxyInProcess]


@pytest.fixture(scope="module")
def mortal() -> Iterator[PostgresServer]:
    """Yield a PostgreSQL server that the tests here may kill."""
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def url(mortal: PostgresServer) -> str:
    """Return the URL of a new database in it."""
    if mortal.process.poll() is not None:
        mortal.start()
    return mortal.database()


@pytest.fixture
def relay(mortal: PostgresServer) -> Iterator[ControlledRelay]:
    """Start a relay in front of the server."""
    standing = ControlledRelay(mortal.port)
    yield standing
    standing.close()


@pytest.fixture
def relayed_url(url: str, mortal: PostgresServer, relay: ControlledRelay) -> str:
    """Return the URL of the database through the relay."""
    return url.replace(f":{mortal.port}/", f":{relay.port}/")


@pytest.fixture
def index(relayed_url: str) -> Iterator[PostgresCaptureIndex]:
    """Yield an empty index behind the relay."""
    with closing(PostgresCaptureIndex(parse_index_url(relayed_url))) as opened:
        yield opened


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Yield the Redis of the dedup index."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def chosen(settings: Settings, url: str, redis_server: RedisServer, tmp_path: Path) -> Settings:
    """Return settings of machines that share both indexes."""
    dedup = f"{redis_server.url}?index={tmp_path.name}"
    return replace(
        settings, proxy=replace(settings.proxy, dedup_url=dedup), index=IndexSettings(url=url, patience_s=60.0)
    )


@pytest.fixture
def launch(tmp_path: Path, chosen: Settings, layout: Layout) -> Iterator[Launch]:
    """Start a proxy on the one collection; keyword arguments change its `[index]` settings."""
    numbers = count()
    with ExitStack() as stack:

        def launcher(**changes: Any) -> ProxyInProcess:
            settings = replace(chosen, index=replace(chosen.index, **changes))
            proxy = ProxyInProcess(layout, settings, f"proxy{next(numbers)}", tmp_path)
            stack.callback(proxy.stop)
            return proxy

        yield launcher


async def fetch(proxy: ProxyInProcess, page_id: str, *paths: str) -> list[RequestLogEntry]:
    """Visit, fetch the paths, seal."""
    async with proxy.client.visit(page_id, bucket="default") as visit:
        given = visit.credentials
        with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
            for path in paths:
                await asyncio.to_thread(browser.get, SITE + path)
            return await visit.seal(grace_s=5)


def in_files(layout: Layout) -> Counter[tuple[str, str]]:
    """Count the `response` and `revisit` records in the WARCs by URL and type."""
    kinds = ("response", "revisit")
    return Counter((each.url, each.kind) for each in records(layout) if each.kind in kinds)


def in_index(url: str) -> dict[tuple[str, int], tuple[str, str]]:
    """Place -> URL and record type."""
    with closing(PostgresCaptureIndex(parse_index_url(url))) as index:
        return {(each[8], each[9]): (each[3], each[4]) for each in contents(index)["captures"]}


def cut_when_held(relay: ControlledRelay) -> None:
    """Lose what the relay holds back."""
    assert relay.held.wait(120)
    relay.cut()


# ------------------------------------------------------------------------------- one connection


def test_a_server_that_was_restarted_meanwhile_is_asked_again(
    index: PostgresCaptureIndex, relay: ControlledRelay
) -> None:
    """Whoever kept a connection over the restart notices nothing."""
    index.add_rows([row()])
    relay.cut()

    assert index.counts()["captures"] == 1
    relay.cut()
    with index.transaction():
        index.add_rows([row(offset=1)])
    assert index.counts()["captures"] == 2


def test_what_a_server_dies_under_is_not_done_by_halves(index: PostgresCaptureIndex, relay: ControlledRelay) -> None:
    """The rest of the block does not go to a new connection, where its beginning is unknown."""

    def write() -> None:
        with index.transaction():
            index.add_rows([row()])
            relay.cut()
            with suppress(IndexUnavailableError):
                index.add_rows([row(offset=1)])
            index.add_rows([row(offset=2)])

    with pytest.raises(IndexUnavailableError, match="Start PostgreSQL there"):
        write()
    assert not any(contents(index).values())


@pytest.mark.parametrize("seen", [True, False])
def test_a_commit_whose_answer_is_lost_is_made_again_and_adds_nothing_twice(
    seen: bool, relayed_url: str, relay: ControlledRelay
) -> None:
    """The batch is stored once, whether the server received the commit or not."""
    batch = IndexBatch(
        rows=[row(), row(offset=1), row(FILES[1], url="urn:pageinfo:http://origin.example/")],
        pages=[page()],
        originals={PayloadKey(DIGESTS[0], "default"): original()},
        ends={FILES[0]: 200, FILES[1]: 99},
    )
    with closing(PostgresCaptureIndex(parse_index_url(relayed_url))) as index:
        backlog = IndexBacklog(index, 30.0)
        (relay.hold_answer if seen else relay.hold_request)(b"COMMIT")
        cutter = threading.Thread(target=cut_when_held, args=(relay,))
        cutter.start()
        with pytest.raises(IndexUnavailableError), index.transaction():
            batch.write(index)
        cutter.join()
        backlog.unwritten = batch
        backlog.write_with_retries()
        tables = contents(index)

    assert (backlog.unwritten is None, backlog.lost is None) == (True, True)
    assert sorted(tables["captures"], key=repr) == sorted(batch.rows, key=repr)
    assert [len(tables[table]) for table in ("pages", "payloads", "files")] == [1, 1, 2]


def test_a_server_that_hangs_is_given_up(
    index: PostgresCaptureIndex, relay: ControlledRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that is not answered in time ends as if the cable had broken."""
    index.check()
    relay.hold_request(b"INSERT")
    with monkeypatch.context() as hasty:
        hasty.setattr(index_server, "ANSWER_TIMEOUT_S", 0.5)
        with pytest.raises(IndexUnavailableError), index.transaction():
            index.add_rows([row()])
    relay.cut()

    assert index.counts()["captures"] == 0


def test_patience_ends_and_starts_again(index: PostgresCaptureIndex, relay: ControlledRelay) -> None:
    """The batch stays pending while the database is unreachable, and is written when it returns."""
    backlog = IndexBacklog(index, 0.3)
    backlog.unwritten = IndexBatch(rows=[row()])
    relay.leave()
    with pytest.raises(IndexUnavailableError):
        backlog.write_with_retries()
    backlog.check()
    assert (backlog.unwritten is None, backlog.lost is None) == (False, False)
    relay.come_back()
    backlog.check()

    assert (backlog.unwritten is None, backlog.lost is None) == (True, True)
    assert index.counts()["captures"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("weboid@", "reader:wrong-word@"), "Correct"),
        (("/test_", "/missing_"), "Correct"),
        (("127.0.0.1", "127.0.0.2"), "Start PostgreSQL there"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(change: tuple[str, str], message: str, url: str) -> None:
    """The error names the server, the cause and the setting."""
    wrong = url.replace(*change)
    with pytest.raises(IndexUnavailableError, match=message) as caught:
        PostgresCaptureIndex(parse_index_url(wrong))

    assert "[index] url" in str(caught.value)
    assert "wrong-word" not in str(caught.value)


def test_without_a_shared_dedup_index_nothing_is_written(layout: Layout, url: str) -> None:
    """Its transactions claim nothing, so payloads must be claimed elsewhere."""
    layout.databases.mkdir()
    with pytest.raises(ConfigError, match=r"\[proxy\] dedup_url"):
        recover_collection(layout, ProxySettings(), now=NOW, index=IndexSettings(url=url))


# ------------------------------------------------------------------------------- real proxies


async def test_two_proxies_write_one_index(launch: Launch, origin: ScriptedOrigin, layout: Layout, url: str) -> None:
    """Each record has its row, one payload one `response`, and revisits say where it lies."""
    origin.answers = {f"/{number}": ok(b"the same for all") for number in range(20)}
    one, two = launch(), launch()
    paths = [f"/{number}" for number in range(20)]
    await asyncio.gather(*(fetch(p, f"{p.port}{path}", path) for p in (one, two) for path in paths))
    for proxy in (one, two):
        proxy.stop()
    check(layout)

    assert Counter(in_index(url).values()) == in_files(layout)
    assert Counter(kind for _, kind in in_index(url).values()) == {"response": 1, "revisit": 39}
    with closing(PostgresCaptureIndex(parse_index_url(url))) as index:
        assert index.orphans() == {}


@pytest.mark.parametrize("seen", [True, False])
async def test_a_proxy_that_is_cut_off_in_its_commit_writes_no_record_twice(
    seen: bool,
    launch: Launch,
    origin: ScriptedOrigin,
    layout: Layout,
    url: str,
    relay: ControlledRelay,
    relayed_url: str,
) -> None:
    """Its records are on disk and known to others: only their rows are written again."""
    origin.answers = {"/a": ok(b"a"), "/b": ok(b"b")}
    proxy = launch(url=relayed_url)
    (relay.hold_answer if seen else relay.hold_request)(b"COMMIT")
    task = asyncio.create_task(fetch(proxy, "one", "/a", "/b"))
    await asyncio.to_thread(cut_when_held, relay)
    entries = await task
    proxy.stop()
    check(layout)

    assert {str(each.kept) for each in entries} == {"response"}
    assert in_files(layout) == {(f"{SITE}/{name}", "response"): 1 for name in "ab"}
    assert Counter(in_index(url).values()) == in_files(layout)


@pytest.mark.slow
async def test_a_server_that_is_killed_under_load_delays_and_loses_nothing(
    launch: Launch, origin: ScriptedOrigin, layout: Layout, url: str, mortal: PostgresServer
) -> None:
    """Killed among visits of two proxies: no visit fails, no row is missing or double."""
    proxies = [launch(), launch()]
    promised: list[RequestLogEntry] = []
    going = asyncio.Event()

    async def work(proxy: ProxyInProcess, worker: int) -> None:
        for number in count():
            if going.is_set() and number > 2:
                return
            page_id = f"{worker}-{number}"
            body = f"{page_id if number % 3 else 'the same'}".encode() * 500
            origin.answers[f"/{page_id}"] = ok(body)
            promised.extend(await fetch(proxy, page_id, f"/{page_id}"))

    async def swing() -> None:
        while len(promised) < 8:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(mortal.kill)
        await asyncio.to_thread(mortal.start)
        going.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(swing())
        for worker in range(4):
            group.create_task(work(proxies[worker % 2], worker))
    for proxy in proxies:
        proxy.stop()
    check(layout)
    index_rows = in_index(url)

    assert {each.kept for each in promised} <= {RequestOutcome.RESPONSE, RequestOutcome.REVISIT}
    lost = [e for e in promised if index_rows.get((e.filename, e.offset)) != (e.url, str(e.kept))]
    assert lost == []
    assert len(promised) == len({each.url for each in promised})
    assert Counter(url for url, _ in index_rows.values()) == Counter(e.url for e in promised)
    same = [record for record in records(layout) if record.payload == b"the same" * 500]
    assert [record.kind for record in same].count("response") == 1


async def test_when_patience_ends_visits_fail_and_what_is_on_disk_is_indexed_later(
    launch: Launch, origin: ScriptedOrigin, layout: Layout, url: str, relay: ControlledRelay, relayed_url: str
) -> None:
    """The open visit is told at its seal, the next at its opening; then the server comes back."""
    origin.answers = {f"/{name}": ok(name.encode()) for name in "abc"}
    proxy = launch(url=relayed_url, patience_s=0.5)
    await fetch(proxy, "one", "/a")
    async with proxy.client.visit("two", bucket="default") as visit:
        relay.leave()
        given = visit.credentials
        with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
            await asyncio.to_thread(browser.get, f"{SITE}/b")
        with pytest.raises(IndexUnavailableError, match="Start PostgreSQL there"):
            await visit.seal(grace_s=5)
    with pytest.raises(IndexUnavailableError, match="Start PostgreSQL there"):
        async with proxy.client.visit("three", bucket="default"):
            pass
    relay.come_back()

    def is_back() -> bool:
        try:
            return bool(asyncio.run(fetch(proxy, "three", "/b", "/c")))
        except IndexUnavailableError:
            return False

    await asyncio.to_thread(wait_until, is_back)
    proxy.stop()
    check(layout)
    count_by_url = Counter(url for url, _ in in_index(url).values())
    assert count_by_url[f"{SITE}/a"] == count_by_url[f"{SITE}/c"] == 1
    assert Counter(in_index(url).values()) == in_files(layout)


async def test_a_proxy_that_ends_without_its_index_leaves_its_files_to_the_next(
    launch: Launch, origin: ScriptedOrigin, layout: Layout, url: str, relay: ControlledRelay, relayed_url: str
) -> None:
    """Records that others may refer to are on disk; the next proxy adds the rows they lack."""
    origin.answers = {"/a": ok(b"a"), "/b": ok(b"b")}
    first = launch(url=relayed_url, patience_s=1.0)
    relay.hold_request(b"COMMIT")
    task = asyncio.create_task(fetch(first, "one", "/a", "/b"))
    await asyncio.to_thread(relay.held.wait, 20)
    relay.leave()
    with pytest.raises(IndexUnavailableError):
        await task
    first.stop()
    (left,) = layout.archive.glob("*.open")
    relay.come_back()
    second = launch()
    done = {each["filename"]: each for each in second.recovered}
    second.stop()
    check(layout)

    assert done[left.name.removesuffix(".open")]["indexed"] > 0
    assert Counter(in_index(url).values()) == in_files(layout)
    assert {url for url, _ in in_index(url).values()} == {f"{SITE}/a", f"{SITE}/b"}


async def test_a_proxy_that_starts_before_its_index_waits_for_it(
    launch: Launch, origin: ScriptedOrigin, relay: ControlledRelay, relayed_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines come up in any order."""
    monkeypatch.setattr("proxy.process.RETRY_S", 0.05)
    origin.answers = {"/a": ok(b"a")}
    relay.leave()
    back = threading.Timer(0.5, relay.come_back)
    back.start()
    proxy = launch(url=relayed_url)
    back.join()

    assert [str(each.kept) for each in await fetch(proxy, "one", "/a")] == ["response"]
