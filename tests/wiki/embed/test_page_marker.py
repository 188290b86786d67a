"""Marking the links of a page, and taking the marks back."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.wiki.embed.garbage import GARBAGE
from wiki.embed.html_tags import parse_selector
from wiki.embed.link_lookup import CopyDisplay, LinkAnswer, PageLocation
from wiki.embed.page_marker import MarkablePage, MarkRules, insert_marks, read_page, remove_marks

ARCHIVE = "https://archive.test"
HERE = PageLocation("https://wiki.test/wiki/Page", ("*.own.test",), (ARCHIVE,))
URL = "https://cited.example.com/x"
LINK = f'<a href="{URL}">x</a>'.encode()


def answer_to(url: str, kind: str = "copy", *, dead: bool = False, group: str = "working") -> LinkAnswer:
    """Return an answer as a front gives it."""
    href = f"{ARCHIVE}/page/20260102030405/{url}" if kind != "none" else ""
    copy = href if kind == "copy" else ""
    date = "2026-01-02T03:04:05Z" if copy else ""
    return LinkAnswer(url, kind, href, copy, date, group, dead, 'Tot seit „gestern" & <heute>')


def read(data: bytes, **rules: tuple[str, ...]) -> MarkablePage:
    """Parse the page, with selectors as users write them."""
    selectors = {key: tuple(map(parse_selector, texts)) for key, texts in rules.items()}
    return read_page(data, HERE, rules=MarkRules(**selectors))


def mark(data: bytes, show: CopyDisplay = CopyDisplay.ALWAYS, **rules: tuple[str, ...]) -> bytes:
    """Return the page with a copy beside each of its citations."""
    page = read(data, **rules)
    return insert_marks(page, {url: answer_to(url) for url in page.urls(1_000)}, show)


def cited(data: bytes, **rules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the URLs that would be looked up."""
    return read(data, **rules).urls(1_000)


def test_a_link_gains_classes_attributes_and_its_copy_beside_it() -> None:
    """The form is that of docs/how-to/embedding.md, and ASCII in every encoding."""
    assert mark(b'<p><a rel=nofollow href="https://cited.example.com/x?a=1&amp;b=2">x</a>.</p>') == (
        b'<p><a class="weboid-link weboid-working"'
        b' data-originalurl="https://cited.example.com/x?a=1&amp;b=2"'
        b' data-versionurl="https://archive.test/page/20260102030405/https://cited.example.com/x?a=1&amp;b=2"'
        b' data-versiondate="2026-01-02T03:04:05Z" rel=nofollow'
        b' href="https://cited.example.com/x?a=1&amp;b=2">x</a>'
        b'<sup class="weboid-cached weboid-copy">'
        b'<a href="https://archive.test/page/20260102030405/https://cited.example.com/x?a=1&amp;b=2"'
        b' title="Tot seit &#8222;gestern&quot; &amp; &lt;heute&gt;"'
        b' aria-label="cached: https://cited.example.com/x?a=1&amp;b=2">cached</a></sup>.</p>'
    )


CLASSES = {
    "double": (b'class="a b"', b'class="a b weboid-link weboid-working"'),
    "single": (b"class='a'", b"class='a weboid-link weboid-working'"),
    "empty": (b'class=""', b'class=" weboid-link weboid-working"'),
    "none": (b"class", b'class="weboid-link weboid-working"'),
    "unquoted": (b"class=a", b'class="a weboid-working weboid-link"'),
    "unquoted-with-quote": (b'class=a"b', b"class='a\"b weboid-working weboid-link'"),
    "unquoted-with-both": (b"class=a\"b'c", b"class=a\"b'c"),
    "upper-case": (b"CLASS=A", b'CLASS="A weboid-working weboid-link"'),
    "second-does-not-count": (b'class=a class="b"', b'class="a weboid-working weboid-link" class="b"'),
}


@pytest.mark.parametrize(("before", "after"), CLASSES.values(), ids=CLASSES.keys())
def test_classes_that_are_there_stay(before: bytes, after: bytes) -> None:
    """However they are written; and what was inserted can be taken out to the byte."""
    data = b"<a " + before + b' href="' + URL.encode() + b'">x</a>'

    made = mark(data)

    assert after + b' href="' in made
    assert remove_marks(made) == data


