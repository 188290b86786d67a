"""Route by modifier by status by type: the headers of every response, word for word (P-12, P-17, G1)."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.captures import ArtifactKind
from core.timestamps import timestamp14
from playback.access import takedowns
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from playback.url_paths import MementoModifier
from playback.web.page_renderer import security_headers
from tests.playback.dangerous import DANGEROUS, TYPES
from tests.playback.raw_http import exchange, replies
from tests.support.playback_fixtures import (
    FRONT,
    NOW,
    ROOT,
    CollectionBuilder,
    ReplayProcess,
    ServedCollection,
    StoredReply,
    fetch,
    png,
    running_replay,
)

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)
SITE = "https://site.example"
FEATURES = (
    "accelerometer ambient-light-sensor autoplay battery bluetooth browsing-topics camera"
    " clipboard-read clipboard-write display-capture encrypted-media fullscreen gamepad geolocation"
    " gyroscope hid identity-credentials-get idle-detection local-fonts magnetometer microphone midi"
    " otp-credentials payment picture-in-picture publickey-credentials-create"
    " publickey-credentials-get screen-wake-lock serial storage-access usb web-share"
    " window-management xr-spatial-tracking"
)
HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
CSS = "text/css; charset=utf-8"
PDF = "application/pdf"
MASK = "image/png; role=mask"
# The golden set. It is written out, so that no change of the gate's code changes it in silence.
GOLDEN = {
    "Content-Security-Policy": "sandbox; default-src 'none'; form-action 'none'; base-uri 'none';"
    " frame-ancestors http://front.test",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": ", ".join(f"{name}=()" for name in FEATURES.split()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Origin-Agent-Cluster": "?1",
    "X-DNS-Prefetch-Control": "off",
    "X-Robots-Tag": "noindex, noarchive",
}
HTML_POLICY = (
    "sandbox allow-top-navigation-by-user-activation; default-src 'none'; img-src 'self' data:;"
    " media-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; form-action 'none'; base-uri 'none';"
    " frame-ancestors http://front.test"
)
# What a response says of itself, by status; each is looked at, too.
OF_ITSELF = {
    200: {"ETag", "Memento-Datetime", "Content-Disposition", "Accept-Ranges", "Link"},
    206: {"ETag", "Memento-Datetime", "Content-Disposition", "Accept-Ranges", "Content-Range", "Link"},
    302: {"Location", "Link", "Memento-Datetime"},
    304: {"ETag", "Memento-Datetime", "Content-Disposition", "Link"},
    405: {"Allow"},
    416: {"Content-Disposition", "Accept-Ranges", "Content-Range"},
    451: {"Link"},
}


RELATIONS = {"original", "timegate", "timemap", "memento", "first", "last", "prev", "next", "blocked-by"}


def golden(status: int, content_type: str) -> dict[str, str]:
    """Return the fixed headers of a response with this status and content type."""
    headers = dict(GOLDEN)
    if content_type == HTML:
        headers["Content-Security-Policy"] = HTML_POLICY
    if content_type == CSS or content_type.startswith("image/") or content_type.endswith("=part"):
        headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    if content_type == MASK:
        headers["Access-Control-Allow-Origin"] = "*"
    if status != 304:
        headers["Content-Type"] = content_type
    return headers


def check(reply: StoredReply, content_type: str | None = None) -> None:
    """Exactly the golden headers, and of others only what that status may say; each once."""
    given = dict(reply.headers)
    assert len(given) == len(reply.headers), reply.headers
    kind = content_type or given.get("Content-Type", TEXT)
    expected = golden(reply.status, kind)
    rest = {name: value for name, value in given.items() if name not in expected}
    assert {name: given.get(name) for name in expected} == expected
    rest.pop("Connection", None)
    date = datetime.strptime(rest.pop("Date"), "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - date).total_seconds()) < 60
    if reply.status != 304:
        assert rest.pop("Content-Length").isdigit()
    is_kept = "ETag" in given
    assert rest.pop("Cache-Control") == ("private, no-cache" if is_kept else "no-store")
    assert set(rest) <= OF_ITSELF.get(reply.status, set()), rest
    if reply.status == 302:
        assert rest["Location"].startswith("/c/2")
    for target, relation in re.findall(r'<([^>]*)>; rel="([^"]*)"', rest.get("Link", "")):
        assert set(relation.split()) <= RELATIONS
        assert relation == "original" or target.startswith((f"{FRONT}/", "http://127.0.0.1:"))


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplayProcess]:
    """Build captures of every kind, whose records hold every hostile text."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("matrix") / "collection")
    evil = (*DANGEROUS, ("X-Split", "a\r\nSet-Cookie: injected=1"), ("ETag", '"a"\r\nX-Injected: 1'))
    evil = tuple(each for each in evil if each[0] not in ("Transfer-Encoding", "Content-Encoding", "Content-Length"))
    bodies = {
        "html": (b"<p>x<script>1</script>", "text/html"), "png": (png(), "image/png"),
        "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        "css": (b"p{color:red}", "text/css"), "js": (b"alert(1)", "text/javascript"),
        "pdf": (b"%PDF-1.7 body", PDF), "xml": (b"<x/>", "application/xml"), "json": (b"{}", "application/json"),
        "bin": (b"<html><script>1</script>", "application/octet-stream"), "exe": (b"MZ", "application/x-msdownload"),
        "mp4": (b"\0\0\0\x18ftypisom" + b"\0" * 90, "video/mp4"), "swf": (b"CWS", "application/x-shockwave-flash"),
    }  # fmt: skip
    with contextlib.closing(builder), contextlib.closing(open_decisions(builder.layout, "")) as store:
        for name, (body, mime) in bodies.items():
            builder.response(f"{SITE}/{name}", body, mime=mime, headers=evil)
        for status in (201, 204, 206, 300, 301, 302, 303, 304, 307, 308, 401, 404, 407, 451, 500, 503, 999):
            builder.response(f"{SITE}/{status}", b"x", status=status, headers=(("Location", "/html"), *evil))
        builder.page(f"{SITE}/page", "<p>x", shot=png(), text="x")
        builder.page(f"{SITE}/gone", "<p>x", shot=png(), text="x")
        takedowns.add_takedowns(
            store, [Takedown(0, TakedownKind.URL, f"{SITE}/gone", "", TakedownEffect.BLOCK, "", "", "", NOW, None)]
        )
        with running_replay(builder.layout.root) as process:
            yield process


