"""Looks at links: how many a second with thousands of connections open, and in how much memory.

A thousand hosts under names of their own, each at another address of 127.0.0.0/8, answer after a delay
as if they were far away; of ten URLs seven are fine at HEAD, and one each answers GET alone, leads on,
and is gone. A name server of the benchmark's own answers for the names. `check_requests_ratio` is the
requests a second over those of httpx, with as many at once as suit it, which asks HEAD and judges nothing.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import json
import resource
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import httpx
import psutil
import uvloop

from bench import report
from core.config.settings import EgressSettings, LinksSettings, Settings
from links.check_result import CheckVerdict
from links.checker.dns_resolver import DnsResolver
from links.checker.http_probe import HttpProber

AT_ONCE = 2_000
BASELINE_AT_ONCE = 300  # more are slower: it looks through all its connections for each request
HOSTS = 1_000
DELAY_S = 0.9
SECONDS, QUICK_S = 20.0, 6.0
KINDS = ("fine",) * 7 + ("get", "moved", "gone")
EXPECTED = {"fine": CheckVerdict.OK, "get": CheckVerdict.OK, "moved": CheckVerdict.OK, "gone": CheckVerdict.GONE}
_MIB = 1 << 20


@contextmanager
def origin(delay_s: float, certificate: Path | None = None) -> Iterator[dict[str, int]]:
    """Run the origin servers and yield their ports by name; with a certificate one of them speaks TLS."""
    command = [sys.executable, "-m", "bench.links_origin", str(delay_s)]
    command += [] if certificate is None else [str(certificate)]
    folder = Path(__file__).resolve().parents[1]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield json.loads(process.stdout.readline())
        process.stdin.close()


def url_of(number: int, port: int) -> str:
    """Return the URL with that number."""
    kind = KINDS[number % len(KINDS)]
    return f"http://n{number % HOSTS}.test:{port}/{kind}/{number}"


async def _side_by_side(
    one: Callable[[int], Awaitable[None]], seconds: float, at_once: int
) -> tuple[float, float, list[int]]:
    """Return the rate per second, the rate per CPU second, and readings of the memory in bytes.

    Counted once as many are done as run at once.
    """
    done = 0
    number = iter(range(1 << 40))
    begun = asyncio.Event()
    over = False

    async def work() -> None:
        nonlocal done
        while not over:
            await one(next(number))
            done += 1
            if done >= at_once:
                begun.set()

    working = [asyncio.create_task(work()) for _ in range(at_once)]
    await begun.wait()
    first, began, used = done, time.monotonic(), time.process_time()
    rss: list[int] = []
    for _ in range(10):
        await asyncio.sleep(seconds / 10)
        rss.append(psutil.Process().memory_info().rss)
    rate = (done - first) / (time.monotonic() - began)
    cpu_rate = (done - first) / (time.process_time() - used)
    over = True
    await asyncio.gather(*working)
    return rate, cpu_rate, rss


async def ours(ports: dict[str, int], seconds: float) -> dict[str, float]:
    """Measure our prober; return its figures."""
    names = DnsResolver(nameservers=[("127.0.0.1", ports["names"])], hosts={})
    settings = Settings(egress=EgressSettings(allow=("127.0.0.0/8",)), links=LinksSettings(timeout_s=60.0))
    prober = HttpProber(settings, is_own=lambda _: False, names=names)
    wrong: Counter[str] = Counter()

    async def one(number: int) -> None:
        kind = KINDS[number % len(KINDS)]
        finding = await prober.probe(url_of(number, ports["http"]))
        if finding.verdict is not EXPECTED[kind]:
            wrong[f"{kind}: {finding.verdict} {finding.note}"] += 1

    began = time.monotonic()
    known = [names.addresses(f"n{number}.test") for number in range(HOSTS)]
    await asyncio.gather(*known)
    names_per_s = HOSTS / (time.monotonic() - began)
    rate, cpu_rate, rss = await _side_by_side(one, seconds, AT_ONCE)
    await names.close()
    if wrong:
        print("Wrong:", dict(wrong.most_common(5)))
    async with httpx.AsyncClient() as client:
        stats = (await client.get(f"http://127.0.0.1:{ports['http']}/stats")).json()
    return {
        "checks_per_s": rate,
        "checks_per_cpu_s": cpu_rate,
        "checks_names_per_s": names_per_s,
        "checks_open_connections": stats["most"],
        "checks_rss_mib": rss[-1] / _MIB,
        "checks_rss_growth": rss[-1] / rss[2] - 1,
        "checks_wrong": sum(wrong.values()),
    }


async def baseline(ports: dict[str, int], seconds: float) -> float:
    """Return the requests a second of httpx: one HEAD each, no verdicts, no names."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(limits=limits, timeout=60.0) as client:

        async def one(number: int) -> None:
            host = f"127.{1 + number % HOSTS // 250}.{number % 250}.1"
            await client.head(f"http://{host}:{ports['http']}/fine/{number}")

        rate, _, _ = await _side_by_side(one, seconds, BASELINE_AT_ONCE)
    return rate


def figures(*, quick: bool) -> dict[str, float]:
    """Measure, print, and give the figures."""
    seconds = QUICK_S if quick else SECONDS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 16_384)), hard))
    with origin(DELAY_S) as ports:
        measurements = uvloop.run(ours(ports, seconds))  # as `weboid links check` does
    with origin(DELAY_S) as ports:
        plain = asyncio.run(baseline(ports, seconds / 3))
    # HEAD; HEAD and GET for two of ten; two HEADs for another
    measurements["check_requests_ratio"] = measurements["checks_per_s"] * 1.3 / plain
    report.table(
        [
            ("looks at links", "ours", "httpx, HEAD alone", "target"),
            ("looks a second", f"{measurements['checks_per_s']:.0f}", f"{plain:.0f}", ">= 1000"),
            ("looks a second of one CPU", f"{measurements['checks_per_cpu_s']:.0f}", "", ""),
            ("names looked up a second", f"{measurements['checks_names_per_s']:.0f}", "", ""),
            ("open connections", f"{measurements['checks_open_connections']:.0f}", "", "2000"),
            ("memory, MiB", f"{measurements['checks_rss_mib']:.0f}", "", ""),
            ("memory growth", f"{measurements['checks_rss_growth']:.3f}", "", "<= 0.05"),
            ("wrong verdicts", f"{measurements['checks_wrong']:.0f}", "", "0"),
        ]
    )
    return measurements


if __name__ == "__main__":
    args = report.arguments("Looks at links.")
    report.figures("links_checks", figures(quick=args.quick))
