"""Classes of a page's URLs, and the order in which they are decided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from links.rules.exclusion_list import EntryForm, ExclusionList, parse_entry
from links.rules.link_class import NO_RULES, LinkClass, LinkWarning, OwnHosts, WikiRules, classify_link, server_name
from links.rules.spam_list import SpamList, SpamListKind, SpamLists

FAR = "http://far-away.org"

TABLE = [
    # What research and W48 name, with its verdict.
    ("http:///example.org", LinkClass.INVALID, "no-host"),
    ("http://http://far.org/", LinkClass.INVALID, "doubled-scheme"),
    ("http://docs/about.htm", LinkClass.INVALID, "single-label"),
    ("http://a document title http://far.org/", LinkClass.INVALID, "unparsable"),
    ("http://far.com:8o8o/foo/bar", LinkClass.INVALID, "port"),
    ("http://far.c/forget/it", LinkClass.INVALID, "tld"),
    ("http://far.org:99999/", LinkClass.INVALID, "port"),
    ("http://.far.org/foo", LinkClass.INVALID, "label"),
    ("http://far..org/", LinkClass.INVALID, "label"),
    ("http://-far.org/", LinkClass.INVALID, "label"),
    ("http://far-.org/", LinkClass.INVALID, "label"),
    ("http://1.2.3.256/", LinkClass.INVALID, "unparsable"),
    ("http://1.2.3.4.5/", LinkClass.INVALID, "unparsable"),
    ("http://[2001:db8::zz]/", LinkClass.INVALID, "unparsable"),
    ("http://[::1", LinkClass.INVALID, "unparsable"),
    ("http://fa r.org/", LinkClass.INVALID, "unparsable"),
    ("http://" + "a" * 64 + ".org/", LinkClass.INVALID, "label"),
    ("http://" + "a." * 130 + "org/", LinkClass.INVALID, "label"),
    ("http://fa\u200br.org/", LinkClass.INVALID, "invisible"),
    ("http://fa\u00adr.org/", LinkClass.INVALID, "invisible"),
    ("http://far.org/\u202egpj.exe", LinkClass.INVALID, "invisible"),
    ("http://far.org/a\nb", LinkClass.INVALID, "invisible"),
    ("http://far.org/\x00", LinkClass.INVALID, "invisible"),
    ("http://far.org/\ud800", LinkClass.INVALID, "invisible"),
    ("http://fa%E2%80%8Br.org/", LinkClass.INVALID, "invisible"),
    ("", LinkClass.INVALID, "empty"),
    ("/wiki/Page", LinkClass.INVALID, "no-host"),
    ("http://" + "a" * 70_000, LinkClass.INVALID, "too-long"),
    # What no public server can be: however it is written, it is never asked for.
    ("http://127.0.0.1/", LinkClass.INVALID, "private-address"),
    ("http://127.1/", LinkClass.INVALID, "private-address"),
    ("http://0x7f.1/", LinkClass.INVALID, "private-address"),
    ("http://0177.0.0.1/", LinkClass.INVALID, "private-address"),
    ("http://2130706433/", LinkClass.INVALID, "private-address"),
    ("http://0x7f000001/", LinkClass.INVALID, "private-address"),
    ("http://127。0。0。1/", LinkClass.INVALID, "private-address"),
    ("http://①②⑦.⓪.⓪.①/", LinkClass.INVALID, "private-address"),
    ("http://[::1]/", LinkClass.INVALID, "private-address"),
    ("http://[::]/", LinkClass.INVALID, "private-address"),
    ("http://[::ffff:127.0.0.1]/", LinkClass.INVALID, "private-address"),
    ("http://[::ffff:7f00:1]/", LinkClass.INVALID, "private-address"),
    ("http://[64:ff9b::7f00:1]/", LinkClass.INVALID, "private-address"),
    ("http://[2002:7f00:1::]/", LinkClass.INVALID, "private-address"),
    ("http://[fe80::1]/", LinkClass.INVALID, "private-address"),
    ("http://10.0.0.1/", LinkClass.INVALID, "private-address"),
    ("http://169.254.169.254/latest/meta-data/", LinkClass.INVALID, "private-address"),
    ("http://0.0.0.0/", LinkClass.INVALID, "private-address"),
    ("http://192.0.0002.0/foo", LinkClass.INVALID, "private-address"),
    ("http://router.local/", LinkClass.INVALID, "private-name"),
    ("http://metadata.google.internal/", LinkClass.INVALID, "private-name"),
    ("http://nas.home.arpa/", LinkClass.INVALID, "private-name"),
    ("http://duckduckgogg42xjoc72x3sjasowoarfbgcmvfimaftt6twagswzczad.onion/", LinkClass.INVALID, "onion"),
    # What no server answers (W44).
    ("mailto:wiki@wikimedia.org", LinkClass.PASSED_OVER, "scheme"),
    ("tel:+123", LinkClass.PASSED_OVER, "scheme"),
    ("javascript:alert(1)", LinkClass.PASSED_OVER, "scheme"),
    ("ftp://far.org/x", LinkClass.NOT_CHECKED, "ftp"),
    ("FTPS://far.org/x", LinkClass.NOT_CHECKED, "ftp"),
    ("ftp:far", LinkClass.PASSED_OVER, "scheme"),
    ("urn:isbn:1", LinkClass.PASSED_OVER, "scheme"),
    ("someone@far.org", LinkClass.PASSED_OVER, "scheme"),
    # What is kept free for examples (W45).
    ("http://example.com/", LinkClass.EXAMPLE, ""),
    ("http://www.EXAMPLE.org./x", LinkClass.EXAMPLE, ""),
    ("https://a.b.example.net:8443/", LinkClass.EXAMPLE, ""),
    ("http://wiki.example/", LinkClass.EXAMPLE, ""),
    ("http://cdn.test/x", LinkClass.EXAMPLE, ""),
    ("http://no.invalid/", LinkClass.EXAMPLE, ""),
    ("http://localhost:8080/", LinkClass.EXAMPLE, ""),
    ("http://app.localhost/", LinkClass.EXAMPLE, ""),
    # What is mended, or only looks wrong.
    ("http://3sat.de/", LinkClass.WATCHED, ""),
    ("http://www.1und1.de/", LinkClass.WATCHED, ""),
    ("http://example.co.uk/", LinkClass.WATCHED, ""),
    ("http://notexample.com/", LinkClass.WATCHED, ""),
    ("http://my_host.far.org/", LinkClass.WATCHED, ""),
    ("//far.org/x", LinkClass.WATCHED, ""),
    ("https:/far.org/x", LinkClass.WATCHED, ""),
    ("far.org/x", LinkClass.WATCHED, ""),
    ("http%3A//far%2Eorg/x%2Ehtml", LinkClass.WATCHED, ""),
    ("://www.far.org/", LinkClass.WATCHED, ""),
    ("http://far.org\\a\\b", LinkClass.WATCHED, ""),
    ("http://8.8.8.8/", LinkClass.WATCHED, ""),
    ("http://[2606:4700::1111]/", LinkClass.WATCHED, ""),
]


@pytest.mark.parametrize(("text", "sort", "note"), TABLE, ids=[ascii(row[0])[1:40] for row in TABLE])
def test_each_url_has_its_sort(text: str, sort: LinkClass, note: str) -> None:
    """And why: what is broken is named by its fault, and nothing else is taken for broken."""
    link = classify_link(text)

    assert (link.sort, link.note) == (sort, note)
    assert (link.identity == "") is (sort in (LinkClass.INVALID, LinkClass.PASSED_OVER, LinkClass.NOT_CHECKED))


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("HTTP://Far.ORG", "http://far.org/"),
        ("http://far.org:80/", "http://far.org/"),
        ("http://far.org./a?", "http://far.org/a"),
        ("http://кц.рф/ru/", "http://xn--j1ay.xn--p1ai/ru/"),
        ("http://faß.de/", "http://xn--fa-hia.de/"),
        ("http://far.org/%7Euser/%c3%a9/é", "http://far.org/~user/%C3%A9/%C3%A9"),
        ("http://far.org/a%2Fb?x=%26#part", "http://far.org/a%2Fb?x=%26"),
        ("http://far.org/a/../b/./c", "http://far.org/b/c"),
        ("http://far.org/?ort=Falk%F6ping", "http://far.org/?ort=Falk%F6ping"),
        ("http://far.org/?id=x;view=1up;seq=1", "http://far.org/?id=x;view=1up;seq=1"),
        ("http://far.org/#!/spa/1", "http://far.org/#!/spa/1"),
        ("http://far.org/a b|c", "http://far.org/a%20b%7Cc"),
    ],
)
def test_the_normal_form(text: str, identity: str) -> None:
    """Host in lower case and punycode, a path of `/` at least, one spelling of escapes (W51)."""
    assert classify_link(text).identity == identity
    assert classify_link(identity).identity == identity


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (f"{FAR}/%E2%80%AEgpj.exe", (LinkWarning.BIDI,)),
        (f"{FAR}/?q=%e2%81%a6x", (LinkWarning.BIDI,)),
        (f"{FAR}/a%E2%80%8Bb", (LinkWarning.HIDDEN,)),
        (f"{FAR}/a%00b", (LinkWarning.HIDDEN,)),
        (f"{FAR}/?next=%0d%0aSet-Cookie:x", (LinkWarning.HIDDEN,)),
        (f"{FAR}/%E4%BD%A0%20%2F", ()),
        (f"{FAR}/" + "x" * 8_200, (LinkWarning.LONG,)),
        ("http://user:pw@far-away.org/", (LinkWarning.CREDENTIALS,)),
        ("http://wikipedia.org@far-away.org/", (LinkWarning.CREDENTIALS,)),
        (f"{FAR}/a@b//c@d", ()),
        ("http://p\u0430ypal.com/", (LinkWarning.MIXED,)),  # a Cyrillic one
        ("http://xn--pypal-4ve.com/", (LinkWarning.MIXED,)),
        ("http://\u0440\u0430\u0443\u0440\u0430l.com/", (LinkWarning.MIXED,)),  # all but the last
        ("http://münchen.de/", ()),
        ("http://кц.рф/", ()),
        ("http://日本語テスト.jp/", ()),
        ("http://スーパー.jp/", ()),
        ("http://佐々木.jp/", ()),
        ("http://한국어.kr/", ()),
        ("http://ελληνικά.gr/", ()),
    ],
    ids=ascii,
)
def test_what_is_odd_is_watched_with_a_warning(text: str, warnings: tuple[LinkWarning, ...]) -> None:
    """Escaped marks of direction, hidden characters, look-alike letters (W50): told, not refused."""
    link = classify_link(text)

    assert (link.sort, link.warnings) == (LinkClass.WATCHED, warnings)


def rules_of(*, is_private: bool = False) -> WikiRules:
    """Return rules of farm far.org with a wiki on w.near.org, and lists that name everything on bad.org."""
    return WikiRules(
        own=OwnHosts(r"(?:^|\.)far\.org$", ["//w.near.org"]),
        spam=SpamLists([SpamList("list", SpamListKind.BLACKLIST, "bad\\.org\n")]),
        exclusions=ExclusionList([parse_entry("org", EntryForm.DOMAIN)]),
        is_private=is_private,
    )


@pytest.mark.parametrize(
    ("text", "sort", "note"),
    [
        ("mailto:a@bad.org", LinkClass.PASSED_OVER, "scheme"),
        ("http://bad.org:x/", LinkClass.INVALID, "port"),
        ("http://example.org/?bad.org", LinkClass.EXAMPLE, ""),
        ("http://a.far.org/", LinkClass.INTERNAL, ""),
        ("http://notfar.org/", LinkClass.EXCLUDED, "entry org"),
        ("https://w.near.org/wiki/X", LinkClass.INTERNAL, ""),
        ("http://x.w.near.org/", LinkClass.EXCLUDED, "entry org"),
        ("http://very.bad.org/", LinkClass.SPAM, "wiki: list, line 1"),
        ("http://good.org/", LinkClass.EXCLUDED, "entry org"),
        ("http://good.com/", LinkClass.WATCHED, ""),
    ],
)
def test_the_order_of_sorting(text: str, sort: LinkClass, note: str) -> None:
    """Scheme, syntax, examples, the farm's own, spam, exclusions (W50): the first decides."""
    link = classify_link(text, rules_of())

    assert (link.sort, link.note) == (sort, note)
    assert (link.hit is not None) is (sort is LinkClass.SPAM)
    assert bool(link.entry) is (sort is LinkClass.EXCLUDED)


