"""Self-contained files: an archived page as HTML, PDF, PNG or text, and HTML reports; none has scripts.

The HTML of an archived page is its sanitised copy, with what it loads as ``data:`` URLs. Pictures, PDF and text are
those of the capture, or of the copy where levels or take-downs withhold something.
"""

import asyncio
import base64
import html
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import httpx
import jinja2
from PIL import Image

from core.captures import ArtifactKind
from core.clock import Clock
from core.config.settings import BrowserSettings
from core.errors import UnavailableError
from core.layout import Layout
from core.page_manifest import PageScreen
from playback.access.levels import DEFAULT_LEVEL
from playback.playback_server import ServerOrigins
from playback.web.page_store import PageStore
from qa.baseline import AFTER, BEFORE, BaselineFolder, BaselineHeader
from qa.compare.picture_tiles import encode_image, shrink_picture
from qa.copy_view import screen_at_capture, view_copy
from qa.local_replay import open_browsers, open_collection_replay, running_replay
from qa.page_changes import PlaybackRegression, RegressionKind, compare_playback, count_by_kind
from qa.web.check_presentation import share
from warc.artifact_reader import ArtifactReader
from warc.index.database import open_database
from weboid.app.text_table import clean

_WIDEST_PX = 640  # three pictures are shown side by side
_TALLEST_PX = 8_000
_QUALITY = 70  # of WebP


_PART_BYTES = 10_000_000  # of one resource, and of all of them: others are left out
_PAGE_BYTES = 100_000_000
_NESTED_SHEETS = 5
_EMPTY = "data:,"
_DOCTYPE = re.compile(r"\s*<!doctype[^>]*>", re.IGNORECASE)
# Tags as the sanitiser writes them, with quoted values, and style elements.
_TAG = re.compile(r'<style\b[^>]*>.*?</style>|<[a-z](?:[^">]|"[^"]*")*>', re.IGNORECASE | re.DOTALL)
_PART = re.compile(r"/c/\d{14}(im|mk|cs|cp|fo|me)_/(?:&amp;|[^\s\"&<>])+")  # of `MementoModifier`
_SHEET_PART = re.compile(r'(?<=")/c/\d{14}(im|mk|cs|cp|fo|me)_/[^"\n]+(?=")')
_DESTINATIONS = {"cs": "style", "cp": "style", "fo": "font", "me": "video"}  # Sec-Fetch-Dest by modifier
_STORED = {
    ".png": (ArtifactKind.FULL_PAGE, ArtifactKind.VIEW),
    ".pdf": (ArtifactKind.PDF,),
    ".txt": (ArtifactKind.TEXT,),
}
_POLICY = (
    "default-src 'none'; img-src data:; media-src data:; style-src data: 'unsafe-inline'; font-src data:;"
    " form-action 'none'; base-uri 'none'"
)


@dataclass(frozen=True, slots=True)
class ArchivedPage:
    """Page of a collection that is exported by itself."""

    layout: Layout
    database_url: str
    page_id: str
    browser: BrowserSettings
    is_stored: bool  # artifacts of the capture may be exported: nothing is withheld, or everything is requested
    ignores_levels: bool = False

    async def file(self, ending: str, clock: Clock) -> bytes:
        """Return the page in the form of an ending, such as ``.html``; UnavailableError: it cannot be made."""
        stored = self._stored(ending, clock) if ending != ".html" and self.is_stored else None
        if stored is not None:
            return stored
        async with running_replay(self.layout, self.database_url, cached=False) as origins:
            replayed = partial(
                open_collection_replay, self.layout, self.database_url, origins, DEFAULT_LEVEL, clock=clock
            )
            with replayed() as replay:
                page = await asyncio.to_thread(replay.page, self.page_id)
            if page is None:
                raise UnavailableError("The page is hidden, or no longer in the index.")
            if ending == ".html":
                async with httpx.AsyncClient(base_url=origins.replay, timeout=60) as client:
                    return await _PageEmbedding(client, origins.front).document(page.address.url)
            async with open_browsers(self.browser, clock=clock) as lend, lend() as browser:
                manifest = await asyncio.to_thread(page.manifest)
                screen = PageScreen() if manifest is None else screen_at_capture(manifest)
                view = await view_copy(browser, page.address, screen, clock=clock, pdf=ending == ".pdf")
            content = {".pdf": view.pdf, ".png": view.picture, ".txt": (view.text or "").encode() or None}[ending]
            if content is None:
                raise UnavailableError(f"The copy cannot be shown: {view.reason or 'it is not an HTML page'}")
            return content

    def _stored(self, ending: str, clock: Clock) -> bytes | None:
        """Return the artifact of the capture; None: there is none, or the level does not cover it."""
        if not self.ignores_levels and ending != ".txt":
            nowhere = ServerOrigins("http://front.invalid", "http://replay.invalid")
            with open_collection_replay(self.layout, self.database_url, nowhere, DEFAULT_LEVEL, clock=clock) as replay:
                shown = replay.page(self.page_id)
                if shown is None or shown.withheld:
                    return None
        with closing(open_database(self.layout, self.database_url)) as database:
            store = PageStore(database)
            page = store.with_ids([self.page_id])[self.page_id]
            places = [place for kind in _STORED[ending] if (place := store.place(page, kind))]
            data = ArtifactReader(self.layout).picture(places[0]) if places else None
        if data is None or ending != ".png":
            return data
        with Image.open(io.BytesIO(data)) as opened:
            return data if opened.format == "PNG" else encode_image(opened, "PNG")


