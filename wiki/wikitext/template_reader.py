"""Reader of templates: parameters, citations, link templates, tags, functions."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from wiki.wikitext.citation_draft import AdjacentItem, CitationBuilder, CitationDraft, TextStretch
from wiki.wikitext.citation_model import CitationForm, CitationTag, ParameterRole, TemplateParameter, TextSpan
from wiki.wikitext.link_parser import is_url
from wiki.wikitext.parser import HOLE, NodeKind, TemplatePart, WikitextNode, flatten
from wiki.wikitext.template_map import CitationTemplate, fold_name, words

LONGEST_NAME: Final = 200  # characters of a name
LONGEST_VALUE: Final = 65_536  # characters of a value; nested citations would contain each other's texts
_folded = lru_cache(maxsize=4_096)(fold_name)


@dataclass(slots=True, eq=False)
class GivenParameter:
    """Parameter as given in a template call."""

    name: str  # folded
    written: str  # its name as written
    value: str  # as in `TemplateParameter`
    start: int  # of its value, including spaces
    inner: int  # of its value without spaces
    end: int  # of its value without spaces
    part: TemplatePart  # its part in the tree

    @property
    def parameter(self) -> TemplateParameter:
        """Return the parameter as a `TemplateParameter`."""
        return TemplateParameter(self.written, self.value, TextSpan(self.inner, self.end))

    def children(self) -> list[WikitextNode]:
        """Return the nodes within the value."""
        if self.start == self.part.start or not self.part.children:
            return self.part.children
        return [node for node in self.part.children if node.start >= self.start]


def written_name(text: str, node: WikitextNode) -> str:
    """Return a template's name as written, without comments; empty when it contains templates."""
    part = node.parts[0]
    if not part.children:
        return text[part.start : min(part.end, part.start + LONGEST_NAME)].strip()
    name = flatten(text, part.start, part.end, part.children).text
    return "" if HOLE in name else name[:LONGEST_NAME].strip()


def parameters_of(text: str, node: WikitextNode) -> list[GivenParameter]:
    """Return a template's parameters, in text order."""
    parameters, unnamed = [], 0
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
        left = text[start : part.end].lstrip()
        inner = part.end - len(left)
        value = left.rstrip()
        end = inner + len(value)
        if part.children:
            value = _plain(text, inner, end, part.children).strip()
        parameters.append(GivenParameter(_folded(name), name, value[:LONGEST_VALUE], start, inner, end, part))
    return parameters


def _plain(text: str, start: int, end: int, children: Sequence[WikitextNode]) -> str:
    pieces, at = [], start
    for node in children:
        if node.kind is NodeKind.COMMENT and start <= node.start and node.end <= end:
            pieces.append(text[at : node.start])
            at = node.end
    return "".join(pieces) + text[at:end] if pieces else text[start:end]


_FUNCTION = re.compile(r"\s*(?:(?:safe)?subst:)?\s*(#?)([^:|{}\n]{1,40}):", re.IGNORECASE)
_HOST = re.compile(r"[^\s/?#|\[\]<>\"\x7f:@]+\.[^\s/?#|\[\]<>\"\x7f.:@]{2,}(?::\d+)?(?:[/?#][^\s\x7f]*)?")


