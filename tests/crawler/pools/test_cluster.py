"""Pool of remote proxies: announcements, choice, waiting, refusals."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from core.clock import SystemClock
from core.config.settings import EgressSettings, FrontierSettings, PolitenessSettings, ProxySettings, Settings
from core.errors import ConfigError, ProxyUnavailableError
from core.hosts import join_host_port, split_host_port
from core.layout import Layout
from crawler.frontier.base import PROXY_SERVICE
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.pools import cluster
from crawler.pools.cluster import AnnouncedProxy, RemoteProxyPool, ServiceAnnouncer, living_proxies
from crawler.pools.resource_pool import ProxyAccess
from net.backoff import WaitEnded, WaitStarted
from proxy.control.handshake import ClusterSecret
from proxy.process import RunningProxy, run_proxy
from weboid.cli.crawl.cluster_processes import ProxyDescription, check_same_collection

pytestmark = pytest.mark.proxy

CLOCK = SystemClock()
SECRET = ClusterSecret.of("s" * 32)
SETTINGS = Settings(egress=EgressSettings(allow=("127.0.0.0/8",)), proxy=ProxySettings(disk_reserve_bytes=0))


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[SqliteFrontier]:
    """Yield the frontier that stores the notes."""
    settings = FrontierSettings()
    with SqliteFrontier(tmp_path / "frontier.sqlite", settings=settings, politeness=PolitenessSettings()) as opened:
        yield opened


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], RunningProxy]]:
    """Start proxies of one collection."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(
            run_proxy(Layout(tmp_path / "collection"), SETTINGS, control=("127.0.0.1", 0, SECRET))
        )


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait for seconds."""
    monkeypatch.setattr(cluster, "PROXIES_POLL_S", 0.02)
    monkeypatch.setattr(cluster, "AVOID_S", 0.05)


def note(name: str = "a:1", by: ClusterSecret = SECRET, **changed: Any) -> str:
    """Return the note of a proxy, signed."""
    fields = {
        "address": name,
        "browsers": "127.0.0.1:9",
        "spki": "key",
        "visits": 0,
        "free_bytes": 10,
        "reserve_bytes": 5,
        "authority": "pem",
        "beat": 1,
        "started": "then",
    }
    return signed(name, {**fields, **changed}, by)


def signed(name: str, fields: dict[str, Any], secret: ClusterSecret = SECRET) -> str:
    """Return a note as an `Announcer` of a proxy with that secret writes it."""
    message = json.dumps([PROXY_SERVICE, name, fields], sort_keys=True, separators=(",", ":")).encode()
    return json.dumps({**fields, "signature": secret.signature(message)})


def announce(frontier: SqliteFrontier, started: RunningProxy, **changed: Any) -> str:
    """Note a proxy that runs, once; its name."""
    name = join_host_port("127.0.0.1", started.control.port)
    fields = {**ProxyDescription(started, name, CLOCK)(), "beat": 1, **changed}
    until = CLOCK.now() + timedelta(minutes=5)
    frontier.put_note(PROXY_SERVICE, name, signed(name, fields), now=CLOCK.now(), until=until)
    return name


class ProxyBorrower:
    """A worker's side of it."""

    def __init__(self, frontier: SqliteFrontier, folder: Path) -> None:
        self.stopping = asyncio.Event()
        self.events: list[WaitStarted | WaitEnded] = []
        self.changed = asyncio.Event()
        self.authority = folder / "authority.pem"
        self.proxies = RemoteProxyPool(
            frontier, SECRET, CLOCK, stopping=self.stopping, rng=Random(1), authority=self.authority, report=self.hear
        )

    def hear(self, event: WaitStarted | WaitEnded) -> None:
        """Note it."""
        self.events.append(event)
        self.changed.set()

    async def __aenter__(self) -> RemoteProxyPool:
        """Find the first proxy."""
        await self.proxies.start()
        return self.proxies

    async def __aexit__(self, *_: object) -> None:
        """Look no more."""
        await self.proxies.stop()


async def test_visits_are_spread_over_the_proxies(
    frontier: SqliteFrontier, start: Callable[[], RunningProxy], tmp_path: Path
) -> None:
    """Each goes where least is to be done; what others do there counts, too."""
    busy, first, second = (start() for _ in range(3))
    announce(frontier, busy, visits=7)
    for each in (first, second):
        announce(frontier, each)
    async with ProxyBorrower(frontier, tmp_path) as proxies, AsyncExitStack() as stack:
        for number in range(6):
            lent = await stack.enter_async_context(proxies.lend())
            await stack.enter_async_context(lent.visit(str(number), bucket="default"))
        visit_counts = [len(each.proxy.visits) for each in (busy, first, second)]
        held = proxies.lent

    assert visit_counts == [0, 3, 3]
    assert held == 6
    assert proxies.lent == 0


