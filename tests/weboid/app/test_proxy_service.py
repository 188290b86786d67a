"""A proxy of a cluster looks after what others left, and tells the truth about itself."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.config.settings import FrontierSettings, PolitenessSettings, ProxySettings, Settings
from core.layout import Layout
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.worker.crawl_events import FileRecovered
from net.backoff import WaitEnded, WaitStarted
from proxy.control.client import NewArtifact, ProxyClient
from proxy.control.frames import ClusterSecret
from proxy.process import RunningProxy, TcpControl, run_proxy
from tests.support.proxy_fixtures import ProxyProcess, check
from warc.recovery import interrupted
from weboid.app import proxy_service
from weboid.app.proxy_service import ProxyDescription, ProxyServiceOptions, _ProxyService

pytestmark = pytest.mark.proxy

CLOCK = SystemClock()
SECRET = ClusterSecret.of("s" * 32)
URL = "http://origin.example/"


async def written(client: ProxyClient) -> None:
    """Write an artifact, so that a WARC is open."""
    async with client.visit("page", bucket="default") as visit:
        artifact = NewArtifact(f"urn:text:{URL}", "text/plain", b"kept")
        await visit.write([artifact], document=URL, date=CLOCK.now())
        await visit.seal(grace_s=0)


def stand_at(layout: Layout, settings: Settings, **changed: str) -> ProxyServiceOptions:
    """Where a proxy stands."""
    listen = (changed.get("listen", "127.0.0.1"), 0)
    advertise = changed.get("advertise", "")
    return ProxyServiceOptions(
        layout.root, settings, listen, ("127.0.0.1", 0), advertise, SECRET, 1.0
    )


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An empty collection."""
    return Layout(tmp_path / "collection")


@pytest.fixture
def settings() -> Settings:
    """Whatever the disk holds."""
    return Settings(proxy=ProxySettings(disk_reserve_bytes=0))


@pytest.fixture
def started(layout: Layout, settings: Settings) -> Iterator[RunningProxy]:
    """A proxy with control over TCP, in this process."""
    with run_proxy(layout, settings, control=TcpControl("127.0.0.1", 0, SECRET)) as found:
        yield found


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[SqliteFrontier]:
    """Where notes would be kept."""
    with SqliteFrontier(
        tmp_path / "f.sqlite", settings=FrontierSettings(), politeness=PolitenessSettings()
    ) as opened:
        yield opened


async def test_a_living_proxy_puts_in_order_what_a_dead_one_left(
    tmp_path: Path,
    layout: Layout,
    settings: Settings,
    started: RunningProxy,
    frontier: SqliteFrontier,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its machine may never come back. What the living write is left alone."""
    monkeypatch.setattr(proxy_service, "RECOVERY_INTERVAL_S", 0.02)
    dead = ProxyProcess(layout, settings, "dead", tmp_path)
    await written(dead.client)
    dead.kill()
    await written(ProxyClient(("127.0.0.1", started.control_port), SECRET))
    before = interrupted(layout)
    told: asyncio.Queue[FileRecovered | WaitStarted | WaitEnded] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def hear(event: FileRecovered | WaitStarted | WaitEnded) -> None:
        loop.call_soon_threadsafe(told.put_nowait, event)

    service = _ProxyService(stand_at(layout, settings), layout, started, frontier, CLOCK, hear)
    looking = asyncio.create_task(service._look())
    async with asyncio.timeout(60):
        event = await told.get()
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    after = interrupted(layout)

    assert isinstance(event, FileRecovered)
    assert not event.lost
    assert (len(before), len(after)) == (2, 1)
    await written(ProxyClient(("127.0.0.1", started.control_port), SECRET))
    assert len(list(layout.archive.glob("artifacts-*.warc.gz"))) == 1
    check(layout)


async def test_a_note_says_where_it_is_and_how_busy(started: RunningProxy) -> None:
    """What workers choose by, and what people look at."""
    about = ProxyDescription(started, "a:1", CLOCK)
    client = ProxyClient(("127.0.0.1", started.control_port), SECRET)
    async with client.visit("page", bucket="default"):
        said = about()

    assert said["visits"] == 1
    assert said["browsers"] == f"127.0.0.1:{started.proxy.server_address[1]}"
    assert said["free_bytes"] > said["reserve_bytes"] - 1
    assert said["authority"].startswith("-----BEGIN CERTIFICATE-----")
    assert "PRIVATE" not in said["authority"]


@pytest.mark.parametrize(
    ("listen", "advertise", "host"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("0.0.0.0", "", socket.gethostname()),
        ("::", "", socket.gethostname()),
        ("0.0.0.0", "proxy-7.lan", "proxy-7.lan"),
    ],
)
def test_others_are_told_an_address_that_they_can_reach(
    layout: Layout, settings: Settings, listen: str, advertise: str, host: str
) -> None:
    """What is listened on, unless that is every address, unless somebody says better."""
    assert stand_at(layout, settings, listen=listen, advertise=advertise).host == host
