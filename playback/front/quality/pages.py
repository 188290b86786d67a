"""The pages of checks: the list, the single result with its pictures, and what its buttons do.

/quality                        the checks, the worst first
/quality/PAGEID/LEVEL           one: capture, playback and what differs; by POST: a reviewer's act
/quality/PAGEID/LEVEL/KIND      its pictures, and small ones under ``small/``
/quality/sign-in                asks a browser for the reviewers' token

They read and judge without a script; with it they are quicker (`static/quality.js`).
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from core.errors import InputError, TransientError, UnavailableError
from core.quality import PICTURES, Fault, Verdict
from links.books.quality import CheckedPage
from playback.addresses import Memento, Modifier, memento_path
from playback.decisions.levels import Level
from playback.front.headers import scripted_headers
from playback.front.languages import here, noop, translate, when
from playback.front.quality import words
from playback.front.quality.acts import JUDGED, WAITING, Act, Acts, pressed
from playback.front.quality.asking import (
    Question,
    address,
    filter_values,
    parse_filter,
    parse_from,
    parse_question,
    verdict_name,
)
from playback.front.quality.pictures import MEDIA_TYPE, Picture, Pictures
from playback.front.quality.results import MOST_COUNTED, MOST_COUNTED_OF_SOME, Result, Results
from playback.front.quality.rights import CHALLENGE, Gate
from playback.front.registry.desk import NoRegistryError
from playback.front.registry.people import BusyError
from playback.front.saying.letters import check_sender, read_letter
from playback.front.views import Means

QUALITY_PATH = "/quality"
_LOG = logging.getLogger(__name__)
_LONGEST_NOTE = 500
_LONGEST_NAME = 100
_OTHER_SITE = noop("This came from a page of another site, so nothing was done.")
_STALE = noop("The form was open for too long, or comes from elsewhere. Press the button again.")
_NO_RIGHT = noop("Only reviewers may judge copies. Whoever runs this archive can make you one.")
_PICTURE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-cache",
    "Content-Disposition": "inline",
}
SAID = {
    Act.GOOD: noop("Marked as good."),
    Act.BAD: noop("Marked as bad."),
    Act.CLEAR: noop("The mark is taken back."),
    Act.RECRAWL: noop("It will be captured again."),
}


class QualityPages:
    """The pages. Plain functions run in threads."""

    def __init__(
        self, results: Results, pictures: Pictures, acts: Acts, gate: Gate, means: Means
    ) -> None:
        self._results = results
        self._pictures = pictures
        self._acts = acts
        self._gate = gate
        self._means = means

    def routes(self) -> list[BaseRoute]:
        """Their addresses."""
        one = f"{QUALITY_PATH}/{{page_id}}/{{level}}"
        return [
            Route(QUALITY_PATH, self.listed),
            Route(f"{QUALITY_PATH}/sign-in", self.sign_in),
            Route(one, self.one),
            Route(one, self.act, methods=["POST"]),
            Route(f"{one}/{{kind}}", self.picture),
            Route(f"{one}/small/{{kind}}", self.picture),
        ]

    def listed(self, request: Request) -> Response:
        """The list."""

        def told() -> Response:
            question = parse_question(request.query_params)
            self._gate.count(request)
            found = self._results.listed(question)
            is_reviewer = self._gate.name_of(request) is not None
            totals = self._results.totals(question.wanted, by_reviewer=is_reviewer)
            further = {"after": str(found.after)} if found.after is not None else {}
            return self._list(
                question,
                results=found.results,
                totals=totals,
                most_counted=MOST_COUNTED_OF_SOME if question.filters else MOST_COUNTED,
                is_first=question.after is None,
                more=self._address(question.filters, further) if further else "",
            )

        return self._told(told)

    def one(self, request: Request) -> Response:
        """One result."""
        return self._told(lambda: self._one(request, request.query_params))

    async def act(self, request: Request) -> Response:
        """What a button asks for."""
        try:
            check_sender(request, self._means.origin)
        except HTTPException:
            return self._refused(403, translate(_OTHER_SITE))
        letter = await read_letter(request)
        return await run_in_threadpool(self._told, lambda: self._done(request, letter))

    def sign_in(self, request: Request) -> Response:
        """Ask a browser for the token; lead who has it back to the list."""
        if self._gate.name_of(request) is not None:
            return RedirectResponse(here(QUALITY_PATH), 303)
        headers = CHALLENGE if self._gate.reviewers.token else {}
        return self._refused(401 if headers else 403, translate(_NO_RIGHT), headers)

    def picture(self, request: Request) -> Response:
        """A picture of a check that may be shown."""
        names = request.path_params
        found: list[Picture] = []

        def told() -> Response:
            result, _ = self._results.one(names["page_id"], names["level"])
            if names["kind"] not in PICTURES or not self._means.offers.shows_pictures(result.page):
                raise HTTPException(404)
            is_small = "/small/" in request.url.path
            make = self._pictures.small if is_small else self._pictures.whole
            found.append(make(names["page_id"], names["level"], names["kind"]))
            return Response()

        answer = self._told(told)
        if not found:
            return answer
        headers = {**_PICTURE_HEADERS, "ETag": found[0].etag}
        if found[0].etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(found[0].body, headers=headers, media_type=MEDIA_TYPE)

    def _one(
        self, request: Request, given: Mapping[str, str], code: int = 200, error: str = ""
    ) -> Response:
        names = request.path_params
        wanted = parse_filter(given)
        self._gate.count(request)
        result, others = self._results.one(names["page_id"], names["level"])
        # Where it stood before it was judged: from there a reviewer goes on.
        place = parse_from(given.get("at", "")) or result.row.place
        before, behind = self._results.neighbours(wanted, place)
        filters = filter_values(wanted)
        name = self._gate.name_of(request)
        done = given.get("done", "")
        return self._render(
            "quality/one.html",
            code,
            result=result,
            others=others,
            history=[
                each
                for each in self._results.history(result.page.url)
                if each.page.page_id != result.page.page_id
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
            can_sign_in=bool(self._gate.reviewers.token),
            has_reviewers=self._gate.reviewers.is_anybody,
            token=self._gate.token(request, _purpose(result)) if name is not None else "",
            down=pressed(result.row),
            standing=standing_of(result.row),
            done=translate(SAID[Act(done)]) if done in set(Act) else "",
            error=error,
        )

    def _done(self, request: Request, letter: Mapping[str, str]) -> Response:
        names = request.path_params
        name = self._gate.name_of(request)
        if name is None:
            return self._refused(403, translate(_NO_RIGHT))
        self._gate.count(request)
        wanted = filter_values(parse_filter(letter))
        act = letter.get("act", "")
        if act not in set(Act):
            raise HTTPException(400)
        result, _ = self._results.one(names["page_id"], names["level"])
        place = parse_from(letter.get("at", "")) or result.row.place
        if not self._gate.holds(request, letter.get("token", ""), _purpose(result)):
            if _wants_json(request):
                return JSONResponse({"error": translate(_STALE)}, 403)
            return self._one(request, letter, 403, translate(_STALE))
        by = name or letter.get("by", "").strip()[:_LONGEST_NAME]
        note = letter.get("note", "").strip()[:_LONGEST_NOTE]
        if not self._acts.do(Act(act), names["page_id"], names["level"], by=by, note=note):
            raise HTTPException(404)
        if _wants_json(request):
            row = self._results.one(names["page_id"], names["level"])[0].row
            return JSONResponse(
                {
                    "said": translate(SAID[Act(act)]),
                    "standing": standing_of(row),
                    "pressed": pressed(row),
                    "isJudged": Act(act) in JUDGED,
                    "verdict": verdict_name(row.verdict),
                },
                headers={"Cache-Control": "no-store"},
            )
        after = {**wanted, "at": str(place), "done": act}
        if letter.get("onward") and Act(act) in JUDGED:
            _, behind = self._results.neighbours(parse_filter(letter), place)
            if behind is not None:
                target = self._result_address(behind.row, wanted)
                return RedirectResponse(target, 303)
        return RedirectResponse(self._result_address(result.row, after), 303)

    def _sources(self, result: Result) -> dict[str, str]:
        """Where the pictures are, by kind; the archive's own screenshot where no check left one."""
        check, page = result.row.check, result.page
        if not self._means.offers.shows_pictures(page):
            return {}
        kinds = self._pictures.kinds(check.page_id, check.level)
        found = {kind: f"{self._result_address(result.row)}/{kind}" for kind in kinds}
        if "seen" not in found and page.picture:
            found["seen"] = self._image(page.timestamp, page.picture)
        return found

    def _small(self, result: Result) -> dict[str, str]:
        """The same for lists."""
        check, page = result.row.check, result.page
        if not self._means.offers.shows_pictures(page):
            return {}
        kinds = self._pictures.kinds(check.page_id, check.level)
        found = {kind: f"{self._result_address(result.row)}/small/{kind}" for kind in kinds}
        if page.thumbnail:
            found["seen"] = self._image(page.timestamp, page.thumbnail)
        return found

    def _image(self, timestamp: str, uri: str) -> str:
        return self._means.replay_origin + memento_path(Memento(timestamp, Modifier.IMAGE, uri))

    def _list(self, question: Question | None, code: int = 200, **values: Any) -> Response:
        nothing: dict[str, Any] = {
            "results": (), "totals": None, "most_counted": 0, "is_first": True, "more": "", "error": "",
        }  # fmt: skip
        return self._render(
            "quality/list.html",
            code,
            filters=question.filters if question is not None else {},
            verdicts=[(verdict_name(each), words.verdict(each)) for each in Verdict],
            classes=[(str(each), translate(text)) for each, text in words.CLASSES.items()],
            levels=[(str(each), words.level(each)) for each in Level],
            faults=[(str(each), words.fault(each)) for each in Fault],
            small=self._small,
            back=self._address({}),
            **{**nothing, **values},
        )

    def _told(self, tell: Callable[[], Response]) -> Response:
        """The answer, or what is wrong with the question."""
        try:
            return tell()
        except InputError as error:
            return self._list(None, 400, error=translate(str(error)))
        except BusyError as error:
            text = translate(noop("Too many questions: wait, and ask less often."))
            return self._refused(429, text, {"Retry-After": str(error.seconds)})
        except NoRegistryError:
            raise HTTPException(404) from None
        except (TransientError, UnavailableError) as error:
            _LOG.warning("front.quality_unavailable: %s", error)
            text = translate(noop("The link registry cannot be read at the moment."))
            return self._refused(503, text, {"Retry-After": "30"})

    def _refused(self, code: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
        return self._render(
            "quality/refused.html", code, headers, text=text, back=self._address({})
        )

    def _render(
        self,
        template: str,
        code: int = 200,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> Response:
        return self._means.render(
            template,
            code,
            {**scripted_headers(self._means.replay_origin), **(headers or {})},
            words=words,
            verdict_name=verdict_name,
            result_address=self._result_address,
            list_address=self._address,
            **values,
        )

    def _address(self, *values: Mapping[str, str]) -> str:
        return address(here(QUALITY_PATH), *values)

    def _result_address(self, row: CheckedPage, *values: Mapping[str, str]) -> str:
        path = here(f"{QUALITY_PATH}/{row.check.page_id}/{row.check.level}")
        return address(path, *values)


def standing_of(row: CheckedPage) -> str:
    """What people said of it, and what is being done about it."""
    said = translate(noop("No person has judged it."))
    if row.review is not Verdict.UNCHECKED and row.reviewed_at is not None:
        facts = {"verdict": words.verdict(row.review), "when": when(row.reviewed_at)}
        if row.reviewed_by:
            text = noop("%(verdict)s, says %(name)s, %(when)s.")
            said = translate(text, **facts, name=words.plain(row.reviewed_by))
        else:
            said = translate(noop("%(verdict)s, says a reviewer, %(when)s."), **facts)
    told = [said, words.repair(row.repair)]
    if row.repair in WAITING:
        told.append(translate(noop("A running crawl takes it up, or “weboid qa repair”.")))
    return " ".join(filter(None, told))


def _purpose(result: Result) -> str:
    return f"quality {result.row.check.page_id} {result.row.check.level}"


def _wants_json(request: Request) -> bool:
    return request.headers.get("accept", "").startswith("application/json")
