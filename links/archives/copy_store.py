"""Storage of copies in other archives in the registry: search results, manual choices, locks, checks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, case, delete, exists, not_, or_, select, text, update

from core.errors import InputError
from links.archives.archive_answers import ArchiveMemento
from links.archives.archive_urls import is_copy_of, recognise
from links.archives.copy_check import CopyCheckResult, CopyVerdict
from links.check_history import day_of, unpack_history
from links.check_result import CheckVerdict, verdict_of
from links.feedback.replacements import AddressRefusal, RefusedAddressError
from links.registry.lookups import CopyFacts
from links.registry.schema import copies, copy_searches, copy_versions, urls
from links.registry.statements import upsert
from links.registry.urls import COLUMNS, UrlRow, row_of, select_url_rows
from links.states import LinkState

VISIT_DAYS: Final = 91  # each copy is checked once a quarter (W32)
SECOND_LOOK_DAYS: Final = 7  # before a copy is dropped
UNCLEAR_DAYS: Final = 7  # until a copy with an unclear result is checked again


DEAD: Final = frozenset((LinkState.DEAD, LinkState.PERMADEAD, LinkState.USURPED))
# As the index `link_urls_lost` has it: a condition whose values are given later could not use it.
_DEAD: Final = "link_urls.state IN (3, 5, 8)"
_DYING: Final = "link_urls.state = 2"
_LIVING: Final = "link_urls.state = 1"
_AT_ONCE: Final = 500  # rows of one query


class CopyLockedError(InputError):
    """Refusal of a manual choice because the page is locked (W31)."""


class CopySearchOutcome(IntEnum):
    """Outcome of querying archives about a URL; the values are stored in the registry."""

    FOUND = 1
    WANTED = 2  # it works, but no archive has it: archive it
    SAVED = 3  # another archive has just taken it
    UNFIXABLE = 4  # it is dead, and no archive has it (B12)
    UNSAVABLE = 5  # it lives, and cannot be archived elsewhere
    TROUBLE = 6  # an archive gave no answer
    OUTDATED = 7  # a page cites it on a day since for which no version was looked for
    FAILING = 8  # no archive has it; it fails, but is not dead yet


# Days until archives are queried again.
AGAIN_DAYS: Final = {
    CopySearchOutcome.FOUND: 91,
    CopySearchOutcome.WANTED: 7,
    CopySearchOutcome.SAVED: 91,
    CopySearchOutcome.UNFIXABLE: 183,
    CopySearchOutcome.UNSAVABLE: 183,
    CopySearchOutcome.TROUBLE: 1,
    CopySearchOutcome.OUTDATED: 0,
    CopySearchOutcome.FAILING: 7,
}


class StoredCopy(CopyFacts):
    """Copy as stored in the registry."""

    __slots__ = ()

    @property
    def copy(self) -> ArchiveMemento:
        """Return it as an `ArchiveMemento`."""
        return ArchiveMemento(self.service, self.address, self.timestamp)


@dataclass(frozen=True, slots=True)
class CopyChoice:
    """Manual choice of a version."""

    by: str  # the person
    address: str = ""  # the version's; empty: none is chosen
    service: str = ""  # the archive; may be empty when the address identifies it
    is_admin: bool = False  # the person is an administrator, to whom locks do not apply


class CopyCheckEffect(StrEnum):
    """Effect of a check on the stored copy."""

    GOOD = "good"
    MOVED = "moved"  # another version took its place
    MISSED = "missed"  # it was missing; checked once more before it is dropped
    DROPPED = "dropped"
    UNCLEAR = "unclear"  # unclear; checked again soon


class CopySearch(NamedTuple):
    """Last search of archives for a URL."""

    day: int
    outcome: CopySearchOutcome
    note: str

    @property
    def again_day(self) -> int:
        """Return the day from which archives may be queried again."""
        return self.day + AGAIN_DAYS[self.outcome]


_COLUMNS = tuple(copies.c[name] for name in StoredCopy._fields)


def copies_of_url(connection: Connection, url_id: int) -> tuple[StoredCopy, ...]:
    """Return the URL's copies, ordered by archive name."""
    query = select(*_COLUMNS).where(copies.c.url_id == url_id).order_by(copies.c.service)
    return tuple(StoredCopy(*row) for row in connection.execute(query))