NAMES = ["html", "png", "svg", "css", "js", "pdf", "xml", "json", "bin", "exe", "mp4", "swf", "201", "204",
         "206", "300", "301", "302", "303", "304", "307", "308", "401", "404", "407", "451", "500", "503",
         "999", "page", "gone", "never"]  # fmt: skip
FOREIGN = ["js_", "if_", "oe_", "fr_", "bn_", "sw_", "wkr_", "vi_", "ra_", "xx_"]
ADDRESSES = ["", "urn:view:", "urn:text:", "urn:dom:", "urn:pageinfo:"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("modifier", [*(str(each) for each in MementoModifier), *FOREIGN])
def test_every_route_modifier_status_and_type_has_the_golden_headers(
    replay: ReplayProcess, modifier: str, method: str
) -> None:
    """On one kept-alive connection, so that no response's end is another's beginning either."""
    host = replay.origin.removeprefix("http://")
    targets = [f"/c/{TS}{modifier}/{urn}{SITE}/{name}" for urn in ADDRESSES for name in NAMES]
    requests = [f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() for target in targets]

    parsed_replies = _all(replay.origin, requests, method)

    assert len(parsed_replies) == len(targets)
    for reply in parsed_replies:
        check(reply)
    if modifier in FOREIGN:
        assert {reply.status for reply in parsed_replies} == {404}
    if method == "GET":
        assert not any(b"<script" in reply.body for reply in parsed_replies)


def _all(origin: str, requests: list[bytes], method: str) -> list[StoredReply]:
    """Send all requests at once on one connection; return the replies."""
    received = exchange(origin, b"".join(requests))
    if method == "GET":
        return replies(received)
    heads = received.split(b"\r\n\r\n")[:-1]
    return [StoredReply(each.status, each.headers, b"") for head in heads for each in _bodiless(head)]


def _bodiless(head: bytes) -> list[StoredReply]:
    first, *lines = head.decode().split("\r\n")
    fields = [(line.partition(": ")[0], line.partition(": ")[2]) for line in lines]
    return [StoredReply(int(first.split()[1]), fields, b"")]


def test_a_status_for_each_thing_that_can_happen(replay: ReplayProcess) -> None:
    """The whole list of statuses, each reached, each with its headers."""
    etag = replay.get(f"/c/{TS}dl_/{SITE}/pdf")["ETag"]
    request_by_status: dict[int, tuple[str, dict[str, str]]] = {
        200: (f"/c/{TS}/{SITE}/page", {}),
        206: (f"/c/{TS}dl_/{SITE}/pdf", {"Range": "bytes=1-3"}),
        302: (f"/c/20250101000000/{SITE}/page", {}),
        304: (f"/c/{TS}dl_/{SITE}/pdf", {"If-None-Match": etag}),
        403: (f"/c/{TS}/{SITE}/page", {"Service-Worker": "script"}),
        404: (f"/c/{TS}/{SITE}/never", {}),
        414: (f"/c/{TS}/{SITE}/{'a' * 9_000}", {}),
        416: (f"/c/{TS}dl_/{SITE}/pdf", {"Range": "bytes=99-"}),
        421: (f"/c/{TS}/{SITE}/page", {"Host": "evil.example"}),
        431: (f"/c/{TS}/{SITE}/page", {"X": "y" * 30_000}),
        451: (f"/c/{TS}/{SITE}/gone", {}),
    }
    for status, (target, headers) in request_by_status.items():
        reply = replay.get(target, headers=headers)

        assert reply.status == status, target
        check(reply, PDF if status == 304 else None)
        needed = OF_ITSELF.get(status, set()) if status in (405, 416, 451) else set[str]()
        assert needed <= set(dict(reply.headers))
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "get"):
        refused = fetch(replay.origin, f"/c/{TS}/{SITE}/page", method=method)
        assert (refused.status, refused["Allow"]) == (405, "GET, HEAD")
        check(refused)
    for target in ("/robots.txt", f"/w/wiki/c/{TS}/{SITE}/page", f"/w/wiki/c/{TS}im_/{SITE}/png"):
        check(replay.get(target))
    # A redirect that was archived, of whichever kind, leads on inside the archive and is nobody's to keep.
    for kind in (301, 302, 303, 307, 308):
        reply = replay.get(f"/c/{TS}/{SITE}/{kind}")
        assert (reply.status, reply["Location"]) == (302, f"/c/{TS}/{SITE}/html")


