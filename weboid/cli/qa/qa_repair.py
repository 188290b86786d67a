"""Command `weboid qa repair`: recapture of broken pages."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import CollectionInUseError, InvariantError
from core.layout import Layout
from core.page_manifest import PageInfo
from crawler.collection import read_collection
from crawler.frontier.backend import open_frontier
from crawler.frontier.base import AddResult, Frontier
from crawler.profiles import load_profile, overlay_profile
from crawler.run.context_builder import make_slot_assigner
from crawler.run.crawl_run import RunConfig, perform_run
from crawler.worker.crawl_events import Event, PageRepaired
from links.registry.database import RegistryStore, open_registry_store
from net.backoff import WaitStarted
from playback.access.levels import DEFAULT_LEVEL, Level
from proxy.control.frames import ClusterSecret
from qa.check_records import RecordsSummary, write_checks
from qa.check_table import CheckedPage, RepairState
from qa.live_checks import CaptureInspector
from qa.repair import OPEN_REPAIRS_LIMIT, RepairContext, RepairManager
from warc.artifact_reader import read_manifest
from warc.index.opener import open_index
from weboid.app.live_check_tools import create_live_checks, open_check_tools, open_withheld_lookup
from weboid.app.text_table import clean
from weboid.cli.support.commands import ExitCode, cli_command, option
from weboid.cli.support.options import (
    CLUSTER_SECRET,
    COLLECTION,
    OUTPUT,
    PROFILE,
    SHARED,
    WORKERS,
    CommandOutput,
    SharedStores,
)
from weboid.cli.support.run_options import open_stored_levels, unlock_logins

_CLOCK = SystemClock()
_NOTHING = "Nothing is to be captured again."
_ATTEMPTS = 2  # a site that is away is not waited for
_LEFT = {
    "shared": "the workers of the shared frontier (`weboid worker`) visit them",
    "in use": "the process that writes the collection visits them",
    "others": "other pages wait in the frontier, too: `weboid archive --qa` visits them all",
}


@dataclass(frozen=True, slots=True)
class RepairRunOptions:
    """Options of a repair run."""

    layout: Layout
    settings: Settings
    workers: int
    limit: int  # upper bound of recaptures
    secret: ClusterSecret | None = None  # shared secret of a cluster's proxies; None: there is none


@dataclass(slots=True)
class RepairSummary:
    """Summary of a run of repairs."""

    ended: Counter[str] = field(default_factory=Counter)  # number of repairs by outcome
    left: int = 0  # repairs that have begun and not ended
    why_left: str = ""  # key into `_LEFT` for who visits them; empty: none are left to others
    stopped: bool = False  # whether a stop was requested

    @property
    def is_well(self) -> bool:
        """Return True if every repair that ended produced a better capture."""
        return set(self.ended) <= {RepairState.DONE_BETTER}

    @property
    def lines(self) -> list[str]:
        """Return the summary as text; empty when nothing was done."""
        found = []
        if self.ended:
            ended = ", ".join(f"{count} {state}" for state, count in sorted(self.ended.items()))
            found.append(f"Captured again: {self.ended.total()} ({ended}).")
        if self.left:
            who = f": {_LEFT[self.why_left]}" if self.why_left else ""
            found.append(f"Begun and not ended: {self.left}{who}. Then: weboid qa repair")
        return found


@cli_command("repair")
def command(
    *,
    limit: int = option(
        "Capture so many again at most.",
        type=click.IntRange(1, OPEN_REPAIRS_LIMIT),
        default=OPEN_REPAIRS_LIMIT,
    ),
    dry_run: bool = option("List what would be captured again, do nothing."),
    collection: Path = COLLECTION,
    shared: SharedStores = SHARED,
    profile: str = PROFILE,
    workers: int = WORKERS,
    secret: ClusterSecret | None = CLUSTER_SECRET,
    output: CommandOutput = OUTPUT,
) -> int:
    """Capture broken pages again, once, with the thorough profile.

    Broken pages are those that a check found broken, that a person marked bad, or whose recapture
    was requested. Each new capture is checked as the old one was; readers are offered the better of
    the two, and both are kept. Robots, politeness and policies apply as for any visit. The same
    command continues where it was stopped. Exit code 1: a repair produced nothing better.
    """
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    layout = read_collection(collection)
    settings = shared.applied_to(load_profile(profile))
    with closing(open_registry_store(layout, settings.index.url)) as store:
        home = RepairRunOptions(layout, settings, workers, limit, secret)
        if dry_run:
            rows = CollectionRepair(home, store).wanted()
            for row in rows:
                check = row.check
                facts = {"event": "wanted", "url": check.url, "page_id": check.page_id}
                facts |= {"level": check.level, "verdict": str(row.verdict), "reason": check.reason}
                text = f"{row.verdict or 'unchecked':9} {check.captured_at} {check.url}  {check.reason}"
                output.show(facts, clean(text))
            if not rows and not output.is_json:
                click.echo(_NOTHING)
            return ExitCode.OK
        done, written = asyncio.run(_repair_and_write(home, store, output=output))
    _say(done, written, output=output)
    if written.error is not None:
        raise written.error
    if done.stopped:
        return ExitCode.STOPPED
    return ExitCode.OK if done.is_well else ExitCode.SOME_FAILED


async def _repair_and_write(
    home: RepairRunOptions, store: RegistryStore, output: CommandOutput
) -> tuple[RepairSummary, RecordsSummary]:
    done = await CollectionRepair(home, store).repair(RepairReporter(output))
    if not done.ended:
        return done, RecordsSummary()
    return done, await write_checks(home.layout, home.settings, store, home.secret)


async def _nobody_checks(_page: PageInfo, _level: str) -> CheckedPage:
    raise InvariantError("No check tools are open.")


class CollectionRepair:
    """Repairs of one collection."""

    def __init__(self, home: RepairRunOptions, store: RegistryStore) -> None:
        self._home = home
        self._store = store

    def wanted(self) -> list[CheckedPage]:
        """Return the pages that would be captured again."""
        with self._repairs() as repairs:
            return repairs.wanted(self._home.limit)

    async def repair(self, tell: Callable[[Event], None]) -> RepairSummary:
        """Repair the pages, and complete repairs in progress."""
        done = RepairSummary()
        with self._repairs() as repairs:
            todo = [*repairs.wanted(self._home.limit), *repairs.begun()]
            if not todo:
                return done
            # Reason that other workers make the visits; empty when this process does.
            if self._home.settings.frontier.url:
                done.why_left = "shared"
            else:
                done.why_left = "others" if repairs.others_wait() else ""

        def report(event: Event) -> None:
            if isinstance(event, PageRepaired):
                done.ended[event.state] += 1
            tell(event)

        if not done.why_left:
            try:
                home = self._home
                quality = replace(home.settings.quality, share=0.0, repairs=home.limit)

                async def nothing(_frontier: Frontier) -> AddResult:
                    return AddResult()

                with open_stored_levels(home.layout, home.settings.index.url) as level_of:
                    settings = home.settings
                    settings = overlay_profile(settings, quality.repair_profile, ("proxy",))
                    frontier = replace(
                        settings.frontier, attempts=min(settings.frontier.attempts, _ATTEMPTS)
                    )
                    # A payload in a bucket of the profile's may be the very one that is damaged.
                    proxy = replace(settings.proxy, dedup_also=())
                    run = RunConfig(
                        home.layout.root,
                        replace(settings, frontier=frontier, proxy=proxy, quality=quality),
                        home.workers,
                        logins=unlock_logins(home.settings, home.layout.root),
                        companion=create_live_checks(quality, _levels_of(todo)),
                        eager=True,
                        stored_level_of=level_of,
                    )
                    account = await perform_run(
                        run, nothing, clock=_CLOCK, started=lambda *_: None, report=report
                    )
                done.stopped = account.stopped
            except CollectionInUseError:
                done.why_left = "in use"
        if done.why_left:
            await self._with_others(report)
        with self._repairs() as repairs:
            done.left = len(repairs.begun())
        return done

    async def _with_others(self, report: Callable[[Event], None]) -> None:
        home = self._home
        with self._repairs() as repairs:
            over = repairs.over()
            await repairs.begin(home.limit)
        if not over:
            return
        levels = _levels_of(over)
        async with open_check_tools(home.layout, home.settings, _CLOCK, levels) as tools:
            check = CaptureInspector(tools, report, _CLOCK).check
            with self._repairs(check, tools.checkers.keys(), report) as repairs:
                await repairs.finish()

    @contextmanager
    def _repairs(
        self,
        check: Callable[[PageInfo, str], Awaitable[CheckedPage]] = _nobody_checks,
        levels: Collection[str] = (),
        report: Callable[[Event], None] = lambda _event: None,
    ) -> Iterator[RepairManager]:
        """Yield repairs that other workers visit; without levels none is completed."""
        home, settings = self._home, self._home.settings
        with (
            open_frontier(home.layout, settings.frontier, settings.politeness) as frontier,
            closing(open_index(home.layout, settings.index)) as index,
            open_withheld_lookup(home.layout, settings.index.url, _CLOCK) as is_withheld,
        ):
            yield RepairManager(
                RepairContext(
                    self._store,
                    frontier,
                    make_slot_assigner(settings),
                    lambda page_id: read_manifest(home.layout, index, page_id),
                    check,
                    levels,
                    is_withheld,
                    _CLOCK,
                    report,
                    settings.quality.repair_profile,
                )
            )


def _levels_of(todo: Sequence[CheckedPage]) -> list[Level]:
    found = [DEFAULT_LEVEL]
    for each in todo:
        with suppress(ValueError):
            found.append(Level(each.check.level))
    return list(dict.fromkeys(found))


class RepairReporter:
    """Output of each repair as it ends, as text or JSON lines."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output

    def __call__(self, event: Event) -> None:
        """Report the event, as far as the output format includes it."""
        if isinstance(event, PageRepaired):
            facts = {
                "event": "repaired",
                "url": event.url,
                "page_id": event.page_id,
                "state": event.state,
                "reason": event.reason,
                "repair_page_id": event.repair_page_id,
            }
            self._output.show(facts, clean(f"{event.state:15} {event.url}  {event.reason}"))
        elif isinstance(event, WaitStarted):
            facts = {"event": "waiting", "reason": event.reason, "text": event.text}
            self._output.show(facts, clean(event.text))


def _say(done: RepairSummary, written: RecordsSummary, output: CommandOutput) -> None:
    facts = {"event": "summary", "repaired": dict(done.ended), "left": done.left}
    more = {"why_left": done.why_left, "stopped": done.stopped, "unrecorded": written.left}
    told = [written.text] if written.left and written.error is None else []
    output.show({**facts, **more}, [*(done.lines or [_NOTHING]), *told])
