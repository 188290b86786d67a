"""Visits through a proxy that demands credentials: who is asked, by whom, and who is not."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from core.clock import SystemClock
from core.config.settings import VisitSettings
from core.page_manifest import VisitOutcome
from render.browser import Browser
from render.cdp import CdpConnection
from render.chromium import PageOptions
from render.page import open_page
from render.visit import Visit, VisitRequest, visit

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

Look = Callable[..., Awaitable[Visit]]


@pytest.mark.parametrize("url", ["http://one.test/plain.html", "https://secure.test/plain.html"])
async def test_the_proxy_learns_the_visit_at_the_price_of_one_407(look: Look, proxy: Any, url: str) -> None:
    """One refused request for a context, then every request carries the credentials."""
    seen = await look(url, proxy.endpoint())

    assert (seen.outcome, seen.reason, seen.status) == (VisitOutcome.COMPLETE, "", 200)
    assert len(proxy.refused) == 1
    assert [(request.url, request.user) for request in proxy.requests] == [(url, "visit-1")]
    assert [request.url for request in seen.requests] == [url]


async def test_every_frame_and_worker_carries_the_credentials(look: Look, proxy: Any) -> None:
    """Frames of other sites, over http and https, fetches and workers need no second asking."""
    seen = await look("http://one.test/outer.html", proxy.endpoint("visit-7"))

    urls = {request.url for request in proxy.requests}
    expected = {
        "http://one.test/outer.html",
        "http://other.test/frame-page.html",
        "http://other.test/image.png?in-frame",
        "http://fetched.test/by-fetch",
        "http://one.test/worker.js",
        "http://one.test/from-worker",
    }
    assert expected <= urls
    assert {request.user for request in proxy.requests} == {"visit-7"}
    assert len(proxy.refused) == 1
    assert {request.url for request in seen.requests} >= expected


async def test_a_secure_page_asks_through_tunnels_that_know_the_visit(look: Look, proxy: Any) -> None:
    """Each CONNECT carries the credentials."""
    seen = await look("https://secure.test/outer-secure.html", proxy.endpoint())

    assert seen.outcome is VisitOutcome.COMPLETE
    assert {request.url for request in proxy.requests} == {
        "https://secure.test/outer-secure.html",
        "https://sub.secure.test/frame-page.html",
        "https://sub.secure.test/image.png?in-frame",
        "https://secure.test/worker.js",
        "https://secure.test/from-worker",
    }
    assert len(proxy.refused) == 1


async def test_popups_ask_the_proxy_for_nothing(look: Look, proxy: Any) -> None:
    """A closed window never reached the network."""
    await look("http://one.test/popups.html", proxy.endpoint())

    assert not [request.url for request in proxy.requests if "/popup?" in request.url]


async def test_requests_are_not_held_up_once_the_proxy_knows(
    browser: Browser, look: Look, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interception ends with the credentials: no subresource is ever paused."""
    events: list[str] = []
    dispatch = CdpConnection._dispatch

    def listen(connection: CdpConnection, raw: bytes) -> None:
        if raw.startswith(b'{"method":"Fetch.'):
            events.append(raw[11:40].split(b'"')[0].decode())
        dispatch(connection, raw)

    monkeypatch.setattr(CdpConnection, "_dispatch", listen)
    await look("http://one.test/many.html", proxy.endpoint())

    assert len([request for request in proxy.requests if request.path.startswith("/image.png")]) == 30
    assert events.count("Fetch.authRequired") == 1
    assert events.count("Fetch.requestPaused") <= 2


async def test_loopback_goes_through_the_proxy_too(look: Look, site: Any, proxy: Any) -> None:
    """Chromium would ask 127.0.0.1 and localhost directly (C-04)."""
    await look(site.url("/plain.html"), proxy.endpoint())
    await look("http://localhost/plain.html", proxy.endpoint())

    assert [request.host for request in proxy.requests] == [f"127.0.0.1:{site.port}", "localhost"]


