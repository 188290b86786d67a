"""One template, taken apart where it stands: its parameters, and how its author writes them.

    template = dissect(text, span)         # None: not one template from end to end, or not certain
    style = Style.of(template)
    style.parameter("archive-url", "https://…", template.fields[1])    # "|archive-url=https://…"

Every part is a position in the text, so that a part can be replaced and nothing beside it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from wiki.wikitext.citations import Span
from wiki.wikitext.rules import fold
from wiki.wikitext.structure import Kind, Part, parse

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MARKUP = re.compile(r"[\[\]{}<>]|''")
_TRAILING = re.compile(r"[^\S\r\n]+(?=\r?\n)")  # blanks at the end of a line
LONGEST: Final = 65_536  # characters a template may have to be taken apart
_ALIGNED: Final = 3  # so many names of different lengths, padded to one width, are a column


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter.

    Attributes:
        name: without spaces; empty for one without a name, or whose name is not plain text.
        start: of its ``|``.
        name_span: of the name without spaces.
        end: of it all: the next ``|``, or the template's ``}}``.
        inner: the value without the white space around it; empty at the end of what is white space.
        value: what stands in `inner`.
        value_start: behind ``=``.
        is_commented: the value holds nothing but such text and comments.
        is_plain: the value holds nothing but text, entities and URLs: no comment, no markup, no other
            template.
    """

    name: str
    start: int
    name_span: Span
    end: int
    inner: Span
    value: str
    value_start: int
    is_commented: bool
    is_plain: bool


@dataclass(frozen=True)
class Dissected:
    """A template.

    Attributes:
        text: the page's.
        span: the template's.
        name: as written, without spaces.
        name_end: where its name ends, white space included.
        fields: its parameters in order.
    """

    text: str
    span: Span
    name: str
    name_end: int
    fields: tuple[Field, ...]

    def named(self, names: Iterable[str]) -> list[Field]:
        """The parameters that have one of the names (folded), in order."""
        wanted = frozenset(names)
        return [field for field in self.fields if field.name and fold(field.name) in wanted]

    def at(self, span: Span) -> Field | None:
        """The parameter whose value the span lies in."""
        return next(
            (
                each
                for each in self.fields
                if each.value_start <= span.start and span.end <= each.end
            ),
            None,
        )

    def behind(self, each: Field, lead: str) -> int:
        """Where a parameter with that white space before it is put in behind this one.

        Behind blanks at the end of a line, so that the line stays as it is.
        """
        end = each.inner.end
        blanks = _TRAILING.match(self.text, end, each.end) if "\n" in lead else None
        return blanks.end() if blanks is not None else end

    def lead_of(self, index: int) -> str:
        """The white space before the ``|`` of the parameter with that number."""
        start = self.name_end if index == 0 else self.fields[index - 1].end
        before = self.text[self.span.start : start]
        return before[len(before.rstrip()) :]


def dissect(text: str, span: Span) -> Dissected | None:
    """The template that is exactly this piece of the text; None when that is not certain."""
    piece = text[span.start : span.end]
    if len(piece) > LONGEST or not (piece.startswith("{{") and piece.endswith("}}")):
        return None
    found = parse(piece).children
    if len(found) != 1 or found[0].kind is not Kind.TEMPLATE or found[0].end != len(piece):
        return None
    name, *parts = found[0].parts
    if found[0].start or any(each.kind is not Kind.COMMENT for each in name.children):
        return None
    fields = tuple(_field(text, span.start, part) for part in parts)
    written = piece[name.start : name.end].strip()
    return Dissected(text, span, written, span.start + name.end, fields)


def _field(text: str, base: int, part: Part) -> Field:
    start, end = base + part.start - 1, base + part.end
    has_name = part.equals >= 0
    value_start = base + part.equals + 1 if has_name else start + 1
    written = text[start + 1 : value_start - 1] if has_name else ""
    name_start = start + 1 + len(written) - len(written.lstrip())
    is_named = has_name and not any(base + each.start < value_start for each in part.children)
    value = text[value_start:end]
    has_comments = all(each.kind is Kind.COMMENT for each in part.children)
    without = _COMMENT.sub("", value)
    inner_end = value_start + len(value.rstrip())
    inner_start = min(value_start + len(value) - len(value.lstrip()), inner_end)
    return Field(
        name=written.strip() if is_named else "",
        start=start,
        name_span=Span(name_start, name_start + len(written.strip())),
        end=end,
        inner=Span(inner_start, inner_end),
        value=text[inner_start:inner_end],
        value_start=value_start,
        is_commented=has_comments and _MARKUP.search(without) is None,
        is_plain=not part.children and _MARKUP.search(value) is None,
    )


@dataclass(frozen=True)
class Style:
    """How a template's author writes parameters.

    Attributes:
        lead: white space before ``|``; without what an author left at the end of a line.
        after_bar: between ``|`` and the name.
        before_equals: between the name and ``=``.
        after_equals: between ``=`` and the value.
        column: width of the names, filled up with spaces to a column; 0: they are not.
    """

    lead: str
    after_bar: str
    before_equals: str
    after_equals: str
    column: int = 0

    @classmethod
    def of(cls, template: Dissected, anchor: Field) -> "Style":
        """The template's style; where its parameters differ, most of them, then the anchor decide."""
        text = template.text
        named = [(i, each) for i, each in enumerate(template.fields) if each.name]
        leads = {each.start: _TRAILING.sub("", template.lead_of(i)) for i, each in named}
        others = [leads[each.start] for i, each in named if i > 0]
        bars = {each.start: text[each.start + 1 : each.name_span.start] for _, each in named}
        gaps = {each.start: _gap(text, each) for _, each in named}
        values = {
            each.start: text[each.value_start : each.inner.start] for _, each in named if each.value
        }
        widths = [
            each.name_span.end - each.name_span.start + len(gaps[each.start]) for _, each in named
        ]
        lengths = {each.name_span.end - each.name_span.start for _, each in named}
        width = Counter(widths).most_common(1)[0] if widths else (0, 0)
        is_column = (
            len(lengths) >= _ALIGNED and len(set(gaps.values())) > 1 and 2 * width[1] > len(widths)
        )
        return cls(
            _most(others or list(leads.values()), leads.get(anchor.start, "")),
            _most(list(bars.values()), bars.get(anchor.start, "")),
            _most(list(gaps.values()), gaps.get(anchor.start, "")),
            _most(list(values.values()), values.get(anchor.start, "")),
            width[0] if is_column else 0,
        )

    @cached_property
    def is_blank_before_bar(self) -> bool:
        """Whether parameters are parted by spaces within a line."""
        return bool(self.lead) and not self.lead.strip(" ")

    def parameter(self, name: str, value: str) -> str:
        """A parameter in that style, with what comes before its ``|``."""
        gap = " " * max(self.column - len(name), 1) if self.column else self.before_equals
        return f"{self.lead}|{self.after_bar}{name}{gap}={self.after_equals}{value}"


def _gap(text: str, each: Field) -> str:
    return text[each.name_span.end : each.value_start - 1]


def _most(found: Sequence[str], own: str) -> str:
    """The most frequent; of equals the anchor's own."""
    votes = Counter(found)
    top = max(votes.values(), default=0)
    return own if not votes or votes[own] == top else next(k for k, v in votes.items() if v == top)
