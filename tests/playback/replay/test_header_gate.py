"""The gate against an application that says everything it should not."""

import io
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from playback.replay.header_gate import HeaderGate, Policy, fixed_headers

POLICY = Policy("https://front.example", frozenset({"copies.example"}))
HTML = "text/html; charset=utf-8"
DANGEROUS = [
    ("Set-Cookie", "a=b"), ("Set-Cookie2", "a=b"), ("X-Accel-Redirect", "/secret"),
    ("X-Sendfile", "/etc/passwd"), ("X-LIGHTTPD-send-file", "/etc/passwd"), ("Refresh", "0; url=//evil"),
    ("Clear-Site-Data", '"*"'), ("Service-Worker-Allowed", "/"), ("NEL", "{}"),
    ("Report-To", "{}"), ("Reporting-Endpoints", 'a="https://evil"'), ("Link", "<//evil>; rel=preload"),
    ("WWW-Authenticate", "Basic"), ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Credentials", "true"), ("Content-Security-Policy", "default-src *"),
    ("Content-Security-Policy-Report-Only", "report-uri //evil"), ("X-Frame-Options", "ALLOWALL"),
    ("Strict-Transport-Security", "max-age=1"), ("Public-Key-Pins", "x"), ("Alt-Svc", 'h2="evil:1"'),
    ("SourceMap", "//evil"), ("Content-Encoding", "gzip"), ("Transfer-Encoding", "chunked"),
    ("Content-Length", "999"), ("Content-Language", "x"), ("Vary", "*"), ("Expires", "0"),
    ("Cache-Control", "public, max-age=99999"), ("Permissions-Policy", "camera=*"),
    ("Referrer-Policy", "unsafe-url"), ("Server", "evil"), ("Via", "x"), ("Trailer", "x"),
    ("Upgrade", "h2c"), ("Timing-Allow-Origin", "*"), ("Critical-CH", "x"), ("Accept-CH", "x"),
    ("X-Archive-Orig-Set-Cookie", "a=b"), ("Location", "https://evil.example/"),
    ("Location", "//evil.example"), ("Location", "/c/20260301120000/x\r\nSet-Cookie: a=b"),
    ("ETag", 'W/"x"'), ("ETag", '"a\r\nb"'), ("Content-Disposition", 'attachment; filename="a.exe"'),
    ("Content-Disposition", "inline"), ("Memento-Datetime", "yesterday"), ("Sec-Session", "x"),
    ("Speculation-Rules", '"//evil"'), ("Document-Policy", "x"), ("No-Vary-Search", "params"),
    ("Supports-Loading-Mode", "fenced-frame"), ("Observe-Browsing-Topics", "?1"),
    ("Attribution-Reporting-Register-Source", "{}"), ("Activate-Storage-Access", "load"),
    ("Set-Login", "logged-in"), ("Login-Status", "x"), ("Proxy-Authenticate", "Basic"),
    ("Content-Location", "//evil"), ("Accept-Ranges", "bytes"), ("Content-Range", "bytes 0-1/2"),
]  # fmt: skip


