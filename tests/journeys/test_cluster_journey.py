"""Two workers, two proxies, Redis and PostgreSQL: each is killed once and started again as it was."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from tests.journeys.conftest import RunningCommand, UserShell, profile_of
from tests.journeys.sites import SiteServer, article
from tests.support.polling import wait_until
from tests.support.services.postgres import PostgresServer
from tests.support.services.redis_server import RedisServer

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.slow]

HOSTS, PAGES = 4, 20
PROXY = (
    "weboid proxy --collection collection --secret-file secret --profile profile.toml"
    " --listen 127.0.0.1:0 --control 127.0.0.1:0 --json"
)
WORKER = "weboid worker --secret-file secret --workers 2 --profile profile.toml --json"


@pytest.fixture
def sites() -> Iterator[list[SiteServer]]:
    """Yield the sites that are archived."""
    running = [SiteServer(f"town{number}.oldtown.org") for number in range(HOSTS)]
    yield running
    for each in running:
        each.stop()


@pytest.fixture
def redis(shell: UserShell) -> Iterator[RedisServer]:
    """Yield a Redis server with persistence."""
    server = RedisServer(shell.folder / "redis", persistent=True)
    yield server
    server.stop()


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    """Yield a PostgreSQL server that the test may kill."""
    server = PostgresServer()
    yield server
    server.stop()


class ClusterCommands:
    """Its long-running commands by name, each started as it was before."""

    def __init__(self, shell: UserShell) -> None:
        self._shell = shell
        self._lines = {"proxy 1": PROXY, "proxy 2": PROXY, "worker 1": WORKER, "worker 2": WORKER}
        self._running: dict[str, RunningCommand] = {}
        for name in self._lines:
            self.start(name)
        for name in ("proxy 1", "proxy 2"):
            self._running[name].until("ready")

    def start(self, name: str) -> None:
        """Start one."""
        self._running[name] = self._shell.start(self._lines[name])

    def strike(self, name: str) -> None:
        """Kill one as a crash does, and start it again."""
        process = self._running[name].process
        os.kill(process.pid, signal.SIGKILL)
        process.wait(120)
        self.start(name)
        if name.startswith("proxy"):
            self._running[name].until("ready")

    def stop(self) -> dict[str, int]:
        """End all gently, workers first; return their exit codes."""
        codes = {}
        for name in reversed(self._lines):
            command = self._running[name]
            command.process.send_signal(signal.SIGTERM)
            codes[name] = command.ended().code
        return codes


def test_each_part_of_a_cluster_dies_once_and_no_page_is_lost(
    sites: list[SiteServer], shell: UserShell, redis: RedisServer, database: PostgresServer
) -> None:
    """Every page that the seed links to is in the archive once, the WARCs are whole, nothing is left waiting."""
    urls = [
        sites[number % HOSTS].put(f"/{number}", article(f"Page {number}", f"Words {number}."))
        for number in range(PAGES)
    ]
    links = "".join(f'<a href="{url}">{url}</a> ' for url in urls)
    seed = sites[0].put("/all", f"<!DOCTYPE html><title>All pages</title>{links}")
    (shell.folder / "secret").write_text("ab" * 32 + "\n")  # as `openssl rand -hex 32` writes one
    profile_of(shell.folder / "profile.toml", *sites, frontier={"lease_s": 10.0})
    shell.env["WEBOID_FRONTIER"] = f"{redis.url}?frontier=ours"
    shell.env["WEBOID_DEDUP"] = f"{redis.url}?index=ours"
    shell.env["WEBOID_DATABASE"] = database.database()
    cluster = ClusterCommands(shell)

    def restart_redis() -> None:
        redis.kill()
        redis.start()

    def restart_database() -> None:
        database.kill()
        database.start()

    strikes: list[Callable[[], None]] = [
        lambda: cluster.strike("worker 1"),
        lambda: cluster.strike("proxy 1"),
        restart_redis,
        lambda: cluster.strike("worker 2"),
        lambda: cluster.strike("proxy 2"),
        restart_database,
    ]
    handed = shell.run(f"weboid crawl {seed} --scope any --depth 1 --profile profile.toml")
    assert handed.code == 0, handed.err
    for number, strike in enumerate(strikes):
        begun = 3 * number + 2
        wait_until(lambda: pages_asked(sites) >= begun)  # noqa: B023 called at once
        strike()
    wait_until(lambda: pages_asked(sites) == PAGES and status(shell)["done"] == PAGES + 1)
    counts = status(shell)
    assert (counts["queued"], counts["claimed"], counts["dead"], counts["skipped"]) == (0, 0, 0, 0)
    assert set(cluster.stop().values()) == {0}

    verified = shell.run("weboid verify collection")
    assert verified.code == 0, verified.out + verified.err
    assert list((shell.folder / "collection" / "archive").glob("*.open")) == []
    served = shell.serve("--collection collection")
    for url in (seed, *urls):
        rows = served.get(f"/cdx?url={quote(url, safe='')}&output=json").text.splitlines()
        assert [json.loads(row)["status"] for row in rows] == ["200"], url
        assert len(served.moments(url)) == 1


def pages_asked(sites: list[SiteServer]) -> int:
    """Return how many pages were asked for, each once."""
    return sum(len({path for path in site.requests if path[1:].isdigit()}) for site in sites)


def status(shell: UserShell) -> dict[str, int]:
    """Return what `weboid status --json` counts."""
    ran = shell.run("weboid status --json")
    assert ran.code == 0, ran.err
    counts: dict[str, int] = json.loads(ran.out)
    return counts
