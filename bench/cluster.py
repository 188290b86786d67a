"""A cluster as processes of this machine, and an axe: ``python -m bench.cluster --kills 12 --seed 7``.

Two proxies, four workers, a Redis that keeps what it acknowledged, a PostgreSQL, and a small web of
many hosts whose servers write an access log. While a list is archived, processes are killed
(SIGKILL) and started again, as a supervisor would. Then every page must be there exactly once, every
WARC whole, and every host left in peace.

The last line is ``{"bench": "cluster", "figures": {…}}``; exit code 1 when something was lost.
"""

import argparse
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import report
from bench.gaps import GapReport, GapRules, VisitSpan, prove
from core.clock import SystemClock
from core.config.settings import FrontierSettings, PolitenessSettings
from core.layout import Layout
from crawler.frontier.base import Frontier, FrontierStats, NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from tests.support.services.postgres import PostgresServer
from tests.support.services.processes import plain_environment
from tests.support.services.redis_server import RedisServer

ROOT = Path(__file__).resolve().parents[1]
WEBOID = Path(sys.executable).with_name("weboid")
WARCIO = Path(sys.executable).with_name("warcio")
MIN_DELAY_S = 0.3
LOOK_S = 0.1
START_LIMIT_S = 120.0
STOP_LIMIT_S = 150.0


class ClusterOrigin:
    """The servers of many hosts on one loopback port, and their access log."""

    def __init__(self) -> None:
        self.log: list[VisitSpan] = []
        self._visits: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def note(self, host: str, path: str, began: float) -> None:
        """Write a line; a page's picture is of the page's latest visit."""
        page, _, part = path.partition("!")
        with self._lock:
            if not part:
                self._visits[host + page] += 1
            visit = f"{page} {self._visits[host + page]}"
            self.log.append(VisitSpan(host, began, time.monotonic(), visit))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        origin = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                began = time.monotonic()
                host, path = self.headers["Host"].partition(":")[0], self.path
                if "!" in path:
                    mime, body = "image/svg+xml", _picture(host + path)
                else:
                    mime, body = "text/html", _page(host, path)
                self.send_response(200)
                self.send_header("Content-Type", mime)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                origin.note(host, path, began)

            def handle(self) -> None:
                with suppress(ConnectionError):  # its asker was killed
                    super().handle()

            def log_message(self, *_: object) -> None:
                """Say nothing on standard error."""

        return Handler


def _page(host: str, path: str) -> bytes:
    return (
        f"<!doctype html><title>{host}{path}</title><link rel=icon href=data:,>"
        f"<h1>{host}{path}</h1><img src='{path}!picture.svg'>"
    ).encode()


def _picture(text: str) -> bytes:
    return (f"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><!-- {text} --></svg>").encode()


@dataclass
class ClusterMember:
    """A process of the cluster that is started again when it was killed."""

    name: str
    command: list[str]
    folder: Path
    env: dict[str, str]
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def log(self) -> Path:
        """Return the path of its log, to which all its runs append."""
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.env,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> int:
        """Ask it to end, and wait; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def clean(self) -> None:
        """End it if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.kill()


