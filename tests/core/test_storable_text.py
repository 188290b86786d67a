"""Texts from the web, made fit to be stored."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.storable_text import parse_json, replace_surrogates, storable
from tests.support.examples import examples

ANY = st.text(st.characters(exclude_categories=[]))


@given(ANY)
def test_what_is_storable_has_a_form_in_utf_8_and_no_nul(text: str) -> None:
    """Texts that have one already stay what they are."""
    assert "\0" not in storable(text).encode().decode()
    sound = text.encode("utf-8", "ignore").decode()
    assert replace_surrogates(sound) == sound


@pytest.mark.parametrize("escape", [r"\ud800", r"\uD800", r"\udc00", r"\uDfFf"])
def test_half_surrogates_in_json_are_replaced_however_they_are_spelled(escape: str) -> None:
    """In keys and in values."""
    document = parse_json(f'{{"a{escape}": ["b{escape}", 1]}}'.encode())

    assert document == {"a?": ["b?", 1]}


@settings(max_examples=examples(30))
@given(st.recursive(ANY | st.integers(), lambda each: st.lists(each) | st.dictionaries(ANY, each)))
def test_json_is_what_it_was_but_for_half_surrogates(value: object) -> None:
    """Whole pairs and all else stay."""
    data = json.dumps(value).encode()
    plain = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")

    assert parse_json(data) == json.loads(plain)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    """Deep nesting, too."""
    with pytest.raises(ValueError):
        parse_json(data)
