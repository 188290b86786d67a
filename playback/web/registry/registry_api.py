"""Read-only registry API for programs, open to any site (CORS): page information, lists and gadget data.

Errors are ``application/problem+json`` (RFC 9457) in every format.
"""

import functools
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from core.errors import InputError, TransientError
from playback.web.i18n import noop, page_language, set_language, translate
from playback.web.page_renderer import WebContext
from playback.web.rate_limits import BusyError, RateLimiter
from playback.web.registry import answer_formats
from playback.web.registry.registry_forms import parse_pattern, parse_url
from playback.web.registry.registry_lists import PatternQuestion, parse_wiki_question
from playback.web.registry.registry_pages import RegistryPages
from playback.web.registry.registry_reader import UnknownWikiError
from playback.web.registry.registry_service import NoRegistryError, RegistryService
from playback.web.registry.registry_values import (
    MOST_PAGES,
    AnswerFormat,
    PageQuestion,
    RegistryAnswer,
    parse_after,
    parse_flag,
    parse_format,
    parse_language,
    parse_list,
    parse_page_question,
    parse_wiki,
)

_PAGES_A_TOKEN = 5  # a question for fifty pages costs as much as ten for one
_FRESH_S = 60
TOO_OFTEN = noop("Too many requests. Please wait and send fewer requests.")
_NO_REGISTRY = noop("This archive has no link registry.")
REGISTRY_AWAY = noop("The link registry is temporarily unavailable.")
_SOURCE = Path(answer_formats.__file__)
EXCLUDED_TEXT = noop("The wiki excludes links to %(entries)s from its link search.")
CORS_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Retry-After",
    "Cross-Origin-Resource-Policy": "cross-origin",  # a wiki's page loads the script
    "X-Content-Type-Options": "nosniff",
}
_TYPES = {
    AnswerFormat.JSON: "application/json",
    AnswerFormat.XML: "application/xml; charset=utf-8",
    AnswerFormat.JAVASCRIPT: "text/javascript; charset=utf-8",
}
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD",
    "Access-Control-Allow-Headers": "Api-User-Agent",  # what gadgets of Wikimedia send
    "Access-Control-Max-Age": "86400",
    "Allow": "GET, HEAD, OPTIONS",
}
_LOG = logging.getLogger(__name__)
_Endpoint = Callable[[Request], Response]


