"""Requests that the browser saw, compared with the proxy's log."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from classify.page_classifier import PageClassification
from core.page_classes import PageClass
from core.page_manifest import PageBehaviour, PageInfo, VisitOutcome, parse_pageinfo
from crawler.capture.page_capture import retry_decision, retry_moment
from crawler.capture.reconciliation import build_page_info, match_requests
from crawler.pools.shared_contexts import CachedRecord
from proxy.request_log import RequestLogEntry, RequestOutcome
from render.network_log import RequestLog
from render.visit import Visit

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PAGE = "https://example.org/"
MAIN = RequestLogEntry(
    PAGE, "GET", 0, RequestOutcome.RESPONSE, status=200, digest="sha256:aa", filename="a.warc.gz", length=7
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


def test_what_was_loaded_and_kept_is_complete() -> None:
    """The manifest counts records and bytes, and names how each request was kept."""
    page = build_page_info("p", VISIT, [MAIN], [])

    assert (page.outcome, page.records, page.stored_bytes) == (VisitOutcome.COMPLETE, 1, 7)
    assert [(each.kept, each.digest) for each in page.resources] == [("response", "sha256:aa")]
    assert page.tls_verified is True


def test_what_was_loaded_but_not_kept_makes_the_page_partial() -> None:
    """A response that the browser got and the archive has not is a gap, and is said so."""
    image = RequestLog("https://example.org/a.png", status=200, resource_type="Image")
    judged = PageClassification(PageClass.SOFT_404, 0.8, ("Its title is “404”.",))
    visit = replace(VISIT, requests=(*VISIT.requests, image), classification=judged)
    page = build_page_info("p", visit, [MAIN], [])

    assert (page.page_class, page.class_score) == (judged.kind, judged.score)
    assert page.class_evidence == judged.evidence
    assert (page.outcome, page.reason) == (VisitOutcome.PARTIAL, "missing: 1 of 2 resources")
    assert page.resources[1].kept == "missing"


def test_what_never_answered_is_no_gap() -> None:
    """A failed request is listed with its reason; there was nothing to keep."""
    image = RequestLog("https://example.org/a.png", failed="net::ERR_BLOCKED_BY_CSP")
    page = build_page_info("p", replace(VISIT, requests=(*VISIT.requests, image)), [MAIN], [])

    assert page.outcome is VisitOutcome.COMPLETE
    assert (page.resources[1].kept, page.resources[1].reason) == ("failed", "net::ERR_BLOCKED_BY_CSP")


def test_a_document_that_was_cut_makes_the_page_partial() -> None:
    """The reason is WARC-Truncated's."""
    page = build_page_info("p", VISIT, [replace(MAIN, truncated="length")], [])

    assert (page.outcome, page.reason) == (VisitOutcome.PARTIAL, "truncated: length")


def test_a_certificate_that_did_not_verify_is_in_the_manifest() -> None:
    """The reader is told."""
    page = build_page_info("p", VISIT, [replace(MAIN, tls_error="expired")], [])

    assert page.tls_verified is False


def test_a_manifest_reads_back_as_it_was_written() -> None:
    """JSON and back gives the same value."""
    image = RequestLog("https://example.org/ä.png", status=200)
    done = (PageBehaviour("consent", 1, 1, 0.1, notes=("OneTrust: refused",)),)
    seen = replace(VISIT, requests=(*VISIT.requests, image), behaviours=done)
    page = build_page_info("p", seen, [MAIN], [])

    assert parse_pageinfo(page.to_json()) == page
    assert isinstance(page, PageInfo)
    assert page.behaviours == done


def test_a_manifest_of_another_version_is_read() -> None:
    """One without a class, or with one that is not known here, was not judged."""
    page = json.loads(build_page_info("p", VISIT, [MAIN], []).to_json())
    unknown = page | {"page_class": "from tomorrow"}
    older = {name: value for name, value in page.items() if not name.startswith(("page_c", "class"))}

    for document in (unknown, older):
        assert parse_pageinfo(json.dumps(document).encode()).page_class is PageClass.UNJUDGED


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("Sat, 21 Nov 2026 12:02:00 GMT", 120),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0),
        ("999999999999999", 86_400),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 86_400),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", 86_400),
    ],
)
def test_retry_after_names_a_moment_at_most_a_day_ahead(value: str, seconds: int) -> None:
    """RFC 9110 10.2.3: seconds or a date; no site can send us away for ever."""
    assert retry_moment({"retry-after": value}, now=NOW) == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize("value", ["", "soon", "-5", "١٢"])
