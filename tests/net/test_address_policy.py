"""Tests of `net.address_policy`."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from net.address_policy import is_own, is_public

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2606:4700::1111",
    "2606:4700::5efe:8.8.8.8",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_public(text: str) -> None:
    """The rule does not shut out the web."""
    assert is_public(ipaddress.ip_address(text))


@given(st.integers(0, 2**32 - 1))
def test_an_ipv4_address_is_public_exactly_when_it_is_in_its_mapped_form(number: int) -> None:
    """`::ffff:` hides nothing and refuses nothing."""
    plain = ipaddress.IPv4Address(number)
    mapped = ipaddress.IPv6Address(f"::ffff:{plain}")

    assert is_public(plain) == is_public(mapped)


def test_an_address_of_this_machine_is_its_own() -> None:
    """The kernel's routes say so; what lies elsewhere is not."""
    assert is_own(ipaddress.ip_address("127.0.0.1"))
    assert is_own(ipaddress.ip_address("::1"))
    assert not is_own(ipaddress.ip_address("192.0.2.99"))
