"""Copies to offer for many URLs, and the crawl queue's state of URLs without one (`QueueStatusReader`).

For each URL the newest good capture is offered, else the best of the newest `_LOOKED_AT`. Error pages, parked domains
and bot challenges are not copies. For a link that changed owner only earlier captures count. Captures that are taken
down, hidden or held are never offered. The captures index is queried twice at most.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from core.errors import BadUrlError, TransientError
from core.page_manifest import VisitOutcome
from core.url_keys import replay_key
from core.urls import fetch_key, has_one_spelling, identity_key
from playback.access.takedowns import TakedownEffect
from playback.web.page_store import COLUMNS, CapturedPage, PageStore
from warc.index.database import IndexDatabase, LookupRow, lookup_value
from warc.index.queries import RANK, USABLE, other_scheme


class UrlQueueState(StrEnum):
    """State of a URL in the crawl queue."""

    QUEUED = "queued"  # to be visited
    VISITING = "visiting"  # right now
    REFUSED = "refused"  # not to be visited, by its site, a rule or an operator
    FAILED = "failed"  # attempts were made, and are used up
    DONE = "done"  # visited; the copy is in the index, or was taken out of it


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """Failed attempt: end time and reason."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class UrlQueueStatus:
    """Status of a URL in the crawl queue."""

    standing: UrlQueueState
    since: datetime
    until: datetime | None = None  # earliest next attempt, or end of the refusal
    reason: str = ""  # machine-readable constant first, e.g. ``robots: …``; may be empty
    attempts: Sequence[FailedAttempt] = ()  # failed attempts, oldest first


class QueueStatusReader(Protocol):
    """Interface to the crawl queue. Thread-safe; TransientError means that it cannot be read now."""

    def standing(self, url: str) -> UrlQueueStatus | None:
        """Return the status of the URL; None when it was never added."""
        ...

    def standings(self, urls: Sequence[str]) -> Mapping[str, UrlQueueStatus]:
        """Return the status of those URLs that have one, without conditions of their hosts."""
        ...


_LOOKED_AT = 32
_MOST = 1_000  # URLs of one answer; further ones get no link to their copies
_NO_END_MS = 2**53
_VALUE = re.compile(r":(key_start|key)\b")
_SPELLED = "url IN (asked.one, asked.two, asked.three, asked.four)"
_GOOD = f"{USABLE} AND ({RANK}) = 0"


@dataclass(frozen=True, slots=True)
class UrlSpellings:
    """Normal forms of a URL for look-up."""

    fetch: str  # its fetch key, as captured
    identity: str  # its identity key, as in the link registry
    key: str  # its replay key, as in the index

    @classmethod
    def of(cls, url: str) -> "UrlSpellings":
        """Compute the normal forms; raise BadUrlError for a URL that cannot be fetched."""
        if has_one_spelling(url):
            return cls(url, url, replay_key(url))
        fetch = fetch_key(url)
        return cls(fetch, identity_key(fetch), replay_key(fetch))

    @property
    def urls(self) -> tuple[str, str, str, str]:
        """Return the URLs under which captures are stored, for both schemes."""
        return self.fetch, other_scheme(self.fetch), self.identity, other_scheme(self.identity)

    def is_of(self, url: str) -> bool:
        """Return True when the URL differs at most in spelling and scheme."""
        if url in self.urls:
            return True
        try:
            return identity_key(url) in (self.identity, other_scheme(self.identity))
        except BadUrlError:
            return False


class CopyObstacle(StrEnum):
    """Reason for the lack of a copy, from the index and the decisions."""

    TAKEN_DOWN = "taken-down"  # and this is disclosed
    HIDDEN = "hidden"  # and nothing is disclosed
    HELD = "held"  # for a threat in it
    FAILED = "failed"  # visits produced no copy of the page
    REFUSED = "refused"  # visits were not made


@dataclass(frozen=True, slots=True)
class CopyOffer:
    """Page to offer for a URL, or the reason why there is none."""

    page: CapturedPage | None = None  # None without a copy
    bar: CopyObstacle | None = None  # None with a page
    reason: str = ""  # for FAILED and REFUSED, as recorded; may be empty


