"""Scan of markup before it is sanitised: nesting depth, doctype, parts taken out.

html5ever searches the open elements for many tags: 250 kB of ``<div>`` take ten seconds. Browsers limit the depth to
512 elements (Blink's ``kMaximumHTMLParserDOMTreeDepth``). Unclosed formatting elements are reopened in each paragraph
(HTML, 13.2.4.3), so fewer of them are allowed.

This affects only the look of the copy: the sanitiser (`playback.replay.sanitizer.html_document`) checks all results.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from html import escape, unescape
from urllib.parse import unquote

from playback.replay.sanitizer.allowlist import FORMULA_ATTRIBUTES, FORMULA_ELEMENTS, NAMES, SIZE_PX
from playback.replay.sanitizer.css_filter import ParserBudget, filter_declarations
from playback.replay.sanitizer.css_rules import CONTROLS, STAND_IN, WAS_DISABLED, WRITTEN, WRITTEN_ATTRIBUTES
from playback.replay.sanitizer.inline_svg import InlineDrawings, drawing_text
from playback.url_paths import ReplayUrlRewriter

DEEPEST = 512
MOST_FORMATTING = 64

# A tag with its attributes. Every quantifier is possessive: the time is linear.
_NESTING_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*+)(?:[^>\"'=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?+|[\"'])*+>")
_UNCOUNTED: frozenset[str] = NAMES["elements"]["never_nested"]
_FORMATTING: frozenset[str] = NAMES["elements"]["formatting"]


def limit_depth(text: str) -> str:
    """Remove the tags of elements that are nested too deep; keep their content."""
    open_: list[tuple[str, bool]] = []  # name, and whether its tags stay
    counts: Counter[str] = Counter()
    formatting = 0
    parts: list[str] = []
    at = 0
    for tag in _NESTING_TAG.finditer(text):
        name = tag[2].lower()
        if name in _UNCOUNTED:
            continue
        stays = True
        if not tag[1]:
            is_formatting = name in _FORMATTING
            stays = len(open_) < DEEPEST and not (is_formatting and formatting >= MOST_FORMATTING)
            open_.append((name, stays))
            counts[name] += 1
            formatting += is_formatting
        elif counts[name]:
            closed = ""
            while closed != name:
                closed, stays = open_.pop()
                counts[closed] -= 1
                formatting -= closed in _FORMATTING
        if not stays:
            parts.append(text[at : tag.start()])
            at = tag.end()
    parts.append(text[at:])
    return "".join(parts)


_DOCTYPE = re.compile(
    r"""\ufeff?\s*(?:<\?xml[^>]{0,200}>\s*)?(?><!--.*?-->\s*)*+<!doctype\s+html
    (?:\s+(?:public\s*(?:"([^">]*)"|'([^'>]*)')|system)
    \s*("[^">]*"|'[^'>]*')?)?[^>]{0,200}>""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_NO_QUIRKS = "<!DOCTYPE html>"
_LIMITED_QUIRKS = (
    '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"'
    ' "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">'
)
_QUIRKS = ""
_OLD = ("-//w3o//dtd w3 html strict 3.0//en//", "-/w3c/dtd html 4.0 transitional/en", "html")
_OLD_SYSTEM = "http://www.ibm.com/data/dtd/v11/ibmxhtml1-transitional.dtd"
_OLD_BEGINNINGS = tuple(sorted(NAMES["doctypes"]["old"]))
_BY_SYSTEM = ("-//w3c//dtd html 4.01 frameset//", "-//w3c//dtd html 4.01 transitional//")
_LIMITED = ("-//w3c//dtd xhtml 1.0 frameset//", "-//w3c//dtd xhtml 1.0 transitional//")


def doctype_of(text: str) -> str:
    """Return our document type with the same layout mode (HTML, 13.2.6.4.1); empty in quirks mode."""
    if (doctype := _DOCTYPE.match(text)) is None:
        return _QUIRKS
    public = (doctype[1] or doctype[2] or "").lower()
    system = (doctype[3] or "")[1:-1].lower()
    if public in _OLD or public.startswith(_OLD_BEGINNINGS) or system == _OLD_SYSTEM:
        return _QUIRKS
    if public.startswith(_BY_SYSTEM):
        return _LIMITED_QUIRKS if doctype[3] else _QUIRKS
    return _LIMITED_QUIRKS if public.startswith(_LIMITED) else _NO_QUIRKS


_TAG = re.compile(
    r"<(?:(!--)|(/?)(html|head|body|title|style|link|base|meta|script|textarea|noscript|template"
    r"|img|video|audio|a|area|iframe|frame|frameset|object|embed|input|button|select|fieldset|math|svg|form)(?=[\s/>]))",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"[\s/]*([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+)))?")
_RAW_TEXT_ENDS = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "noscript")
}
_MOST_ATTRIBUTES = 64
_MOST_SHEETS = 128
_LONGEST_TITLE = 1_000  # characters
_MOST_FRAMES = 50
_DEEPEST_FRAME = 5
_LONGEST_FORMULA = 20_000  # characters, as written
_LONGEST_PLAYER = 20_000
_PLAYER_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("audio", "video")}
_SOURCE = re.compile(r"<source(?=[\s/])", re.IGNORECASE)
_MOST_FORMULAS = 2_000
_MOST_FORMULA_STYLE = 20_000  # characters that the parser reads
_DATA_SHEET = re.compile(r"data:text/css(;[^,]*)?,(.*)", re.IGNORECASE | re.DOTALL)
_MARKUP = re.compile(r"<[^>]*>")
# Where the DOM artifact records the URL of a framed document: on its first element.
_DOCUMENT_URL = "data-weboid-url"
_RECORDED_URL = re.compile(rf'\s*(?:<!DOCTYPE[^>]*>\s*)?<[A-Za-z][^<>"]*(?:"[^"]*"[^<>"]*)*? {_DOCUMENT_URL}="([^"]*)"')
_PICTURE_PATH = re.compile(r"[^?#]+\.(?:png|jpe?g|gif|webp|avif)(?:[?#].*)?", re.IGNORECASE)

