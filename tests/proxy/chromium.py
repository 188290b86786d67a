"""Real Chromium in front of a real proxy, as the worker brings them together, and one unguarded."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from core.clock import SystemClock
from core.config.settings import BrowserSettings, VisitSettings
from core.hosts import ProxyEndpoint
from proxy.request_log import RequestLogEntry
from render.behaviours.catalog import NO_BEHAVIOURS
from render.browser import Browser, BrowserContext
from render.child_targets import ChildTargets
from render.chromium import PageOptions, find_browser
from render.page import BrowserPage
from render.visit import Visit, VisitRequest, visit
from tests.support.proxy_fixtures import ProxyInProcess

CLOCK = SystemClock()
QUICK = VisitSettings(timeout_s=40.0, settle_s=0.3, view=False, full_page=False, thumbnail=False, favicon=False)


@dataclass(frozen=True)
class ObservedVisit:
    """A visit as the browser and as the proxy saw it."""

    page: Visit
    entries: list[RequestLogEntry]

    @property
    def urls(self) -> list[str]:
        """Return the URLs requested from the proxy."""
        return [entry.url for entry in self.entries]


async def launch(ca_spki: str | None, hosts: Mapping[str, str] | None = None) -> Browser:
    """Launch a browser that trusts the proxy's authority; `hosts` are names it may resolve by itself."""
    return await Browser.launch(BrowserSettings(), find_browser(), ca_spki=ca_spki, hosts=hosts, clock=CLOCK)


def endpoint(credentials: ProxyEndpoint, *, port: int | None = None) -> ProxyEndpoint:
    """Return the proxy's endpoint for the browser; `port` puts a relay in between."""
    return ProxyEndpoint(credentials.host, port or credentials.port, credentials.username, credentials.password)


async def look(browser: Browser, proxy: ProxyInProcess, url: str, *, page_id: str = "p") -> ObservedVisit:
    """Visit the URL as the worker does, and seal."""
    async with proxy.client.visit(page_id, bucket="default") as opened:
        request = VisitRequest(url, endpoint(opened.credentials))
        page = await visit(browser, request, QUICK, behaviours=NO_BEHAVIOURS, clock=CLOCK)
        return ObservedVisit(page, await opened.seal(grace_s=1.0))


class _UnguardedTargets(ChildTargets):
    """Nothing of ours is kept away from them: service workers run and may answer."""

    def adopt(self, session: str, kind: str) -> None:
        self.connection.post("Runtime.runIfWaitingForDebugger", {}, session)


@asynccontextmanager
async def unguarded(browser: Browser, way: ProxyEndpoint | None) -> AsyncIterator[BrowserPage]:
    """Yield a blank tab without our guards in the browser: only the proxy restricts it."""
    arrived: asyncio.Future[tuple[str, dict[str, Any]]] = asyncio.get_running_loop().create_future()

    def targeted(session: str, info: dict[str, Any]) -> None:
        if not arrived.done():
            arrived.set_result((session, info))
        else:
            browser.connection.post("Runtime.runIfWaitingForDebugger", {}, session)

    async with browser.context(way) as context:
        context.on_target = targeted
        yield await _tab(context, way, arrived, browser.version)


async def _tab(
    context: BrowserContext,
    way: ProxyEndpoint | None,
    arrived: "asyncio.Future[tuple[str, dict[str, Any]]]",
    version: str,
) -> BrowserPage:
    new = {"url": "about:blank", "browserContextId": context.id}
    await context.connection.send("Target.createTarget", new)
    session, info = await arrived
    options = PageOptions(800, 600, "test", "en", version)
    page = BrowserPage(context, info["targetId"], session, proxy=way, options=options, clock=CLOCK)
    page.children.__class__ = _UnguardedTargets
    await page.start("0")
    return page


async def go(page: BrowserPage, url: str) -> None:
    """Navigate, and wait for the load event."""
    await page.send("Page.navigate", {"url": url})
    async with asyncio.timeout(120):
        while not page.loaded:
            await page.wait_changed()


async def evaluate(page: BrowserPage, expression: str) -> Any:
    """Return the value of the expression, or of its promise, in the page's own world."""
    parameters = {"expression": expression, "awaitPromise": True, "returnByValue": True}
    async with asyncio.timeout(120):
        answer = await page.send("Runtime.evaluate", parameters)
    assert "exceptionDetails" not in answer, answer
    return answer["result"].get("value")
