"""The fetch key and the identity key."""

import re
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.errors import BadUrlError
from core.url_keys import replay_key
from core.urls import (
    MAX_URL_LENGTH,
    UrlFault,
    authority_of,
    fetch_key,
    host_of,
    host_or_empty,
    identity_and_host,
    identity_key,
    repair,
)

WHATWG = [  # what people type, the WHATWG serialisation, the replay key of that
    ("HTTP://www.Example.org:80/", "http://www.example.org/", "org,example)/"),
    ("http://example.org./a", "http://example.org./a", "org,example)/a"),
    ("http://example.org/a?b=2&a=1", "http://example.org/a?b=2&a=1", "org,example)/a?a=1&b=2"),
    ("http://example.org/%7Euser/%c3%a9", "http://example.org/%7Euser/%c3%a9", "org,example)/~user/%c3%a9"),
    ("http://m%C3%BCnchen.de/stra%C3%9Fe", "http://xn--mnchen-3ya.de/stra%C3%9Fe", "de,xn--mnchen-3ya)/stra%c3%9fe"),
    ("http://münchen.de/straße", "http://xn--mnchen-3ya.de/stra%C3%9Fe", "de,xn--mnchen-3ya)/stra%c3%9fe"),
    ("http://faß.de/", "http://xn--fa-hia.de/", "de,xn--fa-hia)/"),
    ("http://example.org/a/../b/./c", "http://example.org/b/c", "org,example)/b/c"),
    ("http://example.org//x//y", "http://example.org//x//y", "org,example)/x/y"),
    ("http://example.org/a/", "http://example.org/a/", "org,example)/a"),
    ("http://example.org/a", "http://example.org/a", "org,example)/a"),
    ("http://example.org/A?B=C", "http://example.org/A?B=C", "org,example)/a?b=c"),
    ("http://example.org/?", "http://example.org/?", "org,example)/"),
    ("http://example.org/#!/spa/1", "http://example.org/#!/spa/1", "org,example)/"),
    ("http://example.org/#top", "http://example.org/", "org,example)/"),
    ("http://example.org/a%2Fb", "http://example.org/a%2Fb", "org,example)/a/b"),
    ("http://example.org/a%252520b", "http://example.org/a%252520b", "org,example)/a%20b"),
    (
        "http://example.org/?PHPSESSID=0123456789abcdef0123456789abcdef&x=1",
        "http://example.org/?PHPSESSID=0123456789abcdef0123456789abcdef&x=1",
        "org,example)/?x=1",
    ),
    ("http://192.0.0002.0/foo", "http://192.0.2.0/foo", "0,2,0,192)/foo"),
    ("http://0x7f.1/", "http://127.0.0.1/", "1,0,0,127)/"),
    ("http://[2001:DB8::1]/foo", "http://[2001:db8::1]/foo", "2001:db8::1)/foo"),
    ("//cdn.test/x", "https://cdn.test/x", "test,cdn)/x"),
    ("http://example.org\\a\\b", "http://example.org/a/b", "org,example)/a/b"),
    ("http://3sat.de/", "http://3sat.de/", "de,3sat)/"),
    ("http://www.1und1.de/", "http://www.1und1.de/", "de,1und1)/"),
    ("http://name:pass@www.test.com:12345/d/f.php#x?y", "http://www.test.com:12345/d/f.php", None),
    ("http://example.org:/", "http://example.org/", "org,example)/"),
    ("https://my_site.blogspot.com/", "https://my_site.blogspot.com/", "com,blogspot,my_site)/"),
    ("http://ex.test/a(b)", "http://ex.test/a(b)", "test,ex)/a(b)"),
    ("http://google.com?q=blah", "http://google.com/?q=blah", None),
    ("//google.com?q=blah", "https://google.com/?q=blah", None),
    ("zh.wikipedia.org/wiki/猫", "http://zh.wikipedia.org/wiki/%E7%8C%AB", None),
    ("https:/zh.wikipedia.org/wiki/猫", "https://zh.wikipedia.org/wiki/%E7%8C%AB", None),
    ("http%3A//www%2Eatimes%2Ecom/atimes/FH13Ak05%2Ehtml", "http://www.atimes.com/atimes/FH13Ak05.html", None),
    ("https%3A%2F%2Fexample.org%2Fa%2520b", "https://example.org/a%20b", None),
    ("http:%2F%2Fexample.org/a", "http://example.org/a", None),
    ("http%3A//example.org/Falk%F6ping", "http://example.org/Falk%F6ping", None),
    ("http://example.org/?ort=Falk%F6ping", "http://example.org/?ort=Falk%F6ping", None),
    (
        "http://example.com/blue+light%20blue?blue%2Blight+blue%23foobar#foobar",
        "http://example.com/blue+light%20blue?blue%2Blight+blue%23foobar",
        None,
    ),
    ("http://example.org/?a+%2526+b", "http://example.org/?a+%2526+b", None),
    ("http://кц.рф/ru/", "http://xn--j1ay.xn--p1ai/ru/", None),
    ("://www.musicvf.com/", "http://www.musicvf.com/", None),
    ("http://example.org/?id=x;view=1up;seq=1", "http://example.org/?id=x;view=1up;seq=1", None),
    ("www.example.org/a", "http://www.example.org/a", None),
    ("example.org:8080/x", "http://example.org:8080/x", None),
    ("192.0.2.7/x", "http://192.0.2.7/x", None),
    ("  http://example.org/a \n", "http://example.org/a", None),
    ("http://example.org/❤️", "http://example.org/%E2%9D%A4%EF%B8%8F", None),
]

