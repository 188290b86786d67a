"""Command group `weboid qa`; without a subcommand it checks copies against their captures."""

import asyncio
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import click

from core.clock import SystemClock
from core.errors import InputError, WeboidError
from core.playback_check import QaVerdict
from crawler.collection import read_collection
from crawler.frontier.backend import open_frontier
from crawler.profiles import load_profile
from links.registry.database import RegistryStore
from net.stop_signals import StopSignals
from playback.access.levels import DEFAULT_LEVEL, Level, LevelRules
from proxy.control.frames import ClusterSecret
from qa.check_records import RecordsSummary, write_checks
from qa.check_run import CheckRunTally, check_pages, store_check
from qa.check_store import already_checked, find_checks
from qa.check_table import CheckedPage, RepairState
from qa.checker import CheckOutcome, open_checkers
from qa.local_replay import ENGINE, is_checkable, open_browsers
from qa.repair import OPEN_REPAIRS_LIMIT
from qa.sample import (
    CandidateFilter,
    SampleCandidate,
    SampledPage,
    UnlistedVisit,
    WeightedSample,
    is_visit_pending,
    newest_captures,
    order_by_risk,
    read_candidates,
    visits_without_manifest,
    weigh_candidate,
)
from warc.index.database import IndexDatabase
from warc.index.page_choice import OFFERED
from weboid.app.qa_progress import NOTHING_TO_CHECK, QaProgress, left_out_lines, plan_lines
from weboid.cli.qa.qa_repair import (
    CollectionRepair,
    RepairReporter,
    RepairRunOptions,
    RepairSummary,
)
from weboid.cli.support.commands import (
    ExitCode,
    LazyGroupWithDefault,
    argument,
    cli_command,
    option,
)
from weboid.cli.support.options import (
    CLUSTER_SECRET,
    DEDUP,
    FRONTIER,
    OUTPUT,
    PROFILE,
    CommandOutput,
    SharedStores,
    host_name,
    start_moment,
)
from weboid.cli.support.stores import STORES, CollectionStores


@dataclass(frozen=True, slots=True)
class QaOptions:
    """Options of the command line."""

    urls: tuple[str, ...]  # check the newest captures of these; empty: see the others
    sample: int  # number of pages; 0: all
    wanted: CandidateFilter  # filter of the candidates
    levels: tuple[Level, ...]
    jobs: int
    seed: int | None  # of the random sample; None: a different one each time
    fonts: bool  # copies load their own fonts
    records: bool  # write the results into WARCs, too
    repairs: bool  # capture broken pages again
    rules: LevelRules  # which pages are shown in full


_CLOCK = SystemClock()
_LEVELS = click.Choice([str(level) for level in Level])


@cli_command("run")
def check_command(
    *,
    urls: tuple[str, ...] = argument("[URL]..."),
    sample: int = option(
        "Check so many pages: those that are likeliest to be broken, and some of every host.",
        type=click.IntRange(1),
        default=100,
    ),
    every: bool = option("Check every page, the suspect ones first.", "--all"),
    since: str = option(
        "Check what was captured from then on: 2026-11-01, 3d. Without --sample: all of it.",
        metavar="MOMENT|LENGTH",
        default="",
    ),
    host: str = option("Only pages of this host.", default="", metavar="HOST"),
    levels: tuple[str, ...] = option(
        "Check at this level.  [default: images]", "--level", type=_LEVELS
    ),
    full: bool = option(
        "Check copies at level full, too, where the levels allow it; the default without --level."
    ),
    again: bool = option("Check also what was checked already."),
    jobs: int = option(
        "Pages at the same time.",
        type=click.IntRange(1, 64),
        default=lambda: 1 + (os.cpu_count() or 1),
        show_default="one more than cores",
    ),
    seed: int | None = option("Draw the same sample as with this number."),
    fonts: bool = option(
        "Copies load their own fonts, as in `weboid serve --fonts`.",
        "--fonts/--no-fonts",
        default=True,
    ),
    no_repair: bool = option("Capture nothing again."),
    no_record: bool = option("Write nothing into WARCs: no records, no repairs."),
    dry_run: bool = option("Show what would be checked, and why."),
    stores: CollectionStores = STORES,
    frontier_url: str = FRONTIER,
    dedup_url: str = DEDUP,
    profile: str = PROFILE,
    secret: ClusterSecret | None = CLUSTER_SECRET,
    output: CommandOutput = OUTPUT,
) -> int:
    """Check copies: does playback still show what the crawler saw?

    Starts a playback of its own on this machine, opens copies in the browser, and compares each
    with the data stored at its capture: picture, text, resources. Without a URL, a sample of the
    pages that were not checked yet. Broken pages are captured again, once, as by `weboid qa
    repair`. Ctrl-C finishes the pages in progress; the same command continues where it stopped.
    Exit code 1: a copy is broken, and there is no better one.
    """
    os.environ.pop("WEBOID_SECRET", None)  # what we start need not know it
    layout = read_collection(stores.root)
    settings = SharedStores(
        frontier_url=frontier_url, database_url=stores.database_url, dedup_url=dedup_url
    ).applied_to(load_profile(profile))
    with stores.levels() as book:
        rules = book.now()
    if full or (not levels and any(rule.level is Level.FULL for rule in rules.rules)):
        levels = (*(levels or (str(DEFAULT_LEVEL),)), str(Level.FULL))
    chosen_levels = tuple(dict.fromkeys(map(Level, levels))) or (DEFAULT_LEVEL,)
    was_said = (
        click.get_current_context().get_parameter_source("sample")
        is not click.core.ParameterSource.DEFAULT
    )
    if every and was_said:
        raise InputError("Use --sample or --all, not both.")
    wanted = CandidateFilter(
        str(chosen_levels[0]),
        ENGINE,
        host=host_name(host) if host else "",
        since=start_moment(since, now=_CLOCK.now()) if since else None,
        again=again,
    )
    asked = QaOptions(
        urls,
        0 if every or (since and not was_said) else sample,
        wanted,
        chosen_levels,
        jobs,
        seed,
        fonts,
        records=not no_record,
        repairs=not (no_repair or no_record),
        rules=rules,
    )
    with stores.index() as database, stores.registry() as store:
        home = RepairRunOptions(layout, settings, asked.jobs, OPEN_REPAIRS_LIMIT, secret)
        run = _QaRun(home, stores.database_url, database, store, asked)
        if dry_run:
            return run.plan(output=output)
        return asyncio.run(run.perform(output=output))


