"""Which copy a reader is led to, and what is done when there is none (B06, B12, B13, W30).

Of each archive one version is chosen: the nearest before the day that matters, else the nearest after
it, of those whose original answered well. Pure: nothing is asked or kept here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Final

from links.archives.adapters import Copy
from links.archives.services import WEBOID
from links.archives.stamps import moment_of
from links.days import date_of

FIRST_ACCESS: Final = datetime(2001, 1, 1, tzinfo=UTC)  # no wiki's page was read earlier
FIRST_COPY: Final = datetime(1996, 1, 1, tzinfo=UTC)  # no archive is older
DAYS_MOST: Final = 5  # of one link for which a version is looked for
_CLOCK_SKEW: Final = timedelta(days=1)
_GOOD: Final = frozenset((200, 203, 206))


class Step(StrEnum):
    """What comes of a search for copies."""

    KEPT = "kept"  # the one that is remembered
    OWN = "own"  # our own capture
    FOUND = "found"  # in another archive
    SAVE = "save"  # the link lives: it is to be archived now
    UNFIXABLE = "unfixable"  # the link is dead, and nobody has a copy
    LATER = "later"  # archives that were asked gave no answer


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done about a link's copies.

    Attributes:
        step: what.
        best: the copy to lead readers to; None without one.
        chosen: one copy of each archive, by its name; an empty address: it has copies, none is chosen.
    """

    step: Step
    best: Copy | None = None
    chosen: Mapping[str, Copy] | None = None


def day_that_matters(
    accessed: datetime | None, added: datetime | None, now: datetime
) -> datetime | None:
    """When the link said what it is cited for: when it was read, else when it was added (B06).

    A date before 2001 or in the future is a slip of somebody's pen, and none.
    """
    for each in (accessed, added):
        if each is not None and FIRST_ACCESS <= each <= now + _CLOCK_SKEW:
            return each
    return None


def days_that_matter(written: Iterable[int], added: Iterable[int], now: datetime) -> list[datetime]:
    """Return the days on which pages cite a link, the earliest access date before all others (B06).

    Args:
        written: access dates, as numbers of `links.days`.
        added: days on which other pages got the link, or were first seen with it.
        now: the moment.
    """
    found: dict[datetime, None] = {}
    for day in [*sorted(written), *sorted(added)]:
        # Its last second: a copy taken on the day itself is not after it.
        end = datetime.combine(date_of(day), time(), UTC) + timedelta(days=1, seconds=-1)
        moment = day_that_matters(end, None, now)
        if moment is not None:
            found[moment] = None
    return list(found)[:DAYS_MOST]


def is_good(copy: Copy, now: datetime) -> bool:
    """Whether a reader may be led there, as far as is told: a good status, and a date that can be."""
    if copy.status is not None and copy.status not in _GOOD:
        return False
    if not copy.address:
        return False
    return not copy.timestamp or FIRST_COPY <= moment_of(copy.timestamp) <= now + _CLOCK_SKEW


def choose(copies: Iterable[Copy], at: datetime | None, now: datetime) -> dict[str, Copy]:
    """One version in each archive (W30), by its name.

    The nearest not after the moment; else the nearest after it; without a moment the newest. A copy
    whose moment nobody tells comes last. An archive that has nothing but copies of errors has an empty
    address: it has the page, and no version of it is chosen.
    """
    found: dict[str, Copy] = {}
    for copy in copies:
        if not is_good(copy, now):
            found.setdefault(copy.service, Copy(copy.service, "", ""))
            continue
        there = found.get(copy.service)
        if there is None or not there.address or _order(copy, at) < _order(there, at):
            found[copy.service] = copy
    return found


def best_of(chosen: Mapping[str, Copy], order: Sequence[str], at: datetime | None) -> Copy | None:
    """The one that readers are led to: our own, then archives in that order, then the nearest."""
    places = {name: place for place, name in enumerate((WEBOID, *order))}
    usable = [copy for copy in chosen.values() if copy.address]
    return min(
        usable,
        key=lambda copy: (places.get(copy.service, len(places)), _order(copy, at)),
        default=None,
    )


def plan(
    remembered: Copy | None,
    chosen: Mapping[str, Copy],
    *,
    order: Sequence[str],
    at: datetime | None,
    is_dead: bool,
    is_sure: bool,
) -> Plan:
    """What to do (B12): the remembered copy, our own, another archive's, have one taken, or give up.

    Args:
        remembered: the copy that the registry has; None without one.
        chosen: what was found now, ours included.
        order: archives, the preferred first.
        at: the day that matters.
        is_dead: whether the link is dead: nothing can be taken any more.
        is_sure: whether all who were asked have answered: only then is a dead link given up.
    """
    if remembered is not None and remembered.address:
        return Plan(Step.KEPT, remembered, chosen)
    best = best_of(chosen, order, at)
    if best is not None:
        return Plan(Step.OWN if best.service == WEBOID else Step.FOUND, best, chosen)
    if not is_dead:
        return Plan(Step.SAVE, None, chosen)
    return Plan(Step.UNFIXABLE if is_sure else Step.LATER, None, chosen)


def _order(copy: Copy, at: datetime | None) -> tuple[int, float, bool, str]:
    """The smaller, the better: of one moment what is known to be good, and else always the same."""
    unsure = copy.status is None
    if not copy.timestamp:
        return (2, 0.0, unsure, copy.address)
    when = moment_of(copy.timestamp)
    if at is None:
        return (0, -when.timestamp(), unsure, copy.address)
    apart = (at - when).total_seconds()
    return (0 if apart >= 0 else 1, abs(apart), unsure, copy.address)
