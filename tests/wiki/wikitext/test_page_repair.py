"""Places where a template may be inserted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiki.wikitext.page_repair import insertion_places

REFERENCES = frozenset({"efn", "#tag:ref"})

FITTING = [
    "a ^ b",
    "^",
    "* [http://a.test b]^",
    "<ref>a^</ref>",
    "<ref name=x>a ^b</ref>",
    "{{Infobox|a=b<ref>c^</ref>}}",
    "{{Infobox|a={{x|<ref>c^</ref>}}}}",
    "{{efn|a^b}}",
    "{{#tag:ref|a^b|name=x}}",
    "{{reflist|refs=\n<ref name=a>b^</ref>\n}}",
    "<references>\n<ref name=a>b^</ref>\n</references>",
    "{| class=x\n| a^ || b\n|}",
    "[[File:A.png|thumb|a^]]",
    "''a^''",
    "'''a''^",
    "{{a}}^",
    "<small>a^</small>",
    "{{unclosed|a ^",
    "<ref>unclosed ^",
    "a^<br>b",
    "a^<ref>b</ref>",
]
NOT_FITTING = [
    "{{Infobox|a=b^c}}",
    "{{Infobox|b^c}}",
    "{{{a|b^}}}",
    "{{a^}}",
    "== a^b ==\n",
    "<nowiki>a^b</nowiki>",
    "<pre>a^b</pre>",
    "<!-- a^b -->",
    "<gallery>\nFile:A.png|a^b\n</gallery>",
    "<syntaxhighlight>a^b</syntaxhighlight>",
    "http://a.test^<ref>http://b.test",  # the second is text as long as nothing stands between them
    "a^<odd>b",
]


@pytest.mark.parametrize("marked", FITTING)
def test_a_template_may_stand_in_running_text(marked: str) -> None:
    """In text, references, cells and captions, at the place of the mark."""
    assert marked.index("^") in insertion_places(marked.replace("^", ""), [marked.index("^")], REFERENCES)


@pytest.mark.parametrize("marked", NOT_FITTING)
def test_a_template_may_not_stand_elsewhere(marked: str) -> None:
    """Not in another's parameters, headings, galleries, code, comments, nor before a sign that opens nothing."""
    at = marked.index("^")
    assert not insertion_places(marked.replace("^", ""), [at], REFERENCES)


@given(st.text("ab{}[]|<>=ref/\n'*", max_size=80), st.lists(st.integers(0, 80), max_size=5))
def test_any_text_is_answered(text: str, offsets: list[int]) -> None:
    """Whatever stands there; places outside of it never fit."""
    places = insertion_places(text, offsets, REFERENCES)
    assert all(0 <= each <= len(text) for each in places)
    assert places <= set(offsets)
