"""Tests of `net.public_suffix`."""

import pytest

from net.public_suffix import registrable


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
