"""Costly routes of the front hold up no other page, and nobody may ask for them without end."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from ipaddress import ip_address, ip_network
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from core.errors import ConfigError
from core.timestamps import timestamp14
from net.address_policy import rate_limit_prefix
from playback.web import rate_limits
from playback.web.rate_limits import (
    NO_ADDRESS,
    BlockStream,
    ClientAddresses,
    LoadLimit,
    RateLimiter,
    RateLimitPolicy,
    ReaderRates,
    RequestThrottle,
    TokenRate,
    parse_networks,
    reader_prefix,
)
from playback.web.registry.registry_service import LinkRegistry, RegistrySource
from tests.support.playback_fixtures import NOW, CollectionBuilder, ServedCollection, StoredReply, serving
from tests.support.registry_builder import DEAD, FixedRegistry, RegistryBuilder, RegistryFront, open_front
from tests.support.services.registries import open_registry

RATES = ReaderRates(TokenRate(1, 3), TokenRate(2, 5), TokenRate(100, 1_000))
TOKEN = "t" * 40
ACCESS = RateLimitPolicy(
    readers=ClientAddresses(parse_networks(["198.51.100.0/25"])),
    internal=parse_networks(["10.0.0.0/8", "2001:db8:aaaa::/48"]),
    token=TOKEN,
    rates=RATES,
    form_rates=RATES,
)
V4 = st.ip_addresses(v=4)


@pytest.fixture
def strict(registry_builder: RegistryBuilder, tmp_path: Path) -> Iterator[RegistryFront]:
    """Yield a front behind a proxy that allows a reader three requests at once."""
    with open_front(tmp_path, FixedRegistry(registry_builder.store), access=ACCESS) as registry_front:
        yield registry_front


def statuses(front: RegistryFront, times: int, **headers: str) -> list[int]:
    """Send that many requests; return their status codes."""
    return [front.page(**headers).status_code for _ in range(times)]


def test_who_asks_too_often_is_told_how_long_to_wait(strict: RegistryFront) -> None:
    """429 with Retry-After; after that time there is an answer."""
    assert statuses(strict, 3) == [200] * 3
    refused = strict.page()

    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    strict.clock.seconds += int(refused.headers["retry-after"])
    assert strict.page().status_code == 200


def test_neighbours_share_a_limit_and_others_do_not(strict: RegistryFront) -> None:
    """An IPv4 /24 and an IPv6 /48 (W23)."""
    for one, other, far in (
        ("203.0.113.1", "203.0.113.9", "203.0.114.9"),
        ("2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:2::1"),
    ):
        assert statuses(strict, 4, x_forwarded_for=one) == [200, 200, 200, 429]
        assert statuses(strict, 3, x_forwarded_for=other) == [200, 200, 429]
        assert statuses(strict, 1, x_forwarded_for=far) == [200]


def test_an_ipv6_reader_is_his_network(strict: RegistryFront) -> None:
    """The lower half of an address is anybody's to choose."""
    codes = [strict.page(x_forwarded_for=f"2001:db8:7:7::{n:x}").status_code for n in range(1, 5)]

    assert codes == [200, 200, 200, 429]


def test_a_question_for_many_pages_costs_more(strict: RegistryFront) -> None:
    """Fifty as much as ten for one; it is answered, and the next has to wait for it."""
    ids = "|".join(map(str, range(1, 51)))

    assert strict.page(f"dbname=dewiki&curid={ids}").status_code == 200
    assert int(strict.page().headers["retry-after"]) >= 3


@pytest.mark.parametrize(
    "headers",
    [{"x_forwarded_for": "10.1.2.3"}, {"x_forwarded_for": "2001:db8:aaaa::5"}, {"authorization": f"Bearer {TOKEN}"}],
    ids=["v4", "v6", "token"],
)
def test_internal_callers_never_wait(headers: dict[str, str], strict: RegistryFront) -> None:
    """They may walk through a whole namespace."""
    assert statuses(strict, 20, **headers) == [200] * 20


@pytest.mark.parametrize("authorization", ["Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer é"])
def test_a_wrong_token_opens_nothing(authorization: str, strict: RegistryFront) -> None:
    """It is a question like any other."""
    assert statuses(strict, 4, authorization=authorization.encode("latin-1").decode("latin-1"))[-1] == 429


def test_without_a_token_no_token_is_right(registry_builder: RegistryBuilder, tmp_path: Path) -> None:
    """An empty setting must not be a key."""
    with open_front(tmp_path, FixedRegistry(registry_builder.store), access=RateLimitPolicy(rates=RATES)) as front:
        assert statuses(front, 4, authorization="Bearer ")[-1] == 429
        assert statuses(front, 1, x_forwarded_for="10.0.0.1") == [429]


