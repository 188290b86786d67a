"""Elements that each level shows and leaves out; sanitising again changes nothing."""

import itertools
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from playback.access.levels import Level
from playback.replay.sanitizer.allowlist import allowlist_of
from tests.playback.replay.sanitizer.test_html_document import VECTORS
from tests.support.examples import examples
from tests.support.playback_fixtures import NOW, ReplayedCollection

pytestmark = pytest.mark.playback

Call = Callable[[str, list[object]], Any]
LEVELS = [Level.TEXT, Level.LIMITED, Level.HTML, Level.IMAGES]
PAGE = """<html lang=de><title>T</title><link rel=stylesheet href=a.css>
<style>p{color:red;background:url(x.png)}</style><body class=c><nav><a href=/x id=i>Home</a>
<div>foo <b>bar</b></div><div>baz</div></nav><h1>Head <img src=l.png alt=Logo></h1><ul><li>a<li>b</ul>
<table background=b.png><tr><td>1<td colspan=2>2</table><pre>x\n y</pre><dl><dt>q<dd>r</dl>
<p style="background:url(q.png);color:red">s<iframe data-weboid-document="<p>in<div>ner</div>">
</iframe></p>"""

each_level = pytest.mark.parametrize("level", LEVELS)


class _NameCollector(HTMLParser):
    """The elements and attributes of a document."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[tuple[str, str]] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags |= {(tag, ""), *((tag, name) for name, _ in attrs)}


def strangers(text: str, level: Level) -> list[tuple[str, str]]:
    """Return the elements and attributes that the level does not show."""
    shows = allowlist_of(level)
    every = shows.attributes.get("*", frozenset())
    inert = {"input": {"inert"}} if shows.has_look else {}
    unlisted_names = []
    for tag, name in sorted(_NameCollector(text).tags):
        is_custom = "-" in tag and shows.has_look
        own = shows.attributes.get(tag, frozenset()) | every | {"rel"}
        own |= shows.values.get(tag, {}).keys() | shows.forced.get(tag, {}).keys() | inert.get(tag, set())
        is_known = not name or name in own or name.startswith(tuple(shows.prefixes) or ("\0",))
        if not (tag in shows.tags or is_custom) or not is_known:
            unlisted_names.append((tag, name))
    return unlisted_names


def test_each_level_shows_all_of_the_one_below() -> None:
    """A reader who asks for more never sees less."""
    for less, more in itertools.pairwise(LEVELS):
        assert allowlist_of(less).tags <= allowlist_of(more).tags


def test_the_lowest_level_is_text_in_paragraphs(in_replay: Call) -> None:
    """Blocks are paragraphs, cells stand apart, and line ends that count stay."""
    text = in_replay("document", [PAGE, True, "text"])

    assert text.partition("<body>")[2] == (
        "<p>Home</p><p>foo bar</p><p>baz</p><p>Head Logo</p><p>a</p><p>b</p><p>1 2</p><p>x<br>y</p>"
        "<p>q</p><p>r</p><p>s</p><p>in</p><p>ner</p></body></html>\n"
    )


def test_limited_html_has_structure_and_no_look(in_replay: Call) -> None:
    """Headings, lists, tables and links; where another block ends, a line does."""
    body = in_replay("document", [PAGE, True, "limited"]).partition("<body>")[2]

    assert 'target="_top" rel="noreferrer nofollow">Home</a>' in body
    assert "foo <b>bar</b><br>baz<h1>Head Logo</h1><ul><li>a</li><li>b</li></ul>" in body
    assert '<td colspan="2">2</td>' in body
    assert "<pre>x\n y</pre>q<br>r" in body
    assert "style" not in body
    assert "id=" not in body


def test_html_keeps_the_look_without_pictures(in_replay: Call) -> None:
    """Style sheets come by a route that names no picture; alternative text stands for images."""
    text = in_replay("document", [PAGE, True, "html"])

    assert 'href="/c/20260301120000cp_/https://page.example/dir/a.css"' in text
    assert "p{color:red;}" in text
    assert "<h1>Head Logo</h1>" in text
    assert "im_/" not in text
    assert "<img" not in text


def test_only_the_highest_of_them_asks_for_images(in_replay: Call) -> None:
    """Below it no image address is written, neither in elements nor in styles nor in frames."""
    shown = {level: in_replay("document", [PAGE, True, level]) for level in LEVELS}

    assert [level for level in LEVELS if "im_/" in shown[level]] == [Level.IMAGES]
    assert [level for level in LEVELS if "<iframe" in shown[level]] == [Level.HTML, Level.IMAGES]


@each_level
@pytest.mark.parametrize("vector", VECTORS)
def test_no_vector_brings_what_a_level_does_not_show(in_replay: Call, vector: str, level: Level) -> None:
    """Only elements and attributes of its list, and the same at a second reading (P-01, P-02)."""
    once, twice = in_replay("body_twice", [vector, level])

    assert strangers(once, level) == []
    assert twice == once


_OPENERS = (
    "a href=x", "abbr", "address", "b", "body", "br", "button", "caption", "center", "code", "col",
    "colgroup", "dd", "details", "dialog", "div", "dl", "dt", "em", "fieldset", "font color=red",
    "foreignobject", "form", "frameset", "h1", "h2", "head", "hr", "html", "i", "img src=x", "input",
    "label", "legend", "li", "listing", "marquee", "math", "mtext", "annotation-xml", "nobr", "ol",
    "optgroup", "option", "p", "p style=color:red", "plaintext", "pre", "ruby", "rb", "rp", "rt",
    "rtc", "select", "span", "style", "summary", "svg", "svg desc", "title", "table", "tbody", "td",
    "template", "textarea", "tfoot", "th", "thead", "tr", "u", "ul", "x-y", "xmp",
)  # fmt: skip
_SOUP = st.lists(
    st.one_of(
        st.sampled_from(_OPENERS).map("<{}>".format),
        st.sampled_from(_OPENERS).map(lambda each: f"</{each.split()[0]}>"),
        st.sampled_from(["x", " ", "\n", "&lt;", "&nbsp;", "<!--", "-->", "\x00", "é"]),
    ),
    max_size=24,
).map("".join)


@each_level
@settings(max_examples=examples(60))
@given(_SOUP)
@example("<a href=x><table><a href=x>")
@example("<a><p><a><table><tr><td><a><p><table><a><p>")
@example("<table><b><i><table><tr><b><td><i></table></b>x")
@example("<button><p><button><p><select><button><option><p>x")
@example("<pre>\n\nx<pre>\n")
@example("<textarea>\n\nx")
def test_what_was_made_safe_once_stays_as_it_is(in_replay: Call, level: Level, text: str) -> None:
    """Sanitised again it is the same, whatever it was made of: a browser reads what we read (P-02)."""
    once, twice = in_replay("body_twice", [text, level])

    assert strangers(once, level) == []
    assert twice == once


def test_a_sheet_without_pictures_has_a_route_of_its_own(archived: ReplayedCollection, site: str) -> None:
    """It names none, its imports neither, and what was made for one route is not served by the other."""
    css = b"@import 'b.css';p{color:red;background:url(x.png)}"
    archived.builder.response(f"{site}/a.css", css, mime="text/css")
    moment = f"{NOW:%Y%m%d%H%M%S}"

    plain, whole = (archived.replay.get(f"/c/{moment}{modifier}/{site}/a.css").text for modifier in ("cp_", "cs_"))

    assert plain == f'@import url("/c/{moment}cp_/{site}/b.css") ;\np{{color:red;}}'
    assert f'url("/c/{moment}im_/{site}/x.png")' in whole
    assert f'@import url("/c/{moment}cs_/{site}/b.css")' in whole
