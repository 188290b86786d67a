"""Conditions on a page's Wikidata item, as an operator writes them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ConfigError
from tests.support.examples import examples
from wiki.settings import parse_statement

NUMBERS = st.integers(1, 9_999_999_999)
TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=20)


@given(NUMBERS, st.none() | TEXTS, st.sampled_from(["", " "]))
@settings(max_examples=examples(50))
def test_an_entry_is_a_property_or_one_with_a_value(number: int, value: str | None, gap: str) -> None:
    """Entries in normal form are unchanged; spaces around the parts are ignored."""
    text = f"{gap}P{number}{gap}" + ("" if value is None else f"={gap}{value}{gap}")
    entry = parse_statement(text)
    assert entry.partition("=")[0] == f"P{number}"
    assert ("=" in entry) == (value is not None)
    assert parse_statement(entry) == entry


@given(st.text(st.characters(codec="utf-8"), max_size=12))
@settings(max_examples=examples(100))
def test_any_text_is_an_entry_or_an_error(text: str) -> None:
    """An error names the entry and the form that is expected."""
    entry = message = ""
    try:
        entry = parse_statement(text)
    except ConfigError as error:
        message = str(error)
    assert entry.startswith("P") or (repr(text[:80]) in message and "P31=Q5" in message)


@pytest.mark.parametrize(
    "text", ["", "P", "P0", "P031", "Q5", "p31", "31", "P31=", "P31= ", "P31:Q5", "P31|P32", "instance of"]
)
def test_what_names_no_property_is_refused(text: str) -> None:
    """A misspelt exclusion would archive what nobody wanted."""
    with pytest.raises(ConfigError, match="is not a property"):
        parse_statement(text)
