"""The link registry: whole first looks a second, as `weboid links check` makes them.

Unlike `bench.links_checks` everything takes part: https with a certificate that is verified, names that
were never looked up, the timetable with its gap, a registry in SQLite that is read and written. Each URL
is looked at for the first time: the page by GET, and an invented one beside it.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import tempfile
import time
from contextlib import closing

import uvloop
from sqlalchemy import update

from bench import report
from bench.certificate import write_certificate
from bench.links_checks import origin
from core.clock import SystemClock
from core.config.settings import EgressSettings, LinksSettings, Settings
from core.layout import Layout
from links.check_history import day_of
from links.checker.check_run import CheckContext, CheckRun, CheckTally
from links.checker.check_worker import fit_to_files, plan_from_settings
from links.checker.dns_resolver import DnsResolver
from links.checker.due_urls import ALL_HOSTS
from links.checker.host_turns import HostTurns
from links.checker.http_probe import HttpProber
from links.checker.result_writer import LeaseHolder
from links.feedback.marks import LiveMarks
from links.registry.database import RegistryStore, RegistryThread, open_registry_store
from links.registry.schema import urls
from links.registry.urls import ensure_urls

HOSTS, QUICK_HOSTS = 2_000, 500
EACH = 2  # URLs of a host
GAP_S = 1.0
DELAY_S = 0.5
CONNECTIONS = 500
CLOCK = SystemClock()


async def one_pass(store: RegistryStore, settings: Settings, ports: dict[str, int]) -> CheckTally:
    """Make a pass over all that is due."""
    names = DnsResolver(nameservers=[("127.0.0.1", ports["names"])], hosts={})
    registry = RegistryThread(store, monotonic=CLOCK.monotonic)
    links = settings.links
    turns = HostTurns(links.host_gap_s, monotonic=CLOCK.monotonic)
    leases = LeaseHolder(registry, [ALL_HOSTS], "bench", clock=CLOCK)
    with closing(registry):
        async with HttpProber(settings, is_own=lambda _: False, names=names, turns=turns) as prober:
            await leases.take()
            context = CheckContext(registry, prober, turns, leases, CLOCK, LiveMarks(store, CLOCK))
            tally = await CheckRun(context, plan_from_settings(links, ALL_HOSTS)).run(asyncio.Event())
            await leases.give_back()
        await names.close()
    return tally


def figures(*, quick: bool) -> dict[str, float]:
    """Measure, print, and give the figures."""
    hosts = QUICK_HOSTS if quick else HOSTS
    today = day_of(CLOCK.now())
    with tempfile.TemporaryDirectory() as folder:
        certificate = write_certificate(Path(folder) / "certificate.pem", "*.bench.test")
        settings = fit_to_files(
            Settings(
                egress=EgressSettings(allow=("127.0.0.0/8",), ca_file=str(certificate)),
                links=LinksSettings(
                    timeout_s=60.0, host_gap_s=GAP_S, connections=CONNECTIONS, contact="https://example.org/"
                ),
            ),
            print,
        )
        with closing(open_registry_store(Layout(Path(folder)))) as store, origin(DELAY_S, certificate) as ports:
            cited = [
                f"https://n{host}.bench.test:{ports['https']}/fine/{number}"
                for host in range(hosts)
                for number in range(EACH)
            ]
            with store.writing() as rows:
                ensure_urls(rows, cited, day=today)
                rows.execute(update(urls).values(due_day=today))
            began, used = time.monotonic(), time.process_time()
            tally = uvloop.run(one_pass(store, settings, ports))
            seconds, cpu = time.monotonic() - began, time.process_time() - used
    measurements = {
        "passing_looks_per_s": tally.stored / seconds,
        "passing_looks_per_cpu_s": tally.stored / cpu,
        "passing_left": len(cited) - tally.stored,
    }
    report.table(
        [
            ("first looks, https, gap of 1 s, cold names, SQLite", "", ""),
            ("looks", f"{tally.stored}", f"{seconds:.1f} s"),
            ("looks a second", f"{measurements['passing_looks_per_s']:.1f}", ""),
            ("looks a second of one CPU", f"{measurements['passing_looks_per_cpu_s']:.1f}", ""),
            ("states", str(tally.states), ""),
        ]
    )
    return measurements


if __name__ == "__main__":
    args = report.arguments("Whole first looks at links.")
    report.figures("links_passing", figures(quick=args.quick))
