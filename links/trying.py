"""Looking at proposed replacements, so that what works can be shown (W17)."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.clock import Clock
from core.errors import WeboidError
from links.asking.protocol import Looks
from links.checking.turns import HostTurns
from links.days import day_of
from links.findings import Finding
from links.replacements import (
    ALONE,
    Replacement,
    Surroundings,
    book_test,
    replacements_to_test,
)
from links.stages import Stage
from links.store.store import Store

AT_ONCE: Final = 50
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Examiner:
    """Who looks at replacements.

    Attributes:
        looks: who looks; it takes its turns at `turns`.
        turns: at the hosts.
        clock: the time.
    """

    looks: Looks
    turns: HostTurns
    clock: Clock


async def try_replacements(
    store: Store,
    examiner: Examiner,
    *,
    limit: int,
    around: Surroundings = ALONE,
    told: Callable[[Replacement, Stage], None] = lambda _which, _stage: None,
) -> Counter[Stage]:
    """Look at what waits or is due again, up to so many; where they stand afterwards.

    A page is held against one beside it that cannot exist: an error page is no replacement. What a
    crowded host left no time for is still due, and so is all that an interruption leaves.

    Args:
        store: the registry.
        examiner: who looks.
        limit: replacements at most.
        around: what decides beside the look.
        told: told of each that was kept.

    Raises:
        TransientError: the registry does not answer; what was kept stays.
    """
    with store.reading() as rows:
        waiting = replacements_to_test(rows, day_of(examiner.clock.now()), limit)
    stages: Counter[Stage] = Counter()

    async def keep(which: Replacement, finding: Finding) -> None:
        stage = await asyncio.to_thread(_book, store, which, finding, examiner.clock.now(), around)
        if stage is not None:
            stages[stage] += 1
            told(which, stage)

    await examine(waiting, examiner, keep)
    return stages


async def examine(
    waiting: Iterable[Replacement],
    examiner: Examiner,
    keep: Callable[[Replacement, Finding], Awaitable[None]],
    *,
    stop: asyncio.Event | None = None,
) -> None:
    """Look at each of them, `AT_ONCE` at a time, and hand over what was found.

    Args:
        waiting: the replacements.
        examiner: who looks.
        keep: takes what a look found; called for each that came to its turn.
        stop: when it is set no further look begins.

    Raises:
        TransientError: `keep` could not keep a finding; the other looks were ended.
    """
    room = asyncio.Semaphore(AT_ONCE)

    async def one(which: Replacement) -> None:
        async with room:
            is_over = stop is not None and stop.is_set()
            finding = None if is_over else await _looked(examiner, which.address)
        if finding is not None:
            await keep(which, finding)

    async def guarded(which: Replacement) -> None:
        try:
            await one(which)
        except WeboidError:
            raise
        except Exception:  # noqa: BLE001 one address must not end the others' turns
            _LOG.exception("Trying %r failed by an internal error.", which.address)

    try:
        async with asyncio.TaskGroup() as group:
            for which in waiting:
                group.create_task(guarded(which))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _looked(examiner: Examiner, address: str) -> Finding | None:
    """What is found at the address; None when its host is too crowded to be asked."""

    async def look() -> Finding | None:
        with examiner.turns.look() as it:
            try:
                return await examiner.looks.probe_sibling(address)
            except asyncio.CancelledError:
                if it.is_crowded:
                    return None
                raise

    return await asyncio.create_task(look())


def _book(
    store: Store, which: Replacement, finding: Finding, now: datetime, around: Surroundings
) -> Stage | None:
    with store.writing() as rows:
        return book_test(rows, which, finding, day_of(now), around)
