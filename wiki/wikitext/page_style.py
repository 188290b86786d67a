"""Writing style of a page: its date formats, and the layout of a template's parameters.

Every part has its offsets in the text, so that it can be replaced alone.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final

from wiki.wikitext.citation_model import TextSpan
from wiki.wikitext.parser import NodeKind, TemplatePart, parse
from wiki.wikitext.template_map import fold_name, words

_LONGEST: Final = 40  # characters a date may have
_USE: Final = re.compile(r"\{\{\s*use[ _](dmy|mdy)[ _]dates\s*[|}]", re.IGNORECASE)


class DateStyle(StrEnum):
    """Format of a date."""

    ISO = "iso"  # 2020-03-05
    DMY = "dmy"  # 5 March 2020; 5. März 2020
    MDY = "mdy"  # March 5, 2020
    YMD = "ymd"  # 2020 March 5
    DOTS = "dots"  # 05.03.2020


_STYLE_FORMS: Final = (
    (DateStyle.ISO, re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)),
    (DateStyle.DOTS, re.compile(r"\d{1,2}\. ?\d{1,2}\. ?\d{4}", re.ASCII)),
    (DateStyle.DMY, re.compile(r"[0-9]{1,2}\.? [^\W\d_]{3,12}\.?,? [0-9]{4}")),
    (DateStyle.YMD, re.compile(r"[0-9]{4} [^\W\d_]{3,12} [0-9]{1,2}")),
    (DateStyle.MDY, re.compile(r"[^\W\d_]{3,12}\.? [0-9]{1,2}, ?[0-9]{4}")),
)


def date_style(text: str) -> DateStyle | None:
    """Return the format of this date; None when it is not a complete date."""
    text = text.strip()
    if len(text) > _LONGEST:
        return None
    return next((style for style, form in _STYLE_FORMS if form.fullmatch(text)), None)


def page_style(text: str, dates: Iterable[str], usual: DateStyle) -> DateStyle:
    """Return the page's declared style ({{use dmy dates}}), else that of most of its dates."""
    if (match := _USE.search(text)) is not None:
        return DateStyle(match[1].lower())
    votes = Counter(style for style in map(date_style, dates) if style is not None)
    return votes.most_common(1)[0][0] if votes else usual


def format_day(day: date, style: DateStyle, language: str) -> str:
    """Format a day in that style; in ISO for a language without known month names."""
    months = words()["months"].get(language.partition("-")[0])
    if style is DateStyle.DOTS:
        return f"{day.day:02}.{day.month:02}.{day.year:04}"
    if style is DateStyle.ISO or months is None:
        return day.isoformat()
    month = months[day.month - 1]
    if style is DateStyle.MDY:
        return f"{month} {day.day}, {day.year:04}"
    if style is DateStyle.YMD:
        return f"{day.year:04} {month} {day.day}"
    return f"{day.day}{'.' if language.startswith('de') else ''} {month} {day.year:04}"


def month_name(day: date, language: str) -> str:
    """Return the month's name in that language, else in English: ``November``."""
    months: Mapping[str, Sequence[str]] = words()["months"]
    return months.get(language.partition("-")[0], months["en"])[day.month - 1]


_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MARKUP = re.compile(r"[\[\]{}<>]|''")
_TRAILING = re.compile(r"[^\S\r\n]+(?=\r?\n)")  # blanks at the end of a line
LONGEST_TEMPLATE: Final = 65_536  # characters a template may have to be taken apart
_ALIGNED: Final = 3  # this many names of different lengths, padded to one width, form a column


@dataclass(frozen=True, slots=True)
class TemplateField:
    """Parameter of a template, with its layout."""

    name: str  # without spaces; empty for an unnamed one, or whose name is not plain text
    start: int  # of its ``|``
    name_span: TextSpan  # of the name without spaces
    end: int  # of the parameter: the next ``|``, or the template's ``}}``
    inner: TextSpan  # value's span without white space; blank: empty, at its end
    value: str  # content of `inner`
    value_start: int  # after ``=``
    is_commented: bool  # the value holds only plain content and comments
    is_plain: bool  # the value holds only text, entities and URLs: no comment, markup or template


@dataclass(frozen=True)
class TemplateLayout:
    """Template with the layout of its parameters."""

    text: str  # the page's
    span: TextSpan  # the template's
    name_end: int  # end of its name, including white space
    fields: tuple[TemplateField, ...]  # its parameters in order

    def named(self, names: Iterable[str]) -> list[TemplateField]:
        """Return the parameters that have one of the names (folded), in order."""
        wanted = frozenset(names)
        return [field for field in self.fields if field.name and fold_name(field.name) in wanted]

    def at(self, span: TextSpan) -> TemplateField | None:
        """Return the parameter whose value contains the span."""
        return next((each for each in self.fields if each.value_start <= span.start and span.end <= each.end), None)

    def behind(self, each: TemplateField, lead: str) -> int:
        """Return where a parameter with white space `lead` follows this one: behind trailing blanks of the line."""
        end = each.inner.end
        blanks = _TRAILING.match(self.text, end, each.end) if "\n" in lead else None
        return blanks.end() if blanks is not None else end

    def lead_of(self, index: int) -> str:
        """Return the white space before the ``|`` of the parameter with that index."""
        start = self.name_end if index == 0 else self.fields[index - 1].end
        before = self.text[self.span.start : start]
        return before[len(before.rstrip()) :]


