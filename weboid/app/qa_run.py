"""Run of `weboid qa`: checks of chosen pages, their records, repairs; progress as text or JSON lines."""

import asyncio
import heapq
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from core.clock import SystemClock
from core.errors import WeboidError
from core.json_values import json_facts
from core.playback_check import PlaybackCheck, QaVerdict
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.worker.crawl_events import Event, PageChecked
from links.registry.database import RegistryStore
from net.stop_signals import StopSignals
from playback.access.levels import DEFAULT_LEVEL, Level, LevelRules
from qa import sample
from qa.check_run import CheckRunOptions, CheckRunTally, RecordsSummary, check_copies, store_check, write_checks
from qa.check_store import already_checked, find_checks
from qa.check_table import CheckedPage, RepairState
from qa.checker import CheckOutcome
from qa.local_replay import is_checkable
from qa.sample import CandidateFilter, SampleCandidate, SampledPage, UnlistedVisit
from warc.index.database import IndexDatabase
from warc.index.queries import OFFERED
from weboid.app.collection_repair import CollectionRepair, RepairRunOptions, RepairSummary
from weboid.app.text_table import clean, table, width

_CLOCK = SystemClock()
_WORST = 10
_MOST_NAMED = 10  # visits without a manifest
# Reason that nothing was checked, by whether --again was given.
_NOTHING_TO_CHECK = {
    False: "Nothing is left to check; --again repeats earlier checks.",
    True: "No such capture has a copy.",
}
_SHOWN_FIELDS = "page_id url captured_at level score picture text resources reason seconds"
_VERDICTS = (QaVerdict.GOOD, QaVerdict.DOUBTFUL, QaVerdict.BROKEN, QaVerdict.UNCHECKED)
_NAMES = {verdict: verdict or "unchecked" for verdict in _VERDICTS}


