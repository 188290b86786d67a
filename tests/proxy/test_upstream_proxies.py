"""The way out of a running proxy: what the ledger and the WARC say of it, and that it ends in time."""

import asyncio
import hashlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.config.settings import Settings
from core.layout import Layout
from proxy.request_log import RequestLogEntry
from tests.support.proxy_fixtures import ProxyBrowser, ProxyInProcess, ScriptedOrigin, check, ok, records

pytestmark = pytest.mark.proxy


@pytest.fixture
def begin(layout: Layout, settings: Settings, tmp_path: Path) -> Iterator[Callable[..., ProxyInProcess]]:
    """Start a proxy; keyword arguments change its `[egress]` settings, `timeout_s` the connecting."""
    started: list[ProxyInProcess] = []

    def starter(timeout_s: float = 5.0, **changes: Any) -> ProxyInProcess:
        resolve = {**settings.egress.resolve, **changes.pop("resolve", {})}
        egress = replace(settings.egress, resolve=resolve, **changes)
        limits = replace(settings.proxy, connect_timeout_s=timeout_s)
        started.append(ProxyInProcess(layout, replace(settings, egress=egress, proxy=limits), "p", tmp_path))
        return started[-1]

    yield starter
    for proxy in started:
        proxy.stop()


@pytest.fixture
def swallower() -> Iterator[int]:
    """Yield a port on 127.0.0.1 that answers no connection attempt, not even with a refusal."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):  # nobody accepts: the queue is full, and Linux drops further SYNs
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def attempts(port: int) -> int:
    """Count the connections to the port that are being tried (proc(5): state 02 is SYN_SENT)."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[2:4] == [f"0100007F:{port:04X}", "02"] for line in lines)


async def fetch(proxy: ProxyInProcess, *urls: str) -> list[RequestLogEntry]:
    """Fetch the URLs in one visit; its ledger."""
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        for url in urls:
            browser.close()
            if url.startswith("https:"):
                host, _, path = url.removeprefix("https://").partition("/")
                browser.tunnel(f"{host}:443")
                browser.ask("GET", f"/{path}", tunnel=True)
            else:
                browser.get(url)
        browser.close()
        return await visit.seal(grace_s=1)


async def test_the_facts_of_tls_are_in_the_ledger(
    begin: Callable[..., ProxyInProcess], secure_origin: ScriptedOrigin, certificate: Path
) -> None:
    """Version, cipher, and the certificate's fingerprint, verified or not (C-14)."""
    good, bad = await fetch(begin(), "https://secure.example/", "https://wrong.example/")
    head = "-----BEGIN CERTIFICATE-----"
    der = ssl.PEM_cert_to_DER_cert(head + certificate.read_text().partition(head)[2])

    assert (good.tls_error, good.tls_version) == ("", "TLSv1.3")
    assert bad.tls_error.startswith("wrong-host: ")
    assert good.tls_cipher.startswith("TLS_")
    assert good.tls_certificate == bad.tls_certificate == hashlib.sha256(der).hexdigest()


async def test_the_facts_and_the_verdict_are_in_the_record(
    begin: Callable[..., ProxyInProcess], secure_origin: ScriptedOrigin
) -> None:
    """Whoever has the WARC alone can tell, too; a revisit says what held for itself."""
    proxy = begin()
    urls = ("https://secure.example/", "https://wrong.example/", "http://origin.example/")
    entries = await fetch(proxy, *urls)
    proxy.stop()
    check(proxy.layout)
    written = {r.url: r for r in records(proxy.layout) if r.kind in ("response", "revisit")}
    good, bad, plain = (written[url] for url in urls)  # which lie in the order in which they ended

    assert "WARC-TLS-Verification" not in good.headers
    assert bad.headers["WARC-TLS-Verification"].startswith("failed; wrong-host: ")
    for record, entry in zip((good, bad), entries, strict=False):
        assert record.headers["WARC-Protocol"] == "tls/1.3"
        assert record.headers["WARC-Cipher-Suite"] == entry.tls_cipher
        assert record.headers["WARC-TLS-Certificate"] == f"sha256:{entry.tls_certificate}"
    assert not [name for name in plain.headers if name.startswith(("WARC-TLS", "WARC-Cipher"))]
    assert plain.headers["WARC-Protocol"] == "http/1.1"


async def test_a_profile_may_insist_on_good_certificates(
    begin: Callable[..., ProxyInProcess], secure_origin: ScriptedOrigin
) -> None:
    """The request is blocked, the reason is the verdict, and nothing is archived."""
    proxy = begin(enforce_tls=True)
    good, bad = await fetch(proxy, "https://secure.example/", "https://wrong.example/")
    proxy.stop()

    assert good.kept == "response"
    assert (bad.kept, bad.status) == ("blocked", None)
    assert bad.reason.startswith("tls: wrong-host: ")
    assert {each.url for each in records(proxy.layout)} - {""} == {"https://secure.example/"}


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://private.example/", "address"),
        ("http://origin.example:25/", "port"),
        ("http://other.example/", "host"),
        ("http://OTHER.example./", "host"),
        ("http://a..example/", "host"),
    ],
)
async def test_what_is_refused_is_blocked_and_says_by_what_rule(
    begin: Callable[..., ProxyInProcess], origin: ScriptedOrigin, url: str, reason: str
) -> None:
    """And nobody is asked."""
    (entry,) = await fetch(begin(block=("other.example",)), url)

    assert (entry.kept, entry.reason.partition(": ")[0]) == ("blocked", reason)
    assert origin.connections == 0


