"""Replay as a process: one port, one policy on every answer, and an end with its parent."""

import contextlib
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gevent.socket
import pytest

from core.timestamps import timestamp14
from playback.replay.__main__ import main
from playback.replay.header_gate import Policy, fixed_headers
from playback.replay.replay_server import ReplayServer
from tests.support.playback_fixtures import (
    FRONT,
    NOW,
    CollectionBuilder,
    ReplayedCollection,
    ReplayProcess,
    fetch,
    png,
    running_replay,
)

pytestmark = pytest.mark.playback
TS = timestamp14(NOW)
POLICY = Policy(FRONT, frozenset())
ANSWER_HEADERS = {
    "cache-control",
    "content-type",
    "content-length",
    "etag",
    "memento-datetime",
    "date",
    "location",
    "allow",
    "content-disposition",
    "accept-ranges",
    "link",
    "connection",
}


def check(headers: list[tuple[str, str]]) -> None:
    """Assert that each fixed header occurs once with its own value, and that every other header is listed."""
    given = [(name.lower(), value) for name, value in headers]
    content_type = dict(given).get("content-type", "text/plain; charset=utf-8")
    expected = [(name.lower(), value) for name, value in fixed_headers(POLICY, content_type)]
    names = [name for name, _ in given]
    if "content-type" in names:
        assert [pair for pair in given if pair[0] in dict(expected)] == expected
    else:
        assert {name for name, _ in expected} <= set(names)
    assert set(names) <= ANSWER_HEADERS | set(dict(expected))
    assert len(names) == len(set(names))


def fill(builder: CollectionBuilder, site: str) -> None:
    """Something for every route, with headers that must not come back."""
    evil = (("Set-Cookie", "a=b"), ("X-Accel-Redirect", "/x"), ("Refresh", "0;url=//evil"),
            ("Content-Security-Policy", "default-src *"), ("Service-Worker-Allowed", "/"))  # fmt: skip
    for path, body, mime in (
        ("/html", b"<p>x", "text/html"), ("/png", png(), "image/png"), ("/svg", b"<svg/>", "image/svg+xml"),
        ("/css", b"p{color:red}", "text/css"), ("/js", b"alert(1)", "text/javascript"),
        ("/pdf", b"%PDF-1.7", "application/pdf"), ("/xml", b"<x/>", "application/xml"),
        ("/bin", b"<html><script>1</script>", "application/octet-stream"), ("/json", b"{}", "application/json"),
    ):  # fmt: skip
        builder.response(site + path, body, mime=mime, headers=evil)
    for status in (204, 206, 301, 304, 404, 500, 999):
        builder.response(f"{site}/{status}", b"x", status=status, headers=(*evil, ("Location", "/html")))
    builder.page(f"{site}/page", "<p>x", shot=png(), text="x")


PATHS = ["/html", "/png", "/svg", "/css", "/js", "/pdf", "/xml", "/bin", "/json", "/204", "/206",
         "/301", "/304", "/404", "/500", "/999", "/page", "/never"]  # fmt: skip
MODIFIERS = ["", "im_", "cs_", "id_", "js_", "if_", "mp_", "oe_", "fr_", "bn_", "sw_", "wkr_", "vi_"]


@pytest.mark.parametrize("modifier", MODIFIERS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_policy_is_on_every_route_status_type_and_modifier(
    archived: ReplayedCollection, site: str, modifier: str, method: str
) -> None:
    """Stock pywb sets it for one modifier of seventeen (P-12, G1)."""
    fill(archived.builder, site)

    for path in PATHS:
        for urn in ("", "urn:view:", "urn:text:", "urn:dom:"):
            target = f"/c/{TS}{modifier}/{urn}{site}{path}"
            headers = {"Range": "bytes=0-0"} if urn else {}
            reply = fetch(archived.replay.origin, target, method=method, headers=headers)
            check(reply.headers)
            assert reply.status != 206


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/c",
        "/c/",
        "/collinfo.json",
        "/static/default_banner.js",
        "/static/../../../etc/passwd",
        "/_/c/x",
        "/c/cdx?url=*",
        "/c/index?url=https://example.org/",
        "/c/resource/postreq",
        "/c/timemap/link/https://example.org/",
        "/c/record/https://example.org/",
        "/c/live/https://example.org/",
        "/c/https://example.org/",
        "/c/2026*/https://example.org/",
        "/record",
        "/proxy-fetch/https://example.org/",
        "/favicon.ico",
        "//evil.example/",
        "/%2e%2e/etc/passwd",
        "/c/99999999999999/https://example.org/",
        "/c/20260231000000/https://example.org/",
        '/c/20260301120000/http://x%3C%2Fscript%3E%3Cscript%3Ealert(1)%3C/script%3E/"><script>',
        "*",
    ],
)
def test_there_are_no_other_routes(archived: ReplayedCollection, target: str) -> None:
    """Home, static files, listings, queries, recording and the framed page do not exist."""
    reply = archived.replay.get(target)

    assert reply.status == 404
    assert "evil" not in reply.text
    assert "<script" not in reply.text
    check(reply.headers)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_other_methods_are_refused(archived: ReplayedCollection, site: str, method: str) -> None:
    """Captures are read-only."""
    reply = fetch(archived.replay.origin, f"/c/{TS}/{site}/", method=method)

    assert (reply.status, reply["Allow"]) == (405, "GET, HEAD")
    check(reply.headers)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 500 + b"\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
    ],
    ids=["no request", "version", "long target", "length", "many headers", "header"],
)
def test_even_what_is_no_request_is_answered_with_the_policy(
    archived: ReplayedCollection, request_bytes: bytes
) -> None:
    """The server's own error answers do not go around the gate."""
    address = urlsplit(archived.replay.origin)
    with socket.create_connection((address.hostname, address.port), timeout=120) as client:
        client.sendall(request_bytes)
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65536), b""))

    head = answer.split(b"\r\n\r\n")[0].decode().split("\r\n")
    assert head[0].split()[1][0] == "4"
    check([(line.split(": ", 1)[0], line.split(": ", 1)[1]) for line in head[1:]])


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Pywb-ACL-User": "admin"},
        {"X-Forwarded-Host": "evil.example"},
        {"X-Forwarded-Proto": "javascript"},
        {"X-Requested-With": "XMLHttpRequest"},
        {"X-Pywb-Requested-With": "XMLHttpRequest"},
        {"X-Wombat-History-Page": "https://evil.example/"},
        {"Prefer": "raw"},
        {"Accept-Datetime": "Sun, 01 Mar 1999 12:00:00 GMT"},
        {"Cookie": "a=b"},
        {"Authorization": "Basic eDp5"},
        {"Range": "bytes=0-3"},
        {"Referer": "http://evil.example/http://evil.example/"},
        {"Accept-Encoding": "gzip, br, zstd"},
        {"If-None-Match": '"other"'},
        {"If-None-Match": "*"},
    ],
    ids=lambda headers: next(iter(headers)),
)
def test_what_a_request_says_of_itself_changes_nothing(
    archived: ReplayedCollection, site: str, headers: dict[str, str]
) -> None:
    """Each of these changes what stock pywb answers (P-19)."""
    archived.builder.page(f"{site}/", "<p>x</p>")
    plain = archived.replay.get(f"/c/{TS}/{site}/")

    reply = archived.replay.get(f"/c/{TS}/{site}/", headers=headers)

    assert (reply.status, reply.body) == (plain.status, plain.body)
    assert {k: v for k, v in reply.headers if k != "Date"} == {k: v for k, v in plain.headers if k != "Date"}


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", ""])
def test_another_host_is_refused(archived: ReplayedCollection, site: str, host: str) -> None:
    """A name rebound to this machine reads nothing of the archive."""
    reply = archived.replay.get(f"/c/{TS}/{site}/", headers={"Host": host})

    assert reply.status == 421
    check(reply.headers)