class _QaRun:
    """Single run of the command."""

    def __init__(
        self,
        home: RepairRunOptions,
        database_url: str,
        database: IndexDatabase,
        store: RegistryStore,
        asked: QaOptions,
    ) -> None:
        self._home = home
        self._layout = home.layout
        self._database_url = database_url
        self._database = database
        self._store = store
        self._asked = asked
        self.missing: list[str] = []
        self.forbidden: list[str] = []
        self.known: list[CheckedPage] = []
        self.unlisted: list[UnlistedVisit] = []
        self._broken: list[str] = []

    def chosen(self, level: Level) -> Iterable[SampledPage]:
        asked = self._asked
        wanted = replace(asked.wanted, level=str(level))
        if asked.urls:
            return self._named(asked.urls, wanted)
        if not asked.sample:
            return order_by_risk(lambda: self._candidates(wanted))
        drawn = WeightedSample(asked.sample, random.Random(asked.seed))  # noqa: S311 no secret
        for page in self._candidates(wanted):
            drawn.add(page)
        return drawn.drawn()

    def _candidates(self, wanted: CandidateFilter) -> Iterator[SampleCandidate]:
        """Yield the pages that may be checked; at level full, only those the rules show so."""
        found = read_candidates(self._database, self._store, wanted)
        return (page for page in found if self._is_allowed(page, wanted.level))

    def _is_allowed(self, page: SampleCandidate, level: str) -> bool:
        return is_checkable(Level(level), (page.url, page.final_url), self._asked.rules)

    def _named(self, urls: Sequence[str], wanted: CandidateFilter) -> list[SampledPage]:
        found = list(newest_captures(self._database, urls))
        self.missing = [url for url, page in found if page is None]
        pages = [page for _, page in found if page is not None]
        self.forbidden += [page.url for page in pages if not self._is_allowed(page, wanted.level)]
        pages = [page for page in pages if self._is_allowed(page, wanted.level)]
        if not wanted.again:
            with self._store.reading() as reader:
                page_ids = [page.page_id for page in pages]
                done = already_checked(reader, page_ids, wanted.level, wanted.engine)
                known = find_checks(reader, done)
            self.known += [each for each in known if each.check.level == wanted.level]
            pages = [page for page in pages if page.page_id not in done]
        return list(map(weigh_candidate, pages))

    def plan(self, output: CommandOutput) -> ExitCode:
        """Print what would be checked at which level; nothing is started."""
        found = ((level, each) for level in self._asked.levels for each in self.chosen(level))
        plan_lines(found, as_json=output.is_json)
        for line in self._left_out():
            click.echo(line, err=True)
        return ExitCode.SOME_FAILED if self.missing else ExitCode.OK

    def _left_out(self) -> Iterator[str]:
        return left_out_lines(self.missing, self.forbidden, self.known, self.unlisted)

    def total(self) -> int:
        """Return the upper bound of pages to check; 0 when it is not known yet."""
        asked = self._asked
        if asked.urls or asked.sample or asked.wanted.host or asked.wanted.since:
            return 0
        rows = self._database.rows(f"SELECT count(*) AS many FROM pages WHERE {OFFERED}", {})  # noqa: S608 constants of ours
        return int(rows[0]["many"]) * len(asked.levels) if rows else 0

    async def perform(self, output: CommandOutput) -> ExitCode:
        with (
            QaProgress(as_json=output.is_json, total=self.total()) as show,
            StopSignals(lambda: show.say("Stopping: what is begun is finished.")) as stop,
        ):
            self.unlisted = self._unlisted()
            tally = await self._check(show, stop)
            written = RecordsSummary()
            if self._asked.records and not stop.at_once:
                written = await self._write(show)
            error = written.error
            is_stopped = stop.event.is_set()
        repaired = RepairSummary()
        if self._asked.repairs and not is_stopped and error is None:
            try:
                # Capture again what is broken, of this run and of those before.
                repair = CollectionRepair(self._home, self._store).repair
                repaired = await repair(RepairReporter(output))
            except WeboidError as failed:
                error = failed
            if repaired.ended and error is None:
                written = await self._write(show)
                error = written.error
        for line in (*self._left_out(), *repaired.lines):
            show.say(line)
        if not (tally.done or self._asked.urls or is_stopped or repaired.lines):
            show.say(NOTHING_TO_CHECK[self._asked.wanted.again])
        is_stopped = is_stopped or repaired.stopped
        show.ended(
            tally,
            stopped=is_stopped,
            unrecorded=written.left,
            missing=self.missing,
            repaired=dict(repaired.ended),
            without_manifest=[[each.url, each.page_id] for each in self.unlisted],
        )
        if error is not None:
            raise error
        if is_stopped:
            return ExitCode.STOPPED
        is_well = not (self.missing or self.unlisted or self._stays_broken())
        return ExitCode.OK if is_well else ExitCode.SOME_FAILED

    def _unlisted(self) -> list[UnlistedVisit]:
        """Return visits whose manifest is missing; empty for a run over a part of the archive."""
        asked, settings = self._asked, self._home.settings
        if asked.urls or asked.wanted.host or asked.wanted.since:
            return []
        found = visits_without_manifest(self._database)
        if not found:
            return []
        with open_frontier(self._layout, settings.frontier, settings.politeness) as frontier:
            return [each for each in found if not is_visit_pending(frontier, each)]

    def _stays_broken(self) -> bool:
        broken = [each.check.page_id for each in self.known if each.verdict is QaVerdict.BROKEN]
        with self._store.reading() as reader:
            found = find_checks(reader, [*self._broken, *broken])
        return any(
            each.verdict is QaVerdict.BROKEN and each.repair is not RepairState.DONE_BETTER
            for each in found
        )

    async def _check(self, show: QaProgress, stop: StopSignals) -> CheckRunTally:
        """Check the chosen pages; nothing is started when there are none."""
        asked, tally = self._asked, CheckRunTally()
        chosen: dict[Level, Iterable[SampledPage]]
        chosen = {level: self.chosen(level) for level in asked.levels}
        if asked.urls or asked.sample:
            listed = {level: list(pages) for level, pages in chosen.items()}
            chosen = {**listed}
            many = sum(map(len, listed.values()))
            show.expect(many)
            if not many:
                return tally
        with stop.cut_short():
            async with (
                open_browsers(self._home.settings.browser, clock=_CLOCK) as lend,
                open_checkers(
                    self._layout,
                    self._database_url,
                    asked.levels,
                    lend,
                    clock=_CLOCK,
                    fonts=asked.fonts,
                ) as checkers,
            ):
                # Playback minds SIGTERM, too, once it runs.
                stop.listen()
                for level, pages in chosen.items():
                    await check_pages(
                        pages,
                        checkers[level],
                        jobs=asked.jobs,
                        clock=_CLOCK,
                        keep=self._keep,
                        told=show.checked,
                        tally=tally,
                        stopping=stop.event,
                    )
        return tally

    def _keep(self, checked: CheckOutcome) -> None:
        store_check(self._store, self._layout.quality_pictures, checked, now=_CLOCK.now())
        if checked.check.verdict is QaVerdict.BROKEN:
            self._broken.append(checked.check.page_id)

    async def _write(self, show: QaProgress) -> RecordsSummary:
        """Write records of checks that have none yet; report the reason when that is deferred."""
        home = self._home
        written = await write_checks(home.layout, home.settings, self._store, home.secret)
        if written.left and written.error is None:
            show.say(written.text)
        return written


_COMMANDS = {
    "baseline": "weboid.cli.qa.qa_baseline",
    "compare": "weboid.cli.qa.qa_compare:compare_command",
    "drift": "weboid.cli.qa.qa_compare:drift_command",
    "repair": "weboid.cli.qa.qa_repair",
    "ls": "weboid.cli.qa.qa_results:ls_command",
    "marks": "weboid.cli.qa.qa_results:marks_command",
    "report": "weboid.cli.qa.qa_results:report_command",
}

command = LazyGroupWithDefault(
    "qa",
    commands_at=_COMMANDS,
    callback=check_command.callback,
    params=check_command.params,
    help=check_command.help,
    invoke_without_command=True,
)