async def test_a_redirect_to_a_private_address_is_a_request_like_any_other(
    begin: Callable[..., ProxyInProcess], origin: ScriptedOrigin
) -> None:
    """The browser follows it, and is refused."""
    origin.answers["/"] = ok(b"", status="302 Found", more="Location: http://127.1.2.3/\r\n")
    proxy = begin(allow=("127.0.0.1/32",))
    first, second = await fetch(proxy, "http://origin.example/", "http://127.1.2.3/")

    assert (first.kept, first.status) == ("response", 302)
    assert (second.kept, second.reason[:8]) == ("blocked", "address:")


async def test_the_seal_does_not_wait_for_a_connection_that_does_not_come(
    begin: Callable[..., ProxyInProcess], swallower: int
) -> None:
    """A minute to connect is not a minute for the visit."""
    proxy = begin(60.0, resolve={"silent.example": f"127.0.0.1:{swallower}"})
    before = attempts(swallower)
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.send_only(
            f"GET http://silent.example/ HTTP/1.1\r\nHost: silent.example\r\n{browser.authorization}\r\n".encode()
        )
        while attempts(swallower) == before:
            await asyncio.sleep(0.01)
        async with asyncio.timeout(120):
            entries = await visit.seal(grace_s=0.1)
        browser.close()

    assert [(entry.kept, entry.reason) for entry in entries] == [("failed", "cut: time")]


async def test_a_connect_that_gets_no_answer_ends_at_its_time_out(
    begin: Callable[..., ProxyInProcess], swallower: int
) -> None:
    """Transient: it may work later."""
    proxy = begin(0.3, resolve={"silent.example": f"127.0.0.1:{swallower}"})
    (entry,) = await fetch(proxy, "http://silent.example/")

    assert entry.kept == "failed"
    assert entry.reason.startswith("connect: silent.example:80 cannot be reached")


async def test_one_host_gets_no_more_connections_than_the_profile_allows(
    begin: Callable[..., ProxyInProcess], origin: ScriptedOrigin
) -> None:
    """Ten at once through two: all are served, over two connections."""
    go = threading.Event()

    def slow(connection: socket.socket, _head: bytes) -> None:
        go.wait(120)
        connection.sendall(ok(b"slow"))

    origin.answers["/slow"] = slow
    proxy = begin(20.0, connections_per_host=2)
    async with proxy.client.visit("p", bucket="b") as visit:
        credentials = visit.credentials
        browsers = [ProxyBrowser(proxy.port, credentials.username, credentials.password) for _ in range(10)]
        for browser in browsers[:2]:
            browser.send_only(request("/slow", browser))
        while origin.connections < 2:
            await asyncio.sleep(0)
        threads = [
            threading.Thread(target=browser.get, args=("http://origin.example/quick",)) for browser in browsers[2:]
        ]
        for thread in threads:
            thread.start()
        assert origin.connections == 2
        go.set()
        for thread in threads:
            thread.join(120)
        for browser in browsers:
            browser.close()
        entries = await visit.seal(grace_s=5)

    assert len(entries) == 10
    assert {str(entry.kept) for entry in entries} == {"response", "revisit"}


@pytest.mark.parametrize("tunnel", [False, True])
async def test_the_origin_gets_the_browsers_headers_in_its_order_and_spelling(
    begin: Callable[..., ProxyInProcess], origin: ScriptedOrigin, secure_origin: ScriptedOrigin, tunnel: bool
) -> None:
    """C-14: what differs is this hop's own, and zstd, which no WARC reader decodes."""
    sent = (
        '{connection}sec-ch-ua: "Chromium";v="140"\r\nUser-Agent: Mozilla/5.0\r\nACCEPT: */*\r\n'
        "x-Odd-Case:  two  blanks \r\nAccept-Encoding: gzip, deflate, br, zstd\r\nCookie: a=1; b=2\r\n"
    )
    proxy = begin()
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        if tunnel:
            browser.tunnel("secure.example:443")
            headers = sent.format(connection="Connection: keep-alive\r\n")
            browser.send_only(f"GET /x?y HTTP/1.1\r\nHost: secure.example\r\n{headers}\r\n".encode())
        else:
            headers = sent.format(connection="Proxy-Connection: keep-alive\r\n")
            url = "http://origin.example/x?y"
            browser.send_only(
                f"GET {url} HTTP/1.1\r\nHost: origin.example\r\n{browser.authorization}{headers}\r\n".encode()
            )
        server = secure_origin if tunnel else origin
        assert server.arrived.wait(120)
        await visit.seal(grace_s=5)
        browser.close()

    assert server.requests[0].decode() == (
        f"GET /x?y HTTP/1.1\r\nHost: {'secure' if tunnel else 'origin'}.example\r\n"
        "Connection: keep-alive\r\n"
        'sec-ch-ua: "Chromium";v="140"\r\nUser-Agent: Mozilla/5.0\r\nACCEPT: */*\r\n'
        "x-Odd-Case: two  blanks\r\nAccept-Encoding: gzip, deflate, br\r\nCookie: a=1; b=2\r\n\r\n"
    )


def request(path: str, browser: ProxyBrowser) -> bytes:
    return (f"GET http://origin.example{path} HTTP/1.1\r\nHost: origin.example\r\n{browser.authorization}\r\n").encode()