# Replace elements that send or load; style sheets select them by name where they apply (`css_rules`).
_PLAIN_STAND_INS = {"object": "span", "form": "div", "frameset": "div"}
_STAND_INS = {"object": "weboid-object", "form": "weboid-form", "frameset": "div"}
# Of the root of a document in the DOM artifact: attributes whose values it keeps as they were written.
_WRITTEN_NAMES = "data-weboid-written"
_LONGEST_WRITTEN = 2_000  # characters; of longer ones the beginning stays
_LINK_NOWHERE = "#weboid-nowhere"
_FRAME_SIZE = re.compile(r"\s*(\d{0,4}(?:\.\d{1,4})?)\s*([*%]?)\s*")
_MOST_FRAME_SIZES = 20
_DENSITY = re.compile(r"\d{1,2}(?:\.\d{1,4})?")

Attributes = dict[str, str]


@dataclass(frozen=True, slots=True)
class PageStylesheet:
    """Style sheet of the page: `href` of a linked one, else the `text` of an embedded one."""

    media: str
    href: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class FramedDocument:
    """Framed document in our DOM artifact, and the attributes of its element."""

    text: str
    attributes: Attributes


@dataclass(slots=True)
class DocumentScan:
    """Parts taken out of a document, and the rest of it.

    Frame n is replaced by ``<wbr id="<mark>n">``, formula n by ``<wbr id="<mark>fn">``; no document knows its mark.
    """

    body: str = ""
    title: str = ""
    base: str = ""
    doctype: str = ""
    has_viewport: bool = False
    html_attributes: Attributes = field(default_factory=dict)
    body_attributes: Attributes = field(default_factory=dict)
    sheets: list[PageStylesheet] = field(default_factory=list)
    frames: list[FramedDocument] = field(default_factory=list)
    formulas: list[str] = field(default_factory=list)  # safe MathML
    has_frameset: bool = False
    mark: str = ""