def test_a_private_wiki_watches_what_is_not_public() -> None:
    """Its readers sit beside these servers; whether they may be asked is the checker's to say."""
    private = rules_of(is_private=True)

    for url in ("http://10.0.0.1/", "http://intranet/", "http://nas.local/"):
        assert classify_link(url, private).sort is LinkClass.WATCHED
        assert classify_link(url).sort is LinkClass.INVALID


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("//wiki.far.org", "wiki.far.org"),
        ("https://Wiki.far.org:8080/w/api.php", "wiki.far.org"),
        ("wiki.far.org", "wiki.far.org"),
        ("http://[::1]:8080", "[::1]"),
        ("", ""),
        ("https://$1/", ""),
    ],
)
def test_servers_are_told_by_any_address_of_them(text: str, name: str) -> None:
    """As `$wgServer`, the address of the API, or the bare name."""
    assert server_name(text) == name


@given(st.text(max_size=200) | st.text(st.sampled_from("http:/.[]@%0x7f1é\u202e "), max_size=40))
def test_any_text_is_sorted(text: str) -> None:
    """Nothing is raised, and what has an identity is sorted alike by it."""
    link = classify_link(text, NO_RULES)

    if link.identity:
        again = classify_link(link.identity)
        assert (again.sort, again.identity) == (link.sort, link.identity)