REFUSED = [
    ("", UrlFault.EMPTY),
    (" \t ", UrlFault.EMPTY),
    ("http:///example.org", UrlFault.NO_HOST),
    ("http:///x", UrlFault.NO_HOST),
    ("http://", UrlFault.NO_HOST),
    ("http:", UrlFault.NO_HOST),
    ("http://user@/x", UrlFault.NO_HOST),
    ("/wiki/Page", UrlFault.NO_HOST),
    ("3.14", UrlFault.NO_HOST),
    ("2026", UrlFault.NO_HOST),
    ("http://http://example.org/", UrlFault.DOUBLED_SCHEME),
    ("http://https//example.org/", UrlFault.DOUBLED_SCHEME),
    ("http://docs/about.htm", UrlFault.SINGLE_LABEL),
    ("http://localhost/", UrlFault.SINGLE_LABEL),
    ("localhost:8080/x", UrlFault.SINGLE_LABEL),
    ("example", UrlFault.SINGLE_LABEL),
    ("[http://a document title http://example.org/]", UrlFault.UNPARSABLE),
    ("http://a document title http://example.org/", UrlFault.UNPARSABLE),
    ("http://example.com:8o8o/foo/bar", UrlFault.PORT),
    ("http://example.org:99999/", UrlFault.PORT),
    ("http://example.org:-1/", UrlFault.PORT),
    ("http://example.c/forget/it", UrlFault.TLD),
    ("http://1.2.3.256/", UrlFault.UNPARSABLE),
    ("http://1.2.3.4.5/", UrlFault.UNPARSABLE),
    ("http://.example.com/foo", UrlFault.LABEL),
    ("http://example..com/", UrlFault.LABEL),
    ("http://-example.com/", UrlFault.LABEL),
    ("http://example-.com/", UrlFault.LABEL),
    ("http://_dmarc.example.com/", UrlFault.LABEL),
    ("http://*.example.com/", UrlFault.LABEL),
    (f"http://{'a' * 64}.org/", UrlFault.LABEL),
    (f"http://{'a.' * 130}org/", UrlFault.LABEL),
    ("http://ex\u200bample.org/", UrlFault.INVISIBLE),
    ("http://ex%E2%80%8Bample.org/", UrlFault.INVISIBLE),
    ("http%3A//ex%E2%80%8Bample.org/", UrlFault.INVISIBLE),
    ("http://ex\xadample.org/", UrlFault.INVISIBLE),
    ("http://example.org/\u202egpj.exe", UrlFault.INVISIBLE),
    ("http://example.org/a\nb", UrlFault.INVISIBLE),
    ("http://example.org/\x00", UrlFault.INVISIBLE),
    ("http://example.org/\x85a", UrlFault.INVISIBLE),
    ("http://example.org/\ud800", UrlFault.INVISIBLE),
    ("\ufeffhttp://example.org/", UrlFault.INVISIBLE),
    ("mailto:wiki@wikimedia.org", UrlFault.SCHEME),
    ("wiki@wikimedia.org", UrlFault.SCHEME),
    ("ftp://example.org/", UrlFault.SCHEME),
    ("javascript:alert(1)", UrlFault.SCHEME),
    ("data:text/html,x", UrlFault.SCHEME),
    ("urn:view:http://example.org/", UrlFault.SCHEME),
    ("file:///etc/passwd", UrlFault.SCHEME),
    (f"http://example.org/{'a' * MAX_URL_LENGTH}", UrlFault.TOO_LONG),
]

