"""Patterns that users give: RE2, bounded, many as fast as one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from core.regexes import PATTERN_LIMIT_CHARS, PATTERNS_LIMIT, PatternList

URL = "https://www.example.org/wiki/Some_Page?action=edit&section=2"
# Patterns that RE2 and Python's own library read alike.
SIMPLE = st.text("abc./?=[]()|*+\\Q^$-", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("wiki", True),
        ("Wiki", False),
        ("(?i)WIKI", True),
        (r"^https://www\.example\.org/", True),
        (r"^www", False),
        (r"[?&]action=(edit|history)", True),
        (r"\d{2}", False),
        (r"\QPage?a", True),
    ],
)
def test_a_pattern_is_searched_for_anywhere_case_as_given(text: str, is_match: bool) -> None:
    """As browsertrix's and Heritrix's users expect of a pattern without anchors."""
    assert PatternList([text]).first_in(URL) == (text if is_match else None)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("(", "missing"),
        ("", "empty"),
        ("(?=x)", "look-ahead"),
        (r"(a)\1", "back references"),
        ("((a{100}){100}){100}", "repetition"),
        ("x" * (PATTERN_LIMIT_CHARS + 1), "longer than"),
        ("\ud800", "cannot be run"),
    ],
)
def test_a_pattern_that_re2_cannot_run_is_refused_by_name(text: str, word: str) -> None:
    """The error names where the pattern comes from and why it cannot be run."""
    with pytest.raises(ConfigError, match=word) as caught:
        PatternList(["fine", text], where="mine.toml [scope] exclude")

    assert str(caught.value).startswith("mine.toml [scope] exclude: ")
    assert len(str(caught.value)) < 500


def test_there_may_not_be_too_many() -> None:
    """Each costs memory."""
    with pytest.raises(ConfigError, match="at most"):
        PatternList(map(str, range(PATTERNS_LIMIT + 1)))


def test_a_quoting_pattern_does_not_swallow_its_neighbours() -> None:
    r"""Without an end, \Q would take the patterns after it as text."""
    patterns = PatternList([r"x\Qa.b", "wiki"])

    assert patterns.first_in("http://a.example/xa.b") == r"x\Qa.b"
    assert patterns.first_in("http://a.example/wiki") == "wiki"
    assert patterns.first_in("http://a.example/xaxb") is None


@given(st.lists(SIMPLE, max_size=8), st.text("abcQE./?=[]()|*+^$-", max_size=20))
def test_many_are_found_where_one_of_them_is(texts: list[str], url: str) -> None:
    """Joined into one, they say the same as each by itself; the first of them is named."""
    usable = []
    for text in texts:
        try:
            PatternList([text])
        except ConfigError:
            continue
        usable.append(text)
    expected = next((text for text in usable if PatternList([text]).first_in(url)), None)

    assert PatternList(usable).first_in(url) == expected


def test_patterns_that_hang_other_engines_do_not_hang_this_one() -> None:
    """Nested repetition over a URL of the longest kind; the suite's time limit is the judge."""
    patterns = PatternList(["^(a+)+$", "(a|aa)+$", "(.*a){12}x"])

    assert patterns.first_in("a" * 8_000 + "!") is None
    assert re.compile("^(a+)+$").search("a" * 20) is not None