async def test_wrong_credentials_fail_the_visit(look: Look, proxy: Any) -> None:
    """They are offered once, not for ever."""
    seen = await look("https://secure.test/plain.html", proxy.endpoint(password="wrong"))

    assert (seen.outcome, seen.reason, seen.artifacts) == (VisitOutcome.FAILED, "proxy: 407", ())
    assert proxy.requests == []
    assert len(proxy.refused) <= 3


async def test_a_site_that_wants_a_password_gets_none(look: Look, proxy: Any) -> None:
    """Credentials are for the proxy alone."""
    seen = await look("https://secure.test/login", proxy.endpoint())

    assert (seen.outcome, seen.status) == (VisitOutcome.COMPLETE, 401)
    assert [request.headers.get("authorization") for request in proxy.requests] == [None]


async def test_contexts_do_not_share_credentials(look: Look, proxy: Any) -> None:
    """Each visit is asked for its own name."""
    await look("http://one.test/plain.html", proxy.endpoint("first"))
    await look("http://one.test/plain.html", proxy.endpoint("second"))

    assert [request.user for request in proxy.requests] == ["first", "second"]


async def test_a_tunnel_that_the_proxy_refuses_fails(look: Look, proxy: Any) -> None:
    """The browser says no more than that."""
    seen = await look("https://refused.test/", proxy.endpoint())

    assert (seen.outcome, seen.reason) == (VisitOutcome.FAILED, "net::ERR_TUNNEL_CONNECTION_FAILED")


@pytest.mark.parametrize("scheme", ["http://one.test", "https://secure.test"])
async def test_an_error_of_the_proxys_own_is_marked(look: Look, proxy: Any, scheme: str) -> None:
    """On plain http and inside the tunnel alike."""
    seen = await look(f"{scheme}/proxy-error", proxy.endpoint())

    assert (seen.outcome, seen.reason, seen.artifacts) == (VisitOutcome.FAILED, "dns", ())


async def test_only_the_named_authority_is_trusted(look: Look, proxy: Any, stranger: Any) -> None:
    """Another man in the middle is refused."""
    proxy.context = stranger.context
    seen = await look("https://secure.test/plain.html", proxy.endpoint())

    assert (seen.outcome, seen.reason) == (VisitOutcome.FAILED, "net::ERR_CERT_AUTHORITY_INVALID")


async def test_a_blank_page_asks_nobody(browser: Browser, proxy: Any, clock: SystemClock) -> None:
    """The browser itself has nothing to say to its maker (C-18)."""
    options = PageOptions(800, 600, "x", "en", browser.version)
    async with browser.context(proxy.endpoint()) as context:
        page = await open_page(context, proxy.endpoint(), options, clock)
        wait = "new Promise((done) => setTimeout(done, 1000))"
        await page.send("Runtime.evaluate", {"expression": wait, "awaitPromise": True})
        page.end("done")

    assert (proxy.requests, proxy.refused) == ([], [])


async def test_nothing_escapes_around_the_proxy(look: Look, proxy: Any, settings: VisitSettings) -> None:
    """No UDP candidates, no WebTransport, no local files, no names looked up (C-05)."""
    seen = await look("http://one.test/escapes.html", proxy.endpoint(), settle_s=1.0)

    text = next(a.data for a in seen.artifacts if a.kind == "text").decode()
    assert "candidates:0" in text
    assert "root:" not in next(a.data for a in seen.artifacts if a.kind == "dom").decode()
    assert {request.url for request in proxy.requests} == {"http://one.test/escapes.html"}
    foreign = {request.path for request in proxy.refused if request.method == "CONNECT"}
    assert foreign <= {"preconnected.test:443"}


async def test_a_proxy_without_credentials_is_used_as_it_is(
    browser: Browser, site: Any, settings: VisitSettings, clock: SystemClock, proxy: Any
) -> None:
    """An endpoint without a name never answers a 407."""
    endpoint = replace(proxy.endpoint(), username="")
    request = VisitRequest("http://one.test/plain.html", endpoint)
    seen = await visit(browser, request, settings, clock=clock)

    assert (proxy.requests, len(proxy.refused)) == ([], 1)
    assert (seen.outcome, seen.reason) == (VisitOutcome.FAILED, "proxy: 407")
