"""Size limits of a response, a visit and a run, counted while they are received (C-08, C-10)."""

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import LimitReachedError
from core.layout import Layout
from proxy.limits import HELD_BYTES, BodySpool, ByteCounter, SpoolSpace
from proxy.request_log import RequestLogEntry, RequestOutcome
from tests.support.proxy_fixtures import ProxyBrowser, ProxyInProcess, ScriptedOrigin, check, ok, records


def endless(connection: socket.socket, _head: bytes) -> None:
    """Send a body that never ends."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n")
    while True:
        connection.sendall(bytes(100_000))


async def ask(proxy: ProxyInProcess, *urls: str) -> list[RequestLogEntry]:
    """Fetch the URLs in one visit, one after the other."""
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        for url in urls:
            browser.get(url)
        browser.close()
        return await visit.seal(grace_s=5)


@pytest.mark.proxy
async def test_a_visit_receives_no_more_than_its_limit(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, layout: Layout
) -> None:
    """A response over the limit is cut while it comes, and marked; later requests are refused."""
    proxy = start(visit_limit_bytes=1_000_000)
    origin.answers["/endless"] = endless
    origin.answers["/after"] = ok(b"x" * 1000)

    entries = await ask(proxy, "http://origin.example/endless", "http://origin.example/after")

    assert [entry.truncated for entry in entries] == ["length", ""]
    assert [entry.kept for entry in entries] == [RequestOutcome.RESPONSE, RequestOutcome.BLOCKED]
    assert {entry.reason for entry in entries} == {"limit: visit_limit_bytes"}
    assert len(origin.requests) == 1
    assert 1_000_000 <= entries[0].size < 1_500_000
    check(layout)


@pytest.mark.proxy
async def test_a_visit_asks_no_more_often_than_its_limit(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin
) -> None:
    """A page that fires requests for ever is refused, marked as ours, and the ledger stays short."""
    proxy = start(visit_limit_requests=3)

    async with proxy.client.visit("p", bucket="b") as visit:
        answers = []
        for number in range(6):
            browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
            answers.append(browser.get(f"http://origin.example/{number}"))
            browser.close()
        entries = await visit.seal(grace_s=1)

    assert [answer.status for answer in answers] == [200, 200, 200, 403, 403, 403]
    assert answers[-1].headers["weboid-proxy-error"] == "limit: visit_limit_requests"
    assert len(entries) == 3
    assert len(origin.requests) == 3


@pytest.mark.proxy
async def test_all_proxies_of_a_run_share_its_limit(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, tmp_path: Path
) -> None:
    """Bytes that one proxy received count for the other; then no visit is opened any more."""
    tally = tmp_path / "tally"
    tally.write_bytes(bytes(16))
    first = start("first", tally=(tally, 0), crawl_limit_bytes=500_000)
    second = start("second", tally=(tally, 1), crawl_limit_bytes=500_000)
    origin.answers["/endless"] = endless
    async with second.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(second.port, visit.credentials.username, visit.credentials.password)

        (entry,) = await ask(first, "http://origin.example/endless")
        browser.get("http://origin.example/other")
        browser.close()
        (other,) = await visit.seal(grace_s=1)

    assert entry.reason == other.reason == "limit: crawl_limit_bytes"
    with pytest.raises(LimitReachedError, match="crawl_limit_bytes"):
        await ask(second, "http://origin.example/more")


@pytest.mark.proxy
async def test_a_part_is_kept_as_it_is_and_the_whole_is_fetched_once(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, layout: Layout
) -> None:
    """206 plays back nothing by itself: one request without Range brings all of it."""
    whole = bytes(range(256)) * 4

    def ranged(connection: socket.socket, head: bytes) -> None:
        if b"range: bytes=0-9" in head.lower():
            more = "Content-Range: bytes 0-9/1024\r\n"
            connection.sendall(ok(whole[:10], status="206 Partial Content", more=more))
        else:
            connection.sendall(ok(whole))
        connection.close()

    origin.answers["/video"] = ranged
    proxy = start()
    async with proxy.client.visit("p", bucket="b") as visit:
        for _ in range(3):
            browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
            answer = browser.get("http://origin.example/video", headers="Range: bytes=0-9\r\n")
            assert (answer.status, answer.body) == (206, whole[:10])
            browser.close()
        entries = await visit.seal(grace_s=0, await_s=20)

    assert sorted(entry.status or 0 for entry in entries) == [200, 206, 206, 206]
    assert all(entry.kept in (RequestOutcome.RESPONSE, RequestOutcome.REVISIT) for entry in entries)
    responses = [record for record in records(layout) if record.kind == "response"]
    assert sorted((record.status, len(record.payload)) for record in responses) == [("200", 1024), ("206", 10)]


@pytest.mark.proxy
async def test_the_whole_of_a_part_is_not_fetched_when_the_profile_says_so(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin
) -> None:
    """`whole_ranges = false`: a part is all that is asked for."""
    origin.answers["/video"] = ok(b"0123456789", status="206 Partial Content")
    proxy = start(whole_ranges=False)

    entries = await ask(proxy, "http://origin.example/video")

    assert [entry.status for entry in entries] == [206]


@pytest.mark.proxy
async def test_a_browser_that_takes_nothing_does_not_hold_up_the_seal(
    proxy: ProxyInProcess, origin: ScriptedOrigin
) -> None:
    """A paused player stops reading; the seal cuts what it does not take."""
    origin.answers["/endless"] = endless
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.send_only(
            b"GET http://origin.example/endless HTTP/1.1\r\nHost: origin.example\r\n"
            + browser.authorization.encode()
            + b"\r\n"
        )
        assert origin.arrived.wait(120)
        (entry,) = await visit.seal(grace_s=0.2)
        browser.close()

    assert entry.truncated == "time"
    assert entry.reason == "cut: the visit ended"


@pytest.mark.proxy
async def test_request_bodies_take_no_more_memory_than_there_is(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """A page that posts without end on many connections is refused, and others go on."""
    origin.answers["/"] = ok(b"taken")
    async with proxy.client.visit("p", bucket="b") as visit:
        browsers = [ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password) for _ in range(4)]
        for browser in browsers[:3]:  # 50 MB each, and none of them ends
            head = "POST http://origin.example/ HTTP/1.1\r\nHost: origin.example\r\n"
            length = "Content-Length: 60000000\r\n\r\n"
            with contextlib.suppress(OSError):
                browser.send_only((head + browser.authorization + length).encode())
                browser.send_only(bytes(50_000_000))
        refused = browsers[2].rest()
        good = browsers[3].ask("POST", "http://origin.example/", body=b"small")
        for browser in browsers:
            browser.close()
        entries = await visit.seal(grace_s=5)

    assert refused.startswith(b"HTTP/1.1 413 ")
    assert (good.status, good.body) == (200, b"taken")
    assert sorted(entry.reason for entry in entries) == [
        "",
        "request-too-large",
        "request: The browser disconnected within a body.",
        "request: The browser disconnected within a body.",
    ]


def is_in_memory(spool: BodySpool, piece: bytes) -> bool:
    """Return whether it holds the first piece itself, not one that was read from a file."""
    return next(spool.pieces()) is piece


def test_bodies_go_to_a_file_when_the_memory_is_used_up(tmp_path: Path) -> None:
    """One long body, or many at once, take no more memory than allowed; all is read back."""
    space = SpoolSpace(tmp_path, memory_bytes=1000)
    first, second, third = BodySpool(space), BodySpool(space), BodySpool(space)
    pieces = [b"a" * 900, b"b" * 200, b"d" * 1000]
    first.add(pieces[0])
    second.add(pieces[1])
    assert is_in_memory(first, pieces[0])
    assert not is_in_memory(second, pieces[1])
    second.add(b"c")
    assert b"".join(second.pieces()) == b"b" * 200 + b"c"
    assert b"".join(second.pieces()) == b"b" * 200 + b"c"
    first.close()
    third.add(pieces[2])
    assert is_in_memory(third, pieces[2])
    second.close()
    third.close()


@pytest.mark.parametrize(("size", "in_memory"), [(HELD_BYTES, True), (HELD_BYTES + 1, False)])
def test_a_very_long_body_goes_to_a_file(tmp_path: Path, size: int, *, in_memory: bool) -> None:
    """One body does not take all of the memory for itself."""
    spool = BodySpool(SpoolSpace(tmp_path))
    spool.add(beginning := bytes(size - 1))
    spool.add(b"x")
    assert is_in_memory(spool, beginning) is in_memory
    assert sum(map(len, spool.pieces())) == size
    spool.close()


def test_a_tally_counts_what_all_add(tmp_path: Path) -> None:
    """Two places in one file, several threads each: nothing is lost."""
    (tmp_path / "tally").write_bytes(bytes(16))
    places = [ByteCounter(tmp_path / "tally", slot) for slot in (0, 1)]

    def add(place: ByteCounter) -> None:
        for _ in range(1000):
            place.add(3)

    threads = [threading.Thread(target=add, args=(place,)) for place in places for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [place.total() for place in places] == [24_000, 24_000]
    for place in places:
        place.close()
