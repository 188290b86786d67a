"""Search for copies of a link, and choice of the version that readers get.

Sources in order: the copy in the registry, our own captures, the archives in the settings. Candidates with an
unknown status are fetched first. A live link without any copy is submitted to Save Page Now when a key is
configured, and reported as wanted; a dead one is stored as unfixable, and not searched for again for half a year.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Final

from links.archives import copy_store
from links.archives.adapters import SaveOutcome as SavedAs
from links.archives.adapters import SavePageNow
from links.archives.archive_answers import ArchiveAdapter, ArchiveMemento
from links.archives.archive_client import ArchiveClient, ArchiveUnavailableError
from links.archives.archive_urls import WEBOID, moment_of
from links.archives.copy_check import CopyCheckResult, CopyVerdict, check_copy
from links.archives.copy_store import CopySearchOutcome
from links.check_history import date_of, day_of
from links.registry.database import RegistryStore
from links.registry.urls import UrlRow
from links.states import LinkState

FIRST_ACCESS: Final = datetime(2001, 1, 1, tzinfo=UTC)  # no wiki's page was read earlier
FIRST_COPY: Final = datetime(1996, 1, 1, tzinfo=UTC)  # no archive is older
DAYS_MOST: Final = 5  # of one link for which a version is looked for
_CLOCK_SKEW: Final = timedelta(days=1)
_GOOD: Final = frozenset((200, 203, 206))


class SearchStep(StrEnum):
    """Next step after a search for copies."""

    KEPT = "kept"  # the one that is remembered
    OWN = "own"  # our own capture
    FOUND = "found"  # in another archive
    SAVE = "save"  # the link works: archive it now
    UNFIXABLE = "unfixable"  # the link is dead, and no archive has a copy
    LATER = "later"  # some queried archives did not answer


def citation_day(accessed: datetime | None, added: datetime | None, now: datetime) -> datetime | None:
    """Return the access date, else the day the link was added (B06); none before 2001 or in the future."""
    for each in (accessed, added):
        if each is not None and FIRST_ACCESS <= each <= now + _CLOCK_SKEW:
            return each
    return None


def citation_days(written: Iterable[int], added: Iterable[int], now: datetime) -> list[datetime]:
    """Return the days on which pages cite a link, the earliest of the access dates `written` first (B06)."""
    days: dict[datetime, None] = {}
    for day in [*sorted(written), *sorted(added)]:
        # Its last second: a copy taken on the day itself is not after it.
        end = datetime.combine(date_of(day), time(), UTC) + timedelta(days=1, seconds=-1)
        moment = citation_day(end, None, now)
        if moment is not None:
            days[moment] = None
    return list(days)[:DAYS_MOST]


def is_good(copy: ArchiveMemento, now: datetime) -> bool:
    """Return True for a copy with a good or unknown status and a plausible date."""
    if copy.status is not None and copy.status not in _GOOD:
        return False
    if not copy.address:
        return False
    return not copy.timestamp or FIRST_COPY <= moment_of(copy.timestamp) <= now + _CLOCK_SKEW


def choose_versions(copies: Iterable[ArchiveMemento], at: datetime | None, now: datetime) -> dict[str, ArchiveMemento]:
    """Choose one version in each archive (W30): the nearest not after `at`, else after it; without `at` the newest.

    Unknown times come last. An archive with only copies of errors gets an empty address.
    """
    versions: dict[str, ArchiveMemento] = {}
    for copy in copies:
        if not is_good(copy, now):
            versions.setdefault(copy.service, ArchiveMemento(copy.service, "", ""))
            continue
        best = versions.get(copy.service)
        if best is None or not best.address or _order(copy, at) < _order(best, at):
            versions[copy.service] = copy
    return versions


def pick_best_copy(
    chosen: Mapping[str, ArchiveMemento], order: Sequence[str], at: datetime | None
) -> ArchiveMemento | None:
    """Return the copy for readers: our own, then archives in `order`, then the nearest in time."""
    places = {name: place for place, name in enumerate((WEBOID, *order))}
    usable = [copy for copy in chosen.values() if copy.address]
    return min(usable, key=lambda copy: (places.get(copy.service, len(places)), _order(copy, at)), default=None)


def plan_copies(
    remembered: ArchiveMemento | None,
    chosen: Mapping[str, ArchiveMemento],
    *,
    order: Sequence[str],
    at: datetime | None,
    is_dead: bool,
    is_sure: bool,
) -> tuple[SearchStep, ArchiveMemento | None]:
    """Decide the next step (B12): use the stored copy, our own or another archive's, request one, or give up.

    `order`: archives, best first. A dead link is given up only when `is_sure`: all archives have answered.
    """
    if remembered is not None and remembered.address:
        return SearchStep.KEPT, remembered
    best = pick_best_copy(chosen, order, at)
    if best is not None:
        return SearchStep.OWN if best.service == WEBOID else SearchStep.FOUND, best
    if not is_dead:
        return SearchStep.SAVE, None
    return SearchStep.UNFIXABLE if is_sure else SearchStep.LATER, None


def _order(copy: ArchiveMemento, at: datetime | None) -> tuple[int, float, bool, str]:
    """Return a sort key, smaller is better: nearest in time, then known status, then address."""
    unsure = copy.status is None
    if not copy.timestamp:
        return (2, 0.0, unsure, copy.address)
    when = moment_of(copy.timestamp)
    if at is None:
        return (0, -when.timestamp(), unsure, copy.address)
    apart = (at - when).total_seconds()
    return (0 if apart >= 0 else 1, abs(apart), unsure, copy.address)


OwnCopies = Callable[[str, datetime | None], ArchiveMemento | None]
"""Our own capture of a URL nearest to a moment: a function, since the registry knows no captures."""

TRIES: Final = 3  # versions of one archive to check until one is good
_OK: Final = range(200, 400)


@dataclass(frozen=True, slots=True)
class CopySources:
    """Archives to query, and their settings."""

    client: ArchiveClient
    adapters: Sequence[ArchiveAdapter]  # the archives, the preferred first
    order: Sequence[str] = ()  # the names of the services, the preferred first
    saver: SavePageNow | None = None  # requests new copies; None: no external archive does
    own: OwnCopies = field(default=lambda _url, _at: None)  # our own captures
    origins: tuple[str, ...] = ()  # of our own pages
    verifies: bool = False  # fetch every chosen version, also one with a good reported status


@dataclass(frozen=True, slots=True)
class CopySearchResult:
    """Result of a search for copies."""

    step: SearchStep  # the step taken
    best: ArchiveMemento | None  # the copy to send readers to; None without one
    copies: tuple[ArchiveMemento, ...] = ()  # one of each archive; an empty address: no good one
    troubles: tuple[str, ...] = ()  # the archives without an answer, and the reasons
    is_wanted: bool = False  # our own crawler should archive the link
    note: str = ""  # further information, such as why no copy was made


async def search_copies(
    store: RegistryStore,
    archives: CopySources,
    url: UrlRow,
    *,
    now: datetime,
    days: Sequence[datetime] = (),
    is_thorough: bool = False,
) -> CopySearchResult:
    """Find copies of a watched link, and store a version for each of `days` (`citation_days`), else the newest.

    The first determines the default copy. `is_thorough` queries all archives, even when a copy is known.
    """
    at, *others = days or (None,)
    with store.reading() as rows:
        stored = {each.service: each.copy for each in copy_store.copies_of_url(rows, url.id)}
        last = copy_store.last_search(rows, url.id)
    remembered = pick_best_copy(stored, archives.order, at)
    is_outdated = last is not None and last.outcome is CopySearchOutcome.OUTDATED
    if remembered is not None and not is_thorough and not is_outdated:
        return CopySearchResult(SearchStep.KEPT, remembered, tuple(stored.values()))
    candidates, troubles, queried = await _gather_copies(archives, url.url, (at, *others), is_thorough=is_thorough)
    known_checks: dict[str, CopyCheckResult] = {}
    chosen = await _choose_verified(archives, url.url, candidates, (at, now), known_checks)
    versions = [
        copy
        for day in others
        for copy in (await _choose_verified(archives, url.url, candidates, (day, now), known_checks)).values()
        if copy.address and copy not in chosen.values()
    ]
    step, best = plan_copies(
        remembered,
        chosen,
        order=archives.order,
        at=at,
        # No copy can be made of a link that fails now.
        is_dead=url.state in copy_store.DEAD or url.state is LinkState.DYING,
        is_sure=queried and not troubles,
    )
    result = CopySearchResult(step, best, tuple(chosen.values()), troubles)
    if step is SearchStep.SAVE:
        result = await _request_copy(archives, url.url, replace(result, is_wanted=True))
    outcome = _outcome(result, queried=queried)
    if outcome is CopySearchOutcome.UNFIXABLE and url.state not in copy_store.DEAD:
        outcome = CopySearchOutcome.FAILING
    day = day_of(now)
    with store.writing() as rows:
        # Our own copies are always found in our own index.
        copy_store.put_copies(rows, url.id, (each for each in result.copies if each.service != WEBOID), day)
        copy_store.put_versions(rows, url.id, (each for each in versions if each.service != WEBOID), day)
        if is_outdated and troubles:  # the other days are queried tomorrow
            copy_store.note_search(rows, url.id, CopySearchOutcome.OUTDATED, day + 1, "; ".join(troubles))
        elif outcome is not None:
            copy_store.note_search(rows, url.id, outcome, day, result.note or "; ".join(troubles))
    return result


async def _gather_copies(
    archives: CopySources, url: str, days: Sequence[datetime | None], *, is_thorough: bool
) -> tuple[list[ArchiveMemento], tuple[str, ...], bool]:
    """Return the copies, the archives without an answer, and True when any archive was queried."""
    own = archives.own(url, days[0])
    if own is not None and own.status is not None and own.status not in _OK:
        own = None
    if own is not None and not is_thorough:
        return [own], (), True
    answers = await asyncio.gather(*(_query_archive(each, url, days) for each in archives.adapters))
    candidates = [] if own is None else [own]
    candidates += (copy for copies, _ in answers for copy in copies)
    return candidates, tuple(str(trouble) for _, trouble in answers if trouble is not None), bool(answers)


async def _query_archive(
    adapter: ArchiveAdapter, url: str, days: Sequence[datetime | None]
) -> tuple[list[ArchiveMemento], ArchiveUnavailableError | None]:
    """Fetch the versions for several days, with no more requests than needed to cover each day."""
    versions: dict[str, ArchiveMemento] = {}
    for number, day in enumerate(days):
        if number:
            if not versions or day is None:
                continue
            sides = {moment_of(each.timestamp) <= day for each in versions.values() if each.timestamp}
            if len(sides) == 2:  # with copies before and after the day the nearest is known, too
                continue
        try:
            answer = await adapter.find(url, day)
        except ArchiveUnavailableError as error:
            return list(versions.values()), error
        versions |= {each.address: each for each in answer}
    return list(versions.values()), None


async def _choose_verified(
    archives: CopySources,
    url: str,
    candidates: Sequence[ArchiveMemento],
    moments: tuple[datetime | None, datetime],
    known_checks: dict[str, CopyCheckResult],
) -> dict[str, ArchiveMemento]:
    """Choose one version of each archive without those that prove bad; `known_checks` has checks by address."""

    def corrected() -> dict[str, ArchiveMemento]:
        return choose_versions((_corrected(copy, known_checks.get(copy.address)) for copy in candidates), *moments)

    def unsure(chosen: dict[str, ArchiveMemento]) -> list[ArchiveMemento]:
        known = {one.address for one in known_checks.values() if one.address}
        return [
            copy
            for copy in chosen.values()
            if copy.address
            and copy.service != WEBOID
            and copy.address not in known_checks
            and copy.address not in known
            and (archives.verifies or copy.status is None)
        ]

    for _ in range(TRIES):
        queried = unsure(corrected())
        if not queried:
            break
        checks = (check_copy(archives.client, each.address, url, own=archives.origins) for each in queried)
        known_checks |= dict(zip((each.address for each in queried), await asyncio.gather(*checks), strict=True))
    chosen = corrected()
    return chosen | {copy.service: ArchiveMemento(copy.service, "", "") for copy in unsure(chosen)}


def _corrected(copy: ArchiveMemento, check: CopyCheckResult | None) -> ArchiveMemento:
    """Return the copy as it was checked: another version, or an empty one when it is not usable."""
    if check is None or check.verdict is CopyVerdict.UNCLEAR:
        return copy
    if check.verdict in (CopyVerdict.GOOD, CopyVerdict.MOVED):
        return ArchiveMemento(copy.service, check.address, check.timestamp or copy.timestamp, 200, copy.mime)
    return ArchiveMemento(copy.service, "", "")


async def _request_copy(archives: CopySources, url: str, result: CopySearchResult) -> CopySearchResult:
    if archives.saver is None:
        return result
    try:
        saved = await archives.saver.take(url)
    except ArchiveUnavailableError as error:
        return replace(result, troubles=(*result.troubles, str(error)))
    if saved.copy is not None:
        others = (each for each in result.copies if each.service != saved.copy.service)
        return replace(result, best=saved.copy, copies=(*others, saved.copy))
    never = "cannot be saved: " if saved.outcome is SavedAs.NEVER else "could not be saved now: "
    return replace(result, note=never + saved.reason)


def _outcome(result: CopySearchResult, *, queried: bool) -> CopySearchOutcome | None:
    """Return the search outcome to store; None when no archive was queried."""
    if result.best is not None:
        return CopySearchOutcome.SAVED if result.step is SearchStep.SAVE else CopySearchOutcome.FOUND
    if result.step is SearchStep.UNFIXABLE:
        return CopySearchOutcome.UNFIXABLE
    if result.troubles:
        return CopySearchOutcome.TROUBLE
    if result.note.startswith("cannot"):
        return CopySearchOutcome.UNSAVABLE
    return CopySearchOutcome.WANTED if queried and result.step is SearchStep.SAVE else None
