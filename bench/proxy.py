"""The proxy beside stock warcprox: requests a second, megabytes a second, exactness of dedup.

Both get the same origin, the same client and the same URLs, one after the other, in several rounds;
the ratio is taken within a round, and the median of the rounds is the figure. Stock runs with its
own defaults: no gzip, SHA-1, no fsync. Ours writes gzip, SHA-256, and is sealed.

The clock stops when everything is archived: for ours, when the seal says that all is on disk and in
the index; for stock, when its WARC has grown to hold all bodies (written, not forced to disk).
Client and origin run on the same cores as what is measured, so the CPU time that each proxy needs
is printed beside: it says what is left for others, and how far more cores would carry. So is a
relay that keeps nothing, which no proxy in this language can pass.
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
from dataclasses import asdict, dataclass, field

import psutil
from warcio.archiveiterator import ArchiveIterator

from bench import report
from bench.certificate import write_certificate
from core.config.settings import EgressSettings, ProxySettings, Settings
from proxy.control.client import ProxyClient, ProxyVisit

HOST = "origin.example"
ROOT = Path(__file__).resolve().parent.parent
REFERENCE_PYTHON = str(ROOT / ".cache/reference/bin/python")  # other programs: `scripts/setup test`


@contextmanager
def child(*arguments: str, first: str = "", python: str = sys.executable) -> Iterator[str]:
    """Run a Python process that prints one line when ready and ends with its input; yield that line."""
    process = subprocess.Popen(
        [python, "-m", *arguments],
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


class ProxyLoad:
    """Number and kind of requests."""

    def __init__(self, *, size: int, count: int, connections: int, same: bool = False) -> None:
        self.size = size
        self.count = count
        self.connections = connections
        self.same = same

    def arguments(self, port: int, auth: str, target: tuple[str, int], key: str) -> list[str]:
        """Return the client's arguments, after ``python -m bench.proxy_client``."""
        numbers = (port, auth, *target, self.size, self.count, self.connections, key)
        return [*map(str, numbers), str(int(self.same))]


async def fetch(load: ProxyLoad, port: int, auth: str, target: tuple[str, int], key: str) -> float:
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
    """Return our settings, with the origin's name resolved to this machine."""
    return Settings(
        egress=EgressSettings(allow=("127.0.0.0/8",), resolve={HOST: f"127.0.0.1:{origin}"}, ca_file=str(certificate)),
        proxy=ProxySettings(disk_reserve_bytes=0),
    )


@contextmanager
def our_proxy(folder: Path, name: str, chosen: Settings) -> Iterator[ProxyClient]:
    """Run one of our proxies on the collection `folder`; yield its client."""
    control = folder / f"{name}.sock"
    arguments = ("proxy", "--collection", str(folder), "--control", str(control))
    with child(*arguments, first=json.dumps(asdict(chosen))) as ready:
        assert json.loads(ready)["ready"]
        yield ProxyClient(control)


@dataclass(frozen=True, slots=True)
class ProxyRun:
    """One run of a load through a proxy.

    Attributes:
        seconds: until all was archived.
        answered: until the client had its last byte.
        cpu: CPU seconds of the proxy process.
    """

    seconds: float
    answered: float
    cpu: float


async def ours(load: ProxyLoad, folder: Path, origin: int, certificate: Path, key: str) -> ProxyRun:
    """Run the load through our proxy, seal included."""
    with our_proxy(folder, "p", settings(origin, certificate)) as client:
        process = psutil.Process((await client.status())["pid"])
        async with client.visit("bench", bucket="default") as visit:
            given = visit.credentials
            auth = f"{given.username}:{given.password}"
            before = cpu_of(process)
            answered = await fetch(load, given.port, auth, (HOST, 443), key)
            start = time.perf_counter()
            entries = await visit.seal(grace_s=5.0)
            sealing = time.perf_counter() - start
            assert len([entry for entry in entries if entry.filename]) == load.count
            return ProxyRun(answered + sealing, answered, cpu_of(process) - before)


async def stock(load: ProxyLoad, folder: Path, origin: int, key: str) -> ProxyRun:
    """Run the load through stock warcprox, until its WARC holds all bodies."""
    with child("bench.stock_warcprox", str(folder), python=REFERENCE_PYTHON) as line:
        port, pid = map(int, line.split())
        process = psutil.Process(pid)
        before = cpu_of(process)
        answered = await fetch(load, port, "-", ("127.0.0.1", origin), key)
        start = time.perf_counter()
        while sum(path.stat().st_size for path in folder.glob("*.warc*")) < load.size * load.count:
            await asyncio.sleep(0.002)
        writing = time.perf_counter() - start
        return ProxyRun(answered + writing, answered, cpu_of(process) - before)


async def bare(load: ProxyLoad, origin: int, certificate: Path, key: str) -> float:
    """Return the seconds for the load through a relay that keeps nothing."""
    with child("bench.relay", str(certificate)) as port:
        return await fetch(load, int(port), "-", ("127.0.0.1", origin), key)


