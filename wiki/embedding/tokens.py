"""HTML as its tags, read from bytes without changing one (WHATWG HTML, 13.2.5).

    for tag in tags(data): …        # those that matter to links, in their order

A tag is found where a browser finds one: not in comments, in scripts and styles, in text areas, in what
a template or a menu of choices holds, in SVG or MathML. Where a browser's reading depends on more than
is known here, the reading ends: what follows is nobody's link, and stays as it is. Linear in time; the
patterns are possessive, so that nothing is read twice.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

SPACE = rb"\t\n\f\r "
# What follows a tag's name, up to its end. A `>` in quotes does not end it; a quote that never closes
# takes the rest of the page, and then there is no tag.
_REST = (
    rb"(?:[%(s)s/]++"
    rb"|[^%(s)s/>][^%(s)s/>=]*+"
    rb"""(?:[%(s)s]*+=[%(s)s]*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^%(s)s>]*+)|(?![%(s)s]*+=)))*+>"""
) % {b"s": SPACE}
_ATTRIBUTE = re.compile(
    rb"[%(s)s/]*+([^%(s)s/>][^%(s)s/>=]*+)"
    rb"""(?:[%(s)s]*+=[%(s)s]*+(?:"([^"]*+)"|'([^']*+)'|((?!["'])[^%(s)s>]*+))|(?![%(s)s]*+=))"""
    % {b"s": SPACE}
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
_RAW_END = {
    name: re.compile(rb"</%s(?=[%s/>])" % (name, SPACE), re.IGNORECASE) for name in sorted(RAW)
}


class Tag(NamedTuple):
    """A tag: from `start` up to, and without, `end`; `name` in lower case."""

    start: int
    end: int
    name: bytes
    is_end: bool


class Attribute(NamedTuple):
    """An attribute as it stands in a tag.

    Attributes:
        name: in lower case.
        name_end: where its name ends.
        start: where its value begins; `name_end` when it has none.
        end: where its value ends.
        quote: ``"``, ``'``, or empty for a value without quotes; None without a value.
    """

    name: bytes
    name_end: int
    start: int
    end: int
    quote: bytes | None


class Watch:
    """Which tags a reader wants to see beside those of links; it may change its mind at each tag.

    Attributes:
        names: of elements.
        only_citing: links that lead to the page's own host, as most do, need not be seen.
    """

    def __init__(self, places: Sequence[int] = (), *, only_citing: bool = False) -> None:
        """Take places in the page, in order: tags that hold one are wanted, whatever their names."""
        self.names = frozenset[bytes]()
        self.only_citing = only_citing
        self._places = places
        self._next = 0

    def stop(self, data: bytes, place: int) -> int:
        """How far tags may be passed over from there."""
        while self._next < len(self._places) and self._places[self._next] < place:
            self._next += 1
        if self._next == len(self._places):
            return len(data)
        end = self._places[self._next]
        while end > place and data[end - 1] in b"<":
            end -= 1  # what follows it decides what it is
        return end


def tags(data: bytes, watch: Watch | None = None) -> Iterator[Tag]:
    """The tags of a page that a browser makes elements of: all that are wanted, and maybe others.

    Args:
        data: the page, in an encoding that contains ASCII.
        watch: which are wanted beside ``a``, ``base`` and ``sup``.
    """
    watch = watch or Watch()
    place, templates, in_select = 0, 0, False
    while True:
        place = _after_dull(data, place, watch)
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
            place = _after_content(data, tag)
            if place < 0:
                return


def _after_dull(data: bytes, place: int, watch: Watch) -> int:
    """Where the next thing begins that is neither text nor a tag that nobody wants."""
    stop = watch.stop(data, place)
    found = _dull(watch.names, plain=watch.only_citing).match(data, place, stop)
    assert found is not None  # it matches nothing, too
    if found.end() < stop or stop == len(data):
        return found.end()
    text = TEXT.match(data, stop)
    assert text is not None
    return text.end()


# A whole link to a path: nothing in its tag can be, or become, the host of an address.
_TO_A_PATH = rb"<a(?: ++[a-z-]++(?:=\"(?:[^\"/\\&<>\t\n\r]|/(?!/)|&amp;)*+\")?+)*+ *+>[^<]*+</a>"


@lru_cache(maxsize=64)
def _dull(names: frozenset[bytes], *, plain: bool) -> re.Pattern[bytes]:
    """Text, and tags of all but those names and our own; with `plain` also links to a path."""
    wanted = b"|".join(map(re.escape, sorted(_ALWAYS | names)))
    passed = rb"|" + _TO_A_PATH if plain else b""
    return re.compile(
        # Names in lower case only, which is twice as fast: others are looked at one by one.
        rb"(?:[^<]++|<(?![A-Za-z/!?])|</?(?!(?:%s)[%s/>])[a-z][^%s/>A-Z]*+(?=[%s/>])%s%s)*+"
        % (wanted, SPACE, SPACE, SPACE, _REST, passed)
    )


def attributes(data: bytes, tag: Tag) -> list[Attribute]:
    """A tag's attributes; of several with one name only the first counts, the others are left out."""
    place, seen = tag.start + 1 + tag.is_end + len(tag.name), {}
    while found := _ATTRIBUTE.match(data, place, tag.end - 1):
        name = found[1].lower()
        place = found.end()
        if name not in seen:
            group = found.lastindex or 1
            quote = (None, None, b'"', b"'", b"")[group]
            start, end = found.span(group) if group > 1 else (found.end(1), found.end(1))
            seen[name] = Attribute(name, found.end(1), start, end, quote)
    return list(seen.values())


def is_closed_itself(data: bytes, tag: Tag) -> bool:
    """Whether the tag ends with a slash that is no part of a value."""
    if data[tag.end - 2 : tag.end - 1] != b"/":
        return False
    return all(each.end < tag.end - 1 for each in attributes(data, tag))


