"""Upkeep of external copies: quarterly checks, and mirroring after own captures.

A copy missing in two checks a week apart is dropped, unless nearly all copies of the archive are missing at once:
then it is down or has moved. After a good capture an external archive is requested to archive the page, unless it
has a recent copy; after a failed one archives are searched as well; a page that is gone is only searched for.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.errors import WeboidError
from links.archives import copy_store
from links.archives.adapters import SaveOutcome, SaveResult
from links.archives.archive_answers import ArchiveMemento
from links.archives.archive_client import ArchiveClient, ArchiveUnavailableError
from links.archives.copy_check import CopyCheckResult, CopyVerdict, check_copy
from links.archives.copy_search import CopySources, SearchStep, citation_days, search_copies
from links.archives.copy_store import CopyCheckEffect, CopySearchOutcome, StoredCopy
from links.check_history import day_of
from links.check_result import CheckVerdict
from links.registry.citations import cited_uses
from links.registry.database import RegistryStore
from links.registry.urls import UrlRow
from links.states import LinkState

ALL_GONE: Final = 5  # this many missing in a row: the archive itself has a problem
_LOST = frozenset((CopyVerdict.GONE, CopyVerdict.BAD, CopyVerdict.OTHER_PAGE))
_DOWN: Final = "the archive shows none of its copies, so the archive itself has a problem"


@dataclass(frozen=True, slots=True)
class CopyVisit:
    """Check of one copy."""

    url: UrlRow
    copy: StoredCopy  # the checked one
    visit: CopyCheckEffect  # the effect on the registry
    seen: CopyCheckResult


async def check_due_copies(
    store: RegistryStore,
    client: ArchiveClient,
    *,
    now: datetime,
    limit: int,
    own: tuple[str, ...] = (),
    on_check: Callable[[int], None] = lambda _count: None,
) -> list[CopyVisit]:
    """Check up to `limit` copies that are due, and store the results; `on_check` gets each of them."""
    with store.reading() as rows:
        waiting = copy_store.due_copies(rows, day_of(now), limit)
    services: defaultdict[str, list[tuple[UrlRow, StoredCopy]]] = defaultdict(list)
    for url, copy in waiting:
        services[copy.service].append((url, copy))

    async def at_one(copies: list[tuple[UrlRow, StoredCopy]]) -> list[CopyVisit]:
        checks = []
        for url, copy in copies:
            checks.append(await check_copy(client, copy.address, url.url, own=own))
            on_check(1)
        if len(checks) >= ALL_GONE and all(one.verdict in _LOST for one in checks):
            checks = [CopyCheckResult(CopyVerdict.UNCLEAR, note=_DOWN) for _ in checks]
        with store.writing() as rows:
            return [
                CopyVisit(url, copy, copy_store.record_copy_check(rows, url.id, copy, one, day_of(now)), one)
                for (url, copy), one in zip(copies, checks, strict=True)
            ]

    done = await asyncio.gather(*(at_one(copies) for copies in services.values()))
    return [each for visits in done for each in visits]


log = logging.getLogger(__name__)

YOUNG_DAYS: Final = 91  # a copy elsewhere that was kept so lately is not taken again
_REQUESTED = frozenset((CopySearchOutcome.SAVED, CopySearchOutcome.UNSAVABLE, CopySearchOutcome.TROUBLE))
_SEARCHED = _REQUESTED | {CopySearchOutcome.WANTED, CopySearchOutcome.UNFIXABLE}
# Verdicts on our own captures that mirroring follows, by their names for users; after "failed" (no answer, refused, a
# challenge) another attempt may succeed.
MIRRORED: Final = {CheckVerdict.OK: "good", CheckVerdict.GONE: "gone"} | dict.fromkeys(
    (CheckVerdict.FAILING, CheckVerdict.REFUSED, CheckVerdict.SUSPECT), "failed"
)


class MirrorMode(StrEnum):
    """Value of `[links] mirror`: captures that are followed by an external one."""

    NEVER = "never"
    FAILED = "failed"  # those without a result
    ALWAYS = "always"


class MirrorOutcome(StrEnum):
    """Outcome of mirroring."""

    KEPT = "kept"  # there is a copy elsewhere already
    LEFT = "left"  # it was requested recently, or this kind of visit is not mirrored
    SAVED = "saved"  # an archive elsewhere has just taken it
    FOUND = "found"  # … had it
    LATER = "later"  # not now
    NEVER = "never"  # it cannot be archived there, and no archive has it


@dataclass(frozen=True, slots=True)
class MirrorResult:
    """Result of mirroring one link."""

    url: str  # the link
    done: MirrorOutcome
    copy: ArchiveMemento | None = None  # the external copy; None without one
    note: str = ""  # the reason, if any


def is_mirror_wanted(
    store: RegistryStore, url: UrlRow, visited: CheckVerdict, *, wanted: MirrorMode, now: datetime
) -> MirrorOutcome | None:
    """Return None when archives are to be queried about the link, else the reason not to."""
    if wanted is MirrorMode.NEVER or (wanted is MirrorMode.FAILED and visited is CheckVerdict.OK):
        return MirrorOutcome.LEFT
    today = day_of(now)
    with store.reading() as rows:
        stored, last = copy_store.copies_of_url(rows, url.id), copy_store.last_search(rows, url.id)
    theirs = [each for each in stored if each.address]
    young = [each for each in theirs if today - each.found_day <= YOUNG_DAYS]
    if young or (theirs and visited is not CheckVerdict.OK):
        return MirrorOutcome.KEPT
    recent = _REQUESTED if visited is CheckVerdict.OK else _SEARCHED
    return MirrorOutcome.LEFT if last is not None and last.outcome in recent and today < last.again_day else None


async def mirror_url(
    store: RegistryStore, archives: CopySources, url: UrlRow, visited: CheckVerdict, *, now: datetime
) -> MirrorResult:
    """Request an external copy of the link (with a saver) or find one, and store the outcome of our capture.

    For a link whose `is_mirror_wanted` is None. An internal error is stored as trouble, and retried later.
    """
    try:
        saved = None
        if visited is not CheckVerdict.GONE and archives.saver is not None:
            try:
                saved = await archives.saver.take(url.url)
            except ArchiveUnavailableError as error:
                saved = SaveResult(SaveOutcome.LATER, reason=str(error))
            if saved.copy is not None:
                _keep(store, url, [saved.copy], CopySearchOutcome.SAVED, now)
                return MirrorResult(url.url, MirrorOutcome.SAVED, saved.copy)
        if visited is not CheckVerdict.OK:
            return await _search_elsewhere(store, archives, url, saved, now)
        if saved is None:
            return MirrorResult(url.url, MirrorOutcome.LEFT, note="there is no key for Save Page Now")
        is_never = saved.outcome is SaveOutcome.NEVER
        _keep(store, url, [], CopySearchOutcome.UNSAVABLE if is_never else CopySearchOutcome.TROUBLE, now, saved.reason)
        return MirrorResult(url.url, MirrorOutcome.NEVER if is_never else MirrorOutcome.LATER, note=saved.reason)
    except WeboidError:
        raise
    except Exception as error:
        log.exception("mirror.internal_error url=%s", url.url)
        note = f"internal error of Weboid: {type(error).__name__}"
        _keep(store, url, [], CopySearchOutcome.TROUBLE, now, note)
        return MirrorResult(url.url, MirrorOutcome.LATER, note=note)


async def _search_elsewhere(
    store: RegistryStore, archives: CopySources, url: UrlRow, saved: SaveResult | None, now: datetime
) -> MirrorResult:
    """Search archives for a link that we could not capture, after the request to archive it."""
    # Treated as dead, so that no archive is asked again to capture it; our own copies are not mirrors.
    dead_url = url._replace(state=LinkState.DEAD)
    asking = replace(archives, saver=None, own=lambda _url, _at: None)
    with store.reading() as rows:
        uses = cited_uses(rows, url.id)
    written = [each.access_day for each in uses if each.access_day is not None]
    days = citation_days(written, [each.first_day for each in uses if each.access_day is None], now)
    search = await search_copies(store, asking, dead_url, now=now, days=days, is_thorough=True)
    if search.best is not None:
        return MirrorResult(url.url, MirrorOutcome.FOUND, search.best)
    note = "; ".join([*search.troubles, *([saved.reason] if saved is not None else [])])
    is_over = search.step is SearchStep.UNFIXABLE and (saved is None or saved.outcome is SaveOutcome.NEVER)
    if not is_over:
        _keep(store, url, [], CopySearchOutcome.TROUBLE, now, note)
    elif url.state not in copy_store.DEAD:  # what lives may be had elsewhere before half a year is over
        _keep(store, url, [], CopySearchOutcome.WANTED, now, note)
    return MirrorResult(url.url, MirrorOutcome.NEVER if is_over else MirrorOutcome.LATER, note=note)


def _keep(
    store: RegistryStore,
    url: UrlRow,
    copies: Iterable[ArchiveMemento],
    outcome: CopySearchOutcome,
    now: datetime,
    note: str = "",
) -> None:
    with store.writing() as rows:
        copy_store.put_copies(rows, url.id, copies, day_of(now))
        copy_store.note_search(rows, url.id, outcome, day_of(now), note)
