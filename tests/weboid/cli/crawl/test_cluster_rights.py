"""Rights of each service of docker-compose.yml in PostgreSQL and Redis: its work, and nothing else.

The roles and users are those that deploy/postgres-roles and deploy/make-secrets make.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import redis

from bench.cluster import BenchCluster, ClusterMember, ClusterOrigin, follow
from core.clock import SystemClock
from core.config.database_urls import RedisUse, parse_redis_url
from core.config.settings import FrontierSettings, LinksSettings, PolitenessSettings
from core.config.stored_level import StoredLevel
from core.layout import Layout
from crawler.frontier.base import NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import LevelActor, target_of
from playback.web.rate_limits import SharedBuckets
from tests.support import loopback
from tests.support.commands import WeboidRunner
from tests.support.polling import wait_until
from tests.support.proxy_fixtures import records
from tests.support.services.ports import free_port
from tests.support.services.postgres import PostgresServer, programs
from tests.support.services.processes import plain_environment
from tests.support.services.redis_server import RedisServer
from weboid.cli.support.child_commands import ChildCommandOptions, watch_children
from weboid.cli.support.run_options import WEBOID

ROOT = Path(__file__).resolve().parents[4]
URL = "http://h00.example/page/0"
WAITING = "http://h01.example/page/1"
READ, WRITE = "database-read", "database-write"
# A command's own refusal, and those of a command inside a script, by Redis 7.0 and later ones.
REFUSED = r"(?i)no permissions|can't run this command|can't access .* key|ACL failure"


@dataclass
class RestrictedStores:
    """The two stores with the rights that the deployment gives.

    Attributes:
        folder: for whatever a test writes.
        addresses: what lies in deploy/secrets, with the test's ports.
    """

    folder: Path
    redis: RedisServer
    postgres: PostgresServer
    database: str
    addresses: dict[str, str]

    def sql(self, secret: str, *statements: str) -> list[Any]:
        """Return the rows of the last statement, asked as the role of that secret."""
        with psycopg.connect(self.addresses[secret], autocommit=True) as client:
            cursor = [client.execute(statement.encode()) for statement in statements][-1]
            return cursor.fetchall() if cursor.description else []

    def client(self, secret: str) -> Any:
        """Return a Redis client that connects as the user of that secret."""
        return redis.Redis.from_url(self.addresses[secret].partition("?")[0])

    def environment(self, **secrets: str) -> dict[str, str]:
        """Return the environment of a service: variables with the addresses of the secrets."""
        given = {name: self.addresses[secret] for name, secret in secrets.items()}
        return plain_environment(PYTHONPATH=str(ROOT), **given)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestrictedStores]:
    """Run Redis and PostgreSQL, set up by the scripts of deploy/."""
    folder = tmp_path_factory.mktemp("deployment")
    for name in ("make-secrets", "postgres-roles"):
        shutil.copy(ROOT / "deploy" / name, folder)
    subprocess.run([folder / "make-secrets"], check=True, capture_output=True)
    secrets = folder / "secrets"
    with ExitStack() as stack:
        server = RedisServer(folder / "redis", "--include", str(secrets / "redis.conf"))
        stack.callback(server.stop)
        postgres = PostgresServer()
        stack.callback(postgres.stop)
        database = postgres.database().rpartition("/")[2]
        make_roles(folder / "postgres-roles", postgres, database, secrets)
        addresses = {
            each.name: each.read_text()
            .strip()
            .replace("redis:6379", f"127.0.0.1:{server.port}")
            .replace("postgres:5432/weboid", f"127.0.0.1:{postgres.port}/{database}")
            for each in secrets.iterdir()
        }
        yield RestrictedStores(folder, server, postgres, database, addresses)


def make_roles(script: Path, postgres: PostgresServer, database: str, secrets: Path) -> str:
    """Run the script as PostgreSQL's image does and return its output."""
    done = subprocess.run(
        ["/bin/sh", str(script)],
        env={
            "PATH": f"{programs()}:{os.environ['PATH']}",
            "PGHOST": "127.0.0.1",
            "PGPORT": str(postgres.port),
            "POSTGRES_USER": "weboid",
            "POSTGRES_DB": database,
            "WEBOID_SECRETS": str(secrets),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("secret", [WRITE, READ])
@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO PROGRAM 'id'",
        "COPY (SELECT 1) TO '/dev/null'",
        "SELECT pg_read_file('postgresql.conf')",
        "CREATE ROLE other LOGIN",
        "ALTER ROLE weboid_read SUPERUSER",
        "SET ROLE weboid",
        "CREATE TABLE public.other (n INTEGER)",
    ],
)
def test_no_role_of_a_service_reaches_beyond_the_database(
    deployment: RestrictedStores, secret: str, statement: str
) -> None:
    """Neither is a superuser, and neither becomes one."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        deployment.sql(secret, statement)


@pytest.mark.slow
def test_whoever_reads_writes_nothing(deployment: RestrictedStores) -> None:
    """`weboid_read` sees what `weboid_write` makes from then on, and can change none of it."""
    deployment.sql(WRITE, "CREATE SCHEMA made", "CREATE TABLE made.it (n INTEGER)")
    deployment.sql(WRITE, "INSERT INTO made.it VALUES (7)")
    assert deployment.sql(READ, "SELECT n FROM made.it") == [(7,)]
    for statement in (
        "INSERT INTO made.it VALUES (8)",
        "UPDATE made.it SET n = 8",
        "DELETE FROM made.it",
        "DROP TABLE made.it",
        "CREATE TABLE made.other (n INTEGER)",
        "CREATE SCHEMA other",
        "CREATE TEMPORARY TABLE other (n INTEGER)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            deployment.sql(READ, statement)


@pytest.mark.slow
def test_the_roles_take_over_what_a_superuser_had_made(deployment: RestrictedStores) -> None:
    """A volume of an earlier release is upgraded by running the script by hand, and it may run twice."""
    with psycopg.connect(
        host="127.0.0.1", port=deployment.postgres.port, user="weboid", dbname=deployment.database
    ) as client:
        client.execute("CREATE SCHEMA before")
        client.execute("CREATE TABLE before.it (id BIGINT GENERATED ALWAYS AS IDENTITY, n INTEGER)")
        client.execute("INSERT INTO before.it (n) VALUES (1)")
    script = deployment.folder / "postgres-roles"
    for _ in range(2):
        output = make_roles(script, deployment.postgres, deployment.database, deployment.folder / "secrets")
        assert output == ""
    assert deployment.sql(READ, "SELECT n FROM before.it") == [(1,)]
    deployment.sql(WRITE, "INSERT INTO before.it (n) VALUES (2)", "ALTER TABLE before.it ADD m TEXT")


@pytest.mark.slow
def test_no_password_is_logged_by_the_server(deployment: RestrictedStores) -> None:
    """The script names them in statements."""
    log = (deployment.postgres.folder / "log").read_text()
    for name in ("postgres-write", "postgres-read"):
        assert deployment.addresses[name] not in log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("secret", "other"),
    [
        ("frontier", "{weboid:weboid}"),
        ("dedup", "{weboid:frontier:weboid}"),
        ("frontier-read", "{weboid:weboid}"),
        ("frontier", "{weboid:frontier:other}"),
    ],
)
def test_each_user_of_redis_is_refused_the_keys_of_others(
    deployment: RestrictedStores, secret: str, other: str
) -> None:
    """By commands, and by scripts."""
    with closing(deployment.client(secret)) as client:
        for words in (
            ("GET", f"{other}:x"),
            ("HGETALL", other),
            ("SET", f"{other}:x", "1"),
            ("EVAL", "return redis.call('GET', ARGV[1])", 0, f"{other}:x"),
        ):
            with pytest.raises(redis.ResponseError, match=REFUSED):
                client.execute_command(*words)


@pytest.mark.slow
@pytest.mark.parametrize("secret", ["frontier", "dedup", "frontier-read"])
def test_no_user_of_redis_may_administer_it(deployment: RestrictedStores, secret: str) -> None:
    """Nor see the names of others' keys, nor stop others' scripts."""
    with closing(deployment.client(secret)) as client:
        for words in (
            ("CONFIG", "GET", "*"),
            ("CONFIG", "SET", "dir", "/tmp"),
            ("ACL", "LIST"),
            ("FLUSHALL",),
            ("FLUSHDB",),
            ("KEYS", "*"),
            ("SCAN", "0"),
            ("RANDOMKEY",),
            ("SCRIPT", "FLUSH"),
            ("FUNCTION", "FLUSH"),
            ("REPLICAOF", "example.org", "6379"),
            ("MIGRATE", "example.org", "6379", "k", "0", "10"),
            ("CLIENT", "KILL", "TYPE", "normal"),
            ("SHUTDOWN",),
            ("PUBLISH", "channel", "word"),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)


@pytest.mark.slow
def test_a_front_changes_nothing_in_the_frontier(deployment: RestrictedStores) -> None:
    """Its user reads; also a script of its own writes nothing."""
    with closing(deployment.client("frontier-read")) as client:
        for words in (
            ("HSET", "{weboid:frontier:weboid}", "queued", "0"),
            ("DEL", "{weboid:frontier:weboid}"),
            ("EVAL", "return redis.call('DEL', KEYS[1])", 1, "{weboid:frontier:weboid}"),
        ):
            with pytest.raises(redis.ResponseError, match=REFUSED):
                client.execute_command(*words)


@pytest.mark.slow
def test_fronts_count_readers_together(deployment: RestrictedStores) -> None:
    """The one thing that their user may write."""
    address = parse_redis_url(deployment.addresses["frontier-read"], RedisUse.FRONTIER)
    with closing(SharedBuckets(address)) as one, closing(SharedBuckets(address)) as two:
        assert one.wait_s([("reader", 0.001, 1.0)]) == 0
        assert (two.wait_s([("reader", 0.001, 1.0)]) or 0) > 0


@pytest.mark.slow
def test_nobody_comes_to_redis_without_a_user(deployment: RestrictedStores) -> None:
    """The default user is off; a health check still gets an answer."""
    with closing(deployment.redis.client()) as client, pytest.raises(redis.AuthenticationError):
        client.execute_command("PING")
    ping = ["redis-cli", "-p", str(deployment.redis.port), "ping"]
    assert subprocess.run(ping, check=False, capture_output=True).returncode == 0


@dataclass
class RestrictedCluster:
    """A cluster at work: each process has the secrets of its service, and no other."""

    deployment: RestrictedStores
    cluster: BenchCluster

    def environment(self, **secrets: str) -> dict[str, str]:
        """Return the environment of one more service."""
        return self.deployment.environment(**secrets)


@pytest.fixture(scope="module")
def parts(deployment: RestrictedStores) -> Iterator[RestrictedCluster]:
    """Run a proxy and a worker until they have archived a page; another waits, because its host is blocked."""
    folder = deployment.folder
    shared = {"WEBOID_DEDUP": "dedup", "WEBOID_FRONTIER": "frontier", "WEBOID_SECRET": "cluster"}
    with ExitStack() as stack:
        origin = ClusterOrigin()
        stack.callback(origin.close)
        cluster = BenchCluster(folder, origin, deployment.redis, deployment.postgres, deployment.database, hosts=2)
        cluster.prepare(proxies=1, workers=1)
        nowhere = Layout(folder / "none")
        with closing(open_decisions(nowhere, deployment.addresses[WRITE])) as store:
            domain, now = target_of(domain="h00.example"), SystemClock().now()
            root = LevelActor("root")
            LevelStore(store).decide([domain], StoredLevel.TEXT, actor=root, now=now, is_stored=True)
        cluster.members["proxy0"].env = deployment.environment(WEBOID_DATABASE=WRITE, **shared)
        # The dedup index is the proxies': a worker only knows that there is one.
        cluster.members["worker0"].env = {
            **deployment.environment(WEBOID_DATABASE=READ, **shared),
            "WEBOID_DEDUP": "redis://127.0.0.1:1/0",
        }
        for member in cluster.members.values():
            stack.callback(member.clean)
            member.start()
        settings = FrontierSettings(url=deployment.addresses["frontier"])
        with open_frontier(Layout(folder / "none"), settings, PolitenessSettings()) as frontier:
            now = SystemClock().now()
            frontier.block_until("h01.example", now + timedelta(days=1), "429", now=now)
            frontier.add([NewItem(URL), NewItem(WAITING)], now=now)
            try:
                follow(frontier, lambda stats: stats.done + stats.dead + stats.skipped >= 1, 90)
            except AssertionError as error:
                logs = [each.log.read_text()[-3000:] for each in cluster.members.values()]
                raise AssertionError("\n".join(logs)) from error
            assert frontier.stats(SystemClock().now()).done == 1
        yield RestrictedCluster(deployment, cluster)


def lines(member: ClusterMember) -> str:
    """Return the text of its log so far."""
    return member.log.read_text()


@pytest.mark.browser
@pytest.mark.proxy
@pytest.mark.slow
def test_a_worker_that_may_only_read_archives_through_a_proxy_that_writes(parts: RestrictedCluster) -> None:
    """The page is in the index; the worker has no password that writes there."""
    rows = parts.deployment.sql(READ, "SELECT url FROM weboid.pages")
    assert rows == [(URL,)]
    assert "interrupted" not in lines(parts.cluster.members["worker0"])


@pytest.mark.browser
@pytest.mark.proxy
@pytest.mark.slow
def test_a_worker_follows_stored_levels_that_were_decided_elsewhere(parts: RestrictedCluster) -> None:
    """It reads them beside the index, as the role that may only read."""
    (manifest,) = (
        json.loads(record.payload)
        for record in records(Layout(parts.cluster.collection))
        if record.url.startswith("urn:pageinfo:")
    )
    assert (manifest["url"], manifest["stored"]) == (URL, "text")


def started(member: ClusterMember, ready: str, stack: ExitStack) -> str:
    """Start the process, and return its output once it holds those words."""
    stack.callback(member.clean)
    member.start()
    process = member.process
    assert process is not None

    def is_ready() -> bool:
        assert process.poll() is None, lines(member)
        return ready in lines(member)

    wait_until(is_ready)
    return lines(member)


@pytest.mark.playback
@pytest.mark.browser
@pytest.mark.proxy
@pytest.mark.slow
def test_the_front_tells_what_waits_and_replay_plays_with_rights_to_read(parts: RestrictedCluster) -> None:
    """Queued, and until when, from a frontier that the front cannot change; the copy itself."""
    collection = f"--collection={parts.cluster.collection}"
    weboid = [sys.executable, "-m", "weboid"]
    front_port, replay_port = (free_port() for _ in range(2))
    front_at, replay_at = (f"http://127.0.0.1:{port}" for port in (front_port, replay_port))
    folder, origins = parts.cluster.folder, (f"--origin={front_at}", f"--replay-origin={replay_at}")
    front = ClusterMember(
        "front",
        [*weboid, "serve", collection, f"--listen=127.0.0.1:{front_port}", "--no-replay", *origins],
        folder,
        parts.environment(WEBOID_DATABASE=WRITE, WEBOID_FRONTIER="frontier-read"),
    )
    playing = [sys.executable, "-m", "playback.replay", collection, "--keep-running"]
    origins = (f"--front-origin={front_at}", f"--origin={replay_at}")
    replay = ClusterMember(
        "replay",
        [*playing, "--host=127.0.0.1", f"--port={replay_port}", *origins],
        folder,
        parts.environment(WEBOID_DATABASE=READ),
    )
    with ExitStack() as stack:
        started(front, front_at, stack)
        started(replay, "", stack)
        wait_until(lambda: answers(replay_at))
        cached = loopback.post(f"{front_at}/links/api/cached", json={"urls": [URL, WAITING]}).json()
        known, waits = cached["links"]
        copy = loopback.get(known["copy"], follow_redirects=True)
        response = loopback.get(waits["href"])
    assert cached["is_whole"], cached
    assert [known["answer"], waits["answer"]] == ["copy", "queued"]
    assert known["copy"].startswith(replay_at)
    assert (copy.status_code, "h00.example/page/0" in copy.text) == (200, True)
    assert "429" in response.text or "Too Many" in response.text


def answers(address: str) -> bool:
    """Return whether a server responds there."""
    try:
        loopback.get(address)
    except httpx.TransportError:
        return False
    return True


@pytest.mark.browser
@pytest.mark.proxy
@pytest.mark.slow
def test_what_the_watcher_runs_now_and_then_works_with_its_secrets(
    parts: RestrictedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command of its parts ends well, with the dedup index named and its password not given."""
    environment = {
        **parts.environment(WEBOID_FRONTIER="frontier", WEBOID_DATABASE=WRITE),
        "WEBOID_DEDUP": "redis://127.0.0.1:1/0",
    }
    for name in {*os.environ} - {*environment}:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    home = ChildCommandOptions(
        parts.cluster.collection,
        "default",
        frontier_url=environment["WEBOID_FRONTIER"],
        database_url=environment["WEBOID_DATABASE"],
        without=frozenset({"check", "confirm"}),
    )
    commands = [part.command for part in watch_children(home, LinksSettings()) if part.every_s]
    watch = ("wiki", "watch", "--once", f"--collection={home.collection}")
    weboid = WeboidRunner(parts.cluster.folder, Path("none"))
    for words in [watch, *(command[len(WEBOID) :] for command in commands)]:
        ran = weboid.call(*words)
        assert ran.code == 0, (words, ran.out, ran.err)