def tag_at(data: bytes, place: int) -> Tag | None:
    """The tag that begins there; None when there is none, or the page ends within it."""
    found = TAG.match(data, place)
    if found is None:
        return None
    return Tag(place, found.end(), found[2].lower(), bool(found[1]))


def after_markup(data: bytes, place: int) -> int:
    """Where a comment or declaration that begins there ends; -1 when the page ends before.

    So does what is none of these: a tag that never ends.
    """
    if data.startswith(b"<!--", place):
        if data.startswith((b">", b"->"), place + 4):
            return data.index(b">", place) + 1
        found = _COMMENT_END.search(data, place + 4)
        return -1 if found is None else found.end()
    opener = data[place + 1 : place + 3]
    if opener[:1] in (b"!", b"?") or (opener[:1] == b"/" and not opener[1:].isalpha()):
        return data.find(b">", place) + 1 or -1
    return -1


def after_raw(data: bytes, tag: Tag) -> int:
    """Where the end tag begins of an element whose content is text; -1 when there is none."""
    if tag.name == b"script":
        return _after_script(data, tag.end)
    if tag.name == b"plaintext":
        return -1
    found = _RAW_END[tag.name].search(data, tag.end)
    return -1 if found is None else found.start()


def _after_content(data: bytes, tag: Tag) -> int:
    """Where reading goes on after a start tag whose content is no markup of the page."""
    if tag.name in RAW or tag.name in (b"script", b"plaintext"):
        return after_raw(data, tag)
    if tag.name in _FOREIGN and not is_closed_itself(data, tag):
        return after_foreign(data, tag)
    return tag.end


def _after_script(data: bytes, place: int) -> int:
    """Where a script's end tag begins: one in a comment within it may be its text (13.2.5.15)."""
    depth = 0  # 1: in a comment; 2: in a script that the comment holds
    while found := _SCRIPT.search(data, place):
        place = found.end()
        if found[0] == b"<!--":
            depth = depth or 1
            place = found.start() + 2  # its dashes may end it: <!-->
        elif found[0] == b"-->":
            depth = 0
        elif not found[1]:
            depth = 2 if depth == 1 else depth
        elif depth < 2:
            return found.start()
        else:
            depth = 1
    return -1


# SVG and MathML: elements that HTML begins within, and those that end both.
_POINTS = {
    b"svg": frozenset((b"foreignobject", b"desc", b"title")),
    b"math": frozenset((b"mi", b"mo", b"mn", b"ms", b"mtext")),
}
_VOID = frozenset(
    b"area base br col embed hr img input link meta source track wbr param keygen image".split()
)
_BREAKING_OUT = frozenset(
    b"b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li "
    b"listing menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var".split()
)
_DEPTH = 500


class _Open(NamedTuple):
    name: bytes
    space: bytes  # svg, math, or html
    holds_html: bool


def after_foreign(data: bytes, root: Tag) -> int:
    """Where an SVG or MathML element ends; -1 when that cannot be told."""
    stack = [_Open(root.name, root.name, holds_html=False)]
    place = root.end
    while stack:
        found = TEXT.match(data, place)
        assert found is not None
        place = found.end()
        tag = tag_at(data, place)
        if tag is None:
            place = _after_foreign_markup(data, place, stack[-1])
        elif tag.is_end:
            place = _closed(tag, stack)
        else:
            place = _opened(data, tag, stack)
        if place < 0 or len(stack) > _DEPTH:
            return -1
    return place


def _after_foreign_markup(data: bytes, place: int, within: _Open) -> int:
    if within.space != b"html" and data.startswith(b"<![CDATA[", place):
        end = data.find(b"]]>", place)
        return -1 if end < 0 else end + 3
    return after_markup(data, place)


def _closed(tag: Tag, stack: list[_Open]) -> int:
    """Close what an end tag closes; where reading goes on."""
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


def _broken_out(tag: Tag, stack: list[_Open]) -> int:
    """Leave SVG and MathML as far as a tag of HTML does."""
    while stack and stack[-1].space != b"html" and not stack[-1].holds_html:
        stack.pop()
    return tag.end if stack else tag.start


def _opened(data: bytes, tag: Tag, stack: list[_Open]) -> int:
    """Open what a start tag opens; where reading goes on."""
    top = stack[-1]
    if top.space != b"html" and not top.holds_html:
        if tag.name in _BREAKING_OUT or (tag.name == b"font" and _is_html_font(data, tag)):
            if _broken_out(tag, stack) == tag.start:
                return tag.start
        else:
            space = b"svg" if tag.name == b"svg" else top.space
            if not is_closed_itself(data, tag):
                stack.append(_Open(tag.name, space, _holds_html(data, tag, space)))
            return tag.end
    if tag.name in RAW or tag.name in (b"script", b"plaintext"):
        return after_raw(data, tag)
    if tag.name in _FOREIGN:
        if not is_closed_itself(data, tag):
            stack.append(_Open(tag.name, tag.name, holds_html=False))
    elif tag.name not in _VOID:
        stack.append(_Open(tag.name, b"html", holds_html=True))
    return tag.end


def _holds_html(data: bytes, tag: Tag, space: bytes) -> bool:
    if space == b"math" and tag.name == b"annotation-xml":
        kinds = (b"text/html", b"application/xhtml+xml")
        return any(
            each.name == b"encoding" and data[each.start : each.end].lower() in kinds
            for each in attributes(data, tag)
        )
    return tag.name in _POINTS[space]


def _is_html_font(data: bytes, tag: Tag) -> bool:
    return any(each.name in (b"color", b"face", b"size") for each in attributes(data, tag))
