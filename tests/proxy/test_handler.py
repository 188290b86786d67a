"""Headers and bytes that browser and origin get from the proxy, and the records of them."""

import hashlib
import socket
import threading
from collections.abc import Callable

import pytest

from tests.support.proxy_fixtures import ProxyBrowser, ProxyInProcess, ScriptedOrigin, check, ok, records

pytestmark = pytest.mark.proxy


async def test_one_connection_carries_many_requests(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """The browser's connection and the origin's are both kept alive."""
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        for number in range(5):
            origin.answers[f"/{number}"] = ok(b"body %d" % number)
            answer = browser.get(f"http://origin.example/{number}")
            assert (answer.status, answer.body) == (200, b"body %d" % number)
            assert browser.socket is not None
        await visit.seal(grace_s=1)
        browser.close()

    assert origin.connections == 1


async def test_a_tunnel_carries_many_requests(proxy: ProxyInProcess, secure_origin: ScriptedOrigin) -> None:
    """CONNECT, one handshake, then as many requests as the browser likes."""
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        assert browser.tunnel("secure.example:443").status == 200
        for _ in range(3):
            assert browser.ask("GET", "/status", tunnel=True).body == b"nothing here"
        entries = await visit.seal(grace_s=1)
        browser.close()

    assert [entry.url for entry in entries] == ["https://secure.example/status"] * 3
    assert [entry.tls_error for entry in entries] == ["", "", ""]
    assert secure_origin.connections == 1


async def test_without_a_visits_credentials_nothing_is_served(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """407 to strangers, for plain requests and tunnels; the origin is never asked."""
    async with proxy.client.visit("p", bucket="b"):
        for stranger in (ProxyBrowser(proxy.port), ProxyBrowser(proxy.port, "guess", "guess")):
            answer = stranger.get("http://origin.example/")
            assert answer.status == 407
            assert answer.headers["proxy-authenticate"].startswith("Basic")
            assert stranger.ask("CONNECT", "secure.example:443").status == 407
            stranger.close()

    assert origin.requests == []


async def test_credentials_are_worth_nothing_after_the_visit(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """A page that outlives its visit gets nothing more."""
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        await visit.seal(grace_s=0)
        assert browser.get("http://origin.example/").status == 403
    browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
    assert browser.get("http://origin.example/").status == 407
    browser.close()

    assert origin.requests == []


async def test_a_page_cannot_give_orders(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """C-01, C-02: warcprox's control methods and headers are ordinary traffic here."""
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.ask(
            "WARCPROX_WRITE_RECORD",
            "http://origin.example/forged",
            headers="WARC-Type: resource\r\nContent-Type: text/plain\r\n",
            body=b"forged",
        )
        browser.get("http://origin.example/meta", headers='Warcprox-Meta: {"warc-prefix":"-"}\r\n')
        browser.get("http://origin.example/status")
        await visit.seal(grace_s=1)
        browser.close()
    proxy.stop()
    written = records(proxy.layout)

    assert origin.requests[0].startswith(b"WARCPROX_WRITE_RECORD ")
    assert b"Warcprox-Meta" in origin.requests[1]
    assert {record.kind for record in written} <= {"warcinfo", "response", "revisit", "request"}
    assert len([r for r in written if r.url == "http://origin.example/meta"]) == 2
    assert {record.filename.split("-")[0] for record in written} == {"weboid"}


async def test_equal_payloads_become_one_response_and_revisits(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """A revisit keeps its own head and names the original's URL and date (WARC/1.1, 6.7.2)."""
    origin.answers["/a"] = ok(b"same", mime="text/plain")
    origin.answers["/b"] = ok(b"same", mime="text/html", status="404 Not Found")
    origin.answers["/c"] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsame\r\n0\r\n\r\n"
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        for path in "abc":
            browser.get(f"http://origin.example/{path}")
        entries = await visit.seal(grace_s=1)
        browser.close()
    proxy.stop()
    check(proxy.layout)
    first, second, third = (r for r in records(proxy.layout) if r.kind in ("response", "revisit"))

    assert [entry.kept for entry in entries] == ["response", "revisit", "revisit"]
    assert (first.kind, second.kind, third.kind) == ("response", "revisit", "revisit")
    assert second.status == "404"
    assert second.headers["WARC-Refers-To-Target-URI"] == "http://origin.example/a"
    assert second.headers["WARC-Refers-To-Date"] == first.headers["WARC-Date"]
    digest = hashlib.sha256(b"same").hexdigest()
    assert first.headers["WARC-Payload-Digest"] == f"sha256:{digest}"
    assert third.headers["WARC-Payload-Digest"] == f"sha256:{digest}"


async def test_equal_payloads_in_different_buckets_stay_apart(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """A bucket never refers to another's records."""
    outcomes = []
    for bucket in ("one", "two", "one"):
        async with proxy.client.visit("p", bucket=bucket) as visit:
            browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
            browser.get("http://origin.example/")
            outcomes += [entry.kept for entry in await visit.seal(grace_s=1)]
            browser.close()

    assert outcomes == ["response", "response", "revisit"]


async def test_a_request_body_reaches_the_origin_and_the_record(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """POST passes, whole, and the `request` record holds what the origin got."""
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.ask("POST", "http://origin.example/form", body=b"q=1&r=2")
        await visit.seal(grace_s=1)
        browser.close()
    proxy.stop()
    check(proxy.layout)
    (request,) = (record for record in records(proxy.layout) if record.kind == "request")

    assert origin.requests[0].endswith(b"\r\n\r\nq=1&r=2")
    assert request.payload == b"q=1&r=2"


async def test_every_record_of_a_visit_names_its_page(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """WARC-Page-ID ties captures together; dates carry milliseconds (WARC/1.1, 5.4)."""
    async with proxy.client.visit("page-7", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.get("http://origin.example/")
        await visit.seal(grace_s=1)
        browser.close()
    proxy.stop()
    written = [record for record in records(proxy.layout) if record.kind != "warcinfo"]

    assert {record.headers["WARC-Page-ID"] for record in written} == {"page-7"}
    assert all(len(record.headers["WARC-Date"]) == 24 for record in written)
    assert written[1].headers["WARC-Concurrent-To"] == written[0].headers["WARC-Record-ID"]


def mute(connection: socket.socket, _head: bytes) -> None:
    """Say nothing until the proxy gives up."""
    connection.recv(1)


@pytest.mark.parametrize(
    ("url", "status", "outcome", "reason"),
    [
        ("http://refused.example/", 502, "failed", "connect"),
        ("http://nowhere.invalid/", 502, "failed", "dns"),
        ("http://private.example/latest/meta-data/", 403, "blocked", "address"),
        ("http://origin.example/silent", 502, "failed", "disconnected"),
        ("http://origin.example/garbage", 502, "failed", "malformed"),
        ("http://origin.example/mute", 504, "failed", "timeout"),
    ],
)
async def test_a_failure_is_marked_as_the_proxys_own_and_leaves_no_record(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, url: str, status: int, outcome: str, reason: str
) -> None:
    """No archive should hold our error page as the origin's word."""
    origin.answers["/silent"] = lambda connection, _head: None
    origin.answers["/garbage"] = b"this is no HTTP\r\n\r\n"
    origin.answers["/mute"] = mute
    proxy = start(read_timeout_s=3.0)
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        answer = browser.get(url)
        (entry,) = await visit.seal(grace_s=1)
        browser.close()
    proxy.stop()

    assert answer.status == status
    assert answer.headers["weboid-proxy-error"].startswith(reason)
    assert (entry.kept, entry.reason.split(":")[0]) == (outcome, reason)
    assert [record.kind for record in records(proxy.layout)] == []


async def test_the_origins_own_502_is_recorded_as_such(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """It is a capture like any other, and is not marked."""
    origin.answers["/"] = ok(b"bad gateway", status="502 Bad Gateway")
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        answer = browser.get("http://origin.example/")
        (entry,) = await visit.seal(grace_s=1)
        browser.close()

    assert "weboid-proxy-error" not in answer.headers
    assert (entry.status, entry.kept) == (502, "response")


async def test_one_failed_connect_does_not_shut_the_host_out(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """Stock warcprox refuses a host for 60 s after one failure; here each request stands alone."""
    origin.answers["/drop"] = lambda connection, _head: None
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        assert browser.get("http://origin.example/drop").status == 502
        assert browser.get("http://origin.example/").status == 200
        browser.close()
        await visit.seal(grace_s=1)


async def test_a_stale_connection_is_replaced_without_anyone_noticing(
    proxy: ProxyInProcess, origin: ScriptedOrigin
) -> None:
    """An origin may close an idle connection; the next request goes out on a new one."""

    def once(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(ok(b"first"))

    origin.answers["/once"] = once  # answers as if to go on, then closes
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        assert browser.get("http://origin.example/once").body == b"first"
        assert browser.get("http://origin.example/").status == 200
        browser.close()
        await visit.seal(grace_s=1)


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n40\r\nbro",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n4",
    ],
)
async def test_a_response_that_breaks_off_is_kept_and_marked(
    proxy: ProxyInProcess, origin: ScriptedOrigin, wire: bytes
) -> None:
    """WARC-Truncated: disconnect; and every digest in the record can be verified."""

    def break_off(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(wire)

    origin.answers["/"] = break_off
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.get("http://origin.example/")
        (entry,) = await visit.seal(grace_s=1)
        browser.close()
    proxy.stop()
    check(proxy.layout)
    response = next(record for record in records(proxy.layout) if record.kind == "response")

    assert entry.truncated == "disconnect"
    assert response.headers["WARC-Truncated"] == "disconnect"
    assert response.payload.startswith(b"only this")


async def test_a_body_over_the_limit_is_cut_and_marked(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin
) -> None:
    """WARC-Truncated: length, at exactly the limit; the browser's connection ends."""
    proxy = start(body_limit_bytes=100_000)
    origin.answers["/"] = ok(b"x" * 300_000)
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        answer = browser.get("http://origin.example/")
        (entry,) = await visit.seal(grace_s=1)
        browser.close()
    proxy.stop()
    check(proxy.layout)
    response = next(record for record in records(proxy.layout) if record.kind == "response")

    assert entry.truncated == "length"
    assert response.headers["WARC-Truncated"] == "length"
    assert len(response.payload) == 100_000
    assert len(answer.body) == 100_000


async def test_what_never_ends_is_cut_by_the_seal(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """WARC-Truncated: time; the seal does not wait for what will not come."""

    def forever(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"5\r\ndrip!\r\n")
            connection.settimeout(0.05)
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                continue

    origin.answers["/"] = forever
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.send_only(
            f"GET http://origin.example/ HTTP/1.1\r\nHost: origin.example\r\n{browser.authorization}\r\n".encode()
        )
        assert origin.arrived.wait(120)
        (entry,) = await visit.seal(grace_s=0.2)
        browser.close()
    proxy.stop()
    check(proxy.layout)

    assert (entry.kept, entry.truncated) == ("response", "time")


async def test_a_download_goes_on_after_the_browser_has_left(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """A file that the browser refuses to load is kept whole from the response that announced it."""
    body = b"%PDF-1.4 " + b"x" * 3_000_000

    def slowly(connection: socket.socket, _head: bytes) -> None:
        head, rest = ok(body, mime="application/pdf").split(b"\r\n\r\n", 1)
        connection.sendall(head + b"\r\n\r\n" + rest[:1000])
        assert gone.wait(120)
        connection.sendall(rest[1000:])

    gone = threading.Event()
    origin.answers["/file.pdf"] = slowly
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.send_only(
            f"GET http://origin.example/file.pdf HTTP/1.1\r\nHost: origin.example\r\n"
            f"{browser.authorization}\r\n".encode()
        )
        assert browser.socket is not None
        browser.socket.recv(100)
        browser.close()
        gone.set()
        (entry,) = await visit.seal(grace_s=0, awaited=["http://origin.example/file.pdf"], await_s=10)
    proxy.stop()
    response = next(record for record in records(proxy.layout) if record.kind == "response")

    assert (entry.truncated, entry.mime) == ("", "application/pdf")
    assert response.payload == body


async def test_a_certificate_that_does_not_verify_is_recorded_not_refused(
    proxy: ProxyInProcess, secure_origin: ScriptedOrigin
) -> None:
    """The capture is made, and says that nobody vouched for it (C-14)."""
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.tunnel("wrong.example:443")
        assert browser.ask("GET", "/", tunnel=True).status == 200
        (entry,) = await visit.seal(grace_s=1)
        browser.close()
    proxy.stop()
    response = next(record for record in records(proxy.layout) if record.kind == "response")

    assert "mismatch" in entry.tls_error
    assert response.headers["WARC-TLS-Verification"].startswith("failed;")


async def test_the_origin_sees_no_trace_of_the_proxy(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """C-14: no Via, no Proxy-* headers, no credentials."""
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.get("http://origin.example/", headers="Proxy-Connection: keep-alive\r\n")
        await visit.seal(grace_s=1)
        browser.close()
    head = origin.requests[0].lower()

    assert b"via" not in head
    assert b"proxy" not in head
    assert b"weboid" not in head


async def test_an_idle_connection_does_not_hold_up_the_end(proxy: ProxyInProcess) -> None:
    """The proxy ends when it is told to, whatever browsers leave open."""
    async with proxy.client.visit("p", bucket="b") as visit:
        plain = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        plain.get("http://origin.example/")
        tunnel = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        tunnel.tunnel("secure.example:443")
        await visit.seal(grace_s=1)
    assert proxy.stop() == 0
    plain.close()
    tunnel.close()