def test_the_form_has_its_own_limit(strict: RegistryFront) -> None:
    """Told in words, with the form above them; the page itself is not counted."""
    path = f"/links?url={DEAD}&stamp="
    codes = [strict.get(path + strict.stamp()).status_code for _ in range(4)]
    refused = strict.get(path + strict.stamp())

    assert codes == [200, 200, 200, 429]
    assert "Retry-After".lower() in refused.headers
    assert "Too many requests" in refused.text
    assert strict.get("/links").status_code == 200


def test_the_wrong_questions_are_counted_too(strict: RegistryFront) -> None:
    """Else errors were free."""
    assert [strict.page("dbname=").status_code for _ in range(4)] == [400, 400, 400, 429]


# ---- the addresses


def address(peer: str | None, forwarded: list[str], proxies: list[str]) -> str:
    """Whose address that is."""
    scope = {
        "type": "http",
        "client": (peer, 1) if peer else None,
        "headers": [(b"x-forwarded-for", each.encode("latin-1", "replace")) for each in forwarded],
    }
    return str(ClientAddresses(parse_networks(proxies)).address_of(Request(scope)))


@pytest.mark.parametrize(
    ("peer", "forwarded", "proxies", "client_address"),
    [
        ("192.0.2.1", ["203.0.113.5"], [], "192.0.2.1"),
        ("192.0.2.1", ["203.0.113.5"], ["192.0.2.1"], "203.0.113.5"),
        ("192.0.2.9", ["203.0.113.5"], ["192.0.2.1"], "192.0.2.9"),
        ("192.0.2.1", ["10.0.0.1, 203.0.113.5"], ["192.0.2.1"], "203.0.113.5"),
        ("192.0.2.1", ["203.0.113.5, 192.0.2.2"], ["192.0.2.0/24"], "203.0.113.5"),
        ("192.0.2.1", ["10.0.0.1", "203.0.113.5"], ["192.0.2.1"], "203.0.113.5"),
        ("192.0.2.1", ["203.0.113.5, nonsense"], ["192.0.2.1"], "192.0.2.1"),
        ("192.0.2.1", [""], ["192.0.2.1"], "192.0.2.1"),
        ("192.0.2.1", ["203.0.113.5:1234"], ["192.0.2.1"], "203.0.113.5"),
        ("192.0.2.1", ["[2001:db8::5]:1234"], ["192.0.2.1"], "2001:db8::5"),
        ("::ffff:192.0.2.1", ["::ffff:203.0.113.5"], ["192.0.2.1"], "203.0.113.5"),
        ("fe80::1%eth0", [], [], "fe80::1"),
        (None, ["203.0.113.5"], ["192.0.2.1"], str(NO_ADDRESS)),
        ("a-name", [], [], str(NO_ADDRESS)),
    ],
)  # fmt: skip
def test_only_a_proxy_of_ours_says_who_asks(
    peer: str | None, forwarded: list[str], proxies: list[str], client_address: str
) -> None:
    """The last address that is none of its own; anybody may have written those before (RFC 7239, 8.1)."""
    assert address(peer, forwarded, proxies) == client_address


@given(st.lists(st.text(alphabet="0123456789abcdef.:,[]% \t", max_size=60), max_size=4), V4)
def test_no_header_is_too_odd(forwarded: list[str], peer: object) -> None:
    """It is an address in any case."""
    ip_address(address(str(peer), forwarded, ["0.0.0.0/0"]))


@given(st.ip_addresses())
def test_a_reader_is_in_his_neighbourhood(client_address: object) -> None:
    """A /24 of IPv4, a /48 of IPv6."""
    where = ip_address(str(client_address))
    near = ip_network(rate_limit_prefix(where))

    assert where in near
    assert near.prefixlen == {4: 24, 6: 48}[where.version]
    assert ip_network(reader_prefix(where)).subnet_of(near)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["example.org", "10.0.0.1/8", "", "10.0.0.0/33"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"10\.0\.0\.0/8"):
        parse_networks([text])


