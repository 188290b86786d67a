"""Sheets: prefixes of SURTs, and the settings that hold below them."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.profile import parse_settings, settings_from
from core.config.settings import Settings
from core.config.sheets import SurtPrefixMap, surt, surt_prefix, with_sheets
from core.errors import ConfigError

LABEL = st.text("abcxyz09", min_size=1, max_size=4)
HOST = st.lists(LABEL, min_size=1, max_size=4).map(lambda labels: ".".join([*labels, "org"]))
PATH = st.lists(st.text("abc_.,)(", min_size=1, max_size=4), max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("given_", "prefix"),
    [
        ("org,example,", "org,example,"),
        ("ORG,Example,", "org,example,"),
        ("org,example,)/Wiki/", "org,example,)/Wiki/"),
        ("org,example)/wiki", "org,example,)/wiki"),
        ("http://(org,example,", "org,example,"),
        ("http://(org,example,)/wiki", "org,example,)/wiki"),
        ("example.org", "org,example,"),
        ("*.example.org", "org,example,"),
        ("https://Example.org", "org,example,"),
        ("example.org/wiki/", "org,example,)/wiki/"),
        ("https://example.org/", "org,example,)/"),
        ("example.org:8080", "org,example,:8080)"),
        ("example.org:8080/x", "org,example,:8080)/x"),
        ("münchen.de", "de,xn--mnchen-3ya,"),
        ("127.0.0.1", "127.0.0.1,"),
        ("[::1]", "[::1],"),
    ],
)
def test_people_may_write_surts_hosts_or_urls(given_: str, prefix: str) -> None:
    """All are spelled one way."""
    assert surt_prefix(given_) == prefix
    assert surt_prefix(prefix) == prefix


@pytest.mark.parametrize("text", ["", "org,example", "a b", "http://", "x" * 3000, "ftp://a.org/"])
def test_what_is_no_prefix_is_refused(text: str) -> None:
    """org,example would hold for example2.org, too."""
    with pytest.raises(ConfigError):
        surt_prefix(text)


@given(HOST, PATH)
def test_a_host_holds_for_itself_and_all_below_it(host: str, path: str) -> None:
    """… and for no other."""
    prefix = surt_prefix(host)

    assert surt(f"http://{host}/{path}").startswith(prefix)
    assert surt(f"https://www.{host}:8080/{path}").startswith(prefix)
    assert not surt(f"http://x{host}/{path}").startswith(prefix)
    assert not surt(f"http://{host}.net/{path}").startswith(prefix)


@given(st.lists(st.text("ab,)/", max_size=5), max_size=12), st.text("ab,)/", max_size=8))
def test_a_look_up_finds_each_prefix_the_longest_last(prefixes: list[str], text: str) -> None:
    """As a plain search through the list does."""
    pairs = [(prefix, number) for number, prefix in enumerate(prefixes)]
    expected = sorted((pair for pair in pairs if text.startswith(pair[0])), key=lambda p: len(p[0]))

    assert SurtPrefixMap(pairs).of(text) == tuple(number for _, number in expected)


def test_the_longest_prefix_holds() -> None:
    """Of two sheets that say something about one key."""
    profile = parse_settings(
        '[[sheet]]\nprefix = "org,example,)/wiki/"\nvisit.timeout_s = 90\n'
        '[[sheet]]\nmatch = "example.org"\nvisit.timeout_s = 10\nvisit.language = "de"\n'
    )
    by_prefix = SurtPrefixMap((sheet.prefix, sheet) for sheet in profile.sheets)

    settings = with_sheets(profile, by_prefix.of(surt("https://example.org/wiki/A")))

    assert settings.visit == dataclasses.replace(Settings().visit, timeout_s=90.0, language="de")


def test_sheets_survive_the_way_to_another_process() -> None:
    """With the rest of the settings, as JSON."""
    settings = parse_settings('[[sheet]]\nmatch = "a.example"\nscope.exclude = ["x"]\n')

    assert settings_from(json.loads(json.dumps(dataclasses.asdict(settings)))) == settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("visit.timeout_s = 1", "its part"),
        ('prefix = "org,"\nmatch = "b.org"', "its part"),
        ('prefix = "org,example"', "inside a label"),
        ('match = "a.org"\nproxy.processes = 2', "proxy"),
        ('match = "a.org"\nvisit.timeout = 2', "timeout"),
        ('match = "a.org"\nvisit.timeout_s = "x"', "timeout_s"),
        ('match = "a.org"\nvisit.timeout_s = -1', "zero or more"),
        ('match = "a.org"\nscope.pages = 3', "applies to the whole crawl"),
        ('match = "a.org"\npoliteness.visits_per_host = 3', "applies to the whole crawl"),
        ('match = "a.org"\nscope.exclude = ["("]', "exclude"),
        ('match = "a.org"\nvisit = 3', "table"),
    ],
)
def test_a_sheet_that_cannot_be_meant_is_refused_by_name(text: str, words: str) -> None:
    """The error names the profile, the sheet and the key."""
    with pytest.raises(ConfigError, match=words) as caught:
        parse_settings(f"[[sheet]]\n{text}\n", source="mine.toml")

    assert "mine.toml sheet" in str(caught.value)