@dataclass
class BenchCluster:
    """All of it. `running` makes one."""

    folder: Path
    origin: ClusterOrigin
    redis: RedisServer
    postgres: PostgresServer
    database: str
    hosts: int
    others: dict[str, str] = field(default_factory=dict)  # more hosts, and where they are
    politeness: str = f"min_delay_s = {MIN_DELAY_S}\nmax_delay_s = 2.0"
    members: dict[str, ClusterMember] = field(default_factory=dict)

    @property
    def collection(self) -> Path:
        """Return the shared folder."""
        return self.folder / "collection"

    @property
    def profile(self) -> Path:
        """Return the path of its members' profile."""
        return self.folder / "profile.toml"

    def urls(self, count: int) -> list[str]:
        """Return the URLs of `count` pages, spread over the hosts."""
        return [f"http://h{n % self.hosts:02}.example/page/{n}" for n in range(count)]

    def prepare(self, *, proxies: int, workers: int) -> None:
        """Write the profile and say what members there are; nothing is started."""
        names = (f"h{n:02}.example" for n in range(self.hosts))
        places = dict.fromkeys(names, f"127.0.0.1:{self.origin.port}") | self.others
        resolve = ", ".join(f'"{name}" = "{place}"' for name, place in places.items())
        self.profile.write_text(
            f"[egress]\nallow = ['127.0.0.0/8']\nresolve = {{{resolve}}}\n"
            f"[politeness]\n{self.politeness}\n"
            "[frontier]\nlease_s = 10.0\nretry_delay_s = 1.0\n"
            "[proxy]\ndisk_reserve_bytes = 0\n"
            "[visit]\nfull_page = false\nsettle_s = 0.2\n[behaviours]\nlimit_s = 1.0\n"
        )
        env = plain_environment(
            PYTHONPATH=str(ROOT),
            WEBOID_SECRET=secrets.token_hex(32),
            WEBOID_FRONTIER=self.redis.url,
            WEBOID_DEDUP=self.redis.url,
            WEBOID_DATABASE=self.database,
        )
        common = ["--profile", str(self.profile), "--collection", str(self.collection), "--json"]
        for number in range(proxies):
            listen, control = _free()
            ports = ["--listen", listen, "--control", control, "--drain", "30"]
            self._add(f"proxy{number}", ["-v", "proxy", *common, *ports], env)
        common[3] = str(self.folder / "elsewhere")  # workers do not see the shared folder
        for number in range(workers):
            self._add(f"worker{number}", ["-v", "worker", *common, "--workers", "2"], env)

    def _add(self, name: str, arguments: Sequence[str], env: dict[str, str]) -> None:
        self.members[name] = ClusterMember(name, [str(WEBOID), *arguments], self.folder, env)

    def frontier(self) -> Frontier:
        """Open the frontier, to add to and to inspect."""
        settings = FrontierSettings(url=self.redis.url)
        return open_frontier(Layout(self.collection), settings, PolitenessSettings())

    def run(self, *arguments: str) -> str:
        """Run a command of ours as somebody at one of the machines would; what it printed."""
        env = next(iter(self.members.values())).env
        done = subprocess.run(
            [str(WEBOID), *arguments, "--profile", str(self.profile)],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=env,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def add(self, urls: Sequence[str]) -> None:
        """Queue the URLs."""
        with self.frontier() as frontier:
            frontier.add(map(NewItem, urls), now=SystemClock().now())

    def strike(self, what: str) -> None:
        """Kill a member or a server, and start it again."""
        if what == "redis":
            self.redis.kill()
            self.redis.start()
        elif what == "postgres":
            self.postgres.kill()
            self.postgres.start()
        else:
            self.members[what].kill()
            self.members[what].start()

    def stop(self) -> dict[str, int]:
        """Ask all members to end, workers first; their exit codes."""
        codes: dict[str, int] = {}
        for kind in ("worker", "proxy"):
            some = [each for each in self.members.values() if each.name.startswith(kind)]
            threads = [
                threading.Thread(target=lambda each=each: codes.update({each.name: each.stop()})) for each in some
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return codes


def _free() -> tuple[str, str]:
    """Return two unused addresses, each as ``127.0.0.1:PORT``."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        first, second = (f"127.0.0.1:{each.getsockname()[1]}" for each in (one, two))
        return first, second


@contextmanager
def running(
    *, hosts: int, proxies: int, workers: int, others: Mapping[str, str] | None = None, politeness: str = ""
) -> Iterator[BenchCluster]:
    """Run a cluster until the end of the block.

    Args:
        hosts: so many hosts of the small web.
        proxies: processes.
        workers: processes.
        others: more hosts, and the address of each.
        politeness: lines of that table of the profile, in place of its own.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weboid-cluster-")))
        origin = ClusterOrigin()
        stack.callback(origin.close)
        redis = RedisServer(folder / "redis", persistent=True)
        stack.callback(redis.stop)
        postgres = PostgresServer()
        stack.callback(postgres.stop)
        cluster = BenchCluster(folder, origin, redis, postgres, postgres.database(), hosts)
        cluster.others.update(others or {})
        cluster.politeness = politeness or cluster.politeness
        cluster.prepare(proxies=proxies, workers=workers)
        for member in cluster.members.values():
            stack.callback(member.clean)
            member.start()
        yield cluster


@contextmanager
def copied_logs(cluster: BenchCluster, folder: Path | None) -> Iterator[None]:
    """Keep what the members said, however the block ends."""
    try:
        yield
    finally:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for path in cluster.folder.glob("*.log"):
                shutil.copy(path, folder)


def follow(frontier: Frontier, until: Callable[[FrontierStats], bool], limit_s: float) -> FrontierStats:
    """Look at the frontier until it is so.

    Raises:
        AssertionError: it never was.
    """
    clock, pause = SystemClock(), threading.Event()
    deadline = clock.monotonic() + limit_s
    while True:
        stats = frontier.stats(clock.now())
        if until(stats):
            return stats
        if clock.monotonic() > deadline:
            raise AssertionError(f"It did not come to pass: {stats}")
        pause.wait(LOOK_S)


@dataclass(frozen=True)
class ClusterResult:
    """State of the archive at the end.

    Attributes:
        pages: rows of `pages` by URL.
        captures: rows of `captures` that are the page itself, by URL.
        bad_warcs: what `warcio check` complained of.
        open_files: WARCs that nobody closed.
        visits: visits of pages that hosts saw, so those that were made again, too.
        proof: whether hosts were left in peace.
    """

    pages: Counter[str]
    captures: Counter[str]
    bad_warcs: list[str]
    open_files: list[str]
    visits: int
    proof: GapReport


def look(cluster: BenchCluster) -> ClusterResult:
    """Read the result from the stores, the files and the access log."""
    with psycopg.connect(cluster.database) as client:
        cursor = client.execute("SELECT nspname FROM pg_namespace WHERE nspname = 'weboid'")
        schema = "weboid." if cursor.fetchone() else ""
        pages = _counted(client, f"SELECT url FROM {schema}pages")
        captures = _counted(
            client, f"SELECT url FROM {schema}captures WHERE record_type <> 'resource' AND url NOT LIKE '%!%'"
        )
    archive = cluster.collection / "archive"
    bad = []
    for path in sorted(archive.glob("*.warc.gz")):
        done = subprocess.run([str(WARCIO), "check", str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            bad.append(f"{path.name}: {done.stdout.strip()[-200:]}")
    rules = GapRules(visits_per_host=1, min_delay_s=MIN_DELAY_S, tolerance_s=0.02)
    proof = prove(cluster.origin.log, rules)
    left = [path.name for path in archive.glob("*.open")]
    return ClusterResult(pages, captures, bad, left, proof.visits, proof)


def _counted(client: "psycopg.Connection[Any]", query: str) -> Counter[str]:
    return Counter(url for (url,) in client.execute(query.encode()))


def main() -> int:
    """Run it, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--hosts", type=int, default=40)
    parser.add_argument("--proxies", type=int, default=2)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", type=Path, help="keep here what the members said")
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    begun = time.monotonic()
    with (
        running(hosts=arguments.hosts, proxies=arguments.proxies, workers=arguments.workers) as cluster,
        copied_logs(cluster, arguments.logs),
    ):
        urls = cluster.urls(arguments.pages)
        cluster.add(urls)
        moments = sorted(dice.sample(range(1, arguments.pages), arguments.kills))
        with cluster.frontier() as frontier:
            for moment in moments:
                follow(frontier, lambda stats, at=moment: stats.done >= at, 600)  # type: ignore[misc]
                victim = dice.choice([*cluster.members, "redis", "postgres"])
                print(f"{time.monotonic() - begun:6.1f} s  {moment:4} done  kill {victim}")
                cluster.strike(victim)
            stats = follow(frontier, lambda s: s.done + s.dead + s.skipped >= len(urls), 1200)
        seconds = time.monotonic() - begun
        codes = cluster.stop()
        state = look(cluster)
    once = sum(state.pages[url] == 1 and state.captures[url] == 1 for url in urls)
    report.figures(
        "cluster",
        {
            "pages": len(urls),
            "once": once,
            "dead": stats.dead,
            "kills": arguments.kills,
            "visits": state.visits,
            "bad_warcs": len(state.bad_warcs),
            "open_files": len(state.open_files),
            "breaches": len(state.proof.breaches),
            "exit_codes": sum(codes.values()),
            "seconds": round(seconds, 1),
        },
    )
    return 0 if once == len(urls) and not (state.bad_warcs or state.open_files) else 1


if __name__ == "__main__":
    sys.exit(main())