# ---- the buckets


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 3), st.floats(0, 2)), min_size=1, max_size=60))
def test_nobody_ever_gets_more_than_the_rates_allow(questions: list[tuple[int, float, float]]) -> None:
    """Over any stretch of time: what a bucket holds, and what comes back meanwhile.

    A question may be dearer than what was left; then those after it wait.
    """
    throttle = RequestThrottle(RATES)
    given_to: dict[str, list[tuple[float, float]]] = {}
    now = 0.0
    for number, gap, cost in questions:
        now += gap
        who = ip_address(f"192.0.2.{number}")
        if throttle.wait_s(who, now):
            continue
        throttle.charge(who, now, cost)
        for name, rate in ((str(who), RATES.reader), ("range", RATES.range)):
            taken = given_to.setdefault(name, [])
            for start, (since, _) in enumerate(taken):
                before = sum(each for _, each in taken[start:])
                assert before + 1 <= rate.burst + (now - since) * rate.per_s + 1e-4
            taken.append((now, 1 + cost))


@given(st.floats(0.1, 20), st.floats(0, 50))
def test_whoever_waits_as_told_is_answered(cost: float, start: float) -> None:
    """So Retry-After is the truth."""
    throttle, who = RequestThrottle(RATES), ip_address("192.0.2.1")
    throttle.charge(who, start, cost)
    while not (wait := throttle.wait_s(who, start)):
        pass

    assert throttle.wait_s(who, start + wait) == 0


def test_memory_is_bounded_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ever new addresses push out what was used longest ago, and gain nothing by it."""
    monkeypatch.setattr(rate_limits, "MOST_BUCKETS", 1_000)
    throttle = RequestThrottle(ReaderRates(TokenRate(1, 2), TokenRate(1, 2), TokenRate(10, 500)))
    answered = sum(throttle.wait_s(ip_address(0x2001_0DB8 << 96 | n << 80), 0.0) == 0 for n in range(5_000))

    assert len(throttle._buckets) <= 1_000
    assert answered == 500


def test_a_clock_that_goes_back_gives_nothing() -> None:
    """Nor takes."""
    throttle, who = RequestThrottle(RATES), ip_address("192.0.2.1")
    codes = [throttle.wait_s(who, now) for now in (100.0, 90.0, 80.0)]

    assert codes == [0, 0, 0]
    assert throttle.wait_s(who, 70.0) > 0


def test_a_token_is_not_shown() -> None:
    """No text of ours holds it."""
    assert TOKEN not in repr(RateLimitPolicy(token=TOKEN))


@pytest.mark.playback
@pytest.mark.slow
def test_the_running_server_believes_no_header_of_a_stranger(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Not even on loopback, where the server's own library would (W23)."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("throttled") / "collection")
    open_registry(builder.layout).close()
    slow = ReaderRates(TokenRate(0.001, 3), TokenRate(0.001, 3), TokenRate(1, 100))
    with (
        closing(builder),
        closing(RegistrySource(builder.layout)) as source,
        serving(builder, links=LinkRegistry(source, RateLimitPolicy(rates=slow))) as served,
    ):
        codes = [
            served.get(
                "/links/api/page?dbname=dewiki&curid=1",
                headers={"X-Forwarded-For": f"203.0.{number}.1", "Forwarded": f"for=10.0.{number}.1"},
            ).status
            for number in range(5)
        ]

    assert codes == [404, 404, 404, 429, 429]


pytestmark = pytest.mark.playback


def _get(app: Starlette, target: str = "/", host: str = "192.0.2.1") -> httpx.Response:
    """Ask the application as a reader at that address."""
    transport = httpx.ASGITransport(app, client=(host, 1), raise_app_exceptions=False)

    async def get() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://front.test") as client:
            return await client.get(target)

    return asyncio.run(get())


def _limited(limit: LoadLimit, endpoint: Callable[[Request], Response]) -> Starlette:
    return Starlette(routes=[Route("/", limit(endpoint))])


def _limiter(burst: float) -> RateLimiter:
    rate = TokenRate(0.001, burst)
    return RateLimiter(RateLimitPolicy(rates=ReaderRates(rate, rate, TokenRate(100, 1_000))))


def test_comparisons_leave_room_for_other_pages(served: ServedCollection, site: str) -> None:
    """Forty readers compare two large texts; meanwhile the first page is answered again and again."""
    words = [" ".join(f"w{place * step % 7919}" for place in range(60_000)) for step in (3, 5)]
    later = NOW.replace(year=NOW.year + 1)
    served.builder.page(f"{site}/", "<p>x</p>", text=words[0])
    served.builder.page(f"{site}/", "<p>y</p>", text=words[1], at=later)
    target = f"/changes/{timestamp14(NOW)}/{timestamp14(later)}/{site}/"
    replies: list[StoredReply] = []
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
    limit = LoadLimit(_limiter(burst=3), threads=1, most_waiting=1)

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
    limit = LoadLimit(_limiter(burst=100), threads=1, most_waiting=0)

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
