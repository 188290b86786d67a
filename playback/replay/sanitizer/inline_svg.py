"""Inline SVG of a document, replaced by images; for makers only.

Styles of the page do not apply within an image, so our DOM artifact stores the look of each drawing
(``data-weboid-look``: size, colours, place), and what styles set of its shapes.
"""

import re
from contextlib import suppress
from copy import deepcopy
from html import escape, unescape
from xml.etree.ElementTree import Element

from core.errors import PermanentError
from playback.replay.sanitizer.allowlist import NAMES
from playback.replay.sanitizer.rasterizer import NAMESPACE, URL, data_url, draw, natural_size, parse_svg

_TAG = re.compile(r"<(/?)svg(?=[\s/>])", re.IGNORECASE)
_LONGEST = 1_000_000  # characters of one drawing
_MOST_ENDLESS = 20
_MOST = 400  # drawings of a document
_MOST_PIXELS = 24_000_000  # of all of them
_SHARP_PIXELS = 400_000  # up to here one pixel becomes four
_MOST_COPIED = 200  # shapes that one drawing borrows from others

_START_TAG = re.compile(r"<svg((?:\s+[^\s=>/]+(?:=\"[^\"]*\")?)*)\s*(/?)>", re.IGNORECASE)
_XMLNS = re.compile(r"\sxmlns(?::[\w.-]+)?=\"[^\"]*\"")
_PREFIX = re.compile(r"[\s</]([A-Za-z_][\w.-]*):[A-Za-z_]")
_VARIABLE = re.compile(r"var\(\s{0,9}--[\w-]{1,99}\s{0,9}(?:,([^()\"]{0,99}(?:\([^()\"]{0,99}\))?[^()\"]{0,99}))?\)")
_WORDS = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)\w{1,30};")
_DECLARATION = re.compile(r"([a-z-]+):([^;:]+)")
_PIXELS = re.compile(r"(\d{1,5}(?:\.\d+)?)px")
_ATTRIBUTES: frozenset[str] = NAMES["drawings"]["attributes"]
_PAINT: frozenset[str] = NAMES["drawings"]["paint"]
_OWN: frozenset[str] = NAMES["drawings"]["own"]
_SERIF = re.compile(r"times|roman|georgia|garamond|(?<!sans-)serif", re.IGNORECASE)
_NAMES = {"text-decoration-line": "text-decoration"}
_VALUE = re.compile(r"[\w#().,%' +-]{1,2000}")
_IMPORTANT = re.compile(r"!\s{0,9}important", re.IGNORECASE)
_STYLED = re.compile(r"([a-z-]{1,40})\s{0,9}:\s{0,9}([\w#().,%'\" !+-]{1,2000})")
_LOOK = "data-weboid-look"
_ANY_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]{0,60})[^<>]*>")
_WORDLESS = frozenset({"style", "script", "defs", "desc", "metadata", "title"})
_LINES = frozenset({"text", "p", "div", "li", "foreignobject"})
_LONGEST_ALTERNATIVE = 5_000
_BORROWERS = {f"{{{NAMESPACE}}}{name}" for name in ("use", "linearGradient", "radialGradient", "pattern")}
_HREF = {"href", "{http://www.w3.org/1999/xlink}href"}


