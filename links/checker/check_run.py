"""Check run over all due URLs: plan, concurrency, results, progress (docs/explanation/checking.md).

Timetable and result writer wait for an unavailable database: checks continue until too many results are waiting.
When `stop` is set no new check begins, and results of running ones are stored.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from core.clock import Clock
from core.errors import TransientError
from links.check_history import day_of
from links.check_result import CheckMethod, CheckResult, CheckVerdict, FetchFailure, StatusCode
from links.checker import check_schedule
from links.checker.due_urls import ALL_HOSTS, HostShare
from links.checker.host_turns import HostTurns
from links.checker.http_probe import HttpProber
from links.checker.outage_guard import ControlChecks, OutageGuard
from links.checker.result_store import CheckRules, RecordedResult, UrlCheckResult
from links.checker.result_writer import CheckOutcome, LeaseHolder, ResultWriter
from links.checker.timetable import CheckTurn, Timetable, TurnAction
from links.checker.timetable_feed import CheckCandidate, Table, TimetableFeed, wants_sibling
from links.feedback.marks import LiveMarks
from links.registry.database import RegistryThread
from links.registry.quirks import hosts_that_limit
from links.registry.schema import state_counts
from links.registry.statements import insert_missing
from links.registry.urls import UrlRow
from links.states import LinkState
from net.stop_signals import first_error, wait_for_any


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Resources of a checker for all its runs; closed by the code that created it."""

    registry: RegistryThread
    prober: HttpProber  # the prober; it waits for `turns`
    turns: HostTurns  # the per-host limiter
    leases: LeaseHolder
    clock: Clock
    marks: LiveMarks  # the operator marks


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """Parameters of a run."""

    rules: CheckRules  # for the evaluation of results
    part: HostShare = ALL_HOSTS
    connections: int = 500  # concurrent checks
    limit: int | None = None  # maximum number of checks; None: all that are due
    waiting: int = 20_000  # maximum number of results that wait for the database
    host_room: int = 200  # URLs of a host that are loaded at the same time
    closer: bool = True  # make some checks more thorough (`links.checker.timetable_feed`)


@dataclass(slots=True)
class CheckTally:
    """Progress of a run."""

    due: int = 0  # URLs that were due at its beginning
    stored: int = 0  # checks whose results are stored
    states: Counter[LinkState] = field(default_factory=Counter)  # … by resulting state
    inferred: int = 0  # … without a request
    put_off: int = 0  # URLs whose hosts requested a delay
    active: int = 0  # running checks
    waiting: int = 0  # results that wait for the database
    is_complete: bool = False  # everything that was due was checked


OnSave = Callable[[Sequence[RecordedResult], CheckTally], None]


_LOG = logging.getLogger(__name__)
_POLL_S = 5.0  # within this time named URLs are noticed
_GIVE_UP_S = 60.0  # a stopped pass waits so long for a database that is away
_ROOM = 50_000
_CHECKS_EACH = 8  # for each connection: running checks, most of which wait for their hosts
_LIMITED_HOSTS = 20_000  # with earlier rate limits, requested slowly at first
_TRIES = 3  # of a URL whose host was requested too soon
_OUTAGE_S = 30.0  # between two tests of our network while it seems down
_TELL_FILES_S = 60.0
_FEWER_EACH_S = 1.0
_TRUST_S = 60.0  # after an answer our network counts as up for this long


