"""Tests of `proxy.request_log`."""

from dataclasses import replace
from datetime import UTC, datetime

from core.page_manifest import VisitOutcome
from crawler.capture.reconciliation import build_page_info, match_requests
from proxy.request_log import RequestLogEntry, RequestOutcome
from render.network_log import RequestLog
from render.visit import Visit

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


PAGE = "https://example.org/"


MAIN = RequestLogEntry(
    PAGE,
    "GET",
    0,
    RequestOutcome.RESPONSE,
    status=200,
    digest="sha256:aa",
    filename="a.warc.gz",
    length=7,
)


VISIT = Visit(
    url=PAGE,
    final_url=PAGE,
    started_at=NOW,
    outcome=VisitOutcome.COMPLETE,
    reason="",
    status=200,
    mime="text/html",
    headers={},
    title="Example",
    redirects=(),
    requests=(RequestLog(PAGE, status=200, mime="text/html", resource_type="Document"),),
    artifacts=(),
    outlinks=(),
    timings={},
    console=(),
    seconds=1.0,
)


def test_a_status_of_the_proxys_own_is_never_the_pages() -> None:
    """A failure has no status: nobody answered."""
    failed = replace(MAIN, kept=RequestOutcome.FAILED, status=None, reason="dns: no", filename="")
    visit = replace(VISIT, outcome=VisitOutcome.FAILED, reason="dns: no", status=502)

    assert build_page_info("p", visit, [failed], []).status is None


def test_equal_urls_are_matched_in_order_and_the_cache_knows_its_source() -> None:
    """Two requests to one URL are two entries; one from the cache was kept the first time."""
    first = RequestLogEntry("http://a/x", "GET", 0, RequestOutcome.RESPONSE, digest="sha256:1")
    second = RequestLogEntry("http://a/x", "GET", 1, RequestOutcome.REVISIT, digest="sha256:2")
    requests = [
        RequestLog("http://a/x", status=200),
        RequestLog("http://a/x", status=200),
        RequestLog("http://a/x", status=200, from_cache=True),
    ]

    assert [each.digest for each in match_requests(requests, [first, second])] == [
        "sha256:1",
        "sha256:2",
        "sha256:2",
    ]


def test_what_only_the_proxy_saw_is_listed_too() -> None:
    """A prefetch, or a request after the page was left."""
    hidden = RequestLogEntry("http://a/beacon", "POST", 0, RequestOutcome.RESPONSE)

    assert [each.url for each in match_requests([], [hidden])] == ["http://a/beacon"]


def test_what_a_limit_of_ours_cut_makes_the_page_partial() -> None:
    """Blocked or truncated by a limit: the page is not what a visitor saw, and says why."""
    image = RequestLog("https://example.org/a.png", status=403, resource_type="Image")
    entry = RequestLogEntry(
        image.url, "GET", 0, RequestOutcome.BLOCKED, reason="limit: visit_limit_bytes"
    )
    page = build_page_info(
        "p", replace(VISIT, requests=(*VISIT.requests, image)), [MAIN, entry], []
    )

    assert (page.outcome, page.reason) == (VisitOutcome.PARTIAL, "limit: 1 of 2 resources")
    assert page.resources[1].reason == "limit: visit_limit_bytes"
