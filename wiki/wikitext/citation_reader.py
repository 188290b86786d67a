"""Reader of a page's citations, with adjacent tags and archive links.

A tag belongs to the last link before it: in the same reference or parameter, at any distance; in a list item; directly
after a reference; in running text when it is near. An archive template for another page is a citation of its own, and
so is a dead-link tag that names a link when there is none before it. A pure function, linear in the text, which never
fails: broken text is read as MediaWiki reads it.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Final

from links.archives.archive_urls import is_same_page
from wiki.wikitext.citation_draft import (
    AdjacentItem,
    CitationBuilder,
    CitationDraft,
    TextStretch,
    decode_entities,
    draft_address,
)
from wiki.wikitext.citation_model import Citation, CitationForm, CitationTag, ParameterRole, TemplateParameter, TextSpan
from wiki.wikitext.link_parser import ExternalLink, find_links, is_url
from wiki.wikitext.parser import HOLE, FlatText, NodeKind, WikitextNode, flatten, parse
from wiki.wikitext.template_map import TemplateRules
from wiki.wikitext.template_reader import LONGEST_NAME, TemplateReader, written_name

_NEAR: Final = 80  # characters of running text between a link and its tag
_IN_LINE: Final = 500  # the same in a line of a list
_AFTER: Final = 160  # in which an access date is searched
_JOINTS = re.compile(r"[\s.,;:)\]'\"*\u2013-]*")
_STOPS = re.compile(r"[\s.,;]*")
_UNSAFE = re.compile(r"\{\{|\}\}|\[\[|\]\]|[|<>\n\x00-\x08\x7f]")
_PLAIN_WAYS: Final = (CitationForm.BARE, CitationForm.BRACKETS, CitationForm.TEMPLATE)


@dataclass(slots=True)
class _MarkJoiner:
    text: str
    reader: CitationBuilder
    drafts: list[CitationDraft]
    by_reference: dict[int, list[CitationDraft]]
    named: dict[str, int]  # where the reference of that name is
    last: CitationDraft | None = None  # the link before
    last_end: int = 0  # where it, or what already speaks of it, ends
    is_behind_reference: bool = False

    def join(self, stretch: TextStretch) -> None:
        for number, item in enumerate(stretch.items):
            if item.draft is not None:
                self._seen(item.draft, item.end)
                self._accessed(stretch, number)
            elif item.inner is not None:
                if item.inner.is_ref:
                    start = item.start if item.start in self.by_reference else self.named.get(item.name, -1)
                    self.last = self.by_reference[start][-1] if start >= 0 else None
                    self.last_end, self.is_behind_reference = item.end, True
            elif item.tag is not None:
                self._tag(stretch, item, item.tag)
        if stretch.is_ref and self.reader.rules.writing.citation:
            _judge_alone(stretch, self.text)

    def _seen(self, draft: CitationDraft, end: int) -> None:
        self.last, self.last_end, self.is_behind_reference = draft, end, False

    def _tag(self, stretch: TextStretch, item: AdjacentItem, tag: CitationTag) -> None:
        target = self._target(stretch, item)
        if item.copy is not None:
            address, original, place = item.copy
            if target is None or (original and not is_same_page(original, _url_of(target, self.reader))):
                self._own(stretch, item, tag, place)
                return
            if not target.archived:
                target.archived = address
                target.dated = item.dated
            target.archive_tag = target.archive_tag or tag
        elif item.dead is not None:
            named = item.url if item.url is not None and is_url(item.url.value) else None
            if target is None or (
                named is not None and not is_same_page(decode_entities(named.value), _url_of(target, self.reader))
            ):  # it names another link than the preceding one
                if named is not None:
                    self._own(stretch, item, tag, named)
                return
            if target.dead_tag is None:
                target.dead_tag = tag
                target.dead_says = item.dead
        elif target is not None:
            target.is_held = target.is_held or item.is_hold
            target.is_paywalled = target.is_paywalled or item.is_paywall
        if target is not None and target is self.last:
            self.last_end = item.end

    def _target(self, stretch: TextStretch, item: AdjacentItem) -> CitationDraft | None:
        if stretch.is_ref and stretch.reference is not None:
            within = self.by_reference.get(stretch.reference.start, ())
            place = bisect_left(within, item.start + 1, key=lambda draft: draft.span.end)
            if place:
                return within[place - 1]
        if self.last is None:
            return stretch.cited
        if stretch.is_value:
            return self.last
        gap = item.start - self.last_end
        if gap < 0:
            return self.last  # in its label
        if self.is_behind_reference:
            near = gap <= _NEAR and _JOINTS.fullmatch(self.text, self.last_end, item.start)
            return self.last if near and not self._breaks(item.start) else None
        limit = _IN_LINE if self._is_listed(item.start) else _NEAR
        return self.last if gap <= limit and not self._breaks(item.start) else None

    def _breaks(self, end: int) -> bool:
        return self.text.find("\n", self.last_end, end) >= 0

    def _is_listed(self, place: int) -> bool:
        start = self.text.rfind("\n", max(0, place - 2_000), place) + 1
        return self.text[start : start + 1] in ("*", "#", ":", ";", "|")

    def _own(self, stretch: TextStretch, item: AdjacentItem, tag: CitationTag, place: TemplateParameter) -> None:
        is_archive = item.copy is not None
        is_address = is_archive and not item.is_original
        role = ParameterRole.ARCHIVE_URL if is_address else ParameterRole.URL
        way = CitationForm.ARCHIVE_TEMPLATE if is_archive else CitationForm.TEMPLATE
        draft = CitationDraft(way, tag.span, place.inner, place.value, template=tag.name, within=stretch.within)
        draft.parameters, draft.reference = {role: place}, stretch.reference
        if item.title is not None:
            draft.parameters[ParameterRole.TITLE] = item.title
            draft.title = item.title.value
        if item.copy is not None:
            draft.archived, draft.dated = item.copy[0], item.dated
        else:
            draft.dead_tag, draft.dead_says = tag, item.dead or ""
        self.drafts.append(draft)
        self._seen(draft, tag.span.end)

    def _accessed(self, stretch: TextStretch, number: int) -> None:
        """Read words such as "Retrieved 5 March 2020" after a link without a date parameter."""
        item, draft = stretch.items[number], stretch.items[number].draft
        if draft is None or draft.way not in _PLAIN_WAYS or draft.accessed:
            return
        if not stretch.is_ref and not stretch.is_value and not self._is_listed(item.start):
            return
        others = (other.start for other in stretch.items[number + 1 : number + 4] if other.draft is not None)
        end = min(stretch.end, item.end + _AFTER, next(others, stretch.end))
        match = _phrase_pattern(self.reader.rules.retrieved).search(self.text, item.end, end)
        if match is not None:
            draft.accessed = self.text[match.end() : end].partition("\n")[0][:60]


def _judge_alone(stretch: TextStretch, text: str) -> None:
    """Mark a link that is the only content of its reference and so can become a template (B15)."""
    drafts = [item.draft for item in stretch.items if item.draft is not None]
    if len(drafts) != 1 or stretch.owner is not None:
        return
    draft = drafts[0]
    if draft.way not in (CitationForm.BARE, CitationForm.BRACKETS) or _UNSAFE.search(draft.title):
        return
    at = stretch.start
    for item in stretch.items:
        if item.inner is not None or not _STOPS.fullmatch(text, at, max(at, item.start)):
            return
        at = max(at, item.end)
    draft.is_alone = _STOPS.fullmatch(text, at, stretch.end) is not None


def _url_of(draft: CitationDraft, reader: CitationBuilder) -> str:
    address = draft_address(draft)
    archived = reader.archive(address)
    return archived.original if archived is not None and archived.original else address


@lru_cache(maxsize=64)
def _phrase_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    known = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"\b(?:{known})\b[\s:=]{{0,3}}" if known else r"(?!)", re.IGNORECASE)


_NAME = re.compile(r"\bname\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s/>\"']+)", re.IGNORECASE)
DEEPEST: Final = 100  # templates within templates; MediaWiki expands no more


def read_citations(text: str, rules: TemplateRules, *, today: date, own: Sequence[str] = ()) -> tuple[Citation, ...]:
    """Read the citations of a page; `own` are the origins of this archive, recognised as copies."""
    walk = _PageWalk(text, CitationBuilder(rules, today, tuple(own)))
    walk.all()
    finished = map(walk.reader.finished, walk.drafts)
    return tuple(sorted(finished, key=lambda each: (each.span.start, -each.span.end, each.url_span.start)))


@dataclass(slots=True)
class _PageWalk:
    text: str
    reader: CitationBuilder
    drafts: list[CitationDraft] = field(default_factory=list)
    _slashes: list[int] = field(default_factory=list)
    _due: list[TextStretch] = field(default_factory=list)

    def all(self) -> None:
        """Read all stretches, then attach adjacent tags to each link; tags without one become drafts."""
        self._slashes = [each.start() for each in _hints(self.reader.rules).finditer(self.text)]
        templates = TemplateReader(self.text, self.reader, self.add, self.later, self._due.append, self.has_slashes)
        read: list[TextStretch] = []
        self._due.append(TextStretch(0, len(self.text), parse(self.text).children))
        while self._due:
            stretch = self._due.pop()
            self._read(stretch, templates)
            read.append(stretch)
        by_reference: dict[int, list[CitationDraft]] = {}
        for draft in sorted(self.drafts, key=lambda draft: draft.span.end):
            if draft.reference is not None:
                by_reference.setdefault(draft.reference.start, []).append(draft)
        items = (item for stretch in read for item in stretch.items)
        named = {item.name: item.start for item in items if item.name and item.start in by_reference}
        for stretch in read:
            if stretch.items:
                _MarkJoiner(self.text, self.reader, self.drafts, by_reference, named).join(stretch)

    def has_slashes(self, start: int, end: int) -> bool:
        """Check for a possible link between `start` and `end`."""
        at = bisect_left(self._slashes, start)
        return at < len(self._slashes) and self._slashes[at] < end

    def add(self, stretch: TextStretch, draft: CitationDraft) -> None:
        """Add a link to the stretch."""
        draft.reference = stretch.reference
        self.drafts.append(draft)
        stretch.items.append(AdjacentItem(draft.span.start, draft.span.end, draft=draft))

    def later(self, stretch: TextStretch) -> None:
        """Schedule a stretch for reading if it may contain a link."""
        if self.has_slashes(stretch.start, stretch.end):
            self._due.append(stretch)

    def _read(self, stretch: TextStretch, templates: TemplateReader) -> None:
        flat = flatten(self.text, stretch.start, stretch.end, stretch.children)
        value = flat.text.strip() if stretch.is_value else ""
        if is_url(value):  # the parameter consists of one URL only
            start = flat.text.index(value)
            url = TextSpan(flat.source(start), flat.source_end(start + len(value)))
            self.add(
                stretch, CitationDraft(CitationForm.TEMPLATE, stretch.owner or url, url, value, template=stretch.within)
            )
            return
        elements: list[WikitextNode | ExternalLink] = []
        elements += (each for each in stretch.children if each.kind is not NodeKind.COMMENT)
        elements += find_links(flat.text) if "//" in flat.text else ()
        for each in sorted(
            elements, key=lambda each: flat.source(each.start) if isinstance(each, ExternalLink) else each.start
        ):
            if isinstance(each, ExternalLink):
                self._link(stretch, flat, each)
            else:
                self._node(stretch, each, templates)

    def _link(self, stretch: TextStretch, flat: FlatText, link: ExternalLink) -> None:
        url = TextSpan(flat.source(link.url_start), flat.source_end(link.url_end))
        span = TextSpan(flat.source(link.start), flat.source_end(link.end))
        written = flat.text[link.url_start : link.url_end]
        way = CitationForm.BRACKETS if link.is_bracketed else CitationForm.BARE
        draft = CitationDraft(way, span, url, written, within=stretch.within)
        if link.is_bracketed and link.label_start < link.end - 1:
            label = TextSpan(flat.source(link.label_start), flat.source_end(link.end - 1))
            draft.title = self.text[label.start : label.end].strip()
        if flat.text.startswith(HOLE, link.url_end):
            # What is directly after the URL may be part of it, so that the URL is unknown.
            node, rules = flat.node_at(link.url_end), self.reader.rules
            draft.is_malformed = node is not None and (
                node.kind is NodeKind.ARGUMENT
                or (node.kind is NodeKind.TEMPLATE and not rules.is_tag(rules.name_of(written_name(self.text, node))))
            )
        self.add(stretch, draft)

    def _node(self, stretch: TextStretch, node: WikitextNode, templates: TemplateReader) -> None:
        if stretch.depth > DEEPEST:
            return
        if node.kind is NodeKind.TEMPLATE:
            templates.read(stretch, node)
        elif node.kind is NodeKind.CONTENT:
            inner = stretch.inner(*node.inner, node.children)
            inner.within = ""
            if node.name == "ref":
                inner.reference, inner.is_ref = TextSpan(node.start, node.end), True
            item = AdjacentItem(node.start, node.end, inner=inner)
            named = _NAME.search(self.text, node.start, min(node.inner[0], node.start + LONGEST_NAME))
            if named is not None:
                item.name = named[1].strip("\"' ")
            stretch.items.append(item)
            self.later(inner)
        elif node.kind is NodeKind.ARGUMENT:
            for part in node.parts[1:]:
                self.later(stretch.inner(part.start, part.end, part.children))


@lru_cache(maxsize=64)
def _hints(rules: TemplateRules) -> re.Pattern[str]:
    """Return a pattern for texts that may contain a link: two slashes, or a template that adds them."""
    names = (re.escape(name).replace(r"\ ", r"[\s_]+") for name in rules.links)
    known = "|".join(sorted(names, key=len, reverse=True))
    return re.compile(rf"//|\{{\{{\s*(?:[^{{}}|:]{{1,30}}:)?(?:{known})\s*\|" if known else "//", re.IGNORECASE)
