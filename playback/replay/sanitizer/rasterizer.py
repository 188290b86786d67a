"""Rasterizer of SVG, old picture formats and PDF pages; for makers only.

resvg runs no scripts, but opens files that an ``image`` names, and copies shapes as often as ``use`` asks. So an SVG is
reduced first: no entities, no references out of the document, a bounded number of shapes, and a size set by us (P-02).
What cannot be drawn is a PermanentError.
"""

import io
import json
import re
import struct
import time
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

import resvg_py

from core.errors import PermanentError
from playback.replay.sanitizer.allowlist import NAMES
from playback.replay.sanitizer.media_sniffer import RasterKind, decode_xml, image_type, raster_kind
from playback.url_paths import ReplayUrlRewriter

if TYPE_CHECKING:
    from PIL.Image import Image

_LONGEST = 8_000_000  # characters, once inflated
_MOST_SHAPES = 100_000  # with all copies; maps of the world have 20,000
_DEEPEST = 200
_MOST_PIXELS = 16_000_000
_SHARP_PIXELS = 4_000_000  # up to here it is drawn at its full scale
_DEFAULT_SIZE = (300.0, 150.0)  # CSS 2, 10.3.2

_DECLARATION = re.compile(r"\ufeff?\s*<\?xml[^>]{0,500}\?>")
_DOCTYPE = re.compile(r"<!DOCTYPE[^>\[]{0,1000}(?:\[([^\]]{0,20000})\])?\s*>", re.IGNORECASE)
# What old drawing programs declare for their namespaces: a plain value, no reference in it.
_ENTITY = re.compile(r"<!ENTITY\s+([A-Za-z_][\w.-]{0,60})\s+(?:\"([^\"<&%]{0,300})\"|'([^'<&%]{0,300})')\s*>")
_REFERENCE = re.compile(r"&([A-Za-z_][\w.-]{0,60});")
_PREDEFINED = {"amp", "lt", "gt", "quot", "apos"}
NAMESPACE = "http://www.w3.org/2000/svg"
_GONE: frozenset[str] = NAMES["drawings"]["dropped"]
_LENGTH = re.compile(r"\s*\+?(\d{0,9}(?:\.\d{0,9})?)(?:e\+?[0-3])?\s*(px|pt|pc|mm|cm|in|em|rem|ex)?\s*")
_UNITS = {"pt": 4 / 3, "pc": 16, "mm": 96 / 25.4, "cm": 96 / 2.54, "in": 96} | {
    "em": 16, "rem": 16, "ex": 8,
}  # fmt: skip
_PICTURE = re.compile(r"\s*data:image/(?:png|jpe?g|gif|webp);base64,([A-Za-z0-9+/=\s]+)")
URL = re.compile(r"url\(\s*[\"']?#([^\s\"')]{1,200})")
_PROBE = "mW"
_TYPEFACES = {
    "sans_serif": ("Arial", "Liberation Sans", "DejaVu Sans", "Noto Sans", "FreeSans"),
    "serif": ("Times New Roman", "Liberation Serif", "DejaVu Serif", "Noto Serif", "FreeSerif"),
    "monospace": ("Courier New", "Liberation Mono", "DejaVu Sans Mono", "Noto Sans Mono"),
}
_COLOUR = re.compile(r"[A-Za-z0-9#(),.%/ -]{1,60}")


def raster_svg(data: bytes, scale: float = 1.0, colour: str = "") -> bytes:
    """Return the document as a PNG image, with `scale` pixels per CSS pixel."""
    if data.startswith(b"\x1f\x8b"):
        try:
            data = zlib.decompressobj(31).decompress(data, _LONGEST)
        except zlib.error as error:
            raise PermanentError("A compressed drawing that is damaged.") from error
    return draw(parse_svg(decode_xml(data)), scale, colour=colour)