class QaProgress:
    """Progress output of a run. A context manager that removes the bar."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._worst: list[tuple[float, int, PlaybackCheck]] = []
        self._count = 0
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[standing]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=as_json or not console.is_terminal,
        )
        self._task = self._progress.add_task("checking", total=None, standing="")

    def __enter__(self) -> "QaProgress":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def expect(self, total: int) -> None:
        """Set the number of pages to check."""
        self._progress.update(self._task, total=total)

    def checked(self, checked: CheckOutcome, tally: CheckRunTally) -> None:
        """Report a checked page."""
        check = checked.check
        if self._as_json:
            more = {"verdict": _NAMES[check.verdict], "faults": list(check.faults), "lost": check.lost}
            event = {"event": "check", **json_facts(check, _SHOWN_FIELDS), **more}
            click.echo(json.dumps(event, ensure_ascii=False))
        self._progress.update(self._task, completed=tally.done, standing=_standing(tally))
        if check.verdict in (QaVerdict.BROKEN, QaVerdict.DOUBTFUL):
            self._count += 1
            score = 0.0 if check.score is None else check.score
            heapq.heappush(self._worst, (((check.verdict is QaVerdict.BROKEN) + 1 - score), self._count, check))
            if len(self._worst) > _WORST:
                heapq.heappop(self._worst)

    def notify(self, sentence: str) -> None:
        """Print a notice for people; JSON output has it in the summary."""
        if not self._as_json:
            self._progress.console.print(clean(sentence), markup=False, highlight=False, soft_wrap=True)

    def ended(self, tally: CheckRunTally, **more: Any) -> None:
        """Report the end of the run; `more` are facts for JSON output."""
        if self._as_json:
            counts = {name: tally.verdicts[verdict] for verdict, name in _NAMES.items()}
            facts = {"event": "summary", "checked": tally.done, **counts}
            speed = {"seconds": round(tally.seconds, 1), "per_minute": round(tally.per_minute, 1)}
            click.echo(json.dumps({**facts, **speed, **more}))
            return
        rows = [
            (
                str(check.verdict),
                "-" if check.score is None else f"{check.score:.2f}",
                ", ".join(check.faults) or "-",
                check.url if not check.reason else f"{check.url}  {check.reason}",
            )
            for *_, check in sorted(self._worst, reverse=True)
        ]
        for line in table(("verdict", "score>", "faults", "page"), rows, columns=width()) if rows else ():
            click.echo(line)
        if not tally.done:
            return
        click.echo(f"{tally.done} checked: {_standing(tally)}.")
        if self._worst:
            click.echo("Next: weboid qa ls --html")


def _standing(tally: CheckRunTally) -> str:
    shown = (verdict for verdict in _NAMES if verdict or tally.verdicts[verdict])
    counts = [f"{tally.verdicts[verdict]} {_NAMES[verdict]}" for verdict in shown]
    return f"{', '.join(counts)}, {tally.per_minute:.0f} a minute"


@dataclass(frozen=True, slots=True)
class QaOptions:
    """Options of a run."""

    urls: tuple[str, ...]  # check the newest captures of these; empty: see the others
    sample: int  # number of pages; 0: all
    wanted: CandidateFilter
    levels: tuple[Level, ...]
    seed: int | None  # of the random sample; None: a different one each time
    fonts: bool  # copies load their own fonts
    records: bool  # write the results into WARCs, too
    repairs: bool  # capture broken pages again
    rules: LevelRules  # which pages are shown in full


class QaRunEnd(NamedTuple):
    """How a run ended."""

    stopped: bool  # a stop was requested
    is_well: bool  # nothing is missing, and every broken copy has a better one


@dataclass
class QaRun:
    """Single run over a collection with its captures index and registry open."""

    _options: QaOptions
    _repair: RepairRunOptions
    _database_url: str
    _database: IndexDatabase
    _store: RegistryStore
    report: Callable[[PageChecked], None] = lambda _event: None  # called with each stored check
    _missing: list[str] = field(default_factory=list)  # named URLs without a capture
    _forbidden: list[str] = field(default_factory=list)  # named URLs that no level rule shows so
    _known: list[CheckedPage] = field(default_factory=list)  # named URLs that were checked already
    _unlisted: list[UnlistedVisit] = field(default_factory=list)
    _broken: list[str] = field(default_factory=list)  # page ids

    def plan(self, *, as_json: bool) -> bool:
        """Print what would be checked at which level; False when a named URL has no capture."""
        chosen = ((str(level), each) for level in self._options.levels for each in self._chosen(level))
        if as_json:
            for level, each in chosen:
                facts = {"event": "planned", **json_facts(each.page, "page_id url timestamp"), "level": level}
                facts |= {"weight": each.weight, "why": each.reasons}
                click.echo(json.dumps(facts, ensure_ascii=False))
        elif rows := [
            (f"{each.weight:.0f}", each.page.timestamp, level, "; ".join(each.reasons) or "-", each.page.url)
            for level, each in chosen
        ]:
            head = ("risk>", "captured", "level", "why", "page")
            click.echo("\n".join(table(head, rows, columns=width())))
        else:
            click.echo("There is nothing to check; --again repeats earlier checks.")
        for line in self._left_out():
            click.echo(line, err=True)
        return not self._missing

    async def perform(self, *, as_json: bool, on_repair: Callable[[Event], None]) -> QaRunEnd:
        """Check the chosen pages, write records, capture broken pages again, and print the summary."""
        with (
            QaProgress(as_json=as_json) as show,
            StopSignals(lambda: show.notify("Stopping: checks in progress finish.")) as stop,
        ):
            self._unlisted = self._visits_without_manifest()
            tally = await self._check(show, stop)
            written = RecordsSummary()
            if self._options.records and not stop.at_once:
                written = await self._write_records(show)
            error = written.error
            is_stopped = stop.event.is_set()
        repaired = RepairSummary()
        if self._options.repairs and not is_stopped and error is None:
            try:
                # Capture broken pages again, of this run and earlier ones.
                repaired = await CollectionRepair(self._repair, self._store).repair(on_repair)
            except WeboidError as failed:
                error = failed
            if repaired.ended and error is None:
                written = await self._write_records(show)
                error = written.error
        for line in (*self._left_out(), *repaired.lines):
            show.notify(line)
        if not (tally.done or self._options.urls or is_stopped or repaired.lines):
            show.notify(_NOTHING_TO_CHECK[self._options.wanted.again])
        is_stopped = is_stopped or repaired.stopped
        show.ended(
            tally,
            stopped=is_stopped,
            unrecorded=written.left,
            missing=self._missing,
            repaired=dict(repaired.ended),
            without_manifest=[[each.url, each.page_id] for each in self._unlisted],
        )
        if error is not None:
            raise error
        broken = [each.check.page_id for each in self._known if each.verdict is QaVerdict.BROKEN]
        with self._store.reading() as reader:
            checks = find_checks(reader, [*self._broken, *broken])
        still = (each for each in checks if each.verdict is QaVerdict.BROKEN)
        stays_broken = any(each.repair is not RepairState.DONE_BETTER for each in still)
        return QaRunEnd(is_stopped, not (self._missing or self._unlisted or stays_broken))

    def _chosen(self, level: Level) -> Iterable[SampledPage]:
        options = self._options
        wanted = replace(options.wanted, level=str(level))
        if options.urls:
            return self._named(options.urls, wanted)

        def candidates() -> Iterator[SampleCandidate]:
            """Return the pages that may be checked; at level full, only those the rules show so."""
            pages = sample.read_candidates(self._database, self._store, wanted)
            return (page for page in pages if self._is_allowed(page, wanted.level))

        if not options.sample:
            return sample.order_by_risk(candidates)
        drawing = sample.WeightedSample(options.sample, random.Random(options.seed))  # noqa: S311 no secret
        for page in candidates():
            drawing.add(page)
        return drawing.drawn()

    def _is_allowed(self, page: SampleCandidate, level: str) -> bool:
        return is_checkable(Level(level), (page.url, page.final_url), self._options.rules)

    def _named(self, urls: Sequence[str], wanted: CandidateFilter) -> list[SampledPage]:
        captures = list(sample.newest_captures(self._database, urls))
        self._missing = [url for url, page in captures if page is None]
        judged = [(page, self._is_allowed(page, wanted.level)) for _, page in captures if page is not None]
        pages = [page for page, is_allowed in judged if is_allowed]
        self._forbidden += [page.url for page, is_allowed in judged if not is_allowed]
        if not wanted.again:
            with self._store.reading() as reader:
                done = already_checked(reader, [page.page_id for page in pages], wanted.level, wanted.engine)
                known = find_checks(reader, done)
            self._known += [each for each in known if each.check.level == wanted.level]
            pages = [page for page in pages if page.page_id not in done]
        return list(map(sample.weigh_candidate, pages))

    def _left_out(self) -> Iterator[str]:
        """Yield a sentence for each named URL not checked, and each page that cannot be checked."""
        for url in self._missing:
            yield f"{url}: there is no capture with a copy."
        for url in self._forbidden:
            yield f"{url}: no level rule shows it at level full; `weboid level set` adds one."
        for each in self._known:
            level = "" if each.check.level == DEFAULT_LEVEL else f" ({each.check.level})"
            yield f"{each.check.url}{level}: already checked, {each.verdict}; --again checks it again."
        for visit in self._unlisted[:_MOST_NAMED]:
            yield (
                f"{visit.url}: its records exist but its manifest is missing, so readers are not offered it;"
                " `weboid archive --again URL` captures it again."
            )
        if len(self._unlisted) > _MOST_NAMED:
            yield f"And {len(self._unlisted) - _MOST_NAMED} more without a manifest, see --json."

    def _visits_without_manifest(self) -> list[UnlistedVisit]:
        """Return visits whose manifest is missing; empty for a run over a part of the archive."""
        options, settings = self._options, self._repair.settings
        is_part = options.urls or options.wanted.host or options.wanted.since
        visits = [] if is_part else sample.visits_without_manifest(self._database)
        if not visits:
            return []
        with open_frontier(self._repair.layout, settings.frontier, settings.politeness) as frontier:
            return [each for each in visits if not sample.is_visit_pending(frontier, each)]

    async def _check(self, show: QaProgress, stop: StopSignals) -> CheckRunTally:
        """Check the chosen pages; nothing is started when there are none."""
        options, repair = self._options, self._repair
        chosen = {level: self._chosen(level) for level in options.levels}
        if options.urls or options.sample:
            show.expect(sum(len(pages) for pages in chosen.values() if isinstance(pages, list)))
        elif not (options.wanted.host or options.wanted.since):  # at most all pages
            query = f"SELECT count(*) AS many FROM pages WHERE {OFFERED}"  # noqa: S608 constants of ours
            for row in self._database.rows(query, {}):
                show.expect(int(row["many"]) * len(options.levels))
        run_options = CheckRunOptions(
            repair.layout, self._database_url, repair.settings.browser, repair.workers, _CLOCK, fonts=options.fonts
        )
        turns: list[tuple[Level, Iterable[SampledPage]]] = []
        for level, pages in chosen.items():
            source = iter(pages)
            # A turn may depend on the results of those before, so only the first ones are looked into.
            first = [] if turns else await asyncio.to_thread(list, islice(source, 1))
            if turns or first:
                turns.append((level, chain(first, source)))
        if not turns:
            return CheckRunTally()
        return await check_copies(run_options, turns, stop, keep=self._store_check, on_check=show.checked)

    def _store_check(self, checked: CheckOutcome) -> None:
        check = checked.check
        store_check(self._store, self._repair.layout.quality_pictures, checked, now=_CLOCK.now())
        self.report(PageChecked(check.url, check.page_id, check.level, check.verdict, check.score, check.reason))
        if check.verdict is QaVerdict.BROKEN:
            self._broken.append(check.page_id)

    async def _write_records(self, show: QaProgress) -> RecordsSummary:
        """Write records of checks that have none yet; report the reason when that is deferred."""
        repair = self._repair
        written = await write_checks(repair.layout, repair.settings, self._store, repair.secret)
        if written.left and written.error is None:
            show.notify(written.text)
        return written
