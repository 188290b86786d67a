"""What each kind of template says: citations, tags, templates that are links, functions, and all others."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from wiki.wikitext.citations import Parameter, Role, Span, Tag, Way
from wiki.wikitext.drafts import Draft, Reader
from wiki.wikitext.external import is_url
from wiki.wikitext.flat import HOLE, flatten
from wiki.wikitext.parameters import Given, parameters_of, written_name
from wiki.wikitext.rules import CitationTemplate
from wiki.wikitext.stretches import Beside, Stretch
from wiki.wikitext.structure import Kind, Node

_FUNCTION = re.compile(r"\s*(?:(?:safe)?subst:)?\s*(#?)([^:|{}\n]{1,40}):", re.IGNORECASE)
# Functions that show what they are given; what is given to the others, nobody sees as it stands.
_SHOWING: Final = frozenset(
    ("lc", "uc", "lcfirst", "ucfirst", "int", "gender", "plural", "formatnum")
)
_SILENT: Final = frozenset(
    (
        *(
            "fullurl",
            "fullurle",
            "canonicalurl",
            "canonicalurle",
            "localurl",
            "localurle",
            "urlencode",
        ),
        *("anchorencode", "defaultsort", "defaultsortkey", "defaultcategorysort", "displaytitle"),
        *("padleft", "padright", "ns", "nse", "filepath", "pagesincategory"),
    )
)
_HOST = re.compile(
    r"[^\s/?#|\[\]<>\"\x7f:@]+\.[^\s/?#|\[\]<>\"\x7f.:@]{2,}(?::\d+)?(?:[/?#][^\s\x7f]*)?"
)


@dataclass(slots=True)
class Templates:
    """Reads templates.

    Attributes:
        text: of the page.
        reader: its rules.
        add: keeps a link.
        later: has a stretch read, when there may be a link in it.
        surely: has it read in any case.
        has_slashes: tells whether there may be a URL.
    """

    text: str
    reader: Reader
    add: Callable[[Stretch, Draft], None]
    later: Callable[[Stretch], None]
    surely: Callable[[Stretch], None]
    has_slashes: Callable[[int, int], bool]

    def read(self, stretch: Stretch, node: Node) -> None:
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
            span = Span(node.start, node.end)
            is_ref = name in rules.references
            for each in _last_of_each(parameters_of(self.text, node)):
                inner = stretch.inner(each.start, each.part.end, each.children())
                inner.within, inner.owner, inner.is_value = written, span, True
                if is_ref:
                    inner.reference, inner.is_ref = span, True
                self.later(inner)

    def _values(
        self, stretch: Stretch, node: Node, written: str, given: list[Given], draft: Draft | None
    ) -> None:
        """Have the values of a known template's other parameters read."""
        owner = Span(node.start, node.end)
        for each in given:
            if self.has_slashes(each.start, each.part.end) or (draft and each.part.children):
                inner = stretch.inner(each.start, each.part.end, each.children())
                inner.within, inner.owner = written, owner
                inner.cited, inner.is_value = draft, True
                self.surely(inner)

    def _citation(
        self, stretch: Stretch, node: Node, written: str, template: CitationTemplate
    ) -> None:
        given = _last_of_each(parameters_of(self.text, node))
        roles: dict[Role, Given] = {}
        for each in given:
            role = template.roles.get(each.name)
            if role is not None and (role not in roles or not roles[role].value):
                roles[role] = each
        place = roles.get(Role.URL)
        if place is None or not place.value:
            place = _stand_in(_by_name(given), template)
        archive = roles.get(Role.ARCHIVE_URL)
        if archive is not None and not is_url(archive.value):
            archive = None
        if place is None:
            place = archive
        draft = None if place is None else self._cited(node, place, template)
        told = [archive] if archive is not None else []
        if draft is not None and place is not None:
            draft.template = written
            draft.parameters = {role: each.parameter for role, each in roles.items()}
            if place is not archive:
                draft.parameters[Role.URL] = place.parameter
            if Role.TITLE in draft.parameters:
                draft.title = draft.parameters[Role.TITLE].value
            draft.archived = archive.value if archive is not None else ""
            draft.within = stretch.within
            self.add(stretch, draft)
            told.append(place)
            self._behind(stretch, place, draft)
        left = [each for each in given if each not in told]
        self._values(stretch, node, written, left, draft)

    def _cited(self, node: Node, place: Given, template: CitationTemplate) -> Draft | None:
        """The link of a citation template; None when its parameter holds wikitext, as it may there."""
        inner = place.parameter.inner
        span = Span(node.start, node.end)
        children = place.children()
        value = place.value
        if any(each.kind is not Kind.COMMENT for each in children):
            flat = flatten(self.text, place.start, place.part.end, children)
            value = flat.text.strip()
            bare = self._without_tags(value, children)
            if bare and bare != value:
                start = flat.text.index(bare)
                inner = Span(flat.source(start), flat.source_end(start + len(bare)))
                value = bare
        if is_url(value):
            return Draft(Way.CITATION, span, inner, value)
        if place.name in template.text_urls or self._holds_link(value, children):
            return None
        draft = Draft(Way.CITATION, span, place.parameter.inner, place.value)
        draft.is_malformed = True
        return draft

    def _holds_link(self, value: str, children: list[Node]) -> bool:
        """Whether a value is, by mistake, a link rather than a URL: it is read as one then."""
        if value.startswith(("[http", "[//")):
            return True
        first = next((each for each in children if each.kind is not Kind.COMMENT), None)
        if not value.startswith(HOLE) or first is None or first.kind is not Kind.TEMPLATE:
            return False
        rules = self.reader.rules
        return rules.name_of(written_name(self.text, first)) in rules.links

    def _behind(self, stretch: Stretch, place: Given, draft: Draft) -> None:
        """Have the tags read that stand behind a URL in its own parameter."""
        end = draft.url_span.end
        children = [each for each in place.part.children if each.start >= end]
        if children and not draft.is_malformed:
            inner = stretch.inner(end, place.part.end, children)
            inner.within, inner.cited, inner.is_value = draft.template, draft, True
            self.surely(inner)

    def _without_tags(self, value: str, children: list[Node]) -> str:
        """A value without the tags that stand behind the URL in it."""
        rules = self.reader.rules
        holes = [each for each in children if each.kind is not Kind.COMMENT]
        while value.endswith(HOLE) and holes:
            node = holes.pop()
            if node.kind is not Kind.TEMPLATE:
                break
            if not rules.is_tag(rules.name_of(written_name(self.text, node))):
                break
            value = value[:-1].rstrip()
        return value

    def _link(
        self, stretch: Stretch, node: Node, written: str, parameters: tuple[str, ...]
    ) -> None:
        given = _last_of_each(parameters_of(self.text, node))
        by_name = _by_name(given)
        chosen = next((by_name[name] for name in parameters if name in by_name), None)
        if chosen is not None:
            parameter = chosen.parameter
            is_whole = is_url(parameter.value)
            if is_whole or _HOST.fullmatch(parameter.value):
                span = Span(node.start, node.end)
                draft = Draft(Way.TEMPLATE, span, parameter.inner, parameter.value)
                draft.scheme = "" if is_whole else "http://"
                draft.template, draft.within = written, stretch.within
                draft.parameters = {Role.URL: parameter}
                self.add(stretch, draft)
                given = [each for each in given if each is not chosen]
        self._values(stretch, node, written, given, None)

    def _tag(self, stretch: Stretch, node: Node, written: str, name: str) -> None:
        rules = self.reader.rules
        given = _last_of_each(parameters_of(self.text, node))
        by_name = {name: each.parameter for name, each in _by_name(given).items()}
        shown = {each.written: each.parameter for each in given}
        tag = Tag(written, Span(node.start, node.end), shown)
        item = Beside(node.start, node.end, tag=tag)
        archive = rules.archives.get(name)
        dead = rules.dead_tags.get(name)
        if archive is not None:
            item.copy = self.reader.copy_of(archive, by_name)
            if item.copy is None:
                return
            found = self.reader.archive(item.copy[2].value)
            item.is_original = item.copy[2].value != item.copy[0] and found is None
            item.dated = _first_value(by_name, archive.date)
            item.title = _first(by_name, archive.title)
        elif dead is not None:
            item.dead = dead.status
            item.url = _first(by_name, dead.url)
            item.title = _first(by_name, dead.title)
        item.is_paywall = name in rules.paywall_tags
        item.is_hold = name in rules.hold_tags
        stretch.items.append(item)

    def _function(self, stretch: Stretch, node: Node) -> bool:
        """Whether the template is a parser function; what it shows is read then."""
        first = node.parts[0]
        found = _FUNCTION.match(self.text, first.start, first.end)
        if found is None:
            return False
        name = found[2].strip().casefold()
        if found[1] and name == "invoke":
            return False
        if not found[1]:
            if name not in _SHOWING and name not in _SILENT:
                return False
            if name in _SILENT:
                return True
        if found[1] and name == "tag":
            self._tag_function(stretch, node, found.end())
            return True
        self._argument(stretch, node, 0, found.end())
        for number, part in enumerate(node.parts[1:], 1):
            is_case = name == "switch" and part.equals >= 0
            self._argument(stretch, node, number, part.equals + 1 if is_case else part.start)
        return True

    def _argument(self, stretch: Stretch, node: Node, number: int, start: int) -> None:
        part = node.parts[number]
        children = [each for each in part.children if each.start >= start]
        self.later(stretch.inner(start, part.end, children))

    def _tag_function(self, stretch: Stretch, node: Node, start: int) -> None:
        """`{{#tag:ref|…}}` is a tag, written so that templates in it work."""
        kind = self.text[start : node.parts[0].end].strip().casefold()
        if len(node.parts) < 2 or kind not in ("ref", "references", "gallery", "poem"):
            return
        part = node.parts[1]
        span = Span(node.start, node.end)
        is_ref = kind == "ref"
        inner = stretch.inner(part.start, part.end, part.children)
        if is_ref:
            inner.reference = inner.owner = span
            inner.is_ref = True
        stretch.items.append(Beside(node.start, node.end, inner=inner))
        self.later(inner)


def _last_of_each(given: list[Given]) -> list[Given]:
    """Of several parameters of one name the last counts, even when it is empty."""
    if len({each.written for each in given}) == len(given):
        return given
    return list({each.written: each for each in given}.values())


def _by_name(given: list[Given]) -> dict[str, Given]:
    """By folded name; of spellings that differ, the first that has a value."""
    found: dict[str, Given] = {}
    for each in given:
        if each.name not in found or not found[each.name].value:
            found[each.name] = each
    return found


def _stand_in(by_name: Mapping[str, Given], template: CitationTemplate) -> Given | None:
    """The parameter that stands in for a URL that is not given."""
    for name in template.more_urls:
        found = by_name.get(name)
        if found is not None and is_url(found.value):
            return found
    return None


def _first(given: Mapping[str, Parameter], names: tuple[str, ...]) -> Parameter | None:
    return next((given[name] for name in names if name in given and given[name].value), None)


def _first_value(given: Mapping[str, Parameter], names: tuple[str, ...]) -> str:
    found = _first(given, names)
    return found.value if found is not None else ""
