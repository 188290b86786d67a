r"""A stretch of wikitext made flat: comments gone, templates one character each, places known.

    flat = flatten(text, start, end, children)
    flat.text                  # "http://a.test/x \x7f"
    flat.source(0)             # where that character stands in `text`

Every character of a page is in one flat stretch at most, so that making them all is linear.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from wiki.wikitext.structure import Kind, Node

HOLE: Final = "\x7f"  # stands for a node; no URL goes on across it
_SIGNS: Final = {"!": "|", "=": "="}  # core's magic words for signs that would divide


@dataclass(slots=True)
class Flat:
    """Flat text.

    Attributes:
        text: with a `HOLE` for each template or tag.
        start: where it begins in the page.
        starts: of each piece in `text`; empty when nothing was changed.
        sources: where each piece stands in the page.
        nodes: what each piece stands for; None: plain text.
    """

    text: str
    start: int
    starts: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    nodes: list[Node | None] = field(default_factory=list)

    def source(self, place: int) -> int:
        """Where the character stands in the page."""
        if not self.starts:
            return self.start + place
        piece = bisect_right(self.starts, place) - 1
        if self.nodes[piece] is not None:
            return self.sources[piece]
        return self.sources[piece] + place - self.starts[piece]

    def source_end(self, place: int) -> int:
        """Where what ends before `place` ends in the page."""
        if not self.starts or not place:
            return self.start + place
        piece = bisect_right(self.starts, place - 1) - 1
        node = self.nodes[piece]
        return node.end if node is not None else self.sources[piece] + place - self.starts[piece]

    def node_at(self, place: int) -> Node | None:
        """What the character stands for, when it is a `HOLE`, or a sign that a template made."""
        if not self.starts or not 0 <= place < len(self.text):
            return None
        return self.nodes[bisect_right(self.starts, place) - 1]


def flatten(text: str, start: int, end: int, children: Sequence[Node]) -> Flat:
    """The stretch of `text` made flat.

    Args:
        text: the page's.
        start: of the stretch.
        end: of the stretch.
        children: all nodes of the stretch, in their order.
    """
    if not children:
        return Flat(text[start:end], start)
    flat = Flat("", start)
    pieces: list[str] = []
    length = 0

    def add(piece: str, source: int, node: Node | None) -> None:
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
        if node.kind is not Kind.COMMENT:
            add(_sign(text, node), node.start, node)
        at = node.end
    if at < end:
        add(text[at:end], at, None)
    flat.text = "".join(pieces)
    if not flat.starts:  # nothing but comments
        add("", start, None)
    return flat


def _sign(text: str, node: Node) -> str:
    if node.end - node.start == 5 and node.kind is Kind.TEMPLATE:
        return _SIGNS.get(text[node.start + 2], HOLE)
    return HOLE