def draw(
    root: ElementTree.Element,
    scale: float,
    size: tuple[float, float] | None = None,  # its box in CSS pixels; None: its own size
    colour: str = "",  # CSS value of ``currentColor``; empty: black
) -> bytes:
    """Return the parsed document as a PNG image; reduces the tree in place."""
    _cut_down(root, 0)
    if _weight(root) > _MOST_SHAPES:
        raise PermanentError("A drawing with too many shapes.")
    width, height = size or natural_size(root)
    if "viewBox" not in root.attrib:  # then its box cuts it, and does not scale it (SVG 2, 8.2)
        root.set("viewBox", f"0 0 {width:g} {height:g}")
    # Drawing scale, reduced when the picture would be too large.
    area = max(width, 1) * max(height, 1)
    if area > _MOST_PIXELS or max(width, height) > 16_384:
        raise PermanentError("A drawing that is too large.")
    scale = scale if area * scale * scale <= _SHARP_PIXELS else 1.0
    root.set("width", f"{max(1.0, width * scale):.3f}")
    root.set("height", f"{max(1.0, height * scale):.3f}")
    if colour and _COLOUR.fullmatch(colour):
        root.set("color", colour)
    try:
        png: bytes = resvg_py.svg_to_bytes(svg_string=ElementTree.tostring(root, encoding="unicode"), **_typefaces())
    except ValueError as error:
        raise PermanentError("A drawing that cannot be drawn.") from error
    return png


@cache
def _typefaces() -> dict[str, Any]:
    """Return this machine's families for CSS's generic ones; without them resvg draws no text."""
    families = {}
    text = f'<svg xmlns="{NAMESPACE}" width="20" height="20"><text y="15">{_PROBE}</text></svg>'
    blank = resvg_py.svg_to_bytes(svg_string=text.replace(_PROBE, ""))
    for generic, candidates in _TYPEFACES.items():
        for family in candidates:
            if resvg_py.svg_to_bytes(svg_string=text, serif_family=family, font_family=family) != blank:
                families[f"{generic}_family"] = family
                break
    # Text in an unavailable font family is drawn in this one.
    if "sans_serif_family" in families:
        families["font_family"] = families["sans_serif_family"]
        families.setdefault("serif_family", families["sans_serif_family"])
    return families


def parse_svg(text: str) -> ElementTree.Element:
    """Parse the document, with plain entities resolved."""
    if len(text) > _LONGEST or text.count("<") > 2 * _MOST_SHAPES:
        raise PermanentError("A drawing that is too long.")
    text = _DECLARATION.sub("", text, count=1)
    values: dict[str, str] = {}
    if (doctype := _DOCTYPE.search(text[:40_000])) is not None:
        inner = doctype[1] or ""
        values = {name: double or single for name, double, single in reversed(_ENTITY.findall(inner))}
        if _ENTITY.sub("", inner).upper().count("<!ENTITY"):
            raise PermanentError("A drawing with entities that are not plain text.")
        text = text[: doctype.start()] + text[doctype.end() :]
    if "<!DOCTYPE" in text.upper() or "<!ENTITY" in text.upper():
        raise PermanentError("A drawing with declarations that are not resolved.")
    longest = max(map(len, values.values()), default=0)
    if longest and len(_REFERENCE.findall(text)) * longest > _LONGEST:
        raise PermanentError("A drawing that is too long.")
    text = _REFERENCE.sub(lambda match: match[0] if match[1] in _PREDEFINED else values.get(match[1], ""), text)
    try:
        # Without a document type there are no entities, internal or external.
        root = ElementTree.fromstring(text)  # noqa: S314 see above
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise PermanentError("A drawing that is not well-formed.") from error
    if root.tag == "svg":  # resvg wants the namespace; browsers read it without within HTML
        for each in root.iter():
            if not each.tag.startswith("{"):
                each.tag = f"{{{NAMESPACE}}}{each.tag}"
    if root.tag != f"{{{NAMESPACE}}}svg":
        raise PermanentError("This is not a drawing.")
    return root