class CopyLookup:
    """Look-up of copies in the captures index. Thread-safe."""

    def __init__(self, database: IndexDatabase, store: PageStore) -> None:
        self._database = database
        self._store = store
        has_key = _VALUE.sub(r"asked.\1", database.has_key)
        selected = f"SELECT asked.place, {COLUMNS} FROM {database.lookup_table} "  # noqa: S608 constants of ours
        counts = f"{has_key} AND captured_ms < asked.until_ms"
        self._good = selected + database.joined_first.format(
            where=f"{counts} AND {store.page_condition} AND {_SPELLED} AND {_GOOD} ORDER BY captured_ms DESC LIMIT 1"
        )
        self._newest = selected + database.joined_first.format(
            where=f"{counts} AND {store.page_condition} ORDER BY captured_ms DESC LIMIT {_LOOKED_AT}"
        )

    def of(self, urls: Sequence[UrlSpellings], until_ms: Mapping[str, int] | None = None) -> list[CopyOffer | None]:
        """Return each URL's offer, or None; captures later than `until_ms`, by identity key, do not count."""
        takedowns = self._store.takedowns_of([each.fetch for each in urls])
        bars = {
            TakedownEffect.HIDE: CopyOffer(bar=CopyObstacle.HIDDEN),
            TakedownEffect.BLOCK: CopyOffer(bar=CopyObstacle.TAKEN_DOWN),
        }
        offers = [None if each is None else bars[each.effect] for each in takedowns]
        until = until_ms or {}
        asking = [LookupRow(each.key, each.urls, until.get(each.identity, _NO_END_MS)) for each in urls]
        open_ = [place for place, offer in enumerate(offers) if offer is None]
        for place, pages in self._pages_of(self._good, asking, open_, artifacts_too=False).items():
            offers[place] = next((CopyOffer(page) for page in pages if page.is_usable), None)
        left = [place for place in open_ if offers[place] is None]
        for place, pages in self._pages_of(self._newest, asking, left, artifacts_too=True).items():
            offers[place] = _best([page for page in pages if urls[place].is_of(page.url)])
        pages = [offer.page for offer in offers if offer is not None and offer.page is not None]
        threatened = self._store.threatened(pages)
        return [
            CopyOffer(bar=CopyObstacle.HELD)
            if offer is not None and offer.page is not None and offer.page.page_id in threatened
            else offer
            for offer in offers
        ]

    def newest(self, urls: Sequence[str]) -> dict[str, str]:
        """Return the timestamps of the offered copies by URL; empty when the index cannot be read."""
        spellings_by_url: dict[str, UrlSpellings] = {}
        for url in list(dict.fromkeys(urls))[:_MOST]:
            with suppress(BadUrlError):
                spellings_by_url[url] = UrlSpellings.of(url)
        try:
            offers = self.of(list(spellings_by_url.values()))
        except TransientError:
            return {}
        return {
            url: offer.page.timestamp
            for url, offer in zip(spellings_by_url, offers, strict=True)
            if offer is not None and offer.page is not None
        }

    def _pages_of(
        self, query: str, asking: Sequence[LookupRow], places: Sequence[int], *, artifacts_too: bool
    ) -> Mapping[int, list[CapturedPage]]:
        """Return the pages found by the query for the URLs at those positions, without hidden ones."""
        if not places:
            return {}
        rows = self._database.rows(query, {"asked": lookup_value(asking[place] for place in places)})
        pages = self._store.pages_of(list({row["page_id"]: row for row in rows}.values()), artifacts_too=artifacts_too)
        by_id = {page.page_id: page for page in pages}
        pages_by_place: dict[int, list[CapturedPage]] = {}
        for row in rows:
            of_place = pages_by_place.setdefault(places[row["place"]], [])
            page = by_id.get(row["page_id"])
            if page is not None:
                of_place.append(page)
        return pages_by_place


def _best(newest_pages: Sequence[CapturedPage]) -> CopyOffer | None:
    """Return the best of a URL's newest pages, or the reason why none is offered."""
    if not newest_pages:
        return None
    # A join has no defined order.
    pages = sorted(newest_pages, key=lambda page: page.captured_at, reverse=True)
    best = min((page for page in pages if page.is_usable), key=lambda page: page.rank, default=None)
    if best is not None:
        return CopyOffer(best)
    if any(page.taken_down is not None for page in pages):
        return CopyOffer(bar=CopyObstacle.TAKEN_DOWN)
    newest = pages[0]
    bar = CopyObstacle.REFUSED if newest.outcome == VisitOutcome.SKIPPED else CopyObstacle.FAILED
    return CopyOffer(bar=bar, reason=newest.reason)
