"""A second opinion: mwparserfromhell, on pages that are well-formed enough for both to mean the same."""

import mwparserfromhell
from hypothesis import given, settings
from hypothesis import strategies as st
from mwparserfromhell.nodes import ExternalLink, Template

from tests.support.examples import examples
from tests.wiki.wikitext.reading import read
from wiki.wikitext.citation_model import CitationForm
from wiki.wikitext.parser import NodeKind, WikitextNode, parse

_WORD = st.text(alphabet="abc é.,-\n", min_size=1, max_size=8)
_URL = st.integers(0, 99).map("http://a.test/{}?x=1&y".format)
_VALUE = st.one_of(_WORD, _URL, _WORD.map("[[{}]]".format), st.just("<!-- c -->"), st.just("''b''"))
_KEYS = st.sampled_from(["url", "title", "date", "archive-url", "quote", "website", "x"])


@st.composite
def _templates(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    name = draw(st.sampled_from(["cite web", "Infobox", "x", "Cite_news\n", " y "]))
    given = draw(st.lists(st.tuples(_KEYS, inner), max_size=4))
    gap = draw(st.sampled_from(["", " ", "\n"]))
    return "{{" + name + "".join(f"|{gap}{key}{gap}={gap}{value}" for key, value in given) + "}}"


_VALUES = st.recursive(
    _VALUE, lambda inner: st.one_of(_templates(inner), st.lists(inner, max_size=3).map(" ".join)), max_leaves=8
)
_PIECES = st.one_of(
    _WORD,
    st.builds("[{} {}]".format, _URL, st.text(alphabet="ab c", min_size=1, max_size=6)),
    _URL.map(" {} ".format),
    _templates(_VALUES),
    _templates(_VALUES).map("<ref name=a>{}</ref>".format),
    _URL.map("<nowiki>[{} b]</nowiki>".format),
    _URL.map("<!-- {} -->".format),
)
_PAGES = st.lists(_PIECES, max_size=8).map("\n".join)


@given(_PAGES)
@settings(max_examples=examples(60))
def test_both_see_the_same_templates_and_links(text: str) -> None:
    """Templates with names and values byte for byte, links in brackets with their titles."""
    tree = mwparserfromhell.parse(text)
    templates = sorted(
        (str(each.name), tuple((str(p.name), str(p.value)) for p in each.params if p.showkey))
        for each in tree.filter(forcetype=Template)
    )
    assert sorted(_templates_of(text, parse(text).children)) == templates
    links = sorted(
        (str(each.url), str(each.title or "").strip()) for each in tree.filter(forcetype=ExternalLink) if each.brackets
    )
    ours = [(each.address, each.title) for each in read(text) if each.way is CitationForm.BRACKETS]
    assert sorted(ours) == links


def _templates_of(text: str, nodes: list[WikitextNode]) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    templates = []
    for node in nodes:
        if node.kind is NodeKind.TEMPLATE:
            name = text[node.parts[0].start : node.parts[0].end]
            given = tuple(
                (text[part.start : part.equals], text[part.equals + 1 : part.end])
                for part in node.parts[1:]
                if part.equals >= 0
            )
            templates.append((name, given))
        for part in node.parts:
            templates += _templates_of(text, part.children)
        templates += _templates_of(text, node.children)
    return templates
