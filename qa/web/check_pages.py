"""HTML pages and JSON API of checks, with their routes.

/quality                        list of checks, the worst first
/quality/PAGEID/LEVEL           one check: capture, playback and differences; POST: a review
/quality/PAGEID/LEVEL/KIND      its pictures, and thumbnails under ``small/``
/quality/sign-in                requests the reviewers' token from a browser

Pages work without scripts. The JSON API is read-only and withholds the same checks as the pages.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from typing import Annotated, Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from core.errors import InputError, TransientError, UnavailableError
from core.json_values import FactsOf, json_facts
from core.layout import Layout
from core.page_classes import PageClass
from core.playback_check import PICTURES, LostPart, PlaybackCheck, QaVerdict
from core.storable_text import replace_invisible
from links.feedback.reporter_limits import ReporterDigests, open_reporter_digests
from playback.url_paths import Memento, MementoModifier, memento_path, page_path
from playback.web.i18n import localized_path, noop, translate, when
from playback.web.page_renderer import PICTURE_HEADERS, WebContext, path_with_query, scripted_headers, tagged_response
from playback.web.rate_limits import BusyError, RateLimiter
from playback.web.registry.registry_api import REGISTRY_AWAY, TOO_OFTEN, answer_or_problem
from playback.web.registry.registry_forms import OTHER_SITE, STALE_FORM, FormTokens, check_sender, read_form_post
from playback.web.registry.registry_service import LinkRegistry, NoRegistryError
from qa.check_store import MOST_COUNTED
from qa.check_table import CheckedPage, RepairState
from qa.web import check_presentation, check_query, review
from qa.web.check_presentation import MEDIA_TYPE, CheckPictureFolder
from qa.web.check_query import VisibleCheck, VisibleChecks, filter_values, parse_check_filter, verdict_name
from qa.web.review import ACTION_VERDICTS, ReviewAction, ReviewActions, ReviewerRules, active_actions

QUALITY_PATH = "/quality"
RESULTS_PATH = f"{QUALITY_PATH}/api/results"
_NO_STORE = {"Cache-Control": "no-store"}
_NAVIGATION = noop("Quality")
_LOG = logging.getLogger(__name__)
_Respond = Callable[[Request], Response]
_LONGEST_NOTE = 500
_LONGEST_NAME = 100
_NO_RIGHT = noop("Only reviewers can rate copies. Ask the operator of this archive for access.")
ACTION_MESSAGES = {
    ReviewAction.GOOD: noop("Rated as good."),
    ReviewAction.BAD: noop("Rated as bad."),
    ReviewAction.CLEAR: noop("The rating has been removed."),
    ReviewAction.RECRAWL: noop("The page will be captured again."),
}


@dataclass(frozen=True, slots=True)
class QualityPages:
    """HTML pages and JSON API of checks. Synchronous handlers run in threads."""

    _results: VisibleChecks
    _pictures: CheckPictureFolder
    _acts: ReviewActions
    _reviewers: ReviewerRules
    _reporters: Callable[[], ReporterDigests]  # UnavailableError: without the key of form tokens
    _limiter: RateLimiter  # of others than reviewers
    _context: WebContext

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        one = f"{QUALITY_PATH}/{{page_id}}/{{level}}"

        def as_json(respond: _Respond, request: Request) -> Response:
            return answer_or_problem(partial(respond, request))

        answers: tuple[tuple[str, Callable[[_Respond, Request], Response], _Respond], ...] = (
            (QUALITY_PATH, self._answer, self.listed),
            (RESULTS_PATH, as_json, self.results),
            (f"{QUALITY_PATH}/api/summary", as_json, self.summary),
            (one, self._answer, self.one),
            (f"{one}/{{kind}}", self._answer, self.picture),
            (f"{one}/small/{{kind}}", self._answer, self.picture),
        )
        return [
            *(Route(path, partial(answer, respond)) for path, answer, respond in answers),
            Route(one, self.act, methods=["POST"]),
            Route(f"{QUALITY_PATH}/sign-in", self.sign_in),
        ]

    def listed(self, request: Request) -> Response:
        """Serve the list."""
        wanted, after, limit = check_query.parse_check_query(request.query_params)
        self._count(request)
        results, last = self._results.listed(wanted, after, limit)
        filters, is_reviewer = filter_values(wanted), self._reviewers.name_of(request) is not None
        return self._list(
            filters,
            results=results,
            totals=self._results.totals(wanted, by_reviewer=is_reviewer),
            most_counted=check_query.MOST_COUNTED_OF_SOME if filters else MOST_COUNTED,
            is_first=after is None,
            more=self._address(filters, {"after": str(last)}) if last is not None else "",
        )

    async def act(self, request: Request) -> Response:
        """Handle a reviewer's form."""
        try:
            check_sender(request, self._context.origin)
        except HTTPException:
            return self._refused(403, translate(OTHER_SITE))
        letter = await read_form_post(request)
        return await run_in_threadpool(self._answer, partial(self._done, letter), request)

    def sign_in(self, request: Request) -> Response:
        """Request the token from a browser; redirect a reviewer to the list."""
        if self._reviewers.name_of(request) is not None:
            return RedirectResponse(localized_path(QUALITY_PATH), 303)
        headers = review.CHALLENGE if self._reviewers.token else {}
        return self._refused(401 if headers else 403, translate(_NO_RIGHT), headers)

    def picture(self, request: Request) -> Response:
        """Serve a picture of a visible check."""
        names = request.path_params
        result, _ = self._results.one(names["page_id"], names["level"])
        if names["kind"] not in PICTURES or not self._context.offers.shows_pictures(result.page):
            raise HTTPException(404)
        make = self._pictures.small if "/small/" in request.url.path else self._pictures.whole
        body = make(names["page_id"], names["level"], names["kind"])
        return tagged_response(request, body, {**PICTURE_HEADERS, "Cache-Control": "private, no-cache"}, MEDIA_TYPE)

    def results(self, request: Request) -> Response:
        """Serve a part of the list, the worst first; ``next`` is the URL of the following part."""
        self._count(request)
        wanted, after, limit = check_query.parse_check_query(request.query_params)
        results, last = self._results.listed(wanted, after, limit)
        further = {"limit": request.query_params.get("limit", ""), "after": str(last)}
        answer = {
            "results": [
                {
                    **check_fields(each.row),
                    "url": each.page.url,
                    "result": f"{QUALITY_PATH}/{each.row.check.page_id}/{each.row.check.level}",
                    "copy": page_path(each.page.timestamp, each.page.url),
                }
                for each in results
            ],
            "after": None if last is None else str(last),
            "next": None if last is None else path_with_query(RESULTS_PATH, filter_values(wanted), further),
        }
        return JSONResponse(answer, headers=_NO_STORE)

    def summary(self, request: Request) -> Response:
        """Serve the counts by verdict; null where they are shown to reviewers only."""
        self._count(request)
        wanted = parse_check_filter(request.query_params)
        totals = self._results.totals(wanted, by_reviewer=self._reviewers.name_of(request) is not None)
        counted = None if totals is None else {verdict_name(k): n for k, n in totals.items()}
        return JSONResponse({"totals": counted}, headers=_NO_STORE)

    def one(self, request: Request, letter: Mapping[str, str] | None = None) -> Response:
        """Serve one check; after the `letter` of a form that is too old, with an error."""
        names, parameters = request.path_params, request.query_params if letter is None else letter
        wanted = parse_check_filter(parameters)
        self._count(request)
        result, others = self._results.one(names["page_id"], names["level"])
        # Its position before the review: the reviewer continues from there.
        place = check_query.parse_start(parameters.get("at", "")) or result.row.place
        before, behind = self._results.neighbours(wanted, place)
        filters = filter_values(wanted)
        name = self._reviewers.name_of(request)
        done = parameters.get("done", "")
        return self._render(
            "quality/one.html",
            200 if letter is None else 403,
            result=result,
            others=others,
            history=[
                each for each in self._results.history(result.page.url) if each.page.page_id != result.page.page_id
            ],
            pictures=self._sources(result),
            before=self._result_address(before.row, filters) if before else "",
            behind=self._result_address(behind.row, filters) if behind else "",
            back=self._address(filters),
            filters={**filters, "at": str(place)},
            address_of=self._result_address(result.row),
            here_again=self._result_address(result.row, filters, {"at": str(place)}),
            is_reviewer=name is not None,
            reviewer=name or "",
            can_sign_in=bool(self._reviewers.token),
            has_reviewers=bool(self._reviewers.networks or self._reviewers.token),
            token=FormTokens(self._reporters()).make(*self._stamped(request, result)) if name is not None else "",
            down=active_actions(result.row),
            standing=review_status(result.row),
            done=translate(ACTION_MESSAGES[ReviewAction(done)]) if done in set(ReviewAction) else "",
            error="" if letter is None else translate(STALE_FORM),
        )

    def _done(self, letter: Mapping[str, str], request: Request) -> Response:
        names = request.path_params
        name = self._reviewers.name_of(request)
        if name is None:
            return self._refused(403, translate(_NO_RIGHT))
        self._count(request)
        wanted = filter_values(parse_check_filter(letter))
        act = letter.get("act", "")
        if act not in set(ReviewAction):
            raise HTTPException(400)
        result, _ = self._results.one(names["page_id"], names["level"])
        place = check_query.parse_start(letter.get("at", "")) or result.row.place
        if not FormTokens(self._reporters()).holds(letter.get("token", ""), *self._stamped(request, result)):
            if _wants_json(request):
                return JSONResponse({"error": translate(STALE_FORM)}, 403)
            return self.one(request, letter)
        by = name or letter.get("by", "").strip()[:_LONGEST_NAME]
        note = letter.get("note", "").strip()[:_LONGEST_NOTE]
        if not self._acts.do(ReviewAction(act), names["page_id"], names["level"], by=by, note=note):
            raise HTTPException(404)
        if _wants_json(request):
            row = self._results.one(names["page_id"], names["level"])[0].row
            return JSONResponse(
                {
                    "said": translate(ACTION_MESSAGES[ReviewAction(act)]),
                    "standing": review_status(row),
                    "pressed": active_actions(row),
                    "isJudged": ReviewAction(act) in ACTION_VERDICTS,
                    "verdict": verdict_name(row.verdict),
                },
                headers=_NO_STORE,
            )
        after = {**wanted, "at": str(place), "done": act}
        if letter.get("onward") and ReviewAction(act) in ACTION_VERDICTS:
            _, behind = self._results.neighbours(parse_check_filter(letter), place)
            if behind is not None:
                return RedirectResponse(self._result_address(behind.row, wanted), 303)
        return RedirectResponse(self._result_address(result.row, after), 303)

    def _count(self, request: Request) -> None:
        if self._reviewers.name_of(request) is None:
            self._limiter.count(request)

    def _stamped(self, request: Request, result: VisibleCheck) -> tuple[str, str, float]:
        """Return purpose, addresses and time of a form token for this reviewer."""
        purpose = f"quality {result.row.check.page_id} {result.row.check.level}"
        return purpose, self._limiter.range_of(request), self._context.clock.now().timestamp()

    def _sources(self, result: VisibleCheck, *, is_small: bool = False) -> dict[str, str]:
        """Return the picture URLs by kind; the archive's screenshot where the check has none, or for a thumbnail."""
        check, page = result.row.check, result.page
        if not self._context.offers.shows_pictures(page):
            return {}
        address = self._result_address(result.row) + ("/small" if is_small else "")
        sources = {kind: f"{address}/{kind}" for kind in self._pictures.kinds(check.page_id, check.level)}
        own = page.thumbnail if is_small else page.picture
        if own and (is_small or "seen" not in sources):
            image = memento_path(Memento(page.timestamp, MementoModifier.IMAGE, own))
            sources["seen"] = self._context.replay_origin + image
        return sources

    def _list(self, filters: Mapping[str, str], code: int = 200, **values: Any) -> Response:
        nothing: dict[str, Any] = {
            "results": (), "totals": None, "most_counted": 0, "is_first": True, "more": "", "error": "",
        }  # fmt: skip
        return self._render(
            "quality/list.html",
            code,
            filters=filters,
            small=partial(self._sources, is_small=True),
            back=self._address({}),
            **{**check_presentation.choices(), **nothing, **values},
        )

    def _answer(self, respond: _Respond, request: Request) -> Response:
        try:
            return respond(request)
        except InputError as error:
            return self._list({}, 400, error=translate(str(error)))
        except BusyError as error:
            return self._refused(429, translate(TOO_OFTEN), {"Retry-After": str(error.seconds)})
        except NoRegistryError:
            raise HTTPException(404) from None
        except (TransientError, UnavailableError) as error:
            _LOG.warning("front.quality_unavailable: %s", error)
            return self._refused(503, translate(REGISTRY_AWAY), {"Retry-After": "30"})

    def _refused(self, code: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
        return self._render("quality/refused.html", code, headers, text=text, back=self._address({}))

    def _render(
        self, template: str, code: int = 200, headers: Mapping[str, str] | None = None, **values: Any
    ) -> Response:
        return self._context.render(
            template,
            code,
            {**scripted_headers(self._context.replay_origin), **(headers or {})},
            words=check_presentation,
            verdict_name=verdict_name,
            result_address=self._result_address,
            list_address=self._address,
            **values,
        )

    def _address(self, *values: Mapping[str, str]) -> str:
        return path_with_query(localized_path(QUALITY_PATH), *values)

    def _result_address(self, row: CheckedPage, *values: Mapping[str, str]) -> str:
        return path_with_query(localized_path(f"{QUALITY_PATH}/{row.check.page_id}/{row.check.level}"), *values)


def review_status(row: CheckedPage) -> str:
    """Return labels of the review and of the repair."""
    message = translate(noop("Not reviewed."))
    if row.review is not QaVerdict.UNCHECKED and row.reviewed_at is not None:
        facts = {"verdict": check_presentation.verdict(row.review), "when": when(row.reviewed_at)}
        if row.reviewed_by:
            text = noop("%(verdict)s, reviewed by %(name)s, %(when)s.")
            message = translate(text, **facts, name=replace_invisible(row.reviewed_by))
        else:
            message = translate(noop("%(verdict)s, reviewed %(when)s."), **facts)
    labels = [message, check_presentation.repair(row.repair)]
    if row.repair in review.PENDING_REPAIRS:
        labels.append(translate(noop("A running crawl or “weboid qa repair” will capture it again.")))
    return " ".join(filter(None, labels))


def _wants_json(request: Request) -> bool:
    return request.headers.get("accept", "").startswith("application/json")


_CHECK_NAMES = (
    "page_id level url captured_at checked_at engine score picture text resources parts_seen parts_shown faults reason"
    " seconds"
)
LostResource = Annotated[dict[str, Any], FactsOf("LostResource", LostPart, "url reason")]
CheckFacts = Annotated[dict[str, Any], FactsOf(
    "CheckFacts", PlaybackCheck, _CHECK_NAMES,
    host=str, verdict=str, machine=str, person=str | None, reviewed_by=str | None, reviewed_at=datetime | None,
    note=str, lost=list[LostResource], repair=RepairState, repair_page_id=str | None, **{"class": PageClass},
)]  # fmt: skip


def check_fields(row: CheckedPage) -> CheckFacts:
    """Return the fields of a check by their JSON names."""
    check = row.check
    return {
        **json_facts(check, _CHECK_NAMES),
        "host": row.host,
        "class": row.page_class,
        "verdict": verdict_name(row.verdict),
        "machine": verdict_name(check.verdict),
        "person": None if row.review is QaVerdict.UNCHECKED else str(row.review),
        "reviewed_by": row.reviewed_by or None,
        "reviewed_at": row.reviewed_at and row.reviewed_at.isoformat(timespec="milliseconds"),
        "note": row.note,
        "lost": [{"url": part.url, "reason": part.reason} for part in check.lost],
        "repair": str(row.repair),
        "repair_page_id": row.repair_page_id or None,
    }


@dataclass(frozen=True, slots=True)
class QualityContext:
    """Context that a server needs to show checks, besides the link registry."""

    layout: Layout  # collection, which holds the pictures and the key of form tokens
    reviewers: ReviewerRules = field(default_factory=ReviewerRules)

    def navigation_link(self, registry: LinkRegistry) -> tuple[str, str] | None:
        """Return (address, text) of the list of checks, or None while there is no registry."""
        if not registry.source.is_there():
            return None
        return localized_path(QUALITY_PATH), translate(_NAVIGATION)

    def routes(self, registry: LinkRegistry, context: WebContext) -> list[BaseRoute]:
        """Return the routes of the pages and of the JSON API."""
        return QualityPages(
            VisibleChecks(registry.source, context.store, context.copy_warnings),
            CheckPictureFolder(self.layout.quality_pictures),
            ReviewActions(registry.source.store, context.clock),
            self.reviewers,
            cache(partial(open_reporter_digests, self.layout)),
            RateLimiter(registry.access, "quality", context.clock.monotonic),
            context,
        ).routes()