def scan_document(
    text: str, rewriter: ReplayUrlRewriter, *, was_scripted: bool, has_frames: bool = True
) -> DocumentScan:
    """Scan a document in one pass.

    `was_scripted`: scripts have run, so that fallback content for browsers without them is left out; `has_frames`:
    framed documents are set aside, otherwise their text replaces them.
    """
    return _DocumentScanner(text, rewriter, was_scripted=was_scripted, frame_depth=None if has_frames else 0).run()


class _DocumentScanner:
    def __init__(self, text: str, rewriter: ReplayUrlRewriter, *, was_scripted: bool, frame_depth: int | None) -> None:
        self._text = text
        self._rewriter = rewriter
        self._was_scripted = was_scripted
        self._frame_depth = frame_depth  # None: framed documents are set aside
        # No text holds its own digest.
        digest = sha256(text.encode(errors="replace")).hexdigest()[:32]
        self._scan = DocumentScan(doctype=doctype_of(text), mark=f"weboid-{digest}-")
        self._parts: list[str] = []
        self._drawings = InlineDrawings(text)
        self._formula_budget = ParserBudget(_MOST_FORMULA_STYLE)
        self._frame_gap_px = 6
        self._templates: list[bool] = []  # for each that is open: is it a shadow tree?
        self._stand_ins = _STAND_INS if frame_depth is None else _PLAIN_STAND_INS
        self._has_written = False  # values in the document are as the page wrote them

    def run(self) -> DocumentScan:
        at = 0
        while (tag := _TAG.search(self._text, at)) is not None:
            self._parts.append(self._text[at : tag.start()])
            if tag[1]:  # a comment
                end = self._text.find("-->", tag.start() + 2)
                at = len(self._text) if end < 0 else end + 3
            else:
                at = self._element(tag)
        self._parts.append(self._text[at:])
        self._scan.body = "".join(self._parts)
        return self._scan

    def _element(self, tag: re.Match[str]) -> int:
        name = tag[3].lower()
        if tag[2]:
            end = self._text.find(">", tag.end()) + 1 or len(self._text)
            if name == "template" and self._templates and self._templates.pop():
                self._parts.append("</div>")
            elif name in self._stand_ins:
                self._parts.append(f"</{self._stand_ins[name]}>")
            elif name not in {"html", "head", "body", "noscript", "math", "audio", "video"}:
                self._parts.append(self._text[tag.start() : end])
            return end
        attributes, end = _attributes(self._text, tag.end())
        if name in _RAW_TEXT_ENDS:
            return self._raw_text(name, attributes, end)
        if name in {"html", "body"}:
            attributes.pop(_DOCUMENT_URL, None)
            has_written = attributes.pop(_WRITTEN_NAMES, None) is not None
            self._has_written |= has_written and self._was_scripted
            mine = self._scan.html_attributes if name == "html" else self._scan.body_attributes
            for key, value in attributes.items():
                mine.setdefault(key, value)
        elif name == "template":
            self._templates.append("shadowrootmode" in attributes)
            self._parts.append("<div>" if self._templates[-1] else self._text[tag.start() : end])
        elif name in {"link", "meta", "base"}:
            self._head_element(name, attributes)
        elif name == "svg" or name in _PLAYER_ENDS:
            write = self._player if name in _PLAYER_ENDS else self._drawing
            return write(attributes, tag.start(), end)
        elif name == "math":
            close = self._text.find("</math", end, end + _LONGEST_FORMULA)
            if close < 0:
                return end
            inside = self._text[end:close].partition("<annotation")[0]
            if self._frame_depth is None and len(self._scan.formulas) < _MOST_FORMULAS:
                self._parts.append(f'<wbr id="{self._scan.mark}f{len(self._scan.formulas)}">')
                style = partial(filter_declarations, rewriter=self._rewriter, budget=self._formula_budget)
                self._scan.formulas.append(write_formula(attributes, inside, style))
            else:
                words = escape(" ".join(unescape(_MARKUP.sub(" ", inside)).split()))
                self._parts.append(f"{_start_tag('span', attributes)}{words}</span>")
            return close
        elif name != "head":
            self._parts.append(self._body_element(name, attributes))
        return end

    def _drawing(self, attributes: Attributes, start: int, end: int) -> int:
        if (close := self._drawings.end_of(start)) is None:
            self._parts.append(self._text[start:end])
            return end
        words = drawing_text(self._text[start:close], attributes)
        if self._rewriter.has_images and self._frame_depth is None and all(self._templates):
            if (shown := self._drawings.image(start, close, attributes)) is not None:
                self._parts.append(_start_tag("img", shown | {"alt": words, STAND_IN: "svg"}))
        else:
            self._parts.append(escape(words))
        return close

    def _raw_text(self, name: str, attributes: Attributes, end: int) -> int:
        if name == "noscript" and not self._was_scripted:
            return end  # only its tags go
        closing = _RAW_TEXT_ENDS[name].search(self._text, end)
        close_start = closing.start() if closing else len(self._text)
        close_end = self._text.find(">", close_start) + 1 or len(self._text)
        inside = self._text[end:close_start]
        if name == "title" and not self._scan.title and not self._templates:
            self._scan.title = " ".join(unescape(inside).split())[:_LONGEST_TITLE]
        elif name == "style":
            self._add_sheet(PageStylesheet(attributes.get("media", ""), text=inside))
        elif name == "textarea":
            self._parts.append(_control(name, attributes) + self._text[end:close_end])
        return close_end

    def _head_element(self, name: str, attributes: Attributes) -> None:
        if name == "base":
            self._scan.base = self._scan.base or attributes.get("href", "")
        elif name == "meta":
            self._scan.has_viewport |= attributes.get("name", "").lower() == "viewport"
        else:
            rel = attributes.get("rel", "").lower().split()
            if "stylesheet" in rel and not {"alternate"} & set(rel) and "disabled" not in attributes:
                href, media = attributes.get("href", ""), attributes.get("media", "")
                data = _DATA_SHEET.fullmatch(href)
                if data and "base64" not in (data[1] or "").lower():
                    self._add_sheet(PageStylesheet(media, text=unquote(data[2])))
                else:
                    self._add_sheet(PageStylesheet(media, href=href))

    def _add_sheet(self, sheet: PageStylesheet) -> None:
        # A sheet inside a template applies to its tree only, which no longer exists.
        if not self._templates and len(self._scan.sheets) < _MOST_SHEETS:
            self._scan.sheets.append(sheet)

    def _body_element(self, name: str, attributes: Attributes) -> str:
        if self._frame_depth is None and not self._has_written:
            attributes |= {
                WRITTEN + key: value[:_LONGEST_WRITTEN]
                for key, value in attributes.items()
                if key in WRITTEN_ATTRIBUTES and key != "style"
            }
        if name == "form":
            return _start_tag(self._stand_ins[name], attributes)
        if name in CONTROLS:
            is_image = name == "input" and attributes.get("type", "").strip().lower() == "image"
            return self._image(attributes) if is_image else _control(name, attributes)
        if name in {"a", "area"}:
            target = self._rewriter.link(attributes.get("href", ""))
            if target is None and "href" in attributes and self._frame_depth is None:
                # A mail address, or a script: no target, but it looks like a link.
                target = attributes["href"] = _LINK_NOWHERE
            stays = target is not None and target[:1] == "#"
            attributes["target"] = "_self" if stays else "_top"
            return _start_tag(name, attributes)
        if name == "img":
            if "data-weboid-canvas" in attributes:
                attributes[STAND_IN] = "canvas"
            loaded = attributes.get("data-weboid-src") or attributes.get("src")
            # The first URL of a srcset, for documents that our browser has not loaded.
            first = attributes.pop("srcset", "").split(None, 1)[:1]
            attributes["src"] = loaded or "".join(first).rstrip(",")
            density = attributes.get("data-weboid-density", "")
            attributes.pop("sizes", None)
            if loaded and _DENSITY.fullmatch(density) and float(density) > 0:
                # One candidate with a width, beside which no other counts (HTML, 4.8.4.3.6): it has
                # the size in the layout that the chosen one had.
                attributes["srcset"] = f"{loaded} {round(float(density) * SIZE_PX)}w"
                attributes["sizes"] = f"{SIZE_PX}px"
            return self._image(attributes)
        if name == "frameset":
            return _start_tag("div", {"style": self._frameset_style(attributes)})
        return self._embedded(name, attributes)

    def _player(self, attributes: Attributes, start: int, end: int) -> int:
        """Write a player of the source that the browser chose, without the sources for other browsers."""
        name = self._text[start + 1 : start + 6].lower()
        close = _PLAYER_ENDS[name].search(self._text, end, end + _LONGEST_PLAYER)
        inside = self._text[end : close.start()] if close else ""
        names = () if self._has_written else ("src", "poster")
        written = {WRITTEN + key: attributes[key] for key in names if key in attributes}
        source = attributes.get("data-weboid-src") or attributes.get("src")
        if not source and (first := _SOURCE.search(inside)):
            source = _attributes(inside, first.end())[0].get("src")
        # The controls say how long it is; without them and a poster its first picture is seen.
        is_seen = "controls" in attributes or not attributes.get("poster")
        is_known = is_seen and attributes.get("preload", "").lower() != "none"
        attributes["preload"] = "metadata" if is_known else "none"
        attributes["src"] = source or ""
        if self._rewriter.has_images:
            self._parts.append(f"{_start_tag(name, attributes | written)}</{name}>")
        return self._text.find(">", close.start()) + 1 or len(self._text) if close else end

    def _frameset_style(self, attributes: Attributes) -> str:
        """Return the style of a box whose children are laid out as the frames of a frameset."""
        is_outer = not self._scan.has_frameset
        self._scan.has_frameset = True
        style = ""
        for way, name in (("rows", "rows"), ("columns", "cols")):
            if size := " ".join(_frame_sizes(attributes.get(name, ""))):
                style += f"grid-template-{way}:{size};"
        # Between frames Chromium leaves six pixels, unless the set or one around it says otherwise.
        border = attributes.get("border", "").strip()
        if attributes.get("frameborder", "").strip().lower() in {"0", "no"}:
            self._frame_gap_px = 0
        elif border.isascii() and border.isdecimal():
            self._frame_gap_px = min(int(border[:3]), 100)
        gap = f"gap:{self._frame_gap_px}px;background:#d0d0d0;" if self._frame_gap_px else ""
        return f"display:grid;{style}{gap}height:{'100vh' if is_outer else '100%'}"

    def _embedded(self, name: str, attributes: Attributes) -> str:
        """Replace a frame by its document, a picture by an image, another object by its fallback."""
        document = attributes.pop("data-weboid-document", "")
        source = attributes.get("data" if name == "object" else "src", "")
        kind = attributes.get("type", "").strip().lower()
        is_picture = kind.startswith("image/") or (not kind and _PICTURE_PATH.fullmatch(source))
        recorded = _RECORDED_URL.match(document) if document else None
        url = None if recorded is None else unescape(recorded[1])
        is_withheld = document and self._rewriter.withholds(source, url)
        # A drawing as a document would be as high as frames are, not as it is.
        is_drawing = is_picture and name not in {"iframe", "frame"} and self._rewriter.has_images
        if is_withheld or is_drawing:
            document = ""
        if name == "frame":
            attributes["style"] = "width:100%;height:100%;border:0;display:block;background:#fff"
        if document and self._was_scripted and len(self._scan.frames) < _MOST_FRAMES:
            self._scan.frames.append(FramedDocument(document, attributes | {"src": source}))
            shown = ""
            if self._frame_depth is None:
                shown = f'<wbr id="{self._scan.mark}{len(self._scan.frames) - 1}">'
            elif self._frame_depth < _DEEPEST_FRAME:
                rewriter, depth = self._rewriter.based(source), self._frame_depth + 1
                inner = _DocumentScanner(document, rewriter, was_scripted=True, frame_depth=depth)
                shown = f"<div>{inner.run().body}</div>"
        elif is_picture:
            shown = self._image(attributes | {"src": source})
        else:
            # An iframe's own content is never shown; this opens one that the sanitiser takes out.
            instead = self._stand_ins["object"]
            return {"object": _start_tag(instead, attributes), "iframe": "<iframe>"}.get(name, "")
        instead = f"<{self._stand_ins['object']} hidden>"
        return shown + {"object": instead, "iframe": "<iframe>"}.get(name, "")

    def _image(self, attributes: Attributes) -> str:
        """Return the image, or its alternative text."""
        return _start_tag("img", attributes) if self._rewriter.has_images else escape(attributes.get("alt", ""))


