"""Visit of an archived copy in a reader's browser, on the screen of the capture.

The browser draws a cross-origin frame only while it is in view, and frames of copies are always cross-origin: in a
picture of the whole page those far down are empty. So each is scrolled into view, captured, and pasted into its place.

A copy is hostile: its browser reaches no hosts but those that serve copies. A view that hangs is cancelled at a
deadline; its artifacts up to then are kept.
"""

import asyncio
import binascii
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from PIL import Image

from core.captures import ArtifactKind
from core.clock import Clock
from core.config.settings import BehaviourSettings, VisitSettings
from core.errors import BrowserUnavailableError
from core.hosts import ProxyEndpoint
from core.page_manifest import PageBehaviour, PageInfo, PagePicture, PageScreen
from qa.compare.picture_tiles import encode_image
from render.artifacts import read_text
from render.behaviours.catalog import NAMES, load_behaviours
from render.behaviours.runner import run_behaviours
from render.browser import Browser, BrowserContext
from render.cdp import CommandError
from render.chromium import page_options
from render.network_log import RequestLog
from render.page import BrowserPage, PageClosedError, open_page
from render.page_frames import PageDocuments
from render.screenshot import PUT_ON, capture_full_page, capture_view, picture_styles, print_pdf
from render.settle import NavigationResult, SettleLimits, SettleResult, VisitSteps, navigate, settle

MOST_FRAMES = 20
_FAR, _SHOW = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("far_frames.js", "frame_box.js"))
_DRAWN_WORDS = (
    "() => [...document.querySelectorAll('img[alt][src^=\"data:image/png\"]')]"
    ".filter((each) => each.checkVisibility()).map((each) => each.alt).join('\\n')"
)
_TOP = "() => scrollTo({ left: 0, top: 0, behavior: 'instant' })"


async def draw_far_frames(page: BrowserPage, picture: bytes, scale: float) -> bytes:
    """Return the picture of a page at its top with the far frames drawn in; `scale`: its pixels per CSS pixel."""
    if not (numbers := await page.run("far frames", _FAR, MOST_FRAMES)):
        return picture
    pieces: list[tuple[float, float, bytes]] = []
    async with picture_styles(page):
        for number in numbers:
            box = await page.run("frame", _SHOW, number)
            if box is not None:
                clip = {**dict(zip(("x", "y", "width", "height"), box, strict=True)), "scale": 1}
                options = {"format": "png", "optimizeForSpeed": True, "clip": clip}
                answer = await page.send("Page.captureScreenshot", options)
                pieces.append((box[0], box[1], binascii.a2b_base64(answer["data"])))
    await page.run("top", _TOP)

    def pasted() -> bytes:
        with Image.open(io.BytesIO(picture)) as opened:
            whole = opened.convert("RGB")
        for x, y, data in pieces:
            with Image.open(io.BytesIO(data)) as piece:
                whole.paste(piece.convert("RGB"), (round(x * scale), round(y * scale)))
        return encode_image(whole, "PNG", compress_level=1)

    return await asyncio.to_thread(pasted)


# Port 9 (discard) has no listener, so requests through this proxy fail.
_NOWHERE = ("127.0.0.1", 9)
_ANSWER_S = 8.0  # a page that leaves a command unanswered for so long hangs
TALLEST_PX = 16_000
_PHONE = PageScreen(width=412, height=915, scale=2.0, mobile=True)  # of the profile "mobile"
# The full copy is in a frame below Weboid's banner: here it gets the whole window.
_FRAME_CSS = (
    "body *:not(iframe):not(:has(iframe)) { display: none !important }"
    " iframe { position: fixed !important; inset: 0 !important; width: 100vw !important;"
    " height: 100vh !important; border: 0 !important; z-index: 2147483647 !important }"
)
# Behaviours that change nothing on the page, or nothing that stays.
_WITHOUT_TRACE = frozenset({"candidates", "routes", "hover"})
_BEHAVIOURS_S = 10.0
_QUIET_S = 0.1  # the copy is at rest when nothing happens for so long
_STAY = """() => addEventListener("click", (event) => {
  const link = event.target instanceof Element && event.target.closest("a[href]:not([href^='#'])");
  if (link && !event.defaultPrevented) event.preventDefault();
})"""


