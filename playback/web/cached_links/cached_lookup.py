"""Look-up of evidence for many links: link registry, captures index, crawl queue for the rest.

When a store is unavailable, the answer is marked incomplete. Nothing is written or visited because of a view (W28).
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time

from core.clock import Clock
from core.errors import BadUrlError, TransientError
from core.urls import identity_key
from links.check_history import date_of, day_of, unpack_history
from links.registry.farm_queries import (
    ExternalCopy,
    copies_elsewhere,
    known_in_farm,
    missing_targets_on,
    on_page,
    wanted_since,
)
from links.registry.link_search import STATES
from links.registry.urls import UrlRow
from links.rules.link_class import MISSING_TARGET, LinkClass, classify_link
from links.rules.wiki_rules import RuleBook
from links.states import LinkState
from playback.web.cached_links.cached_answer import LinkEvidence, is_to_offer
from playback.web.cached_links.cached_request import AskedUrl, CachedQuestion
from playback.web.copy_lookup import CopyLookup, CopyOffer, QueueStatusReader, UrlQueueStatus
from playback.web.registry.registry_reader import RegistryReader, missing_target
from playback.web.registry.registry_service import NoRegistryError, RegistrySource
from playback.web.registry.registry_values import Group, LinkRecord, PageAnswer

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LinkFindings:
    """Result of a look-up."""

    facts: tuple[LinkEvidence, ...]  # one for each URL, in the order of the request
    is_watched: bool = False
    is_whole: bool = True  # False when a store could not be read
    page: PageAnswer | None = None  # the page's record; None: no page named, or the wiki is unknown


@dataclass(frozen=True, slots=True)
class _RegistryFacts:
    """Result of the registry."""

    links: Mapping[str, LinkRecord]  # records that may be disclosed to the caller, by identity key
    elsewhere: Mapping[str, ExternalCopy]  # copies in other archives, by identity key
    wanted: Mapping[str, datetime]  # since when they wait to be archived, by identity key
    until_ms: Mapping[str, int]  # from when captures show another owner's content, by identity key
    is_watched: bool = False
    wiki_id: int | None = None  # the caller's wiki; None: unknown to the registry
    page: PageAnswer | None = None


_NOTHING = _RegistryFacts({}, {}, {}, {})


class LinkEvidenceReader:
    """Reader of link evidence. Thread-safe; all methods block."""

    def __init__(
        self, source: RegistrySource, offering: CopyLookup, status: QueueStatusReader | None, clock: Clock
    ) -> None:
        self._source = source
        self._offering = offering
        self._status = status
        self._clock = clock
        self._rules = RuleBook()

    @property
    def day(self) -> int:
        """Return today's day number."""
        return day_of(self._clock.now())

    def find(self, question: CachedQuestion, *, is_internal: bool = False) -> LinkFindings:
        """Return the evidence for each URL; link states of the whole farm for internal callers only (W20)."""
        known, has_registry = self._known(question, is_internal=is_internal)
        offers, has_index = self._offers(question.urls, known.until_ms)
        copied = {place for place, offer in offers.items() if offer.page is not None}
        standings, has_books = self._standings(question.urls, copied)
        facts = []
        for place, each in enumerate(question.urls):
            if each.spelled is None:
                facts.append(LinkEvidence(each))
                continue
            identity = each.spelled.identity
            link = known.links.get(identity)
            is_missing = link is not None and link.evidence == MISSING_TARGET
            evidence = LinkEvidence(
                each,
                offers.get(place),
                link,
                known.elsewhere.get(identity),
                known.wanted.get(identity),
                standings.get(each.spelled.fetch) or standings.get(identity),
                LinkClass.MISSING if is_missing else None,
            )
            facts.append(evidence)
        is_whole = has_index and has_registry and has_books
        facts = self._with_reasons(facts, known)
        return LinkFindings(tuple(facts), known.is_watched, is_whole, known.page)

    def _with_reasons(self, facts: list[LinkEvidence], known: _RegistryFacts) -> list[LinkEvidence]:
        """Return the evidence, with the reason why unknown URLs are never checked."""
        unknown = [each for each in facts if _is_unknown(each)]
        if not unknown or known.wiki_id is None:
            return facts
        try:
            with self._source.store().reading() as connection:
                rules = self._rules.rules_of(connection, known.wiki_id)
        except TransientError as error:
            _LOG.warning("front.registry_unavailable: %s", error)
            return facts
        sorted_links = {each.asked.text: classify_link(each.asked.text, rules) for each in unknown}
        never = {text: link.sort for text, link in sorted_links.items() if not link.is_watched}
        return [
            replace(each, never=never[each.asked.text]) if _is_unknown(each) and each.asked.text in never else each
            for each in facts
        ]

    def _offers(self, urls: Sequence[AskedUrl], until_ms: Mapping[str, int]) -> tuple[dict[int, CopyOffer], bool]:
        """Return own copies by URL position, and whether the index could be read."""
        asked = [(place, each.spelled) for place, each in enumerate(urls) if each.spelled]
        try:
            found = self._offering.of([spelled for _, spelled in asked], until_ms)
        except TransientError as error:
            _LOG.warning("front.index_unavailable: %s", error)
            return {}, False
        pairs = zip(asked, found, strict=True)
        return {place: offer for (place, _), offer in pairs if offer is not None}, True

    def _known(self, question: CachedQuestion, *, is_internal: bool) -> tuple[_RegistryFacts, bool]:
        """Return the registry's result, and whether it could be read; empty without a registry."""
        if question.wiki is None:
            return _NOTHING, True
        identities = {each.spelled.identity for each in question.urls if each.spelled}
        try:
            with self._source.store().snapshot() as reader:
                reading = RegistryReader(reader, self.day, is_internal=is_internal)
                return _read(reading, question, identities, is_internal=is_internal), True
        except NoRegistryError:
            return _NOTHING, True
        except TransientError as error:
            _LOG.warning("front.registry_unavailable: %s", error)
            return _NOTHING, False

    def _standings(self, urls: Sequence[AskedUrl], copied: set[int]) -> tuple[Mapping[str, UrlQueueStatus], bool]:
        """Return queue states of URLs without a copy, and whether the queue could be read."""
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


