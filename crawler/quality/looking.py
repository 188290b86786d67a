"""One look at a copy: what a reader's browser makes of it, on the screen that the page was captured on.

A copy is hostile. The browser that opens it reaches the hosts that serve copies and no others; what hangs
is given up at a deadline, and what it showed until then is kept.
"""

import asyncio
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from core.clock import Clock
from core.errors import BrowserUnavailableError
from core.pages import PageInfo, Picture, Screen
from core.records import ArtifactKind
from core.settings import VisitSettings
from crawler.quality.far_frames import draw_far_frames
from render.browser import DISPOSE_WAIT_S, Browser, BrowserContext, ProxyEndpoint
from render.cdp import CommandError
from render.documents import Documents
from render.identity import page_options
from render.navigation import Arrival, arrive
from render.network import RequestLog
from render.page import Page, PageGoneError, open_page
from render.pictures import picture_full_page, picture_view
from render.reading import read_text
from render.settle import Limits, Rest, settle
from render.steps import Steps

# Nothing listens on a port that is called "discard"; whatever has to go through it goes nowhere.
_NOWHERE = ("127.0.0.1", 9)
_ANSWER_S = 8.0  # a page that does not answer a question for so long hangs
TALLEST_PX = 16_000
_PHONE = Screen(width=412, height=915, scale=2.0, mobile=True)  # of the profile "mobile"
# The copy in full stands in a frame, below a banner of ours: here it has the whole window, and the word.
_FILL = """(css) => {
  const { get, set } = Object.getOwnPropertyDescriptor(Document.prototype, "adoptedStyleSheets");
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  set.call(document, [...get.call(document), sheet]);
}"""
_FRAME_CSS = (
    "body *:not(iframe):not(:has(iframe)) { display: none !important }"
    " iframe { position: fixed !important; inset: 0 !important; width: 100vw !important;"
    " height: 100vh !important; border: 0 !important; z-index: 2147483647 !important }"
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a copy is.

    Attributes:
        url: of the document to be opened.
        hosts: "host:port" of all that serves it; a ``*`` stands for the first label.
        framed: whether the copy stands in a frame of that document; then only the view is pictured.
    """

    url: str
    hosts: tuple[str, ...]
    framed: bool = False


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a look waits, in seconds.

    Attributes:
        timeout_s: for everything together.
        quiet_s: what has been still for so long is at rest.
        settle_s: for rest.
    """

    timeout_s: float = 30.0
    quiet_s: float = 0.1
    settle_s: float = 10.0


PATIENCE = Patience()


@dataclass(frozen=True, slots=True)
class Look:
    """What a look showed.

    Attributes:
        status: HTTP status of the document; None when none came.
        reason: why nothing can be said of the copy, a sentence; empty when something is shown.
        picture: of the whole page, or of the view when only that was asked for; None: none could be made.
        text: the visible text; None: it could not be read.
        requests: all that the copy asked for, in that order.
        restless: what did not come to rest, by the names of `render.settle.Rest`.
        timings: seconds by step.
        seconds: the whole look.
    """

    status: int | None = None
    reason: str = ""
    picture: bytes | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    requests: tuple[RequestLog, ...] = field(default=(), repr=False)
    restless: tuple[str, ...] = ()
    timings: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


def screen_at_capture(page: PageInfo) -> Screen:
    """The screen that a page was captured on; guessed from its view where the manifest does not say."""
    if page.screen is not None:
        return page.screen
    view = _picture_of(page, ArtifactKind.VIEW)
    if view is None:
        return Screen()
    if (view.width, view.height) == (_PHONE.width * 2, _PHONE.height * 2):
        return _PHONE
    return Screen(width=view.width, height=view.height)


def tallest_of(page: PageInfo, screen: Screen) -> int:
    """CSS pixels at which the picture of its copy is cut: where the one of the capture was.

    One that was not cut may be taller than usual: what it has below must not count as lost.
    """
    whole = _picture_of(page, ArtifactKind.FULL_PAGE)
    if whole is None:
        return TALLEST_PX
    height = max(1, round(whole.height / screen.scale))
    return max(TALLEST_PX, height) if whole.cut_from is None else height


def _picture_of(page: PageInfo, kind: ArtifactKind) -> Picture | None:
    return next((each for each in page.pictures if each.kind == kind), None)


async def look(
    browser: Browser,
    address: Address,
    screen: Screen,
    *,
    clock: Clock,
    tallest_px: int = TALLEST_PX,
    patience: Patience = PATIENCE,
) -> Look:
    """Open the copy and see what it shows.

    Args:
        browser: it is opened in.
        address: where it is.
        screen: to look at it on.
        clock: the time.
        tallest_px: the picture is cut at this height, in CSS pixels; 0: it is of the view alone.
        patience: how long to wait.

    Raises:
        BrowserUnavailableError: the browser died or hung; another may look again.
    """
    settings = VisitSettings(
        timeout_s=patience.timeout_s,
        settle_s=patience.quiet_s,
        settle_limit_s=patience.settle_s,
        patience_s=patience.quiet_s,
        viewport_width=screen.width,
        viewport_height=screen.height,
        device_scale=screen.scale,
        mobile=screen.mobile,
        colour_scheme=screen.colour_scheme,
        reduced_motion=screen.reduced_motion,
        full_page=bool(tallest_px) and not address.framed,
        full_page_limit_px=tallest_px,
    )
    looking = _Looking(browser, address, settings, screen.css, clock)
    return await looking.run()


class _Looking:
    """A look while it is being had."""

    def __init__(
        self, browser: Browser, address: Address, settings: VisitSettings, css: str, clock: Clock
    ) -> None:
        self._browser = browser
        self._address = address
        self._settings = settings
        self._css = css
        self._clock = clock
        self._steps = Steps(settings.timeout_s, clock)
        self._page: Page | None = None
        self._arrival: Arrival | None = None
        self._rest = Rest()
        self._seen = Look()

    async def run(self) -> Look:
        proxy = ProxyEndpoint(*_NOWHERE, direct=self._address.hosts)
        reason = ""
        try:
            async with self._browser.context(proxy) as context:
                try:
                    async with asyncio.timeout(self._settings.timeout_s):
                        await self._look(context, proxy)
                finally:
                    if self._page is not None:
                        self._page.end("looked at")
        except TimeoutError:
            reason = f"The copy was not shown within {self._settings.timeout_s:g} s."
        except CommandError as error:
            reason = f"The browser could not show the copy: {error}"
        except PageGoneError as error:
            reason = f"The page {error.reason} while it was looked at."
        if reason and self._browser.is_stuck(DISPOSE_WAIT_S):
            raise BrowserUnavailableError("The browser hung; the copy is not to blame.")
        return self._result(reason)

    async def _look(self, context: BrowserContext, proxy: ProxyEndpoint) -> None:
        settings, steps = self._settings, self._steps
        browser = self._browser
        options = page_options(settings, browser_said=browser.user_agent, version=browser.version)
        with steps.step("open"):
            self._page = page = await open_page(
                context, proxy, options, self._clock, patience_s=settings.patience_s
            )
        with steps.step("navigate"):
            self._arrival = await arrive(page, self._address.url)
        if not self._arrival.shown:
            return
        if self._address.framed:
            await page.run("fill", _FILL, _FRAME_CSS)
        with steps.step("settle"):
            answer_s = steps.share_s(_ANSWER_S)
            limits = Limits.of(settings, limit_s=settings.settle_limit_s, answer_s=answer_s)
            await settle(page, limits, self._rest, clock=self._clock)
        if not page.loaded:
            page.post("Page.stopLoading")
        page.picture_css = self._css
        if self._status() != HTTPStatus.OK:
            return
        text = await steps.make("text", read_text(Documents(page)))
        self._seen = replace(self._seen, text=text)
        self._seen = replace(self._seen, picture=await self._picture(page))

    async def _picture(self, page: Page) -> bytes | None:
        settings, steps = self._settings, self._steps
        if not settings.full_page:
            return await steps.make("picture", picture_view(page, settings))
        measured = await steps.make("measure", page.call("measure"))
        if measured is None:
            return None
        height, scale = measured["height"], measured["scale"]
        if height <= settings.viewport_height:
            # The viewport shows all of it.
            return await steps.make("picture", picture_view(page, settings))
        whole = await steps.make("picture", picture_full_page(page, height, scale, settings))
        if whole is None:
            return None
        drawn = await steps.make("frames", draw_far_frames(page, whole.data, scale))
        return whole.data if drawn is None else drawn

    def _status(self) -> int | None:
        if self._page is None:
            return None
        documents = list(self._page.log.documents.values())
        return documents[-1].status if documents else None

    def _result(self, reason: str) -> Look:
        page, arrival = self._page, self._arrival
        status = self._status()
        if not reason and (status is None or (arrival is not None and arrival.error)):
            reason = f"No copy came: {(arrival and arrival.error) or 'no answer'}."
        elif not reason and status != HTTPStatus.OK:
            reason = f"Playback answered with status {status}."
        elif not reason and self._seen.picture is None and self._seen.text is None:
            reason = "The copy could be neither pictured nor read."
        return replace(
            self._seen,
            status=status,
            reason=reason,
            requests=page.log.entries() if page is not None else (),
            restless=tuple(self._rest.restless),
            timings=dict(self._steps.timings),
            seconds=self._steps.spent_s,
        )
