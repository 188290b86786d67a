"""Checks for programs, as JSON: a part of the list, and how many there are.

Reading only. What people may not see, programs may not either (`results.py`); errors are
``application/problem+json`` (RFC 9457).
"""

import logging
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from core.errors import InputError, TransientError
from core.quality import Verdict
from links.books.quality import CheckedPage
from playback.addresses import page_path
from playback.front.languages import translate
from playback.front.quality.asking import (
    address,
    parse_filter,
    parse_question,
    verdict_name,
)
from playback.front.quality.pages import QUALITY_PATH
from playback.front.quality.results import Result, Results
from playback.front.quality.rights import Gate
from playback.front.registry.desk import NoRegistryError
from playback.front.registry.people import BusyError
from playback.front.registry.programs import problem

RESULTS_PATH = f"{QUALITY_PATH}/api/results"
SUMMARY_PATH = f"{QUALITY_PATH}/api/summary"
_NO_STORE = {"Cache-Control": "no-store"}
_LOG = logging.getLogger(__name__)


class QualityPrograms:
    """Answers programs. Plain functions run in threads."""

    def __init__(self, results: Results, gate: Gate) -> None:
        self._results = results
        self._gate = gate

    def routes(self) -> list[BaseRoute]:
        """Their addresses."""
        return [Route(RESULTS_PATH, self.results), Route(SUMMARY_PATH, self.summary)]

    def results(self, request: Request) -> Response:
        """A part of the list, the worst first; ``next`` is the address of what follows."""

        def told() -> Response:
            question = parse_question(request.query_params)
            found = self._results.listed(question)
            after = str(found.after) if found.after is not None else None
            limit = {"limit": request.query_params.get("limit", "")}
            return JSONResponse(
                {
                    "results": [as_json(each) for each in found.results],
                    "after": after,
                    "next": None
                    if after is None
                    else address(RESULTS_PATH, question.filters, limit, {"after": after}),
                },
                headers=_NO_STORE,
            )

        return self._told(request, told)

    def summary(self, request: Request) -> Response:
        """How many there are with which verdict; null where that is told to reviewers only."""

        def told() -> Response:
            wanted = parse_filter(request.query_params)
            is_reviewer = self._gate.name_of(request) is not None
            totals = self._results.totals(wanted, by_reviewer=is_reviewer)
            counted = None if totals is None else {verdict_name(k): n for k, n in totals.items()}
            return JSONResponse({"totals": counted}, headers=_NO_STORE)

        return self._told(request, told)

    def _told(self, request: Request, tell: Callable[[], Response]) -> Response:
        """The answer, or what went wrong as a problem."""
        try:
            self._gate.count(request)
            return tell()
        except BusyError as error:
            retry = {"Retry-After": str(error.seconds)}
            return problem(429, "Too many questions: wait, and ask less often.", retry)
        except InputError as error:
            return problem(400, translate(str(error)))
        except NoRegistryError:
            return problem(404, "This archive has no link registry.")
        except TransientError as error:
            _LOG.warning("front.quality_unavailable: %s", error)
            retry = {"Retry-After": "30"}
            return problem(503, "The link registry cannot be read at the moment.", retry)


def as_json(result: Result) -> dict[str, object]:
    """A result for programs, with where people see it."""
    row, page = result.row, result.page
    check = row.check
    return {
        **facts_of(row),
        "url": page.url,
        "result": f"{QUALITY_PATH}/{check.page_id}/{check.level}",
        "copy": page_path(page.timestamp, page.url),
    }


def facts_of(row: CheckedPage) -> dict[str, object]:
    """What is known of a check, by the names that JSON has."""
    check = row.check
    return {
        "page_id": check.page_id,
        "level": check.level,
        "url": check.url,
        "host": row.host,
        "class": row.page_class,
        "captured_at": check.captured_at,
        "checked_at": check.checked_at,
        "engine": check.engine,
        "verdict": verdict_name(row.verdict),
        "machine": verdict_name(check.verdict),
        "person": None if row.review is Verdict.UNCHECKED else str(row.review),
        "reviewed_by": row.reviewed_by or None,
        "reviewed_at": row.reviewed_at and row.reviewed_at.isoformat(timespec="milliseconds"),
        "note": row.note,
        "score": check.score,
        "picture": check.picture,
        "text": check.text,
        "resources": check.resources,
        "parts_seen": check.parts_seen,
        "parts_shown": check.parts_shown,
        "faults": list(check.faults),
        "lost": [{"url": part.url, "reason": part.reason} for part in check.lost],
        "reason": check.reason,
        "seconds": check.seconds,
        "repair": str(row.repair),
        "repair_page_id": row.repair_page_id or None,
    }
