"""Marking of external links in HTML: the extension's PHP functions without a wiki."""

import json
import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.mediawiki_extension import EXTENSION
from tests.wiki.mediawiki.conftest import PhpFunctions
from wiki.sync.webhook import sign_request

pytestmark = pytest.mark.slow

COPY = "https://archive.example/c"
AFTER = (
    f'<sup class="weboid-cached weboid-copy"><a href="{COPY}" title="Working" '
    'aria-label="cached copy of https://e.org/" rel="nofollow">cached</a></sup>'
)
GIVEN = f' data-originalurl="https://e.org/" data-versionurl="{COPY}" data-versiondate="2026-11-20T10:11:12Z"'
LINK = '<a rel="nofollow" class="external text" href="https://e.org/">e</a>'
ADDED = re.compile(
    r' class="weboid-link weboid-working"| weboid-link weboid-working| data-originalurl="[^"]*"'
    r' data-versionurl="[^"]*" data-versiondate="[^"]*"|<sup class="weboid-cached.*?</sup>'
)
PIECES = (
    *("<p>", "</p>", "<b title='<a class=external href=//x.org>'>", "</b>", "<br/>", "<", ">", '"', "'"),
    *("<!-- ", " -->", "<!-->", "<script>", "</script>", "</scripty>", "<style>", "</style>", "&amp;"),
    *("<a>", "</a>", "<a class=external href=https://e.org/>", "<cite>", "</cite>", "</", "<!", "<?"),
    '<a class="external" href="https://e.org/x?a=1&amp;b=%22">',
    "<A HREF='https://e.org/2' rel='mw:ExtLink nofollow' >",
    '<a class="external',
    '<div class="navbox">',
    "</div>",
    '<a class="external" href="javascript:alert(1)">',
    "é\N{RIGHT-TO-LEFT MARK}",
)


