"""Which copy a reader is led to, and what is done when there is none (B06, B12, B13, W30).

Of each archive one version is chosen: the nearest before the day that matters, else the nearest after
it, of those whose original answered well. Pure: nothing is asked or kept here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from links.archives.adapters import Copy
from links.archives.recognising import ArchiveUrl, belongs, moment_of, recognise
from links.archives.services import WEBOID

FIRST_ACCESS: Final = datetime(2001, 1, 1, tzinfo=UTC)  # no wiki's page was read earlier
FIRST_COPY: Final = datetime(1996, 1, 1, tzinfo=UTC)  # no archive is older
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


class Verdict(StrEnum):
    """What an archive URL that stands on a page is worth (B13)."""

    FINE = "fine"
    TIDIED = "tidied"  # it is right, and there is a better spelling
    REPLACED = "replaced"  # it is not, and a copy takes its place
    BROKEN = "broken"  # it is not, and there is no copy
    MUST_ASK = "must-ask"  # only the archive knows


@dataclass(frozen=True, slots=True)
class Correction:
    """What should stand in the place of an archive URL.

    Attributes:
        verdict: what it is worth.
        address: what should stand there; the same when nothing is to be changed, empty when nothing is
            known that could.
        reason: why, in a few words.
    """

    verdict: Verdict
    address: str
    reason: str


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


def correct(
    cited: str,
    reference: str,
    copies: Sequence[Copy],
    *,
    own: Iterable[str] = (),
    is_memento: bool | None = None,
) -> Correction:
    """What should stand in the place of an archive URL (B07, B13).

    An address that nobody here knows is not thrown away for that: an archive that is not on the list
    may be a good one. It is replaced once it was asked and turned out to be no copy of the reference.

    Args:
        cited: the archive URL on the page.
        reference: what it should be a copy of.
        copies: what could replace it, the best first.
        own: origins of our own pages.
        is_memento: whether the address, when it was asked, said that it is a copy of the reference;
            None: it was not asked.
    """
    found = recognise(cited, own=own)
    if (
        is_memento is None
        and (found is None or not found.is_known or found.must_ask)
        and not _is_gone(found)
    ):
        return Correction(Verdict.MUST_ASK, cited, "only who has it knows what it is of")
    reason = _wrong(found, reference, is_memento=is_memento)
    if reason:
        best = next((copy for copy in copies if copy.address), None)
        if best is None:
            return Correction(Verdict.BROKEN, "", reason)
        return Correction(Verdict.REPLACED, best.address, reason)
    if found is not None and found.is_known and found.address != cited:
        return Correction(Verdict.TIDIED, found.address, "the archive's preferred form")
    return Correction(Verdict.FINE, cited, "")


def _wrong(found: ArchiveUrl | None, reference: str, *, is_memento: bool | None) -> str:
    """What is wrong with the address; empty when nothing is."""
    if found is not None and found.fault:
        return f"no copy can be read there: {found.fault}"
    if is_memento is not None:
        return "" if is_memento else "it is no copy of the reference"
    if found is not None and belongs(found, reference) is False:
        return f"it is a copy of {found.original[:200]}"
    return ""


def _is_gone(found: ArchiveUrl | None) -> bool:
    return found is not None and bool(found.fault)


def _order(copy: Copy, at: datetime | None) -> tuple[int, float]:
    """The smaller, the better."""
    if not copy.timestamp:
        return (2, 0.0)
    when = moment_of(copy.timestamp)
    if at is None:
        return (0, -when.timestamp())
    apart = (at - when).total_seconds()
    return (0, apart) if apart >= 0 else (1, -apart)