def template_layout(text: str, span: TextSpan) -> TemplateLayout | None:
    """Parse the template that is exactly this span of the text; None when not certain."""
    piece = text[span.start : span.end]
    if len(piece) > LONGEST_TEMPLATE or not (piece.startswith("{{") and piece.endswith("}}")):
        return None
    nodes = parse(piece).children
    if len(nodes) != 1 or nodes[0].kind is not NodeKind.TEMPLATE or nodes[0].end != len(piece):
        return None
    name, *parts = nodes[0].parts
    if nodes[0].start or any(each.kind is not NodeKind.COMMENT for each in name.children):
        return None
    return TemplateLayout(text, span, span.start + name.end, tuple(_field(text, span.start, part) for part in parts))


def _field(text: str, base: int, part: TemplatePart) -> TemplateField:
    start, end = base + part.start - 1, base + part.end
    has_name = part.equals >= 0
    value_start = base + part.equals + 1 if has_name else start + 1
    written = text[start + 1 : value_start - 1] if has_name else ""
    name_start = start + 1 + len(written) - len(written.lstrip())
    is_named = has_name and not any(base + each.start < value_start for each in part.children)
    value = text[value_start:end]
    has_comments = all(each.kind is NodeKind.COMMENT for each in part.children)
    without = _COMMENT.sub("", value)
    inner_end = value_start + len(value.rstrip())
    inner_start = min(value_start + len(value) - len(value.lstrip()), inner_end)
    return TemplateField(
        name=written.strip() if is_named else "",
        start=start,
        name_span=TextSpan(name_start, name_start + len(written.strip())),
        end=end,
        inner=TextSpan(inner_start, inner_end),
        value=text[inner_start:inner_end],
        value_start=value_start,
        is_commented=has_comments and _MARKUP.search(without) is None,
        is_plain=not part.children and _MARKUP.search(value) is None,
    )


@dataclass(frozen=True)
class TemplateStyle:
    """Parameter layout used in a template."""

    lead: str  # white space before ``|``, without trailing blanks of a line
    after_bar: str  # between ``|`` and the name
    before_equals: str  # between the name and ``=``
    after_equals: str  # between ``=`` and the value
    column: int = 0  # width to which names are padded with spaces; 0: no padding

    @classmethod
    def of(cls, template: TemplateLayout, anchor: TemplateField) -> "TemplateStyle":
        """Determine the template's style: the majority of its parameters, then the anchor."""
        text = template.text
        leads, bars, gaps, values = {}, {}, {}, {}  # by the parameter's start
        widths: list[int] = []
        named = [(index, each) for index, each in enumerate(template.fields) if each.name]
        for index, each in named:
            leads[each.start] = _TRAILING.sub("", template.lead_of(index))
            bars[each.start] = text[each.start + 1 : each.name_span.start]
            gaps[each.start] = text[each.name_span.end : each.value_start - 1]
            if each.value:
                values[each.start] = text[each.value_start : each.inner.start]
            widths.append(each.name_span.end - each.name_span.start + len(gaps[each.start]))
        width, count = Counter(widths).most_common(1)[0] if widths else (0, 0)
        lengths = {each.name_span.end - each.name_span.start for _, each in named}
        is_column = len(lengths) >= _ALIGNED and len(set(gaps.values())) > 1 and 2 * count > len(widths)
        first = template.fields[0].start if template.fields else -1
        others = [lead for start, lead in leads.items() if start != first]
        lead = _most(others or list(leads.values()), leads.get(anchor.start, ""))
        bar, gap, after = (_most(list(style.values()), style.get(anchor.start, "")) for style in (bars, gaps, values))
        return cls(lead, bar, gap, after, width if is_column else 0)

    def parameter(self, name: str, value: str) -> str:
        """Format a parameter in this style, with its leading white space."""
        gap = " " * max(self.column - len(name), 1) if self.column else self.before_equals
        return f"{self.lead}|{self.after_bar}{name}{gap}={self.after_equals}{value}"


def _most(counts: Sequence[str], own: str) -> str:
    """Return the most frequent value; of equals the anchor's own."""
    votes = Counter(counts)
    top = max(votes.values(), default=0)
    return own if not votes or votes[own] == top else next(k for k, v in votes.items() if v == top)
