"""External mirrors of what was just visited (A10): on success also an archive elsewhere, on failure instead.

What was visited is told by whoever reads the captures; the registry keeps what became of it, so that
nothing is asked twice. After a good visit an external archive is asked to take the page, unless it has
one that is young enough. After one that failed, it is asked to take what we could not, and archives are
asked for copies that they have. Of a page that is gone only the latter: there is nothing to take.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.errors import WeboidError
from links.archives.adapters import Copy
from links.archives.asking import ArchiveTroubleError
from links.archives.choosing import Step, days_that_matter
from links.archives.copies import DEAD, Outcome, kept_of, last_search, note_search, put
from links.archives.finding import Archives, seek
from links.archives.saving import Outcome as SavedAs
from links.books.citing import cited_uses
from links.days import day_of
from links.findings import Verdict
from links.observed import Observed
from links.states import State
from links.store.store import Store

log = logging.getLogger(__name__)

YOUNG_DAYS: Final = 91  # a copy elsewhere that was kept so lately is not taken again
_TAKEN = frozenset((Outcome.SAVED, Outcome.UNSAVABLE, Outcome.TROUBLE))
_SOUGHT = _TAKEN | {Outcome.WANTED, Outcome.UNFIXABLE}


class Mirror(StrEnum):
    """`[links] mirror`: which visits are followed by an archive elsewhere."""

    NEVER = "never"
    FAILED = "failed"  # those that brought nothing
    ALWAYS = "always"


class Visited(StrEnum):
    """What came of our own visit."""

    GOOD = "good"
    FAILED = "failed"  # no answer, refused, a challenge: somebody else may have more luck
    GONE = "gone"


class Done(StrEnum):
    """What a mirror did."""

    KEPT = "kept"  # there is a copy elsewhere already
    LEFT = "left"  # it was asked lately, or this kind of visit is not mirrored
    SAVED = "saved"  # an archive elsewhere has just taken it
    FOUND = "found"  # … had it
    LATER = "later"  # not now
    NEVER = "never"  # it cannot be archived there, and nobody has it


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What became of one link.

    Attributes:
        url: the link.
        done: in a word.
        copy: the copy elsewhere; None without one.
        note: why, when there is something to tell.
    """

    url: str
    done: Done
    copy: Copy | None = None
    note: str = ""


def visited_as(verdict: Verdict) -> Visited | None:
    """What a visit's verdict is to a mirror; None when it says nothing.

    >>> visited_as(Verdict.REFUSED), visited_as(Verdict.UNDECIDED)
    (<Visited.FAILED: 'failed'>, None)
    """
    if verdict is Verdict.OK:
        return Visited.GOOD
    if verdict is Verdict.GONE:
        return Visited.GONE
    failed = (Verdict.FAILING, Verdict.REFUSED, Verdict.SUSPECT)
    return Visited.FAILED if verdict in failed else None


def is_wanted(
    store: Store, url: Observed, visited: Visited, *, wanted: Mirror, now: datetime
) -> Done | None:
    """Whether archives are to be asked about the link: None, or why not."""
    if wanted is Mirror.NEVER or (wanted is Mirror.FAILED and visited is Visited.GOOD):
        return Done.LEFT
    today = day_of(now)
    with store.reading() as rows:
        kept, last = kept_of(rows, url.id), last_search(rows, url.id)
    theirs = [each for each in kept if each.address]
    young = [each for each in theirs if today - each.found_day <= YOUNG_DAYS]
    if young or (theirs and visited is not Visited.GOOD):
        return Done.KEPT
    asked = _TAKEN if visited is Visited.GOOD else _SOUGHT
    if last is not None and last.outcome in asked and today < last.again_day:
        return Done.LEFT
    return None


async def mirror(
    store: Store, archives: Archives, url: Observed, visited: Visited, *, now: datetime
) -> Mirrored:
    """Have an archive elsewhere keep the link, or find one that does; and keep what came of it.

    An internal error is kept as trouble: the link is asked about again later, and others go on.

    Args:
        store: the registry.
        archives: who is asked; without a saver none is asked to take anything.
        url: the link, for which `is_wanted` is None.
        visited: what came of our own visit.
        now: the moment.

    Raises:
        TransientError: the registry's database does not answer.
    """
    try:
        return await _mirror(store, archives, url, visited, now)
    except WeboidError:
        raise
    except Exception as error:
        log.exception("mirror.internal_error url=%s", url.url)
        note = f"internal error of Weboid: {type(error).__name__}"
        _keep(store, url, [], Outcome.TROUBLE, now, note)
        return Mirrored(url.url, Done.LATER, note=note)


async def _mirror(
    store: Store, archives: Archives, url: Observed, visited: Visited, now: datetime
) -> Mirrored:
    taken = None
    if visited is not Visited.GONE:
        taken = await _taken(archives, url.url)
        if taken is not None and taken.done is Done.SAVED:
            assert taken.copy is not None
            _keep(store, url, [taken.copy], Outcome.SAVED, now)
            return taken
    if visited is Visited.GOOD:
        if taken is not None:
            outcome = Outcome.UNSAVABLE if taken.done is Done.NEVER else Outcome.TROUBLE
            _keep(store, url, [], outcome, now, taken.note)
            return taken
        return Mirrored(url.url, Done.LEFT, note="there is no key for Save Page Now")
    return await _found(store, archives, url, taken, now)


async def _found(
    store: Store, archives: Archives, url: Observed, taken: Mirrored | None, now: datetime
) -> Mirrored:
    """What archives have of a link that we could not visit; they were asked to take it before."""
    # Seen as dead, so that nobody is asked once more to take it; our own copies are no mirror.
    seen = replace(url, state=State.DEAD)
    asking = replace(archives, saver=None, own=lambda _url, _at: None)
    with store.reading() as rows:
        uses = cited_uses(rows, url.id)
    written = [each.access_day for each in uses if each.access_day is not None]
    added = [each.first_day for each in uses if each.access_day is None]
    days = days_that_matter(written, added, now)
    sought = await seek(store, asking, seen, now=now, days=days, is_thorough=True)
    if sought.best is not None:
        return Mirrored(url.url, Done.FOUND, sought.best)
    note = "; ".join([*sought.troubles, *([taken.note] if taken is not None else [])])
    is_over = sought.step is Step.UNFIXABLE and (taken is None or taken.done is Done.NEVER)
    if not is_over:
        _keep(store, url, [], Outcome.TROUBLE, now, note)
    elif url.state not in DEAD:  # what lives may be had elsewhere before half a year is over
        _keep(store, url, [], Outcome.WANTED, now, note)
    return Mirrored(url.url, Done.NEVER if is_over else Done.LATER, note=note)


async def _taken(archives: Archives, url: str) -> Mirrored | None:
    """What came of asking for the page to be taken; None when nobody can be asked."""
    if archives.saver is None:
        return None
    try:
        saved = await archives.saver.take(url)
    except ArchiveTroubleError as error:
        return Mirrored(url, Done.LATER, note=str(error))
    if saved.outcome is SavedAs.SAVED and saved.copy is not None:
        return Mirrored(url, Done.SAVED, saved.copy)
    done = Done.NEVER if saved.outcome is SavedAs.NEVER else Done.LATER
    return Mirrored(url, done, note=saved.reason)


def _keep(
    store: Store,
    url: Observed,
    found: Iterable[Copy],
    outcome: Outcome,
    now: datetime,
    note: str = "",
) -> None:
    with store.writing() as rows:
        put(rows, url.id, found, day_of(now))
        note_search(rows, url.id, outcome, day_of(now), note)
