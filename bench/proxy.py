"""The proxy beside stock warcprox: requests a second, megabytes a second, exactness of dedup.

Both get the same origin, the same client and the same URLs, one after the other, in several rounds;
the ratio is taken within a round, and the median of the rounds is the figure. Stock runs with its
own defaults: no gzip, SHA-1, no fsync. Ours writes gzip, SHA-256, and is sealed (on disk and in
the index) before the clock stops.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict

from warcio.archiveiterator import ArchiveIterator

from bench import report
from bench.certificate import write_certificate
from core.settings import EgressSettings, ProxySettings, Settings
from proxy.client import ProxyClient, ProxyVisit

HOST = "origin.example"
ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def child(*arguments: str, first: str = "") -> Iterator[str]:
    """A Python process of ours that prints one line when ready and ends with its input."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if first:
            process.stdin.write(first + "\n")
            process.stdin.flush()
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class Load:
    """How much to ask for."""

    def __init__(self, *, size: int, count: int, connections: int, same: bool = False) -> None:
        self.size = size
        self.count = count
        self.connections = connections
        self.same = same

    def arguments(self, port: int, auth: str, target: tuple[str, int], key: str) -> list[str]:
        """The client's command line, after ``python -m bench.proxy_client``."""
        numbers = (port, auth, *target, self.size, self.count, self.connections, key)
        return [*map(str, numbers), str(int(self.same))]


async def fetch(load: Load, port: int, auth: str, target: tuple[str, int], key: str) -> float:
    """Run the client; the seconds it took."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.proxy_client",
        *load.arguments(port, auth, target, key),
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError("The client failed.")
    return float(output)


def settings(origin: int, certificate: Path) -> Settings:
    """Ours, with the origin's name resolved to this machine."""
    return Settings(
        egress=EgressSettings(
            allow=("127.0.0.0/8",),
            resolve={HOST: f"127.0.0.1:{origin}"},
            ca_file=str(certificate),
        ),
        proxy=ProxySettings(disk_reserve_bytes=0),
    )


@contextmanager
def our_proxy(folder: Path, name: str, chosen: Settings) -> Iterator[ProxyClient]:
    """One of our proxies on the collection `folder`."""
    control = folder / f"{name}.sock"
    arguments = ("proxy", "--collection", str(folder), "--control", str(control))
    with child(*arguments, first=json.dumps(asdict(chosen))) as ready:
        assert json.loads(ready)["ready"]
        yield ProxyClient(control)


async def ours(load: Load, folder: Path, origin: int, certificate: Path, key: str) -> float:
    """Seconds for the load through our proxy, seal included."""
    with our_proxy(folder, "p", settings(origin, certificate)) as client:
        async with client.visit("bench", bucket="default") as visit:
            given = visit.credentials
            auth = f"{given.username}:{given.password}"
            seconds = await fetch(load, given.port, auth, (HOST, 443), key)
            start = time.perf_counter()
            entries = await visit.seal(grace_s=5.0)
            seconds += time.perf_counter() - start
            assert len([entry for entry in entries if entry.filename]) == load.count
    return seconds


async def stock(load: Load, folder: Path, origin: int, key: str) -> float:
    """Seconds for the load through stock warcprox, which acknowledges nothing."""
    with child("bench.stock_warcprox", str(folder)) as port:
        return await fetch(load, int(port), "-", ("127.0.0.1", origin), key)


async def compare(load: Load, origin: int, certificate: Path, rounds: int) -> tuple[float, ...]:
    """(median seconds ours, median seconds stock, median ratio)."""
    mine, theirs, ratios = [], [], []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            theirs.append(await stock(load, Path(folder), origin, f"s{number}-"))
        with tempfile.TemporaryDirectory() as folder:
            mine.append(await ours(load, Path(folder), origin, certificate, f"o{number}-"))
        ratios.append(theirs[-1] / mine[-1])
    return report.median(mine), report.median(theirs), report.median(ratios)


async def one_payload(count: int, origin: int, certificate: Path) -> int:
    """`response` records after `count` fetches of one payload, as many at once as four proxies take."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = settings(origin, certificate)
        async with AsyncExitStack() as stack:
            visits: list[ProxyVisit] = []
            for number in range(4):
                client = stack.enter_context(our_proxy(folder, f"p{number}", chosen))
                visit = client.visit(f"bench{number}", bucket="default")
                visits.append(await stack.enter_async_context(visit))
            load = Load(size=20_000, count=count // 4, connections=25, same=True)
            given = [visit.credentials for visit in visits]
            auths = [(each.port, f"{each.username}:{each.password}") for each in given]
            await asyncio.gather(*(fetch(load, *auth, (HOST, 443), "same") for auth in auths))
            for opened in visits:
                await opened.seal(grace_s=5.0)
        return responses(folder)


def responses(collection: Path) -> int:
    """How many `response` records the collection's WARCs hold."""
    count = 0
    for path in collection.glob("archive/weboid-*.warc.gz"):
        with path.open("rb") as file:
            count += sum(record.rec_type == "response" for record in ArchiveIterator(file))
    return count


async def main() -> None:
    """Run, print, tell."""
    quick = report.arguments(__doc__ or "").quick
    small = Load(size=20_000, count=1000 if quick else 3000, connections=8)
    large = Load(size=5_000_000, count=10 if quick else 60, connections=8)
    rounds = 3 if quick else 5
    with tempfile.TemporaryDirectory() as folder:
        certificate = write_certificate(Path(folder) / "origin.pem", HOST)
        with child("bench.origin", str(certificate)) as port:
            origin = int(port)
            s_mine, s_stock, s_ratio = await compare(small, origin, certificate, rounds)
            l_mine, l_stock, l_ratio = await compare(large, origin, certificate, rounds)
            same = await one_payload(1000, origin, certificate)
    megabytes = large.size * large.count / 1e6
    report.table(
        [
            ("", "ours", "stock", "ratio"),
            (
                "HTTPS requests/s (20 KB, 8 connections)",
                f"{small.count / s_mine:.0f}",
                f"{small.count / s_stock:.0f}",
                f"{s_ratio:.2f}",
            ),
            (
                "MB/s (5 MB bodies)",
                f"{megabytes / l_mine:.0f}",
                f"{megabytes / l_stock:.0f}",
                f"{l_ratio:.2f}",
            ),
            ("responses for 1,000 of one payload, 4 proxies", str(same), "", ""),
        ]
    )
    report.figures(
        "proxy",
        {
            "https_rps_ratio": s_ratio,
            "https_rps": small.count / s_mine,
            "stock_https_rps": small.count / s_stock,
            "body_mbps_ratio": l_ratio,
            "body_mbps": megabytes / l_mine,
            "responses_for_1000_same": same,
        },
    )


if __name__ == "__main__":
    asyncio.run(main())
