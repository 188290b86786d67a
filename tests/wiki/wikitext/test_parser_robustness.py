"""Any text is wikitext: reading never fails, says what stands where, and takes linear time."""

import sys
from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.wiki.wikitext.reading import read
from tests.wiki.wikitext.writing_pages import garbage, pages
from wiki.wikitext.citation_draft import decode_entities
from wiki.wikitext.citation_model import Citation, CitationForm, TextSpan
from wiki.wikitext.parser import NodeKind, WikitextNode, parse

pytestmark = pytest.mark.slow


@given(st.one_of(pages, garbage))
@settings(max_examples=examples(100))
def test_what_is_read_stands_where_it_is_said_to(text: str) -> None:
    """Whatever the text: spans lie within each other and the text, and hold what they are said to."""
    for citation in read(text):
        hold(text, citation)


@given(st.one_of(pages, garbage), st.sampled_from(["en", "de"]))
@settings(max_examples=examples(50))
def test_reading_is_the_same_each_time_and_in_the_order_of_the_text(text: str, language: str) -> None:
    """No order of sets or dictionaries shows."""
    citations = read(text, language)
    assert citations == read(text, language)
    assert [each.span.start for each in citations] == sorted(each.span.start for each in citations)
    assert len({(each.span, each.url_span) for each in citations}) == len(citations)


@given(st.one_of(pages, garbage))
@settings(max_examples=examples(60))
def test_the_tree_covers_the_text_in_order(text: str) -> None:
    """Nodes lie within what they belong to, and do not overlap."""
    cover(parse(text).children, 0, len(text))


@given(pages)
@settings(max_examples=examples(50))
def test_a_text_is_read_the_same_behind_another(text: str) -> None:
    """Behind a paragraph that leaves nothing open, all that moves are the places."""
    before = "A [[b]] <ref>c</ref> {{d|e=f}}.\n\n"
    moved = read(before + text)
    assert [each.address for each in moved] == [each.address for each in read(text)]
    assert [each.span.start - len(before) for each in moved] == [each.span.start for each in read(text)]


