"""Checker process: start-up, leases, runs, replacement tests (W17), daily maintenance of the first share (W39)."""

import asyncio
import logging
import math
import resource
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Final

from core.clock import Clock
from core.config.settings import LinksSettings, Settings
from core.errors import BadUrlError, ConfigError, TransientError, WeboidError
from core.urls import host_of
from links.check_history import day_of
from links.checker.check_run import CheckContext, CheckPlan, CheckRun, CheckTally, OnSave
from links.checker.due_urls import ALL_HOSTS, HostShare, LeaseHeldError, next_due_day
from links.checker.host_turns import HostTurns
from links.checker.http_probe import HttpProber
from links.checker.result_store import CheckRules
from links.checker.result_writer import LEASE_S, LeaseHolder
from links.feedback import replacements
from links.feedback.marks import LiveMarks, apply_marks
from links.feedback.replacements import ProposalContext, ProposalStage, ReplacementProposal
from links.feedback.reporter_limits import forget_acts
from links.registry.database import RegistryStore, RegistryThread
from links.registry.retention import PurgeSummary, purge
from links.states import preset_of
from links.url_parts import bucket_of
from net.address_policy import Address
from net.backoff import ExponentialBackoff
from net.stop_signals import wait_for_any

AT_ONCE: Final = 50
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplacementTester:
    """Tests of the replacements that readers proposed, at the hosts of one share."""

    registry: RegistryThread
    prober: HttpProber  # the prober; it waits for `turns`
    turns: HostTurns  # the per-host limiter
    clock: Clock
    around: ProposalContext = replacements.NO_CONTEXT  # policy that may refuse a replacement
    part: HostShare = ALL_HOSTS

    async def run(
        self,
        limit: int,
        *,
        stop: asyncio.Event | None = None,
        on_result: Callable[[ReplacementProposal, ProposalStage], None] = lambda _which, _stage: None,
    ) -> Counter[ProposalStage]:
        """Test waiting or due replacements until `stop`; count them by resulting stage.

        A page is compared with a sibling that cannot exist: an error page is not a replacement.
        """
        today = day_of(self.clock.now())
        waiting = await self.registry.read(lambda rows: replacements.replacements_to_test(rows, today, limit))
        stages: Counter[ProposalStage] = Counter()
        room = asyncio.Semaphore(AT_ONCE)

        async def test(proposal: ReplacementProposal) -> None:
            try:
                async with room:
                    if stop is not None and stop.is_set():
                        return
                    finding = await self.turns.run(self.prober.probe_sibling(proposal.address))
                if finding is None:
                    return
                stage = await self.registry.write(
                    lambda rows: replacements.record_replacement_test(
                        rows, proposal, finding, day_of(self.clock.now()), self.around
                    )
                )
                if stage is not None:
                    stages[stage] += 1
                    on_result(proposal, stage)
            except WeboidError:
                raise
            except Exception:  # noqa: BLE001 one address must not end the others' turns
                _LOG.exception("Trying %r failed by an internal error.", proposal.address)

        try:
            async with asyncio.TaskGroup() as group:
                for each in waiting:
                    with suppress(BadUrlError):
                        if self.part.has(bucket_of(host_of(each.address))):
                            group.create_task(test(each))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return stages


_MOST = 500  # of one round


@dataclass(eq=False)
class CheckerMaintenance:
    """Maintenance tasks of a checker, run after each check run."""

    context: CheckContext
    part: HostShare
    _: KW_ONLY
    keep_days: int
    _purged_day: int = field(default=-1, init=False)

    async def run(self, stop: asyncio.Event) -> None:
        """Run today's tasks. A database outage ends them until the next day."""
        try:
            await self.check_replacements(stop)
            if not stop.is_set():
                await self.forget()
        except TransientError as error:
            _LOG.warning("%s Clean-up is postponed.", error)
        except WeboidError:
            raise
        except Exception:  # noqa: BLE001 the checks go on
            _LOG.exception("Clean-up is postponed after an internal error.")

    async def check_replacements(self, stop: asyncio.Event) -> int:
        """Test the proposed replacements; return the number."""
        context = self.context
        decided = await context.registry.do(context.marks.current)
        around = ProposalContext(refuses=decided.refuses)
        tester = ReplacementTester(context.registry, context.prober, context.turns, context.clock, around, self.part)
        return (await tester.run(_MOST, stop=stop)).total()

    async def forget(self) -> PurgeSummary | None:
        """Delete expired rows once a day, by the checker of the first share; None: not today."""
        store, now = self.context.registry.store, self.context.clock.now()
        today = day_of(now)
        if self.part.number != 1 or self._purged_day == today:
            return None
        self._purged_day = today
        await self.context.registry.write(lambda rows: forget_acts(rows, now))
        await asyncio.to_thread(apply_marks, store, self.context.clock)  # marks that have expired
        return await asyncio.to_thread(purge, store, day=today, keep_days=self.keep_days)


