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
from core.layout import Layout
from core.settings import EgressSettings, LinksSettings, Settings
from links.asking.names import Names
from links.asking.prober import Prober
from links.books.urls import ensure_urls
from links.checking.desk import Desk
from links.checking.keeping import Tenure
from links.checking.parts import WHOLE
from links.checking.passing import Passing
from links.checking.plans import Means, Tally
from links.checking.turns import HostTurns
from links.checking.working import fit_to_files, plan_of
from links.days import day_of
from links.marks import LiveMarks
from links.store.schema import urls
from links.store.store import Store, open_store

HOSTS, QUICK_HOSTS = 2_000, 500
EACH = 2  # URLs of a host
GAP_S = 1.0
DELAY_S = 0.5
CONNECTIONS = 500
CLOCK = SystemClock()


async def one_pass(store: Store, settings: Settings, ports: dict[str, int]) -> Tally:
    """Make a pass over all that is due."""
    names = Names(nameservers=[("127.0.0.1", ports["names"])], hosts={})
    desk = Desk(store, monotonic=CLOCK.monotonic)
    links = settings.links
    turns = HostTurns(links.host_gap_s, monotonic=CLOCK.monotonic)
    tenure = Tenure(desk, [WHOLE], "bench", clock=CLOCK)
    with closing(desk):
        async with Prober(settings, is_own=lambda _: False, names=names, turns=turns) as prober:
            await tenure.take()
            means = Means(desk, prober, turns, tenure, CLOCK, LiveMarks(store, CLOCK))
            tally = await Passing(means, plan_of(links, WHOLE)).run(asyncio.Event())
            await tenure.give_back()
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
                    timeout_s=60.0,
                    host_gap_s=GAP_S,
                    connections=CONNECTIONS,
                    contact="https://example.org/",
                ),
            ),
            print,
        )
        with (
            closing(open_store(Layout(Path(folder)))) as store,
            origin(DELAY_S, certificate) as ports,
        ):
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
    found = {
        "passing_looks_per_s": tally.kept / seconds,
        "passing_looks_per_cpu_s": tally.kept / cpu,
        "passing_left": len(cited) - tally.kept,
    }
    report.table(
        [
            ("first looks, https, gap of 1 s, cold names, SQLite", "", ""),
            ("looks", f"{tally.kept}", f"{seconds:.1f} s"),
            ("looks a second", f"{found['passing_looks_per_s']:.1f}", ""),
            ("looks a second of one CPU", f"{found['passing_looks_per_cpu_s']:.1f}", ""),
            ("states", str(tally.states), ""),
        ]
    )
    return found


if __name__ == "__main__":
    args = report.arguments("Whole first looks at links.")
    report.figures("links_passing", figures(quick=args.quick))
