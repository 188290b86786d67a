"""HTTP of POST /links/api/cached, and the gadget's script; open to pages of any site, without credentials.

``text/plain`` is accepted as well as JSON, since browsers send it across origins without a preflight.
"""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from core.errors import InputError, TransientError
from links.check_history import date_of
from links.registry.wikis import WikiName
from playback.access.levels import check_wiki
from playback.web.cached_links.cached_answer import AnswerOrigins, answer_link, max_age_s
from playback.web.cached_links.cached_lookup import LinkEvidenceReader
from playback.web.cached_links.cached_request import parse_cached
from playback.web.i18n import page_language, set_language, translate
from playback.web.page_renderer import WebContext
from playback.web.rate_limits import BusyError, RateLimiter
from playback.web.registry.answer_formats import Data, as_json
from playback.web.registry.link_messages import request_words
from playback.web.registry.registry_api import CORS_HEADERS, TOO_OFTEN, answer_or_problem, problem
from playback.web.registry.registry_forms import read_body
from playback.web.registry.registry_values import PageQuestion

GADGET_PATH = "/links/gadget.js"

_FRESH_S = 3_600  # then the client revalidates


class GadgetScript:
    """Route of the gadget script: a single static file; its settings are in the loader's query."""

    def __init__(self) -> None:
        self._script = Path(__file__).with_name("gadget.js").read_bytes()
        self._headers = {
            **CORS_HEADERS,
            "Cache-Control": f"public, max-age={_FRESH_S}",
            "ETag": f'"{sha256(self._script).hexdigest()[:32]}"',
        }

    def routes(self) -> list[BaseRoute]:
        """Return its route."""
        return [Route(GADGET_PATH, self.answer)]

    def answer(self, request: Request) -> Response:
        """Return the script, or 304 for a matching validator (RFC 9110, 13.1.2)."""
        held = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
        if "*" in held or self._headers["ETag"] in [each.removeprefix("W/") for each in held]:
            return Response(status_code=304, headers=self._headers)
        return Response(self._script, headers=self._headers, media_type="text/javascript")


CACHED_PATH = "/links/api/cached"

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


class CachedLinks:
    """Route that answers for the links of a page."""

    def __init__(
        self, finder: LinkEvidenceReader, door: RateLimiter, means: WebContext, note: Callable[[PageQuestion], None]
    ) -> None:
        """Store evidence reader, rate limiter and the callback that notes unobserved pages (W10)."""
        self._finder = finder
        self._note = note
        self._door = door
        self._means = means

    def routes(self) -> list[BaseRoute]:
        """Return its route."""
        return [Route(CACHED_PATH, self.answer, methods=["POST", "OPTIONS"])]

    async def answer(self, request: Request) -> Response:
        """Return the answer, or the error as a problem document."""
        if request.method == "OPTIONS":
            response = Response(status_code=204, headers=_PREFLIGHT)
        else:
            try:
                self._door.count(request)
                body = await read_body(request, _TYPES, MOST_BYTES, patience_s=_PATIENCE_S)
                answer = partial(self._answer_links, request, body)
                response = await run_in_threadpool(answer_or_problem, answer)
            except BusyError as error:
                wait = {"Retry-After": str(error.seconds)}
                response = problem(429, translate(TOO_OFTEN), wait)
            except HTTPException as error:
                response = problem(error.status_code, error.detail)
        response.headers.update({**CORS_HEADERS, "Cache-Control": "no-store"})
        return response

    def _answer_links(self, request: Request, body: bytes) -> Response:
        front = self._means.origin or f"{request.url.scheme}://{request.url.netloc}"
        question = parse_cached(body, own=(front, self._means.replay_origin))
        # One was counted when the question came in.
        self._door.charge(request, (len(question.urls) - 1) / _URLS_A_TOKEN)
        set_language(question.language)
        found = self._finder.find(question, is_internal=self._door.is_internal(request))
        leading = AnswerOrigins(
            front + page_language.get().prefix, self._means.replay_origin, self._in_addresses(question.wiki)
        )
        links = [answer_link(facts, leading) for facts in found.facts]
        page, about = found.page, None
        if page is not None:
            listed = date_of(page.listed_day).isoformat() if page.listed_day is not None else None
            about = {
                "is_observed": page.is_observed,
                "links_read": listed,
                "revision": page.revision,
                "request": page.request.value if page.request else None,
                "note": request_words(page.request) or None,
            }
        data: Data = {
            "wiki": str(question.wiki) if question.wiki else None,
            "fresh_s": max_age_s(links, self._means.clock.now(), is_watched=found.is_watched),
            "is_whole": found.is_whole,
            "page": about,
            "links": [link.data for link in links],
        }
        noting = None
        if page is not None and not page.is_observed and question.wiki is not None:
            asked = PageQuestion(question.wiki, (question.page_id,), ())
            noting = BackgroundTask(self._note, asked)
        headers = {"Content-Language": page_language.get().language}
        return Response(as_json(data), headers=headers, media_type="application/json", background=noting)

    def _in_addresses(self, wiki: WikiName | None) -> str:
        """Return the wiki for use in addresses; empty unless it has level rules of its own."""
        try:
            named = check_wiki(wiki.in_levels) if wiki is not None else ""
            return named if named and self._means.offers.speak_of(named) else ""
        except (InputError, TransientError):
            return ""