class CheckRun:
    """Single check run. Not reusable."""

    def __init__(self, context: CheckContext, plan: CheckPlan, *, on_save: OnSave | None = None) -> None:
        """Create a run; `on_save` is called with stored results."""
        self.tally = CheckTally()
        self._context = context
        self._plan = plan
        self._connections = plan.connections
        self._rules = replace(plan.rules, settings=lambda url, key: context.marks.current().setting(url, key))
        self._on_save = on_save
        self._polled_at = -math.inf
        room = min(max(plan.connections * 20, 2 * plan.host_room), _ROOM)
        self._table: Table = Timetable(gaps=context.turns.gaps, room=room, host_room=plan.host_room, tries=_TRIES)
        self._feed = TimetableFeed(
            context.registry,
            self._table,
            plan.part,
            marks=context.marks,
            window=min(room // 4, 2_000),
            host_room=plan.host_room,
            closer=plan.closer,
            trusts_tags=plan.rules.preset.trusts_tags,
        )
        self._writer: ResultWriter | None = None
        self._active: set[asyncio.Task[None]] = set()
        self._begun = 0
        self._guard = OutageGuard()
        self._trusted_until = -math.inf
        self._files_told_at = -math.inf
        self._fewer_at = -math.inf
        self._controls = ControlChecks(context.registry, context.prober, context.turns)
        self._is_feeding = False
        self._stop = asyncio.Event()
        self._is_named = False
        self._changed = asyncio.Event()
        self._feed_wanted = asyncio.Event()
        context.turns.on_parked = self._changed.set
        context.turns.allow(plan.connections)

    async def run(self, stop: asyncio.Event, *, named: Sequence[UrlRow] | None = None) -> CheckTally:
        """Check everything due, or only `named`; LeaseLostError when another checker has our hosts."""
        now = self._context.clock.now()
        today = day_of(now)
        self._is_named = named is not None
        gaps = self._context.turns.gaps
        if gaps.learned_day != today:  # hosts with earlier rate limits are requested slowly
            for host in await self._context.registry.read_aside(
                lambda rows: hosts_that_limit(rows, day=today, limit=_LIMITED_HOSTS)
            ):
                gaps.begin_slowly(host)
            gaps.learned_day = today
        if named is None:
            row = await self._context.registry.write(
                lambda rows: check_schedule.begin_run(rows, self._plan.part, horizon=today, now=now)
            )
            self._feed.begin(today)
        else:
            row = await self._context.registry.write(
                lambda rows: check_schedule.new_run(rows, check_schedule.NAMED_RUN, len(named), now=now)
            )
            self._feed.begin_named(named)
        self.tally.due = row.due - row.done
        self._writer = ResultWriter(
            *(self._context.registry, self._rules, self._context.leases, row), horizon=today, on_save=self._note_stored
        )
        # Feed, check, store and renew the leases concurrently; the first failure ends all.
        try:
            async with asyncio.TaskGroup() as group:
                keeping = group.create_task(self._writer.run())
                others = (self._run_feed(), self._context.leases.run(), self._watch(stop))
                helpers = [group.create_task(each) for each in others]
                await self._run_checks(self._writer)
                self._writer.close()
                if self._stop.is_set():
                    self._context.registry.patience_s = min(self._context.registry.patience_s, _GIVE_UP_S)
                await keeping
                for task in helpers:
                    task.cancel()
        except BaseExceptionGroup as several:
            raise first_error(several) from several
        finally:
            for task in self._active:
                task.cancel()
            await asyncio.gather(*self._active, return_exceptions=True)
        self.tally.active = self.tally.waiting = 0
        if self.tally.is_complete:
            await self._context.registry.write(
                lambda rows: check_schedule.end_run(rows, row.id, now=self._context.clock.now())
            )
            if not self._is_named:
                ended = day_of(self._context.clock.now())
                counts = await self._context.registry.read_aside(
                    lambda rows: check_schedule.count_states(rows, day=ended)
                )
                await self._context.registry.write(lambda rows: insert_missing(rows, state_counts, counts))
        return self.tally

    async def _watch(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._stop.set()
        self._context.turns.close()
        self._changed.set()

    async def _run_feed(self) -> None:
        while True:
            self._feed_wanted.clear()
            self._is_feeding = True
            now = self._context.clock.monotonic()
            if not self._stop.is_set() and not self._is_named and now - self._polled_at >= _POLL_S:
                self._polled_at = now
                await self._feed.fill_urgent()
            has_work = not self._stop.is_set() and self._feed.has_work
            if has_work:
                await self._feed.fill(day_of(self._context.clock.now()))
            self._is_feeding = False
            self._changed.set()
            if has_work:
                continue
            await wait_for_any(self._feed_wanted, timeout_s=_POLL_S)

    async def _run_checks(self, writer: ResultWriter) -> None:
        """Start checks as turns come, until nothing is left or no more may start."""
        while not self._is_over():
            self._changed.clear()
            wake = self._start_checks(writer)
            if self._is_over():
                break
            if self._doubts:
                await self._settle_doubt(writer)
                continue
            # Only held-back results are left: too few to suspect an outage, and no control hosts.
            held = self._guard.held
            if held and not self._active and held == sum(map(len, self._feed.in_hand.values())):
                self._keep_held(writer)
                continue
            await wait_for_any(self._changed, timeout_s=max(wake - self._context.clock.monotonic(), 0.0))
        while self._active:
            await asyncio.wait(self._active)
        if not self._doubts:
            self._keep_held(writer)

    @property
    def _doubts(self) -> bool:
        return self._guard.doubts and self._context.clock.monotonic() >= self._trusted_until

    def _is_over(self) -> bool:
        if self._stop.is_set() or self._is_used_up:
            return True
        done = not self._is_feeding and self._feed.is_empty and not self._feed.in_hand
        self.tally.is_complete = done
        return done

    @property
    def _is_used_up(self) -> bool:
        return self._plan.limit is not None and self._begun >= self._plan.limit

    def _start_checks(self, writer: ResultWriter) -> float:
        """Start all checks that may start now; return the time of the next attempt."""
        now = self._context.clock.monotonic()
        if not self._context.leases.is_valid:
            return now + 1.0
        if self._doubts:
            return math.inf
        while writer.waiting < self._plan.waiting and not self._is_used_up:
            running = len(self._active)
            asking = running - self._context.turns.parked  # those that wait hold no connection
            if asking >= self._connections or running >= self._connections * _CHECKS_EACH:
                break
            turn = self._table.next(now)
            if isinstance(turn, float):
                return turn
            url = turn.payload.url
            match turn.move:
                case TurnAction.ASK:
                    self._begun += 1
                    task = asyncio.create_task(self._check(turn, writer))
                    self._active.add(task)
                    task.add_done_callback(self._ended)
                case TurnAction.INFER:
                    assert turn.finding is not None
                    self._add_result(turn.payload, turn.finding, writer)
                case TurnAction.LATER:
                    wait_s = min(max(turn.until - self._context.clock.monotonic(), 0.0), 366 * 86_400)
                    wall = self._context.clock.now()
                    due_day = max(day_of(wall + timedelta(seconds=wait_s)), day_of(wall) + 1)
                    self._feed.forget_host(url.host_id)
                    writer.put(url, due_day)
        return math.inf

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._active.discard(task)
        self._changed.set()
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("A check ended with an internal error.", exc_info=task.exception())

    async def _check(self, turn: CheckTurn[CheckCandidate], writer: ResultWriter) -> None:
        finding: CheckResult | None = None
        try:
            finding = await self._probe(turn.payload)
        finally:
            try:
                # Report the result to the timetable, even if there is none.
                counts = self._table.done(turn, self._context.clock.monotonic(), finding)
                url = turn.payload.url
                if finding is None:
                    self._feed.release(url)
                elif finding.note.startswith(FetchFailure.NO_FILES) and not self._stop.is_set():
                    self._ask_fewer()
                    self._feed.put_back(url)
                elif counts:  # otherwise it was too soon for its host, and its turn comes again
                    self._add_result(turn.payload, finding, writer)
            except Exception:
                # The pass would wait for it forever, or request it again at once.
                writer.put(turn.payload.url, None)
                raise

    def _ask_fewer(self) -> None:
        """Limit concurrency after this process ran out of file descriptors."""
        now = self._context.clock.monotonic()
        if now - self._fewer_at < _FEWER_EACH_S:
            return  # of the same burst
        self._fewer_at = now
        self._connections = self._context.turns.ask_fewer()
        if now - self._files_told_at >= _TELL_FILES_S:
            self._files_told_at = now
            _LOG.error(
                "This process may open no more files (EMFILE), so fewer links are checked at a time, now "
                "%d: raise its limit (ulimit -n, LimitNOFILE), or lower [links] connections.",
                self._connections,
            )

    def _add_result(self, candidate: CheckCandidate, finding: CheckResult, writer: ResultWriter) -> None:
        """Store a result and those held back, unless an own outage is suspected."""
        url = candidate.url
        for each in self._guard.take(url, UrlCheckResult(url.id, finding, self._context.clock.now())):
            writer.put(*each)
        if self._guard.doubts and not self._doubts:
            self._keep_held(writer)

    async def _settle_doubt(self, writer: ResultWriter) -> None:
        """Wait until control hosts show that the network works."""
        if await self._controls.somebody_answers():
            self._trusted_until = self._context.clock.monotonic() + _TRUST_S
            self._keep_held(writer)
            return
        _LOG.warning("No host answers, not even hosts that answered recently: our network may be down.")
        began = self._context.clock.monotonic()
        while not self._stop.is_set() and not await self._controls.somebody_answers():
            if self._context.clock.monotonic() - began > self._context.registry.patience_s:
                raise TransientError(
                    "No host answers any more, not even hosts that answered recently: repair this machine's network, "
                    "then run the same command again; due links remain due."
                )
            await wait_for_any(self._stop, timeout_s=_OUTAGE_S)
        again = self._guard.let_go()
        _LOG.warning("%d URLs without a result are checked again.", len(again))
        self._table.new_pass()  # inferences from our own outage are not valid
        for url, _ in again:
            self._feed.put_back(url)

    def _keep_held(self, writer: ResultWriter) -> None:
        for each in self._guard.let_go():
            writer.put(*each)

    async def _probe(self, candidate: CheckCandidate) -> CheckResult | None:
        url = candidate.url
        try:
            finding = await self._context.turns.run(
                self._context.prober.probe(
                    url.url,
                    get_only=candidate.get_only,
                    compare=partial(wants_sibling, url, is_beside=candidate.is_beside),
                )
            )
        except Exception:  # noqa: BLE001 - one URL must not end a pass over millions
            _LOG.exception("Checking %r failed with an internal error.", url.url)
            return _nothing("fault: ours")
        if finding is not None or self._stop.is_set():
            return finding
        return _nothing("busy: too many redirects to one host")

    def _note_stored(self, batch: Sequence[CheckOutcome], booked: list[RecordedResult]) -> None:
        tally = self.tally
        for url, outcome in batch:
            self._feed.release(url)
            tally.stored += isinstance(outcome, UrlCheckResult)
            tally.put_off += isinstance(outcome, int)
        tally.active = len(self._active)
        tally.waiting = self._writer.waiting if self._writer is not None else 0
        for each in booked:
            tally.states[each.after] += 1
            tally.inferred += each.finding.how is CheckMethod.INFERRED
        self._feed_wanted.set()
        self._changed.set()
        if self._on_save is not None:
            self._on_save(booked, tally)


def _nothing(note: str) -> CheckResult:
    return CheckResult(StatusCode.NONE, CheckVerdict.UNDECIDED, CheckMethod.GET, note=note)
