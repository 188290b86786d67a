"""Which copy of our own is offered for each of many URLs, and what stands in the way where there is none.

Of a URL the newest good capture is offered; where none is good, the best of the newest `_LOOKED_AT`. An
error page, a parked domain and a check for robots are no copies of what was cited: a link that died and
was captured once more still leads to what was there before. Of a link that came into other hands only what
was captured before that counts. What was taken down, is hidden or is held back is never offered.

Two questions to the captures index however many URLs there are, and the second only for those that have
no good capture.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.classes import rank_sql
from core.errors import BadUrlError
from core.pages import Outcome
from core.replay_keys import replay_key
from core.urls import fetch_key, has_one_spelling, identity_key
from playback.choosing import USABLE, twin_of
from playback.database import Asking, Database, asked_value
from playback.decisions.takedowns import Effect, Takedown
from playback.front.pages import COLUMNS, Page, PageStore

_LOOKED_AT = 32
_NO_END_MS = 2**53
_VALUE = re.compile(r":(key_start|key)\b")
_SPELLED = "url IN (asked.one, asked.two, asked.three, asked.four)"
_GOOD = f"{USABLE} AND ({rank_sql()}) = 0"


@dataclass(frozen=True, slots=True)
class Spelled:
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
    def of(cls, url: str) -> "Spelled":
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
        return self.fetch, twin_of(self.fetch), self.identity, twin_of(self.identity)

    def is_of(self, url: str) -> bool:
        """Whether that is the same URL but for its spelling and its scheme."""
        if url in self.urls:
            return True
        try:
            return identity_key(url) in (self.identity, twin_of(self.identity))
        except BadUrlError:
            return False


class Bar(StrEnum):
    """Why there is no copy to offer, as far as the index and the decisions tell."""

    TAKEN_DOWN = "taken-down"  # and that is told
    HIDDEN = "hidden"  # and nothing is told
    HELD = "held"  # for a threat in it
    FAILED = "failed"  # visits brought nothing that is the page
    REFUSED = "refused"  # visits were not made


@dataclass(frozen=True, slots=True)
class Offer:
    """What there is for a URL: a page to show, or why there is none.

    Attributes:
        page: None without one.
        bar: None with a page.
        reason: with FAILED and REFUSED, as it was recorded; may be empty.
    """

    page: Page | None = None
    bar: Bar | None = None
    reason: str = ""


class Offering:
    """Asks the captures index. From any thread."""

    def __init__(self, database: Database, store: PageStore) -> None:
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
        self, asked: Sequence[Spelled], until_ms: Mapping[str, int] | None = None
    ) -> list[Offer | None]:
        """What there is for each; None: nothing was ever captured, as far as may be told.

        Args:
            asked: the URLs.
            until_ms: for some of them, by identity key, the moment (milliseconds since 1970 UTC) from
                which on captures do not count.

        Raises:
            TransientError: the index or the decisions cannot be read.
        """
        takedowns = self._store.takedowns_of([each.fetch for each in asked])
        offers: list[Offer | None] = list(map(_barred, takedowns))
        until = until_ms or {}
        asking = [
            Asking(each.key, each.urls, until.get(each.identity, _NO_END_MS)) for each in asked
        ]
        open_ = [place for place, offer in enumerate(offers) if offer is None]
        for place, pages in self._asked(self._good, asking, open_, artifacts_too=False).items():
            offers[place] = _first_offered(pages)
        left = [place for place in open_ if offers[place] is None]
        for place, pages in self._asked(self._newest, asking, left, artifacts_too=True).items():
            same = [page for page in pages if asked[place].is_of(page.url)]
            offers[place] = _best(same)
        return self._without_threats(offers)

    def _asked(
        self, query: str, asking: Sequence[Asking], places: Sequence[int], *, artifacts_too: bool
    ) -> Mapping[int, list[Page]]:
        """The pages that the query finds for the URLs in those places, without those that are hidden."""
        if not places:
            return {}
        value = asked_value(asking[place] for place in places)
        rows = self._database.rows(query, {"asked": value})
        pages = self._store.pages_of(_distinct(rows), artifacts_too=artifacts_too)
        by_id = {page.page_id: page for page in pages}
        found: dict[int, list[Page]] = {}
        for row in rows:
            of_place = found.setdefault(places[row["place"]], [])
            page = by_id.get(row["page_id"])
            if page is not None:
                of_place.append(page)
        return found

    def _without_threats(self, offers: list[Offer | None]) -> list[Offer | None]:
        pages = [offer.page for offer in offers if offer is not None and offer.page is not None]
        threatened = self._store.threatened(pages)
        if not threatened:
            return offers
        return [
            Offer(bar=Bar.HELD)
            if offer is not None and offer.page is not None and offer.page.page_id in threatened
            else offer
            for offer in offers
        ]


def _barred(takedown: Takedown | None) -> Offer | None:
    if takedown is None:
        return None
    return Offer(bar=Bar.HIDDEN if takedown.effect is Effect.HIDE else Bar.TAKEN_DOWN)


def _first_offered(pages: Iterable[Page]) -> Offer | None:
    """The first that can be shown; None: look further."""
    return next((Offer(page) for page in pages if page.is_usable), None)


def _best(newest_pages: Sequence[Page]) -> Offer | None:
    """The best of a URL's newest pages, or why none of them is offered."""
    if not newest_pages:
        return None
    # A join has no order of its own.
    pages = sorted(newest_pages, key=lambda page: page.captured_at, reverse=True)
    best = min((page for page in pages if page.is_usable), key=lambda page: page.rank, default=None)
    if best is not None:
        return Offer(best)
    if any(page.taken_down is not None for page in pages):
        return Offer(bar=Bar.TAKEN_DOWN)
    newest = pages[0]
    bar = Bar.REFUSED if newest.outcome == Outcome.SKIPPED else Bar.FAILED
    return Offer(bar=bar, reason=newest.reason)


def _distinct(rows: Iterable[Any]) -> list[Any]:
    return list({row["page_id"]: row for row in rows}.values())
