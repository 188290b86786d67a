"""Gaps between browser and proxy, headers of second requests, and names of files (pure)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.page_manifest import MissingResource, VisitOutcome, parse_pageinfo
from crawler.capture.reconciliation import NAME_LIMIT_CHARS, attachment_name, build_page_info, find_gaps
from proxy.control.client import RequestLogSnapshot
from proxy.request_log import RequestLogEntry, RequestOutcome
from render.network_log import RequestLog
from tests.crawler.capture.test_page_manifest import MAIN, VISIT

URL = "https://example.org/a.png"
IMAGE = RequestLog(URL, status=200, resource_type="Image")
GOOD = RequestLogEntry(URL, "GET", 0, status=200)
CUT = RequestLogEntry(URL, "GET", 0, status=200, truncated="disconnect", reason="disconnected: early")
RESET = RequestLogEntry(URL, "GET", 0, reason="disconnected: reset")


def reason(
    request: RequestLog, *entries: RequestLogEntry, going: frozenset[str] = frozenset(), cached: Sequence[str] = ()
) -> str:
    """Return why the request is a gap; empty when it is not valid."""
    so_far = RequestLogSnapshot(list(entries), going)
    return "".join(gap.reason for gap in find_gaps([request], so_far, cached=cached))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([GOOD], ""),
        ([RESET, GOOD], ""),
        ([replace(GOOD, status=404)], ""),
        ([replace(GOOD, status=503)], ""),
        ([replace(GOOD, status=206)], ""),
        ([RESET], "disconnected: reset"),
        ([CUT], "disconnected: early"),
        ([replace(GOOD, status=206), CUT], "disconnected: early"),
        ([replace(RESET, reason="timeout")], "timeout"),
        ([replace(RESET, reason="dns: no")], ""),
        ([replace(RESET, reason="connect: refused")], ""),
        ([replace(RESET, reason="malformed: no")], ""),
        ([replace(RESET, reason="address: private", kept=RequestOutcome.BLOCKED)], ""),
        ([replace(CUT, truncated="length", reason="limit: body_limit_bytes")], ""),
        ([], "unrecorded"),
    ],
)
def test_what_may_come_the_next_time_is_a_gap(entries: list[RequestLogEntry], expected: str) -> None:
    """An answer of the origin's is an answer; a limit, a block and a dead host stay what they are."""
    assert reason(IMAGE, *entries) == expected


@pytest.mark.parametrize(
    ("failed", "kind", "expected"),
    [
        ("net::ERR_ABORTED", "Image", "cancelled"),
        ("net::ERR_ABORTED", "Fetch", ""),
        ("detached", "Document", "cancelled"),
        ("", "Script", "unasked"),
        ("", "XHR", ""),
        ("net::ERR_CONNECTION_RESET", "XHR", "net::ERR_CONNECTION_RESET"),
        ("net::ERR_BLOCKED_BY_CSP", "Image", ""),
        ("csp", "Image", ""),
        ("mixed-content", "Image", ""),
        ("net::ERR_ABORTED", "Ping", ""),
    ],
)
def test_what_the_proxy_never_heard_of_is_a_gap_when_it_is_a_part(failed: str, kind: str, expected: str) -> None:
    """A request that the page aborted is a gap only if a reader would see it; one that the browser refused is none."""
    assert reason(RequestLog(URL, resource_type=kind, failed=failed)) == expected


def test_what_is_on_its_way_is_not_asked_for_again() -> None:
    """A part that is late is unfinished; a call that is late is nothing."""
    assert reason(IMAGE, going=frozenset([URL])) == "unfinished"
    assert reason(replace(IMAGE, resource_type="XHR"), going=frozenset([URL])) == ""


def test_only_what_may_be_asked_twice_is() -> None:
    """A POST is never sent again; what came from the cache was recorded by an earlier visit."""
    assert reason(replace(IMAGE, method="POST"), replace(RESET, method="POST")) == ""
    assert reason(replace(IMAGE, from_cache=True), cached=[URL]) == ""


def test_a_cached_resource_without_a_record_is_fetched_again() -> None:
    """Neither this visit nor an earlier one recorded it; a 304 alone confirms what nobody has."""
    cached = replace(IMAGE, from_cache=True, status=200)
    confirmed = replace(GOOD, status=304)
    assert reason(cached) == "unrecorded"
    assert reason(cached, confirmed) == "unrecorded"
    assert reason(cached, confirmed, cached=[URL]) == ""


def test_without_a_browser_the_ledger_names_the_parts() -> None:
    """A page fetched without one has no log of its own."""
    assert find_gaps([], RequestLogSnapshot([RESET, MAIN], frozenset())) == [
        MissingResource(URL, "disconnected: reset")
    ]
    assert find_gaps([], RequestLogSnapshot([RESET], frozenset()), spared=[URL]) == []


def test_a_filled_gap_leaves_the_page_complete() -> None:
    """The resource is kept as the second answer was, with the reason of asking twice."""
    second = replace(GOOD, kept=RequestOutcome.RESPONSE, digest="sha256:bb", again="disconnected: reset")
    visit = replace(VISIT, requests=(*VISIT.requests, IMAGE))
    gaps = [MissingResource(URL, "disconnected: reset")]
    page = build_page_info("p", visit, [MAIN, RESET, second], [], gaps=gaps)

    assert (page.outcome, page.missing) == (VisitOutcome.COMPLETE, ())
    assert page.refetched == (MissingResource(URL, "disconnected: reset", "response"),)
    assert [(each.url, each.kept, each.digest, each.refetched) for each in page.resources[1:]] == [
        (URL, "response", "sha256:bb", "disconnected: reset")
    ]
    assert parse_pageinfo(page.to_json()) == page


def test_an_open_gap_is_named_once() -> None:
    """However often the page asked for it; with the last reason."""
    second = replace(RESET, reason="timeout", again="disconnected: reset")
    visit = replace(VISIT, requests=(*VISIT.requests, IMAGE, IMAGE))
    gaps = [MissingResource(URL, "disconnected: reset")]
    page = build_page_info("p", visit, [MAIN, RESET, RESET, second], [], gaps=gaps)

    assert (page.outcome, page.missing) == (VisitOutcome.PARTIAL, (MissingResource(URL, "timeout", "failed"),))
    assert page.reason == "missing: 1 of 3 resources"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("", ""),
        ("inline", ""),
        ("attachment; filename=a.pdf", "a.pdf"),
        ('ATTACHMENT; FILENAME="a\\"b.pdf"; x=y', 'a"b.pdf'),
        ("attachment; filename=\"x.txt\"; filename*=UTF-8''%e2%82%ac.txt", "€.txt"),
        ("attachment; filename*=ISO-8859-1'en'%A3.txt", "£.txt"),
        ("attachment; filename*=KOI8-R''%FF; filename=b", "b"),
        ("attachment; filename=../../etc/passwd", "passwd"),
        ("attachment; filename=C:\\a\\b.doc", "b.doc"),
        ('attachment; filename="gr\u00c3\u00bcn.txt"', "grün.txt"),
        ('attachment; filename="a\u202egpj.exe"', "agpj.exe"),
    ],
)
def test_a_download_has_the_name_that_its_header_gives(value: str, name: str) -> None:
    """RFC 6266 and RFC 8187, leniently read; never a path."""
    assert attachment_name(value) == name


@given(st.text(max_size=300))
def test_whatever_the_header_says_nothing_is_raised(value: str) -> None:
    """It is from the web."""
    name = attachment_name("attachment; filename" + value)
    assert len(name) <= NAME_LIMIT_CHARS
    assert "/" not in name
