"""Artifacts of a page at rest: screenshots, final DOM, text, links, facts, favicon.

Each script returns what its own isolated world can read and marks where embedded documents belong, whose results are
inserted here; a document that does not answer leaves its place empty.
"""

import asyncio
from dataclasses import dataclass, field, fields
from typing import Any

from core.captures import ArtifactKind
from core.config.settings import VisitSettings
from core.page_facts import PageFact, read_facts
from core.page_manifest import PageLink, PagePicture
from render.cdp import CommandError
from render.network_log import DocumentResponse
from render.page import BrowserPage
from render.page_frames import FrameDocument, PageDocuments
from render.screenshot import capture_full_page, capture_view, picture_size, print_pdf, thumbnail
from render.settle import VisitSteps

DOM_LIMIT_CHARS = 20_000_000
CANVAS_LIMIT_CHARS = 4_000_000
TEXT_LIMIT_CHARS = 2_000_000
OUTLINK_LIMIT = 10_000
OUTLINK_URL_LIMIT = 8_000
LINK_LIMIT = 2_000  # links recorded with their positions
_LINK_LIMITS = (OUTLINK_LIMIT, OUTLINK_URL_LIMIT, LINK_LIMIT)
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\u00a0": "&nbsp;"})
_LINK_FIELDS = {f.name for f in fields(PageLink)}


@dataclass(slots=True)
class FinalDom:
    """Final DOM as HTML."""

    html: str
    truncated: bool  # whether a limit has cut it
    undrawn: int = 0  # scenes for which the browser gave no WebGL or WebGPU


async def read_dom(page: BrowserPage, documents: PageDocuments) -> FinalDom:
    """Return the DOM of the page with the DOMs of all its frames inserted."""
    answer = await documents.read("dom", DOM_LIMIT_CHARS, CANVAS_LIMIT_CHARS)
    pictures = [await _picture(page, clip) for clip in answer["canvases"]]
    return await _fill(documents, documents.root, answer, pictures)


async def read_text(documents: PageDocuments) -> str:
    """Return the visible text of the page and its frames, in reading order."""
    answer = await documents.read("text", TEXT_LIMIT_CHARS)
    return (await _fill_text(documents, documents.root, answer))[:TEXT_LIMIT_CHARS]


async def read_links(documents: PageDocuments) -> tuple[PageLink, ...]:
    """Return the links of the page and its frames, in document order."""
    entries = await _fill_links(documents, documents.root, await documents.read("outlinks", *_LINK_LIMITS))
    return tuple(PageLink(**entry) for entry in entries[:OUTLINK_LIMIT])


async def _fill(
    documents: PageDocuments, frame: FrameDocument, answer: dict[str, Any], pictures: list[str]
) -> FinalDom:
    parts, truncated, undrawn = answer["parts"], answer["truncated"], answer["undrawn"]
    numbers = [part[0] for part in parts if isinstance(part, list)]
    answers: dict[int, str] = {}
    inner = await documents.each(frame, numbers, "dom", DOM_LIMIT_CHARS, CANVAS_LIMIT_CHARS)
    for number, (child, value) in inner.items():
        filled = await _fill(documents, child, value, [])
        answers[number] = filled.html
        truncated |= filled.truncated
        undrawn += filled.undrawn
    html: list[str] = []
    length = 0
    for part in parts:
        if isinstance(part, str):
            text = part
        elif isinstance(part, list):
            number, level = part
            text = answers.get(number, "")
            for _ in range(level):
                text = text.translate(_ESCAPES)
        else:
            text = dict(enumerate(pictures)).get(part["canvas"], "")
        if length + len(text) > 2 * DOM_LIMIT_CHARS:
            # Frames of documents: each keeps its limit, together they do not.
            text, truncated = "", True
        html.append(text)
        length += len(text)
    return FinalDom("".join(html), truncated, undrawn)


async def _picture(page: BrowserPage, clip: list[float]) -> str:
    """Return a screenshot of the clip as a data URL; empty when it fails."""
    area = dict(zip(("x", "y", "width", "height"), clip, strict=True)) | {"scale": 1}
    params = {"format": "png", "optimizeForSpeed": True, "captureBeyondViewport": True, "clip": area}
    try:
        answer = await page.send("Page.captureScreenshot", params)
    except CommandError:
        return ""
    data: str = answer["data"]
    return f"data:image/png;base64,{data}" if len(data) <= CANVAS_LIMIT_CHARS else ""


