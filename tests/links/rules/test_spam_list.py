"""Spam lists: what they name, what cannot be run, and what is kept of hits."""

import contextlib
import json

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from core.urls import fetch_key, identity_key
from links.registry.database import RegistryStore
from links.registry.schema import pages
from links.rules.link_class import WikiRules, classify_link
from links.rules.spam_list import FragmentSet, SpamList, SpamListKind, SpamLists, fragment_expression, words_of
from links.rules.wiki_rules import forget_spam_hits, hits_of, spam_on, write_spam_hits
from links.url_parts import key_of
from tests.links.rows import TODAY, RegistryRows
from tests.support.examples import examples

BLACK = r"""# A list
\bcasino-[a-z]+\.com\b  # since 2009
viagra

spam\.org\/shop
\.xn--90ae
bad\.net$
^nothing
trailing\
(?<=look)behind
(?!ahead)
a(b
xn--e1afmkfd\.org
"""
WHITE = "good-viagra\\.org\nspam\\.org/shop/kind\n"
DOMAINS = [
    {"domain": "blocked.example.net", "notes": "phishing"},
    {"domain": "MÜNCHEN-spam.de"},
    {"domain": ""},
    {"notes": "none"},
    "bare-name.org",
]


def lists_of(*more: SpamList) -> SpamLists:
    """Return the farm's blacklist, the wiki's whitelist, a list of domains, and `more`."""
    return SpamLists(
        [
            SpamList("Spam blacklist", SpamListKind.BLACKLIST, BLACK, is_global=True),
            SpamList("Spam-whitelist", SpamListKind.WHITELIST, WHITE),
            SpamList("Blocked.json", SpamListKind.DOMAINS, json.dumps(DOMAINS)),
            *more,
        ]
    )


def hit(lists: SpamLists, url: str) -> str:
    """Return the line that names the URL; empty for none."""
    return str(lists.hit_of(url, identity_key(fetch_key(url))) or "")


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("http://www.Casino-Royal.com/x", "farm: Spam blacklist, line 2"),
        ("https://buy-viagra.org/", "farm: Spam blacklist, line 3"),
        ("http://good-viagra.org/", ""),
        ("http://other-good-viagra.org/", ""),
        ("http://viagra-good.org/", "farm: Spam blacklist, line 3"),
        ("http://www.spam.org/shop/x", "farm: Spam blacklist, line 5"),
        ("http://www.spam.org/shop/kind", ""),
        ("http://www.spam.org/", ""),
        ("http://fine.org/?q=viagra", ""),
        ("http://archive.org/web/2010/http://viagra.org/", "farm: Spam blacklist, line 3"),
        ("http://viagra\uff0eorg/", "farm: Spam blacklist, line 3"),
        ("http://bad.net", "farm: Spam blacklist, line 7"),
        ("http://пример.org/", "farm: Spam blacklist, line 13"),
        ("http://blocked.example.net/", "wiki: Blocked.json, line 1"),
        ("http://a.blocked.example.net:81/x", "wiki: Blocked.json, line 1"),
        ("http://notblocked.example.net/", ""),
        ("http://münchen-spam.de/", "wiki: Blocked.json, line 2"),
        ("http://bare-name.org/", "wiki: Blocked.json, line 5"),
        ("http://fine.org/", ""),
    ],
)
def test_lists_name_urls_as_mediawikis_extensions_do(url: str, line: str) -> None:
    """Fragments anywhere behind a scheme, whitelisted text cut out first, domains with subdomains."""
    assert hit(lists_of(), url) == line


def test_lines_that_cannot_be_run_are_named() -> None:
    """By list and number, with the reason: the others hold on."""
    problems = lists_of().problems

    assert [problem.hit.line for problem in problems] == [9, 10, 11, 12, 3, 4]
    assert "backslash" in problems[0].reason
    assert all("RE2 cannot run it" in problem.reason for problem in problems[1:4])


@pytest.mark.parametrize("content", ["", "{", '{"domain": "a.org"}', "[" * 100_000, "5"])
def test_a_list_of_domains_that_is_none_is_refused(content: str) -> None:
    """Nothing is half read."""
    with pytest.raises(InputError, match=r"Blocked\.json"):
        SpamLists([SpamList("Blocked.json", SpamListKind.DOMAINS, content)])


@pytest.mark.slow
def test_a_long_list_names_its_lines() -> None:
    """Thousands of lines in several sets: each is found by its own number."""
    content = "\n".join(f"\\bspam-{number}\\.org" for number in range(4_100))
    lists = SpamLists([SpamList("long", SpamListKind.BLACKLIST, content)])

    assert lists.size == 4_100
    for number in (0, 1_999, 2_000, 4_099):
        assert hit(lists, f"http://spam-{number}.org/") == f"wiki: long, line {number + 1}"


