"""Asking again within a visit: what is sent, what is refused, and what it may take."""

from collections.abc import Callable

import pytest

from core.hosts import ProxyEndpoint
from core.layout import Layout
from proxy.request_log import RefetchRequest, RequestOutcome
from tests.support.proxy_fixtures import ProxyBrowser, ProxyInProcess, ScriptedOrigin, ok, records

pytestmark = pytest.mark.proxy


def through(proxy: ProxyInProcess, credentials: ProxyEndpoint) -> ProxyBrowser:
    """Return a browser with the credentials of the visit."""
    return ProxyBrowser(proxy.port, credentials.username, credentials.password)


async def test_what_was_never_asked_is_asked_as_the_visits_browser_would(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, secure_origin: ScriptedOrigin, layout: Layout
) -> None:
    """With its language and agent, over TLS too; no cookie, and nothing that is one request's own."""
    origin.answers["/"] = ok(b"page")
    secure_origin.answers["/a"] = ok(b"part")
    proxy = start()
    async with proxy.client.visit("p", bucket="b") as visit:
        browser = through(proxy, visit.credentials)
        own = "User-Agent: Shown\r\nAccept-Language: de\r\nCookie: c=1\r\nReferer: http://x/\r\n"
        browser.get("http://origin.example/", headers=own)
        browser.close()
        wishes = [
            RefetchRequest("https://secure.example/a", "unasked", "text/css", "http://origin.example/"),
            RefetchRequest("https://secure.example:443/a?b", "unasked"),
            RefetchRequest("http://169.254.169.254/", "unasked"),
            RefetchRequest("gopher://origin.example/", "unasked"),
            RefetchRequest("https://", "unasked"),
            RefetchRequest("http://origin.example/a HTTP/1.1", "unasked"),
            RefetchRequest("https://user@[::/", "unasked"),
        ]
        so_far = await visit.ledger(again=wishes, limit_bytes=1_000_000, await_s=20)
        entries = await visit.seal(grace_s=0)
    head = secure_origin.requests[0].decode() + secure_origin.requests[1].decode()

    assert so_far.in_flight == frozenset()
    assert sorted((each.url, each.kept is RequestOutcome.BLOCKED, each.again) for each in entries) == [
        ("http://169.254.169.254/", True, "unasked"),
        ("http://origin.example/", False, ""),
        ("https://secure.example/a", False, "unasked"),
        ("https://secure.example:443/a?b", False, "unasked"),
    ]
    assert "Cookie" not in head
    assert head.count("User-Agent: Shown\r\n") == head.count("Accept-Language: de\r\n") == 2
    assert "Referer: http://origin.example/\r\n" in head
    assert "Accept: text/css\r\n" in head
    assert [each.payload for each in records(layout) if "secure" in each.url][:1] == [b"part"]


async def test_a_visit_that_is_sealed_asks_for_nothing_again(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin
) -> None:
    """Over is over."""
    proxy = start()
    async with proxy.client.visit("p", bucket="b") as visit:
        await visit.seal(grace_s=0)
        so_far = await visit.ledger(
            again=[RefetchRequest("http://origin.example/", "unasked")], limit_bytes=99, await_s=5
        )

    assert (so_far.entries, origin.requests) == ([], [])
