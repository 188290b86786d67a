"""Tags of a page that a browser makes elements of."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.wiki.embed.garbage import GARBAGE
from wiki.embed.html_tags import TagFilter, is_closed_itself, iter_tags, tag_at, tag_attributes

LINK = b'<a href="https://a.test/">'


def links(data: bytes) -> int:
    """Return the number of start tags of links that are found."""
    return sum(tag.name == b"a" and not tag.is_end for tag in iter_tags(data))


SEEN = {
    "plain": b"<p>" + LINK,
    "upper-case": b"<A HREF=x>",
    "newline-in-tag": b"<a\nhref=x\n>",
    "slash-after-name": b"<a/href=x>",
    "after-comment": b"<!-- <a> -->" + LINK,
    "after-empty-comment": b"<!-->" + LINK,
    "after-short-comment": b"<!--->" + LINK,
    "comment-ended-by-bang": b"<!-- <a> --!>" + LINK,
    "after-bogus-comment": b"<? <b> >" + LINK,
    "after-doctype": b"<!DOCTYPE html>" + LINK,
    "after-cdata-in-html": b"<![CDATA[ x >" + LINK,
    "lone-less-than": b"1 < 2 <3 << " + LINK,
    "greater-in-quotes": b"<img alt=\"a > b <a>\" title='<a>'>" + LINK,
    "quote-in-name": b'<p ">' + LINK,
    "quote-in-unquoted": b'<p x=a"b>' + LINK,
    "equals-first": b'<p ="x>' + LINK,
    "after-style": b"<style>a > b { } <a></style>" + LINK,
    "after-style-with-attribute-at-end": b'<style><a></style x=">">' + LINK,
    "after-script": b"<script>'<a>'; // <!--\n</script>" + LINK,
    "after-script-in-comment-in-script": b"<script><!-- <script></script> <a> --></script>" + LINK,
    "after-script-with-comment-closed": b"<script><!-- --><script></script>" + LINK,
    "after-script-with-empty-comment": b"<script><!--><script></script>" + LINK,
    "after-textarea": b"<textarea><a></textarea>" + LINK,
    "after-title": b"<title><a></title>" + LINK,
    "after-xmp": b"<xmp><a></xmpx></xmp>" + LINK,
    "after-template": b"<template><template><a></template><a></template>" + LINK,
    "after-select-in-template": b"<template><select></template>" + LINK,
    "after-select": b"<select><option><a></select>" + LINK,
    "after-svg": b"<svg><a href=x></a><path d='<a>'/></svg>" + LINK,
    "after-svg-with-cdata": b"<svg><![CDATA[ <a> </svg> ]]></svg>" + LINK,
    "after-svg-closed-itself": b"<svg/>" + LINK,
    "after-svg-with-slash-in-value": b"<svg><g x=/></g></svg>" + LINK,
    "after-svg-style": b"<svg><style><![CDATA[ a > b {} ]]></style></svg>" + LINK,
    "after-svg-title": b"<svg><title>x</title></svg>" + LINK,
    "after-foreign-object": b"<svg><foreignObject><div><a></a></div></foreignObject></svg>" + LINK,
    "after-math": b"<math><mi>x</mi><annotation>a < b</annotation></math>" + LINK,
    "out-of-svg": b"<svg><p>" + LINK,
    "out-of-svg-by-end": b"<svg></p>" + LINK,
    "stray-ends": b"</style></script></template></svg></>" + LINK,
    "in-button": b"<button>" + LINK,
}


@pytest.mark.parametrize("data", SEEN.values(), ids=SEEN.keys())
def test_a_link_is_found_where_a_browser_finds_one(data: bytes) -> None:
    """Nothing before it hides it, and nothing within that is none is taken for one."""
    assert links(data) == 1


UNSEEN = {
    "comment": b"<!-- " + LINK,
    "comment-with-dashes": b"<!-- -- > ->" + LINK,
    "bogus-comment": b"<!x " + LINK[:-1],
    "end-tag-bogus": b"</ x " + LINK[:-1],
    "script": b"<script>" + LINK,
    "script-in-comment": b"<script><!--<script></script>" + LINK,
    "style": b"<STYLE>" + LINK,
    "textarea": b"<textarea>" + LINK,
    "title": b"<title>" + LINK,
    "xmp": b"<xmp>" + LINK,
    "iframe": b"<iframe>" + LINK,
    "noembed": b"<noembed>" + LINK,
    "noframes": b"<noframes>" + LINK,
    "noscript": b"<noscript>" + LINK,
    "plaintext": b"<plaintext></plaintext>" + LINK,
    "template": b"<template>" + LINK,
    "select": b"<select>" + LINK,
    "svg": b"<svg>" + LINK,
    "math": b"<math>" + LINK,
    "foreign-object": b"<svg><foreignObject>" + LINK,
    "attribute": b'<p title="' + LINK + b'">'.replace(b'"', b"'"),
    "unclosed-quote": b"<p title=' " + LINK,
    "unclosed-tag": LINK[:-1],
    "another-name": b"<abbr href=x><a-b href=x><a\0 href=x>",
    "space-before-name": b"< a href=x>",
}


@pytest.mark.parametrize("data", UNSEEN.values(), ids=UNSEEN.keys())
def test_what_a_browser_takes_for_something_else_is_no_link(data: bytes) -> None:
    """Comments, text of scripts and fields, other worlds' elements, and tags that never end."""
    assert links(data) == 0


