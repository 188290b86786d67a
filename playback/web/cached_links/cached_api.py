"""Evidence of copies for many links, and its HTTP: POST /links/api/cached and the gadget's script, open to any site.

Looked up are the link registry, the captures index, and the crawl queue for the rest; when one is unavailable, the
answer is marked incomplete. Nothing is written or visited because of a view (W28).

``text/plain`` is accepted as well as JSON, since browsers send it across origins without a preflight.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time
from functools import partial
from pathlib import Path
from typing import TypeVar

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from core.clock import Clock
from core.errors import BadUrlError, InputError, TransientError
from core.urls import identity_key
from links.check_history import date_of, day_of, unpack_history
from links.registry import farm_queries
from links.registry.lookups import CopyFacts
from links.registry.urls import UrlRow
from links.registry.wikis import WikiName
from links.rules.link_class import MISSING_TARGET, LinkClass, classify_link
from links.rules.wiki_rules import RuleBook
from links.states import LinkState
from links.url_parts import key_of
from playback.access.levels import check_wiki
from playback.url_paths import is_web_url
from playback.web.cached_links.cached_answer import AnswerOrigins, LinkEvidence, answer_link, max_age_s
from playback.web.cached_links.cached_request import CachedQuestion, parse_cached
from playback.web.copy_lookup import CopyLookup, CopyOffer, QueueStatusReader, UrlQueueStatus
from playback.web.i18n import page_language, set_language, translate
from playback.web.page_renderer import WebContext, tagged_response
from playback.web.rate_limits import BusyError, RateLimiter
from playback.web.registry.answer_formats import Data, as_json
from playback.web.registry.link_messages import request_words
from playback.web.registry.registry_api import CORS_HEADERS, TOO_OFTEN, answer_or_problem, problem
from playback.web.registry.registry_forms import read_body
from playback.web.registry.registry_reader import RegistryReader, missing_target, since_day
from playback.web.registry.registry_service import RegistrySource
from playback.web.registry.registry_values import GROUPS, Group, LinkRecord, PageAnswer, PageQuestion

_LOG = logging.getLogger(__name__)
_Found = TypeVar("_Found")


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
    elsewhere: Mapping[str, CopyFacts]  # copies in other archives, by identity key
    wanted: Mapping[str, datetime]  # since when they wait to be archived, by identity key
    until_ms: Mapping[str, int]  # from when captures show another owner's content, by identity key
    is_watched: bool = False
    wiki_id: int | None = None  # the caller's wiki; None: unknown to the registry
    page: PageAnswer | None = None


_NOTHING = _RegistryFacts({}, {}, {}, {})


@dataclass(frozen=True, slots=True)
class LinkEvidenceReader:
    """Reader of link evidence. Thread-safe; all methods block."""

    _source: RegistrySource
    _offering: CopyLookup
    _status: QueueStatusReader | None
    _clock: Clock
    _rules: RuleBook = field(default_factory=RuleBook)

    def find(self, question: CachedQuestion, *, is_internal: bool = False) -> LinkFindings:
        """Return the evidence for each URL; link states of the whole farm for internal callers only (W20)."""
        known, has_registry = _tried("registry", partial(self._known, question, is_internal=is_internal), _NOTHING)
        spellings = [(place, each.spelled) for place, each in enumerate(question.urls) if each.spelled]
        spelled, nothing = [each for _, each in spellings], list[CopyOffer | None]([None] * len(spellings))
        copy_offers, has_index = _tried("index", partial(self._offering.of, spelled, known.until_ms), nothing)
        offers = {place: offer for (place, _), offer in zip(spellings, copy_offers, strict=True) if offer is not None}
        # URLs without a copy: their state in the queue.
        left = [
            text
            for place, each in spellings
            if place not in offers or offers[place].page is None
            for text in (each.fetch, each.identity)
        ]
        standings: Mapping[str, UrlQueueStatus] = {}
        has_books = True
        if self._status is not None and left:
            ask = partial(self._status.standings, list(dict.fromkeys(left)))
            standings, has_books = _tried("status", ask, standings)
        facts = []
        for place, each in enumerate(question.urls):
            if each.spelled is None:
                facts.append(LinkEvidence(each))
                continue
            identity = each.spelled.identity
            link = known.links.get(identity)
            evidence = LinkEvidence(
                each,
                offers.get(place),
                link,
                known.elsewhere.get(identity),
                known.wanted.get(identity),
                standings.get(each.spelled.fetch) or standings.get(identity),
                LinkClass.MISSING if link is not None and link.evidence == MISSING_TARGET else None,
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
        sorted_links = {each.requested.text: classify_link(each.requested.text, rules) for each in unknown}
        never = {text: link.sort for text, link in sorted_links.items() if not link.is_watched}
        return [replace(each, never=never.get(each.requested.text)) if _is_unknown(each) else each for each in facts]

    def _known(self, question: CachedQuestion, *, is_internal: bool) -> _RegistryFacts:
        """Return the registry's result; empty without a registry."""
        if question.wiki is None or not self._source.is_there():
            return _NOTHING
        identities = {each.spelled.identity for each in question.urls if each.spelled}
        with self._source.store().snapshot() as reader:
            reading = RegistryReader(reader, day_of(self._clock.now()), is_internal=is_internal)
            return _read(reading, question, identities, is_internal=is_internal)


def _tried(name: str, read: Callable[[], _Found], nothing: _Found) -> tuple[_Found, bool]:
    """Return what is read, or `nothing` when the store does not answer, and whether it did."""
    try:
        return read(), True
    except TransientError as error:
        _LOG.warning("front.%s_unavailable: %s", name, error)
        return nothing, False


