"""A page's wikitext as citations: every external link, with all that the text says of it (B03-B05).

    citations = read_citations(text, rules_for("en"), today=today)
    text[c.url_span.start : c.url_span.end]     # the URL as it stands there

A pure function, linear in the text, which never fails: text that is broken is read as MediaWiki reads
it. What is found: URLs in parameters of citation templates and of other ones, in brackets and bare; in
references, tables, captions, wherever they stand. What is not: anything within tags whose content is no
wikitext (`wiki.wikitext.structure.VERBATIM`), and comments. The order is that of the text.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Final

from wiki.wikitext.beside import join
from wiki.wikitext.citations import Citation, Span, Way
from wiki.wikitext.drafts import Draft, Reader
from wiki.wikitext.external import Found, find_links, is_url
from wiki.wikitext.flat import HOLE, Flat, flatten
from wiki.wikitext.parameters import LONGEST_NAME, written_name
from wiki.wikitext.rules import Rules
from wiki.wikitext.stretches import Beside, Stretch
from wiki.wikitext.structure import Kind, Node, parse
from wiki.wikitext.templated import Templates

_NAME = re.compile(r"\bname\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s/>\"']+)", re.IGNORECASE)
DEEPEST: Final = 100  # templates within templates; MediaWiki expands no more


def read_citations(
    text: str, rules: Rules, *, today: date, own: Sequence[str] = ()
) -> tuple[Citation, ...]:
    """The citations of a page.

    Args:
        text: its wikitext.
        rules: of its wiki.
        today: no access date is later.
        own: origins of this archive's own pages, whose addresses are then known as copies.
    """
    walk = _Walk(text, Reader(rules, today, tuple(own)))
    walk.all()
    finished = [walk.reader.finished(draft) for draft in walk.drafts]
    finished.sort(key=lambda each: (each.span.start, -each.span.end, each.url_span.start))
    return tuple(finished)


@dataclass(slots=True)
class _Walk:
    """Goes through a page, stretch by stretch."""

    text: str
    reader: Reader
    drafts: list[Draft] = field(default_factory=list)
    _slashes: list[int] = field(default_factory=list)
    _due: list[Stretch] = field(default_factory=list)

    def all(self) -> None:
        """Read everything, then join what stands beside each other."""
        self._slashes = [each.start() for each in _hints(self.reader.rules).finditer(self.text)]
        templates = Templates(
            self.text, self.reader, self.add, self.later, self._due.append, self.has_slashes
        )
        read: list[Stretch] = []
        self._due.append(Stretch(0, len(self.text), parse(self.text).children))
        while self._due:
            stretch = self._due.pop()
            self._read(stretch, templates)
            read.append(stretch)
        join(read, self.text, self.reader, self.drafts)

    def has_slashes(self, start: int, end: int) -> bool:
        """Whether there may be a link from `start` to `end`."""
        at = bisect_left(self._slashes, start)
        return at < len(self._slashes) and self._slashes[at] < end

    def add(self, stretch: Stretch, draft: Draft) -> None:
        """Keep a link that stands in the stretch."""
        draft.reference = stretch.reference
        self.drafts.append(draft)
        stretch.items.append(Beside(draft.span.start, draft.span.end, draft=draft))

    def later(self, stretch: Stretch) -> None:
        """Read a stretch, when there may be a link in it."""
        if self.has_slashes(stretch.start, stretch.end):
            self._due.append(stretch)

    def _read(self, stretch: Stretch, templates: Templates) -> None:
        flat = flatten(self.text, stretch.start, stretch.end, stretch.children)
        if stretch.is_value and self._is_whole(stretch, flat):
            return
        links = find_links(flat.text) if "//" in flat.text else ()
        pending = iter(links)
        link = next(pending, None)
        for node in stretch.children:
            if node.kind is Kind.COMMENT:
                continue
            while link is not None and flat.source(link.start) < node.start:
                self._link(stretch, flat, link)
                link = next(pending, None)
            self._node(stretch, node, templates)
        while link is not None:
            self._link(stretch, flat, link)
            link = next(pending, None)

    def _is_whole(self, stretch: Stretch, flat: Flat) -> bool:
        """Whether the value of a parameter is one URL, and nothing else; it is noted then."""
        value = flat.text.strip()
        if not is_url(value):
            return False
        start = flat.text.index(value)
        url = Span(flat.source(start), flat.source_end(start + len(value)))
        draft = Draft(Way.TEMPLATE, stretch.owner or url, url, value)
        draft.template = stretch.within
        self.add(stretch, draft)
        return True

    def _link(self, stretch: Stretch, flat: Flat, link: Found) -> None:
        url = Span(flat.source(link.url_start), flat.source_end(link.url_end))
        span = Span(flat.source(link.start), flat.source_end(link.end))
        written = flat.text[link.url_start : link.url_end]
        draft = Draft(Way.BRACKETS if link.is_bracketed else Way.BARE, span, url, written)
        draft.within = stretch.within
        if link.is_bracketed and link.label_start < link.end - 1:
            label = Span(flat.source(link.label_start), flat.source_end(link.end - 1))
            draft.title = self.text[label.start : label.end].strip()
        if flat.text.startswith(HOLE, link.url_end):
            draft.is_malformed = self._goes_on(flat.node_at(link.url_end))
        self.add(stretch, draft)

    def _goes_on(self, node: Node | None) -> bool:
        """Whether what stands directly behind a URL is a part of it, so that nobody knows it."""
        if node is None or node.kind is Kind.ARGUMENT:
            return node is not None
        if node.kind is not Kind.TEMPLATE:
            return False
        rules = self.reader.rules
        return not rules.is_tag(rules.name_of(written_name(self.text, node)))

    def _node(self, stretch: Stretch, node: Node, templates: Templates) -> None:
        if stretch.depth > DEEPEST:
            return
        if node.kind is Kind.TEMPLATE:
            templates.read(stretch, node)
        elif node.kind is Kind.CONTENT:
            self._content(stretch, node)
        elif node.kind is Kind.ARGUMENT:
            for part in node.parts[1:]:
                self.later(stretch.inner(part.start, part.end, part.children))

    def _content(self, stretch: Stretch, node: Node) -> None:
        inner = stretch.inner(*node.inner, node.children)
        inner.within = ""
        if node.name == "ref":
            inner.reference, inner.is_ref = Span(node.start, node.end), True
        item = Beside(node.start, node.end, inner=inner)
        named = _NAME.search(self.text, node.start, min(node.inner[0], node.start + LONGEST_NAME))
        if named is not None:
            item.name = named[1].strip("\"' ")
        stretch.items.append(item)
        self.later(inner)


@lru_cache(maxsize=64)
def _hints(rules: Rules) -> re.Pattern[str]:
    """What every link has: two slashes, or a template that supplies them."""
    names = (re.escape(name).replace(r"\ ", r"[\s_]+") for name in rules.links)
    known = "|".join(sorted(names, key=len, reverse=True))
    return re.compile(
        rf"//|\{{\{{\s*(?:[^{{}}|:]{{1,30}}:)?(?:{known})\s*\|" if known else "//", re.IGNORECASE
    )