FIRST_PAUSE_S = 5.0  # after a pass that ended by an internal error …
LONGEST_PAUSE_S = 600.0  # … doubled each time in a row, up to this
IDLE_S = 5.0  # interval at which an idle checker looks for due URLs
_FILES_EACH = 3  # of a check: two addresses that are tried at the same time, and name look-ups
_FILES_BESIDE = 100  # the database, logs, what the interpreter has open
_LOOK_AGAIN_S = 5.0  # … and one that waits for a part, whether its holder lives


@dataclass(frozen=True, slots=True)
class CheckWorkerOptions:
    """Options of a checker process."""

    name: str  # unique among checkers
    is_own: Callable[[Address], bool]  # of this machine (`net.address_policy.is_own`)
    patience_s: float = math.inf  # maximum wait for an unavailable database
    lease_s: int = LEASE_S  # lifetime of its leases


def plan_from_settings(settings: LinksSettings, part: HostShare, *, limit: int | None = None) -> CheckPlan:
    """Build the plan of runs from the settings."""
    return CheckPlan(
        CheckRules(preset_of(settings.preset, trusts_tags=settings.trust_tags), settings.browser),
        part,
        connections=settings.connections,
        limit=limit,
        closer=settings.closer,
    )


def fit_to_files(settings: Settings, warn: Callable[[str], None]) -> Settings:
    """Set this process's limit of open files; reduce `connections` (`warn`) to what fits, or ConfigError."""
    wanted = settings.links.connections
    needed = wanted * _FILES_EACH + _FILES_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return settings
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    fitting = (allowed - _FILES_BESIDE) // _FILES_EACH
    if fitting >= wanted:
        return settings
    remedy = f"raise it to {needed:,} (ulimit -Hn, LimitNOFILE= of a service, nofile of a container)"
    if fitting < 1:
        raise ConfigError(f"A process may open {allowed:,} files here, which is too few for any check: {remedy}.")
    warn(
        f"A process may open {allowed:,} files here, so {fitting:,} links are checked at the same time, "
        f"not {wanted:,} ([links] connections): {remedy}."
    )
    return replace(settings, links=replace(settings.links, connections=fitting))


@asynccontextmanager
async def open_check_context(
    store: RegistryStore, settings: Settings, parts: Sequence[HostShare], worker: CheckWorkerOptions, *, clock: Clock
) -> AsyncIterator[CheckContext]:
    """Open a checker's resources, and release its leases; ConfigError: invalid setting, or no name server."""
    async with AsyncExitStack() as stack:
        registry = RegistryThread(store, monotonic=clock.monotonic, patience_s=worker.patience_s)
        stack.callback(registry.close)
        turns = HostTurns(settings.links.host_gap_s, monotonic=clock.monotonic)
        prober = await stack.enter_async_context(HttpProber(settings, is_own=worker.is_own, turns=turns, clock=clock))
        leases = LeaseHolder(registry, parts, worker.name, clock=clock, length_s=worker.lease_s)
        stack.push_async_callback(leases.give_back)
        yield CheckContext(registry, prober, turns, leases, clock, LiveMarks(store, clock))


async def take_leases(
    leases: LeaseHolder,
    stop: asyncio.Event,
    *,
    clock: Clock,
    waiting: Callable[[LeaseHeldError], None],
    look_again_s: float = _LOOK_AGAIN_S,
) -> bool:
    """Claim the leases, or wait until a dead checker's have expired; False when stopped before.

    Raises LeaseHeldError when another checker renewed its lease during the wait.
    """
    first: LeaseHeldError | None = None
    while not stop.is_set():
        try:
            await leases.take()
        except LeaseHeldError as held:
            if first is None:
                first = held
                waiting(held)
            elif (held.fence, held.until) != (first.fence, first.until):
                raise
        else:
            return True
        left = first.until - clock.now().timestamp()
        await wait_for_any(stop, timeout_s=min(max(left, 0.0) + 0.5, look_again_s))
    return False


async def check_continuously(
    context: CheckContext,
    plan: CheckPlan,
    stop: asyncio.Event,
    *,
    between: Callable[[CheckTally], Awaitable[None]],
    on_save: OnSave | None = None,
    idle_s: float = IDLE_S,
) -> None:
    """Run check runs until `stop`, with the tasks of `between` after each.

    An internal error ends only its run. Raises LeaseLostError, InvariantError for results that cannot be stored.
    """
    backoff = ExponentialBackoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
    while not stop.is_set():
        try:
            tally = await CheckRun(context, plan, on_save=on_save).run(stop)
            backoff.reset()
            async with context.leases.renewed():
                await between(tally)
                while not stop.is_set():
                    first = await context.registry.read(lambda rows: next_due_day(rows, plan.part))
                    if first is not None and first <= day_of(context.clock.now()):
                        break
                    await wait_for_any(stop, timeout_s=idle_s)
        except WeboidError:
            raise
        except Exception:  # noqa: BLE001 one pass must not end all that follow
            pause_s = backoff.next_s()
            _LOG.exception("The pass ended with an internal error; the next begins in %g s.", pause_s)
            async with context.leases.renewed():
                await wait_for_any(stop, timeout_s=pause_s)
