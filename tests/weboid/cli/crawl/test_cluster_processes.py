"""Long-running processes of a cluster: `weboid proxy` and `weboid worker`."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.config.settings import FrontierSettings, PolitenessSettings, ProxySettings, Settings
from core.errors import CollectionInUseError
from core.layout import Layout
from crawler import collection as collections
from crawler.collection import open_collection
from crawler.frontier.base import Frontier, NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier, open_frontier
from crawler.status.collection_status import is_in_use
from crawler.worker.crawl_events import FileRecovered
from net.backoff import WaitEnded, WaitStarted
from proxy.control.client import NewArtifact, ProxyClient
from proxy.control.handshake import ClusterSecret
from proxy.process import RunningProxy, run_proxy
from tests.journeys.sites import SiteServer
from tests.support.commands import WEBOID, WeboidRunner
from tests.support.json_outputs import check_output
from tests.support.polling import wait_until
from tests.support.proxy_fixtures import ProxyCommand
from tests.support.proxy_fixtures import check as check_collection
from tests.support.services.redis_server import RedisServer
from tests.support.stored_records import RULES, check, records
from tests.weboid.app.webhooks.test_webhook_sender import WebhookReceiver, receiver  # noqa: F401 a fixture
from warc.local_storage import open_warcs
from weboid.cli.crawl import cluster_processes
from weboid.cli.crawl.cluster_processes import ProxyDescription, ProxyServiceOptions, _ProxyService

pytestmark = pytest.mark.proxy

SECRET = "a secret of more than thirty-two characters"
CLUSTER_SECRET = ClusterSecret.of(SECRET)
URL = "http://origin.example/"
CLOCK = SystemClock()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Start a Redis for frontier and dedup index."""
    server = RedisServer(tmp_path / "redis", persistent=True)
    yield server
    server.stop()


class StartedCommand:
    """A command that stays."""

    def __init__(self, weboid: WeboidRunner, redis: RedisServer, *arguments: str, **env: str) -> None:
        self.err = weboid.folder / f"{arguments[0]}.err"
        given = {"WEBOID_FRONTIER": redis.url, "WEBOID_DEDUP": redis.url, **env}
        profile = ("--profile", str(weboid.profile), "--json")
        with self.err.open("w") as err:
            self.process = subprocess.Popen(
                [str(WEBOID), *arguments, *profile],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
                cwd=weboid.folder,
                env={**os.environ, **given},
                start_new_session=True,
            )

    def until(self, event: str) -> dict[str, Any]:
        """Read events up to the next one of that name and return it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            document: dict[str, Any] = json.loads(line)
            if document["event"] == event:
                return document
        raise AssertionError(self.err.read_text())

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=120)
        return self.process.returncode


@pytest.fixture
def weboid(weboid_with: Callable[..., WeboidRunner]) -> WeboidRunner:
    """Return a runner that obeys robots.txt, which workers fetch through a proxy that they have found."""
    return weboid_with(policy={"robots": "obey"})


@pytest.fixture
def start(weboid: WeboidRunner, redis: RedisServer) -> Iterator[Callable[..., StartedCommand]]:
    """Yield a function that starts a long-running command; what a failed test leaves running is killed."""
    begun: list[StartedCommand] = []

    def begin(*arguments: str, **env: str) -> StartedCommand:
        begun.append(StartedCommand(weboid, redis, *arguments, **env))
        return begun[-1]

    yield begin
    for each in begun:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.communicate()


def frontier_at(redis: RedisServer) -> Frontier:
    """Return the shared frontier, to add items to."""
    settings = FrontierSettings(url=redis.url)
    return open_frontier(Layout(Path("none")), settings, PolitenessSettings())


PORTS = ("--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")


@pytest.mark.browser
def test_a_page_goes_through_proxy_and_worker_and_both_end_gently(
    weboid: WeboidRunner,
    redis: RedisServer,
    start: Callable[..., StartedCommand],
    receiver: WebhookReceiver,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Secrets by file, addresses by file; nothing secret is said; nothing is left open; webhooks learn of the page."""
    for name, text in {"secret": SECRET, "address": redis.url}.items():
        (weboid.folder / name).write_text(f"{text}\n")
    by_file = {"WEBOID_FRONTIER": "@address", "WEBOID_DEDUP": "@address"}
    proxy = start("proxy", *PORTS, "--secret-file", "secret", **by_file)
    ready = proxy.until("ready")
    assert weboid.call("webhooks", "add", receiver.url, "--event", "page.archived").code == 0
    logs = ("--reports", "logs")
    worker = start("worker", "--workers", "1", "--secret-file", "secret", *logs, **by_file)
    url = f"{RULES}/page/plain".replace("http:", "https:")
    with frontier_at(redis) as frontier:
        frontier.add([NewItem(url)], now=CLOCK.now())
    page = worker.until("page")
    monkeypatch.setattr(collections, "LOCK_WAIT_S", 0.1)
    refused = weboid.call("archive", "--profile", str(weboid.profile), url)
    codes = worker.stop(), proxy.stop()

    event = receiver.verified(weboid.collection)
    assert (event["type"], [each["url"] for each in event["data"]["items"]]) == ("page.archived", [url])
    (line,) = (weboid.folder / "logs" / "crawl.jsonl").read_text().splitlines()
    logged = json.loads(line)
    assert (logged["url"], logged["outcome"], logged["attempt"]) == (url, "complete", 1)
    assert (page["url"], page["outcome"]) == (url, "complete")
    assert codes == (0, 0)
    assert "authority" not in ready
    assert refused.code == 5
    assert "proxies of a cluster" in refused.err
    assert SECRET not in proxy.err.read_text() + worker.err.read_text()
    check(weboid.collection)
    targets = {target for _, target, *_ in records(weboid.collection)}
    assert f"{RULES}/robots.txt".replace("http:", "https:") in targets
    assert list((weboid.collection / "db" / "proxies").iterdir()) == []


