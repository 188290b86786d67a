"""Copies to offer for many URLs, and the crawl queue's state of URLs without one.

The frontier's books are the crawler's, which playback does not know; whoever starts the front may
hand it a `QueueStatusReader` that reads them.

Of a URL the newest good capture is offered; where none is good, the best of the newest `_LOOKED_AT`. An
error page, a parked domain and a check for robots are no copies of what was cited: a link that died and
was captured once more still leads to what was there before. Of a link that came into other hands only what
was captured before that counts. What was taken down, is hidden or is held back is never offered.

Two questions to the captures index however many URLs there are, and the second only for those that have
no good capture.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from core.errors import BadUrlError, TransientError
from core.page_classes import rank_sql
from core.page_manifest import VisitOutcome
from core.url_keys import replay_key
from core.urls import fetch_key, has_one_spelling, identity_key
from playback.access.takedowns import Takedown, TakedownEffect
from playback.web.page_store import COLUMNS, CapturedPage, PageStore
from warc.index.database import IndexDatabase, LookupRow, lookup_value
from warc.index.page_choice import USABLE, other_scheme


class UrlQueueState(StrEnum):
    """Where a URL stands."""

    QUEUED = "queued"  # to be visited
    VISITING = "visiting"  # right now
    REFUSED = "refused"  # not to be visited: its site, a rule or an operator said so
    FAILED = "failed"  # attempts were made, and are used up
    DONE = "done"  # visited; the copy is in the index, or was taken out of it


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that brought nothing: when it ended, and why."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class UrlQueueStatus:
    """What the books say about a URL.

    Attributes:
        standing: where it stands.
        since: since when.
        until: QUEUED: not before; REFUSED: until then; None: nobody set a moment.
        reason: why, a constant first, e.g. ``robots: …``; empty when there is nothing to say.
        attempts: what was tried, oldest first.
    """

    standing: UrlQueueState
    since: datetime
    until: datetime | None = None
    reason: str = ""
    attempts: Sequence[FailedAttempt] = ()

    @property
    def is_waiting(self) -> bool:
        """Return whether it was tried, and waits for its site until the next attempt."""
        return self.standing is UrlQueueState.QUEUED and bool(self.attempts)


class QueueStatusReader(Protocol):
    """Who knows the books. From any thread; `standing` is asked once for a page that a reader opens."""

    def standing(self, url: str) -> UrlQueueStatus | None:
        """Where the URL stands; None when it was never added.

        Raises:
            TransientError: the books cannot be read at the moment.
        """
        ...

    def standings(self, urls: Sequence[str]) -> Mapping[str, UrlQueueStatus]:
        """Where those of the URLs stand of which there is something to be said; one look for all.

        What holds for their hosts is not looked at: `QueueStanding.until` is the URL's own.

        Raises:
            TransientError: the books cannot be read at the moment.
        """
        ...


_LOOKED_AT = 32
_NO_END_MS = 2**53
_VALUE = re.compile(r":(key_start|key)\b")
_SPELLED = "url IN (asked.one, asked.two, asked.three, asked.four)"
_GOOD = f"{USABLE} AND ({rank_sql()}) = 0"


@dataclass(frozen=True, slots=True)
class UrlSpellings:
    """A URL as the index may have it.

    Attributes:
        fetch: its fetch key, which is what is captured.
        identity: its identity key, which is what the link registry has.
        key: its replay key, by which the index finds it.
    """

    fetch: str
    identity: str
    key: str

    @classmethod
    def of(cls, url: str) -> "UrlSpellings":
        """The URL's spellings.

        Raises:
            BadUrlError: nobody can fetch it.
        """
        if has_one_spelling(url):
            return cls(url, url, replay_key(url))
        fetch = fetch_key(url)
        return cls(fetch, identity_key(fetch), replay_key(fetch))

    @property
    def urls(self) -> tuple[str, str, str, str]:
        """What a capture of it goes by, under either of the web's schemes."""
        return self.fetch, other_scheme(self.fetch), self.identity, other_scheme(self.identity)

    def is_of(self, url: str) -> bool:
        """Whether that is the same URL but for its spelling and its scheme."""
        if url in self.urls:
            return True
        try:
            return identity_key(url) in (self.identity, other_scheme(self.identity))
        except BadUrlError:
            return False


class CopyObstacle(StrEnum):
    """Why there is no copy to offer, as far as the index and the decisions tell."""

    TAKEN_DOWN = "taken-down"  # and that is told
    HIDDEN = "hidden"  # and nothing is told
    HELD = "held"  # for a threat in it
    FAILED = "failed"  # visits brought nothing that is the page
    REFUSED = "refused"  # visits were not made


@dataclass(frozen=True, slots=True)
class CopyOffer:
    """What there is for a URL: a page to show, or why there is none.

    Attributes:
        page: None without one.
        bar: None with a page.
        reason: with FAILED and REFUSED, as it was recorded; may be empty.
    """

    page: CapturedPage | None = None
    bar: CopyObstacle | None = None
    reason: str = ""