@pytest.mark.parametrize(
    ("fragment", "words"),
    [
        (r"\bcasino-(?:one|two)\.com\b", ["casino-"]),
        (r"Buy\.Cheap\/pills", ["buy.cheap/pills"]),
        (r"viagra|cialis\d+", ["cialis", "viagra"]),
        (r"viagra|.*", []),
        (r"abcdefg?h", ["abcdef"]),
        (r"abcdef+h", ["abcdef"]),
        (r"abcde{2,3}fghi", ["abcd", "fghi"][:1]),
        (r"(?i)abcdef", []),
        (r"(?:abcdef)?", []),
        (r"[abc]defgh[[:alpha:]]", []),
        (r"\x41bcdef", []),
        (r"\Qa.b\Ecdef", []),
        (r"пример", []),
        (r"a.b", []),
    ],
)
def test_a_fragments_words_must_be_there(fragment: str, words: list[str]) -> None:
    """None are told where it may be found without."""
    assert words_of(fragment) == words


WORDS = ("spam", "SHOP", "a", "k", "s", "[ab]", ".", r"\.", r"\/")
SIGNS = ("", "", "?", "+", "*", "{2}", "|", "(", ")", "(?:", "(?i)", r"\b", "^", "$")


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(SIGNS)).map("".join), min_size=1, max_size=3).map(
            "".join
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.sampled_from(["spam", "spa", "Shop", "a", "b", ".", "/", "K", "\u212a", "\u017f"]), max_size=8),
)
def test_searching_for_words_first_finds_the_same(fragments: list[str], parts: list[str]) -> None:
    """As each fragment by itself does."""
    good = []
    for fragment in fragments:
        with contextlib.suppress(InputError):
            good.append((fragment, fragment_expression(fragment)))
    text = f"http://{''.join(parts)}"

    numbers = list(FragmentSet([fragment for fragment, _ in good]).search(text))

    assert numbers == [number for number, (_, whole) in enumerate(good) if re2.search(whole, text)]


@pytest.mark.parametrize("host", ["casino", "CASINO", "ca\u017fino", "po\u212aer"])
def test_letters_are_equal_but_for_their_case_beyond_ascii_too(host: str) -> None:
    """The long s and the sign of Kelvin, as RE2 has it."""
    assert list(FragmentSet(["poker", "casino"]).search(f"http://{host}.org/ä")) != []


def test_hits_keep_their_days(store: RegistryStore) -> None:
    """From the first to the last; what a page has no more stays as a trace, and is not listed (W52)."""
    rows = RegistryRows(store)
    rows.add_wiki()
    for number in (1, 2):
        rows.add_page(number, [])
    rules = WikiRules(spam=lists_of())
    one = hits_of(classify_link(url, rules) for url in ("http://viagra.org/", "http://fine.org/"))
    both = one | hits_of([classify_link("http://bad.net/", rules)])
    bad = "http://bad.net/"
    assert list(one) == ["http://viagra.org/"]
    viagra = one["http://viagra.org/"]
    both[bad] = viagra

    def write(day: int, hits_by_page: dict[int, dict[str, object]]) -> list[tuple[int, str, int, int]]:
        with store.writing() as connection:
            connection.execute(pages.update().where(pages.c.id.in_(hits_by_page)).values(listed_day=day))
            write_spam_hits(connection, 1, hits_by_page, today=day)  # type: ignore[arg-type]
        with store.reading() as connection:
            now = spam_on(connection, 1)
        return [(each.page_id, each.url, each.first_day, each.last_day) for each in now]

    first = write(TODAY, {1: {**both}, 2: {**one}})
    assert {each[:2] for each in first} == {(1, "http://viagra.org/"), (1, bad), (2, "http://viagra.org/")}
    later = write(TODAY + 5, {1: {**one}})
    assert (1, "http://viagra.org/", TODAY, TODAY + 5) in later
    assert len(later) == 2
    gone = write(TODAY + 5, {1: {}})
    assert [each[0] for each in gone] == [2]

    with store.reading() as connection:
        parts = spam_on(connection, 1, limit=1)
    assert len(parts) == 1
    with store.writing() as connection:
        assert forget_spam_hits(connection, before_day=TODAY + 5) == 3
        assert forget_spam_hits(connection, before_day=TODAY + 5) == 0


def test_hits_are_listed_in_parts(store: RegistryStore) -> None:
    """Each once, in the order of pages."""
    rows = RegistryRows(store)
    rows.add_wiki()
    rules = WikiRules(spam=lists_of())
    hits_by_page = {
        number: hits_of(classify_link(f"http://viagra-{each}.org/", rules) for each in range(3))
        for number in range(1, 6)
    }
    for number in hits_by_page:
        rows.add_page(number, [])
    with store.writing() as connection:
        write_spam_hits(connection, 1, hits_by_page, today=TODAY)

    seen: list[tuple[int, str]] = []
    with store.reading() as connection:
        while part := spam_on(connection, 1, limit=4, after=(seen[-1][0], key_of(seen[-1][1])) if seen else (0, b"")):
            seen += [(each.page, each.url) for each in part]

    assert len(seen) == len(set(seen)) == 15
    assert [page for page, _ in seen] == sorted(page for page, _ in seen)