@pytest.mark.parametrize("command", ["proxy", "worker"])
@pytest.mark.parametrize("secret", ["", "too short"])
def test_without_a_good_secret_nothing_starts(weboid: WeboidRunner, command: str, secret: str) -> None:
    """The remedy is said, the secret is not."""
    (weboid.folder / "secret").write_text(secret)
    options = ("--secret-file", "secret") if secret else ()
    ran = weboid.call(command, *options)

    assert ran.code == 2
    assert "openssl rand" in ran.err
    assert "too short" not in ran.err
    assert not weboid.collection.exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--listen", "nowhere"),
        ("--control", "127.0.0.1:99999"),
        ("--frontier", "http://a"),
        ("--frontier", "@missing"),
        ("--database", "postgresql://a/b"),  # and no dedup index
    ],
)
def test_an_address_that_is_none_is_named(weboid: WeboidRunner, options: tuple[str, str]) -> None:
    """Before anything is opened."""
    (weboid.folder / "secret").write_text(SECRET)
    ran = weboid.call("proxy", "--secret-file", "secret", *options)

    assert ran.code == 2, ran.err
    assert not weboid.collection.exists()


def test_a_proxy_of_another_folder_is_refused(
    weboid: WeboidRunner, redis: RedisServer, start: Callable[..., StartedCommand]
) -> None:
    """Two collections on one frontier would be two halves of one archive."""
    first = start("proxy", *PORTS, WEBOID_SECRET=SECRET)
    first.until("ready")
    second = start("proxy", *PORTS, "--collection", "other", WEBOID_SECRET=SECRET)
    code = second.process.wait(120)

    assert code == 2
    assert "another collection" in second.err.read_text()
    assert first.stop() == 0


def test_a_proxy_that_starts_before_its_redis_waits(redis: RedisServer, start: Callable[..., StartedCommand]) -> None:
    """It says so, and serves as soon as it can."""
    redis.kill()
    proxy = start("proxy", *PORTS, WEBOID_SECRET=SECRET)
    waiting = proxy.until("waiting")
    redis.start()
    proxy.until("ready")

    assert "Start Redis there" in waiting["text"]
    assert proxy.stop() == 0


def test_a_worker_that_starts_first_makes_no_collection(
    weboid: WeboidRunner, start: Callable[..., StartedCommand]
) -> None:
    """Half of one would keep the proxy from starting."""
    worker = start("worker", WEBOID_SECRET=SECRET)
    waiting = worker.until("waiting")

    assert "There is no collection" in waiting["text"]
    assert not weboid.collection.exists()
    assert worker.stop() == 0