class _PageEmbedding:
    """Copy whose parts are put into it as ``data:`` URLs; parts that playback refuses, or large ones, are left out."""

    def __init__(self, client: httpx.AsyncClient, front: str) -> None:
        self._client, self._front = client, front
        self._urls: dict[str, str] = {}  # by path
        self._left = _PAGE_BYTES

    async def document(self, url: str) -> bytes:
        """Return the copy as one HTML file."""
        answer = await self._client.get(url, follow_redirects=True)
        if answer.status_code != 200 or not answer.headers.get("content-type", "").startswith("text/html"):
            raise UnavailableError(f"Playback shows no HTML copy of the page (status {answer.status_code}).")
        text = await self._with_parts(answer.text)
        policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        # Before the first element, so that it is in the head, whatever that looks like (HTML, 13.2.6.4).
        doctype = _DOCTYPE.match(text)
        start = doctype.end() if doctype else 0
        return (text[:start] + policy + text[start:]).encode()

    async def _with_parts(self, text: str) -> str:
        """Return markup with its parts, also those of the documents in its frames; its links lead to the live pages."""
        pieces, at = [], 0
        for tag in _TAG.finditer(text):
            pieces.append(text[at : tag.start()])
            at = tag.end()
            # The sanitiser writes a frame's document as its last attribute.
            parts = tag[0].partition(' srcdoc="')
            start, framed, document = parts if tag[0].startswith("<iframe") else (tag[0], "", "")
            pattern = _SHEET_PART if start[:6].lower() == "<style" else _PART
            for part in pattern.finditer(start):
                await self._embed(part[0], part[1], 0)
            start = pattern.sub(lambda part: self._urls.get(part[0], _EMPTY), start)
            pieces.append(re.sub(rf'"(?:{re.escape(self._front)}/page|/c)/\d{{14}}(?:[a-z]{{2}}_)?/', '"', start))
            if framed:
                inner = await self._with_parts(html.unescape(document.removesuffix('">')))
                pieces.append(f'{framed}{html.escape(inner)}">')
        return "".join((*pieces, text[at:]))

    async def _embed(self, path: str, modifier: str, depth: int) -> None:
        """Fetch a part, with those of a style sheet, and note its ``data:`` URL."""
        if path in self._urls or depth > _NESTED_SHEETS:
            return
        self._urls[path] = _EMPTY
        headers = {"Sec-Fetch-Dest": _DESTINATIONS.get(modifier, "image")}
        data = bytearray()
        async with self._client.stream("GET", html.unescape(path), headers=headers) as answer:
            async for piece in answer.aiter_bytes():
                data += piece
                if len(data) > min(_PART_BYTES, self._left):
                    return
        mime = answer.headers.get("content-type", "").partition(";")[0]
        if answer.status_code != 200:
            return
        if mime == "text/css":
            sheet = data.decode("utf-8", "replace")
            for part in _SHEET_PART.finditer(sheet):
                await self._embed(part[0], part[1], depth + 1)
            data = bytearray(_SHEET_PART.sub(lambda part: self._urls.get(part[0], _EMPTY), sheet).encode())
        self._left -= len(data)
        self._urls[path] = f"data:{mime};base64,{base64.b64encode(data).decode()}"


def render_standalone(template: str, **values: Any) -> str:
    """Render a template of this package with the values, which are escaped."""
    return _templates().get_template(template).render(**values)


def picture_data_url(picture: bytes | None) -> str:
    """Return the picture, scaled down and re-encoded, as a ``data:`` URL; empty when it is not a picture."""
    data = picture or b""
    small = shrink_picture(data, widest=_WIDEST_PX, tallest=_TALLEST_PX, quality=_QUALITY)
    return "" if small is None else f"data:image/webp;base64,{base64.b64encode(small).decode()}"


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("weboid.app", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Any] = {"share": lambda part: "-" if part is None else f"{share(part)} %", "clean": clean}
    environment.filters.update(filters)
    return environment


_MOST_PICTURED = 40  # so the page stays small enough to be opened
_MOST_LISTED = 500


def baseline_report_page(
    baseline: BaselineFolder, header: BaselineHeader, engine: str, regressions: Sequence[PlaybackRegression]
) -> str:
    """Render the baseline report; `regressions` has the result of each page, worst first."""
    differing = [each for each in regressions if each.kind is not RegressionKind.UNCHANGED]
    return render_standalone(
        "baseline.html",
        header=header,
        engine=engine,
        counts={str(kind): count for kind, count in count_by_kind(regressions).items()},
        pictured=[_pictured(baseline, each) for each in differing[:_MOST_PICTURED]],
        listed=differing[_MOST_PICTURED:_MOST_LISTED],
        left=max(0, len(differing) - _MOST_LISTED),
    )


def _pictured(
    baseline: BaselineFolder, regression: PlaybackRegression
) -> tuple[PlaybackRegression, list[tuple[str, str]]]:
    before, after = (baseline.shown(BEFORE, regression.before), baseline.shown(AFTER, regression.after))
    drawn = compare_playback(before, after, heat=True).picture
    heat = None if drawn is None else drawn.heat
    pictures = {"Before": before.picture, "After": after.picture, "Where they differ": heat}
    return regression, [(name, picture_data_url(data)) for name, data in pictures.items()]
