"""Headers that a profile adds to every request of a visit, and the ones that it may not."""

import pytest
from hypothesis import given, strategies
from warcio.archiveiterator import ArchiveIterator

from core.config.added_headers import MAX_HEADERS, check_headers
from core.errors import ConfigError
from core.layout import Layout
from net.http1 import forwarded_request, parse_request_head, with_headers
from proxy.request_log import RefetchRequest
from tests.support.proxy_fixtures import ProxyBrowser, ProxyInProcess, ScriptedOrigin, check, ok

pytestmark = pytest.mark.proxy
URL = "http://origin.example/page"
NAMES = strategies.text("abcXYZ-", min_size=1, max_size=20)
VALUES = strategies.text(strategies.characters(codec="ascii"), max_size=40)


def requests_of(layout: Layout) -> list[str]:
    """Return the heads of the request records."""
    heads = []
    for path in sorted(layout.archive.glob("*.warc.gz*")):
        with path.open("rb") as file:
            requests = (each for each in ArchiveIterator(file) if each.rec_type == "request")
            heads += [each.http_headers.to_str() for each in requests]
    return heads


async def test_added_headers_reach_the_origin_and_the_record(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """They stand in the place of the browser's own, or at the end, on every request of the visit."""
    origin.answers["/page"] = ok(b"x")
    added = {"X-Archive": "yes", "Referer": "https://example.org/"}
    async with proxy.client.visit("p", bucket="b", headers=added) as visit:
        client = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        client.get(URL, headers="Referer: http://elsewhere.example/\r\n")
        client.get(f"{URL}?second")
        client.close()
        wish = RefetchRequest("http://origin.example/missing", "missing")
        await visit.ledger(again=[wish], await_s=10, awaited=[wish.url], limit_bytes=1000)
        await visit.seal(grace_s=1)
    async with proxy.client.visit("q", bucket="b") as other:
        client = ProxyBrowser(proxy.port, other.credentials.username, other.credentials.password)
        client.get(f"{URL}?third")
        client.close()
        await other.seal(grace_s=1)
    assert proxy.stop() == 0

    first, second, again, third = (request.decode() for request in origin.requests)
    assert first.count("Referer:") == 1
    assert again.startswith("GET /missing ")
    for sent in (first, second, again):
        assert "\r\nX-Archive: yes\r\n" in sent
        assert "\r\nReferer: https://example.org/\r\n" in sent
    assert "X-Archive" not in third
    assert sum("X-Archive: yes" in head for head in requests_of(layout)) == 3
    check(layout)


REFUSED: tuple[dict[str, str], ...] = (
    {"X-A": "1\r\nX-B: 2"},
    {"X-A\r\n": "1"},
    {"X-A": "1\n"},
    {"X-A": "\x00"},
    {"X-A": ""},
    {"X A": "1"},
    {"": "1"},
    {"Host": "other.example"},
    {"CONTENT-LENGTH": "5"},
    {"Transfer-Encoding": "chunked"},
    {"Connection": "close"},
    {"Proxy-Authorization": "Basic x"},
    {"Upgrade": "h2c"},
    {"Cookie": "a=1"},
    {"Authorization": "Bearer x"},
    {"Accept-Encoding": "zstd"},
    {"If-None-Match": '"x"'},
    {"Range": "bytes=0-1"},
    {"User-Agent": "x"},
    {"X-A": "1", "x-a": "2"},
    {f"X-{number}": "1" for number in range(MAX_HEADERS + 1)},
    {f"X-{number}": "1" * 4000 for number in range(5)},
)


async def test_what_may_not_be_added_opens_no_visit(proxy: ProxyInProcess) -> None:
    """Lines of one's own, hops, framing, secrets and conditions: by the profile and by the proxy."""
    for headers in REFUSED:
        with pytest.raises(ConfigError):
            check_headers(headers)
        with pytest.raises(ConfigError):
            async with proxy.client.visit("p", bucket="b", headers=headers):
                pytest.fail(f"{headers} were let in")


@given(strategies.dictionaries(NAMES, VALUES, max_size=5))
def test_whatever_is_let_through_changes_no_other_line(headers: dict[str, str]) -> None:
    """The request with them reads back as the request and them."""
    try:
        check_headers(headers)
    except ConfigError:
        return
    raw = b"GET /a HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n"
    added = tuple((k.lower().encode(), k.encode(), v.encode()) for k, v in headers.items())
    head = with_headers(parse_request_head(raw), added)
    sent = parse_request_head(forwarded_request(head, target="/a", host="a.example", length=None))

    wanted = {"accept": "*/*", **{k.lower(): v for k, v in headers.items()}}
    sent_headers = {key.decode(): value.decode() for key, _, value in sent.headers}
    assert sent_headers == {"host": "a.example", "connection": "keep-alive", **wanted}
