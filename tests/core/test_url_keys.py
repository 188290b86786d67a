"""The replay key: held to the library that pywb takes it from, and to pywb itself."""

import json
import subprocess
import time
from pathlib import Path

import pytest
import surt
from hypothesis import given, settings
from hypothesis import strategies as st

import core.url_keys
from core.captures import ArtifactKind, artifact_uri
from core.errors import BadUrlError
from core.url_keys import replay_key
from tests.support.examples import examples

VECTORS = [
    "http://www.Example.org:80/",
    "https://www2.example.org:443/a/",
    "https://example.org:80/",
    "http://example.org./a",
    "http://example.org/a?b=2&a=1&a&a=&a-b=1",
    "http://example.org/%7Euser/%c3%a9",
    "http://m%C3%BCnchen.de/stra%C3%9Fe",
    "http://faß.de/",
    "http://xn--fa-hia.de/",
    "http://example.org/a/../b/./c",
    "http://example.org/../../a",
    "http://example.org//x//y//",
    "http://example.org/A?B=C",
    "http://example.org/?",
    "http://example.org?x",
    "http://example.org/#!/spa/1",
    "http://example.org/?PHPSESSID=0123456789abcdef0123456789abcdef&x=1",
    "http://example.org/?x=1&sid=0123456789ABCDEF0123456789abcdef",
    "http://example.org/?sid=0123456789abcdef0123456789abcdef&",
    "http://example.org/?jsessionid=0123456789abcdef0123456789abcdef",
    "http://example.org/?ASPSESSIONIDabcdefgh=abcdefghijklmnopqrstuvwx&b",
    "http://example.org/?z&CFID=12&CFTOKEN=34&a",
    "http://example.org/(S(012345678901234567890123))/page.aspx",
    "http://example.org/(012345678901234567890123)/page.ASPX?x",
    "http://example.org/(S(012345678901234567890123))/page.html",
    "http://example.org/a%2Fb",
    "http://example.org/a%252520b",
    "http://example.org/%25%32%35",
    "http://192.0.0002.0/foo",
    "http://192.0.2.1:8080/",
    "http://3232235521/",
    "http://[2001:db8::1]:8080/foo",
    "http:///example.org",
    "http://http://example.org/",
    "http://0x7f.1/",
    "//cdn.test/x",
    "example.org/x",
    "http://example.org\\a\\b",
    "http://example.org/a\nb",
    "http://ex\u200bample.org/",
    "http://user:pass@example.org/x",
    "http://example.org/?a=%26&b=%3D",
    "http://example.org/\xff?\xff",
    "http://example.org/__wb_method=post&x=1",
    "urn:some:id",
    "urn:",
    "urn:a?B=2&A=1",
    "urn:pageinfo:https://www.Example.org/A/?q=B%20c#f",
    "urn:x//host:bad/",
    "urn://host:bad/",
    "dns:www.example.org",
    "dns://www.example.org/",
    "ftp://www.example.org:21/a",
    "filedesc://a.warc",
    "warcinfo:/a.warc.gz/x",
]
VECTORS += [artifact_uri(kind, url) for kind in ArtifactKind for url in ("https://Example.org/", VECTORS[4])]

PIECES = st.sampled_from(
    [
        *[
            "a",
            "A",
            ".",
            "..",
            "/",
            "//",
            "/../",
            "/./",
            "%",
            "%2",
            "%25",
            "%2525",
            "%41",
            "%2F",
            "%3F",
            "%23",
            "%C3%BC",
            "%FF",
            "?",
            "&",
            "=",
            "#",
            "\\",
            "|",
            "{",
            "1",
            ";",
            "+",
            "~",
            "@",
        ],
        *[
            "www.",
            "www2.",
            "example.org",
            "ü",
            "faß",
            ":80",
            ":443",
            ":",
            "08",
            "12345",
            "1.2.3.4",
            "01.2.3.4",
            "[::1]",
            "(",
            "))",
            "/(",
        ],
        *["sid=", "jsessionid=", "PHPSESSID=", "ASPSESSIONIDabcdefgh=", "cfid=", "&cftoken=", ".aspx"],
        *("x" * 24, "y" * 32, f"/({'z' * 24})/", f"/(s({'q' * 24}))/", " ", "\t", "%0A"),
    ]
)
SCHEMES = st.sampled_from(
    [
        *("http://", "https://", "HTTP://", "http:///", "http:", "http://http://", "httpx://"),
        *("urn:", "urn:view:https://", "urn://", "", "//", "ftp://", "dns:", "dns://", "filedesc:"),
    ]
)
URLS = st.builds(lambda scheme, parts: scheme + "".join(parts), SCHEMES, st.lists(PIECES))


def _by_the_library(url: str) -> str | None:
    """Return the key as pywb takes it from surt; None when pywb refuses the URL."""
    try:
        return str(surt.surt(url))
    except Exception:
        return url if url.startswith("urn:") else None


def _ours(url: str) -> str | None:
    try:
        return replay_key(url)
    except BadUrlError:
        return None


@pytest.mark.playback
def test_every_vector_has_the_key_that_pywb_computes(replay_python: Path) -> None:
    """Replay keys equal those that pywb 2.10 looks up, keys of artifacts included."""
    program = (
        "import json, sys\n"
        "from pywb.utils.canonicalize import canonicalize\n"
        "print(json.dumps([canonicalize(url) for url in json.load(sys.stdin)]))"
    )
    answer = subprocess.run(
        [replay_python, "-c", program],
        input=json.dumps(VECTORS),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=120,
    )

    assert dict(zip(VECTORS, map(replay_key, VECTORS), strict=True)) == dict(
        zip(VECTORS, json.loads(answer.stdout), strict=True)
    )


@given(URLS)
def test_pieced_urls_have_the_key_that_the_library_computes(url: str) -> None:
    """The rule written out is the library's, quirks included."""
    assert _ours(url) == _by_the_library(url)


@settings(max_examples=examples(30))
@given(st.from_regex(core.url_keys._PLAIN, fullmatch=True))
def test_the_short_way_gives_the_key_that_the_library_computes(url: str) -> None:
    """Most URLs are plain, and are not taken apart."""
    assert _ours(url) == _by_the_library(url)


@given(st.text())
def test_any_text_has_the_key_that_the_library_computes(text: str) -> None:
    """The same for texts that are no URL at all."""
    assert _ours(text) == _by_the_library(text)


@pytest.mark.parametrize(
    "url",
    [
        "http://x.org/%" + "25" * 30_000,
        "http://x.org/?" + "cfid=" * 12_000,
        "http://x.org/?" + "cfid=a&cftoken=" * 4_000,
        "http://x.org" + "/(s(012345678901234567890123))" * 2_000 + "/.aspx",
        "http://x.org/" + "%" * 60_000,
        "http://x.org/" + "/.." * 20_000,
    ],
)
def test_no_hostile_url_holds_the_proxy_up(url: str) -> None:
    """Each takes milliseconds; with a step for each pair of characters it would be minutes."""
    started = time.process_time()
    replay_key(url)

    assert time.process_time() - started < 10


def test_a_host_that_looks_like_a_number_is_keyed_without_asking_the_dns() -> None:
    """1.2.3.256 is no address; the library would ask a name server about it."""
    assert replay_key("http://1.2.3.256/") == "256,3,2,1)/"


@pytest.mark.parametrize("url", ["http://example.com:8o8o/", "http://a:99999/", " ", "\ud800"])
def test_what_pywb_refuses_is_refused(url: str) -> None:
    """There is no capture to find under such a URL."""
    with pytest.raises(BadUrlError):
        replay_key(url)
