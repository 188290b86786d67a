"""Where the proxy may connect to (C-03, C-04)."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.settings import EgressSettings
from proxy.egress import BlockedAddressError, ConnectError, Egress, UnknownHostError, is_public

PRIVATE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.0.0.2",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::",
    "fc00::1",
    "fd12::1",
    "fe80::1",
    "ff02::1",
    "2001:db8::1",
    "2001:0:a9fe:a9fe::1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2606:4700::1111",
]


@pytest.mark.parametrize("text", PRIVATE)
def test_an_address_that_is_not_public_is_refused_before_connecting(text: str) -> None:
    """Loopback, private, link-local, metadata, multicast, and what carries them inside IPv6."""
    egress = Egress(EgressSettings(), connect_timeout_s=0.1, lookup=lambda _host, _port: [text])
    with pytest.raises(BlockedAddressError):
        egress.connect("evil.example", 80)


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


def test_one_private_address_among_public_ones_refuses_the_host() -> None:
    """Every address is checked, not only the first: the second could be asked next."""
    egress = Egress(
        EgressSettings(),
        connect_timeout_s=0.1,
        lookup=lambda _host, _port: ["93.184.216.34", "127.0.0.1"],
    )
    with pytest.raises(BlockedAddressError):
        egress.connect("mixed.example", 80)


def test_the_address_that_was_checked_is_the_one_connected_to() -> None:
    """The name is looked up once: a second answer (DNS rebinding) is never asked for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asked = []

        def flipping(host: str, port: int) -> list[str]:
            asked.append(host)
            return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.9"]

        egress = Egress(
            EgressSettings(allow=("127.0.0.1/32",)), connect_timeout_s=5, lookup=flipping
        )
        with egress.connect("flip.example", listener.getsockname()[1]) as connection:
            assert connection.getpeername()[0] == "127.0.0.1"

    assert asked == ["flip.example"]


@pytest.mark.parametrize(
    ("override", "expected"),
    [("127.0.0.1:{port}", "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("[::1]:{port}", "::1")],
)
def test_a_setting_names_address_and_port_of_a_host(override: str, expected: str) -> None:
    """`resolve` is asked before DNS; with a port of its own or the request's."""
    family = socket.AF_INET6 if ":" in expected else socket.AF_INET
    with socket.create_server((expected, 0), family=family) as listener:
        port = listener.getsockname()[1]
        settings = EgressSettings(
            allow=("127.0.0.0/8", "::1/128"),
            resolve={"wiki.example": override.format(port=port)},
        )
        with Egress(settings, connect_timeout_s=5).connect("wiki.example", port) as connection:
            assert connection.getpeername()[:2] == (expected, port)


def test_an_override_is_checked_like_any_address() -> None:
    """`resolve` does not stand in for `allow`."""
    settings = EgressSettings(resolve={"wiki.example": "127.0.0.1:80"})
    with pytest.raises(BlockedAddressError):
        Egress(settings, connect_timeout_s=1).connect("wiki.example", 80)


def test_a_name_that_does_not_resolve_is_an_unknown_host() -> None:
    """`.invalid` never resolves (RFC 6761)."""
    with pytest.raises(UnknownHostError):
        Egress(EgressSettings(), connect_timeout_s=1).connect("nowhere.invalid", 80)


def test_a_closed_port_is_a_connect_error() -> None:
    """It may be open later: the error is transient."""
    settings = EgressSettings(allow=("127.0.0.0/8",), resolve={"a.example": "127.0.0.1:1"})
    with pytest.raises(ConnectError):
        Egress(settings, connect_timeout_s=1).connect("a.example", 80)
