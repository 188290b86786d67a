"""Whether a template may be put in behind a link, and be shown as text there.

fits(text, [offsets], rules.references)    # those where it may
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from wiki.wikitext.external import opens_tag
from wiki.wikitext.rules import fold
from wiki.wikitext.structure import Kind, Node, parse

# Beside those of the template map, templates whose parameters are running text.
_TEXT_TEMPLATES: Final = frozenset({"plainlist", "unbulleted list", "ubl", "reflist"})
_TEXT_TAGS: Final = frozenset({"references", "poem"})  # where the text around them is running text
_LONGEST_NAME: Final = 200
_Piece = tuple[int, int, Sequence[Node], bool]  # from, to, nodes within, whether it is running text


def fits(text: str, offsets: Iterable[int], references: frozenset[str]) -> frozenset[int]:
    """Of these places, ends of links, those where a template may be put in.

    Not within another template's parameters, unless they are in a reference; not in headings, galleries,
    code and comments; not before a ``<`` or ``>`` that opens nothing: MediaWiki shows it as a part of what
    a bare URL is followed by, and a URL behind it as text, which would become a link. Linear in the text.

    Args:
        text: a page's.
        offsets: places in it.
        references: folded names of templates whose content is a reference.
    """
    wanted = sorted({each for each in offsets if 0 <= each <= len(text)})
    if not wanted:
        return frozenset()
    state = dict.fromkeys(wanted, True)
    due: list[_Piece] = [(0, len(text), parse(text).children, True)]
    while due:
        start, end, nodes, is_text = due.pop()
        state.update((each, is_text) for each in _within(wanted, start, end))
        begins = {node.start for node in nodes}
        for at in _within(wanted, start, end):
            if text[at : at + 1] in ("<", ">") and at < end and at not in begins:
                state[at] = state[at] and opens_tag(text, at)
        for node in nodes:
            inside = _within(wanted, node.start + 1, node.end - 1)
            if inside:
                state.update((each, False) for each in inside)
                due += _pieces(text, node, references, is_text=is_text)
    return frozenset(each for each in wanted if state[each]) - _in_headings(text, wanted)


def _within(wanted: Sequence[int], start: int, end: int) -> Sequence[int]:
    """The places from start up to and with end."""
    first = bisect_left(wanted, start)
    return wanted[first : bisect_right(wanted, end, lo=first)]


def _pieces(
    text: str, node: Node, references: frozenset[str], *, is_text: bool
) -> Iterator[_Piece]:
    """The pieces of a node that hold wikitext."""
    if node.kind is Kind.CONTENT:
        is_inner = node.name == "ref" or (is_text and node.name in _TEXT_TAGS)
        yield (*node.inner, node.children, is_inner)
    elif node.kind is Kind.TEMPLATE:
        name = fold(text[node.parts[0].start : node.parts[0].end][:_LONGEST_NAME])
        is_inner = is_text and (
            name in references or name in _TEXT_TEMPLATES or name.startswith("#tag:ref")
        )
        for part in node.parts[1:]:
            yield (max(part.start, part.equals + 1), part.end, part.children, is_inner)


def _in_headings(text: str, wanted: Sequence[int]) -> frozenset[int]:
    """The places that are in headings; every line is looked at once."""
    found = set()
    end = -1
    is_heading = False
    for at in wanted:
        if at > end:
            start = text.rfind("\n", max(end, 0), at) + 1 or max(end + 1, 0)
            end = text.find("\n", at)
            end = end if end >= 0 else len(text)
            is_heading = text.startswith("=", start) and text[start:end].rstrip().endswith("=")
        if is_heading:
            found.add(at)
    return frozenset(found)