@dataclass(frozen=True, slots=True)
class CopyAddress:
    """Address of a copy."""

    url: str  # URL of the document to open
    hosts: tuple[str, ...]  # "host:port" of every server of the copy; a ``*`` stands for the first label
    # Whether it is in a frame and runs its scripts: the viewport is captured, after the behaviours of the capture.
    framed: bool = False


@dataclass(frozen=True, slots=True)
class CopyView:
    """Result of viewing a copy."""

    status: int | None = None  # HTTP status of the document; None without a response
    reason: str = ""  # reason for which the copy cannot be judged, a sentence; empty when something is shown
    picture: bytes | None = field(default=None, repr=False)  # of the whole page, or of the viewport
    text: str | None = field(default=None, repr=False)  # the visible text; None: it could not be read
    requests: tuple[RequestLog, ...] = field(default=(), repr=False)  # requests of the copy, in order
    restless: tuple[str, ...] = ()  # as `render.settle.SettleResult.restless`
    timings: dict[str, float] = field(default_factory=dict)  # seconds by step
    pdf: bytes | None = field(default=None, repr=False)  # the copy as printed, where that was requested


def screen_at_capture(page: PageInfo) -> PageScreen:
    """Return the screen of the capture; guessed from its viewport picture if not recorded."""
    if page.screen is not None:
        return page.screen
    view = _picture_of(page, ArtifactKind.VIEW)
    if view is None:
        return PageScreen()
    if (view.width, view.height) == (_PHONE.width * 2, _PHONE.height * 2):
        return _PHONE
    return PageScreen(width=view.width, height=view.height)


def picture_height_limit(page: PageInfo, screen: PageScreen) -> int:
    """Return the CSS pixels at which to cut the picture: as at capture, so that nothing counts as lost."""
    whole = _picture_of(page, ArtifactKind.FULL_PAGE)
    if whole is None:
        return TALLEST_PX
    height = max(1, round(whole.height / screen.scale))
    return max(TALLEST_PX, height) if whole.cut_from is None else height


def _picture_of(page: PageInfo, kind: ArtifactKind) -> PagePicture | None:
    return next((each for each in page.pictures if each.kind == kind), None)


async def view_copy(  # noqa: PLR0913 independent options
    browser: Browser,
    address: CopyAddress,
    screen: PageScreen,
    *,
    clock: Clock,
    tallest_px: int = TALLEST_PX,
    behaviours: Sequence[PageBehaviour] = (),
    timeout_s: float = 30.0,
    settle_s: float = 10.0,
    pdf: bool = False,
) -> CopyView:
    """Open the copy and capture its picture, text and requests; with `pdf` also print it.

    `tallest_px`: 0 for the viewport only. `behaviours`: a framed copy is shown as those of the capture left the page.
    Raises BrowserUnavailableError: retry in another browser.
    """
    times = 2 if address.framed else 1  # texts are rewritten when they are first requested
    settings = VisitSettings(
        timeout_s=timeout_s * times,
        settle_s=_QUIET_S,
        settle_limit_s=settle_s * times,
        patience_s=_QUIET_S,
        viewport_width=screen.width,
        viewport_height=screen.height,
        device_scale=screen.scale,
        mobile=screen.mobile,
        colour_scheme=screen.colour_scheme,
        reduced_motion=screen.reduced_motion,
        full_page=bool(tallest_px) and not address.framed,
        full_page_limit_px=tallest_px,
        pdf=pdf,
    )
    names = [each.name for each in behaviours if each.done and each.name in NAMES]
    chosen = tuple(name for name in names if address.framed and name not in _WITHOUT_TRACE)
    return await _CopyVisit(browser, address, settings, screen.css, chosen, clock).run()


