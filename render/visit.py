"""One visit: a URL in, what the browser saw and what we made of it out.

One deadline rules every step. What was gathered before it is kept, and the outcome says so.
"""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from core.clock import Clock
from core.errors import BadUrlError
from core.pages import Outcome
from core.records import ArtifactKind
from core.settings import VisitSettings
from render.browser import Browser, BrowserContext, ProxyEndpoint
from render.cdp import CommandError
from render.flags import user_agent
from render.identity import PageOptions
from render.navigation import ABORTED, Arrival, arrive
from render.network import DocumentResponse, RequestLog
from render.page import COMMIT_LIMIT, Page, PageGoneError, open_page
from render.pictures import picture_full_page, picture_view, thumbnail
from render.settle import settle

_T = TypeVar("_T")

DOM_LIMIT_CHARS = 20_000_000
CANVAS_LIMIT_CHARS = 4_000_000
TEXT_LIMIT_CHARS = 2_000_000
OUTLINK_LIMIT = 10_000
OUTLINK_URL_LIMIT = 8_000
SCROLL_PAUSE_MS = 50
# A page that grows while it is scrolled is followed to three times its height, and no further.
SCROLL_GROWTH = 3
SCROLL_LIMIT_PX = 60_000
# After scrolling, what came into sight loads within this.
RESETTLE_LIMIT_S = 5.0
# A page that does not answer a question for so long is in a loop that never ends.
PULSE_LIMIT_S = 8.0
# No single step may use up more of the time that is left: the next ones want some too.
STEP_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class VisitRequest:
    """What to visit, and through which proxy; None asks directly, which only tests do."""

    url: str
    proxy: ProxyEndpoint | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something we made of the page: its kind, full Content-Type, and bytes."""

    kind: ArtifactKind
    content_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Visit:
    """What a visit found.

    Attributes:
        url: what was asked for.
        final_url: where redirects, of every sort, led; without its fragment.
        started_at: the moment it began, in UTC.
        outcome: COMPLETE, also for an HTTP error that came with its page; PARTIAL when the
            deadline came or something is missing; FAILED when there is no page.
        reason: why it is not COMPLETE, a constant first, e.g. ``deadline: settle`` or
            ``net::ERR_NAME_NOT_RESOLVED``; empty when it is.
        status: HTTP status of the final document; None when none came.
        mime: its bare media type.
        headers: its response headers, names in lower case.
        title: the page's title; empty when it has none.
        redirects: URLs passed on the way, oldest first.
        requests: every request, in the order in which it was made.
        artifacts: what was made of the page.
        outlinks: absolute http(s) URLs that the page links to, each once.
        robots_meta: name in lower case and content of each ``<meta>`` that robots may go by; one
            that stands for a header has the name ``http-equiv:`` and the header's.
        timings: seconds by step.
        console: error lines that the page printed, shortened.
        seconds: the whole visit.
    """

    url: str
    final_url: str
    started_at: datetime
    outcome: Outcome
    reason: str
    status: int | None
    mime: str
    headers: dict[str, str]
    title: str
    redirects: tuple[str, ...]
    requests: tuple[RequestLog, ...]
    artifacts: tuple[Artifact, ...]
    outlinks: tuple[str, ...]
    timings: dict[str, float]
    console: tuple[str, ...]
    seconds: float
    robots_meta: tuple[tuple[str, str], ...] = ()


async def visit(
    browser: Browser, request: VisitRequest, settings: VisitSettings, *, clock: Clock
) -> Visit:
    """Load the URL as a reader would, and keep what there is to see.

    Raises:
        BadUrlError: the URL is not http or https.
        BrowserUnavailableError: the browser died; the visit may be tried in another.
    """
    if not request.url.lower().startswith(("http://", "https://")):
        raise BadUrlError(f"Only http and https are visited, not {request.url!r}.", reason="scheme")
    run = _Run(browser, request, settings, clock)
    try:
        async with AsyncExitStack() as stack:
            context = await stack.enter_async_context(browser.context(request.proxy))
            await run.within_deadline(context)
            with run.step("close"):
                await stack.aclose()
    except CommandError as error:
        run.fall_short(f"browser: {error.method}")
    return run.result()


class _Run:
    """A visit while it is being made."""

    def __init__(
        self, browser: Browser, request: VisitRequest, settings: VisitSettings, clock: Clock
    ) -> None:
        self._request = request
        self._settings = settings
        self._clock = clock
        self._started_at = clock.now()
        self._started = clock.monotonic()
        self._arrival: Arrival | None = None
        self._shortfall = ""
        self._title = ""
        self._artifacts: list[Artifact] = []
        self._outlinks: tuple[str, ...] = ()
        self._robots_meta: tuple[tuple[str, str], ...] = ()
        self.page: Page | None = None
        self._current = "open"
        self._timings: dict[str, float] = {}
        self._options = PageOptions(
            width=settings.viewport_width,
            height=settings.viewport_height,
            user_agent=user_agent(browser.user_agent, settings.user_agent),
            language=settings.language,
            version=browser.version,
        )

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Note how long the step takes, and that it is the one being made."""
        self._current = name
        began = self._clock.monotonic()
        try:
            yield
        finally:
            spent = self._clock.monotonic() - began
            self._timings[name] = self._timings.get(name, 0.0) + spent

    def fall_short(self, reason: str) -> None:
        """The visit is not COMPLETE; the first reason is the one that counts."""
        self._shortfall = self._shortfall or reason

    async def within_deadline(self, context: BrowserContext) -> None:
        """Make what can be made before the deadline; afterwards there is no page any more.

        Raises:
            CommandError: the browser made no page.
            BrowserUnavailableError: it died.
        """
        proxy = self._request.proxy
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                with self.step("open"):
                    self.page = await open_page(context, proxy, self._options, self._clock)
                await self._perform(self.page)
        except TimeoutError:
            self.fall_short(f"deadline: {self._current}")
        except PageGoneError as error:
            self.fall_short(error.reason)
        finally:
            if self.page is not None:
                self.page.end("visited")

    async def _perform(self, page: Page) -> None:
        """Make every step; what fails on its own leaves the others be."""
        with self.step("navigate"):
            self._arrival = await arrive(page, self._request.url)
        if not self._arrival.shown:
            return
        await self._come_to_rest(page)
        if not self._document_stands(page):
            return
        await self._gather(page)

    async def _come_to_rest(self, page: Page) -> None:
        settings = self._settings
        with self.step("settle"):
            limit_s = min(settings.settle_limit_s, self._left() * STEP_SHARE)
            await settle(page, quiet_s=settings.settle_s, limit_s=limit_s, clock=self._clock)
        with self.step("pulse"):
            await self._feel_pulse(page)
        if self._shortfall or settings.scroll_limit_s <= 0:
            return
        with self.step("scroll"):
            limit_s = min(settings.scroll_limit_s, self._left() * STEP_SHARE)
            arguments = (limit_s * 1000, SCROLL_PAUSE_MS, SCROLL_GROWTH, SCROLL_LIMIT_PX)
            moved = await self._try(page.call("scroll", *arguments), limit_s + PULSE_LIMIT_S)
        if moved is not None and moved["steps"]:
            with self.step("settle"):
                limit_s = min(RESETTLE_LIMIT_S, self._left() * STEP_SHARE)
                quiet_s = settings.settle_s / 2
                await settle(page, quiet_s=quiet_s, limit_s=limit_s, clock=self._clock)

    async def _feel_pulse(self, page: Page) -> None:
        """Find out whether the page still lives; one that does not is stopped and kept as it is."""
        if page.log.overflowed:
            self.fall_short("too-many-requests")
            page.halt()
        elif len(page.commits) > COMMIT_LIMIT:
            self.fall_short("redirect-loop")
            page.halt()
        elif not await self._answers(page):
            self.fall_short("hung")
            page.halt()
        elif not page.dom_ready:
            self.fall_short("unfinished")
            page.post("Page.stopLoading")

    async def _answers(self, page: Page) -> bool:
        try:
            async with asyncio.timeout(min(PULSE_LIMIT_S, self._left() * STEP_SHARE)):
                await page.call("measure")
        except TimeoutError:
            return False
        except CommandError:
            return True
        return True

    def _document_stands(self, page: Page) -> bool:
        """Whether there is a page to keep; a script may have led to where there is none."""
        return not (page.unreachable or self._document_error(page))

    async def _gather(self, page: Page) -> None:
        settings = self._settings
        document = self._document(page)
        mime = document.mime if document is not None else "text/html"
        measured = await self._artifact("measure", page.call("measure"))
        self._title = " ".join(measured["title"].split()) if measured else ""
        self._robots_meta = tuple((n, c) for n, c in measured["robots"]) if measured else ()
        view = None
        if settings.view or settings.thumbnail or settings.full_page:
            view = await self._artifact("view", picture_view(page))
        if view is not None and settings.view:
            self._keep(ArtifactKind.VIEW, "image/png", view)
        if not mime.startswith(("image/", "audio/", "video/")) or mime == "image/svg+xml":
            await self._gather_words(page)
        if settings.full_page and measured is not None:
            await self._gather_full_page(page, measured["height"], view)
        if settings.thumbnail and view is not None:
            with self.step("thumbnail"):
                self._keep(ArtifactKind.THUMBNAIL, "image/jpeg", thumbnail(view))

    async def _gather_words(self, page: Page) -> None:
        settings = self._settings
        if settings.dom:
            dom = await self._artifact("dom", page.call("dom", DOM_LIMIT_CHARS, CANVAS_LIMIT_CHARS))
            if dom is not None:
                self._keep(ArtifactKind.DOM, "text/html; charset=utf-8", _utf8(dom["html"]))
                if dom["truncated"]:
                    self.fall_short("dom: cut")
        if settings.text:
            text = await self._artifact("text", page.call("text", TEXT_LIMIT_CHARS))
            if text is not None:
                self._keep(ArtifactKind.TEXT, "text/plain; charset=utf-8", _utf8(text))
        links = await self._artifact(
            "outlinks", page.call("outlinks", OUTLINK_LIMIT, OUTLINK_URL_LIMIT)
        )
        self._outlinks = tuple(links or ())

    async def _gather_full_page(self, page: Page, height: int, view: bytes | None) -> None:
        settings = self._settings
        height = min(height, settings.full_page_limit_px)
        if height <= settings.viewport_height:
            # The viewport shows all of it.
            if view is not None:
                self._keep(ArtifactKind.FULL_PAGE, "image/png", view)
            return
        picture = picture_full_page(page, width=settings.viewport_width, height=height)
        full = await self._artifact("full_page", picture)
        if full is not None:
            self._keep(ArtifactKind.FULL_PAGE, "image/png", full)

    async def _artifact(self, name: str, making: Awaitable[_T]) -> _T | None:
        """What `making` returns, or None, noted, when it cannot be made in its share of time."""
        with self.step(name):
            made = await self._try(making, self._left() * STEP_SHARE)
        if made is None:
            self.fall_short(f"missing: {name}")
        return made

    async def _try(self, making: Awaitable[_T], limit_s: float) -> _T | None:
        try:
            async with asyncio.timeout(limit_s):
                return await making
        except (TimeoutError, CommandError):
            return None

    def _keep(self, kind: ArtifactKind, content_type: str, data: bytes) -> None:
        self._artifacts.append(Artifact(kind, content_type, data))

    def _left(self) -> float:
        """Seconds up to the deadline."""
        spent = self._clock.monotonic() - self._started
        return max(0.0, self._settings.timeout_s - spent)

    def _loader(self, page: Page) -> str:
        """The document that the visit ended at."""
        if page.commits:
            return page.commits[-1]
        return self._arrival.loader if self._arrival is not None else ""

    def _document(self, page: Page) -> DocumentResponse | None:
        documents = page.log.documents
        found = documents.get(self._loader(page))
        if found is None and documents:
            # A page that a script wrote or that waits for its commit: the last response it had.
            return list(documents.values())[-1]
        return found

    def _document_error(self, page: Page) -> str:
        """Why there is no document, as far as the network is to blame; else empty."""
        document = page.log.documents.get(self._loader(page))
        if document is not None:
            return document.proxy_error
        if self._arrival is not None and self._arrival.error and not page.commits:
            return self._arrival.error
        return page.log.document_errors.get(self._loader(page), "")

    def result(self) -> Visit:
        """The visit as far as it came."""
        page = self.page
        document = self._document(page) if page is not None else None
        outcome, reason = self._verdict(page, document)
        final = document.url if document is not None else self._request.url
        return Visit(
            url=self._request.url,
            final_url=final,
            started_at=self._started_at,
            outcome=outcome,
            reason=reason,
            status=document.status if document is not None else None,
            mime=document.mime if document is not None else "",
            headers=document.headers if document is not None else {},
            title=self._title,
            redirects=self._redirects(page, final) if page is not None else (),
            requests=page.log.entries() if page is not None else (),
            artifacts=() if outcome is Outcome.FAILED else tuple(self._artifacts),
            outlinks=self._outlinks,
            timings={name: round(spent, 4) for name, spent in self._timings.items()},
            console=tuple(page.console) if page is not None else (),
            seconds=round(self._clock.monotonic() - self._started, 4),
            robots_meta=self._robots_meta,
        )

    def _verdict(self, page: Page | None, document: DocumentResponse | None) -> tuple[Outcome, str]:
        error = self._document_error(page) if page is not None else ""
        if error:
            return Outcome.FAILED, error
        cut = page.log.document_errors.get(self._loader(page), "") if page is not None else ""
        if cut and cut != ABORTED:
            # It answered, and then the connection broke.
            self.fall_short(f"cut: {cut}")
        if not self._shortfall:
            return Outcome.COMPLETE, ""
        crashed = page is not None and page.gone in ("crashed", "closed") and not self._artifacts
        if document is None or crashed:
            return Outcome.FAILED, self._shortfall
        return Outcome.PARTIAL, self._shortfall

    def _redirects(self, page: Page, final: str) -> tuple[str, ...]:
        log = page.log
        passed: list[str] = []
        for loader in page.commits or [self._loader(page)]:
            passed += log.hops.get(loader, [])
            if loader in log.documents:
                passed.append(log.documents[loader].url)
        if passed and passed[-1] == final:
            passed.pop()
        return tuple(passed)


def _utf8(text: str) -> bytes:
    """UTF-8, with half characters, which a page may make, replaced."""
    return text.encode("utf-8", errors="replace")
