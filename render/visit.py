"""Visit of one URL: navigation, behaviours, artifacts, classification, request log, up to one deadline for all."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from classify.evidence import TEXT_LIMIT_CHARS, PageEvidence, PageTraits
from classify.page_classifier import MARKS, NEEDLES, NOT_JUDGED, PageClassification, classify
from core.captures import ArtifactKind
from core.clock import Clock
from core.config.settings import BehaviourSettings, VisitSettings
from core.errors import BadUrlError, BrowserUnavailableError
from core.hosts import ProxyEndpoint
from core.page_classes import REFUSAL_STATUSES, WITHHELD
from core.page_facts import PageFact
from core.page_manifest import PageBehaviour, PageLink, PagePicture, PageScreen, VisitOutcome
from render.artifacts import ArtifactSet, PageArtifact, make_artifacts
from render.behaviours.catalog import BehaviourSet, load_behaviours
from render.behaviours.runner import run_behaviours
from render.browser import Browser, BrowserContext
from render.cdp import CommandError, stretched
from render.chromium import page_options
from render.network_log import DocumentResponse, RequestLog, origin_of
from render.page import COMMIT_LIMIT, BrowserPage, PageClosedError, open_page
from render.service_workers import SynthesisedResponse
from render.settle import ABORTED, NavigationResult, SettleLimits, SettleResult, VisitSteps, navigate, settle

if TYPE_CHECKING:
    from render.sign_in import SiteSession

_LIMIT_S = 3.0
_NAMES = {each.name for each in fields(PageTraits)}


async def read_page_traits(
    page: BrowserPage, mime: str, artifacts: ArtifactSet, steps: VisitSteps
) -> PageTraits | None:
    """Return the page's traits, with the text of its artifacts; None for a file, or when it does not answer in time."""
    if mime not in ("text/html", "application/xhtml+xml"):
        return None
    text = next((a.data for a in artifacts.artifacts if a.kind is ArtifactKind.TEXT), None)
    answer = await steps.attempt(page.call("traits", MARKS, list(NEEDLES), text is None), steps.share_s(_LIMIT_S))
    if answer is None:
        return None
    kinds = {"headings": tuple, "frames": tuple, "marks": frozenset, "needles": frozenset}
    values = {name: kinds[name](value) if name in kinds else value for name, value in answer.items() if name in _NAMES}
    traits = PageTraits(**values)
    if text is None:
        return traits
    # Of UTF-8 a character has at most four bytes.
    return replace(traits, text=text[: 4 * TEXT_LIMIT_CHARS].decode("utf-8", "replace")[:TEXT_LIMIT_CHARS])


# Defects of a visit whose pictures waited for an endlessly drawn scene, possibly another page's.
_UNDRAWN = ("deadline", "hung", "missing: view", "missing: full_page")
# After behaviours, time limit for loading content that came into view.
RESETTLE_LIMIT_S = 5.0
# A page that does not answer a question for so long is in a loop that never ends.
ANSWER_LIMIT_S = 8.0
# The last document of a page that reloads forever has so long to come.
STAY_LIMIT_S = 8.0
# A site that has stored more than this begins with a fresh context again.
STORAGE_LIMIT_BYTES = 50_000_000
# Of the browser's main process during a visit: frames that have gone and origins that were left may have stored so much.
GROWTH_LIMIT_BYTES = 64_000_000
# Servers refuse lines of 8,000 bytes or more, and so all pages of the site.
COOKIE_LIMIT_BYTES = 6_000
# Without TLS a frame cannot query its storage use: any database counts as too much.
_STORED = """async () => {
  try {
    return navigator.storage ? (await navigator.storage.estimate()).usage : (await indexedDB.databases()).length * 1e12;
  } catch {
    return 0;  // a sandboxed document has no storage
  }
}"""


