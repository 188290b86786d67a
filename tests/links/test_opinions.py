"""A browser's visit as a finding."""

import pytest

from core.classes import PageClass
from core.pages import Outcome
from links.findings import How, Verdict
from links.opinions import Seen, finding_of
from links.status import Code

URL = "https://example.com/page"


def seen(
    outcome: Outcome = Outcome.COMPLETE,
    reason: str = "",
    status: int | None = 200,
    page_class: PageClass = PageClass.OK,
) -> Seen:
    return Seen(URL, URL, outcome, reason, status, "text/html", page_class, ("It says so.",))


@pytest.mark.parametrize(
    ("status", "page_class", "code", "verdict"),
    [
        (200, PageClass.OK, Code.FINE, Verdict.OK),
        (200, PageClass.UNJUDGED, Code.FINE, Verdict.OK),
        (200, PageClass.CONSENT_WALL, Code.FINE, Verdict.OK),
        (200, PageClass.SOFT_404, Code.SOFT_404, Verdict.GONE),
        (200, PageClass.PARKED, Code.PARKED, Verdict.USURPED),
        (404, PageClass.PARKED, Code.PARKED, Verdict.USURPED),
        (200, PageClass.CHALLENGE, Code.CHALLENGE, Verdict.REFUSED),
        (403, PageClass.CHALLENGE, Code.CHALLENGE, Verdict.REFUSED),
        (404, PageClass.CHALLENGE, Code.CHALLENGE, Verdict.REFUSED),
        (200, PageClass.LOGIN_WALL, Code.LOGIN, Verdict.REFUSED),
        (200, PageClass.NEAR_EMPTY, Code.NOT_RENDERED, Verdict.UNDECIDED),
        (404, PageClass.HTTP_ERROR, Code.NOT_FOUND, Verdict.GONE),
        (404, PageClass.NEAR_EMPTY, Code.NOT_FOUND, Verdict.GONE),
        (410, PageClass.SOFT_404, Code.GONE, Verdict.GONE),
        (403, PageClass.HTTP_ERROR, Code.NO_ACCESS, Verdict.REFUSED),
        (500, PageClass.HTTP_ERROR, Code.BAD_REQUEST, Verdict.FAILING),
        (500, PageClass.NEAR_EMPTY, Code.BAD_REQUEST, Verdict.FAILING),
        (502, PageClass.HTTP_ERROR, Code.BAD_GATEWAY, Verdict.FAILING),
        (None, PageClass.OK, Code.FINE, Verdict.OK),
    ],
)
def test_what_the_browser_saw_is_a_verdict(
    status: int | None, page_class: PageClass, code: Code, verdict: Verdict
) -> None:
    """The page's sort goes before its status, where another than the site does not speak."""
    found = finding_of(seen(status=status, page_class=page_class))

    assert (found.code, found.verdict, found.how) == (code, verdict, How.BROWSER)


@pytest.mark.parametrize(
    ("reason", "verdict", "whole_host"),
    [
        ("dns: example.com does not resolve", Verdict.FAILING, True),
        ("connect: example.com takes no connection", Verdict.FAILING, True),
        ("tls: handshake failure", Verdict.FAILING, False),
        ("net::ERR_CONNECTION_REFUSED", Verdict.FAILING, True),
        ("net::ERR_CONNECTION_RESET", Verdict.FAILING, False),
        ("net::ERR_SSL_PROTOCOL_ERROR", Verdict.FAILING, False),
        ("net::ERR_TOO_MANY_REDIRECTS", Verdict.FAILING, False),
        ("deadline: navigate", Verdict.FAILING, False),
        ("net::ERR_ABORTED", Verdict.UNDECIDED, False),
        ("browser-gone: the browser died", Verdict.UNDECIDED, False),
        ("address: example.com is at 10.0.0.1", Verdict.UNDECIDED, False),
        ("", Verdict.UNDECIDED, False),
    ],
)
def test_a_visit_that_failed_tells_whose_fault_it_was(
    reason: str, verdict: Verdict, whole_host: bool
) -> None:
    """The site's failures count; ours, and what our rules forbid, are no opinion."""
    found = finding_of(seen(Outcome.FAILED, reason, None, PageClass.UNJUDGED))

    assert (found.verdict, found.whole_host) == (verdict, whole_host)
    assert found.note == f"browser: {reason}"


def test_a_page_that_was_not_visited_is_no_opinion() -> None:
    """Robots, a list or a person forbade it."""
    found = finding_of(seen(Outcome.SKIPPED, "robots: disallowed", None, PageClass.UNJUDGED))

    assert found.verdict is Verdict.UNDECIDED


def test_what_came_before_the_deadline_counts() -> None:
    """A page that is partial was there."""
    assert finding_of(seen(Outcome.PARTIAL, "deadline: settle")).verdict is Verdict.OK