@pytest.mark.parametrize(
    "destination",
    ["serviceworker", "sharedworker", "worker", "script", "object", "embed", "audioworklet",
     "paintworklet", "report", "manifest", "xslt", "track", "video", "audio", "webidentity",
     "json", "speculationrules", "unheard-of"],
)  # fmt: skip
@pytest.mark.parametrize("modifier", ["", "im_", "cs_", "id_"])
def test_what_is_no_document_picture_or_style_gets_nothing(
    replay: ReplayProcess, destination: str, modifier: str
) -> None:
    """Fetch Metadata tells what a browser would make of it (P-06)."""
    reply = replay.get(f"/c/{TS}{modifier}/{SITE}/page", headers={"Sec-Fetch-Dest": destination})

    assert reply.status == 403
    check(reply)


@dataclass(frozen=True, slots=True)
class _HostileReplay:
    origin: str


@pytest.fixture(scope="module")
def evil() -> Iterator[_HostileReplay]:
    """Replay's own server and gate around an application that says everything it should not."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("evil_application.py"))],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"types": TYPES, "headers": DANGEROUS}) + "\n")
        process.stdin.flush()
        yield _HostileReplay(f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}")
        process.stdin.close()


STATUSES = [100, 101, 103, 200, 201, 203, 204, 205, 206, 226, 300, 301, 302, 303, 304, 305, 306, 307, 308,
            400, 401, 402, 403, 404, 405, 406, 407, 410, 416, 418, 421, 426, 429, 431, 451, 500, 501, 502,
            503, 504, 511, 600, 999]  # fmt: skip
LEAVING = {200, 206, 301, 302, 303, 304, 307, 308, 400, 403, 404, 410, 416, 429, 451, 500, 503}
SHOWN = set(TYPES[:8])  # what may leave without being a download


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_whatever_the_application_says_only_the_golden_headers_leave(evil: _HostileReplay, method: str) -> None:
    """Every status by every type by all dangerous headers, over a real socket (P-17)."""
    host = evil.origin.removeprefix("http://")
    cases = [(status, number) for status in STATUSES for number in range(len(TYPES))]
    requests = [
        f"{method} /answer/{status}/{number} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() for status, number in cases
    ]
    parsed_replies = _all(evil.origin, requests, method)

    assert len(parsed_replies) == len(cases)
    for (status, number), reply in zip(cases, parsed_replies, strict=True):
        check(reply, TYPES[number] if reply.status == 304 and TYPES[number] in SHOWN else None)
        may_leave = TYPES[number] in SHOWN and status in LEAVING
        needs_more = 300 <= status < 400 and status != 304
        if may_leave and not needs_more and status not in (206, 416):
            assert reply.status == status
        elif reply.status != 304:
            assert reply.status == 500
            if method == "GET":
                assert reply.body == b"This capture cannot be shown.\n"


def test_an_application_that_fails_says_nothing(evil: _HostileReplay) -> None:
    """Neither a traceback nor the server's own page."""
    reply = fetch(evil.origin, "/answer/failing/0")

    assert (reply.status, reply.body) == (500, b"This capture cannot be shown.\n")
    check(reply)


