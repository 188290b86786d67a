"""A URL in its parts, and days as numbers."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from links.check_history import LAST_DAY, date_of, day_of, day_of_date
from links.url_parts import BUCKETS, bucket_of, domain_index, split_identity, url_parts_of


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("http://example.org/", "example.org", 0, "/"),
        ("https://Example.org:8443/a?b=c", "example.org", 8443, "/a?b=c"),
        ("http://[2001:db8::1]/foo", "[2001:db8::1]", 0, "/foo"),
        ("http://example.org/#!/spa", "example.org", 0, "/#!/spa"),
        ("http://münchen.de/straße", "xn--mnchen-3ya.de", 0, "/stra%C3%9Fe"),
    ],
)
def test_parts_make_the_url_again(url: str, host: str, port: int, path: str) -> None:
    """Nothing of an identity key is lost by keeping its parts."""
    parts = url_parts_of(url)

    assert (parts.host, parts.port, parts.path) == (host, port, path)
    assert split_identity(parts.url) == parts


@pytest.mark.parametrize(
    ("host", "index"),
    [
        ("www.example.org", "org.example.www."),
        ("192.0.2.0", "V4.192.0.2.0."),
        ("[2001:db8::1]", "V6.2001.DB8.0.0.0.0.0.1."),
        ("xn--f-vgaa.example.com", "com.example.fóó."),
    ],
)
def test_hosts_are_indexed_as_mediawiki_does(host: str, index: str) -> None:
    """The form of its table of links (X08)."""
    assert domain_index(host) == index


@given(st.text(max_size=60))
def test_buckets_are_within_their_number(host: str) -> None:
    """Whatever the host."""
    assert 0 <= bucket_of(host) < BUCKETS


@given(st.integers(0, LAST_DAY))
def test_a_day_is_its_date(day: int) -> None:
    """Number to date and back."""
    assert day_of_date(date_of(day)) == day


def test_days_before_the_calendar_are_its_first() -> None:
    """And those after it its last."""
    assert day_of(datetime(1999, 1, 1, tzinfo=UTC)) == 0
    assert day_of_date(date(2400, 1, 1)) == LAST_DAY
