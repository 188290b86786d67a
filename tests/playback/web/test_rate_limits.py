"""Costly routes of the front hold up no other page, and nobody may ask for them without end."""

import asyncio
import threading
from collections.abc import Iterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from core.timestamps import timestamp14
from playback.web.client_address import ClientAddresses, parse_networks
from playback.web.rate_limits import (
    BlockStream,
    Endpoint,
    LoadLimit,
    RateLimiter,
    RateLimitPolicy,
    ReaderRates,
    TokenRate,
)
from tests.support.playback_fixtures import NOW, Reply, Served

pytestmark = pytest.mark.playback


def _get(app: Starlette, target: str = "/", host: str = "192.0.2.1") -> httpx.Response:
    """Ask the application as a reader at that address."""
    transport = httpx.ASGITransport(app, client=(host, 1), raise_app_exceptions=False)

    async def get() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://front.test") as client:
            return await client.get(target)

    return asyncio.run(get())


def _limited(limit: LoadLimit, endpoint: Endpoint) -> Starlette:
    return Starlette(routes=[Route("/", limit(endpoint))])


def _door(burst: float) -> RateLimiter:
    rate = TokenRate(0.001, burst)
    return RateLimiter(RateLimitPolicy(rates=ReaderRates(rate, rate, TokenRate(100, 1_000))))


def test_comparisons_leave_room_for_other_pages(served: Served, site: str) -> None:
    """Forty readers compare two large texts; meanwhile the first page is answered again and again."""
    words = [" ".join(f"w{place * step % 7919}" for place in range(60_000)) for step in (3, 5)]
    later = NOW.replace(year=NOW.year + 1)
    served.builder.page(f"{site}/", "<p>x</p>", text=words[0])
    served.builder.page(f"{site}/", "<p>y</p>", text=words[1], at=later)
    target = f"/changes/{timestamp14(NOW)}/{timestamp14(later)}/{site}/"
    replies: list[Reply] = []
    threads = [threading.Thread(target=lambda: replies.append(served.get(target))) for _ in range(40)]
    for thread in threads:
        thread.start()
    answered = 0
    while any(thread.is_alive() for thread in threads):
        assert served.get("/").status == 200
        answered += 1

    assert answered >= 5
    assert {reply.status for reply in replies} == {200, 503}
    assert all(reply["Retry-After"] for reply in replies if reply.status == 503)


def test_a_neighbourhood_that_asks_too_often_is_told_when_to_come_again() -> None:
    """Another neighbourhood is answered meanwhile."""
    limit = LoadLimit(_door(burst=3), threads=1, most_waiting=1)

    def endpoint(_: Request) -> Response:
        return PlainTextResponse("listed")

    app = _limited(limit, endpoint)
    near = [_get(app, host=f"192.0.2.{number}") for number in range(5)]
    far = _get(app, host="198.51.100.1")

    assert [each.status_code for each in near] == [200, 200, 200, 429, 429]
    assert int(near[-1].headers["Retry-After"]) > 0
    assert far.status_code == 200


def test_a_streamed_answer_counts_until_it_has_ended() -> None:
    """Then the next one is answered; an answer that breaks off is no longer counted, either."""
    limit = LoadLimit(_door(burst=100), threads=1, most_waiting=0)

    def blocks(fails: bool) -> Iterator[bytes]:
        yield b"first\n"
        if fails:
            raise RuntimeError("broken off")
        yield b"second\n"

    def endpoint(request: Request) -> Response:
        return BlockStream(blocks("fails" in request.query_params), {})

    app = _limited(limit, endpoint)

    assert _get(app).text == "first\nsecond\n"
    _get(app, "/?fails=1")
    assert _get(app).text == "first\nsecond\n"


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "Via"])
def test_who_comes_through_an_unknown_proxy_has_no_rights_by_network(
    header: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The proxy's own address is internal, its readers are not; that is said once."""
    local = parse_networks(["203.0.113.0/24"])
    unknown = RateLimiter(RateLimitPolicy(internal=local))
    named = RateLimiter(RateLimitPolicy(internal=local, readers=ClientAddresses(parse_networks(["203.0.113.9"]))))
    host = f"203.0.113.{len(header)}"

    direct, relayed = _request(host, {}), _request(host, {header: "198.51.100.7"})

    assert unknown.is_internal(direct)
    assert not unknown.is_internal(relayed)
    assert not unknown.is_internal(relayed)
    assert [record.message for record in caplog.records].count(caplog.records[0].message) == 1
    assert named.is_internal(_request("203.0.113.9", {header: "203.0.113.77"}))


def _request(host: str, headers: dict[str, str]) -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "client": (host, 1), "headers": raw})
