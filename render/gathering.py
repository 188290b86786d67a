"""What is made of a page once it has come to rest: pictures, DOM, text, links, and what it says."""

import asyncio
from dataclasses import dataclass, field

from core.facts import Fact, read_facts
from core.pages import PageLink, Picture
from core.records import ArtifactKind
from core.settings import VisitSettings
from render.documents import Documents
from render.page import Page
from render.pictures import (
    picture_full_page,
    picture_size,
    picture_view,
    thumbnail,
)
from render.printing import print_pdf
from render.reading import LINK_LIMIT, Dom, read_dom, read_links, read_text
from render.steps import Steps

# The page's icon was asked for before anything else was made; it is not waited for much longer.
FAVICON_PATIENCE_S = 1.0
BROKEN_VIEW_S = 3.0
ICONS_KNOWN = 10_000
_MARKUP = frozenset({"text/html", "application/xhtml+xml"})
# Links that lead a reader on; what else the head names is another form of the same page.
_ONWARD = frozenset({"next", "prev"})


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something we made of the page: its kind, full Content-Type, and bytes."""

    kind: ArtifactKind
    content_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Source:
    """The response that the page was made from.

    Attributes:
        url: without its fragment.
        status: HTTP status; None when there is no response.
        mime: bare media type.
        headers: names in lower case.
        icons: icons that other pages have brought in not long ago; this one adds its own.
    """

    url: str
    status: int | None
    mime: str
    headers: dict[str, str]
    icons: set[str]

    @property
    def may_have_icon(self) -> bool:
        """Whether it is worth asking for one: not on error pages and files."""
        return self.mime in _MARKUP and (self.status or 200) < 400


@dataclass(slots=True)
class Gathered:
    """What was made of a page; filled in as it is made, so that what came before a deadline is kept.

    Attributes:
        title: the page's title; empty when it has none.
        artifacts: what was made.
        outlinks: absolute http(s) URLs that the page links to, each once.
        robots_meta: see `render.visit.Visit`.
        facts: what the page says of itself.
        links: `outlinks` and those of the head, with where they stand.
        pictures: sizes of the pictures among the artifacts.
        favicon: URL of the page's icon; empty when none was loaded.
        notes: what is less than whole in an artifact, a sentence each.
    """

    title: str = ""
    artifacts: list[Artifact] = field(default_factory=list)
    outlinks: tuple[str, ...] = ()
    robots_meta: tuple[tuple[str, str], ...] = ()
    facts: tuple[Fact, ...] = ()
    links: tuple[PageLink, ...] = ()
    pictures: list[Picture] = field(default_factory=list)
    favicon: str = ""
    notes: list[str] = field(default_factory=list)

    def keep(self, kind: ArtifactKind, content_type: str, data: bytes) -> None:
        """Add an artifact."""
        self.artifacts.append(Artifact(kind, content_type, data))

    def keep_picture(self, kind: ArtifactKind, data: bytes, *, cut_from: int | None = None) -> None:
        """Add a picture, and its size."""
        content_type, width, height = picture_size(data)
        self.keep(kind, content_type, data)
        self.pictures.append(Picture(str(kind), width, height, cut_from))


async def gather(
    page: Page, source: Source, settings: VisitSettings, steps: Steps, found: Gathered
) -> None:
    """Make of the page what the settings ask for; what fails on its own leaves the others be.

    Args:
        page: at rest.
        source: its document.
        settings: what to make.
        steps: time, and what falls short.
        found: where it goes.

    Raises:
        PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    asked = ""
    if settings.favicon and source.may_have_icon:
        asked = await _ask_for_icon(page, source, steps, found)
    await _gather_facts(page, source, steps, found)
    view = None
    if settings.view or settings.thumbnail or settings.full_page:
        # A document that broke off before its body began is never drawn.
        limit_s = BROKEN_VIEW_S if page.broke_off else float("inf")
        view = await steps.make("view", picture_view(page, settings), limit_s=limit_s)
    if view is not None and settings.view:
        found.keep_picture(ArtifactKind.VIEW, view)
    if not source.mime.startswith(("image/", "audio/", "video/")) or source.mime == "image/svg+xml":
        await _gather_words(page, settings, steps, found)
    if settings.full_page:
        await _gather_full_page(page, view, settings, steps, found)
    if settings.thumbnail and view is not None:
        with steps.step("thumbnail"):
            # Ten milliseconds or more, in which others' visits go on.
            small = await asyncio.to_thread(thumbnail, view)
            found.keep_picture(ArtifactKind.THUMBNAIL, small)
    if settings.pdf:
        printed = await steps.make("pdf", print_pdf(page))
        if printed is not None:
            found.keep(ArtifactKind.PDF, "application/pdf", printed)
    if asked:
        await _await_icon(page, asked, source, steps, found)