DOUBTFUL = {
    "style-in-select": b"<select><style></style></select>",
    "svg-ended-from-html": b"<svg><foreignObject><div></svg>",
    "end-within-svg-of-what-may-lie-around": b"<i><svg></i>",
    "svg-in-select": b"<select><svg></svg></select>",
    "svg-too-deep": b"<svg>" + b"<g>" * 600 + b"</g>" * 600 + b"</svg>",
}


@pytest.mark.parametrize("data", DOUBTFUL.values(), ids=DOUBTFUL.keys())
def test_where_browsers_would_differ_the_reading_ends(data: bytes) -> None:
    """Nothing after such a place is touched."""
    assert links(data + LINK) == 0


def test_of_attributes_with_one_name_the_first_counts() -> None:
    """As in browsers; their places are those of the values."""
    data = b"<a HREF = 'x' href=y class title=\"a>b\"/>"
    tag = tag_at(data, 0)
    assert tag is not None

    attributes = [(each.name, data[each.start : each.end], each.quote) for each in tag_attributes(data, tag)]

    assert attributes == [(b"href", b"x", b"'"), (b"class", b"", None), (b"title", b"a>b", b'"')]
    assert tag.end == len(data)


@pytest.mark.parametrize(
    ("data", "is_closed"),
    [(b"<g/>", True), (b"<g x=1 />", True), (b'<g x=""/>', True), (b"<g x=/>", False), (b"<g>", False)],
    ids=["bare", "space", "quoted", "in-value", "open"],
)
def test_a_slash_closes_a_tag_unless_it_is_part_of_a_value(data: bytes, is_closed: bool) -> None:
    """It decides where SVG ends."""
    tag = tag_at(data, 0)
    assert tag is not None

    assert is_closed_itself(data, tag) is is_closed


@settings(max_examples=examples(80))
@given(st.lists(st.sampled_from(GARBAGE), max_size=25).map(b"".join), st.integers(0, 99))
def test_tags_that_are_passed_over_change_nothing(data: bytes, seed: int) -> None:
    """Whatever else is watched, the same links are found, in the same places."""
    places = sorted(random.Random(seed).sample(range(len(data) + 1), min(len(data), 5)))
    watch = TagFilter(places)
    watch.names = frozenset((b"p", b"div", b"li"))

    quick = [tag for tag in iter_tags(data) if tag.name == b"a"]
    slow = [tag for tag in iter_tags(data, watch) if tag.name == b"a"]
    citing = [tag for tag in iter_tags(data, TagFilter(only_citing=True)) if tag.name == b"a"]

    assert quick == slow
    assert [each for each in quick if b"//" in data[each.start : each.end] and not each.is_end] == [
        each for each in citing if b"//" in data[each.start : each.end] and not each.is_end
    ]


HUGE = {
    "attributes": b"<a " + b'x="1" ' * 300_000,
    "spaces": b"<a " + b" " * 2_000_000,
    "tags-that-never-end": b"<a x" * 500_000,
    "open-quotes": b'<a x="' * 300_000,
    "open-comments": b"<!--" * 500_000,
    "open-scripts": b"<script><!--" * 200_000,
    "less-than": b"<" * 2_000_000,
    "svg": b"<svg>" * 400_000,
    "svg-in-turns": b"<svg><![CDATA[x]]></svg></style></a>" * 15_000,
    "open-cdata": b"<svg>" + b"<![CDATA[" * 200_000,
    "equals": b"<a =" * 300_000,
    "equals-and-spaces": b"<a b" + b" \n" * 500_000 + b"=",
    "open-links": b"<a href='/x'" * 200_000,
}


@pytest.mark.parametrize("data", HUGE.values(), ids=HUGE.keys())
def test_megabytes_made_to_be_slow_are_read_in_one_go(data: bytes) -> None:
    """No pattern goes back over what it has read; the suite's own time limit is the judge."""
    assert sum(1 for _ in iter_tags(data, TagFilter(only_citing=True))) >= 0