async def test_a_context_stays_with_its_proxy_while_that_has_room(
    frontier: SqliteFrontier, start: Callable[[], RunningProxy], tmp_path: Path
) -> None:
    """However busy: its cache and cookies are worth more than an even load."""
    usual, other = start(), start()
    announce(frontier, usual, visits=50)
    announce(frontier, other)
    async with ProxyBorrower(frontier, tmp_path) as proxies, AsyncExitStack() as stack:
        for each in (usual, other):
            server = f"http://127.0.0.1:{each.proxy.server_address[1]}"
            lent = await stack.enter_async_context(proxies.lend(server))
            visit = await stack.enter_async_context(lent.visit(server, bucket="default"))
            assert visit.credentials.server == server
        lent = await stack.enter_async_context(proxies.lend("http://127.0.0.1:1"))
        await stack.enter_async_context(lent.visit("no such proxy", bucket="default"))
        assert len(other.proxy.visits) == 2


async def test_a_proxy_without_room_is_left_out(
    frontier: SqliteFrontier, start: Callable[[], RunningProxy], tmp_path: Path
) -> None:
    """A visit there would be refused."""
    full, other = start(), start()
    announce(frontier, full, free_bytes=4, reserve_bytes=5)
    announce(frontier, other, visits=50)
    async with ProxyBorrower(frontier, tmp_path) as proxies, proxies.lend() as lent:
        assert (await lent.status())["visits"] == 0
        async with lent.visit("one", bucket="default"):
            assert len(other.proxy.visits) == 1


