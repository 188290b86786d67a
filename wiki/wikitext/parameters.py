"""A template's name and parameters, as they stand in the text."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from wiki.wikitext.citations import Parameter, Span
from wiki.wikitext.flat import HOLE, flatten
from wiki.wikitext.rules import fold
from wiki.wikitext.structure import Kind, Node, Part

LONGEST_NAME: Final = 200  # characters of a name that anybody has
LONGEST_VALUE: Final = (
    65_536  # characters of a value; nested citations would hold each other's texts
)
_folded = lru_cache(maxsize=4_096)(fold)


@dataclass(slots=True, eq=False)
class Given:
    """A parameter that was given.

    Attributes:
        name: folded.
        written: its name as written.
        value: as in `Parameter`.
        start: where its value begins, spaces included.
        inner: where it begins without them.
        end: where it ends without them.
        part: its place in the tree.
    """

    name: str
    written: str
    value: str
    start: int
    inner: int
    end: int
    part: Part

    @property
    def parameter(self) -> Parameter:
        """The same as it is told."""
        whole = Span(self.part.start - 1, self.part.end)
        return Parameter(self.written, self.value, whole, Span(self.inner, self.end))

    def children(self) -> list[Node]:
        """Nodes within the value."""
        if self.start == self.part.start or not self.part.children:
            return self.part.children
        return [node for node in self.part.children if node.start >= self.start]


def written_name(text: str, node: Node) -> str:
    """A template's name as written, comments taken out; empty when templates make it."""
    part = node.parts[0]
    if not part.children:
        return text[part.start : min(part.end, part.start + LONGEST_NAME)].strip()
    name = flatten(text, part.start, part.end, part.children).text
    return "" if HOLE in name else name[:LONGEST_NAME].strip()


def parameters_of(text: str, node: Node) -> list[Given]:
    """A template's parameters, in their order."""
    found = []
    unnamed = 0
    for part in node.parts[1:]:
        start = part.start
        if part.equals >= 0:
            name = text[start : part.equals]
            if part.children:
                name = _plain(text, start, part.equals, part.children)
            name = name.strip()[:LONGEST_NAME]
            start = part.equals + 1
        else:
            unnamed += 1
            name = str(unnamed)
        raw = text[start : part.end]
        left = raw.lstrip()
        inner = part.end - len(left)
        value = left.rstrip()
        end = inner + len(value)
        if part.children:
            value = _plain(text, inner, end, part.children).strip()
        if len(value) > LONGEST_VALUE:
            value = value[:LONGEST_VALUE]
        found.append(Given(_folded(name), name, value, start, inner, end, part))
    return found


def _plain(text: str, start: int, end: int, children: Sequence[Node]) -> str:
    """The text as it stands, comments taken out."""
    pieces = []
    at = start
    for node in children:
        if node.kind is Kind.COMMENT and start <= node.start and node.end <= end:
            pieces.append(text[at : node.start])
            at = node.end
    return "".join(pieces) + text[at:end] if pieces else text[start:end]