async def _fill_text(documents: PageDocuments, frame: FrameDocument, answer: list[Any]) -> str:
    numbers = [part for part in answer if not isinstance(part, str)]
    answers: dict[int, str] = {}
    for number, (child, value) in (await documents.each(frame, numbers, "text", TEXT_LIMIT_CHARS)).items():
        answers[number] = (await _fill_text(documents, child, value)).strip("\n")
    text = ""
    for part in answer:
        words = part if isinstance(part, str) else answers.get(part, "")
        if not isinstance(part, str) and words:
            text = text.rstrip("\n") + "\n" if text else text
            words += "\n"
        text += words
    return text


async def _fill_links(documents: PageDocuments, frame: FrameDocument, answer: list[Any]) -> list[dict[str, Any]]:
    numbers = [part for part in answer if not isinstance(part, dict)]
    inner = await documents.each(frame, numbers, "outlinks", *_LINK_LIMITS)
    entries: list[dict[str, Any]] = []
    for part in answer:
        if isinstance(part, dict):
            entries.append({key: value for key, value in part.items() if key in _LINK_FIELDS})
        elif part in inner:
            entries += [entry | {"frame": True} for entry in await _fill_links(documents, *inner[part])]
    return entries


# The page's icon was requested before the other artifacts; the wait for it is short.
FAVICON_PATIENCE_S = 1.0
BROKEN_VIEW_S = 3.0
GLYPHS_S = 3.0
FULL_PAGE_SHARE = 0.8
ICONS_KNOWN = 10_000
_MARKUP = frozenset({"text/html", "application/xhtml+xml"})
# Links that lead a reader on; what else the head names is another form of the same page.
_ONWARD = frozenset({"next", "prev"})


@dataclass(frozen=True, slots=True)
class PageArtifact:
    """Artifact made of the page: its kind, full Content-Type, and bytes."""

    kind: ArtifactKind
    content_type: str
    data: bytes = field(repr=False)


@dataclass(slots=True)
class ArtifactSet:
    """Artifacts of one page, as in `render.visit.Visit`, filled in as they are made: a deadline loses none."""

    title: str = ""
    artifacts: list[PageArtifact] = field(default_factory=list)
    outlinks: tuple[str, ...] = ()
    robots_meta: tuple[tuple[str, str], ...] = ()
    facts: tuple[PageFact, ...] = ()
    links: tuple[PageLink, ...] = ()
    pictures: list[PagePicture] = field(default_factory=list)
    favicon: str = ""
    notes: list[str] = field(default_factory=list)

    def keep(self, kind: ArtifactKind, content_type: str, data: bytes) -> None:
        """Add an artifact."""
        self.artifacts.append(PageArtifact(kind, content_type, data))

    def keep_picture(self, kind: ArtifactKind, data: bytes, *, cut_from: int | None = None) -> None:
        """Add a picture and its size."""
        content_type, width, height = picture_size(data)
        self.keep(kind, content_type, data)
        self.pictures.append(PagePicture(str(kind), width, height, cut_from))


async def make_artifacts(
    page: BrowserPage,
    source: DocumentResponse,
    icons: dict[str, asyncio.Future[bool]],
    settings: VisitSettings,
    steps: VisitSteps,
    result: ArtifactSet,
) -> None:
    """Make the artifacts that the settings request, each by itself; `icons` are those that all visits loaded."""
    icon, is_loaded = "", None
    if settings.favicon and source.mime in _MARKUP and (source.status or 200) < 400:
        icon, is_loaded = await _ask_for_icon(page, icons, steps)
    if (measured := await steps.make("measure", page.call("measure"))) is not None:
        result.title = " ".join(measured["title"].split())
        result.robots_meta = tuple((name, content) for name, content in measured["robots"])
    with steps.step("facts"):
        raw = await steps.attempt(page.call("facts"), steps.share_s())
        if isinstance(raw, dict):
            result.facts = read_facts(raw, url=source.url, headers=source.headers)
    view = None
    if settings.view or settings.thumbnail or settings.full_page:
        # A document that was truncated before its body is never drawn.
        limit_s = BROKEN_VIEW_S if page.broke_off else float("inf")
        view = await steps.make("view", capture_view(page, settings), limit_s=limit_s)
    if view is not None and settings.view:
        result.keep_picture(ArtifactKind.VIEW, view)
    if not source.mime.startswith(("image/", "audio/", "video/")) or source.mime == "image/svg+xml":
        await _gather_words(page, settings, steps, result)
    if settings.full_page:
        await _gather_full_page(page, view, settings, steps, result)
    if settings.thumbnail and view is not None:
        with steps.step("thumbnail"):
            # Takes ten milliseconds or more; other visits continue meanwhile.
            result.keep_picture(ArtifactKind.THUMBNAIL, await asyncio.to_thread(thumbnail, view))
    if settings.pdf and (printed := await steps.make("pdf", print_pdf(page))) is not None:
        result.keep(ArtifactKind.PDF, "application/pdf", printed)
    if icon:
        with steps.step("favicon"):
            waiting = page.call("favicon", "wait", icon) if is_loaded is None else asyncio.shield(is_loaded)
            loaded = await steps.attempt(waiting, steps.share_s(FAVICON_PATIENCE_S))
            result.favicon = icon if loaded else ""
            if loaded is None:
                icons.pop(icon, None)  # another visit may find out
            elif is_loaded is None and icon in icons and not icons[icon].done():
                icons[icon].set_result(bool(loaded))


