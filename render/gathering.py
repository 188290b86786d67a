"""What is made of a page once it has come to rest: pictures, DOM, text, links, and what it says."""

from dataclasses import dataclass, field

from core.records import ArtifactKind
from core.settings import VisitSettings
from render.page import Page
from render.pictures import picture_full_page, picture_view, thumbnail
from render.steps import Steps

DOM_LIMIT_CHARS = 20_000_000
CANVAS_LIMIT_CHARS = 4_000_000
TEXT_LIMIT_CHARS = 2_000_000
OUTLINK_LIMIT = 10_000
OUTLINK_URL_LIMIT = 8_000


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something we made of the page: its kind, full Content-Type, and bytes."""

    kind: ArtifactKind
    content_type: str
    data: bytes = field(repr=False)


@dataclass(slots=True)
class Gathered:
    """What was made of a page; filled in as it is made, so that what came before a deadline is kept.

    Attributes:
        title: the page's title; empty when it has none.
        artifacts: what was made.
        outlinks: absolute http(s) URLs that the page links to, each once.
        robots_meta: see `render.visit.Visit`.
    """

    title: str = ""
    artifacts: list[Artifact] = field(default_factory=list)
    outlinks: tuple[str, ...] = ()
    robots_meta: tuple[tuple[str, str], ...] = ()

    def keep(self, kind: ArtifactKind, content_type: str, data: bytes) -> None:
        """Add an artifact."""
        self.artifacts.append(Artifact(kind, content_type, data))


async def gather(
    page: Page, mime: str, settings: VisitSettings, steps: Steps, found: Gathered
) -> None:
    """Make of the page what the settings ask for; what fails on its own leaves the others be.

    Args:
        page: at rest.
        mime: its document's bare media type.
        settings: what to make.
        steps: time, and what falls short.
        found: where it goes.

    Raises:
        PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    measured = await steps.make("measure", page.call("measure"))
    if measured is not None:
        found.title = " ".join(measured["title"].split())
        found.robots_meta = tuple((name, content) for name, content in measured["robots"])
    view = None
    if settings.view or settings.thumbnail or settings.full_page:
        view = await steps.make("view", picture_view(page))
    if view is not None and settings.view:
        found.keep(ArtifactKind.VIEW, "image/png", view)
    if not mime.startswith(("image/", "audio/", "video/")) or mime == "image/svg+xml":
        await _gather_words(page, settings, steps, found)
    if settings.full_page and measured is not None:
        await _gather_full_page(page, measured["height"], view, settings, steps, found)
    if settings.thumbnail and view is not None:
        with steps.step("thumbnail"):
            found.keep(ArtifactKind.THUMBNAIL, "image/jpeg", thumbnail(view))


async def _gather_words(page: Page, settings: VisitSettings, steps: Steps, found: Gathered) -> None:
    if settings.dom:
        dom = await steps.make("dom", page.call("dom", DOM_LIMIT_CHARS, CANVAS_LIMIT_CHARS))
        if dom is not None:
            found.keep(ArtifactKind.DOM, "text/html; charset=utf-8", _utf8(dom["html"]))
            if dom["truncated"]:
                steps.fall_short("dom: cut")
    if settings.text:
        text = await steps.make("text", page.call("text", TEXT_LIMIT_CHARS))
        if text is not None:
            found.keep(ArtifactKind.TEXT, "text/plain; charset=utf-8", _utf8(text))
    links = await steps.make("outlinks", page.call("outlinks", OUTLINK_LIMIT, OUTLINK_URL_LIMIT))
    found.outlinks = tuple(links or ())


async def _gather_full_page(
    page: Page,
    height: int,
    view: bytes | None,
    settings: VisitSettings,
    steps: Steps,
    found: Gathered,
) -> None:
    height = min(height, settings.full_page_limit_px)
    if height <= settings.viewport_height:
        # The viewport shows all of it.
        if view is not None:
            found.keep(ArtifactKind.FULL_PAGE, "image/png", view)
        return
    picture = picture_full_page(page, width=settings.viewport_width, height=height)
    full = await steps.make("full_page", picture)
    if full is not None:
        found.keep(ArtifactKind.FULL_PAGE, "image/png", full)


def _utf8(text: str) -> bytes:
    """UTF-8, with half characters, which a page may make, replaced."""
    return text.encode("utf-8", errors="replace")