def put_copies(connection: Connection, url_id: int, mementos: Iterable[ArchiveMemento], day: int) -> int:
    """Store a search result, one version of each archive; return the number of changes.

    A person's choice is kept, and so is an earlier version where no good one is found now.
    """
    copies_by_service = {stored.service: stored for stored in copies_of_url(connection, url_id)}
    is_locked = any(stored.is_locked for stored in copies_by_service.values())
    rows = []
    for copy in {each.service: each for each in mementos}.values():
        stored = copies_by_service.get(copy.service)
        if stored is not None and (stored.chosen_by or not copy.address or stored.address == copy.address):
            continue
        rows.append(_row(url_id, copy, stored.found_day if stored is not None else day, day, is_locked=is_locked))
    upsert(connection, copies, ("url_id", "service"), rows)
    return len(rows)


def choose_copy(
    connection: Connection, url: UrlRow, choice: CopyChoice, *, day: int, own: Sequence[str] = ()
) -> StoredCopy:
    """Store a manual choice of version, or of none (W30); raises CopyLockedError, RefusedAddressError or InputError."""
    stored_copies = copies_of_url(connection, url.id)
    is_locked = any(stored.is_locked for stored in stored_copies)
    if is_locked and not choice.is_admin:
        raise CopyLockedError(f"{url.url[:200]} changes all the time, so only administrators choose its version.")
    if choice.address:
        copy = parse_chosen_copy(choice.address, url.url, own=own)
    elif choice.service in {stored.service for stored in stored_copies}:
        copy = ArchiveMemento(choice.service, "", "")
    else:
        known = ", ".join(stored.service for stored in stored_copies) or "none"
        raise InputError(f"Name the archive whose version is to be deselected; there are copies in: {known}.")
    if choice.service and copy.service != choice.service:
        raise InputError(f"That address belongs to the archive {copy.service}, not to {choice.service[:80]}.")
    found_day = next((stored.found_day for stored in stored_copies if stored.service == copy.service), day)
    row = _row(url.id, copy, found_day, day, is_locked=is_locked)
    upsert(connection, copies, ("url_id", "service"), [row | {"chosen_by": choice.by}])
    return next(stored for stored in copies_of_url(connection, url.id) if stored.service == copy.service)


def parse_chosen_copy(address: str, url: str, *, own: Sequence[str] = ()) -> ArchiveMemento:
    """Parse an archive address of a copy of the URL (B07) or without an original; else RefusedAddressError."""
    archive_url = recognise(address, own=own)
    if archive_url is None or not archive_url.is_known:
        raise RefusedAddressError(
            f"{address[:200]!r} is not an address of a known archive; docs/how-to/archives.md lists them.",
            reason=AddressRefusal.OTHER_COPY,
        )
    if not archive_url.is_usable:
        raise RefusedAddressError(
            f"No copy can be read at {address[:200]!r} ({archive_url.fault}).", reason=AddressRefusal.UNREACHABLE
        )
    if is_copy_of(archive_url, url) is False:
        raise RefusedAddressError(
            f"That is a copy of {archive_url.original[:200]}, not of {url[:200]}.", reason=AddressRefusal.OTHER_COPY
        )
    return ArchiveMemento(archive_url.service, archive_url.address, archive_url.timestamp)


def lock_copies(connection: Connection, url: UrlRow, *, is_locked: bool, is_admin: bool) -> int:
    """Lock or unlock manual choices for a page; return the number of copies, InputError when there are none.

    Raises CopyLockedError unless administrators unlock.
    """
    if not is_locked and not is_admin:
        raise CopyLockedError("Only administrators lift a lock.")
    count = connection.execute(update(copies).where(copies.c.url_id == url.id).values(is_locked=is_locked)).rowcount
    if not count:
        raise InputError(f"{url.url[:200]} has no copies yet: `weboid links copies find` searches for some.")
    return count


