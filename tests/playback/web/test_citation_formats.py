"""Citations: what a page says of itself stays text in every form, and addresses stay whole."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from urllib.parse import unquote

from hypothesis import example, given
from hypothesis import strategies as st

from playback.web.citation_formats import (
    CitedSource,
    bibtex,
    bibtex_text,
    cite_web,
    plain,
    robust_link,
    wiki_link,
    wiki_text,
    wiki_url,
)

SOURCE = CitedSource(
    url="https://example.org/a?b=1",
    archive_url="https://archive.example/page/20260301120000/https://example.org/a?b=1",
    memento_url="https://copies.example/c/20260301120000/https://example.org/a?b=1",
    captured_at=datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC),
    accessed_at=datetime(2026, 11, 21, tzinfo=UTC),
    title="On bread",
    authors=("A. Baker",),
    published="2025-12-24T10:00:00+01:00",
    site="The Loaf",
    language="en",
)
_nasty = st.text(st.sampled_from("|{}[]<>&='\"\\*#:;_~!$%^-/ \n\tab1é") | st.characters(), max_size=30)
_urls = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=30).map(
    lambda rest: f"https://example.org/{rest}"
)


def test_a_citation_reads_as_wikipedians_write_it() -> None:
    """The template's parameters, dates in ISO 8601."""
    assert cite_web(SOURCE) == (
        "{{cite web |url=https://example.org/a?b=1 |author=A. Baker |title=On bread"
        " |website=The Loaf |date=2025-12-24 |language=en |access-date=2026-11-21"
        " |archive-url=https://archive.example/page/20260301120000/https://example.org/a?b=1"
        " |archive-date=2026-03-01}}"
    )
    assert wiki_link(SOURCE) == (
        "[https://example.org/a?b=1 On bread]"
        " ([https://archive.example/page/20260301120000/https://example.org/a?b=1"
        " archived copy, 2026-03-01])"
    )
    assert "“On bread”" in plain(SOURCE)


@given(_nasty)
@example("A | B ]] }} [[C]] {{D|e}} ''f'' <ref>g</ref> ~~~~ __NOTOC__ https://x.example ISBN 1")
@example("* a\n== b ==\n# c : d ; e ---- !! |- ")
def test_words_mean_nothing_to_mediawiki(title: str) -> None:
    """No character of the title starts anything, and a reader sees the title as it was."""
    text = wiki_text(title)

    assert not re.search(r"[\[\]{}|<>]|''|~~~|__|==|--|!!|\n|://|^[*#:;=!-]|&(?!#\d+;)", text)
    assert not re.search(r"\b(?:ISBN|RFC|PMID) \d", text)
    assert unescape(text).split() == _seen(title).split()


@given(_nasty, _nasty)
def test_a_template_has_just_its_own_parameters(title: str, author: str) -> None:
    """Whatever the page says, nothing is added to the template and nothing ends it."""
    text = cite_web(replace(SOURCE, title=title, authors=(author,)))
    inner = text.removeprefix("{{cite web |").removesuffix("}}")
    names = [each.partition("=")[0] for each in inner.split(" |")]

    assert text.count("{{") == text.count("}}") == 1
    assert set(names) <= {
        "url", "author", "title", "website", "date", "language", "access-date", "archive-url",
        "archive-date",
    }  # fmt: skip
    assert len(names) == len(set(names))


@given(_urls)
@example("https://example.org/a|b}}{{c]d[e\"f'g")
@example("https://example.org/__NOTOC__~~~~")
def test_a_url_is_taken_whole_by_mediawiki(url: str) -> None:
    """Characters that would end the URL are percent-encoded; decoded it is the same."""
    text = wiki_url(url)

    assert not re.search(r"[\[\]{}|<>\"'\s]|~~~|__|[^\x21-\x7e]", text)
    assert unquote(text) == unquote(url)


@given(_nasty, _urls)
def test_a_robust_link_is_one_element_with_four_attributes(title: str, url: str) -> None:
    """Read by an HTML parser it says what went in (Robust Links 1.0)."""
    elements: list[tuple[str, dict[str, str | None]]] = []
    words: list[str] = []

    class Reading(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            elements.append((tag, dict(attrs)))

        def handle_data(self, data: str) -> None:
            words.append(data)

    reading = Reading()
    reading.feed(robust_link(replace(SOURCE, title=title, url=url)))
    reading.close()
    ((tag, attributes),) = elements

    assert tag == "a"
    assert set(attributes) == {
        "href", "data-originalurl", "data-versionurl", "data-versiondate",
    }  # fmt: skip
    assert attributes["data-versiondate"] == "2026-03-01T12:00:00Z"
    assert attributes["data-versionurl"] == SOURCE.archive_url
    assert "".join(words).split() == _seen(title).split()


@given(_nasty, _urls)
def test_a_bibtex_entry_keeps_its_braces(title: str, url: str) -> None:
    """BibTeX counts braces, whatever stands before them; they balance in every field."""
    text = bibtex(replace(SOURCE, title=title, url=url, authors=(title, "B")))

    depth = 0
    for place, each in enumerate(text):
        depth += {"{": 1, "}": -1}.get(each, 0)
        assert depth > 0 or place < len("@misc") or place == len(text) - 1
    assert depth == 0
    assert not re.search(r"(?<!\\)[#$&^~]", bibtex_text(title))


def test_a_page_that_says_nothing_of_itself_is_cited_by_its_address() -> None:
    """Empty fields are left out."""
    source = replace(SOURCE, title=SOURCE.url, authors=(), published="", site="", language="")

    assert "author" not in cite_web(source)
    assert "|date" not in cite_web(source)
    assert "year" not in bibtex(source)


def _seen(text: str) -> str:
    """Return the text as the citation shows it: controls are spaces, lone surrogates are U+FFFD."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", re.sub(r"[\ud800-\udfff]", "\ufffd", text))