TRIVIA = [  # two spellings of one URL
    ("http://example.org./a", "http://example.org/a"),
    ("http://example.org/a?", "http://example.org/a"),
    ("http://example.org/%c3%a9", "http://example.org/%C3%A9"),
    ("http://example.org/%7Euser", "http://example.org/~user"),
    ("http://a.test/stra%C3%9Fe", "http://a.test/straße"),
    ("http://a.test/a%28b%29", "http://a.test/a(b)"),
    ("http://a.test/a|b[1]", "http://a.test/a%7Cb%5B1%5D"),
    ("http://a.test/?u=http%3A%2F%2Fb.test%2F", "http://a.test/?u=http://b.test/"),
    ("http://a.test:80/", "http://a.test/"),
    ("http://a:b@a.test/#top", "http://a.test/"),
]

DISTINCT = [
    ("http://example.org/", "https://example.org/"),
    ("http://example.org/", "http://www.example.org/"),
    ("http://example.org/a", "http://example.org/a/"),
    ("http://example.org/a", "http://example.org/A"),
    ("http://example.org/a%2Fb", "http://example.org/a/b"),
    ("http://example.org/a%3Fb", "http://example.org/a?b"),
    ("http://example.org/a%2520b", "http://example.org/a%20b"),
    ("http://example.org//x", "http://example.org/x"),
    ("http://example.org/?a=1&b=2", "http://example.org/?b=2&a=1"),
    ("http://example.org/?a%26b", "http://example.org/?a&b"),
    ("http://example.org/?a%2Bb", "http://example.org/?a+b"),
    ("http://example.org/?a+b", "http://example.org/?a%20b"),
    ("http://example.org/#!/1", "http://example.org/#!/2"),
    ("http://example.org/#!/1", "http://example.org/"),
    ("http://example.org:8080/", "http://example.org/"),
    ("http://example.org/%%341", "http://example.org/%41"),
]

# Pieces that make parsers disagree, joined at random.
PIECES = st.sampled_from(
    [
        "a",
        "A",
        "b",
        ".",
        "..",
        "/",
        "//",
        "/../",
        "?",
        "&",
        "=",
        "#",
        "#!",
        "%",
        "%2",
        "%25",
        "%2525",
        "%41",
        "%2e",
        "%2F",
        "%c3%BC",
        "%FF",
        "~",
        "%7E",
        "(",
        "%28",
        "|",
        "[",
        ";",
        ":",
        "+",
        "@",
        "é",
        "'",
        "%27",
        "1",
        "0x7f",
        "08",
        "1.2.3.4",
        "example.org",
        "www.",
        "ex.test",
        "sid=",
        "\\",
        "%5C",
        "xn--mnchen-3ya",
    ]
)
TAILS = st.lists(PIECES, max_size=12).map("".join)
HOSTS = st.sampled_from(["example.org", "www.Example.org.", "a.test:8080", "192.0.2.1", "[::1]", "münchen.de"])
URLS = st.builds(
    lambda scheme, host, tail: f"{scheme}://{host}/{tail}", st.sampled_from(["http", "https"]), HOSTS, TAILS
)
ANYTHING = st.one_of(st.text(), TAILS, URLS, st.builds("http://{}".format, st.text()))