@dataclass(frozen=True, slots=True)
class VisitRequest:
    """Web URL to visit, its proxy (None: direct, in tests only), login session, and `context` if visits share one."""

    url: str
    proxy: ProxyEndpoint | None = None
    session: SiteSession | None = None
    context: BrowserContext | None = None
    # Whether the proxy leaves connections to the browser: it cannot change their requests.
    own_connections: bool = False
    ignores_certificates: bool = False  # of these connections: those that do not verify are accepted
    # URL of a file that the page fetches at rest, and how many of its bytes are read; empty for none
    file: str = ""
    file_limit_bytes: int = 0


class FetchedByPage(NamedTuple):
    """File that a page has fetched."""

    status: int
    url: str  # after redirects
    body: bytes
    truncated: bool


@dataclass(frozen=True, slots=True)
class Visit:
    """Result of a visit."""

    url: str
    final_url: str  # URL after redirects of every kind, without its fragment
    started_at: datetime  # start time, in UTC
    # COMPLETE, also for an HTTP error with a page; PARTIAL when the deadline was reached or
    # something is missing; FAILED without a page
    outcome: VisitOutcome
    # Reason for PARTIAL or FAILED, a constant first, e.g. ``deadline: settle`` or
    # ``net::ERR_NAME_NOT_RESOLVED``; empty when COMPLETE
    reason: str
    status: int | None  # HTTP status of the final document; None without a response
    mime: str  # its bare media type
    headers: dict[str, str]  # its response headers, names in lower case
    title: str
    redirects: tuple[str, ...]  # redirecting URLs, oldest first
    requests: tuple[RequestLog, ...]  # every request, in request order
    artifacts: tuple[PageArtifact, ...]
    outlinks: tuple[str, ...]  # absolute http(s) URLs that the page links to, each once
    timings: dict[str, float]  # seconds by step
    console: tuple[str, ...]  # error lines that the page printed, shortened
    seconds: float
    # Name in lower case and content of each ``<meta>`` relevant to robots; an ``http-equiv`` one
    # has the name ``http-equiv:`` and the header's
    robots_meta: tuple[tuple[str, str], ...] = ()
    behaviours: tuple[PageBehaviour, ...] = ()  # results of the behaviours, in run order
    facts: tuple[PageFact, ...] = ()  # facts that the page states about itself
    links: tuple[PageLink, ...] = ()  # `outlinks` and the links of the head, with their positions
    pictures: tuple[PagePicture, ...] = ()  # sizes of the pictures that were made
    favicon: str = ""  # URL of the page's icon; empty when none was loaded
    file: FetchedByPage | None = None  # that of the request; None without an answer
    notes: tuple[str, ...] = ()  # defects of artifacts, a sentence each
    tried: dict[str, int] | None = None  # counts of attempts that no visit allows, by kind
    settled: dict[str, float] = field(default_factory=dict)  # see `render.settle.SettleResult`
    restless: tuple[str, ...] = ()  # see `render.settle.SettleResult`
    classification: PageClassification = NOT_JUDGED  # class of the page, with the evidence
    screen: PageScreen | None = None  # screen of the visit; None when there was no page
    # Responses that service workers made, for URLs without a response of the network
    synthesised: tuple[SynthesisedResponse, ...] = ()


