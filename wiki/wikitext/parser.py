"""Wikitext parser: tree of templates, tags, comments (`parse`), and flat text with offsets (`flatten`).

The rules are those of MediaWiki's preprocessor for a viewed (not transcluded) page: braces match from the inside out,
three before two; an open ``[[`` or heading hides the braces that would close an enclosing template; an unclosed tag or
brace is plain text; an open comment extends to the end. Verbatim here but not in MediaWiki are ``<code>`` and
``<source>``, whose content is not meant as links (B03). Linear in time: one pass with a stack; recursion into tags.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

VERBATIM: Final = (
    *("nowiki", "pre", "code", "syntaxhighlight", "source", "math", "chem", "ce", "templatedata"),
    *("templatestyles", "timeline", "score", "graph", "mapframe", "maplink", "hiero", "inputbox"),
    *("charinsert", "categorytree", "dynamicpagelist", "ask"),
)
CONTENT: Final = ("ref", "references", "gallery", "poem", "indicator", "imagemap", "tabber")
_SHOWN: Final = ("noinclude", "onlyinclude")  # the tags vanish, their content stays
_HIDDEN: Final = "includeonly"


class NodeKind(IntEnum):
    """Kind of a node."""

    TEMPLATE = 0  # {{name|…}}, parser functions too
    ARGUMENT = 1  # {{{name|default}}}
    CONTENT = 2  # a tag whose content is wikitext
    VERBATIM = 3  # a tag whose content is not wikitext
    COMMENT = 4  # what vanishes: comments, <noinclude> tags, <includeonly> with its content


@dataclass(slots=True)
class TemplatePart:
    """Part of a template between ``|``; the first is its name."""

    start: int  # after the ``|``
    equals: int = -1  # offset of its ``=``; -1 without one
    end: int = -1  # offset of the next ``|`` or of the template's end
    children: list["WikitextNode"] = field(default_factory=list)  # nodes within


@dataclass(slots=True)
class WikitextNode:
    """Piece of the text that is not plain text."""

    kind: NodeKind
    start: int  # first offset
    end: int  # end offset, exclusive
    name: str = ""  # of a tag, in lower case
    parts: list[TemplatePart] = field(default_factory=list)  # of a template or argument
    inner: tuple[int, int] = (0, 0)  # span of a tag's content
    children: list["WikitextNode"] = field(default_factory=list)  # within a tag's content


_TAGS = "|".join((*VERBATIM, *CONTENT, *(f"/?{name}" for name in _SHOWN), _HIDDEN))
# A link to a page without nested markup changes nothing: it is skipped as a whole.
_OPENERS = rf"\{{\{{+|\[\[(?:[^\[\]{{}}<\n]*\]\]|\[*)|<(?:!--|(?:{_TAGS})(?=[\s>]|/>))"
_LINE = r"|\n=+"
_FLAGS = re.IGNORECASE | re.ASCII
_TOP = re.compile(_OPENERS + _LINE, _FLAGS)
_IN_NAME = re.compile(_OPENERS + _LINE + r"|\}{2,3}|\|", _FLAGS)
_IN_PART = re.compile(_OPENERS + _LINE + r"|\}{2,3}|\||=", _FLAGS)
_IN_LINK = re.compile(_OPENERS + _LINE + r"|\]\]", _FLAGS)
_IN_HEADING = re.compile(_OPENERS + r"|\n", _FLAGS)
_TAG_NAME = re.compile(r"/?[a-z]+", _FLAGS)
_ENDS: Final = {name: re.compile(rf"</{name}\s*>", _FLAGS) for name in (*VERBATIM, *CONTENT, _HIDDEN)}


@dataclass(slots=True)
class _OpenNode:
    """Open element: a run of ``{`` or ``[``, or a heading (``=``)."""

    kind: str
    start: int
    count: int
    parts: list[TemplatePart]
    children: list[WikitextNode]  # where a node that closes now belongs


def parse(text: str) -> WikitextNode:
    """Parse a page's text into a tree; never fails, since any text is valid wikitext."""
    whole = (0, len(text))
    return WikitextNode(NodeKind.CONTENT, *whole, inner=whole, children=_ParserPass(text, *whole).children)


class _ParserPass:
    def __init__(self, text: str, start: int, end: int) -> None:
        self.children: list[WikitextNode] = []
        self._text = text
        self._at = start
        self._end = end
        self._stack: list[_OpenNode] = []
        self._pattern = _TOP
        self._no_more: set[str] = set()  # tags whose end is not to be found any more
        if text.startswith("=", start, end):
            self._open_heading(start)
        self._run()
        # What is still open is plain text; elements closed within it are kept.
        for each in self._stack:
            if each.kind == "{":
                for part in each.parts:
                    self.children.extend(part.children)

    def _run(self) -> None:
        text, end = self._text, self._end
        while True:
            match = self._pattern.search(text, self._at, end)
            if match is None:
                return
            at = match.start()
            sign = text[at]
            if sign == "|":
                top = self._stack[-1]
                top.parts[-1].end = at
                part = TemplatePart(at + 1)
                top.parts.append(part)
                top.children = part.children
                self._pattern = _IN_PART
                self._at = at + 1
            elif sign == "=":
                self._stack[-1].parts[-1].equals = at
                self._pattern = _IN_NAME
                self._at = at + 1
            elif sign == "}":
                self._close_braces(at, match.end() - at)
            elif sign == "{":
                part = TemplatePart(match.end())
                self._stack.append(_OpenNode("{", at, match.end() - at, [part], part.children))
                self._pattern = _IN_NAME
                self._at = match.end()
            elif sign == "[":
                # An internal link is not a node: its content belongs to its surroundings.
                self._at = match.end()
                if text[self._at - 1] == "[":
                    self._stack.append(_OpenNode("[", at, self._at - at, [], self._here()))
                    self._pattern = _IN_LINK
            elif sign == "]":
                top = self._stack[-1]
                top.count -= 2
                if top.count < 2:
                    self._stack.pop()
                self._at = at + 2
                self._choose()
            elif sign == "\n":
                self._line(at, match.end())
            else:
                self._tag(at)

    def _close_braces(self, at: int, run: int) -> None:
        top = self._stack[-1]
        used = min(run, top.count, 3)
        start = top.start + top.count - used
        top.parts[-1].end = at
        self._at = at + used
        kind = NodeKind.TEMPLATE if used == 2 else NodeKind.ARGUMENT
        node = WikitextNode(kind, start, self._at, parts=top.parts)
        top.count -= used
        if top.count >= 2:
            top.parts = [TemplatePart(start)]
            top.children = top.parts[0].children
        else:
            self._stack.pop()
        self._here().append(node)
        self._choose()

    def _line(self, at: int, end: int) -> None:
        if self._stack and self._stack[-1].kind == "=":
            self._stack.pop()
            self._at = at  # the same line break may begin the next heading
            self._choose()
        elif end - at == 2 and self._pattern is _IN_PART:
            # A single sign is a parameter's, not a heading's.
            self._stack[-1].parts[-1].equals = at + 1
            self._pattern = _IN_NAME
            self._at = end
        else:
            self._open_heading(at + 1)

    def _open_heading(self, at: int) -> None:
        count = 1
        while count < 6 and self._text.startswith("=", at + count, self._end):
            count += 1
        self._stack.append(_OpenNode("=", at, count, [], self._here()))
        self._pattern = _IN_HEADING
        self._at = at + count

    def _here(self) -> list[WikitextNode]:
        return self._stack[-1].children if self._stack else self.children

    def _choose(self) -> None:
        if not self._stack:
            self._pattern = _TOP
            return
        top = self._stack[-1]
        if top.kind == "{":
            is_named = len(top.parts) == 1 or top.parts[-1].equals >= 0
            self._pattern = _IN_NAME if is_named else _IN_PART
        else:
            self._pattern = _IN_LINK if top.kind == "[" else _IN_HEADING

    def _tag(self, at: int) -> None:
        text, end = self._text, self._end
        if text.startswith("<!--", at):
            close = text.find("-->", at + 4, end)
            self._at = end if close < 0 else close + 3
            self._here().append(WikitextNode(NodeKind.COMMENT, at, self._at))
            return
        named = _TAG_NAME.match(text, at + 1, end)
        assert named is not None  # the pattern found one
        name = named[0].lower()
        close = -1 if ">" in self._no_more else text.find(">", named.end(), end)
        if close < 0:
            self._no_more.add(">")
            self._at = at + 1
        elif name.lstrip("/") in _SHOWN:
            self._at = close + 1
            self._here().append(WikitextNode(NodeKind.COMMENT, at, self._at))
        elif text[close - 1] == "/":
            self._at = close + 1
            self._add_tag(name, at, (self._at, self._at))
        else:
            inside = close + 1
            match = None if name in self._no_more else _ENDS[name].search(text, inside, end)
            if match is not None:
                self._at = match.end()
                self._add_tag(name, at, (inside, match.start()))
            elif name == _HIDDEN:
                self._at = self._end
                self._add_tag(name, at, (inside, self._end))
            else:
                self._no_more.add(name)
                self._at = inside

    def _add_tag(self, name: str, at: int, inner: tuple[int, int]) -> None:
        if name == _HIDDEN:
            self._here().append(WikitextNode(NodeKind.COMMENT, at, self._at))
            return
        is_read = name in CONTENT
        children = _ParserPass(self._text, *inner).children if is_read and inner[0] < inner[1] else []
        kind = NodeKind.CONTENT if is_read else NodeKind.VERBATIM
        self._here().append(WikitextNode(kind, at, self._at, name, inner=inner, children=children))


def node_edges(nodes: Sequence[WikitextNode]) -> frozenset[int]:
    """Return the offsets at which these nodes, those within them, and the closing tags of contents begin."""
    edges, due = set[int](), list(nodes)
    while due:
        node = due.pop()
        edges |= {node.start, node.inner[1] or node.start}
        due += [*node.children, *(each for part in node.parts for each in part.children)]
    return frozenset(edges)


HOLE: Final = "\x7f"  # represents a node; no URL continues across it
_SIGNS: Final = {"!": "|", "=": "="}  # core's magic words for signs that would divide


@dataclass(slots=True)
class FlatText:
    """Flat text of a stretch."""

    text: str  # with a `HOLE` for each template or tag
    start: int  # its offset in the page
    starts: list[int] = field(default_factory=list)  # of the pieces; empty: nothing was replaced
    sources: list[int] = field(default_factory=list)  # offset of each piece in the page
    nodes: list[WikitextNode | None] = field(default_factory=list)  # None: plain text

    def source(self, place: int) -> int:
        """Return the character's offset in the page."""
        if not self.starts:
            return self.start + place
        piece = bisect_right(self.starts, place) - 1
        if self.nodes[piece] is not None:
            return self.sources[piece]
        return self.sources[piece] + place - self.starts[piece]

    def source_end(self, place: int) -> int:
        """Return the end offset in the page of the text before `place`."""
        if not self.starts or not place:
            return self.start + place
        piece = bisect_right(self.starts, place - 1) - 1
        node = self.nodes[piece]
        return node.end if node is not None else self.sources[piece] + place - self.starts[piece]

    def node_at(self, place: int) -> WikitextNode | None:
        """Return the node of a `HOLE`, or of a character produced by a template."""
        if not self.starts or not 0 <= place < len(self.text):
            return None
        return self.nodes[bisect_right(self.starts, place) - 1]


def flatten(text: str, start: int, end: int, children: Sequence[WikitextNode]) -> FlatText:
    """Flatten a stretch of `text`. `children`: all nodes of the stretch, in text order."""
    if not children:
        return FlatText(text[start:end], start)
    flat = FlatText("", start)
    pieces: list[str] = []
    length = 0

    def add(piece: str, source: int, node: WikitextNode | None) -> None:
        nonlocal length
        flat.starts.append(length)
        flat.sources.append(source)
        flat.nodes.append(node)
        pieces.append(piece)
        length += len(piece)

    at = start
    for node in children:
        if node.start > at:
            add(text[at : node.start], at, None)
        if node.kind is not NodeKind.COMMENT:
            is_sign = node.end - node.start == 5 and node.kind is NodeKind.TEMPLATE
            sign = _SIGNS.get(text[node.start + 2], HOLE) if is_sign else HOLE
            add(sign, node.start, node)
        at = node.end
    if at < end:
        add(text[at:end], at, None)
    flat.text = "".join(pieces)
    if not flat.starts:  # nothing but comments
        add("", start, None)
    return flat
