"""What a page says, through all its documents: its final DOM, its text, its links.

A script tells what its own world can read and where others' documents belong; here they are asked,
and put there. One document that does not answer leaves its place empty.
"""

from dataclasses import dataclass, fields
from typing import Any

from core.pages import PageLink
from render.cdp import CommandError
from render.documents import Document, Documents
from render.page import Page

DOM_LIMIT_CHARS = 20_000_000
CANVAS_LIMIT_CHARS = 4_000_000
TEXT_LIMIT_CHARS = 2_000_000
OUTLINK_LIMIT = 10_000
OUTLINK_URL_LIMIT = 8_000
LINK_LIMIT = 2_000  # so many are told with where they stand
_LINK_LIMITS = (OUTLINK_LIMIT, OUTLINK_URL_LIMIT, LINK_LIMIT)
_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\u00a0": "&nbsp;"}
)
_LINK_FIELDS = {f.name for f in fields(PageLink)}


@dataclass(slots=True)
class Dom:
    """The final DOM as HTML; `truncated` when a limit has cut it."""

    html: str
    truncated: bool


async def read_dom(page: Page, documents: Documents) -> Dom:
    """The DOM of the page with those of all its frames in it.

    Raises:
        PageGoneError, BrowserUnavailableError, CommandError: as `Page.call`.
    """
    documents.again()
    told = await documents.root.call("dom", DOM_LIMIT_CHARS, CANVAS_LIMIT_CHARS)
    pictures = [await _picture(page, clip) for clip in told["canvases"]]
    return await _fill(documents, documents.root, told, pictures)


async def read_text(documents: Documents) -> str:
    """The visible text of the page and its frames, in reading order.

    Raises:
        PageGoneError, BrowserUnavailableError, CommandError: as `Page.call`.
    """
    documents.again()
    told = await documents.root.call("text", TEXT_LIMIT_CHARS)
    return (await _fill_text(documents, documents.root, told))[:TEXT_LIMIT_CHARS]


async def read_links(documents: Documents) -> tuple[PageLink, ...]:
    """Links of the page and its frames, in document order.

    Raises:
        PageGoneError, BrowserUnavailableError, CommandError: as `Page.call`.
    """
    documents.again()
    told = await documents.root.call("outlinks", *_LINK_LIMITS)
    entries = await _fill_links(documents, documents.root, told)
    return tuple(PageLink(**entry) for entry in entries[:OUTLINK_LIMIT])


async def _fill(
    documents: Documents, frame: Document, told: dict[str, Any], pictures: list[str]
) -> Dom:
    parts, truncated = told["parts"], told["truncated"]
    numbers = [part[0] for part in parts if isinstance(part, list)]
    answers: dict[int, str] = {}
    if numbers:
        inner = await documents.each(frame, numbers, "dom", DOM_LIMIT_CHARS, CANVAS_LIMIT_CHARS)
        for number, (there, said) in inner.items():
            filled = await _fill(documents, there, said, [])
            answers[number] = filled.html
            truncated |= filled.truncated
    html: list[str] = []
    length = 0
    for part in parts:
        text = _part(part, answers, pictures)
        if length + len(text) > 2 * DOM_LIMIT_CHARS:
            # Frames of documents: each keeps its limit, together they do not.
            text, truncated = "", True
        html.append(text)
        length += len(text)
    return Dom("".join(html), truncated)


def _part(part: Any, answers: dict[int, str], pictures: list[str]) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        number, level = part
        text = answers.get(number, "")
        for _ in range(level):
            text = text.translate(_ESCAPES)
        return text
    at = part["canvas"]
    return pictures[at] if at < len(pictures) else ""


async def _picture(page: Page, clip: list[float]) -> str:
    """What is seen at that place of the page, as a data URL; empty when it cannot be had."""
    x, y, width, height = clip
    area = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
    try:
        answer = await page.send(
            "Page.captureScreenshot",
            {
                "format": "png",
                "optimizeForSpeed": True,
                "captureBeyondViewport": True,
                "clip": area,
            },
        )
    except CommandError:
        return ""
    data: str = answer["data"]
    return f"data:image/png;base64,{data}" if len(data) <= CANVAS_LIMIT_CHARS else ""


async def _fill_text(documents: Documents, frame: Document, told: list[Any]) -> str:
    numbers = [part for part in told if not isinstance(part, str)]
    answers: dict[int, str] = {}
    if numbers:
        inner = await documents.each(frame, numbers, "text", TEXT_LIMIT_CHARS)
        for number, (there, said) in inner.items():
            answers[number] = (await _fill_text(documents, there, said)).strip("\n")
    text = ""
    for part in told:
        words = part if isinstance(part, str) else answers.get(part, "")
        if not isinstance(part, str) and words:
            text = text.rstrip("\n") + "\n" if text else text
            words += "\n"
        text += words
    return text


async def _fill_links(
    documents: Documents, frame: Document, told: list[Any]
) -> list[dict[str, Any]]:
    numbers = [part for part in told if not isinstance(part, dict)]
    inner: dict[int, tuple[Document, Any]] = {}
    if numbers:
        inner = await documents.each(frame, numbers, "outlinks", *_LINK_LIMITS)
    entries: list[dict[str, Any]] = []
    for part in told:
        if isinstance(part, dict):
            entries.append({key: value for key, value in part.items() if key in _LINK_FIELDS})
        elif part in inner:
            there, said = inner[part]
            entries += [
                entry | {"frame": True} for entry in await _fill_links(documents, there, said)
            ]
    return entries