async def visit(
    browser: Browser,
    request: VisitRequest,
    settings: VisitSettings,
    *,
    behaviours: BehaviourSet | None = None,
    clock: Clock,
) -> Visit:
    """Load the URL as a reader would and make its artifacts, with `behaviours`, None: those of the default profile.

    Raises BadUrlError (the URL is not http or https), BrowserUnavailableError (the browser is to blame: try another).
    """
    if not request.url.lower().startswith(("http://", "https://")):
        raise BadUrlError(f"Only http and https are visited, not {request.url!r}.", reason="scheme")
    run = _VisitRun(browser, request, settings, behaviours or load_behaviours(BehaviourSettings()), clock)
    try:
        async with AsyncExitStack() as stack:
            context = request.context
            if context is not None:
                context.reusable = False
                browser.visits += 1
            else:
                with run.steps.step("open"):
                    context = await stack.enter_async_context(browser.context(request.proxy))
            await run.within_deadline(context)
            with run.steps.step("close"):
                await stack.aclose()
    except CommandError as error:
        run.steps.fall_short(f"browser: {error.method}")
    if run.steps.shortfall.startswith(_UNDRAWN):
        await browser.end_hung_scene()
    if run.steps.shortfall.startswith("deadline") and await browser.is_hung():
        raise BrowserUnavailableError("The browser hung; the page is not to blame.")
    result = run.result()
    if request.context is not None:
        is_well = result.outcome is VisitOutcome.COMPLETE and result.status not in REFUSAL_STATUSES
        is_well = is_well and result.classification.kind not in WITHHELD
        request.context.reusable = run.left_clean and is_well
        request.context.visits += 1
    return result


