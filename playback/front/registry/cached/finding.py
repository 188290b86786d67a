"""Gathers what is known of the links that are asked for: one look at each store, however many there are.

The registry is asked in one snapshot, then the captures index; the frontier's books only for what has no
copy. A store that is away takes nothing from what the others say, and the answer tells that it is not
whole. Nothing is written, and nobody is asked about a URL because somebody looks at a page (W28).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time

from core.clock import Clock
from core.errors import TransientError
from links.books.standings import (
    Elsewhere,
    copies_elsewhere,
    known_in_farm,
    wanted_since,
)
from links.books.urls import UrlRow
from links.books.wikis import WikiName
from links.days import date_of, day_of
from links.history import unpack
from links.link_search import STATES
from links.states import State
from playback.front.offering import Offer, Offering
from playback.front.registry.answers import Group, Link
from playback.front.registry.cached.asking import AskedUrl, CachedQuestion
from playback.front.registry.cached.saying import Facts, is_to_offer
from playback.front.registry.reading import Reading
from playback.front.registry.source import Source
from playback.front.standing import QueueStanding, Status

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """What was found.

    Attributes:
        facts: one for each URL, in the order of the question.
        is_watched: the registry knows the wiki.
        is_whole: False when a store could not be read.
    """

    facts: tuple[Facts, ...]
    is_watched: bool = False
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class _Known:
    """What the registry says.

    Attributes:
        links: URLs that a page of the farm has, by identity key.
        elsewhere: copies in other archives, by the same.
        wanted: since when they wait for the archive.
        until_ms: from which moment on their captures are another's.
    """

    links: Mapping[str, Link]
    elsewhere: Mapping[str, Elsewhere]
    wanted: Mapping[str, datetime]
    until_ms: Mapping[str, int]
    is_watched: bool = False


_NOTHING = _Known({}, {}, {}, {})


class Finder:
    """Gathers facts. From any thread; everything blocks."""

    def __init__(
        self, source: Source, offering: Offering, status: Status | None, clock: Clock
    ) -> None:
        self._source = source
        self._offering = offering
        self._status = status
        self._clock = clock

    @property
    def day(self) -> int:
        """Today."""
        return day_of(self._clock.now())

    def find(self, question: CachedQuestion) -> Found:
        """What is known of each URL."""
        known, has_registry = self._known(question)
        offers, has_index = self._offers(question.urls, known.until_ms)
        copied = {place for place, offer in offers.items() if offer.page is not None}
        standings, has_books = self._standings(question.urls, copied)
        facts = [
            self._facts(each, offers.get(place), known, standings)
            for place, each in enumerate(question.urls)
        ]
        return Found(tuple(facts), known.is_watched, has_index and has_registry and has_books)

    @staticmethod
    def _facts(
        asked: AskedUrl,
        offer: Offer | None,
        known: _Known,
        standings: Mapping[str, QueueStanding],
    ) -> Facts:
        if asked.spelled is None:
            return Facts(asked)
        identity = asked.spelled.identity
        return Facts(
            asked,
            offer,
            known.links.get(identity),
            known.elsewhere.get(identity),
            known.wanted.get(identity),
            standings.get(asked.spelled.fetch) or standings.get(identity),
        )

    def _offers(
        self, urls: Sequence[AskedUrl], until_ms: Mapping[str, int]
    ) -> tuple[dict[int, Offer], bool]:
        """Copies of our own by the URLs' places, and whether the index could be read."""
        asked = [(place, each.spelled) for place, each in enumerate(urls) if each.spelled]
        try:
            found = self._offering.of([spelled for _, spelled in asked], until_ms)
        except TransientError as error:
            _LOG.warning("front.index_unavailable: %s", error)
            return {}, False
        pairs = zip(asked, found, strict=True)
        return {place: offer for (place, _), offer in pairs if offer is not None}, True

    def _known(self, question: CachedQuestion) -> tuple[_Known, bool]:
        """What the registry says, and whether it could be read; without one there is nothing to say."""
        if question.wiki is None:
            return _NOTHING, True
        identities = {each.spelled.identity for each in question.urls if each.spelled}
        try:
            store = self._source.store()
            if store is None:
                return _NOTHING, True
            with store.snapshot() as reader:
                return _read(Reading(reader, self.day), question.wiki, identities), True
        except TransientError as error:
            _LOG.warning("front.registry_unavailable: %s", error)
            return _NOTHING, False

    def _standings(
        self, urls: Sequence[AskedUrl], copied: set[int]
    ) -> tuple[Mapping[str, QueueStanding], bool]:
        """What the frontier's books say of those without a copy, and whether they could be read."""
        left = [
            spelling
            for place, each in enumerate(urls)
            if each.spelled and place not in copied
            for spelling in (each.spelled.fetch, each.spelled.identity)
        ]
        if self._status is None or not left:
            return {}, True
        try:
            return self._status.standings(list(dict.fromkeys(left))), True
        except TransientError as error:
            _LOG.warning("front.status_unavailable: %s", error)
            return {}, False


def _read(reading: Reading, name: WikiName, identities: Iterable[str]) -> _Known:
    """What a snapshot of the registry says of URLs."""
    wiki = reading.wiki(name)
    if wiki is None:
        return _NOTHING
    rows = known_in_farm(reading.reader, wiki, identities)
    links = {identity: link_of(row) for identity, row in rows.items()}
    numbers = {row.id: identity for identity, row in rows.items()}
    dead = [number for number, identity in numbers.items() if links[identity].is_unreachable]
    elsewhere = copies_elsewhere(reading.reader, dead)
    wanted = wanted_since(reading.reader, numbers)
    return _Known(
        links,
        {
            numbers[number]: best
            for number, copies in elsewhere.items()
            if (best := next(filter(is_to_offer, copies), None)) is not None
        },
        {numbers[number]: datetime.fromtimestamp(at, UTC) for number, at in wanted.items()},
        {
            identity: _midnight_ms(day)
            for identity, row in rows.items()
            if (day := other_since(row)) is not None
        },
        is_watched=True,
    )


def other_since(row: UrlRow) -> int | None:
    """From which day on what stands there may be another's; None for a link that is what it was.

    That is the day after it was last seen to be right: it was found out later than it happened.
    """
    if row.state not in (State.USURPED, State.DEVIATED):
        return None
    runs = unpack(row.history)
    if len(runs) > 1:
        return runs[-2].last + 1
    return runs[0].first if runs else None


def _midnight_ms(day: int) -> int:
    return int(datetime.combine(date_of(day), time(), UTC).timestamp()) * 1_000


def link_of(row: UrlRow) -> Link:
    """The row as a value: its state, and since when it is so where that is told."""
    since = row.first_fail_day if row.state in _SINCE_FAILURE else None
    if since is None and row.state in _SINCE_ANSWER:
        runs = unpack(row.history)
        since = runs[-1].first if runs else None
    return Link(row.url, row.state, row.code, since_day=since, fails=row.fails)


# `reading.since_day` for those states whose time is told beside a link.
_SINCE_FAILURE = frozenset({State.DYING, State.DEAD})
_SINCE_ANSWER = frozenset(
    state for group in (Group.UNREACHABLE, Group.DOUBTFUL) for state in STATES[group]
)
