"""HTML tags, attributes and selected regions, read from bytes (WHATWG HTML 13.2.5).

Tags are found as in a browser: not in comments, scripts, styles, text areas, the content of templates and select
elements, SVG or MathML. Where a browser's parsing depends on unavailable information, parsing ends, and links after
that place stay unchanged; so do links in a region whose end is missed. Linear in time: the patterns are possessive.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from core.errors import ConfigError

SPACE = rb"\t\n\f\r "
# Rest of a tag after its name. A `>` in quotes does not end it; an unclosed quote extends to the end
# of the page, and then there is no tag.
_REST = (
    rb"(?:[%(s)s/]++"
    rb"|[^%(s)s/>][^%(s)s/>=]*+"
    rb"""(?:[%(s)s]*+=[%(s)s]*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^%(s)s>]*+)|(?![%(s)s]*+=)))*+>"""
) % {b"s": SPACE}
_ATTRIBUTE = re.compile(
    rb"[%(s)s/]*+([^%(s)s/>][^%(s)s/>=]*+)"
    rb"""(?:[%(s)s]*+=[%(s)s]*+(?:"([^"]*+)"|'([^']*+)'|((?!["'])[^%(s)s>]*+))|(?![%(s)s]*+=))""" % {b"s": SPACE}
)
TAG = re.compile(rb"<(/?)([A-Za-z][^%s/>]*+)%s" % (SPACE, _REST))
TEXT = re.compile(rb"(?:[^<]++|<(?![A-Za-z/!?]))*+")