class _VisitRun:
    """Visit in progress."""

    def __init__(
        self, browser: Browser, request: VisitRequest, settings: VisitSettings, behaviours: BehaviourSet, clock: Clock
    ) -> None:
        self._request = request
        self._settings = settings
        self._behaviours = behaviours
        self._clock = clock
        self._started_at = clock.now()
        self._browser = browser
        self._main_bytes = browser.main_bytes() if request.context is not None else 0  # at the start
        self._arrival: NavigationResult | None = None
        self._artifacts = ArtifactSet()
        self._done: tuple[PageBehaviour, ...] = ()
        self._rest = SettleResult()
        self._traits: PageTraits | None = None
        self._file: FetchedByPage | None = None
        self.steps = VisitSteps(settings.timeout_s, clock)
        self.page: BrowserPage | None = None
        self.left_clean = False  # whether the tab of a shared context is closed, and stored little
        self._options = replace(
            page_options(settings, browser_said=browser.user_agent, version=browser.version),
            token=request.proxy.token if request.proxy is not None else "",
            headers=tuple(settings.headers.items()) if request.own_connections else (),
            limits_codings=request.own_connections,
            ignores_certificates=request.ignores_certificates,
        )

    async def within_deadline(self, context: BrowserContext) -> None:
        """Run all steps until the deadline; the page is closed afterwards."""
        # A context in which a visit has ended has the credentials.
        proxy = self._request.proxy if not context.visits else None
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                with self.steps.step("open"):
                    patience_s = self._settings.patience_s
                    self.page = await open_page(context, proxy, self._options, self._clock, patience_s=patience_s)
                    self._browser.pages[self._request.url] = self.page
                    if self._request.session is not None:
                        from render.sign_in import restore_session

                        await restore_session(self._request.session, context, self.page)
                await self._perform(self.page)
                if self._request.context is not None:
                    await self._leave(self.page)
        except TimeoutError:
            self.steps.fall_short(f"deadline: {self.steps.current}")
        except PageClosedError as error:
            self.steps.fall_short(error.reason)
        finally:
            if self.page is not None:
                self._browser.pages.pop(self._request.url, None)
                self.page.end("visited")

    async def _leave(self, page: BrowserPage) -> None:
        """End the document within the visit, so that what its unload handlers send is the visit's own.

        A service worker could send requests during the next visit, and a flow may have filled a cart: their contexts
        end.
        """
        has_acted = any(each.name.startswith("flow ") for each in self._done)
        if has_acted or page.workers.exist:
            return
        with self.steps.step("close"):
            if origin := origin_of(page.url):
                query = page.send("Storage.getUsageAndQuota", {"origin": origin})
                limit_s = self.steps.share_s(_LIMIT_S)
                usage = await self.steps.attempt(query, limit_s)
                framed = await self.steps.attempt(self._stored_by_frames(page), limit_s)
                if usage is None or framed is None or usage["usage"] + framed > STORAGE_LIMIT_BYTES:
                    return
                cookies = await self.steps.attempt(page.send("Network.getCookies"), limit_s)
                if cookies is None or sum(each["size"] for each in cookies["cookies"]) > COOKIE_LIMIT_BYTES:
                    return
                if self._browser.main_bytes() - self._main_bytes > GROWTH_LIMIT_BYTES:
                    return
            self.left_clean = await page.leave()

    async def _stored_by_frames(self, page: BrowserPage) -> float:
        """Return the bytes that frames of other sites store, which the browser counts for each pair of sites."""
        stored = 0.0
        for frame, session in tuple(page.children.frames.items()):
            world = await page.isolated_world(frame, session)
            stored += (await page.evaluate("stored", _STORED, (), context=world, session=session))["value"]
        return stored

    async def _perform(self, page: BrowserPage) -> None:
        with self.steps.step("navigate"):
            self._arrival = await navigate(page, self._request.url)
        if not self._arrival.shown:
            return
        await self._come_to_rest(page)
        if page.unreachable or self._document_error(page):
            return
        source = self._document(page) or DocumentResponse(self._request.url, None, "text/html", {})
        await make_artifacts(page, source, self._browser.icons, self._settings, self.steps, self._artifacts)
        with self.steps.step("classify"):
            self._traits = await read_page_traits(page, source.mime, self._artifacts, self.steps)
        if self._request.file:
            with self.steps.step("file"):
                answer = await page.call("file", self._request.file, self._request.file_limit_bytes)
                if answer is not None:
                    status, url, body, truncated = answer
                    self._file = FetchedByPage(status, url, b64decode(body), truncated)
        if page.workers.exist:
            with self.steps.step("workers"):
                await self.steps.attempt(page.workers.finish(), self.steps.share_s(_LIMIT_S))
            self._artifacts.notes += page.workers.notes()

    async def _come_to_rest(self, page: BrowserPage) -> None:
        """Settle, run behaviours, and settle again; stop a failing page and keep it as it is."""
        settings, steps = self._settings, self.steps
        await self._settle(page, settings.settle_limit_s)
        if self._rest.hung and await self._browser.end_hung_scene():
            self._rest.hung = False
            await self._settle(page, settings.settle_limit_s)
        fall_short = steps.fall_short
        if page.log.overflowed:
            fall_short("too-many-requests")
            page.halt()
        elif len(page.commits) > COMMIT_LIMIT:
            fall_short("redirect-loop")
            with steps.step("settle"):
                await steps.attempt(page.stay(), steps.share_s(STAY_LIMIT_S))
            page.halt()
        elif self._rest.hung:
            fall_short("hung")
            page.halt()
        elif not page.dom_ready:
            fall_short("unfinished")
            page.post("Page.stopLoading")
        if not steps.shortfall and self._behaviours.flows:
            from render.behaviours.flows import run_flows

            with steps.step("flow"):
                self._done, failure = await run_flows(page, self._behaviours.flows, steps.share_s)
            if self._done:
                await self._settle(page, settings.settle_limit_s)
            fall_short(failure)
        if steps.shortfall or (self._rest.inert and not self._done):
            return
        done, is_loading = await run_behaviours(page, self._behaviours, steps, self._browser.icons)
        self._done += done
        if is_loading:
            await self._settle(page, RESETTLE_LIMIT_S)

    async def _settle(self, page: BrowserPage, limit_s: float) -> None:
        share_s = self.steps.share_s
        answer_s = share_s(stretched(ANSWER_LIMIT_S))
        limits = SettleLimits.of(self._settings, limit_s=share_s(limit_s), answer_s=answer_s)
        with self.steps.step("settle"):
            await settle(page, limits, self._rest, clock=self._clock)

    def _loader(self, page: BrowserPage) -> str:
        if page.commits:
            return page.commits[-1]
        return self._arrival.loader if self._arrival is not None else ""

    def _document(self, page: BrowserPage) -> DocumentResponse | None:
        documents = page.log.documents
        # Of a page that a script wrote or that waits for its commit: the last response it had.
        return documents.get(self._loader(page)) or next(reversed(documents.values()), None)

    def _document_error(self, page: BrowserPage) -> str:
        """Return the network error for which there is no document; else empty."""
        if (document := page.log.documents.get(self._loader(page))) is not None:
            return document.proxy_error
        if self._arrival is not None and self._arrival.error and not page.commits:
            return self._arrival.error
        return page.log.document_errors.get(self._loader(page), "")

    def result(self) -> Visit:
        """Return the visit as far as it got."""
        page, artifacts, settings = self.page, self._artifacts, self._settings
        document = self._document(page) if page is not None else None
        shown = document or DocumentResponse(self._request.url, None, "", {})
        outcome, reason = self._verdict(page, document)
        requests = page.log.entries() if page is not None else ()
        classification = NOT_JUDGED
        if outcome is not VisitOutcome.FAILED and document is not None:
            classification = classify(
                PageEvidence(
                    url=self._request.url,
                    final_url=document.url,
                    status=document.status,
                    headers=document.headers,
                    mime=document.mime,
                    title=artifacts.title,
                    requests=tuple(each.url for each in requests),
                    traits=self._traits,
                )
            )
        return Visit(
            url=self._request.url,
            final_url=shown.url,
            started_at=self._started_at,
            outcome=outcome,
            reason=reason,
            status=shown.status,
            mime=shown.mime,
            headers=shown.headers,
            title=artifacts.title,
            redirects=self._redirects(page, shown.url) if page is not None else (),
            requests=requests,
            artifacts=() if outcome is VisitOutcome.FAILED else tuple(artifacts.artifacts),
            outlinks=artifacts.outlinks,
            timings={name: round(spent, 4) for name, spent in self.steps.timings.items()},
            console=tuple(page.console) if page is not None else (),
            seconds=round(self.steps.spent_s, 4),
            robots_meta=artifacts.robots_meta,
            behaviours=self._done,
            facts=artifacts.facts,
            links=artifacts.links,
            pictures=tuple(artifacts.pictures),
            favicon=artifacts.favicon,
            file=self._file,
            notes=tuple(artifacts.notes),
            tried=dict(page.tried) if page is not None else None,
            settled={name: round(spent, 4) for name, spent in self._rest.held.items()},
            restless=tuple(self._rest.restless),
            classification=classification,
            screen=PageScreen(
                settings.viewport_width,
                settings.viewport_height,
                settings.device_scale,
                settings.mobile,
                settings.colour_scheme,
                settings.reduced_motion,
                page.picture_css,
                settings.language,
            )
            if page
            else None,
            synthesised=tuple(page.workers.responses.values()) if page is not None else (),
        )

    def _verdict(self, page: BrowserPage | None, document: DocumentResponse | None) -> tuple[VisitOutcome, str]:
        if error := self._document_error(page) if page is not None else "":
            return VisitOutcome.FAILED, error
        cut = page.log.document_errors.get(self._loader(page), "") if page is not None else ""
        if cut and cut != ABORTED:
            # It answered, and then the connection broke.
            self.steps.fall_short(f"cut: {cut}")
        if not self.steps.shortfall:
            return VisitOutcome.COMPLETE, ""
        crashed = page is not None and page.gone in ("crashed", "closed")
        if document is None or (crashed and not self._artifacts.artifacts):
            return VisitOutcome.FAILED, self.steps.shortfall
        return VisitOutcome.PARTIAL, self.steps.shortfall

    def _redirects(self, page: BrowserPage, final: str) -> tuple[str, ...]:
        log = page.log
        passed: list[str] = []
        for loader in page.commits or [self._loader(page)]:
            passed += log.hops.get(loader, [])
            if loader in log.documents:
                passed.append(log.documents[loader].url)
        if passed and passed[-1] == final:
            passed.pop()
        return tuple(passed)
