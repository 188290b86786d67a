"""Captures and pages in the index that a take-down covers."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from core.captures import Capture
from core.digests import Digest
from playback.access.control import AccessControl
from playback.access.takedowns import Takedown, TakedownKind, TakedownSet, takedown_key
from playback.replay.capture_lookup import CAPTURE_COLUMNS, capture_of
from warc.index.database import IndexDatabase, key_values

_AT_ONCE = 500
_CHECKS = """id IN (SELECT said.id FROM qualities JOIN captures AS said
    ON said.filename = qualities.filename AND said."offset" = qualities."offset"
    WHERE qualities.page_id IN ({marks}))"""


class CoveredPage(NamedTuple):
    """Page covered by a take-down."""

    page_id: str
    url: str
    timestamp: str
    final_url: str
    title: str
    login: str


class TakedownCoverage:
    """Captures and pages of the index that a take-down covers.

    Args:
        database: the captures index.
        takedown: the decision, stored or not.
        now: time at which it is evaluated.
    """

    def __init__(self, database: IndexDatabase, takedown: Takedown, now: datetime) -> None:
        self._database = database
        self._takedown = takedown
        self._permits = AccessControl(
            TakedownSet((takedown,)), database.rows, lambda: now, show_logins=True
        )

    def pages(self) -> Iterator[CoveredPage]:
        """Yield the covered pages, in no particular order."""
        condition, values = self._condition()
        ids: set[str] = set()
        for table in () if self._takedown.kind is TakedownKind.DIGEST else ("pages",):
            ids.update(self._ids(table, condition, values))
        ids.update(self._ids("captures", condition, values))
        for part in _parts(sorted(ids)):
            found = self._pages(part)
            covered = self._permits.pages(found)
            yield from (page for page in found if page.page_id in covered)

    def embedding_pages(self) -> Iterator[CoveredPage]:
        """Yield pages that are not covered themselves but frame a covered document."""
        condition, values = self._condition()
        covered = {page.page_id for page in self.pages()}
        for part in _parts(sorted(set(self._ids("captures", condition, values)) - covered)):
            embedded = self._permits.embedded(part)
            yield from (page for page in self._pages(part) if page.page_id in embedded)

    def captures(self) -> Iterator[Capture]:
        """Yield covered records once each, including artifacts and checks of the pages."""
        condition, values = self._condition()
        seen: set[tuple[str, int]] = set()
        found = self._captures(condition, values)
        for capture in found:
            yield from self._new(capture, seen)
        for part in _parts([page.page_id for page in self.pages()]):
            marks, named = _marks(part)
            for capture in self._captures(f"page_id IN ({marks})", named):
                yield from self._new(capture, seen)
            # Check records of the pages are covered, regardless of their date.
            for capture in self._captures(_CHECKS.format(marks=marks), named):
                place = (capture.location.filename, capture.location.offset)
                if place not in seen:
                    seen.add(place)
                    yield capture

    def _pages(self, page_ids: list[str]) -> list[CoveredPage]:
        marks, values = _marks(page_ids)
        query = (
            f"SELECT {', '.join(CoveredPage._fields)} FROM pages"  # noqa: S608 names of values
            f" WHERE page_id IN ({marks})"
        )
        return [
            CoveredPage(*(row[name] for name in CoveredPage._fields))
            for row in self._database.rows(query, values)
        ]

    def _new(self, capture: Capture, seen: set[tuple[str, int]]) -> Iterator[Capture]:
        place = (capture.location.filename, capture.location.offset)
        if place not in seen and self._permits.capture(capture) is not None:
            seen.add(place)
            yield capture

    def _ids(self, table: str, condition: str, values: dict[str, Any]) -> Iterator[str]:
        query = f"SELECT DISTINCT page_id FROM {table} WHERE page_id IS NOT NULL AND {condition}"  # noqa: S608 ours
        for row in self._database.rows(query, values):
            yield row["page_id"]

    def _captures(self, condition: str, values: dict[str, Any]) -> Iterator[Capture]:
        query = f"SELECT {CAPTURE_COLUMNS} FROM captures WHERE {condition}"  # noqa: S608 ours
        for row in self._database.rows(query, values):
            capture = capture_of(row)
            if capture is not None:
                yield capture

    def _condition(self) -> tuple[str, dict[str, Any]]:
        """Return an SQL condition that selects a superset of the covered rows, and its parameters."""
        key = takedown_key(self._takedown)
        match self._takedown.kind:
            case TakedownKind.DIGEST:
                digest = Digest.parse(self._takedown.what)
                spelled = {str(digest), digest.base32, digest.bare, digest.base32.rstrip("=")}
                marks, values = _marks(sorted(spelled))
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
    found: dict[tuple[str, int], Capture] = {}
    for part in _parts(sorted({each.digest for each in captures})):
        marks, values = _marks(part)
        query = (
            f"SELECT {CAPTURE_COLUMNS} FROM captures WHERE record_type = 'revisit'"  # noqa: S608 names of values
            f" AND digest IN ({marks})"
        )
        for row in database.rows(query, values):
            each = capture_of(row)
            if each is None or each.original is None:
                continue
            place = (each.location.filename, each.location.offset)
            original = (each.original.filename, each.original.offset)
            if original in places and place not in places:
                found[place] = each
    return list(found.values())


def digest_aliases(database: IndexDatabase, digest: str) -> list[str]:
    """Return other digests of the same payload: chunked responses are hashed as transferred."""
    query = "SELECT digest, spelled FROM payloads WHERE digest = :digest OR spelled = :digest"
    rows = database.rows(query, {"digest": digest})
    return sorted({row[name] for row in rows for name in ("digest", "spelled")} - {digest})


def _parts(ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]


def _marks(texts: list[str]) -> tuple[str, dict[str, Any]]:
    values = {f"text_{number}": text for number, text in enumerate(texts)}
    return ", ".join(f":{name}" for name in values), values
