"""Tests of `crawler.frontier.redis_codec`."""

from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.redis_codec import pack, page_id, to_bytes, to_text, unpack


@given(st.text(st.characters()))
def test_texts_come_back_from_messages(text: str) -> None:
    """Surrogates included, which UTF-8 does not know."""
    assert to_text(to_bytes(text)) == text
    assert to_text(unpack(pack(text))) == text


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**48), st.integers(0, 2**48))
def test_an_identifier_is_made_of_what_it_is_for(identity: bytes, one: int, other: int) -> None:
    """The same page has one; another number, another frontier has another."""
    salt = b"s" * 16

    assert page_id(salt, identity, one) == page_id(salt, identity, one)
    assert page_id(b"t" * 16, identity, one) != page_id(salt, identity, one)
    if one != other:
        assert page_id(salt, identity, one) != page_id(salt, identity, other)