def drop_copy(connection: Connection, url_id: int, service: str) -> bool:
    """Delete the URL's copy in that archive; return False when there was none."""
    count = 0
    for table in (copy_versions, copies):
        count = connection.execute(delete(table).where(table.c.url_id == url_id, table.c.service == service)).rowcount
    return count > 0


def due_copies(connection: Connection, day: int, limit: int) -> list[tuple[UrlRow, StoredCopy]]:
    """Return URLs with a copy that is due for a check, longest waiting first."""
    query = (
        select_url_rows()
        .add_columns(*_COLUMNS)
        .join(copies, copies.c.url_id == urls.c.id)
        .where(copies.c.due_day <= day)
        .order_by(copies.c.due_day, copies.c.url_id, copies.c.service)
        .limit(limit)
    )
    return [(row_of(row), StoredCopy(*row[len(COLUMNS) :])) for row in connection.execute(query)]


def record_copy_check(
    connection: Connection, url_id: int, stored: StoredCopy, check: CopyCheckResult, day: int
) -> CopyCheckEffect:
    """Store a check result: a copy that is missing or an error page is dropped at the second check.

    A version that the archive replaces by another one is updated, unless a person chose it.
    """
    row = (copies.c.url_id == url_id) & (copies.c.service == stored.service)
    if check.verdict is CopyVerdict.UNCLEAR:
        connection.execute(update(copies).where(row).values(due_day=day + UNCLEAR_DAYS))
        return CopyCheckEffect.UNCLEAR
    values: dict[str, Any] = {"checked_day": day, "due_day": day + VISIT_DAYS, "missed_day": None}
    if check.verdict in (CopyVerdict.GOOD, CopyVerdict.MOVED):
        moved = check.verdict is CopyVerdict.MOVED and not stored.chosen_by
        if moved:
            values |= {"address": check.address, "timestamp": check.timestamp}
        connection.execute(update(copies).where(row).values(values))
        return CopyCheckEffect.MOVED if moved else CopyCheckEffect.GOOD
    if stored.missed_day is None or day - stored.missed_day < SECOND_LOOK_DAYS:
        missed = day if stored.missed_day is None else stored.missed_day
        values |= {"missed_day": missed, "due_day": missed + SECOND_LOOK_DAYS}
        connection.execute(update(copies).where(row).values(values))
        return CopyCheckEffect.MISSED
    drop_copy(connection, url_id, stored.service)
    return CopyCheckEffect.DROPPED


def note_search(connection: Connection, url_id: int, outcome: CopySearchOutcome, day: int, note: str = "") -> None:
    """Store the time and outcome of a search for the URL."""
    row = {"url_id": url_id, "day": day, "outcome": int(outcome), "note": note[:500]}
    upsert(connection, copy_searches, ("url_id",), [row])


def last_search(connection: Connection, url_id: int) -> CopySearch | None:
    """Return the last search for the URL; None when there was none."""
    columns = (copy_searches.c.day, copy_searches.c.outcome, copy_searches.c.note)
    row = connection.execute(select(*columns).where(copy_searches.c.url_id == url_id)).first()
    return None if row is None else CopySearch(row.day, CopySearchOutcome(row.outcome), row.note)


def urls_without_copy(connection: Connection, day: int, limit: int, *, living: bool = False) -> list[UrlRow]:
    """Return links to search copies for: dead or always failing (with `living` also live) ones without a copy.

    Includes links whose copies were chosen before a page cited them on another day.
    """
    url_rows = _without(connection, day, limit, _DEAD)
    if len(url_rows) < limit:
        url_rows += _never_alive(connection, day, limit - len(url_rows))
    if living and len(url_rows) < limit:
        url_rows += _without(connection, day, limit - len(url_rows), _LIVING)
    return url_rows


