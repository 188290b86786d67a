"""Finding copies of a link, in the order of B12, and keeping what came of it.

First the copy that the registry remembers, then our own captures, then the archives that the settings
name. What is found is looked at before it is kept when nobody told how its original answered. A living
link that nobody has is wanted: Save Page Now is asked when a key is there, and whoever calls has our own
crawler archive it. A dead one that nobody has is unfixable, which is kept, so that the archives are left
in peace about it for half a year.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from links.archives.adapters import Adapter, Copy
from links.archives.asking import ArchiveTroubleError, Asker
from links.archives.choosing import Plan, Step, best_of, choose, plan
from links.archives.copies import (
    DEAD,
    Outcome,
    kept_of,
    last_search,
    note_search,
    put,
    put_versions,
)
from links.archives.looking import Seen, Sight, look
from links.archives.saving import Outcome as SavedAs
from links.archives.saving import SavePageNow
from links.archives.services import WEBOID
from links.archives.stamps import moment_of
from links.days import day_of
from links.observed import Observed
from links.states import State
from links.store.store import Store

OwnCopies = Callable[[str, datetime | None], Copy | None]
"""Our own capture of a URL nearest to a moment: a function, since the registry knows no captures."""

TRIES: Final = 3  # versions of one archive that are looked at until one is good
_OK: Final = range(200, 400)


@dataclass(frozen=True, slots=True)
class Archives:
    """Who is asked, and how.

    Attributes:
        asker: asks.
        adapters: who, the preferred first.
        order: the names of the services, the preferred first.
        saver: takes copies; None: nobody outside does.
        own: our own captures.
        origins: of our own pages.
        verifies: fetch every chosen version, also one whose archive told a good status.
    """

    asker: Asker
    adapters: Sequence[Adapter]
    order: Sequence[str] = ()
    saver: SavePageNow | None = None
    own: OwnCopies = field(default=lambda _url, _at: None)
    origins: tuple[str, ...] = ()
    verifies: bool = False


@dataclass(frozen=True, slots=True)
class Sought:
    """What a search found.

    Attributes:
        step: what came of it.
        best: the copy to lead readers to; None without one.
        copies: one of each archive; an empty address: it has copies, and none that is good.
        troubles: who gave no answer, and why.
        is_wanted: whether our own crawler should archive the link.
        note: what else is to be told: why a copy was not taken.
    """

    step: Step
    best: Copy | None
    copies: tuple[Copy, ...] = ()
    troubles: tuple[str, ...] = ()
    is_wanted: bool = False
    note: str = ""


async def seek(
    store: Store,
    archives: Archives,
    url: Observed,
    *,
    now: datetime,
    days: Sequence[datetime] = (),
    is_thorough: bool = False,
) -> Sought:
    """Find copies of a watched link, and keep what came of it.

    Args:
        store: the registry.
        archives: who is asked.
        url: the link.
        now: the moment.
        days: on which pages cite it (`choosing.day_that_matters`); a version is kept for each, and the
            first says which one leads readers in general. Without any the newest does.
        is_thorough: ask everybody, also when a copy is remembered or our own.

    Raises:
        TransientError: the registry's database does not answer.
    """
    at, *others = days or (None,)
    with store.reading() as rows:
        kept = {each.service: each.copy for each in kept_of(rows, url.id)}
        last = last_search(rows, url.id)
    remembered = best_of(kept, archives.order, at)
    is_outdated = last is not None and last.outcome is Outcome.OUTDATED
    if remembered is not None and not is_thorough and not is_outdated:
        return Sought(Step.KEPT, remembered, tuple(kept.values()))
    found, troubles, asked = await _found(archives, url.url, (at, *others), is_thorough=is_thorough)
    seen: dict[str, Seen] = {}
    chosen = await _verified(archives, url.url, found, (at, now), seen)
    versions = [
        copy
        for day in others
        for copy in (await _verified(archives, url.url, found, (day, now), seen)).values()
        if copy.address and copy not in chosen.values()
    ]
    decided = plan(
        remembered,
        chosen,
        order=archives.order,
        at=at,
        # Nobody can take a copy of what fails now.
        is_dead=url.state in DEAD or url.state is State.DYING,
        is_sure=asked and not troubles,
    )
    sought = await _settled(archives, url.url, decided, troubles)
    outcome = _outcome(sought, asked=asked)
    if outcome is Outcome.UNFIXABLE and url.state not in DEAD:
        outcome = Outcome.FAILING
    day = day_of(now)
    with store.writing() as rows:
        # Ours are found in our own index, whenever they are asked for.
        put(rows, url.id, (each for each in sought.copies if each.service != WEBOID), day)
        put_versions(rows, url.id, (each for each in versions if each.service != WEBOID), day)
        if is_outdated and troubles:  # the other days are still to be asked for: tomorrow
            note_search(rows, url.id, Outcome.OUTDATED, day + 1, "; ".join(troubles))
        elif outcome is not None:
            note_search(rows, url.id, outcome, day, sought.note or "; ".join(troubles))
    return sought


async def _found(
    archives: Archives, url: str, days: Sequence[datetime | None], *, is_thorough: bool
) -> tuple[list[Copy], tuple[str, ...], bool]:
    """Return what there is, who gave no answer, and whether anybody was asked.

    Our own capture is an answer only if it is no capture of an error.
    """
    own = archives.own(url, days[0])
    if own is not None and own.status is not None and own.status not in _OK:
        own = None
    if own is not None and not is_thorough:
        return [own], (), True
    answers = await asyncio.gather(*(_asked_for(each, url, days) for each in archives.adapters))
    found = [own] if own is not None else []
    troubles = []
    for copies, trouble in answers:
        found += copies
        if trouble is not None:
            troubles.append(str(trouble))
    return found, tuple(troubles), bool(answers)


async def _asked_for(
    adapter: Adapter, url: str, days: Sequence[datetime | None]
) -> tuple[list[Copy], ArchiveTroubleError | None]:
    """Ask for the versions of several days; only as often as the answers leave a day open."""
    found: dict[str, Copy] = {}
    for number, day in enumerate(days):
        if number and (not found or _has_both_sides(found.values(), day)):
            continue
        answer = await _asked(adapter, url, day)
        if isinstance(answer, ArchiveTroubleError):
            return list(found.values()), answer
        found |= {each.address: each for each in answer}
    return list(found.values()), None


def _has_both_sides(copies: Iterable[Copy], day: datetime | None) -> bool:
    """Return whether copies from before and after the day are known: then the nearest is, too."""
    if day is None:
        return True
    moments = [moment_of(each.timestamp) for each in copies if each.timestamp]
    return any(each <= day for each in moments) and any(each > day for each in moments)


async def _asked(
    adapter: Adapter, url: str, at: datetime | None
) -> list[Copy] | ArchiveTroubleError:
    try:
        return await adapter.find(url, at)
    except ArchiveTroubleError as error:
        return error


async def _verified(
    archives: Archives,
    url: str,
    found: Sequence[Copy],
    moments: tuple[datetime | None, datetime],
    seen: dict[str, Seen],
) -> dict[str, Copy]:
    """Choose one version of each archive, without what is no good copy when it is looked at (T193158).

    Args:
        archives: who is asked.
        url: the link.
        found: all versions that archives offered.
        moments: the day that matters, and now.
        seen: what was looked at already, by address; filled.
    """

    def corrected() -> dict[str, Copy]:
        return choose((_corrected(copy, seen.get(copy.address)) for copy in found), *moments)

    def unsure(chosen: dict[str, Copy]) -> list[Copy]:
        known = {one.address for one in seen.values() if one.address}
        return [
            copy
            for copy in chosen.values()
            if copy.address
            and copy.service != WEBOID
            and copy.address not in seen
            and copy.address not in known
            and (archives.verifies or copy.status is None)
        ]

    for _ in range(TRIES):
        asked = unsure(corrected())
        if not asked:
            break
        looks = (look(archives.asker, each.address, url, own=archives.origins) for each in asked)
        seen |= dict(
            zip((each.address for each in asked), await asyncio.gather(*looks), strict=True)
        )
    chosen = corrected()
    never = {copy.service: Copy(copy.service, "", "") for copy in unsure(chosen)}
    return chosen | never


def _corrected(copy: Copy, seen: Seen | None) -> Copy:
    """The copy as it was seen: another version, or none that is any good."""
    if seen is None or seen.sight is Sight.UNCLEAR:
        return copy
    if seen.sight in (Sight.GOOD, Sight.MOVED):
        return Copy(copy.service, seen.address, seen.timestamp or copy.timestamp, 200, copy.mime)
    return Copy(copy.service, "", "")


async def _settled(
    archives: Archives, url: str, decided: Plan, troubles: tuple[str, ...]
) -> Sought:
    """What was decided, done: a copy is taken where nobody has one."""
    copies = tuple((decided.chosen or {}).values())
    if decided.step is not Step.SAVE:
        return Sought(decided.step, decided.best, copies, troubles)
    if archives.saver is None:
        return Sought(Step.SAVE, None, copies, troubles, is_wanted=True)
    try:
        saved = await archives.saver.take(url)
    except ArchiveTroubleError as error:
        return Sought(Step.SAVE, None, copies, (*troubles, str(error)), is_wanted=True)
    if saved.copy is not None:
        others = tuple(each for each in copies if each.service != saved.copy.service)
        return Sought(Step.SAVE, saved.copy, (*others, saved.copy), troubles, is_wanted=True)
    never = "cannot be saved: " if saved.outcome is SavedAs.NEVER else "could not be saved now: "
    return Sought(Step.SAVE, None, copies, troubles, is_wanted=True, note=never + saved.reason)


def _outcome(sought: Sought, *, asked: bool) -> Outcome | None:
    """What is kept of the search; None: nobody was asked, so nothing is known."""
    if sought.best is not None:
        return Outcome.SAVED if sought.step is Step.SAVE else Outcome.FOUND
    if sought.step is Step.UNFIXABLE:
        return Outcome.UNFIXABLE
    if sought.troubles:
        return Outcome.TROUBLE
    if sought.note.startswith("cannot"):
        return Outcome.UNSAVABLE
    return Outcome.WANTED if asked and sought.step is Step.SAVE else None