def cpu_of(process: psutil.Process) -> float:
    """Return the CPU seconds that the process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


@dataclass(slots=True)
class ProxyComparison:
    """Rounds of one load through both."""

    load: ProxyLoad
    ours: list[ProxyRun] = field(default_factory=list)
    stock: list[ProxyRun] = field(default_factory=list)

    def ratio(self, name: str) -> float:
        """Return the median over the rounds of stock's figure over ours."""
        pairs = zip(self.stock, self.ours, strict=True)
        return report.median([getattr(s, name) / getattr(o, name) for s, o in pairs])

    def row(self, title: str, unit: float, name: str) -> tuple[str, str, str, str]:
        """Return a row of the table: units a second."""
        rates = [report.median([unit / getattr(run, name) for run in runs]) for runs in (self.ours, self.stock)]
        return (title, f"{rates[0]:.0f}", f"{rates[1]:.0f}", f"{self.ratio(name):.2f}")

    def cost(self, title: str, unit: float) -> tuple[str, str, str, str]:
        """Return a row of the table: CPU milliseconds of the proxy for each unit."""
        costs = [report.median([r.cpu * 1000 / unit for r in x]) for x in (self.ours, self.stock)]
        return (title, f"{costs[0]:.2f}", f"{costs[1]:.2f}", f"{self.ratio('cpu'):.2f}")


async def compare(load: ProxyLoad, origin: int, certificate: Path, rounds: int) -> ProxyComparison:
    """Run the load through both, round by round."""
    comparison = ProxyComparison(load)
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            comparison.stock.append(await stock(load, Path(folder), origin, f"s{number}-"))
        with tempfile.TemporaryDirectory() as folder:
            comparison.ours.append(await ours(load, Path(folder), origin, certificate, f"o{number}-"))
    return comparison


async def one_payload(count: int, origin: int, certificate: Path) -> int:
    """Fetch one payload `count` times through four proxies at once; return the number of `response` records."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = settings(origin, certificate)
        async with AsyncExitStack() as stack:
            visits: list[ProxyVisit] = []
            for number in range(4):
                client = stack.enter_context(our_proxy(folder, f"p{number}", chosen))
                visit = client.visit(f"bench{number}", bucket="default")
                visits.append(await stack.enter_async_context(visit))
            load = ProxyLoad(size=20_000, count=count // 4, connections=25, same=True)
            given = [visit.credentials for visit in visits]
            auths = [(each.port, f"{each.username}:{each.password}") for each in given]
            await asyncio.gather(*(fetch(load, *auth, (HOST, 443), "same") for auth in auths))
            for opened in visits:
                await opened.seal(grace_s=5.0)
        return responses(folder)


def responses(collection: Path) -> int:
    """Count the `response` records in the collection's WARCs."""
    count = 0
    for path in collection.glob("archive/weboid-*.warc.gz"):
        with path.open("rb") as file:
            count += sum(record.rec_type == "response" for record in ArchiveIterator(file))
    return count


async def main() -> None:
    """Run, print, tell."""
    quick = report.arguments(__doc__ or "").quick
    small = ProxyLoad(size=20_000, count=1000 if quick else 4000, connections=8)
    large = ProxyLoad(size=5_000_000, count=16 if quick else 60, connections=8)
    rounds = 3 if quick else 5
    with tempfile.TemporaryDirectory() as folder:
        certificate = write_certificate(Path(folder) / "origin.pem", HOST)
        with child("bench.origin", str(certificate)) as port:
            origin = int(port)
            requests = await compare(small, origin, certificate, rounds)
            bodies = await compare(large, origin, certificate, rounds)
            relayed = [await bare(large, origin, certificate, f"r{n}-") for n in range(rounds)]
            same = await one_payload(1000, origin, certificate)
    megabytes = large.size * large.count / 1e6
    ceiling = megabytes / report.median(relayed)
    stock_mbps = report.median([megabytes / run.seconds for run in bodies.stock])
    report.table(
        [
            ("", "ours", "stock", "ratio"),
            requests.row("HTTPS requests/s (20 KB, 8 connections)", small.count, "seconds"),
            requests.row("  counted when the client has all", small.count, "answered"),
            requests.cost("  CPU ms of the proxy a request", small.count),
            bodies.row("MB/s (5 MB bodies, 8 connections)", megabytes, "seconds"),
            bodies.row("  counted when the client has all", megabytes, "answered"),
            bodies.cost("  CPU ms of the proxy a MB", megabytes),
            ("  a relay that keeps nothing", f"{ceiling:.0f}", "", f"{ceiling / stock_mbps:.2f}"),
            ("responses for 1,000 of one payload, 4 proxies", str(same), "", ""),
        ]
    )
    report.figures(
        "proxy",
        {
            "https_rps_ratio": requests.ratio("seconds"),
            "https_rps_ratio_answered": requests.ratio("answered"),
            "https_rps": report.median([small.count / run.seconds for run in requests.ours]),
            "stock_https_rps": report.median([small.count / run.seconds for run in requests.stock]),
            "request_cpu_ratio": requests.ratio("cpu"),
            "body_mbps_ratio": bodies.ratio("seconds"),
            "body_mbps_ratio_answered": bodies.ratio("answered"),
            "body_mbps": report.median([megabytes / run.seconds for run in bodies.ours]),
            "body_cpu_ratio": bodies.ratio("cpu"),
            "relay_mbps_ratio": ceiling / stock_mbps,
            "responses_for_1000_same": same,
        },
    )


if __name__ == "__main__":
    asyncio.run(main())