def ask(application: Callable[..., Iterable[bytes]], **environ: str) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return status, headers and body that leave the gate."""
    head: list[Any] = []

    def start(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> Any:
        head[:] = [status, headers]

    base = {
        "REQUEST_METHOD": "GET", "HTTP_HOST": "copies.example", "REQUEST_URI": "/x",
        "wsgi.errors": sys.stderr, "wsgi.input": io.BytesIO(),
    }  # fmt: skip
    body = b"".join(HeaderGate(application, POLICY)({**base, **environ}, start))
    return head[0], head[1], body


def saying(status: str, *headers: tuple[str, str], body: bytes = b"x") -> Callable[..., Iterable[bytes]]:
    """Return a WSGI application that answers with this status, these headers and this body."""

    def application(environ: object, start: Callable[..., object]) -> list[bytes]:
        start(status, list(headers))
        return [body]

    return application


def test_of_sixty_dangerous_headers_none_leaves() -> None:
    """The response is the same, to the byte, as when the application said none of them (P-17)."""
    plain = ask(saying("200 OK", ("Content-Type", HTML)))

    status, headers, body = ask(saying("200 OK", ("Content-Type", HTML), *DANGEROUS))

    assert (status, headers, body) == plain
    assert len(DANGEROUS) >= 60


@pytest.mark.parametrize("content_type", [HTML, "text/plain; charset=utf-8", "image/png"])
@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "503 Service Unavailable"])
def test_every_response_carries_the_fixed_headers(status: str, content_type: str) -> None:
    """The policy does not depend on what happened (P-12)."""
    _, headers, _ = ask(saying(status, ("Content-Type", content_type)))

    fixed = list(fixed_headers(POLICY, content_type))
    assert headers[-len(fixed) :] == fixed
    assert len({name.lower() for name, _ in headers}) == len(headers)


def test_a_page_may_do_nothing_but_show_pictures_media_styles_and_fonts() -> None:
    """The content policy of sanitised pages, word for word."""
    headers = dict(fixed_headers(POLICY, HTML))

    assert headers["Content-Security-Policy"] == (
        "sandbox allow-top-navigation-by-user-activation; default-src 'none';"
        " img-src 'self' data:; media-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:;"
        " form-action 'none'; base-uri 'none'; frame-ancestors https://front.example"
    )


def test_only_parts_of_pages_may_be_embedded_elsewhere() -> None:
    """A sandboxed page counts as foreign even here, so its images and styles must say so."""
    policies = {
        kind: dict(fixed_headers(POLICY, kind))["Cross-Origin-Resource-Policy"]
        for kind in (HTML, "image/png", "text/css; charset=utf-8", "application/pdf")
    }

    assert list(policies.values()) == ["same-origin", "cross-origin", "cross-origin", "same-origin"]


@pytest.mark.parametrize(
    "application",
    [
        saying("200 OK", ("Content-Type", "text/html")),
        saying("200 OK", ("Content-Type", "image/svg+xml")),
        saying("200 OK", ("Content-Type", "text/javascript")),
        saying("200 OK", ("Content-Type", "application/xhtml+xml")),
        saying("200 OK"),
        saying("200 OK", ("Content-Type", "application/pdf")),
        saying("302 Found", ("Location", "https://evil.example/")),
        saying("200 OK\r\nX: y", ("Content-Type", HTML)),
        saying("101 Switching Protocols", ("Content-Type", HTML)),
        saying("999 Strange", ("Content-Type", HTML)),
    ],
)
def test_what_is_not_foreseen_becomes_an_error(application: Callable[..., Iterable[bytes]]) -> None:
    """A type, status or redirect that is on no list never reaches a reader."""
    status, headers, body = ask(application)

    assert status == "500 Internal Server Error"
    assert dict(headers)["Content-Type"] == "text/plain; charset=utf-8"
    assert body == b"This capture cannot be shown.\n"


def test_an_application_that_fails_shows_nothing_of_itself() -> None:
    """A traceback or a server's own error page would bypass the policy."""

    def failing(environ: object, start: object) -> list[bytes]:
        raise RuntimeError("a secret path")

    status, headers, body = ask(failing)

    assert status == "500 Internal Server Error"
    assert b"secret" not in body
    assert dict(headers)["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("method", ["POST", "PUT", "OPTIONS", "CONNECT", "TRACE", "PATCH", "get"])
def test_captures_can_only_be_read(method: str) -> None:
    """Other methods are refused before the application sees them."""
    status, headers, _ = ask(saying("200 OK", ("Content-Type", HTML)), REQUEST_METHOD=method)

    assert status == "405 Method Not Allowed"
    assert dict(headers)["Allow"] == "GET, HEAD"


def test_a_head_has_the_headers_of_a_get_and_no_body() -> None:
    """RFC 9110, 9.3.2."""
    application = saying("200 OK", ("Content-Type", HTML), body=b"12345")

    get, head = ask(application), ask(application, REQUEST_METHOD="HEAD")

    assert head[1] == get[1]
    assert dict(head[1])["Content-Length"] == "5"
    assert head[2] == b""


@pytest.mark.parametrize(
    "environ",
    [
        {"HTTP_SERVICE_WORKER": "script"},
        {"HTTP_SEC_FETCH_DEST": "serviceworker"},
        {"HTTP_SEC_FETCH_DEST": "sharedworker"},
        {"HTTP_SEC_FETCH_DEST": "script"},
        {"HTTP_SEC_FETCH_DEST": "object"},
        {"HTTP_SEC_FETCH_DEST": "embed"},
    ],
)
def test_no_capture_becomes_a_worker_or_a_script(environ: dict[str, str]) -> None:
    """A service worker would outlive the page that registered it (P-06)."""
    assert ask(saying("200 OK", ("Content-Type", HTML)), **environ)[0] == "403 Forbidden"


@pytest.mark.parametrize("host", ["", "evil.example", "copies.example.evil", "copies.example:1"])
def test_another_host_reads_nothing(host: str) -> None:
    """A name rebound to this address is not ours (P-19)."""
    assert ask(saying("200 OK", ("Content-Type", HTML)), HTTP_HOST=host)[0].startswith("421")


def test_the_application_sees_a_few_facts_of_a_request() -> None:
    """Of a client's headers only If-None-Match and Range reach the application (P-19)."""
    seen: dict[str, Any] = {}

    def application(environ: dict[str, Any], start: Callable[..., object]) -> list[bytes]:
        seen.update(environ)
        start("200 OK", [("Content-Type", HTML)])
        return [b""]

    ask(
        application, HTTP_COOKIE="a=b", HTTP_X_PYWB_ACL_USER="root", HTTP_PREFER="raw",
        HTTP_X_FORWARDED_HOST="evil", HTTP_X_REQUESTED_WITH="XMLHttpRequest", HTTP_RANGE="bytes=0-1",
        HTTP_AUTHORIZATION="x", HTTP_IF_NONE_MATCH='"e"', QUERY_STRING="url=x", PATH_INFO="/y",
    )  # fmt: skip

    assert {name for name in seen if not name.startswith("wsgi.")} == {
        "REQUEST_METHOD",
        "REQUEST_URI",
        "HTTP_IF_NONE_MATCH",
        "HTTP_RANGE",
    }


@pytest.mark.parametrize(
    ("link", "leaves"),
    [
        ('<https://front.example/timegate/https://a.example/>; rel="timegate"', True),
        ('<https://a.example/>; rel="original"', True),
        ('<https://copies.example/c/20260301120000/https://a.example/>; rel="first memento"', True),
        ('<https://front.example/>; rel="blocked-by"', True),
        ('<https://evil.example/>; rel="timegate"', False),
        ('<https://front.example.evil/>; rel="timegate"', False),
        ('<https://a.example/>; rel="original", <https://evil.example/x>; rel="memento"', False),
        ('<//evil.example/>; rel="original"', False),
        ('<javascript:alert(1)>; rel="original"', False),
        ('<https://a.example/>; rel="preload"', False),
        ('<https://a.example/>; rel="stylesheet"', False),
        ('<https://evil.example/>; rel="blocked-by"', False),
    ],
)
def test_links_are_of_memento_and_lead_home(link: str, leaves: bool) -> None:
    """Only the page that was archived may be named elsewhere, and nothing to be fetched (P-17)."""
    _, headers, _ = ask(saying("200 OK", ("Content-Type", HTML), ("Link", link)))

    assert ("Link" in dict(headers)) == leaves