async def test_a_proxy_that_is_gone_is_left_alone_and_another_taken(
    frontier: SqliteFrontier, start: Callable[[], RunningProxy], tmp_path: Path
) -> None:
    """Its note lives on for a while; the visit is told, and the next goes elsewhere."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = join_host_port("127.0.0.1", listener.getsockname()[1])
    until = CLOCK.now() + timedelta(minutes=5)
    living = start()
    announce(frontier, living, visits=50)
    frontier.put_note(
        PROXY_SERVICE,
        gone,
        note(gone, spki=living.proxy.ca.spki, authority=living.proxy.ca.certificate),
        now=CLOCK.now(),
        until=until,
    )
    async with ProxyBorrower(frontier, tmp_path) as proxies:
        with pytest.raises(ProxyUnavailableError, match="does not answer"):
            async with proxies.lend() as lent:
                await lent.status()
        async with proxies.lend() as lent:
            assert (await lent.status())["spki"] == living.proxy.ca.spki


async def test_whoever_finds_no_proxy_waits_and_says_so_once(
    frontier: SqliteFrontier, start: Callable[[], RunningProxy], tmp_path: Path
) -> None:
    """Work goes on by itself when one announces itself; the authority is then at hand."""
    borrower = ProxyBorrower(frontier, tmp_path)
    waiting = asyncio.create_task(borrower.proxies.start())
    await borrower.changed.wait()
    assert not waiting.done()
    started = start()
    announce(frontier, started)
    await waiting
    needs = borrower.proxies.needs
    await borrower.proxies.stop()

    assert [type(each) for each in borrower.events] == [WaitStarted, WaitEnded]
    assert "weboid proxy" in borrower.events[0].text  # type: ignore[union-attr]
    host_port = join_host_port(*started.proxy.reached_at)
    assert needs == ProxyAccess(started.proxy.ca.spki, {host_port: host_port})
    assert borrower.authority.read_text() == started.proxy.ca.certificate
    assert "PRIVATE" not in borrower.authority.read_text()


async def test_nobody_waits_for_a_proxy_when_told_to_stop(frontier: SqliteFrontier, tmp_path: Path) -> None:
    """The visit is given back instead."""
    borrower = ProxyBorrower(frontier, tmp_path)
    waiting = asyncio.create_task(borrower.proxies.start())
    await borrower.changed.wait()
    borrower.stopping.set()
    with pytest.raises(ProxyUnavailableError, match="is stopping"):
        await waiting
    await borrower.proxies.stop()


def test_a_note_is_there_while_its_process_lives_and_gone_after(frontier: SqliteFrontier) -> None:
    """It is taken back at the end, and expires when nobody could."""
    fields = json.loads(note())
    del fields["signature"]
    announcer = ServiceAnnouncer(frontier, PROXY_SERVICE, "a:1", lambda: fields, CLOCK, SECRET)
    (living,) = living_proxies(frontier, CLOCK, SECRET)
    later = frontier.notes(PROXY_SERVICE, now=CLOCK.now() + timedelta(seconds=16))
    announcer.close()

    assert living.control == ("a", 1)
    assert living.has_room
    assert later == {}
    assert living_proxies(frontier, CLOCK, SECRET) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        note("x", address="nowhere"),
        note("x", visits="many"),
        note("x", browsers="a:99999"),
        "[" * 100_000,
    ],
)
def test_a_note_that_says_nothing_useful_is_passed_over(frontier: SqliteFrontier, text: str) -> None:
    """Another version wrote it, or somebody by hand."""
    now = datetime.now(UTC)
    frontier.put_note(PROXY_SERVICE, "x", text, now=now, until=now + timedelta(minutes=1))

    assert living_proxies(frontier, CLOCK, SECRET) == []
    assert AnnouncedProxy.parse("x", text, SECRET) is None


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({**json.loads(note("a:1")), "authority": "another"}),
        json.dumps({**json.loads(note("a:1")), "signature": "00"}),
        json.dumps({**json.loads(note("a:1")), "signature": "\u00e9"}),
        json.dumps({k: v for k, v in json.loads(note("a:1")).items() if k != "signature"}),
        note("a:1", by=ClusterSecret.of("t" * 32)),
        note("b:1"),
    ],
    ids=["changed", "wrong", "odd", "none", "another secret", "another proxy's"],
)
def test_a_note_that_no_holder_of_the_secret_wrote_is_ignored(
    frontier: SqliteFrontier, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Write access to Redis alone cannot make browsers trust an authority; the log has one line of it."""
    now, ignored = CLOCK.now(), set[str]()
    frontier.put_note(PROXY_SERVICE, "a:1", text, now=now, until=now + timedelta(minutes=1))
    frontier.put_note(PROXY_SERVICE, "c:1", note("c:1"), now=now, until=now + timedelta(minutes=1))
    for _ in range(3):
        proxies = living_proxies(frontier, CLOCK, SECRET, ignored)
        assert [each.name for each in proxies] == ["c:1"]
    assert len([each for each in caplog.records if "a:1" in each.getMessage()]) == 1


def test_a_proxy_of_another_collection_is_refused(frontier: SqliteFrontier) -> None:
    """One frontier is one collection's; a proxy's own old note is no hindrance."""
    now = CLOCK.now()
    frontier.put_note(PROXY_SERVICE, "a:1", note("a:1"), now=now, until=now + timedelta(minutes=1))
    check_same_collection(frontier, "key", "b:1", CLOCK, SECRET)
    check_same_collection(frontier, "other", "a:1", CLOCK, SECRET)
    with pytest.raises(ConfigError, match="same shared folder"):
        check_same_collection(frontier, "other", "b:1", CLOCK, SECRET)


def test_a_browser_needs_replacing_only_for_a_proxy_that_it_cannot_reach() -> None:
    """One that went is no reason; a new one is, and another authority."""
    both = ProxyAccess("k", {"a:1": "10.0.0.1:1", "b:1": "10.0.0.2:1"})
    assert ProxyAccess("k", {"a:1": "10.0.0.1:1"}).are_met_by(both)
    assert not both.are_met_by(ProxyAccess("k", {"a:1": "10.0.0.1:1"}))
    assert not ProxyAccess("k", {"a:1": "10.0.0.9:1"}).are_met_by(both)
    assert not ProxyAccess("other").are_met_by(both)


@pytest.mark.parametrize("text", ["a:1", "10.0.0.1:65535", "[::1]:8000", "proxy-1.lan:0"])
def test_host_and_port_come_back_as_they_were(text: str) -> None:
    """Join undoes split."""
    assert join_host_port(*split_host_port(text)) == text


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:b", "a:99999", "::1:80", "a/b:1", "a:1\n"])
def test_what_is_no_host_and_port_is_refused(text: str) -> None:
    """The text says what would be right."""
    with pytest.raises(ConfigError, match="write"):
        split_host_port(text)