async def test_a_cluster_shares_a_collection_and_a_run_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is told who is there."""
    monkeypatch.setattr(collections, "LOCK_WAIT_S", 0.0)
    root = tmp_path / "c"
    async with open_collection(root, clock=CLOCK, shared=True) as first:
        async with open_collection(root, clock=CLOCK, shared=True):
            with pytest.raises(CollectionInUseError, match="proxies of a cluster"):
                async with open_collection(root, clock=CLOCK):
                    raise AssertionError("opened")
        first.layout.proxies.mkdir()
        (first.layout.proxies / "one").touch()
        assert is_in_use(first.layout)
    assert not is_in_use(first.layout)
    async with open_collection(root, clock=CLOCK):
        with pytest.raises(CollectionInUseError, match="Another process"):
            async with open_collection(root, clock=CLOCK, shared=True):
                raise AssertionError("opened")


async def test_a_new_file_systems_own_folder_is_no_hindrance(tmp_path: Path) -> None:
    """A volume is not quite empty when it is new."""
    (tmp_path / "lost+found").mkdir()
    async with open_collection(tmp_path, clock=CLOCK, shared=True) as opened:
        assert opened.layout.marker.exists()


async def write_artifact(client: ProxyClient) -> None:
    """Write an artifact, so that a WARC is open."""
    async with client.visit("page", bucket="default") as visit:
        artifact = NewArtifact(f"urn:text:{URL}", "text/plain", b"kept")
        await visit.write([artifact], document=URL, date=CLOCK.now())
        await visit.seal(grace_s=0)


def options_of(layout: Layout, settings: Settings, **changed: str) -> ProxyServiceOptions:
    listen = (changed.get("listen", "127.0.0.1"), 0)
    advertise = changed.get("advertise", "")
    return ProxyServiceOptions(layout.root, settings, listen, ("127.0.0.1", 0), advertise, CLUSTER_SECRET, 1.0)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Return the layout of an empty collection."""
    return Layout(tmp_path / "collection")


@pytest.fixture
def settings() -> Settings:
    """Return settings without a disk reserve."""
    return Settings(proxy=ProxySettings(disk_reserve_bytes=0))


@pytest.fixture
def started(layout: Layout, settings: Settings) -> Iterator[RunningProxy]:
    """Run a proxy with control over TCP, in this process."""
    with run_proxy(layout, settings, control=("127.0.0.1", 0, CLUSTER_SECRET)) as running:
        yield running


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[SqliteFrontier]:
    """Yield an empty frontier in SQLite."""
    with SqliteFrontier(tmp_path / "f.sqlite", settings=FrontierSettings(), politeness=PolitenessSettings()) as opened:
        yield opened