class RegistryApi:
    """Routes of the registry API."""

    def __init__(
        self, service: RegistryService, limiter: RateLimiter, pages: RegistryPages, context: WebContext
    ) -> None:
        self._service = service
        self._limiter = limiter
        self._pages = pages
        self._context = context

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        answers: tuple[tuple[str, _Endpoint], ...] = (
            ("/links/api/page", self.page),
            ("/links/api/list", self.list),
            ("/externalLinkProblem", self.problem),
            ("/externalLinkInfo", self.info),
            ("/links/api/links", self.links),
            ("/links/api/normalise", self.normal),
            ("/links/api/excluded", self.excluded),
            (answer_formats.SOURCE_PATH, self.source),
            ("/links/api/openapi.json", self.openapi),
        )
        return [
            Route(path, functools.partial(self._respond, each), methods=["GET", "HEAD", "OPTIONS"])
            for path, each in answers
        ]

    def page(self, request: Request) -> Response:
        """Return information about a page's links (W19, W21), or handle a ping (W22)."""
        formats = (AnswerFormat.JSON, AnswerFormat.XML, AnswerFormat.HTML)
        wanted = parse_format(request.query_params.get("format", ""), formats)
        if parse_flag(request.query_params.get("ping", "")):
            self._service.ping(self._page_question(request), is_internal=self._limiter.is_internal(request))
            return Response(status_code=204, headers={"Cache-Control": "no-store"})
        return self._formatted(*self._answer(request), wanted)

    def problem(self, request: Request) -> Response:
        """Return the presumably unreachable URLs as gadget script (W67)."""
        formats = (AnswerFormat.JAVASCRIPT, AnswerFormat.JSON)
        wanted = parse_format(request.query_params.get("format", ""), formats)
        question, answer = self._answer(request)
        problems = answer_formats.problems_of(answer, self._context.origin, question.fields)
        if wanted is AnswerFormat.JAVASCRIPT:
            return self._response(question, answer_formats.as_javascript(problems, self._context.origin), wanted)
        data = {"wiki": str(answer.wiki), "problems": problems}
        return self._response(question, answer_formats.as_json(data), wanted)

    def info(self, request: Request) -> Response:
        """Return a page's links with findings as an HTML page (W68), or the list only."""
        question, answer = self._answer(request)
        if parse_flag(request.query_params.get("fragment", "")):
            return self._formatted(question, answer, AnswerFormat.HTML)
        response = self._pages.page_answer(request, question, answer)
        response.background = BackgroundTask(self._service.note, question)
        return response

    def list(self, request: Request) -> Response:
        """Return a part of a wiki's page list (W05)."""
        query = request.query_params
        wiki, kind = parse_wiki(query.get("dbname", "")), parse_list(query.get("with", ""))
        after = parse_after(query.get("after", ""))
        wanted = parse_format(query.get("format", ""), (AnswerFormat.JSON, AnswerFormat.XML))
        listed = self._service.listed(
            *(wiki, kind, after), domain=query.get("domain", ""), is_internal=self._limiter.is_internal(request)
        )
        if listed is None:
            raise UnknownWikiError
        data = answer_formats.list_data(wiki, kind, listed)
        body = answer_formats.as_json(data) if wanted is AnswerFormat.JSON else answer_formats.as_xml("list", data)
        return Response(body, media_type=_TYPES[wanted])

    def links(self, request: Request) -> Response:
        """Return a part of a wiki's links, by state or changed since a day."""
        question = parse_wiki_question(request.query_params)
        set_language(parse_language(request.query_params.get("lang", "")))
        part = self._service.links(question, is_internal=self._limiter.is_internal(request))
        data = answer_formats.links_data(question, part, self._context.origin)
        return Response(answer_formats.as_json(data), media_type=_TYPES[AnswerFormat.JSON])

    def normal(self, request: Request) -> Response:
        """Return the normal form of URLs (W51), independent of the registry's content."""
        texts = [each for each in request.query_params.getlist("url") if each]
        if not texts or len(texts) > MOST_PAGES:
            raise InputError(noop("Send 1 to 50 URLs: url=https://example.org/."))
        urls: list[dict[str, str | None]] = []
        for text in texts:
            try:
                urls.append({"given": text, "url": parse_url(text), "fault": None})
            except InputError as error:
                urls.append({"given": text, "url": None, "fault": translate(str(error))})
        return Response(answer_formats.as_json({"urls": urls}), media_type=_TYPES[AnswerFormat.JSON])

    def excluded(self, request: Request) -> Response:
        """Return whether a wiki excludes links that match a pattern from its link search (X06)."""
        query = request.query_params
        wiki = parse_wiki(query.get("dbname", ""))
        question = PatternQuestion(parse_pattern(query.get("pattern", "")), wiki, (), frozenset())
        entries = self._service.kept_out(question, is_internal=self._limiter.is_internal(request))
        if entries is None:
            raise UnknownWikiError
        data = {
            "wiki": str(wiki),
            "pattern": query.get("pattern", ""),
            "excluded": bool(entries),
            "entry": entries[0] if entries else None,
            "entries": entries,
            "reason": translate(EXCLUDED_TEXT, entries=", ".join(entries)) if entries else None,
        }
        return Response(answer_formats.as_json(data), media_type=_TYPES[AnswerFormat.JSON])

    def source(self, _request: Request) -> Response:
        """Return the source code that generates the gadget script, in exactly this version."""
        return Response(_SOURCE.read_bytes(), media_type="text/plain; charset=utf-8")

    def openapi(self, _request: Request) -> Response:
        """Return the OpenAPI description."""
        origin = self._context.origin
        servers = {"servers": [{"url": origin}]} if origin else {}
        return Response(answer_formats.as_json({**api_description(), **servers}), media_type="application/json")

    def _answer(self, request: Request) -> tuple[PageQuestion, RegistryAnswer]:
        question = self._page_question(request)
        set_language(question.language)
        return question, self._service.answer(question, is_internal=self._limiter.is_internal(request))

    def _page_question(self, request: Request) -> PageQuestion:
        """Parse the query, and charge for pages beyond the first, counted on receipt."""
        question = parse_page_question(request.query_params)
        self._limiter.charge(request, (question.size - 1) / _PAGES_A_TOKEN)
        return question

    def _respond(self, answer: _Endpoint, request: Request) -> Response:
        """Return the response, or the error as a problem document, with common headers."""

        def counted() -> Response:
            self._limiter.count(request)
            return answer(request)

        if request.method == "OPTIONS":
            response = Response(status_code=204, headers=_PREFLIGHT)
        else:
            response = answer_or_problem(counted)
        response.headers.update(CORS_HEADERS)
        return response

    def _formatted(self, question: PageQuestion, answer: RegistryAnswer, wanted: AnswerFormat) -> Response:
        if wanted is AnswerFormat.HTML:
            response: Response = self._pages.fragment(answer)
            response.background = BackgroundTask(self._service.note, question)
            return response
        data = answer_formats.data_of(answer, self._context.origin, question.fields)
        body = answer_formats.as_json(data) if wanted is AnswerFormat.JSON else answer_formats.as_xml("answer", data)
        return self._response(question, body, wanted)

    def _response(self, question: PageQuestion, body: bytes, wanted: AnswerFormat) -> Response:
        headers = {
            "Cache-Control": f"max-age={_FRESH_S}",
            "Content-Language": page_language.get().language,
            "Vary": "Accept-Language",
        }
        noting = BackgroundTask(self._service.note, question)
        return Response(body, headers=headers, media_type=_TYPES[wanted], background=noting)


@functools.cache
def api_description() -> dict[str, Any]:
    """Return the OpenAPI document, without servers."""
    document: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("openapi.yaml").read_bytes())
    return document


def answer_or_problem(answer: Callable[[], Response]) -> Response:
    """Return the answer, or its error as a problem document."""
    try:
        return answer()
    except BusyError as error:
        return problem(429, translate(TOO_OFTEN), {"Retry-After": str(error.seconds)})
    except InputError as error:
        status = 404 if isinstance(error, UnknownWikiError) else 400
        return problem(status, translate(str(error)))
    except NoRegistryError:
        return problem(404, translate(_NO_REGISTRY))
    except TransientError as error:
        _LOG.warning("front.registry_unavailable: %s", error)
        return problem(503, translate(REGISTRY_AWAY), {"Retry-After": "30"})


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem document."""
    title = HTTPStatus(status).phrase
    body = answer_formats.as_json({"type": "about:blank", "title": title, "status": status, "detail": detail})
    return Response(body, status, headers, media_type="application/problem+json")