def _delimited(url: str) -> tuple[object, ...]:
    """Parse a URL independently; return everything between its delimiters, decoded."""
    match = re.fullmatch(r"(https?)://([^/]*)(/[^?#]*)(\?[^#]*)?(#.*)?", fetch_key(url))
    assert match is not None
    scheme, authority, path, query, fragment = match.groups()
    host, colon, port = authority.partition(":") if authority[0] != "[" else (authority, "", "")
    return (
        scheme,
        (host.removesuffix("."), colon, port),
        [unquote_to_bytes(segment) for segment in path.split("/")],
        # "+" and ";" delimit too, so what they separate is compared piece by piece.
        [unquote_to_bytes(piece) for piece in re.split(r"([&=+;])", (query or "?")[1:])],
        fragment or "",
    )


@pytest.mark.parametrize(("text", "expected", "_key"), WHATWG)
def test_the_fetch_key_is_the_whatwg_serialisation_of_the_repaired_text(
    text: str, expected: str, _key: str | None
) -> None:
    """W51: what a browser would ask for."""
    assert fetch_key(text) == expected


@pytest.mark.parametrize(("text", "_expected", "key"), [row for row in WHATWG if row[2]])
def test_the_replay_key_of_a_fetch_key_is_its_surt(text: str, _expected: str, key: str) -> None:
    """The SURT of the URL as a browser asks for it."""
    assert replay_key(fetch_key(text)) == key


@pytest.mark.parametrize(("text", "fault"), REFUSED)
def test_what_nobody_can_fetch_is_refused_with_its_reason(text: str, fault: UrlFault) -> None:
    """W48: an invalid authority is named, not guessed at."""
    with pytest.raises(BadUrlError) as caught:
        fetch_key(text)

    assert caught.value.reason == fault.value


@pytest.mark.parametrize("host", ["localhost", "intranet", "localhost:8080"])
def test_single_labels_are_accepted_when_allowed(host: str) -> None:
    """An intranet's hosts have no dot."""
    assert fetch_key(f"http://{host}/x", allow_single_label=True) == f"http://{host}/x"


def test_a_doubled_scheme_is_refused_even_where_single_labels_are_allowed() -> None:
    """`http` is a label, but never the host that was meant."""
    with pytest.raises(BadUrlError, match="two schemes"):
        fetch_key("http://http://localhost/", allow_single_label=True)


def test_a_message_shows_a_hostile_url_shortened_and_escaped() -> None:
    """A terminal must not be driven by a URL."""
    with pytest.raises(BadUrlError) as caught:
        fetch_key("http://\x1b[2Jexample.org/" + "a" * 1000)

    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 400


@given(ANYTHING)
def test_the_fetch_key_of_a_fetch_key_is_itself(text: str) -> None:
    """Normalising twice changes nothing."""
    try:
        key = fetch_key(text, allow_single_label=True)
    except BadUrlError:
        return

    assert fetch_key(key, allow_single_label=True) == key


@given(ANYTHING)
def test_any_text_is_either_a_url_or_a_bad_url(text: str) -> None:
    """No other error leaves: hostile text never crashes a crawl."""
    reason = None
    key = "http://example.org/"
    try:
        key = fetch_key(text, allow_single_label=True)
    except BadUrlError as error:
        reason = error.reason

    assert reason is None or reason in set(UrlFault)
    assert key.isascii()
    assert "@" not in re.split(r"[/?#]", key)[2]
    for derived in (identity_key, replay_key, host_of, authority_of, repair):
        assert derived(key)