def test_a_public_origin_is_the_only_host(collection: CollectionBuilder) -> None:
    """Behind a reverse proxy, Host is what readers see, and the port here is nobody's business."""
    with running_replay(collection.layout.root, FRONT, "--origin", "https://copies.example") as it:
        assert fetch(it.origin, "/", headers={"Host": "copies.example"}).status == 404
        assert fetch(it.origin, "/").status == 421


def test_the_process_listens_on_one_port(archived: ReplayedCollection) -> None:
    """The application that pywb brings would open a second, unauthenticated one."""
    assert _listening_ports(archived.replay) == [urlsplit(archived.replay.origin).port]


def test_the_process_ends_when_its_parent_is_gone(collection: CollectionBuilder) -> None:
    """Nothing is left running, whatever became of the front."""
    with running_replay(collection.layout.root) as replay:
        assert replay.process.stdin is not None
        replay.process.stdin.close()

        assert replay.process.wait(timeout=120) == 0


@pytest.mark.parametrize("how", ["stdin", "signal"])
def test_an_open_connection_does_not_hold_up_the_end(collection: CollectionBuilder, how: str) -> None:
    """A reader's browser keeps its connections for minutes."""
    with running_replay(collection.layout.root) as replay:
        address = urlsplit(replay.origin)
        with socket.create_connection((address.hostname, address.port), timeout=120) as client:
            client.sendall(f"GET / HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
            assert client.recv(100)
            assert replay.process.stdin is not None
            if how == "stdin":
                replay.process.stdin.close()
            else:
                replay.process.terminate()

            assert replay.process.wait(timeout=120) == 0


@pytest.mark.parametrize(
    "origin", ["front.example", "ftp://front.example", "https://a.example/x", "https://a;b", "'self'"]
)
def test_an_origin_that_could_widen_the_policy_is_refused(
    origin: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The front's origin stands in the content policy, word for word."""
    command = ["replay", "--collection", "/nowhere", f"--front-origin={origin}"]
    monkeypatch.setattr(sys, "argv", command)

    with pytest.raises(SystemExit, match="2"):
        main()

    assert "origin" in capsys.readouterr().err


def test_beyond_the_most_connections_the_longest_idle_one_is_closed() -> None:
    """Nobody can lock readers out by holding connections."""

    def application(_environ: object, start: Any) -> list[bytes]:
        start("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"answered"]

    server = ReplayServer(("127.0.0.1", 0), most=8)
    address = ("127.0.0.1", server.port)
    host = f"127.0.0.1:{server.port}"
    server.answer_with(application, Policy(FRONT, frozenset({host})))
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        server.start()
        idle = []
        for _ in range(8):
            idle.append(stack.enter_context(gevent.socket.create_connection(address, 120)))
            gevent.sleep(0.01)
        client = stack.enter_context(gevent.socket.create_connection(address, 120))
        client.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

        assert b"answered" in client.recv(4_096)
        assert idle[0].recv(1) == b""


def _listening_ports(replay: ReplayProcess) -> list[int]:
    """TCP ports on which that process listens, from the kernel's own tables."""
    inodes = set()
    for name in Path(f"/proc/{replay.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile, such as the connection of an earlier test
            link = str(name.readlink())
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{replay.process.pid}/net/{table}").read_text().splitlines()[1:]
    ]
    listening: Callable[[list[str]], bool] = lambda line: line[3] == "0A" and line[9] in inodes  # noqa: E731
    return [int(line[1].split(":")[1], 16) for line in lines if listening(line)]