RAW = frozenset(
    (b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes", b"noscript")
)  # elements whose content is text; `script` and `plaintext` have rules of their own
_FOREIGN = frozenset((b"svg", b"math"))
_STEERING = RAW | _FOREIGN | {b"script", b"plaintext", b"template", b"select"}
_DOUBTFUL_IN_SELECT = RAW | _FOREIGN
_ALWAYS = _STEERING | {b"a", b"base", b"sup"}
_COMMENT_END = re.compile(rb"--!?>")
_SCRIPT = re.compile(rb"<!--|-->|<(/?)script(?=[%s/>])" % SPACE, re.IGNORECASE)
_RAW_END = {name: re.compile(rb"</%s(?=[%s/>])" % (name, SPACE), re.IGNORECASE) for name in sorted(RAW)}


class HtmlTag(NamedTuple):
    """A tag: the range [start, end); `name` in lower case."""

    start: int
    end: int
    name: bytes
    is_end: bool


class HtmlAttribute(NamedTuple):
    """Attribute of a tag, with its position."""

    name: bytes  # in lower case
    name_end: int
    start: int  # start of its value; `name_end` without one
    end: int  # end of its value
    quote: bytes | None  # ``"``, ``'``, or empty for a value without quotes; None without a value


class TagFilter:
    """Selection of tags that a reader needs in addition to links; may change at each tag."""

    def __init__(self, places: Sequence[int] = (), *, only_citing: bool = False) -> None:
        """Store ordered offsets: tags that contain one are returned, with any name."""
        self.names = frozenset[bytes]()
        self.only_citing = only_citing
        self._places = places
        self._next = 0

    def stop(self, data: bytes, place: int) -> int:
        """Return the offset up to which tags may be skipped from there."""
        while self._next < len(self._places) and self._places[self._next] < place:
            self._next += 1
        if self._next == len(self._places):
            return len(data)
        end = self._places[self._next]
        while end > place and data[end - 1] in b"<":
            end -= 1  # the following text decides its kind
        return end


def iter_tags(data: bytes, watch: TagFilter | None = None) -> Iterator[HtmlTag]:
    """Iterate over the tags that a browser parses as elements: all selected ones, and possibly others."""
    watch = watch or TagFilter()
    place, templates, in_select = 0, 0, False
    while True:
        stop = watch.stop(data, place)
        match = _skipped_pattern(watch.names, plain=watch.only_citing).match(data, place, stop)
        assert match is not None  # it also matches the empty string
        place = match.end()
        if place >= stop and stop != len(data):
            match = TEXT.match(data, stop)
            assert match is not None
            place = match.end()
        tag = tag_at(data, place)
        if tag is None:
            place = after_markup(data, place)
            if place < 0:
                return
            continue
        name = tag.name
        if name == b"template":
            templates = max(0, templates + (-1 if tag.is_end else 1))
        elif name == b"select" and not templates:
            in_select = not (tag.is_end or in_select)
        elif not templates and not in_select:
            yield tag
        place = tag.end
        if not tag.is_end and name in _STEERING:
            if in_select and name in _DOUBTFUL_IN_SELECT:
                return  # browsers differ in what this is
            if tag.name in RAW or tag.name in (b"script", b"plaintext"):
                place = after_raw(data, tag)
            elif tag.name in _FOREIGN and not is_closed_itself(data, tag):
                place = after_foreign(data, tag)
            if place < 0:
                return


# A whole link to a path: nothing in its tag can be, or become, the host of an address.
_TO_A_PATH = rb"<a(?: ++[a-z-]++(?:=\"(?:[^\"/\\&<>\t\n\r]|/(?!/)|&amp;)*+\")?+)*+ *+>[^<]*+</a>"


@lru_cache(maxsize=64)
def _skipped_pattern(names: frozenset[bytes], *, plain: bool) -> re.Pattern[bytes]:
    """Compile the pattern of text and unselected tags; with `plain` also links to a path."""
    wanted = b"|".join(map(re.escape, sorted(_ALWAYS | names)))
    passed = rb"|" + _TO_A_PATH if plain else b""
    return re.compile(
        # Lower-case names only, which is twice as fast: others are checked one by one.
        rb"(?:[^<]++|<(?![A-Za-z/!?])|</?(?!(?:%s)[%s/>])[a-z][^%s/>A-Z]*+(?=[%s/>])%s%s)*+"
        % (wanted, SPACE, SPACE, SPACE, _REST, passed)
    )


def tag_attributes(data: bytes, tag: HtmlTag) -> list[HtmlAttribute]:
    """Return a tag's attributes; duplicate names are left out."""
    place, attributes = tag.start + 1 + tag.is_end + len(tag.name), {}
    while match := _ATTRIBUTE.match(data, place, tag.end - 1):
        name = match[1].lower()
        place = match.end()
        if name not in attributes:
            group = match.lastindex or 1
            quote = (None, None, b'"', b"'", b"")[group]
            start, end = match.span(group) if group > 1 else (match.end(1), match.end(1))
            attributes[name] = HtmlAttribute(name, match.end(1), start, end, quote)
    return list(attributes.values())


def is_closed_itself(data: bytes, tag: HtmlTag) -> bool:
    """Return True if the tag ends with a slash that is not part of a value."""
    if data[tag.end - 2 : tag.end - 1] != b"/":
        return False
    return all(each.end < tag.end - 1 for each in tag_attributes(data, tag))


def tag_at(data: bytes, place: int) -> HtmlTag | None:
    """Parse the tag that begins there; None without one, or when the page ends within it."""
    match = TAG.match(data, place)
    return None if match is None else HtmlTag(place, match.end(), match[2].lower(), bool(match[1]))


def after_markup(data: bytes, place: int) -> int:
    """Return the end of the comment or declaration that begins there; -1 when it never ends."""
    if data.startswith(b"<!--", place):
        if data.startswith((b">", b"->"), place + 4):
            return data.index(b">", place) + 1
        match = _COMMENT_END.search(data, place + 4)
        return -1 if match is None else match.end()
    opener = data[place + 1 : place + 3]
    if opener[:1] in (b"!", b"?") or (opener[:1] == b"/" and not opener[1:].isalpha()):
        return data.find(b">", place) + 1 or -1
    return -1


def after_raw(data: bytes, tag: HtmlTag) -> int:
    """Return the start of the end tag of a raw text element; -1 without one."""
    if tag.name == b"script":
        place = tag.end
        depth = 0  # 1: in a comment; 2: in a script within the comment
        while match := _SCRIPT.search(data, place):
            place = match.end()
            if match[0] == b"<!--":
                depth = depth or 1
                place = match.start() + 2  # its dashes may end it: <!-->
            elif match[0] == b"-->":
                depth = 0
            elif not match[1]:
                depth = 2 if depth == 1 else depth
            elif depth < 2:
                return match.start()
            else:
                depth = 1
        return -1
    if tag.name == b"plaintext":
        return -1
    match = _RAW_END[tag.name].search(data, tag.end)
    return -1 if match is None else match.start()


# SVG and MathML: elements that HTML begins within, and those that end both.
_POINTS = {
    b"svg": frozenset((b"foreignobject", b"desc", b"title")),
    b"math": frozenset((b"mi", b"mo", b"mn", b"ms", b"mtext")),
}
_HTML_TYPES = (b"text/html", b"application/xhtml+xml")  # of MathML's annotation-xml
_VOID_ELEMENTS = frozenset(b"area base br col embed hr img input link meta source track wbr param".split())
_BREAKING_OUT = frozenset(
    b"b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li "
    b"listing menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var".split()
)
_DEPTH = 500


class _OpenElement(NamedTuple):
    name: bytes
    space: bytes  # svg, math, or html
    holds_html: bool


def after_foreign(data: bytes, root: HtmlTag) -> int:
    """Return the end of an SVG or MathML element; -1 when unknown."""
    stack = [_OpenElement(root.name, root.name, holds_html=False)]
    place = root.end
    while stack:
        match = TEXT.match(data, place)
        assert match is not None
        place = match.end()
        tag = tag_at(data, place)
        if tag is None:
            if stack[-1].space != b"html" and data.startswith(b"<![CDATA[", place):
                end = data.find(b"]]>", place)
                place = -1 if end < 0 else end + 3
            else:
                place = after_markup(data, place)
        elif tag.is_end:
            place = _closed(tag, stack)
        else:
            place = _opened(data, tag, stack)
        if place < 0 or len(stack) > _DEPTH:
            return -1
    return place


def _closed(tag: HtmlTag, stack: list[_OpenElement]) -> int:
    if stack[-1].space != b"html" and tag.name in (b"p", b"br"):
        return _broken_out(tag, stack)
    is_html = stack[-1].space == b"html"
    for depth in range(len(stack) - 1, -1, -1):
        each = stack[depth]
        if (each.space == b"html") != is_html:
            break
        if each.name == tag.name:
            del stack[depth:]
            return tag.end
    # In SVG and MathML it may close what lies around them, which is not known here (13.2.6.5).
    is_harmless = is_html and all(each.name != tag.name for each in stack)
    return tag.end if is_harmless else -1


def _broken_out(tag: HtmlTag, stack: list[_OpenElement]) -> int:
    """Leave SVG and MathML as far as an HTML tag breaks out of them."""
    while stack and stack[-1].space != b"html" and not stack[-1].holds_html:
        stack.pop()
    return tag.end if stack else tag.start


def _opened(data: bytes, tag: HtmlTag, stack: list[_OpenElement]) -> int:
    top = stack[-1]
    if top.space != b"html" and not top.holds_html:
        if tag.name in _BREAKING_OUT or (
            tag.name == b"font" and any(each.name in (b"color", b"face", b"size") for each in tag_attributes(data, tag))
        ):
            if _broken_out(tag, stack) == tag.start:
                return tag.start
        else:
            space = b"svg" if tag.name == b"svg" else top.space
            if not is_closed_itself(data, tag):
                holds_html = tag.name in _POINTS[space]
                if space == b"math" and tag.name == b"annotation-xml":
                    holds_html = any(
                        each.name == b"encoding" and data[each.start : each.end].lower() in _HTML_TYPES
                        for each in tag_attributes(data, tag)
                    )
                stack.append(_OpenElement(tag.name, space, holds_html))
            return tag.end
    if tag.name in RAW or tag.name in (b"script", b"plaintext"):
        return after_raw(data, tag)
    if tag.name in _FOREIGN:
        if not is_closed_itself(data, tag):
            stack.append(_OpenElement(tag.name, tag.name, holds_html=False))
    elif tag.name not in _VOID_ELEMENTS and tag.name not in (b"keygen", b"image"):
        stack.append(_OpenElement(tag.name, b"html", holds_html=True))
    return tag.end


_SELECTOR = re.compile(
    r"(?P<name>[a-zA-Z][a-zA-Z0-9-]*)?(?:(?P<sign>[.#])(?P<value>[^\s.#,>+~\[\]:]+)|\[(?P<has>[\w-]+)\])?"
)


@dataclass(frozen=True, slots=True)
class ElementSelector:
    """Selector of elements by name, and by class, id or attribute; empty parts match anything."""

    name: bytes = b""
    sign: str = ""  # ".", "#", or "[" for an attribute
    value: bytes = b""

    @property
    def needle(self) -> bytes:
        """Return bytes that the tag of such an element contains, in any letter case."""
        return (self.value or self.name).lower()

    def fits(self, data: bytes, tag: HtmlTag) -> bool:
        """Return True if a start tag matches."""
        if self.name and self.name != tag.name:
            return False
        if not self.sign:
            return True
        for each in tag_attributes(data, tag):
            value = data[each.start : each.end]
            if self.sign == "[" and each.name == self.value:
                return value.lower() != b"false"
            if self.sign == "#" and each.name == b"id":
                return value == self.value
            if self.sign == "." and each.name == b"class":
                return self.value in value.split()
        return False


def parse_selector(text: str) -> ElementSelector:
    """Parse a selector; raises ConfigError.

    >>> parse_selector("div.box")
    ElementSelector(name=b'div', sign='.', value=b'box')
    """
    match = _SELECTOR.fullmatch(text.strip())
    if match is None or not text.strip():
        raise ConfigError(
            f"{text[:80]!r} is not a selector: write an element's name, .class, #id, name.class, or [attribute]."
        )
    name = (match["name"] or "").lower().encode()
    if match["has"]:
        return ElementSelector(name, "[", match["has"].lower().encode())
    return ElementSelector(name, match["sign"] or "", (match["value"] or "").encode("utf-8"))


# Elements with an optional end tag: possible siblings, and enclosing elements.
_CELLS = frozenset((b"td", b"th", b"tr", b"tbody", b"thead", b"tfoot"))
_ROWS = _CELLS - {b"td", b"th"}
_BLOCKS = frozenset(
    b"address article aside blockquote body center details dialog dir div dl dd dt fieldset figcaption "
    b"figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html li main menu nav ol p pre section "
    b"summary table td th tr ul".split()
)
_ENDED_BY: dict[bytes, tuple[frozenset[bytes], frozenset[bytes]]] = {
    b"a": (frozenset((b"a",)), frozenset()),
    b"p": (_BLOCKS, _BLOCKS - {b"p"}),
    b"li": (frozenset((b"li",)), frozenset((b"ul", b"ol", b"menu"))),
    b"dt": (frozenset((b"dt", b"dd")), frozenset((b"dl",))),
    b"dd": (frozenset((b"dt", b"dd")), frozenset((b"dl",))),
    b"td": (_CELLS, frozenset((b"table",))),
    b"th": (_CELLS, frozenset((b"table",))),
    b"tr": (_ROWS, frozenset((b"table",))),
    b"tbody": (_ROWS - {b"tr"}, frozenset((b"table",))),
}


def selector_positions(selectors: Sequence[ElementSelector], lowered: bytes) -> list[int]:
    """Return offsets where a lower-case page may match a selector without a name, in order."""
    needles = sorted({each.needle for each in selectors if not each.name})
    if not needles:
        return []
    return [positions.start() for positions in re.finditer(b"|".join(map(re.escape, needles)), lowered)]


class SelectedRegion:
    """Tracker of elements that match a selector; true within one. Receives every tag, in order."""

    def __init__(self, selectors: Sequence[ElementSelector]) -> None:
        self._selectors = selectors
        self._named = frozenset(each.name for each in selectors if each.name)
        self._name = b""
        self._depth = 0
        self._around = 0

    @property
    def wanted(self) -> frozenset[bytes]:
        """Return names of the elements whose tags are needed; others may be left out."""
        if not self._name:
            return self._named
        beside, around = _ENDED_BY.get(self._name, (frozenset(), frozenset()))
        return frozenset((self._name, *beside, *around))

    def enter(self, data: bytes, tag: HtmlTag) -> bool:
        """Process the next tag; return True if `wanted` has changed."""
        before = self._name
        if before:
            self._match(tag)
        # Nested regions change nothing, so only the outermost is recorded.
        is_outside = not self._name and not tag.is_end and tag.name not in _VOID_ELEMENTS
        if is_outside and any(each.fits(data, tag) for each in self._selectors):
            self._name, self._depth, self._around = tag.name, 1, 0
        return self._name != before

    def __bool__(self) -> bool:
        return bool(self._name)

    def _match(self, tag: HtmlTag) -> None:
        rule = _ENDED_BY.get(self._name)
        if rule is None:
            self._depth += (-1 if tag.is_end else 1) * (tag.name == self._name)
            if not self._depth:
                self._name = b""
            return
        beside, around = rule
        if tag.name in around and not (self._name == b"p" and not tag.is_end):
            self._around += -1 if tag.is_end else 1
        ends = tag.name == self._name if tag.is_end else tag.name in beside
        if self._around < 0 or (self._around == 0 and ends):
            self._name = b""