@pytest.mark.parametrize(
    ("kind", "label"),
    [("copy", "cached"), ("queued", "queued"), ("refused", "not archived"), ("failed", "not archived")],
)
def test_each_answer_has_its_word(kind: str, label: str) -> None:
    """A reader sees what became of the link (A09)."""
    made = insert_marks(read(LINK), {URL: answer_to(URL, kind)})

    assert f'<sup class="weboid-cached weboid-{kind}">'.encode() in made
    assert f">{label}</a></sup>".encode() in made
    assert (b"data-versionurl" in made) is (kind == "copy")


def test_words_are_in_the_language_asked_for() -> None:
    """German is built in."""
    made = insert_marks(read(LINK), {URL: answer_to(URL)}, language="de")

    assert b">archiviert</a></sup>" in made
    assert remove_marks(made) == LINK


def test_where_nothing_is_known_nothing_changes() -> None:
    """Neither for a URL that nobody saw, nor for one that was not answered."""
    assert insert_marks(read(LINK), {}) == LINK
    assert insert_marks(read(LINK), {URL: LinkAnswer(URL)}) == LINK


def test_a_dead_link_without_any_copy_is_marked_as_dead() -> None:
    """Its state is shown; there is nothing to lead to."""
    made = insert_marks(read(LINK), {URL: answer_to(URL, "none", dead=True, group="unreachable")})

    assert b"weboid-unreachable" in made
    assert b"<sup" not in made


@pytest.mark.parametrize(
    ("show", "dead", "shown"),
    [
        (CopyDisplay.ALWAYS, False, True), (CopyDisplay.ALWAYS, True, True), (CopyDisplay.DEAD, False, False),
        (CopyDisplay.DEAD, True, True), (CopyDisplay.NEVER, False, False), (CopyDisplay.NEVER, True, False),
    ],
)  # fmt: skip
def test_the_copy_is_offered_as_the_setting_says(show: CopyDisplay, dead: bool, shown: bool) -> None:
    """Always, only for dead links, or never; classes and attributes in any case."""
    made = insert_marks(read(LINK), {URL: answer_to(URL, dead=dead)}, show)

    assert (b"<sup" in made) is shown
    assert b"weboid-link" in made
    assert b"data-versionurl" in made


CITED = {
    "entities": (b'<a href="https://a.example.com/?x=1&amp;y=2&copy=3&eacute;">', "https://a.example.com/?x=1&y=2&copy=3é"),
    "numeric": (b"<a href='https&#58;//a.example.com/&#x41;&#65'>", "https://a.example.com/AA"),
    "white-space": (b'<a href=" \n https://a.example.com/\tx\n ">', "https://a.example.com/x"),
    "unquoted": (b"<a href=https://a.example.com/?q='x'>", "https://a.example.com/?q='x'"),
    "upper-case": (b"<A HREF=HTTPS://A.EXAMPLE.COM/>", "HTTPS://A.EXAMPLE.COM/"),
    "no-scheme": (b'<a href="//a.example.com/">', "https://a.example.com/"),
    "first-of-two": (b'<a href="https://a.example.com/" href="https://b.example.com/">', "https://a.example.com/"),
    "fragment": (b'<a href="https://a.example.com/#top">', "https://a.example.com/#top"),
    "download": (b'<a download href="https://a.example.com/f.pdf">', "https://a.example.com/f.pdf"),
    "other-attributes": (b'<a title="a>b" rel="nofollow" href="https://a.example.com/">', "https://a.example.com/"),
    "based": (b'<base href="https://b.example.com/d/"><a href="../x">', "https://b.example.com/x"),
    "in-nested-svg": (b'<svg><a href="x"></a></svg><a href="https://a.example.com/">', "https://a.example.com/"),
    "wrong-end-before": (b'</a></a><a href="https://a.example.com/">', "https://a.example.com/"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "url"), CITED.values(), ids=CITED.keys())
def test_an_address_is_read_as_browsers_read_it(data: bytes, url: str) -> None:
    """The URL that is looked up is the one that a click would open."""
    assert cited(data) == (url,)