def _read(
    reading: RegistryReader, question: CachedQuestion, identities: Iterable[str], *, is_internal: bool
) -> _RegistryFacts:
    wiki = reading.wiki(question.wiki) if question.wiki is not None else None
    if wiki is None:
        return _NOTHING
    rows = known_in_farm(reading.reader, wiki, identities)
    numbers = {row.id: identity for identity, row in rows.items()}
    page = reading.page(wiki, question.page_id) if question.page_id else None
    # The URLs on the page with their spelling, and its links to missing pages of the farm (W50).
    shown: dict[int, str] = {}
    missing: dict[str, LinkRecord] = {}
    if page is not None and page.page_id is not None and page.is_observed:
        shown = on_page(reading.reader, wiki.id, page.page_id, [row.id for row in rows.values()])
        for url, since in missing_targets_on(reading.reader, wiki.id, page.page_id).items():
            with suppress(BadUrlError):
                missing[identity_key(url)] = missing_target(url, since, page.listed_day)
    elif page is not None and page.page_id is not None:  # as read on request (W10)
        has = {link.url for link in page.links}
        shown = {row.id: "" for identity, row in rows.items() if identity in has}
    if is_internal:
        shown = {**dict.fromkeys(numbers, ""), **shown}
    links = {
        identity: replace(link_of(row), spelling=shown[row.id]) for identity, row in rows.items() if row.id in shown
    }
    dead = [number for number in shown if links[numbers[number]].is_unreachable]
    elsewhere = copies_elsewhere(reading.reader, dead)
    wanted = wanted_since(reading.reader, numbers)
    return _RegistryFacts(
        {**missing, **links},
        {
            numbers[number]: best
            for number, copies in elsewhere.items()
            if (best := next(filter(is_to_offer, copies), None)) is not None
        },
        {numbers[number]: datetime.fromtimestamp(at, UTC) for number, at in wanted.items()},
        {
            identity: (int(datetime.combine(date_of(day), time(), UTC).timestamp()) * 1_000)
            for identity, row in rows.items()
            if (day := other_since(row)) is not None
        },
        is_watched=True,
        wiki_id=wiki.id,
        page=page,
    )


_ADDRESS = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:|[/\\]{2})", re.IGNORECASE)


def _is_unknown(facts: LinkEvidence) -> bool:
    """Return True for a valid URL, not an archive's, without any evidence."""
    if facts.asked.spelled is None:
        return _ADDRESS.match(facts.asked.text) is not None and not facts.asked.is_copy
    return not (facts.offer or facts.link or facts.elsewhere or facts.wanted_at or facts.standing)


def other_since(row: UrlRow) -> int | None:
    """Return the day after the last good check, from which the content may have another owner."""
    if row.state not in (LinkState.USURPED, LinkState.DEVIATED):
        return None
    runs = unpack_history(row.history)
    if len(runs) > 1:
        return runs[-2].last + 1
    return runs[0].first if runs else None


def link_of(row: UrlRow) -> LinkRecord:
    """Convert a registry row to a record, with the start of its state where it is known."""
    since = row.first_fail_day if row.state in _SINCE_FAILURE else None
    if since is None and row.state in _SINCE_ANSWER:
        runs = unpack_history(row.history)
        since = runs[-1].first if runs else None
    return LinkRecord(
        *(row.url, row.state, row.code),
        since_day=since,
        checked_day=row.checked_day,
        fails=row.fails,
        mime=row.mime or "",
        kib=row.kib,
    )


# `registry_reader.since_day` for the states whose time is shown next to a link.
_SINCE_FAILURE = frozenset({LinkState.DYING, LinkState.DEAD})
_SINCE_ANSWER = frozenset(state for group in (Group.UNREACHABLE, Group.DOUBTFUL) for state in STATES[group])
