"""One spelling for each host, patterns of hosts, and the ways out that a profile names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import BadUrlError, ConfigError
from core.hosts import (
    BAD_PORTS,
    HostPatterns,
    UpstreamProxy,
    UpstreamProxyScheme,
    canonical_host,
    parse_endpoint,
    parse_upstream_proxy,
    registrable,
)


@pytest.mark.parametrize(
    ("spelled", "host"),
    [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("127.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7F.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("\uff11\uff12\uff17.0.0.1", "127.0.0.1"),
        ("①②⑦.0.0.1", "127.0.0.1"),
        ("127。0。0。1", "127.0.0.1"),
        ("%31%32%37.0.0.1", "127.0.0.1"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("::1", "[::1]"),
        ("[::FFFF:127.0.0.1]", "[::ffff:7f00:1]"),
        ("a_b.example.org", "a_b.example.org"),
    ],
)
def test_a_host_has_one_spelling(spelled: str, host: str) -> None:
    """As browsers read it: every form of number, full width, circled and escaped digits."""
    assert canonical_host(spelled) == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a..b",
        "example.org..",
        "a/b",
        "a@b",
        "a?b",
        "a#b",
        "a\\b",
        "a b",
        "a\tb",
        "a\x00b",
        "example.org:80",
        "256.0.0.1",
        "1.2.3.4.5",
        "09.0.0.1",
        "0x7f.1.1.1.1",
        "[fe80::1%25eth0]",
        "[fe80::1%eth0]",
        "[::1",
        "[::g]",
        "x" * 64 + ".example",
        ".".join(["label"] * 50),
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    """Nothing that another parser could read as another host."""
    with pytest.raises(BadUrlError):
        canonical_host(text)


@given(st.text(max_size=40))
def test_a_canonical_host_is_its_own_canonical_host(text: str) -> None:
    """Any text either has a spelling that stays, or is not a host."""
    try:
        host = canonical_host(text)
    except BadUrlError:
        return

    assert canonical_host(host) == host


def test_the_most_specific_pattern_decides() -> None:
    """An exact host, then the longest domain, then the star, in whatever order they are written."""
    patterns = HostPatterns({"*": 1, "*.example.org": 2, "*.deep.example.org": 3, "a.deep.example.org": 4})

    assert [
        patterns.of(host)
        for host in (
            "elsewhere.example",
            "example.org",
            "www.example.org",
            "notexample.org",
            "x.y.deep.example.org",
            "deep.example.org",
            "a.deep.example.org",
            "b.a.deep.example.org",
        )
    ] == [1, 2, 2, 1, 3, 3, 4, 3]


@pytest.mark.parametrize(
    ("pattern", "host"),
    [
        ("EXAMPLE.org.", "example.org"),
        ("*.Bücher.example", "www.xn--bcher-kva.example"),
        ("0x7f.1", "127.0.0.1"),
        ("[0::1]", "[::1]"),
    ],
)
def test_a_pattern_is_spelled_as_its_hosts_are(pattern: str, host: str) -> None:
    """Case, final dots, punycode and numbers make no difference."""
    assert HostPatterns({pattern: True}).of(host) is True


@pytest.mark.parametrize("pattern", ["", "*example.org", "www.*.org", "**", "a/b", "http://a", "*."])
def test_what_is_no_pattern_is_refused_with_the_remedy(pattern: str) -> None:
    """A rule that matched nothing would be a rule that nobody misses until it is needed."""
    with pytest.raises(ConfigError, match=r"write example\.org"):
        HostPatterns({pattern: True})


def test_the_ports_that_browsers_refuse() -> None:
    """Fetch, 2.9: mail, shells, IRC and X; the web's own and high ones are free."""
    assert {0, 22, 25, 110, 143, 6000, 6667, 10080} <= BAD_PORTS
    assert BAD_PORTS.isdisjoint({80, 443, 3000, 3128, 8000, 8080, 8443, 9200, 11211})


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("192.0.2.7", ("192.0.2.7", None)),
        ("192.0.2.7:8080", ("192.0.2.7", 8080)),
        ("[2001:db8::1]:80", ("2001:db8::1", 80)),
        ("[2001:db8::1]", ("2001:db8::1", None)),
        ("2001:db8::1", ("2001:db8::1", None)),
    ],
)
def test_an_endpoint_is_an_address_with_or_without_a_port(text: str, endpoint: tuple[str, int | None]) -> None:
    """`[egress] resolve` takes each usual spelling."""
    assert parse_endpoint(text) == endpoint


@pytest.mark.parametrize("text", ["", "example.org", "192.0.2.7:", "192.0.2.7:x", "[::1", "1.2.3"])
def test_an_endpoint_is_never_a_name(text: str) -> None:
    """A name would be looked up, and could then mean anything."""
    with pytest.raises(ConfigError, match="not an address"):
        parse_endpoint(text)


@pytest.mark.parametrize(
    ("text", "via"),
    [
        ("direct", None),
        ("socks5://127.0.0.1:1080", UpstreamProxy(UpstreamProxyScheme.SOCKS5, "127.0.0.1", 1080)),
        ("socks5h://tor.example:9050", UpstreamProxy(UpstreamProxyScheme.SOCKS5H, "tor.example", 9050)),
        ("http://a%40b:p%3Aw@[::1]:3128/", UpstreamProxy(UpstreamProxyScheme.HTTP, "[::1]", 3128, "a@b", "p:w")),
    ],
)
def test_a_proxy_is_named_by_its_url(text: str, via: UpstreamProxy | None) -> None:
    """User name and password are percent-decoded (RFC 3986, 3.2.1)."""
    assert parse_upstream_proxy(text) == via


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "https://secret-name:secret-word@host:1",
        "socks4://secret-word@host:1",
        "http://user:secret-word@host",
        "http://user:secret-word@host:99999",
        "http://user:secret-word@host:80/path",
        "http://:secret-word@host:80",
        "http://user:" + "secret-word" * 30 + "@host:80",
    ],
)
def test_what_is_no_proxy_is_refused_without_telling_its_password(text: str) -> None:
    """The error goes to screens and logs."""
    with pytest.raises(ConfigError) as caught:
        parse_upstream_proxy(text)

    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_proxys_text_has_no_password() -> None:
    """Neither as text nor as Python shows it."""
    via = parse_upstream_proxy("socks5://user:hidden@127.0.0.1:1080")

    assert str(via) == "socks5://127.0.0.1:1080"
    assert "hidden" not in repr(via)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("a.b.heise.de", "heise.de"),
        ("www.example.co.uk", "example.co.uk"),
        ("someone.github.io", "someone.github.io"),
        ("co.uk", "co.uk"),
        ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ("192.0.2.1", "192.0.2.1"),
    ],
)
def test_the_registrable_domain(host: str, domain: str) -> None:
    """By the Public Suffix List; what is none stands for itself."""
    assert registrable(host) == domain
