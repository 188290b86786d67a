"""Captures and pages in the index that a take-down covers, and the take-downs that cover named content."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from core.captures import Capture
from core.digests import Digest
from core.errors import InputError
from playback.access.control import PAGE_FACTS, AccessControl, PageFacts, page_facts
from playback.access.decision_store import DecisionStore
from playback.access.takedowns import (
    Takedown,
    TakedownKind,
    TakedownSet,
    list_takedowns,
    normalize_target,
    takedown_key,
)
from playback.replay.capture_lookup import CAPTURE_COLUMNS, captures_of
from warc.index.database import IndexDatabase, in_lists, key_values

_NEVER = datetime.max.replace(tzinfo=UTC)
_CHECKS = """id IN (SELECT checked.id FROM qualities JOIN captures AS checked
    ON checked.filename = qualities.filename AND checked."offset" = qualities."offset"
    WHERE qualities.page_id IN ({marks}))"""


class TakedownCoverage:
    """Captures and pages of the index that a take-down, stored or not, covers at `now`."""

    def __init__(self, database: IndexDatabase, takedown: Takedown, now: datetime) -> None:
        self._database = database
        self._takedown = takedown
        self._permits = AccessControl(TakedownSet((takedown,)), database.rows, lambda: now, show_logins=True)

    def pages(self) -> Iterator[PageFacts]:
        """Yield the covered pages, in no particular order."""
        ids = self._ids("captures")
        if self._takedown.kind is not TakedownKind.DIGEST:
            ids |= self._ids("pages")
        for pages in self._pages(ids):
            covered = self._permits.pages(pages)
            yield from (page for page in pages if page.page_id in covered)

    def embedding_pages(self) -> Iterator[PageFacts]:
        """Yield pages that are not covered themselves but frame a covered document."""
        covered = {page.page_id for page in self.pages()}
        for pages in self._pages(self._ids("captures") - covered):
            embedded = self._permits.embedded([page.page_id for page in pages])
            yield from (page for page in pages if page.page_id in embedded)

    def captures(self) -> Iterator[Capture]:
        """Yield covered records once each, including artifacts and checks of the pages."""
        seen: set[tuple[str, int]] = set()
        for capture, is_check in self._candidates():
            place = (capture.location.filename, capture.location.offset)
            if place not in seen and (is_check or self._permits.capture(capture) is not None):
                seen.add(place)
                yield capture

    def _candidates(self) -> Iterator[tuple[Capture, bool]]:
        for capture in self._captures(*self._condition()):
            yield capture, False
        for marks, values in in_lists([page.page_id for page in self.pages()]):
            for capture in self._captures(f"page_id IN ({marks})", values):
                yield capture, False
            # Check records of the pages are covered, regardless of their date.
            for capture in self._captures(_CHECKS.format(marks=marks), values):
                yield capture, True

    def _pages(self, page_ids: set[str]) -> Iterator[list[PageFacts]]:
        """Yield the pages with these identifiers, some at a time."""
        for marks, values in in_lists(sorted(page_ids)):
            query = f"SELECT {PAGE_FACTS} FROM pages WHERE page_id IN ({marks})"  # noqa: S608 ours
            yield [page_facts(row) for row in self._database.rows(query, values)]

    def _ids(self, table: str) -> set[str]:
        condition, values = self._condition()
        query = f"SELECT DISTINCT page_id FROM {table} WHERE page_id IS NOT NULL AND {condition}"  # noqa: S608 ours
        return {row["page_id"] for row in self._database.rows(query, values)}

    def _captures(self, condition: str, values: Mapping[str, Any]) -> Iterator[Capture]:
        query = f"SELECT {CAPTURE_COLUMNS} FROM captures WHERE {condition}"  # noqa: S608 ours
        return captures_of(self._database.rows(query, values))

    def _condition(self) -> tuple[str, Mapping[str, Any]]:
        """Return an SQL condition that selects a superset of the covered rows, and its parameters."""
        key = takedown_key(self._takedown)
        match self._takedown.kind:
            case TakedownKind.DIGEST:
                digest = Digest.parse(self._takedown.what)
                spelled = {str(digest), digest.base32, digest.bare, digest.base32.rstrip("=")}
                ((marks, values),) = in_lists(sorted(spelled))
                return f"digest IN ({marks})", values
            case TakedownKind.URL:
                return self._database.has_key, dict(key_values(key))
            case TakedownKind.CAPTURE:
                return self._database.has_key, dict(key_values(key.partition(" ")[2]))
            case _:
                end = key[:-1] + chr(ord(key[-1]) + 1)
                return "urlkey >= :first AND urlkey < :end", {"first": key, "end": end}


def revisits_of(database: IndexDatabase, captures: list[Capture]) -> list[Capture]:
    """Return revisits of the captures' payloads that are not among the captures."""
    places = {(each.location.filename, each.location.offset) for each in captures}
    revisits: dict[tuple[str, int], Capture] = {}
    for marks, values in in_lists(sorted({each.digest for each in captures})):
        query = (
            f"SELECT {CAPTURE_COLUMNS} FROM captures WHERE record_type = 'revisit'"  # noqa: S608 names of values
            f" AND digest IN ({marks})"
        )
        for each in captures_of(database.rows(query, values)):
            place = (each.location.filename, each.location.offset)
            is_covered = each.original is not None and (each.original.filename, each.original.offset) in places
            if is_covered and place not in places:
                revisits[place] = each
    return list(revisits.values())


def takedown_targets(database: IndexDatabase, model: Takedown, names: Sequence[str]) -> list[Takedown]:
    """Return take-downs like the model, one for each name and each other digest of its payload; InputError: bad name."""
    takedowns: dict[tuple[str, ...], Takedown] = {}
    for place, name in enumerate(names, 1):
        try:
            target = normalize_target(model.kind, name)
        except InputError as error:
            raise InputError(f"Entry {place}: {error}" if len(names) > 1 else str(error)) from error
        aliases = set[str]()
        if model.kind is TakedownKind.DIGEST:  # chunked responses are hashed as transferred
            query = "SELECT digest, spelled FROM payloads WHERE digest = :digest OR spelled = :digest"
            aliases = {row[key] for row in database.rows(query, {"digest": target}) for key in ("digest", "spelled")}
        for each in (target, *sorted(aliases - {target})):
            takedown = replace(model, what=each)
            takedowns.setdefault(takedown.identity, takedown)
    return list(takedowns.values())


def not_in_force(store: DecisionStore, takedowns: Sequence[Takedown], now: datetime) -> list[Takedown]:
    """Return those of the take-downs without an equal one in the store that holds now, and for as long."""
    held: dict[tuple[str, ...], datetime] = {}
    targets = {each.what for each in takedowns}
    for each in list_takedowns(store, target=targets.pop() if len(targets) == 1 else ""):
        if each.holds(now):
            held[each.identity] = max(held.get(each.identity, now), each.expires_at or _NEVER)
    return [each for each in takedowns if held.get(each.identity, now) < (each.expires_at or _NEVER)]