@dataclass
class _CopyVisit:
    """View of a copy in progress."""

    browser: Browser
    address: CopyAddress
    settings: VisitSettings
    css: str
    behaviours: tuple[str, ...]
    clock: Clock
    page: BrowserPage | None = None
    arrival: NavigationResult | None = None
    rest: SettleResult = field(default_factory=SettleResult)
    text: str | None = None
    picture: bytes | None = None
    pdf: bytes | None = None

    def __post_init__(self) -> None:
        self.steps = VisitSteps(self.settings.timeout_s, self.clock)

    async def run(self) -> CopyView:
        proxy = ProxyEndpoint(*_NOWHERE, direct=self.address.hosts)
        reason = ""
        try:
            async with self.browser.context(proxy) as context:
                try:
                    async with asyncio.timeout(self.settings.timeout_s):
                        await self._render(context, proxy)
                finally:
                    if self.page is not None:
                        self.page.end("done")
        except TimeoutError:
            reason = f"The copy was not shown within {self.settings.timeout_s:g} s."
        except CommandError as error:
            reason = f"The browser could not show the copy: {error}"
        except PageClosedError as error:
            reason = f"The page {error.reason} while it was rendered."
        if reason and await self.browser.is_hung():
            raise BrowserUnavailableError("The browser hung; the copy is not to blame.")
        status, failure = self._status(), self.arrival.error if self.arrival else ""
        if not reason and (status is None or failure):
            reason = f"No copy was served: {failure or 'no answer'}."
        elif not reason and status != HTTPStatus.OK:
            reason = f"Playback answered with status {status}."
        elif not reason and self.picture is None and self.text is None:
            reason = "Neither a picture nor the text of the copy could be taken."
        requests = self.page.log.entries() if self.page is not None else ()
        restless, timings = tuple(self.rest.restless), dict(self.steps.timings)
        return CopyView(status, reason, self.picture, self.text, requests, restless, timings, self.pdf)

    async def _render(self, context: BrowserContext, proxy: ProxyEndpoint) -> None:
        settings, steps, browser = self.settings, self.steps, self.browser
        options = page_options(settings, browser_said=browser.user_agent, version=browser.version)
        with steps.step("open"):
            self.page = page = await open_page(context, proxy, options, self.clock, patience_s=settings.patience_s)
        with steps.step("navigate"):
            self.arrival = await navigate(page, self.address.url)
        if not self.arrival.shown:
            return
        if self.address.framed:
            await page.run("fill", PUT_ON, _FRAME_CSS)
        await self._settle(page)
        if self.address.framed and page.loaded:
            await page.enter("iframe")
            await self._settle(page)
        if self.behaviours and page.loaded and self._status() == HTTPStatus.OK:
            await page.run("stay", _STAY)
            chosen = BehaviourSettings(run=self.behaviours, limit_s=_BEHAVIOURS_S)
            await run_behaviours(page, load_behaviours(chosen), steps)
            await self._settle(page)
        if not page.loaded:
            page.post("Page.stopLoading")
        page.picture_css = self.css
        if self._status() != HTTPStatus.OK:
            return
        self.text = await steps.make("text", read_text(PageDocuments(page)))
        if settings.pdf:
            self.pdf = await steps.make("pdf", print_pdf(page))
        if self.text is not None:  # words of drawings, which copies show as pictures
            drawn = await steps.make("text", page.run("drawings", _DRAWN_WORDS))
            self.text = f"{self.text}\n{drawn or ''}"
        if settings.full_page:
            measured = await steps.make("measure", page.call("measure"))
            if measured is None:
                return
            height, scale = measured["height"], measured["scale"]
            if height > settings.viewport_height:
                whole = await steps.make("picture", capture_full_page(page, height, scale, settings))
                if whole is not None:
                    drawn = await steps.make("frames", draw_far_frames(page, whole.data, scale))
                    self.picture = whole.data if drawn is None else drawn
                return
        # The viewport shows all of it, or all that is wanted.
        self.picture = await steps.make("picture", capture_view(page, settings))

    async def _settle(self, page: BrowserPage) -> None:
        settings, steps = self.settings, self.steps
        with steps.step("settle"):
            answer_s = steps.share_s(_ANSWER_S)
            limits = SettleLimits.of(settings, limit_s=settings.settle_limit_s, answer_s=answer_s)
            await settle(page, limits, self.rest, clock=self.clock)

    def _status(self) -> int | None:
        documents = list(self.page.log.documents.values()) if self.page is not None else []
        return documents[-1].status if documents else None