@pytest.mark.parametrize(("one", "other"), TRIVIA)
def test_the_identity_key_ignores_trivial_spelling(one: str, other: str) -> None:
    """Two spellings of a link, in a wiki's table of links and in its pages, are one link."""
    assert identity_key(one) == identity_key(other)


@pytest.mark.parametrize(("one", "other"), DISTINCT)
def test_the_identity_key_keeps_distinct_pages_apart(one: str, other: str) -> None:
    """Unlike the replay key it never merges what a server may tell apart."""
    assert identity_key(one) != identity_key(other)


@given(URLS, URLS)
def test_equal_identity_means_equal_meaning(one: str, other: str) -> None:
    """Nothing is merged beyond the documented trivia."""
    if identity_key(one) == identity_key(other):
        assert _delimited(one) == _delimited(other)


@given(URLS, st.data())
def test_respelling_escapes_merges_nothing_else(url: str, data: st.DataObject) -> None:
    """The same rule, tried on near neighbours: one character of the URL respelled."""
    key = fetch_key(url)
    start = key.index("/", 8) + 1
    assume(len(key) > start)
    place = data.draw(st.integers(start, len(key) - 1))
    other = f"{key[:place]}%{ord(key[place]):02x}{key[place + 1 :]}"

    if identity_key(other) == identity_key(key):
        assert _delimited(other) == _delimited(key)


@given(URLS)
def test_the_identity_key_of_an_identity_key_is_itself(url: str) -> None:
    """It may be computed from a key as well as from a URL."""
    key = identity_key(fetch_key(url))

    assert identity_key(key) == key


@given(URLS)
def test_a_fetch_key_and_its_identity_key_are_one_url(url: str) -> None:
    """A repaired text and its key never drift apart."""
    assert identity_key(url) == identity_key(fetch_key(url))


@given(URLS)
def test_identity_and_host_are_those_of_one_parse_each(url: str) -> None:
    """The short cut of the frontier changes nothing."""
    assert identity_and_host(url) == (identity_key(url), host_of(url))
    trivial = f"{url}#top"
    assert identity_and_host(trivial) == (identity_key(trivial), host_of(trivial))


@pytest.mark.parametrize(
    "url", ["", "data:,x", "blob:https://a.example/1", "ftp://a.example/", "http://[::1", "\ud800"]
)
def test_what_is_no_web_url_has_an_empty_host(url: str) -> None:
    assert host_or_empty(url) == ""
    assert host_or_empty("https://User@A.example.:8443/x") == "a.example"


@pytest.mark.parametrize(
    ("url", "host", "authority"),
    [
        ("https://www.Example.org/", "www.example.org", "www.example.org"),
        ("https://example.org.:443/", "example.org", "example.org"),
        ("https://MÜNCHEN.de:8080/x", "xn--mnchen-3ya.de", "xn--mnchen-3ya.de:8080"),
        ("http://[::1]:80/", "[::1]", "[::1]"),
        ("http://u:p@127.0.0.1:8000/", "127.0.0.1", "127.0.0.1:8000"),
    ],
)
def test_host_and_authority_name_the_server(url: str, host: str, authority: str) -> None:
    """One spelling of a host, so that its slot in the frontier is one."""
    assert host_of(url) == host
    assert authority_of(url) == authority


@pytest.mark.parametrize("function", [identity_key, host_of, authority_of])
@pytest.mark.parametrize("text", ["", "no url", "urn:view:http://example.org/", "\ud800"])
def test_keys_of_what_is_no_web_url_are_refused(function: object, text: str) -> None:
    """They take URLs, and say so."""
    assert callable(function)
    with pytest.raises(BadUrlError):
        function(text)