class CopyLookup:
    """Asks the captures index. From any thread."""

    def __init__(self, database: IndexDatabase, store: PageStore) -> None:
        self._database = database
        self._store = store
        has_key = _VALUE.sub(r"asked.\1", database.has_key)
        selected = f"SELECT asked.place, {COLUMNS} FROM {database.asked} "  # noqa: S608 constants of ours
        counts = f"{has_key} AND captured_ms < asked.until_ms"
        self._good = selected + database.joined_first.format(
            where=f"{counts} AND {store.page_condition} AND {_SPELLED} AND {_GOOD} ORDER BY captured_ms DESC LIMIT 1"
        )
        self._newest = selected + database.joined_first.format(
            where=f"{counts} AND {store.page_condition} ORDER BY captured_ms DESC LIMIT {_LOOKED_AT}"
        )

    def of(
        self, asked: Sequence[UrlSpellings], until_ms: Mapping[str, int] | None = None
    ) -> list[CopyOffer | None]:
        """What there is for each; None: nothing was ever captured, as far as may be told.

        Args:
            asked: the URLs.
            until_ms: for some of them, by identity key, the moment (milliseconds since 1970 UTC) from
                which on captures do not count.

        Raises:
            TransientError: the index or the decisions cannot be read.
        """
        takedowns = self._store.takedowns_of([each.fetch for each in asked])
        offers: list[CopyOffer | None] = list(map(_barred, takedowns))
        until = until_ms or {}
        asking = [
            LookupRow(each.key, each.urls, until.get(each.identity, _NO_END_MS)) for each in asked
        ]
        open_ = [place for place, offer in enumerate(offers) if offer is None]
        for place, pages in self._asked(self._good, asking, open_, artifacts_too=False).items():
            offers[place] = next((CopyOffer(page) for page in pages if page.is_usable), None)
        left = [place for place in open_ if offers[place] is None]
        for place, pages in self._asked(self._newest, asking, left, artifacts_too=True).items():
            same = [page for page in pages if asked[place].is_of(page.url)]
            offers[place] = _best(same)
        pages = [offer.page for offer in offers if offer is not None and offer.page is not None]
        threatened = self._store.threatened(pages)
        if not threatened:
            return offers
        return [
            CopyOffer(bar=CopyObstacle.HELD)
            if offer is not None and offer.page is not None and offer.page.page_id in threatened
            else offer
            for offer in offers
        ]

    def _asked(
        self, query: str, asking: Sequence[LookupRow], places: Sequence[int], *, artifacts_too: bool
    ) -> Mapping[int, list[CapturedPage]]:
        """The pages that the query finds for the URLs in those places, without those that are hidden."""
        if not places:
            return {}
        value = lookup_value(asking[place] for place in places)
        rows = self._database.rows(query, {"asked": value})
        pages = self._store.pages_of(
            list({row["page_id"]: row for row in rows}.values()), artifacts_too=artifacts_too
        )
        by_id = {page.page_id: page for page in pages}
        found: dict[int, list[CapturedPage]] = {}
        for row in rows:
            of_place = found.setdefault(places[row["place"]], [])
            page = by_id.get(row["page_id"])
            if page is not None:
                of_place.append(page)
        return found


def _barred(takedown: Takedown | None) -> CopyOffer | None:
    if takedown is None:
        return None
    return CopyOffer(
        bar=CopyObstacle.HIDDEN
        if takedown.effect is TakedownEffect.HIDE
        else CopyObstacle.TAKEN_DOWN
    )


def _best(newest_pages: Sequence[CapturedPage]) -> CopyOffer | None:
    """The best of a URL's newest pages, or why none of them is offered."""
    if not newest_pages:
        return None
    # A join has no order of its own.
    pages = sorted(newest_pages, key=lambda page: page.captured_at, reverse=True)
    best = min((page for page in pages if page.is_usable), key=lambda page: page.rank, default=None)
    if best is not None:
        return CopyOffer(best)
    if any(page.taken_down is not None for page in pages):
        return CopyOffer(bar=CopyObstacle.TAKEN_DOWN)
    newest = pages[0]
    bar = CopyObstacle.REFUSED if newest.outcome == VisitOutcome.SKIPPED else CopyObstacle.FAILED
    return CopyOffer(bar=bar, reason=newest.reason)


_MOST = 1_000  # URLs of one answer; what is beyond has no link to its copy


class OwnCopies:
    """Asks the captures index. From any thread."""

    def __init__(self, database: IndexDatabase, store: PageStore) -> None:
        self._offering = CopyLookup(database, store)

    def newest(self, urls: Sequence[str]) -> dict[str, str]:
        """Return the timestamp of the copy that is offered, for those URLs that have one.

        When the index cannot be read, the links are told without copies.
        """
        asked = list(_spelled(list(dict.fromkeys(urls))[:_MOST]))
        try:
            offers = self._offering.of([spelled for _, spelled in asked])
        except TransientError:
            return {}
        return {
            url: offer.page.timestamp
            for (url, _), offer in zip(asked, offers, strict=True)
            if offer is not None and offer.page is not None
        }


def _spelled(urls: Sequence[str]) -> Iterator[tuple[str, UrlSpellings]]:
    """Yield each URL that can be fetched, with its spellings."""
    for url in urls:
        try:
            yield url, UrlSpellings.of(url)
        except BadUrlError:
            continue
