"""The identity key without a parser: the same as with one, for whatever a browser would ask for."""

import contextlib

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from core.errors import BadUrlError
from core.url_keys import browser_identity
from core.urls import fetch_key, identity_and_host

_HOST = st.sampled_from(
    ["example.org", "EXAMPLE.org.", "a-b.c_d.example", "127.0.0.1", "[2001:DB8::1]", "münchen.de"]
)
_PORT = st.sampled_from(["", ":80", ":443", ":8080", ":"])
_REST = st.text(st.sampled_from("aZ09-._~:/?#[]@!$&'()*+,;=%25%2F%7e%c3\\|^{}<>\"` é"), max_size=30)


@given(st.sampled_from(["http", "HTTPS"]), _HOST, _PORT, _REST)
@example("http", "example.org", "", "/a/../b/./%2e%2E/c")
@example("http", "example.org", "", "/%4%31?%2&=%26#!/%41")
def test_what_a_browser_spelled_has_the_same_identity(
    scheme: str, host: str, port: str, rest: str
) -> None:
    """With the parser and without one, for every serialised URL."""
    url = None
    with contextlib.suppress(BadUrlError):
        url = fetch_key(f"{scheme}://{host}{port}/{rest}")
    assume(url is not None)
    assert url is not None

    assert browser_identity(url) == identity_and_host(url)


@given(_HOST, _PORT, st.text(st.sampled_from("aZ0-._~:/?@!'();=%2F%7e%c3\\[|é"), max_size=30))
@example("example.org", "", "?%'")
def test_what_a_person_spelled_mostly_has(host: str, port: str, rest: str) -> None:
    """Case, default ports, dots, user names and letters of other scripts are put right as well."""
    url = f"http://User@{host}{port}/{rest}"

    assert browser_identity(url) == identity_and_host(url)


@pytest.mark.parametrize(
    "url", ["", "ftp://a.example/", "https://", "http:///x", "urn:dom:http://a/"]
)
def test_what_is_no_url_of_the_web_has_none(url: str) -> None:
    """An error, not an identity that something else could have."""
    with pytest.raises(BadUrlError):
        browser_identity(url)