def _attributes(text: str, at: int) -> tuple[Attributes, int]:
    """Return the attributes of a start tag, first occurrence winning, and the tag's end."""
    attributes: Attributes = {}
    while (match := _ATTRIBUTE.match(text, at)) is not None:
        at = match.end()
        if len(attributes) < _MOST_ATTRIBUTES:
            value = match[2] or match[3] or match[4] or ""
            attributes.setdefault(match[1].lower(), unescape(value) if "&" in value else value)
    return attributes, text.find(">", at) + 1 or len(text)


def _frame_sizes(text: str) -> list[str]:
    """Return the tracks of a grid for the sizes of a frameset's rows or columns (HTML, 16.3.2)."""
    tracks = []
    for size in text.split(",")[:_MOST_FRAME_SIZES] if text.strip() else ():
        match = _FRAME_SIZE.fullmatch(size)
        number, unit = (match[1], match[2]) if match else ("", "*")
        if unit == "*" or not number:
            tracks.append(f"minmax(0,{number or 1}fr)")
        else:
            tracks.append(f"{number}{unit or 'px'}")
    return tracks


_FORMULA_TAG = re.compile(r"<(/?)([a-z]+)([^<>]*)>", re.IGNORECASE)
_FORMULA_VALUE = re.compile(r"[\w.,#%+ -]{1,60}", re.ASCII)