class InlineDrawings:
    """Drawings of one document, which may use shapes of each other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._shared: dict[str, Element] | None = None
        self._count = 0
        self._endless = 0  # drawings without an end tag
        self._pixels = 0
        self._known: dict[tuple[str, str], str] = {}

    def end_of(self, start: int) -> int | None:
        """Return the end of the drawing that starts there; None when it is too far away."""
        depth = 0
        if self._endless > _MOST_ENDLESS:
            return None
        for tag in _TAG.finditer(self._text, start, start + _LONGEST):
            depth += -1 if tag[1] else 1
            if depth <= 0:
                return self._text.find(">", tag.end()) + 1 or None
        self._endless += 1
        return None

    def image(self, start: int, end: int, attributes: dict[str, str]) -> dict[str, str] | None:
        """Return the attributes of an image of that drawing; None when it is invisible or invalid."""
        look = dict(_DECLARATION.findall(attributes.get(_LOOK, "")))
        self._count += 1
        if look.get("display") == "none" or self._count > _MOST:
            return None
        markup = self._text[start:end]
        key = (markup[markup.find(">") :], repr(sorted(attributes.items())))
        if key not in self._known:
            try:
                self._known[key] = self._drawn(markup, look)
            except PermanentError:
                self._known[key] = ""
        if not self._known[key]:
            return None
        names = {"class", "id", "width", "height", "title", "role", "hidden"}
        image = {key: value for key, value in attributes.items() if key in names or key.startswith(("aria-", "data-"))}
        style = "".join(f"{name}:{value};" for name, value in look.items() if name not in _PAINT)
        own = attributes.get("style", "").rstrip("; \n")
        return image | {"style": f"{own};{style}" if own else style, "src": self._known[key]}

    def _drawn(self, markup: str, look: dict[str, str]) -> str:
        root = parse_svg(_as_xml(markup))
        self._borrow(root)
        styled = [each for each in root.iter() if _LOOK in each.attrib and each is not root]
        for each in styled:
            _set_style(each, dict(_DECLARATION.findall(each.attrib.pop(_LOOK))), _PAINT | _OWN)
        for each in root.iter(f"{{{NAMESPACE}}}style") if styled else ():
            each.text = _IMPORTANT.sub("", each.text or "")  # so that stored looks win
        if look:  # the rest of its style applies to the image
            root.attrib.pop("style", None)
        _set_style(root, look, _PAINT)
        width = _PIXELS.fullmatch(look.get("width", ""))
        height = _PIXELS.fullmatch(look.get("height", ""))
        size = (float(width[1]), float(height[1])) if width and height else natural_size(root)
        area = size[0] * size[1]
        self._pixels += int(area)
        if area < 1 or self._pixels > _MOST_PIXELS:
            return ""
        scale = 2.0 if area <= _SHARP_PIXELS else 1.0
        return data_url(draw(root, scale, size, look.get("color", "")))

    def _borrow(self, root: Element) -> None:
        own = {each.get("id") for each in root.iter()}
        waiting, copied = [root], 0
        while waiting:
            for each in list(waiting.pop().iter()):
                references: list[str] = []  # what the shape uses, is painted with or is cut by
                for key, value in each.attrib.items():
                    if key in _HREF and each.tag in _BORROWERS:
                        references.append(value.strip()[1:])
                    elif "url(" in value:
                        references += URL.findall(value)
                for name in references:
                    shape = None if name in own else self._shapes().get(name)
                    if shape is not None and copied < _MOST_COPIED:
                        copied += 1
                        own.add(name)
                        hidden = Element(f"{{{NAMESPACE}}}defs")
                        hidden.append(deepcopy(shape))
                        root.append(hidden)
                        waiting.append(hidden)

    def _shapes(self) -> dict[str, Element]:
        if self._shared is None:
            self._shared = {}
            at = count = 0
            while (tag := _TAG.search(self._text, at)) is not None and count < _MOST:
                at = tag.end()
                end = None if tag[1] else self.end_of(tag.start())
                if end is None:
                    continue
                count, at, markup = count + 1, end, self._text[tag.start() : end]
                if ' id="' in markup:
                    with suppress(PermanentError):
                        for each in parse_svg(_as_xml(markup)).iter():
                            if each.get("id"):
                                self._shared.setdefault(each.attrib["id"], each)
        return self._shared


def drawing_text(markup: str, attributes: dict[str, str]) -> str:
    """Return the alternative text of a drawing: its label, title or else the words in it, line by line."""
    if label := attributes.get("aria-label"):
        return label
    # Its own; those within it name shapes, of which a chart has one for each label.
    title = re.match(r"<svg[^>]*>\s*<title[^>]*>([^<]{1,300})</title", markup, re.IGNORECASE)
    if title and (text := unescape(title[1]).strip()):
        return text
    parts: list[str] = []
    at = hidden = 0
    for tag in _ANY_TAG.finditer(markup):
        if not hidden:
            parts.append(markup[at : tag.start()])
        at, name = tag.end(), tag[2].lower()
        if name in _WORDLESS and not tag[0].endswith("/>"):
            hidden = max(0, hidden + (-1 if tag[1] else 1))
        parts.append("\n" if tag[1] and name in _LINES else " ")
    lines = (" ".join(unescape(line).split()) for line in "".join(parts).splitlines())
    return "\n".join(filter(None, lines))[:_LONGEST_ALTERNATIVE]


def _as_xml(markup: str) -> str:
    """Return markup of our DOM artifact as XML, with namespaces declared."""
    if (start := _START_TAG.match(markup)) is None:
        raise PermanentError("A drawing that does not begin with an svg element.")
    body = _XMLNS.sub("", markup[start.end() :])
    body = _WORDS.sub(lambda word: escape(unescape(word[0])), body)
    attributes = _XMLNS.sub("", start[1])
    used = set(_PREFIX.findall(attributes + body)) - {"xml", "xlink", "xmlns"}
    declared = "".join(f' xmlns:{prefix}="urn:{prefix}"' for prefix in sorted(used)[:50])
    text = f'<svg xmlns="{NAMESPACE}" xmlns:xlink="http://www.w3.org/1999/xlink"{declared}{attributes}{start[2]}>{body}'
    return _VARIABLE.sub(lambda each: (each[1] or "currentColor").strip(), text)


def _set_style(element: Element, look: dict[str, str], names: frozenset[str]) -> None:
    """Apply a stored look to a shape: geometry as attributes, the rest as its style, over that of sheets."""
    values = {name: value for name, value in look.items() if _VALUE.fullmatch(value)}
    if "font-family" in values:  # text in an unavailable typeface is drawn in this one
        values["font-family"] += f",{'serif' if _SERIF.search(values['font-family']) else 'sans-serif'}"
    style = {
        match[1]: match[2]
        for each in element.attrib.pop("style", "").split(";")
        if (match := _STYLED.fullmatch(each.strip())) and match[1] not in values
    }
    if "transform" in values:  # a matrix about the origin
        style.pop("transform-origin", None)
        element.attrib.pop("transform-origin", None)
        values["transform-origin"] = "0 0"
    for name, value in values.items():
        if name in _ATTRIBUTES and names & _OWN:
            element.set(name, value)
        elif name in names or name == "transform-origin":
            style[_NAMES.get(name, name)] = value
    if style:
        element.set("style", ";".join(f"{name}:{value}" for name, value in style.items()))