GET = b"GET /c/20260301120000/https://site.example/page HTTP/1.1\r\n"
MALFORMED: dict[str, bytes] = {
    "no request": b"nonsense\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/0.9 with a version": b"GET / HTTP/0.9\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "version": b"GET / HTTP/9.9\r\n\r\n",
    "lower-case version": b"GET / http/1.1\r\nHost: {host}\r\n\r\n",
    "two spaces": b"GET  / HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "tab": b"GET\t/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "space before": b" GET / HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "space after": b"GET / HTTP/1.1 \r\nHost: {host}\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "a control in the target": b"GET /a\x01b HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "a NUL": b"GET /a\0b HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "eight bits in the target": b"GET /\xff HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "bare line feeds": b"GET / HTTP/1.1\nHost: {host}\n\n",
    "a bare line feed": GET + b"Host: {host}\nX: y\r\n\r\n",
    "a bare carriage return": GET + b"Host: {host}\rX: y\r\n\r\n",
    "folded": GET + b"Host: {host}\r\nX: a\r\n b\r\n\r\n",
    "folded Host": GET + b"Host:\r\n {host}\r\n\r\n",
    "space before a colon": GET + b"Host : {host}\r\n\r\n",
    "no colon": GET + b"Host: {host}\r\nno colon\r\n\r\n",
    "no name": GET + b"Host: {host}\r\n: x\r\n\r\n",
    "a NUL in a value": GET + b"Host: {host}\r\nX: a\0b\r\n\r\n",
    "a name with a space": GET + b"Host: {host}\r\nX y: z\r\n\r\n",
    "no Host": GET + b"\r\n",
    "two Hosts": GET + b"Host: {host}\r\nHost: {host}\r\n\r\n",
    "a Host with a path": GET + b"Host: {host}/x\r\n\r\n",
    "a Host with a user": GET + b"Host: a@{host}\r\n\r\n",
    "two lengths": GET + b"Host: {host}\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    "a length that is none": GET + b"Host: {host}\r\nContent-Length: x\r\n\r\n",
    "a signed length": GET + b"Host: {host}\r\nContent-Length: +5\r\n\r\nhello",
    "a list of lengths": GET + b"Host: {host}\r\nContent-Length: 0, 5\r\n\r\nhello",
    "a body": GET + b"Host: {host}\r\nContent-Length: 5\r\n\r\nhello",
    "chunked": GET + b"Host: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "TE and CL": GET + b"Host: {host}\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "obscured TE": GET + b"Host: {host}\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "absolute target": b"GET http://evil.example/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "our own absolute target": b"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "authority as target": b"GET evil.example:80 HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "a long target": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "a line without end": b"GET /" + b"a" * 70_000,
    "many fields": GET + b"Host: {host}\r\n" + b"A: b\r\n" * 500 + b"\r\n",
    "long fields": GET + b"Host: {host}\r\nX: " + b"a" * 60_000 + b"\r\n\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + b"\0" * 150,
    "half a head": GET + b"Host: {host}\r\nX:",
    "only line ends": b"\r\n\r\n\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_ends_the_connection_with_the_policy_or_in_silence(replay: ReplayProcess, name: str) -> None:
    """Two readers of one request that could disagree would let one request hide another (RFC 9112, 11.2).

    Behind each stands a good request, which must never be answered.
    """
    host = replay.origin.removeprefix("http://").encode()
    hidden = GET + b"Host: {host}\r\n\r\n"

    received = exchange(replay.origin, (MALFORMED[name] + hidden).replace(b"{host}", host))

    parsed_replies = replies(received)
    assert len(parsed_replies) <= 1
    for reply in parsed_replies:
        if name == "only line ends":  # they may stand before a request
            assert reply.status in (200, 400)
            continue
        assert reply.status in (400, 414, 431, 501, 505)
        assert reply["Connection"] == "close"
        check(reply)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"OPTIONS * HTTP/1.1\r\nHost: {host}\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: {host}\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 44\r\n\r\nGET / HTTP/1.1\r\nHost: {host}\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"TRACE / HTTP/1.1\r\nHost: {host}\r\nMax-Forwards: 0\r\n\r\n",
        b"WARCPROX_WRITE_RECORD / HTTP/1.1\r\nHost: {host}\r\n\r\n",
    ],
    ids=["OPTIONS *", "CONNECT", "POST", "POST chunked", "TRACE", "warcprox"],
)
def test_other_methods_are_refused_and_their_bodies_are_no_requests(
    replay: ReplayProcess, request_bytes: bytes
) -> None:
    """The connection ends with the answer, whatever still comes."""
    host = replay.origin.removeprefix("http://").encode()

    parsed_replies = replies(exchange(replay.origin, (request_bytes + request_bytes).replace(b"{host}", host)))

    assert [reply.status for reply in parsed_replies] == [405]
    assert parsed_replies[0]["Connection"] == "close"
    check(parsed_replies[0])