NOT_CITED = {
    "own": b'<a href="https://wiki.test/x">x</a>',
    "own-by-setting": b'<a href="https://de.own.test/">x</a>',
    "relative": b'<a href="/x">x</a><a href="x">x</a><a href="?x">x</a><a href="#x">x</a><a href>x</a>',
    "front": b'<a href="https://archive.test/page/1/https://x.example.com/">x</a>',
    "archive": b'<a href="https://web.archive.org/web/2015/http://x.example.com/">x</a>',
    "mail": b'<a href="mailto:a@b.example.com">x</a>',
    "script": b"<a href=\"javascript:location='https://x.example.com'\">x</a>",
    "no-host": b'<a href="http:///x">x</a><a href="https://">x</a><a href="https://[::x]/">x</a>',
    "no-name": b'<a href="http://localhost/">x</a><a href="https://a..b/">x</a>',
    "no-href": b'<a name="https://x.example.com/">x</a>',
    "area": b'<area href="https://x.example.com/"><link href="https://x.example.com/">',
    "ignored": b'<p class="x weboid-ignore">' + LINK + b"</p>",
    "ignored-itself": b'<a class=weboid-ignore href="https://x.example.com/">x</a>',
    "ignored-nested": b"<div class=weboid-ignore><div></div>" + LINK + b"</div>",
    "editable": b'<div contenteditable="true">' + LINK + b"</div>",
    "robust-already": b'<a data-versionurl="https://x.test" href="https://x.example.com/">x</a>',
    "robust-reference": b'<a data-originalurl="https://x.test" href="https://x.example.com/">x</a>',
    "by-extension": b'<a class="external weboid-link weboid-x" href="https://x.example.com/">x</a>',
    "sup-follows": LINK + b'\n <sup class="x weboid-cached">y</sup>',
    "in-sup": b'<sup class="weboid-cached">' + LINK + b"</sup>",
    "long": b'<a href="https://x.example.com/' + b"x" * 5_000 + b'">x</a>',
    "utf-16": "\ufeff<a href='https://x.example.com/'>x</a>".encode("utf-16-le"),
    "copy-beside": LINK + b' <a href="https://web.archive.org/web/2015/https://cited.example.com/x/">y</a>',
}


@pytest.mark.parametrize("data", NOT_CITED.values(), ids=NOT_CITED.keys())
def test_what_is_no_citation_is_left_alone(data: bytes) -> None:
    """Own pages, archives, what cannot be asked for, and what somebody marked or does not want marked."""
    assert cited(data) == ()
    assert mark(data) == data


REGIONS = {
    "paragraph-ends-at-next": b"<p class=weboid-ignore>a<p>" + LINK,
    "paragraph-ends-at-block": b"<p class=weboid-ignore>a<div>" + LINK,
    "paragraph-ends-with-parent": b"<div><p class=weboid-ignore>a</div>" + LINK,
    "item-ends-at-next": b"<ul><li class=weboid-ignore>a<ul><li>b</ul><li>" + LINK,
    "item-ends-with-list": b"<ul><li class=weboid-ignore>a</ul>" + LINK,
    "cell-ends-at-next": b"<table><tr><td class=weboid-ignore><table><td>x</table><td>" + LINK,
    "row-ends-at-next": b"<table><tr class=weboid-ignore><td>x<tr><td>" + LINK,
    "void-has-no-region": b"<img class=weboid-ignore>" + LINK,
    "not-editable": b'<div contenteditable="false">' + LINK + b"</div>",
    "name-in-text": b"<p>weboid-ignore</p>" + LINK,
    "name-in-comment": b"<!-- <div class=weboid-ignore> -->" + LINK,
    "longer-name": b"<p class=weboid-ignored>" + LINK,
}


@pytest.mark.parametrize("data", REGIONS.values(), ids=REGIONS.keys())
def test_a_region_ends_where_a_browser_ends_its_element(data: bytes) -> None:
    """End tags that HTML lets be left out end nothing too late."""
    assert cited(data) == (URL,)


def test_selectors_say_which_links_are_meant() -> None:
    """By element, class or id, of the link or of what lies around it."""
    data = (
        b'<nav><a href="https://menu.example.com/">x</a></nav><div id=content class="a body">'
        b'<a class="external" href="https://one.example.com/">x</a>'
        b'<aside><a href="https://two.example.com/">x</a></aside></div>'
        b'<a href="https://last.example.com/">x</a>'
    )
    one, two = "https://one.example.com/", "https://two.example.com/"
    menu, last = "https://menu.example.com/", "https://last.example.com/"

    assert cited(data, only=("#content",)) == (one, two)
    assert cited(data, only=("div.body",), skip=("aside",)) == (one,)
    assert cited(data, only=(".external",)) == (one,)
    assert cited(data, only=("a.external", "nav")) == (menu, one)
    assert cited(data, skip=("nav", "#content")) == (last,)
    assert cited(data, only=("#nothing",)) == ()