@dataclass(slots=True)
class TemplateReader:
    """Reader of templates."""

    text: str  # of the page
    reader: CitationBuilder  # its rules
    add: Callable[[TextStretch, CitationDraft], None]  # adds a link
    later: Callable[[TextStretch], None]  # schedules a stretch that may contain a link
    surely: Callable[[TextStretch], None]  # schedules a stretch in any case
    has_slashes: Callable[[int, int], bool]  # predicate: a range may contain a URL

    def read(self, stretch: TextStretch, node: WikitextNode) -> None:
        """Read a template of the stretch."""
        rules = self.reader.rules
        written = written_name(self.text, node)
        name = rules.name_of(written)
        may_link = self.has_slashes(node.start, node.end)
        if name in rules.citations:
            self._citation(stretch, node, written, rules.citations[name])
        elif name in rules.links:
            self._link(stretch, node, written, rules.links[name])
        elif rules.is_speaking(name):
            self._tag(stretch, node, written, name)
        elif may_link and not self._function(stretch, node):
            span = TextSpan(node.start, node.end)
            is_ref = name in rules.references
            for each in _last_of_each(parameters_of(self.text, node)):
                inner = stretch.inner(each.start, each.part.end, each.children())
                inner.within, inner.owner, inner.is_value = written, span, True
                if is_ref:
                    inner.reference, inner.is_ref = span, True
                self.later(inner)

    def _values(
        self, outer: TextStretch, owner: TextSpan, name: str, values: list[GivenParameter], draft: CitationDraft | None
    ) -> None:
        for each in values:
            if self.has_slashes(each.start, each.part.end) or (draft and each.part.children):
                inner = outer.inner(each.start, each.part.end, each.children())
                inner.within, inner.owner, inner.cited, inner.is_value = name, owner, draft, True
                self.surely(inner)

    def _citation(self, stretch: TextStretch, node: WikitextNode, written: str, template: CitationTemplate) -> None:
        parameters = _last_of_each(parameters_of(self.text, node))
        roles: dict[ParameterRole, GivenParameter] = {}
        for each in parameters:
            role = template.roles.get(each.name)
            if role is not None and (role not in roles or not roles[role].value):
                roles[role] = each
        place = roles.get(ParameterRole.URL)
        archive = roles.get(ParameterRole.ARCHIVE_URL)
        if archive is not None and not is_url(archive.value):
            archive = None
        if place is None or not place.value:
            by_name = _by_name(parameters)
            others = (by_name[name] for name in template.more_urls if name in by_name)
            place = next((each for each in others if is_url(each.value)), archive)
        draft = None if place is None else self._cited(node, place, template)
        used = [archive] if archive is not None else []
        if draft is not None and place is not None:
            draft.template = written
            draft.parameters = {role: each.parameter for role, each in roles.items()}
            if place is not archive:
                draft.parameters[ParameterRole.URL] = place.parameter
            if ParameterRole.TITLE in draft.parameters:
                draft.title = draft.parameters[ParameterRole.TITLE].value
            draft.archived = archive.value if archive is not None else ""
            draft.within = stretch.within
            self.add(stretch, draft)
            used.append(place)
            end = draft.url_span.end  # tags may follow a URL in its own parameter
            children = [each for each in place.part.children if each.start >= end]
            if children and not draft.is_malformed:
                inner = stretch.inner(end, place.part.end, children)
                inner.within, inner.cited, inner.is_value = draft.template, draft, True
                self.surely(inner)
        values = [each for each in parameters if each not in used]
        self._values(stretch, TextSpan(node.start, node.end), written, values, draft)

    def _cited(self, node: WikitextNode, place: GivenParameter, template: CitationTemplate) -> CitationDraft | None:
        """Return the link of a citation template; None when its parameter holds wikitext, where allowed."""
        inner, value, rules = place.parameter.inner, place.value, self.reader.rules
        span = TextSpan(node.start, node.end)
        holes = [each for each in place.children() if each.kind is not NodeKind.COMMENT]
        first = holes[0] if holes else None
        if holes:
            flat = flatten(self.text, place.start, place.part.end, place.children())
            bare = value = flat.text.strip()  # `bare`: without the tags that follow the URL
            while bare.endswith(HOLE) and holes:
                last = holes.pop()
                if last.kind is not NodeKind.TEMPLATE or not rules.is_tag(rules.name_of(written_name(self.text, last))):
                    break
                bare = bare[:-1].rstrip()
            if bare and bare != value:
                start = flat.text.index(bare)
                inner = TextSpan(flat.source(start), flat.source_end(start + len(bare)))
                value = bare
        if is_url(value):
            return CitationDraft(CitationForm.CITATION, span, inner, value)
        # A value may wrongly be a link rather than a URL; it is read as a link then.
        is_link = place.name in template.text_urls or value.startswith(("[http", "[//"))
        if value.startswith(HOLE) and first is not None and first.kind is NodeKind.TEMPLATE:
            is_link = is_link or rules.name_of(written_name(self.text, first)) in rules.links
        if is_link:
            return None
        return CitationDraft(CitationForm.CITATION, span, place.parameter.inner, place.value, is_malformed=True)

    def _link(self, stretch: TextStretch, node: WikitextNode, written: str, parameters: tuple[str, ...]) -> None:
        given = _last_of_each(parameters_of(self.text, node))
        by_name = _by_name(given)
        chosen = next((by_name[name] for name in parameters if name in by_name), None)
        span = TextSpan(node.start, node.end)
        if chosen is not None and (is_url(chosen.value) or _HOST.fullmatch(chosen.value)):
            parameter, scheme = chosen.parameter, "" if is_url(chosen.value) else "http://"
            draft = CitationDraft(CitationForm.TEMPLATE, span, parameter.inner, chosen.value, scheme, written)
            draft.within, draft.parameters = stretch.within, {ParameterRole.URL: parameter}
            self.add(stretch, draft)
            given = [each for each in given if each is not chosen]
        self._values(stretch, span, written, given, None)

    def _tag(self, stretch: TextStretch, node: WikitextNode, written: str, name: str) -> None:
        rules = self.reader.rules
        parameters = _last_of_each(parameters_of(self.text, node))
        by_name = {name: each.parameter for name, each in _by_name(parameters).items()}
        shown = {each.written: each.parameter for each in parameters}
        item = AdjacentItem(node.start, node.end, tag=CitationTag(written, TextSpan(node.start, node.end), shown))
        archive, dead = rules.archives.get(name), rules.dead_tags.get(name)
        if archive is not None:
            item.copy = self.reader.copy_of(archive, by_name)
            if item.copy is None:
                return
            item.is_original = item.copy[2].value != item.copy[0] and self.reader.archive(item.copy[2].value) is None
            dated = _first(by_name, archive.date)
            item.dated = dated.value if dated is not None else ""
            item.title = _first(by_name, archive.title)
        elif dead is not None:
            item.dead, item.url, item.title = dead.status, _first(by_name, dead.url), _first(by_name, dead.title)
        item.is_paywall, item.is_hold = name in rules.paywall_tags, name in rules.hold_tags
        stretch.items.append(item)

    def _function(self, stretch: TextStretch, node: WikitextNode) -> bool:
        """Read the visible arguments if the template is a parser function; return True if so."""
        first = node.parts[0]
        match = _FUNCTION.match(self.text, first.start, first.end)
        if match is None:
            return False
        name = match[2].strip().casefold()
        if match[1] and name == "invoke":
            return False
        if not match[1] and name not in words()["showing_functions"]:
            return name in words()["silent_functions"]
        if match[1] and name == "tag":
            # `{{#tag:ref|…}}` is read as a tag; this form allows templates within it.
            kind = self.text[match.end() : first.end].strip().casefold()
            if len(node.parts) >= 2 and kind in ("ref", "references", "gallery", "poem"):
                part = node.parts[1]
                inner = stretch.inner(part.start, part.end, part.children)
                if kind == "ref":
                    inner.reference = inner.owner = TextSpan(node.start, node.end)
                    inner.is_ref = True
                stretch.items.append(AdjacentItem(node.start, node.end, inner=inner))
                self.later(inner)
            return True
        for part in node.parts:
            is_case = name == "switch" and part.equals >= 0
            start = match.end() if part is first else part.equals + 1 if is_case else part.start
            children = [each for each in part.children if each.start >= start]
            self.later(stretch.inner(start, part.end, children))
        return True


def _last_of_each(parameters: list[GivenParameter]) -> list[GivenParameter]:
    if len({each.written for each in parameters}) == len(parameters):
        return parameters
    return list({each.written: each for each in parameters}.values())


def _by_name(parameters: list[GivenParameter]) -> dict[str, GivenParameter]:
    """Index by folded name; of several spellings the first with a value."""
    parameter_by_name: dict[str, GivenParameter] = {}
    for each in parameters:
        if each.name not in parameter_by_name or not parameter_by_name[each.name].value:
            parameter_by_name[each.name] = each
    return parameter_by_name


def _first(parameters: Mapping[str, TemplateParameter], names: tuple[str, ...]) -> TemplateParameter | None:
    return next((parameters[name] for name in names if name in parameters and parameters[name].value), None)
