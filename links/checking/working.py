"""A checker at work: once over what is due, over what is named, or for ever.

async with means_of(store, settings, [part], who, clock=clock) as means:
    await take_part(means.tenure, stop, clock=clock, waiting=say)
    tally = await Passing(means, plan).run(stop)
"""

import asyncio
import logging
import math
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from core.addresses import Address
from core.backoff import Backoff
from core.clock import Clock
from core.errors import ConfigError, WeboidError
from core.settings import LinksSettings, Settings
from links.asking.prober import Prober
from links.checking import due
from links.checking.desk import Desk
from links.checking.judging import Rules
from links.checking.keeping import LEASE_S, Tenure
from links.checking.leases import LeaseHeldError
from links.checking.parts import Part
from links.checking.passing import Passing
from links.checking.plans import Means, OnKept, Plan, Tally
from links.checking.turns import HostTurns
from links.days import day_of
from links.marks import LiveMarks
from links.presets import preset_of
from links.store.store import Store

_LOG = logging.getLogger(__name__)
FIRST_PAUSE_S = 5.0  # after a pass that ended by an internal error …
LONGEST_PAUSE_S = 600.0  # … doubled each time in a row, up to this
IDLE_S = 15.0  # a checker that has nothing to do looks so often whether something is due
_FILES_EACH = 3  # of a look: two addresses that are tried at the same time, and name look-ups
_FILES_BESIDE = 100  # the database, logs, what the interpreter has open
_LOOK_AGAIN_S = 5.0  # … and one that waits for a part, whether its holder lives


@dataclass(frozen=True, slots=True)
class Worker:
    """Who works.

    Attributes:
        name: one that no other checker has.
        is_own: whether an address is this machine's own (`proxy.addresses.is_own`).
        patience_s: how long it waits for a database that is away.
        lease_s: how long its leases hold.
    """

    name: str
    is_own: Callable[[Address], bool]
    patience_s: float = math.inf
    lease_s: int = LEASE_S


def plan_of(settings: LinksSettings, part: Part, *, limit: int | None = None) -> Plan:
    """How the settings want passes to be made."""
    return Plan(
        Rules(preset_of(settings.preset, trusts_tags=settings.trust_tags), settings.browser),
        part,
        connections=settings.connections,
        limit=limit,
        closer=settings.closer,
    )


def fit_to_files(settings: Settings, warn: Callable[[str], None]) -> Settings:
    """Raise this process's limit of open files to what `connections` needs; return settings that fit it.

    Where the hard limit is lower, there are fewer connections, and `warn` is told.

    Raises:
        ConfigError: the limit leaves no file for a connection.
    """
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
    remedy = (
        f"raise it to {needed:,} (ulimit -Hn, LimitNOFILE= of a service, nofile of a container)"
    )
    if fitting < 1:
        raise ConfigError(
            f"A process may open {allowed:,} files here, which is too few for any check: {remedy}."
        )
    warn(
        f"A process may open {allowed:,} files here, so {fitting:,} links are asked for at the same time and "
        f"not {wanted:,} ([links] connections): {remedy}."
    )
    return replace(settings, links=replace(settings.links, connections=fitting))


@asynccontextmanager
async def means_of(
    store: Store, settings: Settings, parts: Sequence[Part], worker: Worker, *, clock: Clock
) -> AsyncIterator[Means]:
    """What a checker works with. It has no lease yet (`take_part`); those it has it gives back.

    Raises:
        ConfigError: a setting is no good, or the system has no name server.
    """
    async with AsyncExitStack() as stack:
        desk = Desk(store, monotonic=clock.monotonic, patience_s=worker.patience_s)
        stack.callback(desk.close)
        turns = HostTurns(settings.links.host_gap_s, monotonic=clock.monotonic)
        prober = await stack.enter_async_context(
            Prober(settings, is_own=worker.is_own, turns=turns, clock=clock)
        )
        tenure = Tenure(desk, parts, worker.name, clock=clock, length_s=worker.lease_s)
        stack.push_async_callback(tenure.give_back)
        yield Means(desk, prober, turns, tenure, clock, LiveMarks(store, clock))


async def take_part(
    tenure: Tenure,
    stop: asyncio.Event,
    *,
    clock: Clock,
    waiting: Callable[[LeaseHeldError], None],
    look_again_s: float = _LOOK_AGAIN_S,
) -> bool:
    """Take the leases, at once or when the dead checker's that has one is over.

    Returns:
        Whether they are ours: False when it was stopped before.

    Raises:
        LeaseHeldError: the checker that has one lives: it renewed it while we waited.
        TransientError: the database does not answer.
    """
    first: LeaseHeldError | None = None
    while not stop.is_set():
        try:
            await tenure.take()
        except LeaseHeldError as held:
            if first is None:
                first = held
                waiting(held)
            elif (held.fence, held.until) != (first.fence, first.until):
                raise
        else:
            return True
        left = first.until - clock.now().timestamp()
        await _wait(stop, min(max(left, 0.0) + 0.5, look_again_s))
    return False


async def watch(
    means: Means,
    plan: Plan,
    stop: asyncio.Event,
    *,
    between: Callable[[Tally], Awaitable[None]],
    on_kept: OnKept | None = None,
    idle_s: float = IDLE_S,
) -> None:
    """Look at whatever falls due, pass after pass, until `stop`; after each do what is `between`.

    An internal error ends its pass; the next begins after a pause that doubles each time in a row.

    Raises:
        LeaseLostError: another checker has our hosts.
        InvariantError: results cannot be kept.
    """
    backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
    while not stop.is_set():
        try:
            tally = await Passing(means, plan, on_kept=on_kept).run(stop)
            backoff.reset()
            async with means.tenure.renewed():
                await between(tally)
                while not stop.is_set() and not await _is_due(means, plan):
                    await _wait(stop, idle_s)
        except WeboidError:
            raise
        except Exception:  # noqa: BLE001 one pass must not end all that follow
            pause_s = backoff.next_s()
            _LOG.exception("The pass ended by an internal error; the next begins in %g s.", pause_s)
            async with means.tenure.renewed():
                await _wait(stop, pause_s)


async def _is_due(means: Means, plan: Plan) -> bool:
    first = await means.desk.read(lambda rows: due.next_due_day(rows, plan.part))
    return first is not None and first <= day_of(means.clock.now())


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