def _read(
    reading: RegistryReader, question: CachedQuestion, identities: Iterable[str], *, is_internal: bool
) -> _RegistryFacts:
    wiki = reading.wiki(question.wiki) if question.wiki is not None else None
    if wiki is None:
        return _NOTHING
    rows = farm_queries.known_by_key(reading.reader, wiki, map(key_of, identities))
    numbers = {row.id: identity for identity, row in rows.items()}
    page = reading.page(wiki, question.page_id) if question.page_id else None
    # The URLs on the page with their spelling, and its links to missing pages of the farm (W50).
    shown: dict[int, str] = {}
    missing: dict[str, LinkRecord] = {}
    if page is not None and page.page_id is not None and page.is_observed:
        shown = farm_queries.on_page(reading.reader, wiki.id, page.page_id, [row.id for row in rows.values()])
        for url, since in farm_queries.missing_targets_on(reading.reader, wiki.id, page.page_id).items():
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
    elsewhere = farm_queries.copies_elsewhere(reading.reader, dead)
    wanted = farm_queries.wanted_since(reading.reader, numbers)
    return _RegistryFacts(
        {**missing, **links},
        {
            numbers[number]: best
            for number, copies in elsewhere.items()
            if (best := next((each for each in copies if is_web_url(each.address)), None)) is not None
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
    if facts.requested.spelled is None:
        return _ADDRESS.match(facts.requested.text) is not None and not facts.requested.is_copy
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
    # The time is shown next to links of these groups only.
    is_shown = GROUPS[row.state] in (Group.UNREACHABLE, Group.DOUBTFUL)
    return LinkRecord(
        *(row.url, row.state, row.code),
        since_day=since_day(row.state, unpack_history(row.history), row.first_fail_day) if is_shown else None,
        checked_day=row.checked_day,
        fails=row.fails,
        mime=row.mime or "",
        kib=row.kib,
    )


GADGET_PATH = "/links/gadget.js"

_FRESH_S = 3_600  # then the client revalidates


def gadget_script(request: Request) -> Response:
    """Return the gadget's script, a static file; its settings are in the loader's query."""
    headers = {**CORS_HEADERS, "Cache-Control": f"public, max-age={_FRESH_S}"}
    return tagged_response(request, Path(__file__).with_name("gadget.js").read_bytes(), headers, "text/javascript")


MOST_BYTES = 300_000
_PATIENCE_S = 10.0  # for a body to arrive
_URLS_A_TOKEN = 50  # a question for a thousand costs as much as twenty for one
_TYPES = ("application/json", "text/plain")
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "Content-Type, Api-User-Agent",
    "Access-Control-Max-Age": "86400",
    "Allow": "POST, OPTIONS",
}


@dataclass(frozen=True, slots=True)
class CachedLinks:
    """Route that answers for the links of a page."""

    _finder: LinkEvidenceReader
    _limiter: RateLimiter
    _context: WebContext
    _note: Callable[[PageQuestion], None]  # notes unobserved pages (W10)

    def routes(self) -> list[BaseRoute]:
        """Return its route."""
        return [Route("/links/api/cached", self.answer, methods=["POST", "OPTIONS"])]

    async def answer(self, request: Request) -> Response:
        """Return the answer, or the error as a problem document."""
        if request.method == "OPTIONS":
            response = Response(status_code=204, headers=_PREFLIGHT)
        else:
            try:
                self._limiter.count(request)
                body = await read_body(request, _TYPES, MOST_BYTES, patience_s=_PATIENCE_S)
                response = await run_in_threadpool(answer_or_problem, partial(self._answer_links, request, body))
            except BusyError as error:
                response = problem(429, translate(TOO_OFTEN), {"Retry-After": str(error.seconds)})
            except HTTPException as error:
                response = problem(error.status_code, error.detail)
        response.headers.update({**CORS_HEADERS, "Cache-Control": "no-store"})
        return response

    def _answer_links(self, request: Request, body: bytes) -> Response:
        front = self._context.origin or f"{request.url.scheme}://{request.url.netloc}"
        question = parse_cached(body, own=(front, self._context.replay_origin))
        # One was counted when the request arrived.
        self._limiter.charge(request, (len(question.urls) - 1) / _URLS_A_TOKEN)
        set_language(question.language)
        findings = self._finder.find(question, is_internal=self._limiter.is_internal(request))
        leading = AnswerOrigins(
            front + page_language.get().prefix, self._context.replay_origin, self._in_addresses(question.wiki)
        )
        links = [answer_link(facts, leading) for facts in findings.facts]
        page, page_record = findings.page, None
        if page is not None:
            page_record = {
                "is_observed": page.is_observed,
                "links_read": date_of(page.listed_day).isoformat() if page.listed_day is not None else None,
                "revision": page.revision,
                "request": page.request.value if page.request else None,
                "note": request_words(page.request) or None,
            }
        data: Data = {
            "wiki": str(question.wiki) if question.wiki else None,
            "fresh_s": max_age_s(links, self._context.clock.now(), is_watched=findings.is_watched),
            "is_whole": findings.is_whole,
            "page": page_record,
            "links": [link.data for link in links],
        }
        noting = None
        if page is not None and not page.is_observed and question.wiki is not None:
            noting = BackgroundTask(self._note, PageQuestion(question.wiki, (question.page_id,), ()))
        headers = {"Content-Language": page_language.get().language}
        return Response(as_json(data), headers=headers, media_type="application/json", background=noting)

    def _in_addresses(self, wiki: WikiName | None) -> str:
        """Return the wiki for use in addresses; empty unless it has level rules of its own."""
        try:
            named = check_wiki(wiki.in_levels) if wiki is not None else ""
            return named if named and self._context.offers.has_rules_for(named) else ""
        except (InputError, TransientError):
            return ""
