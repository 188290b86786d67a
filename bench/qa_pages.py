"""Whole checks a minute: pages of real sites, archived once and then looked at and compared.

What counts is everything that `weboid qa` does with a page: what was kept is read, every part is held
against its digest, the copy is opened, pictured and read, all of it is compared, and the row is written.
Starting browser and playback is not in it. The first look at a copy has it made safe; the second finds it
in playback's cache, as a reader does who comes later.

CPU seconds a page are told by who spends them, so that the figure means something on a machine that does
other things meanwhile: two cores give 120 of them a minute.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import psutil

from bench import report
from core.clock import SystemClock
from core.config.settings import EgressSettings, PolitenessSettings, ProxySettings, Settings
from core.layout import Layout
from core.page_manifest import VisitOutcome
from core.playback_check import QaVerdict
from crawler.capture.page_capture import store_everything
from crawler.run.crawl_run import RunConfig, archive_urls
from links.registry.database import RegistryStore, open_registry_store
from playback.access.levels import DEFAULT_LEVEL
from qa.check_run import CheckRunTally, check_pages, store_check
from qa.checker import CheckOutcome, open_checkers
from qa.local_replay import ENGINE, open_browsers
from qa.sample import CandidateFilter, read_candidates, weigh_candidate
from tests.support.sites.web import TestWeb
from warc.index.database import open_database

CLOCK = SystemClock()
JOBS = 1 + (os.cpu_count() or 1)
CORES = 2
ROLES = ("checker", "browser", "playback")
_QUICK_PAGES = 6


@dataclass(slots=True)
class QaRound:
    """Cost of checking all pages once.

    Attributes:
        tally: verdicts and time.
        cpu: CPU seconds by role.
        steps: seconds by step, summed over the pages; those at the same time count each.
    """

    tally: CheckRunTally = field(default_factory=CheckRunTally)
    cpu: dict[str, float] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)


def figures(*, quick: bool) -> dict[str, float]:
    """Measure everything, print a table and return the figures."""
    with TestWeb.start(real=True) as web, tempfile.TemporaryDirectory() as folder:
        urls = web.urls.real_pages
        if quick:
            urls = urls[:: max(1, len(urls) // _QUICK_PAGES)][:_QUICK_PAGES]
        layout = Layout(Path(folder) / "collection")
        asyncio.run(_archived(urls, web, layout))
        rounds = asyncio.run(_checked(layout, rounds=2))
    _tell(rounds)
    return _figures(rounds)


async def _archived(urls: Sequence[str], web: TestWeb, layout: Layout) -> None:
    settings = Settings(
        egress=EgressSettings(allow=("127.0.0.0/8",), resolve=web.resolve, ca_file=web.ca_file),
        proxy=ProxySettings(disk_reserve_bytes=0),
        politeness=PolitenessSettings(min_delay_s=0.0, max_delay_s=0.0, visits_per_host=JOBS),
    )
    done = await archive_urls(
        RunConfig(layout.root, settings, JOBS, stored_level_of=store_everything),
        urls,
        clock=CLOCK,
        report=lambda _event: None,
    )
    assert done.outcomes[VisitOutcome.COMPLETE] == len(urls), done


async def _checked(layout: Layout, *, rounds: int) -> list[QaRound]:
    qa_rounds = []
    async with (
        open_browsers(Settings().browser, clock=CLOCK) as lend,
        open_checkers(layout, "", (DEFAULT_LEVEL,), lend, clock=CLOCK) as checkers,
    ):
        with closing(open_database(layout, "")) as database, closing(open_registry_store(layout, "")) as store:
            wanted = CandidateFilter(str(DEFAULT_LEVEL), ENGINE, again=True)
            pages = list(map(weigh_candidate, read_candidates(database, store, wanted)))
            for _ in range(rounds):
                taken = QaRound()
                before = _used()
                await check_pages(
                    pages,
                    checkers[DEFAULT_LEVEL],
                    jobs=JOBS,
                    clock=CLOCK,
                    keep=_keeper(store, layout, taken),
                    on_check=lambda _checked, _tally: None,
                    tally=taken.tally,
                    stop=asyncio.Event(),
                )
                now = _used()
                taken.cpu = {role: now[role] - before[role] for role in ROLES}
                qa_rounds.append(taken)
    return qa_rounds


def _keeper(store: RegistryStore, layout: Layout, taken: QaRound) -> Callable[[CheckOutcome], None]:
    """Return a function that stores what a check found, and counts its steps."""

    def store_and_count(checked: CheckOutcome) -> None:
        began = time.perf_counter()
        store_check(store, layout.quality_pictures, checked, now=CLOCK.now())
        steps = dict(checked.view.timings) if checked.view else {}
        steps["compare"] = checked.check.seconds - sum(steps.values())  # with what is read from the archive
        steps["keep"] = time.perf_counter() - began
        for step, spent_s in steps.items():
            taken.steps[step] = taken.steps.get(step, 0.0) + spent_s

    return store_and_count


def _used() -> Mapping[str, float]:
    """Return the CPU seconds so far: of this process, of its browsers, of its playback."""
    seconds = dict.fromkeys(ROLES, 0.0)
    seconds["checker"] = time.process_time()
    roles: dict[int, str] = {}
    for child in psutil.Process().children(recursive=True):
        try:
            role = roles.get(child.ppid()) or _role(" ".join(child.cmdline()))
            spent = child.cpu_times()
        except psutil.Error:
            continue  # it ended meanwhile, and is in its parent's sum
        if role:
            roles[child.pid] = role
            ended = spent.children_user + spent.children_system
            seconds[role] += spent.user + spent.system + ended
    return seconds


def _role(command: str) -> str:
    if "playback.replay" in command:
        return "playback"
    return "browser" if "--user-data-dir" in command else ""


def _figures(rounds: Sequence[QaRound]) -> dict[str, float]:
    measurements = {}
    for name, taken in zip(("checks", "checks_again"), rounds, strict=True):
        pages = taken.tally.done
        measurements[f"{name}_per_minute"] = taken.tally.per_minute
        measurements[f"{name}_cpu_s"] = sum(taken.cpu.values()) / pages
        measurements[f"{name}_per_minute_by_cpu"] = 60 * CORES * pages / sum(taken.cpu.values())
    measurements["good_share"] = rounds[0].tally.verdicts[QaVerdict.GOOD] / rounds[0].tally.done
    return measurements


def _tell(rounds: Sequence[QaRound]) -> None:
    measurements = _figures(rounds)
    first, again = rounds
    pages = first.tally.done
    rows: list[tuple[str, ...]] = [
        (f"{pages} pages of real sites, {JOBS} at a time", "first look", "again", "target"),
        (
            "checked a minute, by the clock",
            f"{measurements['checks_per_minute']:.0f}",
            f"{measurements['checks_again_per_minute']:.0f}",
            "60",
        ),
        (
            f"… as {CORES} cores would that do nothing else",
            f"{measurements['checks_per_minute_by_cpu']:.0f}",
            f"{measurements['checks_again_per_minute_by_cpu']:.0f}",
            "60",
        ),
        ("good, of all", f"{measurements['good_share']:.2f}", "", "1.00"),
    ]
    for role in ROLES:
        cells = (f"{taken.cpu[role] / pages * 1000:.0f}" for taken in rounds)
        rows.append((f"CPU ms a page: {role}", *cells, ""))
    steps = sorted(first.steps, key=lambda step: -first.steps[step])
    for step in steps:
        cells = (f"{taken.steps.get(step, 0.0) / pages * 1000:.0f}" for taken in (first, again))
        rows.append((f"ms a page: {step}", *cells, ""))
    report.table(rows)


if __name__ == "__main__":
    quick = report.arguments(__doc__ or "").quick
    report.figures("qa_pages", figures(quick=quick))
