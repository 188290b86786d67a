"""The status over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import ConfigError, UnavailableError
from core.layout import Layout
from crawler.collection import open_collection
from crawler.frontier.base import Frontier, NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.status.collection_status import StatusReader
from crawler.status.status_server import parse_listen_address, serve_status
from tests.support.archive_openapi import check_response
from tests.support.clocks import ManualClock

SETTINGS = Settings()


@dataclass
class MonitoredCrawl:
    """A monitor and what it watches."""

    address: str
    frontier: Frontier
    clock: ManualClock
    away: list[str]


@pytest.fixture
async def layout(tmp_path: Path) -> Layout:
    """Return the layout of a collection at rest."""
    async with open_collection(tmp_path / "collection", clock=SystemClock()) as collection:
        return collection.layout


@pytest.fixture
def frontier(layout: Layout) -> Iterator[Frontier]:
    """Yield the frontier of the collection."""
    with open_frontier(layout, SETTINGS.frontier, SETTINGS.politeness) as opened:
        yield opened


@pytest.fixture
async def monitored(layout: Layout, frontier: Frontier) -> AsyncIterator[MonitoredCrawl]:
    """Serve a monitor of the collection; a message in `away` makes the frontier unavailable."""
    clock, away = ManualClock(SystemClock().now()), list[str]()

    def ask() -> Frontier:
        if away:
            raise UnavailableError(away[0])
        return frontier

    reader = StatusReader(layout, ask, settings=SETTINGS, clock=clock)
    async with serve_status(reader, "127.0.0.1:0", names=["monitor.example"]) as address:
        yield MonitoredCrawl(address, frontier, clock, away)


async def _get(monitored: MonitoredCrawl, path: str, **headers: str) -> httpx.Response:
    monitored.clock.seconds += 10
    async with httpx.AsyncClient(verify=False, timeout=120) as client:
        return await client.get(monitored.address + path, headers=headers)


async def test_stats_and_metrics_tell_the_same_numbers(monitored: MonitoredCrawl) -> None:
    """Both come from one status, and follow the frontier."""
    monitored.frontier.add([NewItem("https://a.example/")], now=monitored.clock.now())
    stats = await _get(monitored, "/stats.json")
    metrics = await _get(monitored, "/metrics")
    families = {each.name: each for each in text_string_to_metric_families(metrics.text)}
    items = {sample.labels["state"]: sample.value for sample in families["weboid_frontier_items"].samples}

    check_response("/stats.json", stats.status_code, stats.json())
    check_response("/metrics", metrics.status_code)
    assert stats.json()["queued"] == items["queued"] == 1
    assert stats.headers["content-type"] == "application/json"
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert families["weboid_disk_free_bytes"].samples[0].value > 0


async def test_a_frontier_that_is_away_is_told_and_comes_back(monitored: MonitoredCrawl) -> None:
    """Whoever watches sees that nothing can be seen: 503, and `weboid_up` 0."""
    monitored.away.append("Redis does not answer: start it.")
    health, stats = await _get(monitored, "/healthz"), await _get(monitored, "/stats.json")
    metrics = await _get(monitored, "/metrics")
    monitored.away.clear()
    again = await _get(monitored, "/healthz")

    assert (health.status_code, stats.status_code) == (503, 503)
    assert "start it" in health.text
    assert metrics.status_code == 200
    assert "weboid_up 0.0" in metrics.text
    assert (again.status_code, again.text) == (200, "ok\n")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "a b"])
async def test_a_foreign_name_is_refused(monitored: MonitoredCrawl, host: str) -> None:
    """A page in a browser that lets its own name point here learns nothing."""
    answer = await _get(monitored, "/stats.json", Host=host)

    assert answer.status_code in {400, 421}
    assert "queued" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]", "MONITOR.example:9464"])
async def test_addresses_and_given_names_are_served(monitored: MonitoredCrawl, host: str) -> None:
    """Every answer forbids to be taken for anything else than it is."""
    answer = await _get(monitored, "/stats.json", Host=host)

    assert answer.status_code == 200
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


async def test_it_only_reads(monitored: MonitoredCrawl) -> None:
    """Nothing but GET, and nothing but what there is."""
    async with httpx.AsyncClient(base_url=monitored.address, verify=False, timeout=120) as client:
        assert (await client.post("/stats.json")).status_code == 405
        assert (await client.get("/pause")).status_code == 404


async def test_many_who_ask_at_once_cost_one_look(layout: Layout, frontier: Frontier) -> None:
    """Within half a second all are told the same."""
    looks = []

    def ask() -> Frontier:
        looks.append(1)
        return frontier

    clock = ManualClock(SystemClock().now())
    reader = StatusReader(layout, ask, settings=SETTINGS, clock=clock)
    statuses = [reader.status() for _ in range(5)]
    clock.seconds += 1
    reader.status()

    assert len(looks) == 2
    assert all(each is statuses[0] for each in statuses)


async def test_idle_connections_do_not_silence_the_monitor(monitored: MonitoredCrawl) -> None:
    """More of them than it takes at once: those that ask nothing make room."""
    url = urlsplit(monitored.address)
    idle = [await asyncio.open_connection(url.hostname, url.port) for _ in range(100)]
    answer = await _get(monitored, "/healthz")
    for _, writer in idle:
        writer.close()

    assert answer.status_code == 200


async def test_a_port_that_is_taken_is_named(layout: Layout, monitored: MonitoredCrawl) -> None:
    """The sentence says which."""
    taken = monitored.address.removeprefix("http://")
    reader = StatusReader(layout, lambda: None, settings=SETTINGS, clock=ManualClock(SystemClock().now()))
    with pytest.raises(UnavailableError, match=taken.rpartition(":")[2]):
        async with serve_status(reader, taken):
            raise AssertionError("it listens")


@pytest.mark.parametrize(
    ("text", "expected"), [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::1]:0", ("::1", 0)), (":80", ("", 80))]
)
def test_where_to_listen_is_a_host_and_a_port(text: str, expected: tuple[str, int]) -> None:
    """Without a host: every address."""
    assert parse_listen_address(text) == expected


@pytest.mark.parametrize("text", ["", "9464", "host", "host:port", "a:1/x", "u@h:1", "h:99999"])
def test_what_is_no_host_and_port_is_refused(text: str) -> None:
    """Before anything listens anywhere else."""
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_listen_address(text)


async def test_the_status_is_json_all_the_way(layout: Layout, frontier: Frontier) -> None:
    """No moment, length or enumeration is left as it is in memory."""
    frontier.add([NewItem("https://a.example/")], now=SystemClock().now())
    frontier.claim(now=SystemClock().now(), worker="w")
    reader = StatusReader(layout, lambda: frontier, settings=SETTINGS, clock=SystemClock())
    document = reader.status().to_dict()

    assert json.loads(json.dumps(document)) == json.loads(json.dumps(document, default=str))
    assert document["frontier"]["leases"][0]["worker"] == "w"
