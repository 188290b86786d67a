"""Quarterly visits to the copies that the registry keeps (W32).

Archives are visited side by side, the copies of one after another. What is gone at two visits a week
apart is dropped. An archive that seems to have lost everything at once has not: it is down, moved, or
its domain is somebody else's, and then nothing of it is missed.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from links.archives.asking import Asker
from links.archives.copies import Due, Visit, due, saw
from links.archives.looking import Seen, Sight, look
from links.days import day_of
from links.store.store import Store

ALL_GONE: Final = 5  # so many in a row, and none there: that is the archive
_LOST = frozenset((Sight.GONE, Sight.BAD, Sight.OTHER_PAGE))
_DOWN: Final = "the archive shows none of its copies: that is its own trouble"


@dataclass(frozen=True, slots=True)
class Visited:
    """One visit.

    Attributes:
        copy: what was looked at.
        visit: what came of it.
        seen: what was seen.
    """

    copy: Due
    visit: Visit
    seen: Seen


def counts(visits: list[Visited]) -> Mapping[Visit, int]:
    """How often what came of it."""
    return Counter(each.visit for each in visits)


async def visit(
    store: Store,
    asker: Asker,
    *,
    now: datetime,
    limit: int,
    own: tuple[str, ...] = (),
    told: Callable[[int], None] = lambda _count: None,
) -> list[Visited]:
    """Look at copies that are due, and keep what was seen.

    Args:
        store: the registry.
        asker: asks.
        now: the moment.
        limit: copies at most.
        own: origins of our own pages.
        told: is told of each copy that was looked at.

    Raises:
        TransientError: the registry's database does not answer.
    """
    with store.reading() as rows:
        waiting = due(rows, day_of(now), limit)
    return await look_at(store, asker, waiting, now=now, own=own, told=told)


async def look_at(
    store: Store,
    asker: Asker,
    waiting: list[Due],
    *,
    now: datetime,
    own: tuple[str, ...] = (),
    told: Callable[[int], None] = lambda _count: None,
) -> list[Visited]:
    """Look at these copies, and keep what was seen; otherwise as `visit`."""
    services: defaultdict[str, list[Due]] = defaultdict(list)
    for each in waiting:
        services[each.kept.service].append(each)

    async def at_one(dues: list[Due]) -> list[Visited]:
        seen = []
        for each in dues:
            seen.append(await look(asker, each.kept.address, each.url.url, own=own))
            told(1)
        if len(seen) >= ALL_GONE and all(one.sight in _LOST for one in seen):
            seen = [Seen(Sight.UNCLEAR, note=_DOWN) for _ in seen]
        with store.writing() as rows:
            return [
                Visited(each, saw(rows, each.url.id, each.kept, one, day_of(now)), one)
                for each, one in zip(dues, seen, strict=True)
            ]

    done = await asyncio.gather(*(at_one(dues) for dues in services.values()))
    return [each for visits in done for each in visits]