def test_a_retry_after_that_says_nothing_is_none(value: str) -> None:
    """Then the frontier's own delay counts."""
    assert retry_moment({"retry-after": value}, now=NOW) is None


@pytest.mark.parametrize(
    ("reason", "first", "again"),
    [
        ("crashed", True, True),
        ("missing: full_page", True, True),
        ("cut: net::ERR_INCOMPLETE_CHUNKED_ENCODING", True, True),
        ("crashed", False, False),
        ("deadline: settle", True, False),
        ("hung", True, False),
    ],
)
def test_a_partial_capture_is_tried_once_more_where_the_machine_failed(
    reason: str, *, first: bool, again: bool
) -> None:
    """A killed renderer or a missing picture is chance; a deadline is not, and is not paid twice."""
    partial = replace(VISIT, outcome=VisitOutcome.PARTIAL, reason=reason)

    assert retry_decision(partial, now=NOW, first=first) == (again, None)


@pytest.mark.parametrize(
    ("reason", "waits", "again"),
    [
        ("dns: no such host: a.test does not exist (NXDOMAIN).", False, False),
        ("dns: no such host: a.test does not exist (NXDOMAIN).", True, True),
        ("dns: a.test does not resolve: [Errno -3] Temporary failure in name resolution.", False, True),
        ("dns: a.test did not resolve within 10 s.", False, True),
    ],
)
def test_a_host_that_does_not_exist_is_visited_once(reason: str, *, waits: bool, again: bool) -> None:
    """Unless its domain may be renewed; failures of name servers are tried again."""
    failed = replace(VISIT, outcome=VisitOutcome.FAILED, status=None, reason=reason)

    assert retry_decision(failed, now=NOW, first=True, waits_for_host=waits) == (again, None)


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

    assert [each.digest for each in match_requests(requests, [first, second])] == ["sha256:1", "sha256:2", "sha256:2"]


@pytest.mark.parametrize(
    ("received_ms", "outcome", "digest"),
    [(150.0, "cached", "1"), (250.0, "cached", "2"), (350.0, "response", "3"), (50.0, "cached", "1")],
)
def test_what_the_cache_had_is_told_by_when_it_came(received_ms: float, outcome: str, digest: str) -> None:
    """Of several records of a URL, in earlier visits and in this one, the latest before that."""
    earlier = {"http://a/x": [CachedRecord(100, 200, "1"), CachedRecord(200, 200, "2")]}
    entry = RequestLogEntry("http://a/x", "GET", 300, RequestOutcome.RESPONSE, status=200, digest="3")
    requests = [
        RequestLog("http://a/x", status=200, received_ms=320.0),
        RequestLog("http://a/x", status=200, from_cache=True, received_ms=received_ms),
    ]

    first, second = match_requests(requests, [entry], cached=earlier)

    assert (first.kept, first.digest) == ("response", "3")
    assert (second.kept, second.digest) == (outcome, digest)


def test_what_only_the_proxy_saw_is_listed_too() -> None:
    """A prefetch, or a request after the page was left."""
    hidden = RequestLogEntry("http://a/beacon", "POST", 0, RequestOutcome.RESPONSE)

    assert [each.url for each in match_requests([], [hidden])] == ["http://a/beacon"]


def test_what_a_limit_of_ours_cut_makes_the_page_partial() -> None:
    """Blocked or truncated by a limit: the page is not what a visitor saw, and says why."""
    image = RequestLog("https://example.org/a.png", status=403, resource_type="Image")
    entry = RequestLogEntry(image.url, "GET", 0, RequestOutcome.BLOCKED, reason="limit: visit_limit_bytes")
    page = build_page_info("p", replace(VISIT, requests=(*VISIT.requests, image)), [MAIN, entry], [])

    assert (page.outcome, page.reason) == (VisitOutcome.PARTIAL, "limit: 1 of 2 resources")
    assert page.resources[1].reason == "limit: visit_limit_bytes"