def _cut_down(element: ElementTree.Element, depth: int) -> None:
    """Remove elements that are not shapes, and references out of the document."""
    if depth > _DEEPEST:
        raise PermanentError("A drawing that is nested too deeply.")
    for key in list(element.attrib):
        local = key.rpartition("}")[2].lower()
        leads_out = local == "href" and not _is_inner(element.attrib[key])
        if leads_out or local == "base" or local.startswith("on"):
            del element.attrib[key]
    if _local(element) == "style" and "@import" in (element.text or "").lower():
        element.text = ""
    children: list[ElementTree.Element] = []
    for child in element:
        if str(child.tag).startswith(f"{{{NAMESPACE}}}") and _local(child) not in _GONE:
            _cut_down(child, depth + 1)
            children.append(child)
        elif child.tail and child.tail.strip():  # text continues after the removed element
            if children:
                children[-1].tail = (children[-1].tail or "") + child.tail
            else:
                element.text = (element.text or "") + child.tail
    element[:] = children


def _is_inner(value: str) -> bool:
    """Return True for a reference within the document, or an embedded raster image."""
    picture = _PICTURE.fullmatch(value)
    try:
        is_raster = picture is not None and image_type(b64decode(picture[1])) is not None
    except (Base64Error, ValueError):
        is_raster = False
    return is_raster or value.strip().startswith("#")


def _local(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _weight(root: ElementTree.Element) -> int:
    """Return the number of drawn shapes, counting each copy by `use`; a loop is too heavy."""
    named = {each.attrib["id"]: each for each in root.iter() if "id" in each.attrib}
    known: dict[ElementTree.Element, int] = {}
    busy: set[ElementTree.Element] = set()

    def weigh(element: ElementTree.Element, depth: int) -> int:
        if element in known:
            return known[element]
        if element in busy or depth > _DEEPEST:
            return _MOST_SHAPES + 1
        busy.add(element)
        total = 1 + sum(weigh(child, depth + 1) for child in element)
        for key, value in element.attrib.items():
            names = [value.strip()[1:]] if key.rpartition("}")[2] == "href" else URL.findall(value)
            total += sum(weigh(named[name], depth + 1) for name in names if name in named)
        busy.discard(element)
        known[element] = total
        return total

    return weigh(root, 0)


def natural_size(root: ElementTree.Element) -> tuple[float, float]:
    """Return the document's own size in CSS pixels (SVG 2, 8.12 and CSS Images 3, 5.3)."""
    try:
        _, _, box_width, box_height = map(float, re.split(r"[\s,]+", root.get("viewBox", "").strip()))
    except ValueError:
        box_width = box_height = 0.0
    width, height = _length(root.get("width", "")), _length(root.get("height", ""))
    if (width and height) or not (0 < box_width < 1e9 and 0 < box_height < 1e9):
        return width or _DEFAULT_SIZE[0], height or _DEFAULT_SIZE[1]
    if width:
        return width, width * box_height / box_width
    return (height * box_width / box_height, height) if height else (box_width, box_height)


def _length(text: str) -> float:
    match = _LENGTH.fullmatch(text)
    if match is None or not match[1].strip("."):
        return 0.0
    return float(match[1]) * _UNITS.get(match[2] or "px", 1)


_LONGEST_DATA_URL = 200_000  # characters; icons have a few hundred


def picture_address(value: str, rewriter: ReplayUrlRewriter) -> str | None:
    """Return the address of the picture in the copy; None when it is not shown."""
    value = value.strip()
    if value.startswith("#"):  # a part of the same document is not a picture
        return None
    if value[:18].lower() != "data:image/svg+xml":
        return rewriter.image(value)
    return _drawn(value) if rewriter.has_images and len(value) <= _LONGEST_DATA_URL else None


def data_url(png: bytes) -> str:
    """Return the picture as a ``data:`` URL."""
    return f"data:image/png;base64,{b64encode(png).decode()}"


@lru_cache(maxsize=256)
def _drawn(value: str) -> str | None:
    head, _, content = value.partition(",")
    try:
        data = unquote_to_bytes(content)
        if head.lower().rstrip().endswith(";base64"):
            data = b64decode(data)
        return data_url(raster_svg(data))
    except (PermanentError, Base64Error, ValueError):
        return None


# Pictures that any page may read are no larger than icons.
_MOST_MASK_PIXELS = 512 * 512
_MASKS = ("PNG", "GIF", "WEBP", "JPEG")


def raster(data: bytes) -> bytes:
    """Return the picture as PNG; else raise PermanentError."""
    kind = raster_kind(data)
    if kind is RasterKind.SVG:
        return raster_svg(data)
    if kind is None:
        raise PermanentError("This is not a picture.")
    with _picture(data, (kind.value,), _MOST_PIXELS) as image:
        return _png(image.convert("RGBA"))


def mask(data: bytes) -> bytes:
    """Return the shape of a small picture as black PNG with its opacity; else raise PermanentError."""
    if raster_kind(data) is RasterKind.SVG:
        data = raster_svg(data)
    if image_type(data) is None:
        raise PermanentError("This is not a picture.")
    from PIL import Image

    with _picture(data, _MASKS, _MOST_MASK_PIXELS) as image:
        shape = Image.new("LA", image.size)
        shape.putalpha(image.convert("RGBA").getchannel("A"))
        return _png(shape)


@contextmanager
def _picture(data: bytes, formats: tuple[str, ...], most_pixels: int) -> "Iterator[Image]":
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=formats) as image:
            if image.width * image.height > most_pixels:
                raise PermanentError("A picture that is too large.")
            yield image
    except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError) as error:
        raise PermanentError("A picture that is damaged.") from error


