"""Registry pages for readers: the form, its answers and a wiki's lists (W03 to W09, W69).

A query for a page is always answered (W10); one for a single URL or a pattern only from the form (`registry_forms`).
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from core.errors import InputError, TransientError
from links.check_result import public_status
from links.registry.wikis import WikiName
from playback.web.i18n import languages, localized_path, page_language, set_language, translate
from playback.web.page_renderer import WebContext, path_with_query
from playback.web.rate_limits import BusyError, RateLimiter
from playback.web.registry import link_messages, registry_values
from playback.web.registry.answer_formats import own_copy
from playback.web.registry.registry_forms import (
    ANY_QUESTION,
    FormTokens,
    RegistryForm,
    parse_filter,
    parse_namespaces,
    parse_pattern,
    parse_url,
    question_of,
    read_form,
)
from playback.web.registry.registry_lists import PatternQuestion
from playback.web.registry.registry_reader import UnknownWikiError
from playback.web.registry.registry_service import NoRegistryError, RegistryService

FORM_PATH = "/links"
LIST_PATH = "/links/list"
_LOG = logging.getLogger(__name__)
_NO_STORE = {"Cache-Control": "no-store"}
_FILTERS = (registry_values.Group.WORKING, registry_values.Group.UNREACHABLE, registry_values.Group.DOUBTFUL)


class RegistryPages:
    """Routes of the registry pages. Plain functions, run by Starlette in threads."""

    def __init__(self, service: RegistryService, limiter: RateLimiter, tokens: FormTokens, context: WebContext) -> None:
        self._service = service
        self._limiter = limiter
        self._tokens = tokens
        self._context = context

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route(FORM_PATH, self.form, name="links"), Route(LIST_PATH, self.lists)]

    def form(self, request: Request) -> Response:
        """Return the form with the answer to its query."""
        language = request.query_params.get("lang", "")
        if language in languages():
            set_language(language)
        form = self._stamped(request, read_form(request.query_params))
        asks = {
            "url": (form.url, self._url_answer),
            "pattern": (form.pattern, self._pattern_answer),
            "page": (form.title or form.curid, self._page_answer),
        }
        part = next((name for name, (text, _) in asks.items() if text.strip()), "")
        if not part and "scope" in request.query_params:  # the button was pressed on empty fields
            return self._rendered(form, 400, error=translate("Enter the title or the ID of a page."))
        if not part:
            return self._answer_or_error(request, form, lambda _, empty: self._rendered(empty), "page")
        return self._answer_or_error(request, form, asks[part][1], part)

    def lists(self, request: Request) -> Response:
        """Return a part of a wiki's list (W05)."""
        form = self._stamped(request, read_form(request.query_params))
        return self._answer_or_error(request, form, self._list_answer, "list")

    def page_answer(
        self, request: Request, question: registry_values.PageQuestion, answer: registry_values.RegistryAnswer
    ) -> Response:
        """Return the answer to an API query as HTML page (W68)."""
        form = RegistryForm(
            dbname=str(question.wiki),
            curid=str(question.page_ids[0]) if question.page_ids else "",
            title=question.titles[0] if question.titles else "",
            scope=question.scope.value,
        )
        form = self._stamped(request, form)
        return self._rendered(form, answer=answer, address=without_language(page_language.get().path))

    def fragment(self, answer: registry_values.RegistryAnswer) -> Response:
        """Return the lists of the answer as HTML fragment."""
        # It may be embedded in a page of any site, so addresses are absolute.
        helpers = self._helpers(self._context.origin)
        helpers["say_address"] = lambda _url: ""  # the page with the form leads there
        return self._context.render("registry/fragment.html", answer=answer, **helpers)

    def _page_answer(self, request: Request, form: RegistryForm) -> Response:
        self._limiter.count(request)
        wanted = parse_filter(form.status)
        question = registry_values.PageQuestion(
            registry_values.parse_wiki(form.dbname.strip()),
            () if form.title.strip() else (registry_values.parse_page_id(form.curid.strip()),),
            (registry_values.parse_title(form.title),) if form.title.strip() else (),
            registry_values.LinkScope.ALL if wanted else registry_values.parse_scope(form.scope),
        )
        answer = self._service.answer(question, is_internal=self._limiter.is_internal(request))
        if wanted:
            answer = replace(
                answer,
                pages=tuple(
                    replace(each, links=tuple(link for link in each.links if link.group in wanted))
                    for each in answer.pages
                ),
            )
        response = self._rendered(form, answer=answer)
        response.background = BackgroundTask(self._service.note, question)
        return response

    def _url_answer(self, request: Request, form: RegistryForm) -> Response:
        identity = parse_url(form.url)
        if not self._is_asked_by_form(request, form):
            return self._rendered(form, is_prefilled=True)
        self._limiter.count(request, is_form=True)
        wiki = registry_values.parse_wiki(form.dbname.strip()) if form.dbname.strip() else None
        is_internal = self._limiter.is_internal(request)
        link, uses = self._service.link(identity, wiki, farm_wide=form.farm, is_internal=is_internal)
        return self._rendered(form, normal=identity, link=link, uses=uses, wiki=wiki)

    def _pattern_answer(self, request: Request, form: RegistryForm) -> Response:
        question = PatternQuestion(
            parse_pattern(form.pattern),
            registry_values.parse_wiki(form.dbname.strip()) if form.dbname.strip() else None,
            parse_namespaces(form.namespace),
            parse_filter(form.status),
            request.query_params.get("after", ""),
        )
        if not self._is_asked_by_form(request, form):
            return self._rendered(form, is_prefilled=True)
        self._limiter.count(request, is_form=True)
        is_internal = self._limiter.is_internal(request)
        matches = self._service.search(question, is_internal=is_internal)
        names = ("pattern", "dbname", "namespace", "status", "stamp")
        further = {**{name: getattr(form, name) for name in names}, "after": matches.after}
        return self._rendered(
            form,
            found=matches,
            warnings=self._service.kept_out(question, is_internal=is_internal) or [],
            more=path_with_query(localized_path(FORM_PATH), further) if matches.after else "",
        )

    def _list_answer(self, request: Request, form: RegistryForm) -> Response:
        parameters = request.query_params
        wiki = registry_values.parse_wiki(form.dbname.strip())
        kind = registry_values.parse_list(parameters.get("with", ""))
        after, domain = registry_values.parse_after(parameters.get("after", "")), parameters.get("domain", "").strip()
        self._limiter.count(request)
        listed = self._service.listed(wiki, kind, after, domain=domain, is_internal=self._limiter.is_internal(request))
        more = ""
        if listed is not None and listed.after is not None:
            further = {"dbname": form.dbname, "with": kind.value, "after": str(listed.after)}
            more = path_with_query(localized_path(LIST_PATH), {**further, "domain": domain})
        return self._rendered(form, listed=listed, wiki=wiki, kind=kind, more=more, is_first=not after, domain=domain)

    def _answer_or_error(
        self, request: Request, form: RegistryForm, respond: Callable[[Request, RegistryForm], Response], part: str
    ) -> Response:
        """Return the answer or the input error, below the form."""
        form = replace(form, asked=part)
        try:
            if not self._service.has_registry():
                raise HTTPException(404)
            return respond(request, form)
        except InputError as error:
            status = 404 if isinstance(error, UnknownWikiError) else 400
            return self._rendered(form, status, error=translate(str(error)))
        except BusyError as error:
            return self._rendered(form, 429, {"Retry-After": str(error.seconds)}, wait_s=error.seconds)
        except NoRegistryError:
            raise HTTPException(404) from None
        except TransientError as error:
            _LOG.warning("front.registry_unavailable: %s", error)
            return self._rendered(form, 503, {"Retry-After": "30"}, is_away=True)

    def _rendered(
        self, form: RegistryForm, code: int = 200, headers: dict[str, str] | None = None, **values: object
    ) -> Response:
        nothing: dict[str, object] = {
            "answer": None, "error": "", "wait_s": 0, "is_away": False, "is_prefilled": False,
            "normal": "", "link": None, "uses": None, "wiki": None, "found": None, "warnings": (), "more": "",
            "listed": None, "kind": None, "is_first": True, "domain": "",
        }  # fmt: skip
        values = {**nothing, **self._helpers(), **values}
        values["has_answer"] = any(values[name] for name in ("answer", "normal", "found", "kind"))
        return self._context.render(
            "registry/links.html", code, {**_NO_STORE, **(headers or {})}, form=form, asked=form.asked, **values
        )

    def _helpers(self, before: str = "") -> dict[str, Any]:
        def url_address(url: str, wiki: WikiName | None) -> str:
            query = {"url": url, "dbname": str(wiki) if wiki else ""}
            return before + path_with_query(localized_path(FORM_PATH), query)

        def page_address(page: registry_values.PageReference) -> str:
            query = {"dbname": str(page.wiki), "curid": str(page.page_id)}
            return path_with_query(localized_path(FORM_PATH), query)

        return {
            "words": link_messages,
            "public_status": public_status,
            "page_address": page_address,
            "today": self._service.day,
            "own_copy": lambda link: own_copy(link, self._context.origin),
            "filters": _FILTERS,
            "kinds": tuple(registry_values.WikiListKind),
            "url_address": url_address,
        }

    def _stamped(self, request: Request, form: RegistryForm) -> RegistryForm:
        addresses, now = self._limiter.range_of(request), self._context.clock.now().timestamp()
        return replace(form, stamp=self._tokens.make(question_of(form), addresses, now))

    def _is_asked_by_form(self, request: Request, form: RegistryForm) -> bool:
        """Return True when the reader submitted the form (W20); see `registry_forms`."""
        mode = request.headers.get("sec-fetch-mode", "")
        if mode not in ("", "navigate"):
            return False
        addresses, now = self._limiter.range_of(request), self._context.clock.now().timestamp()
        stamp = request.query_params.get("stamp", "")
        if self._tokens.take(stamp, question_of(form), addresses, now):
            return True
        return mode == "navigate" and self._tokens.take(stamp, ANY_QUESTION, addresses, now)


def without_language(address: str) -> str:
    """Remove the language parameter from an address that has a language prefix.

    >>> without_language("/externalLinkInfo?dbname=x&lang=de&pageid=1")
    '/externalLinkInfo?dbname=x&pageid=1'
    """
    path, _, query = address.partition("?")
    others = [each for each in query.split("&") if each and not each.startswith("lang=")]
    return f"{path}?{'&'.join(others)}" if others else path
