"""Meaning of patterns; a table finds the same as looking at each of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import regexes
from core.errors import InputError
from core.regexes import RegexList
from core.url_patterns import PatternForm, PatternTable, UrlPattern, parse_pattern, pattern_target
from core.urls import MAX_URL_LENGTH


def matches(pattern: str, url: str) -> bool:
    """Return True when the pattern matches the URL."""
    table: PatternTable[str] = PatternTable()
    table.add(parse_pattern(pattern), pattern)
    return bool(table.find(pattern_target(url)))


@pytest.mark.parametrize(
    ("pattern", "url", "wanted"),
    [
        ("example.org", "http://example.org/", True),
        ("example.org", "https://www.a.example.org:8443/x?y", True),
        ("Example.ORG.", "http://EXAMPLE.org/", True),
        ("*.example.org", "http://example.org/", True),
        ("example.org", "http://notexample.org/", False),
        ("example.org", "http://example.org.evil.com/", False),
        ("=example.org", "https://example.org:81/x", True),
        ("=example.org", "http://www.example.org/", False),
        ("münchen.de", "http://xn--mnchen-3ya.de/", True),
        ("93.184.216.34", "http://0x5db8d822/", True),
        ("[::1]", "http://[0:0::0:1]/", True),
        ("com", "http://example.com/", True),
        ("example.org:8080", "http://example.org:8080/x", True),
        ("example.org:8080", "http://example.org/x", False),
        ("example.org/path", "https://example.org/pathology", True),
        ("example.org/path", "http://example.org/Path", False),
        ("example.org/path", "http://www.example.org/path", False),
        ("example.org/path", "http://example.org:8080/path", False),
        ("example.org/path*", "http://example.org/path/x", True),
        ("https://example.org/private/", "https://example.org/private/x", True),
        ("https://example.org/private/", "http://example.org/private/x", False),
        ("https://example.org", "https://example.org/x", True),
        ("https://example.org", "https://example.org.evil.com/", False),
        ("http://example.org/a?b=*", "http://example.org/a?b=1", True),
        ("http://example.org/a?b=1", "http://example.org/a?b=1", True),
        ("http://example.org/a?b=1", "http://example.org/a?b=12", False),
        ("http://example.org/a?b=1", "https://example.org/a?b=1", False),
        ("=example.org/a", "https://example.org/a", True),
        ("=example.org/a", "https://example.org/ab", False),
        ("=http://example.org/a/", "http://example.org/a/", True),
        ("=http://example.org/a/", "http://example.org/a/b", False),
        ("http://example.org/%7Ea", "http://example.org/~a", True),
        ("http://example.org/stra\u00dfe/", "http://example.org/stra%c3%9fe/1", True),
        ("org,example)/x", "https://example.org/x/y", True),
        ("org,example)/x", "https://www.example.org/x/y", False),
        ("org,example,", "https://www.example.org/", True),
        ("org,example", "https://www.example.org/", True),
        ("org,example)", "https://www.example.org/", False),
        ("org,example)", "https://example.org/x", True),
        ("http://(org,example,)/x", "http://example.org/x", True),
        ("http://(org,example,)/x", "https://example.org/x", False),
        ("org,example:8080)/x", "http://example.org:8080/x", True),
        (r"re:/tag/[a-z]+$", "http://example.org/tag/abc", True),
        (r"re:/tag/[a-z]+$", "http://example.org/tag/ABC", False),
        (r"re:(?i)CASINO", "http://casino.example/", True),
        (r"re:^https://", "http://example.org/", False),
    ],
)
def test_what_patterns_name(pattern: str, url: str, *, wanted: bool) -> None:
    """Each form names what it says, in every spelling, and nothing else."""
    assert matches(pattern, url) is wanted


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "characters"),
        ("two words", "not a host"),
        ("http://", "has no host"),
        ("=", "not a pattern"),
        ("ftp://example.org/", "only http and https"),
        ("http://example.org\x00/", "U+0000"),
        ("org,example,/x", "org,example)/x"),
        ("re:", "characters"),
        ("re:(?=x)", "look-ahead"),
        (r"re:(a)\1", "back references"),
        ("re:(", "RE2 cannot run it"),
        ("re:((a{1,1000}){1,1000}){1,1000}", "RE2 cannot run it"),
        (f"re:{'a' * 3000}", "characters"),
        (f"example.org/{'a' * MAX_URL_LENGTH}", "characters"),
    ],
)
def test_what_is_no_pattern_is_refused_with_the_reason(pattern: str, why: str) -> None:
    """The text says what is wrong, or what would be right."""
    with pytest.raises(InputError, match=why.replace(")", r"\)").replace("+", r"\+")):
        parse_pattern(pattern)


def test_long_urls_are_kept_byte_by_byte() -> None:
    """A URL of 60,000 characters is named, and one that differs in its last is not (A17)."""
    url = "http://example.org/" + "aB%2F" * 12_000
    assert matches(url, url)
    assert not matches(url, url[:-1] + "E")
    assert not matches(url, url.replace("aB", "ab"))


def test_the_most_specific_comes_first() -> None:
    """Exact, long prefix, short prefix, expression, host alone, host, domain."""
    names = [
        "=https://a.example.org/x/y",
        "=a.example.org/x/y",
        "https://a.example.org/x/",
        "a.example.org/x/",
        "a.example.org/x",
        "re:/x/",
        "=a.example.org",
        "a.example.org",
        "example.org",
        "org",
    ]
    table: PatternTable[str] = PatternTable()
    for name in reversed(names):
        table.add(parse_pattern(name), name)
    hits = table.find(pattern_target("https://a.example.org/x/y"))
    assert [match.value for match in hits] == names


def test_several_values_of_one_pattern_are_all_found() -> None:
    """Nothing is lost when two decisions name the same."""
    table: PatternTable[int] = PatternTable()
    for pattern in ("example.org", "=example.org", "example.org/x", "http://example.org/x", "re:x"):
        for value in (1, 2, 3):
            table.add(parse_pattern(pattern), value)
    hits = table.find(pattern_target("http://example.org/x"))
    assert len(hits) == 15
    assert sum(match.value for match in hits) == 30


_HOSTS = st.sampled_from(["a.example", "b.a.example", "c.example", "example"])
_PATHS = st.text("ab/", max_size=6).map(lambda text: f"/{text}")
_URLS = st.builds(
    lambda scheme, host, path: f"{scheme}://{host}{path}", st.sampled_from(["http", "https"]), _HOSTS, _PATHS
)
_PATTERNS = st.one_of(
    _HOSTS,
    _HOSTS.map(lambda host: f"={host}"),
    st.builds(lambda host, path: f"{host}{path}", _HOSTS, _PATHS),
    _URLS,
    _URLS.map(lambda url: f"{url}*"),
    _URLS.map(lambda url: f"={url}"),
    st.sampled_from(["re:a/b", "re:b$", "re:^https"]),
)


@given(st.lists(_PATTERNS, max_size=30), _URLS)
def test_a_table_finds_what_each_pattern_alone_would(patterns: list[str], url: str) -> None:
    """However many there are, the same match, and the ranks fall."""
    table: PatternTable[int] = PatternTable()
    for number, pattern in enumerate(patterns):
        table.add(parse_pattern(pattern), number)
    hits = table.find(pattern_target(url))
    alone = {number for number, pattern in enumerate(patterns) if matches(pattern, url)}
    assert {match.value for match in hits} == alone
    ranks = [match.rank for match in hits]
    assert ranks == sorted(ranks, reverse=True)


@given(st.text(max_size=60))
def test_whatever_is_typed_is_understood_or_refused(text: str) -> None:
    """Nothing but `InputError` comes back, and what is understood can be looked up."""
    try:
        pattern = parse_pattern(text)
    except InputError:
        return
    table: PatternTable[UrlPattern] = PatternTable()
    table.add(pattern, pattern)
    table.find(pattern_target("http://example.org/x"))


def test_expressions_that_need_too_much_memory_together_are_found_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set that cannot be made or runs out of memory is searched one by one, never silently empty."""
    patterns = [rf"a.{{0,20}}x{number}[0-9]+b" for number in range(60)]
    text = "zz" + "a" * 50 + "x5" + "77b" + "a" * 500
    wanted = list(RegexList(patterns).search(text))
    assert wanted == [5, 57]
    for limit in (1 << 12, 1 << 15, 1 << 17, 1 << 19):
        monkeypatch.setattr(regexes, "SET_LIMIT_BYTES", limit)
        assert list(RegexList(patterns).search(text)) == wanted
        assert list(RegexList(patterns).search("nothing")) == []


def test_an_automaton_that_gives_up_is_told_from_one_that_finds_nothing() -> None:
    """RE2 says "nothing" in both cases; ours then asks each expression by itself."""

    class GivesUp:
        def Match(self, _text: str) -> None:  # noqa: N802 as the library names it
            return None

    regexes = RegexList(["a+b", "c"])
    regexes._sets[0] = (*regexes._sets[0][:2], GivesUp())
    assert list(regexes.search("xaab")) == [0]


def test_an_expression_takes_time_that_grows_with_the_text_alone() -> None:
    """Expressions on which a backtracking engine would hang get an answer."""
    table: PatternTable[int] = PatternTable()
    table.add(UrlPattern(PatternForm.REGEX, "(a+)+$"), 1)
    table.add(parse_pattern("re:(a|aa)+b(a|aa)+c"), 2)
    assert table.find(pattern_target(f"http://example.org/{'a' * 60_000}!")) == []
