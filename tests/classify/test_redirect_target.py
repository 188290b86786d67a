"""Tests of `classify.redirect_target`."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classify.redirect_target import BadLocationError, RedirectEnding, classify_ending, resolve_location


@pytest.mark.parametrize(
    ("final", "end"),
    [
        ("https://site.test/cited/page.html", RedirectEnding.FINE),
        ("https://www.site.test/cited/page.html/", RedirectEnding.FINE),
        ("https://other.test/archive/page.html", RedirectEnding.FINE),
        ("https://site.test/terror-in-the-valley", RedirectEnding.FINE),
        ("https://site.test/errors-in-python.html", RedirectEnding.FINE),
        ("https://site.test/catalogue", RedirectEnding.FINE),
        ("https://site.test/#!/cited/page", RedirectEnding.FINE),
        ("https://site.test/?p=12", RedirectEnding.FINE),
        ("https://site.test/", RedirectEnding.ROOT),
        ("https://www.site.test/index.html", RedirectEnding.ROOT),
        ("https://site.test/en-gb/", RedirectEnding.ROOT),
        ("https://elsewhere.test/", RedirectEnding.ROOT),
        ("https://site.test/404", RedirectEnding.ERROR_PAGE),
        ("https://site.test/pages/not-found.php", RedirectEnding.ERROR_PAGE),
        ("https://site.test/Error.aspx?path=/cited", RedirectEnding.ERROR_PAGE),
        ("https://site.test/user/login?destination=x", RedirectEnding.LOGIN),
        ("https://login.other.test/x", RedirectEnding.LOGIN),
        ("https://consent.yahoo.com/v2/collectConsent?x", RedirectEnding.CONSENT),
        ("https://sedoparking.com/site.test", RedirectEnding.PARKED),
    ],
)
def test_what_the_end_of_redirects_says(final: str, end: RedirectEnding) -> None:
    """The final URL of a redirect chain distinguishes front pages, error pages, logins and parked domains."""
    assert classify_ending("http://site.test/cited/page.html", final) is end


@given(st.text(max_size=120))
def test_no_location_breaks_the_following(location: str) -> None:
    """Any Location is a URL of the web or a reason."""
    try:
        outcome = resolve_location("http://a.test/b/c", location)
    except BadLocationError as error:
        outcome = str(error)
    assert re.match(r"https?://|redirect: ", outcome)
    if outcome.startswith("http"):
        classify_ending("http://a.test/b/c", outcome)