async def _ask_for_icon(
    page: BrowserPage, icons: dict[str, asyncio.Future[bool]], steps: VisitSteps
) -> tuple[str, asyncio.Future[bool] | None]:
    """Return the page's icon, empty for none, and whether another visit loads it; None when this one does."""
    with steps.step("favicon"):
        limit_s = steps.share_s(FAVICON_PATIENCE_S)
        icon: str = await steps.attempt(page.call("favicon", "choose", ""), limit_s) or ""
        is_loaded = icons.get(icon)
        if icon and is_loaded is None:
            if len(icons) < ICONS_KNOWN:
                icons[icon] = asyncio.get_running_loop().create_future()
            await steps.attempt(page.call("favicon", "load", icon), limit_s)
        return icon, is_loaded


async def _gather_words(page: BrowserPage, settings: VisitSettings, steps: VisitSteps, result: ArtifactSet) -> None:
    documents = PageDocuments(page)
    if settings.dom and (dom := await steps.make("dom", read_dom(page, documents))) is not None:
        result.keep(ArtifactKind.DOM, "text/html; charset=utf-8", _utf8(dom.html))
        if dom.truncated:
            steps.fall_short("dom: cut")
        if dom.undrawn:
            result.notes.append(f"scenes: {dom.undrawn} not drawn, the browser has no WebGL or WebGPU for them.")
    if settings.text and (text := await steps.make("text", read_text(documents))) is not None:
        result.keep(ArtifactKind.TEXT, "text/plain; charset=utf-8", _utf8(text))
        if not text.isascii():  # every font has those letters
            from render.fonts import missing_glyphs

            with steps.step("glyphs"):
                missing = await steps.attempt(missing_glyphs(page, text), steps.share_s(GLYPHS_S))
            if missing:
                result.notes.append(f"glyphs: no font for {', '.join(missing)}, boxes are drawn.")
    links = await steps.make("outlinks", read_links(documents))
    result.links = tuple((links or ())[:LINK_LIMIT])
    onward = (each for each in links or () if each.kind != "link" or not _ONWARD.isdisjoint(each.rel.split()))
    result.outlinks = tuple(dict.fromkeys(each.url for each in onward))
    if links is not None and len(links) > LINK_LIMIT:
        result.notes.append(f"links: {LINK_LIMIT} of {len(links)} are listed with their position.")
    if documents.silent:
        result.notes.append(f"frames: {documents.silent} did not answer and are omitted.")


async def _gather_full_page(
    page: BrowserPage, view: bytes | None, settings: VisitSettings, steps: VisitSteps, result: ArtifactSet
) -> None:
    # Behaviours and late scripts move things: what counts is how high it is now.
    measured = await steps.make("measure", page.call("measure"))
    if measured is None:
        return
    height = measured["height"]
    if height <= settings.viewport_height:
        # The viewport shows all of it.
        if view is not None:
            result.keep_picture(ArtifactKind.FULL_PAGE, view)
        return
    picture = capture_full_page(page, height, measured["scale"], settings)
    with steps.step("full_page"):
        # The last step that takes long: it may use up most of the time that is left.
        full = await steps.attempt(picture, steps.left_s * FULL_PAGE_SHARE)
    if full is None:
        steps.fall_short("missing: full_page")
        return
    result.keep_picture(ArtifactKind.FULL_PAGE, full.data, cut_from=full.cut_from)
    if full.note:
        result.notes.append(full.note)


def _utf8(text: str) -> bytes:
    """Encode as UTF-8; lone surrogates, which a page may produce, are replaced."""
    return text.encode("utf-8", errors="replace")