HOSTILE: dict[str, Callable[[int], str]] = {
    "open templates": lambda n: "{{" * n,
    "open parameters": lambda n: "{{a|" * n,
    "nested templates": lambda n: "{{a|" * n + "http://a.test/x" + "}}" * n,
    "nested citations": lambda n: "{{cite web|url=http://a.test/x|title=" * (n // 4) + "}}" * (n // 4),
    "nested arguments": lambda n: "{{{" * n + "}}}" * n,
    "links to pages": lambda n: "[[" * n + "]]" * n,
    "templates in links": lambda n: "[[{{a}}" * n + "]]" * n,
    "open brackets": lambda n: "[http://a.test " * n,
    "brackets without space": lambda n: "[http://a.test" * n,
    "closed brackets": lambda n: "[http://a.test b]" * n,
    "bare": lambda n: "http://a.test/x" * n,
    "only schemes": lambda n: "http://" * n,
    "references": lambda n: "<ref>http://a.test/x</ref>" * n,
    "open references": lambda n: "<ref>" * n,
    "references in references": lambda n: "<ref><poem>" * n + "</poem>" * n,
    "open tags": lambda n: "<ref " * n,
    "open nowiki": lambda n: "<nowiki>" * n,
    "open comments": lambda n: "<!--" * n,
    "comments": lambda n: "http://a.test/<!-- -->" * n,
    "headings": lambda n: "\n=={{a|" * n,
    "tags behind a link": lambda n: "<ref>http://a.test/x" + "{{dead link}}" * n + "</ref>",
    "tags in a line": lambda n: "* http://a.test/x" + "{{dead link}}" * n,
    "dates": lambda n: "* http://a.test/x " + "retrieved " * n,
    "parameters": lambda n: "{{cite web|" + "a=b|" * n + "url=http://a.test/x}}",
    "the same parameter": lambda n: "{{cite web" + "|url=http://a.test/x" * n + "}}",
    "entities": lambda n: "http://a.test/" + "&amp;" * n,
    "ampersands": lambda n: "http://a.test/" + "&a" * n,
    "stops": lambda n: "http://a.test/" + ".)" * n,
    "attributes": lambda n: "<span title=" * n + "http://a.test/x",
    "cells": lambda n: "\n|http://a.test/x||" * n,
    "archives": lambda n: "http://web.archive.org/web/2010/" * n,
    "blanks": lambda n: "{{cite web|url=" + " " * n * 5 + "http://a.test/x}}",
    "names": lambda n: "{{" + "a_" * n + "|http://a.test/x}}",
    "pictures": lambda n: "[[File:a|http://a.test/x|" * n,
    "months": lambda n: "{{cite web|url=http://a.test/x|access-date=" + "5 march " * n + "}}",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_text_takes_linear_work(name: str) -> None:
    """Four times the text takes about four times the calls, and not sixteen times."""
    short, long = calls(HOSTILE[name](350)), calls(HOSTILE[name](1_400))
    assert long < max(short, 200) * 5, f"{short} calls for a quarter, {long} for all"


@pytest.mark.slow
def test_a_page_of_two_megabytes_is_read() -> None:
    """The largest that MediaWiki takes."""
    piece = (
        "Text <ref>{{cite web|url=http://a.test/x|title=[[b]] c|access-date=5 March 2020}}</ref>"
        f" [http://b.test/ d] {{{{dead link}}}} {'and words ' * 100}\n"
    )
    text = piece * (2_000_000 // len(piece))
    citations = read(text)
    assert len(citations) == 2 * text.count("<ref>")
    assert citations[-1].dead_tag is not None
    hold(text, citations[-1])


def calls(text: str) -> int:
    """Return the number of function calls that reading the text takes: the same on every machine."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        read(text)
    finally:
        sys.setprofile(None)
    return count


def hold(text: str, citation: Citation) -> None:
    """Assert the invariants of every citation of every text."""
    span, url = citation.span, citation.url_span
    assert 0 <= span.start <= url.start <= url.end <= span.end <= len(text)
    assert span.start < span.end
    written = text[url.start : url.end]
    if "<!--" not in written and "{{" not in written and "<" not in written:
        at_hand = decode_entities(written)
        assert citation.address in (at_hand, f"https:{at_hand}", f"http://{at_hand}")
    if not citation.is_malformed and citation.way is not CitationForm.ARCHIVE_TEMPLATE:
        assert citation.url == citation.address or citation.archive_url
    if citation.reference is not None:
        assert within(span, citation.reference)
    for parameter in citation.parameters.values():
        assert within(parameter.inner, span)
    for tag in (citation.dead_tag, citation.archive_tag):
        if tag is not None:
            assert text[tag.span.start : tag.span.end].startswith("{{")
            assert text[tag.span.start : tag.span.end].endswith("}}")
    days = (citation.access_date, citation.archive_date)
    assert all(day is None or date(1996, 1, 1) <= day <= date(2026, 11, 22) for day in days)


def within(inner: TextSpan, outer: TextSpan) -> bool:
    return outer.start <= inner.start <= inner.end <= outer.end


def cover(nodes: list[WikitextNode], start: int, end: int) -> None:
    """Assert that the nodes and their parts lie between `start` and `end`, in order, without overlap."""
    for node in nodes:
        assert start <= node.start < node.end <= end
        start = node.end
        for before, part in zip([None, *node.parts], node.parts, strict=False):
            assert node.start < part.start <= part.end < node.end
            assert before is None or before.end + 1 == part.start
            assert part.equals < 0 or part.start <= part.equals < part.end
            cover(part.children, part.start, part.end)
        if node.kind is NodeKind.CONTENT:
            assert node.start < node.inner[0] <= node.inner[1] <= node.end
            cover(node.children, *node.inner)