async def _ask_for_icon(page: Page, source: Source, steps: Steps, found: Gathered) -> str:
    """Have the page's icon loaded; its URL, or nothing when none has to be waited for."""
    with steps.step("favicon"):
        limit_s = steps.share_s(FAVICON_PATIENCE_S)
        url: str = await steps.attempt(page.call("favicon", "choose", ""), limit_s) or ""
        if url in source.icons:
            found.favicon = url
            return ""
        if url:
            await steps.attempt(page.call("favicon", "load", url), limit_s)
        return url


async def _await_icon(page: Page, url: str, source: Source, steps: Steps, found: Gathered) -> None:
    with steps.step("favicon"):
        loaded = page.call("favicon", "wait", url)
        if await steps.attempt(loaded, steps.share_s(FAVICON_PATIENCE_S)):
            found.favicon = url
            if len(source.icons) < ICONS_KNOWN:
                source.icons.add(url)


async def _gather_facts(page: Page, source: Source, steps: Steps, found: Gathered) -> None:
    measured = await steps.make("measure", page.call("measure"))
    if measured is not None:
        found.title = " ".join(measured["title"].split())
        found.robots_meta = tuple((name, content) for name, content in measured["robots"])
    with steps.step("facts"):
        raw = await steps.attempt(page.call("facts"), steps.share_s())
        if isinstance(raw, dict):
            found.facts = read_facts(raw, url=source.url, headers=source.headers)


async def _gather_words(page: Page, settings: VisitSettings, steps: Steps, found: Gathered) -> None:
    documents = Documents(page)
    if settings.dom:
        dom = await steps.make("dom", read_dom(page, documents))
        if dom is not None:
            _keep_dom(dom, steps, found)
    if settings.text:
        text = await steps.make("text", read_text(documents))
        if text is not None:
            found.keep(ArtifactKind.TEXT, "text/plain; charset=utf-8", _utf8(text))
    links = await steps.make("outlinks", read_links(documents))
    found.links = tuple((links or ())[:LINK_LIMIT])
    found.outlinks = tuple(dict.fromkeys(link.url for link in links or () if _leads_on(link)))
    if links is not None and len(links) > LINK_LIMIT:
        found.notes.append(f"links: {LINK_LIMIT} of {len(links)} are told with their place.")
    if documents.silent:
        found.notes.append(f"frames: {documents.silent} did not answer and are left out.")


def _keep_dom(dom: Dom, steps: Steps, found: Gathered) -> None:
    found.keep(ArtifactKind.DOM, "text/html; charset=utf-8", _utf8(dom.html))
    if dom.truncated:
        steps.fall_short("dom: cut")


def _leads_on(link: PageLink) -> bool:
    return link.kind != "link" or not _ONWARD.isdisjoint(link.rel.split())


async def _gather_full_page(
    page: Page, view: bytes | None, settings: VisitSettings, steps: Steps, found: Gathered
) -> None:
    # Behaviours and late scripts move things: what counts is how high it is now.
    measured = await steps.make("measure", page.call("measure"))
    if measured is None:
        return
    height = measured["height"]
    if height <= settings.viewport_height:
        # The viewport shows all of it.
        if view is not None:
            found.keep_picture(ArtifactKind.FULL_PAGE, view)
        return
    picture = picture_full_page(page, height, measured["scale"], settings)
    full = await steps.make("full_page", picture)
    if full is None:
        return
    found.keep_picture(ArtifactKind.FULL_PAGE, full.data, cut_from=full.cut_from)
    if full.note:
        found.notes.append(full.note)


def _utf8(text: str) -> bytes:
    """UTF-8, with half characters, which a page may make, replaced."""
    return text.encode("utf-8", errors="replace")
