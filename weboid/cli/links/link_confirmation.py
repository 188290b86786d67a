"""`weboid links confirm`: confirmation of suspected dead links by a browser."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import click

from core.clock import SystemClock
from core.config.settings import Settings
from core.layout import Layout
from core.page_manifest import VisitOutcome
from core.urls import identity_key
from crawler.frontier.backend import open_frontier
from crawler.frontier.base import ClaimAttempt, ItemRecord, ItemState, Lane, NewItem
from crawler.policy.policy_evaluator import ROBOTS_UNAVAILABLE
from crawler.policy.robots_cache import NO_ROBOTS
from crawler.run.context_builder import make_slot_assigner
from crawler.run.crawl_run import RunConfig, RunSummary, archive_urls
from crawler.worker.crawl_events import Event, PageDone, PageSkipped
from crawler.worker.page_task import HOST_DOWN, ONE_ATTEMPT
from links.check_result import CheckResult, CheckVerdict
from links.checker.browser_check import VisitSummary, result_of_visit
from links.checker.due_urls import AwaitingLink, links_awaiting_browser
from links.checker.result_store import CheckRules, RecordedResult, UrlCheckResult, record_results
from links.registry.database import RegistryStore, open_registry_store
from links.registry.urls import find_urls
from links.states import preset_of
from net.connect_errors import UNREACHABLE
from net.stop_signals import StopSignals
from warc.artifact_reader import ArtifactReader
from warc.index.database import open_database
from weboid.app.capture_opinions import CaptureOpinions
from weboid.cli.support.commands import cli_command, option
from weboid.cli.support.options import (
    COLLECTION,
    DURATION,
    OUTPUT,
    PROFILE,
    SHARED,
    WORKERS,
    CommandOutput,
    SharedStores,
)
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.run_options import open_stored_levels
from weboid.cli.support.stores import registry_settings

_CLOCK = SystemClock()
_AT_ONCE = 200


_ONE_ATTEMPT_DAYS = 7  # a link unvisited for this long is dropped from this round


@cli_command("confirm")
def confirm_command(
    *,
    limit: int = option("At most so many links.", default=500),
    no_visit: bool = option("Only take the captures that are there."),
    hand_over: bool = option(
        "Leave the visits to who works on the collection: `weboid archive --stay`."
    ),
    lately: timedelta | None = option(
        "Also hold what was captured so lately against its first copy: 7d.",
        "--captures",
        type=DURATION,
        metavar="LENGTH",
    ),
    every: timedelta | None = option(
        "Again and again, so often: 6h.", type=DURATION, metavar="LENGTH"
    ),
    dry_run: bool = option("List the links that wait, and do nothing."),
    collection: Path = COLLECTION,
    shared: SharedStores = SHARED,
    profile: str = PROFILE,
    workers: int = WORKERS,
    output: CommandOutput = OUTPUT,
) -> None:
    """Confirm in a browser the links that are about to be marked dead.

    A link is marked dead only after a browser has failed at it, too. This visits the links that
    wait for confirmation, stores the captures in the collection, and records the result: gone,
    refused, back again, another page than the copy, or a changed owner of the domain.
    """
    settings = registry_settings(profile, shared.database_url, collection)
    if not (no_visit or dry_run):
        settings = replace(shared, database_url="").applied_to(settings)
    layout = Layout(collection)
    with (
        closing(open_registry_store(layout, settings.index.url)) as store,
        closing(open_database(layout, settings.index.url)) as database,
    ):
        if dry_run:
            with store.reading() as rows:
                waiting = links_awaiting_browser(rows, limit=limit)
            for each in waiting:
                click.echo(each.address)
            return
        queue = partial(_queue_records, layout, settings)
        task = _BrowserConfirmation(
            store, CaptureOpinions(database, ArtifactReader(layout)), settings, queue
        )
        crew = None if no_visit else _ConfirmOptions(collection, workers, output.is_json, hand_over)
        goes_on = True
        while goes_on:
            left, goes_on = task.round(crew, limit=limit, lately=lately)
            _say(task.booked, left, output=output)
            task.booked.clear()
            goes_on = goes_on and every is not None and asyncio.run(wait_unless_stopped(every))


@dataclass(frozen=True, slots=True)
class _ConfirmOptions:
    """Options of the command: target collection and visits."""

    root: Path
    workers: int
    quiet: bool
    hand_over: bool


async def wait_unless_stopped(length: timedelta) -> bool:
    """Wait for that time; return False when a stop was requested."""
    with StopSignals(lambda: None) as stop:
        try:
            await asyncio.wait_for(stop.event.wait(), length.total_seconds())
        except TimeoutError:
            return True
    return False


class _BrowserConfirmation:
    """Writer of check results that are derived from captures."""

    def __init__(
        self,
        store: RegistryStore,
        copies: CaptureOpinions,
        settings: Settings,
        queue: Callable[[Sequence[str]], Sequence[ItemRecord | None]],
    ) -> None:
        self._store = store
        self._copies = copies
        self._settings = settings
        self._queue = queue
        preset = preset_of(settings.links.preset, trusts_tags=settings.links.trust_tags)
        self._rules = CheckRules(preset, browser=True)
        self.booked: list[RecordedResult] = []  # results that were stored

    def round(
        self, crew: _ConfirmOptions | None, *, limit: int, lately: timedelta | None
    ) -> tuple[list[AwaitingLink], bool]:
        """Record known results, have the other links visited, and record the new results.

        Returns the links that still wait, and False when a stop was requested.
        """
        with self._store.reading() as rows:
            waiting = links_awaiting_browser(rows, limit=limit)
        left, stopped = self.take(waiting), False
        answering = _origins(waiting, without=left)
        for _ in range(2):
            if not left or crew is None or stopped:
                break
            now = _CLOCK.now()
            urls = [each.address for each in _first_of_hosts(left, answering, now=now)]
            stopped = asyncio.run(_visit(urls, crew, self._settings)).stopped
            left = self.take(left)
            if crew.hand_over:
                break
            answering |= _origins(left)  # what is left now has to be visited by itself
        if lately is not None:
            self.compare(_CLOCK.now() - lately)
        return left, not stopped

    def take(self, waiting: Sequence[AwaitingLink]) -> list[AwaitingLink]:
        """Record the results of visits to these links; return those without a result.

        A host that was unreachable for the browser is unreachable for all of its links: one visit
        counts for those that waited for confirmation then.
        """
        until = _CLOCK.now() + timedelta(days=1)
        found: dict[int, tuple[CheckResult, datetime]] = {}
        records = self._queue([each.address for each in waiting])
        for each, record in zip(waiting, records, strict=True):
            opinion = self._copies.opinion(each.address, since=each.since, until=until)
            if opinion is None or opinion[0].verdict is CheckVerdict.UNDECIDED:
                opinion = _queue_opinion(each, record) or opinion
            if opinion is not None:
                found[each.url_id] = opinion
        down: dict[str, tuple[CheckResult, datetime]] = {}
        for each in waiting:
            opinion = found.get(each.url_id)
            if opinion is not None and opinion[0].whole_host:
                known = down.get(_origin(each.url))
                if known is None or known[1] < opinion[1]:
                    down[_origin(each.url)] = opinion
        for each in waiting:
            shared = down.get(_origin(each.url))
            own = found.get(each.url_id)
            is_open = own is None or own[0].verdict is CheckVerdict.UNDECIDED
            if is_open and shared is not None and shared[1] >= each.since:
                note = f"{shared[0].note} (seen at another page of the host)"
                found[each.url_id] = (replace(shared[0], note=note, final_url=""), shared[1])
        self._book([UrlCheckResult(number, *opinion) for number, opinion in found.items()])
        return [each for each in waiting if each.url_id not in found]

    def compare(self, since: datetime) -> None:
        batch: list[tuple[str, UrlCheckResult]] = []
        for url, finding, moment in self._copies.compared(since):
            batch.append((url, UrlCheckResult(0, finding, moment)))
            if len(batch) == _AT_ONCE:
                self._book_watched(batch)
                batch = []
        self._book_watched(batch)

    def _book_watched(self, batch: Iterable[tuple[str, UrlCheckResult]]) -> None:
        named = [(identity_key(url), result) for url, result in batch]
        with self._store.reading() as rows:
            known = find_urls(rows, [identity for identity, _ in named])
        self._book(
            [replace(result, url_id=known[each].id) for each, result in named if each in known]
        )

    def _book(self, results: Sequence[UrlCheckResult]) -> None:
        if results:
            with self._store.writing() as rows:
                self.booked += record_results(rows, results, self._rules)


def _origin(url: str) -> str:
    """Return the scheme, host and port of an identity key: the scope of a refused connection."""
    return "/".join(url.split("/", 3)[:3])


def _origins(links: Iterable[AwaitingLink], *, without: Iterable[AwaitingLink] = ()) -> set[str]:
    left_out = {each.url_id for each in without}
    return {_origin(each.url) for each in links if each.url_id not in left_out}


def _first_of_hosts(
    left: Sequence[AwaitingLink], answering: set[str], *, now: datetime
) -> list[AwaitingLink]:
    """Return the links to visit now: one of each host until that shows whether the host answers.

    Links that have waited for a day are visited regardless of the one before them.
    """
    begun: set[str] = set()
    chosen = []
    for each in left:
        origin = _origin(each.url)
        is_old = now - each.since > timedelta(days=1)
        if origin not in begun or origin in answering or is_old:
            chosen.append(each)
        begun.add(origin)
    return chosen


def _queue_records(
    layout: Layout, settings: Settings, urls: Sequence[str]
) -> Sequence[ItemRecord | None]:
    """Return the frontier records of these URLs; empty without a frontier."""
    if not settings.frontier.url and not layout.frontier_db.exists():
        return [None] * len(urls)
    with open_frontier(layout, settings.frontier, settings.politeness) as frontier:
        return frontier.find_all(urls) if urls else []


def _queue_opinion(
    link: AwaitingLink, record: ItemRecord | None
) -> tuple[CheckResult, datetime] | None:
    """Return the result of attempts that left no capture.

    Attempts that ended because their host was down count, and so do those that were deferred
    because the host could not be reached for its robots.txt.
    """
    if record is None:
        return None
    for attempt in reversed(record.attempts):
        reason = _failure_of(attempt)
        if attempt.ended_at < link.since or not reason:
            continue
        finding = result_of_visit(VisitSummary(link.address, "", VisitOutcome.FAILED, reason, None))
        if finding.verdict is not CheckVerdict.UNDECIDED:
            return finding, attempt.ended_at
    return None


def _failure_of(attempt: ClaimAttempt) -> str:
    """Return why the attempt could not reach its page; empty if it gives no evidence of that."""
    if attempt.ending in ("retry", "fail"):
        down = attempt.reason.removeprefix(HOST_DOWN).strip()
        return down.removeprefix(NO_ROBOTS).strip()
    unfetched = attempt.reason.removeprefix(ROBOTS_UNAVAILABLE).removesuffix(")")
    return unfetched if unfetched.startswith(UNREACHABLE) else ""


async def _visit(urls: Sequence[str], crew: _ConfirmOptions, settings: Settings) -> RunSummary:
    """Visit the links once each; failures are results, too, and are not retried."""
    if crew.hand_over:
        # Leave the links to the frontier's workers; a later round takes the results.
        layout = Layout(crew.root)
        now = _CLOCK.now()
        until = now + timedelta(days=_ONE_ATTEMPT_DAYS)
        with open_frontier(layout, settings.frontier, settings.politeness) as frontier:
            records = dict(zip(urls, frontier.find_all(urls), strict=True))
            # Links that wait for their site's return are tested now; a live one is queued again.
            waiting = [
                url for url, each in records.items() if each is not None and _waits(each, now)
            ]
            frontier.discard(waiting, now=now, reason="confirm")
            new = [NewItem(url, Lane.HIGH, via=_via(records[url])) for url in urls]
            items = await make_slot_assigner(settings).assign(new)
            for item in items:
                record = records.get(item.url)
                if record is None or record.ended_at is not None or item.url in waiting:
                    key = identity_key(item.url)
                    frontier.put_note(ONE_ATTEMPT, key, "confirm", now=now, until=until)
            added = frontier.add(items, now=now, again=timedelta(0))
        return RunSummary(added=added, handed_over=True)
    once = replace(settings, frontier=replace(settings.frontier, attempts=1))
    levels = open_stored_levels(Layout(crew.root), settings.index.url)
    progress = progress_bar("Asking the browser", len(urls), quiet=crew.quiet)
    with levels as level_of, progress as step:
        run = RunConfig(crew.root, once, crew.workers, stored_level_of=level_of)

        def report(event: Event) -> None:
            if isinstance(event, PageDone | PageSkipped):
                step(1)

        return await archive_urls(run, urls, again=timedelta(0), clock=_CLOCK, report=report)


def _waits(record: ItemRecord, now: datetime) -> bool:
    is_later = record.due_at is not None and record.due_at > now
    was_tried = any(each.ending == "retry" or _failure_of(each) for each in record.attempts)
    return record.state is ItemState.QUEUED and is_later and was_tried


def _via(record: ItemRecord | None) -> str:
    return record.item.via if record is not None else ""


def _say(
    booked: Sequence[RecordedResult], left: Sequence[AwaitingLink], output: CommandOutput
) -> None:
    if output.is_json:
        for each in booked:
            click.echo(json.dumps(_facts(each), ensure_ascii=False))
        return
    for each in booked:
        said = f" ({each.finding.note})" if each.finding.note else ""
        click.echo(
            f"{each.before.name.lower()} -> {each.after.name.lower()}  {each.url}"
            f"  {each.finding.verdict}{said}"
        )
    click.echo(f"{len(booked)} opinions booked; {len(left)} links still wait for one.", err=True)


def _facts(booked: RecordedResult) -> dict[str, object]:
    return {
        "url": booked.url,
        "verdict": str(booked.finding.verdict),
        "code": int(booked.finding.code),
        "note": booked.finding.note,
        "before": booked.before.name.lower(),
        "after": booked.after.name.lower(),
    }