def test_of_engines_that_say_their_name_only_the_content_is_marked() -> None:
    """Menus and footers cite nothing; a selector that is given counts instead."""
    data = (
        b'<meta name="generator" content="MediaWiki 1.39.17"><a href="https://menu.example.com/">x</a>'
        b'<div id="mw-content-text">' + LINK + b'</div><a href="https://last.example.com/">x</a>'
    )

    assert cited(data) == (URL,)
    assert cited(data, only=("a",)) == ("https://menu.example.com/", URL, "https://last.example.com/")


def test_a_link_that_never_ends_gets_no_copy_beside_it() -> None:
    """Browsers guess the end of such a link; its classes and attributes do not depend on it."""
    made = mark(b'<a href="https://one.example.com/">x <a href="https://two.example.com/">y</a>')

    assert made.count(b"<sup") == 1
    assert made.count(b"data-versionurl") == 2


@pytest.mark.parametrize(
    ("charset", "meta"),
    [("windows-1252", b""), ("", b'<meta charset="latin1">'), ("", b""), ("iso-8859-1", b"<meta charset=utf-8>")],
    ids=["said", "in-page", "found-out", "head-before-page"],
)  # fmt: skip
def test_an_address_is_read_in_the_page_s_encoding(charset: str, meta: bytes) -> None:
    """The path as UTF-8, the query as browsers send it: in the page's own (WHATWG URL, 4.4)."""
    data = meta + b'<a href="https://a.example.com/\xe9?q=\xe9">x</a>'

    assert read_page(data, HERE, charset=charset).urls(9) == ("https://a.example.com/é?q=%E9",)


@pytest.mark.parametrize("charset", ["utf-16", "UTF-16LE", "iso-2022-jp", "utf-7"])
def test_a_page_whose_bytes_do_not_contain_ascii_is_left_alone(charset: str) -> None:
    """There a less-than sign need not be one."""
    assert read_page(LINK, HERE, charset=charset).links == ()


PAGES = st.lists(st.one_of(st.sampled_from(GARBAGE), st.binary(max_size=6)), max_size=40).map(b"".join)


@settings(max_examples=examples(250))
@given(PAGES, st.sampled_from(CopyDisplay), st.sampled_from(("copy", "queued", "none")))
def test_nothing_but_insertions_is_made(data: bytes, show: CopyDisplay, kind: str) -> None:
    """Without what was inserted the page is as it was, whatever it is."""
    page = read(data)
    answers = {url: answer_to(url, kind) for url in page.urls(1_000)}

    made = insert_marks(page, answers, show)

    assert remove_marks(made) == data
    assert _is_within(data, made)


def _is_within(data: bytes, made: bytes) -> bool:
    """Return True when `made` contains all bytes of `data`, in their order."""
    place = 0
    for byte in data:
        place = made.find(byte, place) + 1
        if not place:
            return False
    return True


@settings(max_examples=examples(150))
@given(PAGES, st.sampled_from((CopyDisplay.ALWAYS, CopyDisplay.NEVER)))
def test_marking_twice_changes_nothing(data: bytes, show: CopyDisplay) -> None:
    """Links that are marked are seen to be."""
    made = mark(data, show)

    assert mark(made, show) == made


@settings(max_examples=examples(100))
@given(PAGES)
def test_taking_marks_back_leaves_pages_alone_that_have_none(data: bytes) -> None:
    """Only what has the exact form of an insertion is one."""
    assert remove_marks(data) == data
    assert remove_marks(data + b'<sup class="weboid-cached">x</sup><a class="weboid-link">') == (
        data + b'<sup class="weboid-cached">x</sup><a class="weboid-link">'
    )


def test_marks_are_brought_up_to_date() -> None:
    """A page that was marked, marked again, is as if it had been marked once."""
    made = mark(LINK)
    page = read(remove_marks(made))

    later = insert_marks(page, {URL: answer_to(URL, dead=True, group="unreachable")})

    assert later == insert_marks(read(LINK), {URL: answer_to(URL, dead=True, group="unreachable")})
    assert len(re.findall(rb"weboid-cached", later)) == 1


def test_a_page_of_megabytes_is_marked() -> None:
    """Time and memory are linear in its length."""
    data = (b"<p>some text <b>and</b> more of it</p>" * 50 + LINK) * 1_500

    assert len(data) > 2_700_000
    assert remove_marks(mark(data)) == data


@pytest.mark.parametrize("text", ["", "a b", "a > b", "*", "a:hover", ".a.b", "#", "[a=b]", "a,b"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    """Nobody believes that a rule holds which was not understood."""
    with pytest.raises(Exception, match="not a selector"):
        parse_selector(text)