async def test_proxy_recovers_files_of_a_dead_proxy(
    tmp_path: Path,
    layout: Layout,
    settings: Settings,
    started: RunningProxy,
    frontier: SqliteFrontier,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files of living proxies are left alone."""
    monkeypatch.setattr(cluster_processes, "RECOVERY_INTERVAL_S", 0.02)
    dead = ProxyCommand(layout, settings, "dead", tmp_path)
    await write_artifact(dead.client)
    dead.kill()
    await write_artifact(ProxyClient(("127.0.0.1", started.control.port), CLUSTER_SECRET))
    before = open_warcs(layout)
    events: asyncio.Queue[FileRecovered | WaitStarted | WaitEnded] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def report(event: FileRecovered | WaitStarted | WaitEnded) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    service = _ProxyService(options_of(layout, settings), layout, started, frontier, CLOCK, report)
    recovery = asyncio.create_task(service._recover_abandoned())
    async with asyncio.timeout(120):
        event = await events.get()
    recovery.cancel()
    await asyncio.gather(recovery, return_exceptions=True)
    after = open_warcs(layout)

    assert isinstance(event, FileRecovered)
    assert not event.lost
    assert (len(before), len(after)) == (2, 1)
    await write_artifact(ProxyClient(("127.0.0.1", started.control.port), CLUSTER_SECRET))
    assert len(list(layout.archive.glob("artifacts-*.warc.gz"))) == 1
    check_collection(layout)


async def test_proxy_description_has_address_and_load(started: RunningProxy) -> None:
    """Private keys are not in it."""
    about = ProxyDescription(started, "a:1", CLOCK)
    client = ProxyClient(("127.0.0.1", started.control.port), CLUSTER_SECRET)
    async with client.visit("page", bucket="default"):
        facts = about()

    assert facts["visits"] == 1
    assert facts["browsers"] == f"127.0.0.1:{started.proxy.server_address[1]}"
    assert facts["free_bytes"] > facts["reserve_bytes"] - 1
    assert facts["authority"].startswith("-----BEGIN CERTIFICATE-----")
    assert "PRIVATE" not in facts["authority"]


@pytest.mark.parametrize(
    ("listen", "advertise", "host"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("0.0.0.0", "", socket.gethostname()),
        ("::", "", socket.gethostname()),
        ("0.0.0.0", "proxy-7.lan", "proxy-7.lan"),
    ],
)
def test_advertised_host_is_reachable_by_others(
    layout: Layout, settings: Settings, listen: str, advertise: str, host: str
) -> None:
    """The listening address; this machine's name for every address; --advertise wins."""
    assert options_of(layout, settings, listen=listen, advertise=advertise).host == host


def test_a_proxy_for_clients_of_warcprox_needs_no_secret(weboid: WeboidRunner) -> None:
    """`--warcprox-api` alone: no worker, no frontier; SIGTERM ends it gently."""
    arguments = ("proxy", "--json", "--profile", str(weboid.profile), "--warcprox-api", "127.0.0.1:0", *PORTS)
    process = weboid.start(*arguments)
    assert process.stdout is not None
    line = process.stdout.readline()
    address = json.loads(line)["warcprox_api"]
    with urllib.request.urlopen(f"http://{address}/status") as answer:
        assert json.load(answer)["role"] == "warcprox"
    process.terminate()
    rest, errors = process.communicate(timeout=120)
    check_output(arguments, line + rest)

    assert process.returncode == 0, errors
    assert not (weboid.collection / "db" / "frontier.sqlite").exists()


def test_a_proxy_without_secret_and_clients_is_refused(weboid: WeboidRunner) -> None:
    """Nobody could use it."""
    ran = weboid.call("proxy", *PORTS)

    assert ran.code == 2
    assert "--secret-file" in ran.err
    assert "--warcprox-api" in ran.err


@pytest.mark.parametrize("option", ["--listen", "--control", "--warcprox-api"])
def test_a_port_of_a_proxy_that_is_taken_is_told(weboid: WeboidRunner, option: str) -> None:
    """The sentence names the address, and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host, port = taken.getsockname()
        given = {"--listen": "127.0.0.1:0", "--control": "127.0.0.1:0", "--warcprox-api": "127.0.0.1:0"}
        given[option] = f"{host}:{port}"
        ran = weboid.call("proxy", *(word for pair in given.items() for word in pair))

    assert ran.code == 3
    assert f"Cannot listen on 127.0.0.1, port {port}: Address already in use. Stop the process" in ran.err


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:8000", "archive.example:8000"])
def test_clients_of_warcprox_on_other_machines_must_be_trusted(weboid: WeboidRunner, address: str) -> None:
    """They need no secret: nothing is opened, and the collection is not made."""
    ran = weboid.call("proxy", "--warcprox-api", address, *PORTS)

    assert ran.code == 2
    assert "--trust-clients" in ran.err
    assert not weboid.collection.exists()


def test_trusted_clients_of_warcprox_reach_every_address(weboid: WeboidRunner) -> None:
    """With `--trust-clients`; a name of this machine needs no such option."""
    profile = ("--json", "--profile", str(weboid.profile))
    for words in (("0.0.0.0:0", "--trust-clients"), ("localhost:0",)):
        process = weboid.start("proxy", *profile, "--warcprox-api", *words, *PORTS)
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["warcprox_api"]
        with urllib.request.urlopen(f"http://127.0.0.1:{address.rpartition(':')[2]}/status") as answer:
            assert json.load(answer)["role"] == "warcprox"
        process.terminate()
        assert process.communicate(timeout=120)[1] == ""


def test_a_request_of_a_warcprox_client_is_finished_at_a_stop(
    weboid: WeboidRunner, start: Callable[..., StartedCommand]
) -> None:
    """It is answered and archived before the proxy ends, as visits are."""
    site = SiteServer("held.example")
    url = f"http://127.0.0.1:{site.port}/held"
    site.put("/held", "<p>Held", is_held=True)
    proxy = start("proxy", *PORTS, "--warcprox-api", "127.0.0.1:0")
    address = proxy.until("ready")["warcprox_api"]
    with subprocess.Popen(["curl", "-si", "-x", address, url], stdout=subprocess.PIPE, text=True) as client:
        try:
            wait_until(lambda: bool(site.count("/held")))
            proxy.process.send_signal(signal.SIGTERM)
            proxy.until("stopping")
            site.release()
            answer, _ = client.communicate(timeout=120)
        finally:
            client.kill()
            site.stop()

    assert answer.startswith("HTTP/1.1 200")
    assert answer.endswith("<p>Held")
    assert proxy.process.wait(120) == 0
    assert ("response", url) in {each[:2] for each in records(weboid.collection)}
