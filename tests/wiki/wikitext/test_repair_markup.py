"""Hostile text in wikitext."""

import html
from urllib.parse import unquote

import mwparserfromhell
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mwparserfromhell.nodes import HTMLEntity, Text

from tests.support.examples import examples
from wiki.wikitext.repair_markup import TITLE_LENGTH, escape_plain, escape_url, escape_value, is_title, is_url_safe

MARKUP = st.text(st.one_of(st.sampled_from("|[]{}<>'~_=:-*#;&/ \n\t\u202e\u200b"), st.characters()), max_size=300)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("A plain title: part 2", "A plain title: part 2"),
        ("A | B [C] {D}", "A &#124; B &#91;C&#93; &#123;D&#125;"),
        ("Q&amp;A &lt;b&gt;", "Q&A &lt;b&gt;"),
        ("&amp;lt;", "&amp;lt;"),
        ("''A''", "&#39;&#39;A&#39;&#39;"),
        ("It's", "It's"),
        ("-{zh:a}-", "&#45;&#123;zh&#58;a&#125;-"),
        ("~~~~", "&#126;&#126;&#126;&#126;"),
        ("__NOTOC__", "&#95;&#95;NOTOC&#95;&#95;"),
        ("see http://a.test", "see http&#58;//a.test"),
        (" a \n\r\t b\u2028c ", "a b c"),
        ("a\u202eb\u200b\x07c", "abc"),
        ("ISBN 123", "I&#83;BN 123"),
    ],
)
def test_a_title_is_written_so_that_it_means_nothing(text: str, written: str) -> None:
    """Markup becomes entities, what nobody sees is left out (B15)."""
    assert escape_value(text) == written


@given(MARKUP)
def test_what_is_written_is_text_and_nothing_else(text: str) -> None:
    """Read again, there is text and entities, in one line, that show the same letters."""
    for written in (escape_value(text), escape_plain(text)):
        (template,) = mwparserfromhell.parse(f"{{{{t|a={written}}}}}").filter_templates()
        nodes = template.params[0].value.nodes
        assert all(isinstance(node, Text | HTMLEntity) for node in nodes)
        assert "\n" not in written
        assert "|" not in written
    assert (
        html.unescape(escape_plain(text)).split()
        == html.unescape(escape_plain(html.unescape(escape_plain(text)))).split()
    )


@settings(max_examples=examples(30))
@given(st.text(min_size=TITLE_LENGTH, max_size=2 * TITLE_LENGTH))
def test_a_long_title_ends(text: str) -> None:
    """At `TITLE_LENGTH` characters as they are shown."""
    assert len(html.unescape(escape_value(text))) <= TITLE_LENGTH


@given(st.text(max_size=200))
def test_a_written_url_is_safe(text: str) -> None:
    """Whatever stood in it, it ends where it ends, and writing it again changes nothing."""
    written = escape_url(f"http://x.test/{text}")
    assert is_url_safe(written) or any(ord(each) > 0x7F for each in written)
    assert escape_url(written) == written


@pytest.mark.parametrize(
    "url", ["http://x.test/a?b=c&d=e#f", "http://x.test/a_(b)", "http://x.test/%7Ca__b", "http://ä.test/ü"]
)
def test_an_ordinary_url_stays_as_it_is(url: str) -> None:
    """Only what means something in wikitext is escaped."""
    assert escape_url(url) == url
    assert is_url_safe(url)


@pytest.mark.parametrize("text", ["404 Not Found", "Page not found", "", "  ", "…", "Just a moment...", "Login", "a"])
def test_what_servers_say_is_no_title(text: str) -> None:
    """A citation of "404 Not Found" would be worse than none."""
    assert not is_title(text)
    assert is_title("The 404 Not Found story")


@pytest.mark.parametrize(
    "text",
    [
        "__NOTOC__",
        "__toc__",
        "__Kein_Inhaltsverzeichnis__",
        "__\u05dc\u05dc\u05d0_\u05ea\u05d5\u05db\u05df__",
        "\uff3f\uff3f\u76ee\u6b21\uff3f\uff3f",
        "a\u200bb",
        "a\u202eb",
        "a\ufeffb",
        "a\u180eb",
    ],
)
def test_a_url_switches_nothing_and_turns_no_line_around(text: str) -> None:
    """Behaviour switches of any language and case, and letters that nobody sees, are encoded."""
    url = f"http://x.test/{text}"

    assert not is_url_safe(url)
    assert is_url_safe(escape_url(url))
    assert unquote(escape_url(url)) == url