def _never_alive(connection: Connection, day: int, limit: int) -> list[UrlRow]:
    """Return links without a copy that no check found alive: they may have been dead for years."""
    after, url_rows = 0, list[UrlRow]()
    while len(url_rows) < limit:
        batch = _without(connection, day, _AT_ONCE, _DYING, after=after)
        if not batch:
            break
        after = batch[-1].id
        url_rows += [
            each
            for each in batch
            if all(verdict_of(run.code) != CheckVerdict.OK for run in unpack_history(each.history))
        ]
    return url_rows[:limit]


def _without(connection: Connection, day: int, limit: int, states: str, *, after: int = 0) -> list[UrlRow]:
    again = case(*((copy_searches.c.outcome == int(each), days) for each, days in AGAIN_DAYS.items()), else_=0)
    has_copy = exists().where(copies.c.url_id == urls.c.id, copies.c.address != "")
    is_outdated = copy_searches.c.outcome == int(CopySearchOutcome.OUTDATED)
    query = (
        select_url_rows()
        .outerjoin(copy_searches, copy_searches.c.url_id == urls.c.id)
        .where(text(states), urls.c.id > after, or_(not_(has_copy), is_outdated))
        .where(or_(copy_searches.c.url_id.is_(None), copy_searches.c.day + again <= day))
        .order_by(urls.c.id)
        .limit(limit)
    )
    return [row_of(row) for row in connection.execute(query)]


def put_versions(connection: Connection, url_id: int, mementos: Iterable[ArchiveMemento], day: int) -> None:
    """Store further versions for citations of other days (B06), except where a person chose one."""
    by_person = {each.service for each in copies_of_url(connection, url_id) if each.chosen_by}
    rows = [
        {"url_id": url_id, "service": copy.service, "address": address, "timestamp": copy.timestamp, "found_day": day}
        for address, copy in {each.address: each for each in mementos}.items()
        if copy.service not in by_person
    ]
    upsert(connection, copy_versions, ("url_id", "service", "address"), rows)


def citable_copies(connection: Connection, url_id: int) -> tuple[StoredCopy, ...]:
    """Return the URL's copies including the versions for other days; one copy of each version."""
    chosen = {stored.service: stored for stored in copies_of_url(connection, url_id)}
    query = (
        select(copy_versions)
        .where(copy_versions.c.url_id == url_id)
        .order_by(copy_versions.c.service, copy_versions.c.timestamp)
    )
    all_copies = list(chosen.values())
    for row in connection.execute(query):
        stored = chosen.get(row.service)
        if stored is None or stored.chosen_by or stored.address == row.address:
            continue
        all_copies.append(stored._replace(address=row.address, timestamp=row.timestamp))
    return tuple(all_copies)


def keep_proposed_copy(
    connection: Connection, url: UrlRow, address: str, now: datetime, *, own: Sequence[str] = ()
) -> str:
    """Store an address proposed for a dead URL (W17) as its copy if it is a known archive's; return that or "".

    Proposals are unauthenticated, so an existing choice is kept. Raises RefusedAddressError, CopyLockedError (W31).
    """
    archive_url = recognise(address, own=own)
    if archive_url is None or not archive_url.is_known:
        return ""
    copy = parse_chosen_copy(address, url.url, own=own)
    copies_by_service = {stored.service: stored for stored in copies_of_url(connection, url.id)}
    if any(stored.is_locked for stored in copies_by_service.values()):
        raise CopyLockedError(f"{url.url[:200]} changes all the time, so its version is not chosen by hand.")
    if copy.service not in copies_by_service or not copies_by_service[copy.service].address:
        put_copies(connection, url.id, [copy], day_of(now))
    return copy.service


def _row(url_id: int, copy: ArchiveMemento, found_day: int, day: int, *, is_locked: bool) -> dict[str, Any]:
    stored = StoredCopy(copy.service, copy.address, copy.timestamp, found_day, day, "", is_locked, None)
    # Not checked yet; spread, so that a search of many URLs does not cause a burst a quarter later.
    due_day = day + VISIT_DAYS - url_id % 14 if copy.address else None
    return {"url_id": url_id, **stored._asdict(), "due_day": due_day}