def test_requests_in_a_row_are_answered_in_a_row(replay: ReplayProcess) -> None:
    """Pipelining, in pieces that end anywhere, and a version that closes."""
    host = replay.origin.removeprefix("http://")
    first = f"GET /c/{TS}/{SITE}/page HTTP/1.1\r\nHost: {host}\r\n\r\n"
    second = f"HEAD /c/{TS}/{SITE}/never HTTP/1.1\r\nHost: {host}\r\nConnection: Keep-Alive, Close\r\n\r\n"

    received = exchange(replay.origin, (first * 3 + second + first).encode(), ends=False)

    assert received.count(b"HTTP/1.1 200 OK\r\n") == 3
    assert received.count(b"HTTP/1.1 404 Not Found\r\n") == 1
    last = f"GET /c/{TS}/{SITE}/page HTTP/1.0\r\nHost: {host}\r\n\r\n"
    (only,) = replies(exchange(replay.origin, (last + last).encode(), ends=False))
    assert (only.status, only["Connection"]) == (200, "close")


FRONT_TARGETS = [
    "/", "/?q=x&page=2", "/api/pages", "/static/style.css", "/static/../app.py", "/static/never",
    f"/page/{TS}/{SITE}/page", f"/page/{SITE}/page", f"/page/99999999999999/{SITE}/page",
    f"/screenshot/{TS}/{SITE}/page", f"/text/{TS}/{SITE}/page", f"/as-captured/{TS}/{SITE}/page",
    f"/latest/{SITE}/page", f"/latest/{SITE}/never", f"/url/{SITE}/page", f"/changes/{SITE}/page",
    "/page/javascript:alert(1)", "/page/", "/never", "/favicon.ico", "//evil.example/", "/%2e%2e/etc/passwd",
    "/page/http://x%3C%2Fscript%3E%3Cscript%3Ealert(1)",
]  # fmt: skip


@pytest.fixture(scope="module")
def front(served: ServedCollection) -> ServedCollection:
    """Add a page to the served collection and return that."""
    served.builder.page(f"{SITE}/page", "<p>x", shot=png(), text="x")
    return served


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
def test_every_page_of_the_front_has_its_golden_headers(front: ServedCollection, method: str) -> None:
    """The front has no script, no frame but replay's and no framing, whatever its status."""
    expected = security_headers(front.replay)
    assert expected["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert "script" not in expected["Content-Security-Policy"]

    for target in FRONT_TARGETS:
        reply = fetch(front.front, target, method=method)
        given = {name.lower(): value for name, value in reply.headers}

        assert {name: given.get(name.lower()) for name in expected} == expected, target
        assert reply.status in (200, 302, 307, 404, 405), target
        assert not {"set-cookie", "server", "x-powered-by"} & set(given), target
        for name in ("location", "link"):
            assert "evil" not in given.get(name, ""), target


def test_artifacts_that_a_reader_may_see_are_the_only_ones(replay: ReplayProcess) -> None:
    """Of the kinds of artifact no other leaves by any modifier."""
    shown = {
        (kind, modifier)
        for kind in ArtifactKind
        for modifier in MementoModifier
        if replay.get(f"/c/{TS}{modifier}/urn:{kind}:{SITE}/page").status == 200
    }

    assert shown == {
        (ArtifactKind.VIEW, MementoModifier.IMAGE),
        (ArtifactKind.FULL_PAGE, MementoModifier.IMAGE),
        (ArtifactKind.THUMBNAIL, MementoModifier.IMAGE),
        (ArtifactKind.TEXT, MementoModifier.TEXT),
    }