def test_every_file_parses() -> None:
    """Syntax check by PHP."""
    files = sorted(EXTENSION.rglob("*.php"))
    assert files
    for file in files:
        done = subprocess.run(["php", "-l", str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_links_of_the_legacy_parser_are_marked(php: PhpFunctions) -> None:
    """Classes are added to the class attribute, attributes at the end of the tag, the cached link after the link."""
    made = php.marked(f"<p>a {LINK} b</p>")
    link = f'<a rel="nofollow" class="external text weboid-link weboid-working" href="https://e.org/"{GIVEN}>e</a>'
    assert made == f"<p>a {link}{AFTER} b</p>"


def test_links_of_parsoid_are_marked(php: PhpFunctions) -> None:
    """They are recognised by rel, in any order of attributes; a missing class attribute is added."""
    html = "<p><a rel='mw:ExtLink nofollow' href='https://e.org/' id=\"mwAg\">e</a></p>"
    link = (
        "<a rel='mw:ExtLink nofollow' href='https://e.org/' id=\"mwAg\""
        f' class="weboid-link weboid-working"{GIVEN}>e</a>'
    )
    assert php.marked(html) == f"<p>{link}{AFTER}</p>"


@pytest.mark.parametrize(
    "html",
    [
        pytest.param('<a class="external" href="https://wiki.example/x">own</a>', id="the wiki's own"),
        pytest.param('<a class="external" href="//WIKI.example:80/x">own</a>', id="own, relative"),
        pytest.param('<a class="extiw external" href="https://e.org/">w</a>', id="interwiki"),
        pytest.param('<a href="https://e.org/">raw</a>', id="no external link"),
        pytest.param('<a class="externality" href="https://e.org/">x</a>', id="another class"),
        pytest.param('<a class="external" href="mailto:a@e.org">m</a>', id="mail"),
        pytest.param('<a class="external" href="ftp://e.org/">f</a>', id="ftp"),
        pytest.param('<a class="external" href="javascript:alert(1)">j</a>', id="script"),
        pytest.param('<a class="external">nothing</a>', id="no address"),
        pytest.param(f'<div class="x noarchive y"><div>a</div>{LINK}</div>', id="noarchive"),
        pytest.param(f"<span class='weboid-ignore'>{LINK}</span>", id="weboid-ignore"),
        pytest.param(f'<table class="navbox"><tr><td>{LINK}</td></tr></table>', id="navbox"),
        pytest.param(f'<div class="navbox">{LINK}', id="never ending"),
        pytest.param('<a class="external" href="https://web.archive.org/web/1/http://e.org/">a</a>', id="archive"),
        pytest.param('<a class="external" href="https://archive.example/1/http://e.org/">a</a>', id="our archive"),
        pytest.param(
            f'<cite>{LINK} <a class="external" href="https://web.archive.org/web/1/http://x.org/">a</a></cite>',
            id="citation with an archive",
        ),
        pytest.param(
            f'<li>{LINK} (<a class="external" href="https://web.archive.org/web/1/https://e.org/">a</a>)</li>',
            id="archive of the same beside",
        ),
        pytest.param(f"<!-- {LINK} -->", id="comment"),
        pytest.param(f"<script>'{LINK}'</script>", id="script element"),
        pytest.param(f"<textarea>{LINK}</textarea>", id="text area"),
        pytest.param(f"<i title='{LINK}'>i</i>", id="attribute"),
        pytest.param(f"<i title='>{LINK}'>i</i>", id="attribute with a bracket"),
        pytest.param(f"<i title = '>{LINK}' class=x>i</i>", id="attribute with spaces"),
        pytest.param('<a class="external" href="https://e.org/">never closed', id="never closed"),
        pytest.param('<a class=external href="https://e.org/">x</a>', id="class without quotes"),
        pytest.param('<a class="external" href="https://e.org/" data-originalurl="x">x</a>', id="done already"),
    ],
)  # fmt: skip
def test_other_links_stay_unchanged(php: PhpFunctions, html: str) -> None:
    """Own links, archive links, ignored elements, and text that is no link."""
    assert php.marked(f"<p>{html}</p>") == f"<p>{html}</p>"


def test_links_after_ignored_elements_are_marked(php: PhpFunctions) -> None:
    """Nested elements of the same name are considered."""
    html = f'<div class="navbox"><div>{LINK}</div>{LINK}</div>{LINK}'
    assert php.marked(html).count("weboid-cached") == 1
    assert php.marked(f"<!-- a -->{LINK}").count("weboid-cached") == 1
    assert php.marked(f'<img class="navbox">{LINK}').count("weboid-cached") == 1


def test_archive_link_in_a_citation_does_not_affect_links_outside(php: PhpFunctions) -> None:
    """They get their own cached links."""
    archive = '<a class="external" href="https://web.archive.org/web/1/http://x.org/">a</a>'
    assert php.marked(f"<cite>{archive}</cite> {LINK}").count("weboid-cached") == 1


def test_marked_links_are_not_marked_again(php: PhpFunctions) -> None:
    """Marking is idempotent."""
    made = php.marked(f"<p>{LINK}</p>")
    assert php.marked(made) == made


@pytest.mark.parametrize(
    ("show", "is_dead", "shown"), [("always", False, 1), ("dead", False, 0), ("dead", True, 1), ("never", True, 0)]
)
def test_setting_selects_links_with_cached_links(php: PhpFunctions, show: str, is_dead: bool, shown: int) -> None:
    """Classes and attributes are added in any case."""
    answer: dict[str, object] = {"kind": "copy", "href": COPY, "copy": COPY, "date": None}
    answer |= {"group": "unreachable", "dead": is_dead, "words": ""}
    made = php.marked(LINK, show=show, answer=answer)
    assert made.count("<sup") == shown
    assert 'class="external text weboid-link weboid-unreachable"' in made
    assert f'data-versionurl="{COPY}"' in made


def test_descriptions_are_escaped(php: PhpFunctions) -> None:
    """Values of the front are text."""
    evil = "</sup><script>alert(1)</script>\"' onmouseover=x"
    answer = {"kind": "copy", "href": f"{COPY}?{evil}", "copy": f"{COPY}?{evil}", "date": None}
    made = php.marked(LINK, answer={**answer, "group": "working", "dead": False, "words": evil})
    assert "<script" not in made
    assert "&quot;&#039; onmouseover" in made


@settings(max_examples=examples(150))
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_no_other_byte_changes(php: PhpFunctions, html: str) -> None:
    """Without the marks the HTML is unchanged, also if it is malformed."""
    assert ADDED.sub("", php.marked(html)) == html


def test_invalid_utf8_stays_unchanged(php: PhpFunctions) -> None:
    """HTML is processed as bytes."""
    made = php.marked(b"\xff\xfe" + LINK.encode() + b"\x80<b \xc3")
    assert made.startswith("\udcff\udcfe<a")
    assert made.endswith("</sup>\udc80<b \udcc3")


@pytest.mark.parametrize(
    "piece",
    [
        *("<", "<a ", "<!--", '<a class="', "<a x='", "<cite>", "<script>", "<div class=navbox>", "<!"),
        *("=", "<a class=external href=", "<a class = ", "</", "<a =\"", '<b x="\'', "<script></scripts"),
        '<a class="external" href="https://e.org/">',
        '<a class="external" href="https://e.org/"></a>',
        '<div class="navbox"><a class="external" href="https://e.org/">x</a></div>',
        '<cite><a class="external" href="https://web.archive.org/1/http://e.org/">x</a>',
    ],
)  # fmt: skip
def test_malformed_tags_take_linear_time(php: PhpFunctions, piece: str) -> None:
    """A megabyte of unclosed tags is scanned at once."""
    html = 'class="external" ' + piece * (1_000_000 // len(piece))
    assert ADDED.sub("", php.marked(html)) == html


@pytest.mark.parametrize(
    "address",
    [
        *("javascript:alert(1)", "data:text/html,x", "//archive.example/c", "/c", ""),
        *("https://archive.example.evil.org/c", "https://archive.example@evil.org/c", "https://evil.org/"),
        *("https://archive.example\\@evil.org/", "https://archive.example/ x", "https://archive.example/\n"),
        *("https://archive.example:444/c", "http://archive.example/c", "https://archive.example"),
    ],
)  # fmt: skip
def test_addresses_must_be_at_an_allowed_origin(php: PhpFunctions, address: str) -> None:
    """Others are dropped."""
    link = {"url": "u", "answer": "copy", "href": address, "copy": address, "date": "2026-11-20T10:11:12Z"}
    result = php.call("parse", body=_answer([link]), urls=["u"], origins=["https://archive.example"])
    assert result["links"]["u"]["href"] is None
    assert result["links"]["u"]["copy"] is None
    assert result["links"]["u"]["date"] is None


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        ("https://web.archive.org/web/2020/https://e.org/", True),
        ("http://sub.web.archive.org/x", True),
        ("https://web.archive.org@evil.org/", False),
        ("https://evil.org/web.archive.org/", False),
        ("https://web.archive.org.evil.org/", False),
        ("https://web.archive.org\\.evil.org/", False),
    ],
)
def test_addresses_may_be_in_known_archives(php: PhpFunctions, address: str, is_one: bool) -> None:
    """The front offers copies in other archives for dead links."""
    link = {"url": "u", "answer": "copy", "href": address}
    result = php.call("parse", body=_answer([link]), urls=["u"], origins=[], archives=["web.archive.org"])
    assert (result["links"]["u"]["href"] == address) == is_one


@pytest.mark.parametrize(
    "body",
    [
        *("", "null", "[]", '"x"', "{}", '{"links": 1}', '{"links": []}', '{"links": [{}, {}]}', "<html>"),
        '{"links": {"a": {}, "b": {}}}{',
        "[" * 100_000,
    ],
    ids=range(11),
)  # fmt: skip
def test_invalid_responses_are_rejected(php: PhpFunctions, body: str) -> None:
    """A response has one link per requested URL."""
    assert php.call("parse", body=body, urls=["u"], origins=["https://archive.example"]) is None


@pytest.mark.parametrize(
    "link",
    [
        *({}, {"url": "v"}, {"url": "u", "answer": "evil"}, {"url": "u", "answer": ["copy"]}),
        *({"url": ["u"], "answer": "copy"}, 7, None, {"url": "u"}),
    ],
    ids=range(8),
)  # fmt: skip
def test_answers_to_other_urls_are_dropped(php: PhpFunctions, link: object) -> None:
    """An answer needs the requested URL and a known kind."""
    result = php.call("parse", body=_answer([link]), urls=["u"], origins=["https://archive.example"])
    assert result["links"] == []


def test_invalid_values_are_replaced_by_defaults(php: PhpFunctions) -> None:
    """For all fields of an answer."""
    link = {
        "url": "u",
        "answer": "copy",
        "href": [1],
        "group": "<b>",
        "is_dead": "yes",
        "words": {"a": 1},
        "is_new": 1,
        "next_at": "soon",
        "checked": ["2026-11-20"],
        "mime": "<b>",
        "kib": -1,
    }
    result = php.call("parse", body=_answer([link], fresh_s="soon"), urls=["u"], origins=["https://archive.example"])  # fmt: skip
    assert result["fresh"] == 60
    assert result["links"]["u"] == {
        "kind": "copy",
        "href": None,
        "copy": None,
        "date": None,
        "group": "unknown",
        "dead": False,
        "words": "",
        "new": False,
        "next": None,
        "checked": None,
        "mime": "",
        "kib": None,
    }


@settings(max_examples=examples(50))
@given(st.lists(st.text("ab", max_size=60), max_size=40), st.lists(st.text("c", max_size=60)))
def test_changes_are_split_by_size(php: PhpFunctions, added: list[str], removed: list[str]) -> None:
    """The parts contain all changes; each is within the limit, or has one link."""
    parts = php.call("split", added=added, removed=removed, max_bytes=200)
    assert [url for part in parts for url in part["added"]] == added
    assert [url for part in parts for url in part["removed"]] == removed
    for part in parts:
        urls = part["added"] + part["removed"]
        assert len(urls) <= 1 or sum(len(url) + 16 for url in urls) <= 216


def test_lookups_are_split_by_number_and_size(php: PhpFunctions) -> None:
    """At most a thousand URLs, fewer if they are long; URLs after the fifth batch are dropped."""
    assert php.call("batches", urls=[f"https://e.org/{n}" for n in range(6_200)]) == [1_000] * 5
    assert php.call("batches", urls=["https://e.org/" + "x" * 90_000] * 3) == [2, 1]
    assert php.call("batches", urls=[]) == []


def test_signature_matches_the_webhooks(php: PhpFunctions) -> None:
    """HMAC-SHA256 of version, time, nonce, method, path and digest of the body."""
    more = {"body": '{"a": 1}', "path": "/level", "nonce": "0a" * 16}
    result = php.call("sign", secret="k" * 32, now=1_795_298_655, **more)
    made = sign_request(b"k" * 32, more["body"].encode(), at=1_795_298_655, nonce=more["nonce"], path="/level")
    assert result == made


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://E.org./x", "e.org"),
        ("//e.org:80?x", "e.org"),
        ("https://user:pass@e.org/", "e.org"),
        ("https://a@b@e.org/", "e.org"),
        ("https://evil.org\\@e.org/", "evil.org"),
        ("http://[2001:db8::1]:8080/", "[2001:db8::1]"),
        ("http://münchen.example/", "münchen.example"),
        ("mailto:a@e.org", ""),
        ("https://", ""),
    ],
)
def test_host_is_parsed_as_by_browsers(php: PhpFunctions, url: str, host: str) -> None:
    """In lower case."""
    assert php.call("host", url=url) == host


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://e.org:443/", "e.org"),
        ("https://e.org:80/", "e.org:80"),
        ("http://e.org:80?x", "e.org"),
        ("http://e.org:08080#x", "e.org:8080"),
        ("//e.org:443/", "e.org"),
        ("http://user:80@e.org/", "e.org"),
        ("http://[2001:db8::1]:8080/", "[2001:db8::1]:8080"),
        ("http://[2001:db8::1]/:81", "[2001:db8::1]"),
        ("http://e.org/x:81", "e.org"),
        ("ftp://e.org/", ""),
    ],
)
def test_authority_omits_the_default_port(php: PhpFunctions, url: str, place: str) -> None:
    """Other ports are kept."""
    assert php.call("authority", url=url) == place


def test_another_port_of_the_wikis_host_is_another_site(php: PhpFunctions) -> None:
    """Its links are marked; so are those of other ports of the front's host."""
    html = '<a class="external" href="https://{}/">x</a>'
    assert php.urls(html.format("wiki.example:8443")) == ["https://wiki.example:8443/"]
    assert php.urls(html.format("archive.example:8443")) == ["https://archive.example:8443/"]


def _answer(links: list[object], **more: object) -> str:
    return json.dumps({"wiki": "w", "fresh_s": 60, "links": links, **more})


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        (" 5 ", 5),
        ("Sun, 22 Nov 2026 07:01:30 GMT", 90),
        ("Sun, 22 Nov 2026 06:01:30 GMT", 0),
        ("999999999999", 3_600),
        ("9" * 40, 0),
        ("-5", 0),
        ("1e3", 0),
        ("", 0),
        ("now", 0),
        ("tomorrow", 0),
        ("Sometime or other", 0),
    ],
)
def test_retry_after_is_parsed_and_limited(php: PhpFunctions, header: str, seconds: int) -> None:
    """Seconds or a date; 0 if invalid, at most an hour."""
    assert php.call("retry_after", header=header, now=1_795_330_800) == seconds