_FORMULA_CLASS = re.compile(r"[\w -]{1,200}", re.ASCII)


def write_formula(attributes: Attributes, text: str, write_style: Callable[[str], str] = lambda _: "") -> str:
    """Return the content of a ``math`` element as MathML of listed elements, attributes and text.

    It is balanced and contains no element that leaves MathML, so browsers parse it as written (HTML, 13.2.6.5).
    """

    def start(name: str, values: Attributes) -> str:
        allowed = {
            key: value.strip()
            for key, value in values.items()
            if (key in FORMULA_ATTRIBUTES and _FORMULA_VALUE.fullmatch(value.strip()))
            or (key in {"class", "id"} and _FORMULA_CLASS.fullmatch(value))
        }
        if style := write_style(values.get("style", "")):
            allowed["style"] = style
        return _start_tag(name, allowed)

    parts = [start("math", attributes)]
    opened: list[str] = []
    at = 0
    for tag in _FORMULA_TAG.finditer(text):
        parts.append(escape(unescape(_MARKUP.sub("", text[at : tag.start()]))))
        at = tag.end()
        name = tag[2].lower()
        if name not in FORMULA_ELEMENTS:
            continue
        if not tag[1]:
            parts.append(start(name, _attributes(tag[3].rstrip("/"), 0)[0]))
            opened.append(name)
            if tag[3].endswith("/"):
                parts.append(f"</{opened.pop()}>")
        elif name in opened:
            while opened[-1] != name:
                parts.append(f"</{opened.pop()}>")
            parts.append(f"</{opened.pop()}>")
    parts.append(escape(unescape(_MARKUP.sub("", text[at:]))))
    parts += [f"</{name}>" for name in reversed(opened)]
    return "".join(parts) + "</math>"


def _control(name: str, attributes: Attributes) -> str:
    """Return a control, marked when it was disabled at capture."""
    return _start_tag(name, attributes | ({WAS_DISABLED: ""} if "disabled" in attributes else {}))


def _start_tag(name: str, attributes: Attributes) -> str:
    written = (f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{''.join(written)}>"