def _png(image: "Image") -> bytes:
    with io.BytesIO() as buffer:
        image.save(buffer, "PNG")
        return buffer.getvalue()


MOST_PAGES = 200  # that are shown; the others are in the file
ENCRYPTED, BROKEN = "encrypted", "broken"
_MOST_TEXT = 1_000_000  # characters of all pages
_MOST_PAGE_TEXT = 50_000
_TEXT_S = 5.0  # for the text of all pages
_WIDTH = 1_200  # pixels of a page's picture
_MOST_SCALE = 3.0
_MOST_PDF_PIXELS = 6_000_000
_QUALITY = 80
_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")


def read_pdf(data: bytes) -> bytes:
    """Return the number of pages as JSON, size and text of the first ones, and ``error``, maybe empty."""
    import pypdfium2

    try:
        with closing(pypdfium2.PdfDocument(data)) as pdf:
            pages, left, ends = [], _MOST_TEXT, time.monotonic() + _TEXT_S
            for number in range(min(len(pdf), MOST_PAGES)):
                page = pdf[number]
                width, height = page.get_size()
                text = ""
                if left > 0 and time.monotonic() < ends:
                    with closing(page.get_textpage()) as text_page:
                        text = text_page.get_text_bounded()
                    text = text.replace("\r\n", "\n").replace("\r", "\n")
                    text = _UNSEEN.sub("", text).strip()[: min(left, _MOST_PAGE_TEXT)]
                    left -= len(text)
                page.close()
                pages.append({"width": round(width, 1), "height": round(height, 1), "text": text})
            return json.dumps({"error": "", "count": len(pdf), "pages": pages}).encode()
    except pypdfium2.PdfiumError as error:
        is_encrypted = getattr(error, "err_code", None) == _PASSWORD_ERROR
        reason = ENCRYPTED if is_encrypted or "assword" in str(error) else BROKEN
        return json.dumps({"error": reason, "count": 0, "pages": []}).encode()


def draw_pdf_page(data: bytes, number: int) -> bytes:
    """Return the page, counted from 1, as WebP; empty when it is missing or cannot be drawn."""
    import pypdfium2

    try:
        with closing(pypdfium2.PdfDocument(data)) as pdf:
            if not 1 <= number <= min(len(pdf), MOST_PAGES):
                return b""
            page = pdf[number - 1]
            width, height = page.get_size()
            if width <= 0 or height <= 0:
                return b""
            scale = min(_MOST_SCALE, _WIDTH / width, (_MOST_PDF_PIXELS / (width * height)) ** 0.5)
            with io.BytesIO() as buffer:
                page.render(scale=scale).to_pil().convert("RGB").save(buffer, "WEBP", quality=_QUALITY, method=2)
                return buffer.getvalue()
    except (pypdfium2.PdfiumError, ValueError, OSError):
        return b""
