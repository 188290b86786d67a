"""Templates, taken apart where they stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiki.wikitext.citation_model import TextSpan
from wiki.wikitext.page_style import LONGEST_TEMPLATE, TemplateStyle, template_layout

SPACE = st.text(" \n\t", max_size=3)
WORD = st.text("abcdé-", min_size=1, max_size=8)
VALUE = st.one_of(
    WORD,
    st.just(""),
    st.sampled_from(["http://a.test/?b=c&d=e", "{{x|y=z}}", "[[A|B]]", "<!-- | -->", "&amp;", "<ref>a|b</ref>"]),
)
NAMED = st.tuples(SPACE, WORD, SPACE, SPACE, VALUE, SPACE).map(lambda p: f"|{p[0]}{p[1]}{p[2]}={p[3]}{p[4]}{p[5]}")
UNNAMED = st.tuples(SPACE, WORD, SPACE).map(lambda p: f"|{''.join(p)}")
TEMPLATES = st.tuples(WORD, SPACE, st.lists(st.one_of(NAMED, UNNAMED), max_size=6)).map(
    lambda p: f"{{{{{p[0]}{p[1]}{''.join(p[2])}}}}}"
)


@given(st.text("ab {}|\n", max_size=20), TEMPLATES, st.text("ab {}|\n", max_size=20))
def test_every_part_is_where_it_says(before: str, template: str, after: str) -> None:
    """Fields follow each other without a gap, and hold their names and values (property)."""
    text = before + template + after
    span = TextSpan(len(before), len(before) + len(template))
    layout = template_layout(text, span)
    assert layout is not None
    at = layout.name_end
    for field in layout.fields:
        assert field.start == at
        assert text[field.start] == "|"
        assert field.start < field.value_start <= field.inner.start <= field.inner.end <= field.end
        assert text[field.inner.start : field.inner.end] == field.value
        if field.name:
            assert text[field.name_span.start : field.name_span.end] == field.name
        at = field.end
    assert text[at : span.end] == "}}"


@pytest.mark.parametrize(
    "text",
    ["", "{{", "{{a", "a}}", "{{a}} {{b}}", "{{a}}}}", "{{a|<nowiki>}}", "{{{a}}}", "[[a]]", "{{a|{{b}}", "{{a|[[b}}"],
)
def test_what_is_not_one_template_is_none(text: str) -> None:
    """Broken or several: nobody guesses."""
    layout = template_layout(text, TextSpan(0, len(text)))
    assert layout is None or len(layout.fields) <= 1


def test_a_template_without_an_end_of_reading_is_none() -> None:
    """Larger than anybody writes a citation."""
    text = "{{a|" + "b" * LONGEST_TEMPLATE + "}}"
    assert template_layout(text, TextSpan(0, len(text))) is None


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("{{a|b=c|d=e}}", "|new=1"),
        ("{{a |b=c |d=e}}", " |new=1"),
        ("{{a | b = c | d = e }}", " | new = 1"),
        ("{{a\n|b=c\n|d=e\n}}", "\n|new=1"),
        ("{{a\n  | b    = c\n  | long = e\n  | mid  = x\n}}", "\n  | new  = 1"),
        ("{{a|\n b=c|\n d=e\n}}", "|\n new=1"),
        ("{{a|b=c |d=e |f=g}}", " |new=1"),
        ("{{a|b=c}}", "|new=1"),
    ],
)
def test_a_new_parameter_looks_like_the_others(template: str, written: str) -> None:
    """White space before the bar, behind it, around the equals sign, and columns (B15)."""
    layout = template_layout(template, TextSpan(0, len(template)))
    assert layout is not None
    assert TemplateStyle.of(layout, layout.fields[0]).parameter("new", "1") == written
