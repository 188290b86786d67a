"""A browser's visit as a finding."""

import pytest

from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from links.check_result import CheckMethod, CheckVerdict, StatusCode
from links.checker.browser_check import VisitSummary, result_of_visit

URL = "https://example.com/page"


def seen(
    outcome: VisitOutcome = VisitOutcome.COMPLETE,
    reason: str = "",
    status: int | None = 200,
    page_class: PageClass = PageClass.OK,
) -> VisitSummary:
    return VisitSummary(
        URL, URL, outcome, reason, status, "text/html", page_class, ("It says so.",)
    )


@pytest.mark.parametrize(
    ("status", "page_class", "code", "verdict"),
    [
        (200, PageClass.OK, StatusCode.FINE, CheckVerdict.OK),
        (200, PageClass.UNJUDGED, StatusCode.FINE, CheckVerdict.OK),
        (200, PageClass.CONSENT_WALL, StatusCode.FINE, CheckVerdict.OK),
        (200, PageClass.SOFT_404, StatusCode.SOFT_404, CheckVerdict.GONE),
        (200, PageClass.PARKED, StatusCode.PARKED, CheckVerdict.USURPED),
        (404, PageClass.PARKED, StatusCode.PARKED, CheckVerdict.USURPED),
        (200, PageClass.CHALLENGE, StatusCode.CHALLENGE, CheckVerdict.REFUSED),
        (403, PageClass.CHALLENGE, StatusCode.CHALLENGE, CheckVerdict.REFUSED),
        (404, PageClass.CHALLENGE, StatusCode.CHALLENGE, CheckVerdict.REFUSED),
        (200, PageClass.LOGIN_WALL, StatusCode.LOGIN, CheckVerdict.REFUSED),
        (200, PageClass.NEAR_EMPTY, StatusCode.NOT_RENDERED, CheckVerdict.UNDECIDED),
        (404, PageClass.HTTP_ERROR, StatusCode.NOT_FOUND, CheckVerdict.GONE),
        (404, PageClass.NEAR_EMPTY, StatusCode.NOT_FOUND, CheckVerdict.GONE),
        (410, PageClass.SOFT_404, StatusCode.GONE, CheckVerdict.GONE),
        (403, PageClass.HTTP_ERROR, StatusCode.NO_ACCESS, CheckVerdict.REFUSED),
        (500, PageClass.HTTP_ERROR, StatusCode.BAD_REQUEST, CheckVerdict.FAILING),
        (500, PageClass.NEAR_EMPTY, StatusCode.BAD_REQUEST, CheckVerdict.FAILING),
        (502, PageClass.HTTP_ERROR, StatusCode.BAD_GATEWAY, CheckVerdict.FAILING),
        (None, PageClass.OK, StatusCode.FINE, CheckVerdict.OK),
    ],
)
def test_what_the_browser_saw_is_a_verdict(
    status: int | None, page_class: PageClass, code: StatusCode, verdict: CheckVerdict
) -> None:
    """The page's sort goes before its status, where another than the site does not speak."""
    found = result_of_visit(seen(status=status, page_class=page_class))

    assert (found.code, found.verdict, found.how) == (code, verdict, CheckMethod.BROWSER)


@pytest.mark.parametrize(
    ("reason", "verdict", "whole_host"),
    [
        ("dns: example.com does not resolve", CheckVerdict.FAILING, True),
        ("connect: example.com takes no connection", CheckVerdict.FAILING, True),
        ("tls: handshake failure", CheckVerdict.FAILING, False),
        ("net::ERR_CONNECTION_REFUSED", CheckVerdict.FAILING, True),
        ("net::ERR_CONNECTION_RESET", CheckVerdict.FAILING, False),
        ("net::ERR_SSL_PROTOCOL_ERROR", CheckVerdict.FAILING, False),
        ("net::ERR_TOO_MANY_REDIRECTS", CheckVerdict.FAILING, False),
        ("deadline: navigate", CheckVerdict.FAILING, False),
        ("net::ERR_ABORTED", CheckVerdict.UNDECIDED, False),
        ("browser-gone: the browser died", CheckVerdict.UNDECIDED, False),
        ("address: example.com is at 10.0.0.1", CheckVerdict.UNDECIDED, False),
        ("", CheckVerdict.UNDECIDED, False),
    ],
)
def test_a_visit_that_failed_tells_whose_fault_it_was(
    reason: str, verdict: CheckVerdict, whole_host: bool
) -> None:
    """The site's failures count; ours, and what our rules forbid, are no opinion."""
    found = result_of_visit(seen(VisitOutcome.FAILED, reason, None, PageClass.UNJUDGED))

    assert (found.verdict, found.whole_host) == (verdict, whole_host)
    assert found.note == f"browser: {reason}"


def test_a_page_that_was_not_visited_is_no_opinion() -> None:
    """Robots, a list or a person forbade it."""
    found = result_of_visit(
        seen(VisitOutcome.SKIPPED, "robots: disallowed", None, PageClass.UNJUDGED)
    )

    assert found.verdict is CheckVerdict.UNDECIDED


def test_what_came_before_the_deadline_counts() -> None:
    """A page that is partial was there."""
    assert (
        result_of_visit(seen(VisitOutcome.PARTIAL, "deadline: settle")).verdict is CheckVerdict.OK
    )
