"""Permitted destinations of the proxy (C-03, C-04)."""

import socket
import struct
import threading
from contextlib import suppress
from functools import partial
from unittest.mock import Mock

import pytest

from core.config.settings import EgressSettings
from net.connect_errors import (
    NO_SUCH_HOST,
    BlockedAddressError,
    BlockedError,
    BlockedHostError,
    BlockedPortError,
    ConnectError,
    NoSuchHostError,
    UnknownHostError,
)
from net.egress import Egress

LOOKS_UP_S = 30.0  # a look-up is a thread, which may start late; nothing here waits for an answer


def nobody(host: str, _port: int) -> list[str]:
    """Fail the test: a name server that must not be queried."""
    pytest.fail(f"{host} was looked up")


def answer(address: str, _host: str, _port: int) -> list[str]:
    """Return `address` for every name, as a name server with one answer."""
    return [address]


PRIVATE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.0.0.2",
    "127.255.255.254",
    "168.63.129.16",
    "::ffff:168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
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
    "2002:808:808::1",
    "fc00::1",
    "fd12::1",
    "fe80::1",
    "ff02::1",
    "2001:db8::1",
    "2001:0:a9fe:a9fe::1",
    "2001:0:0808:0808::7f00:1",
    "192.88.99.1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:0:8.8.8.8",
    "64:ff9b:1::8.8.8.8",
    "64:ff9b:1:fffe::1",
    "2002:c0a8:101:1::1",
    "2606:4700::5efe:192.168.1.1",
    "2606:4700::200:5efe:127.0.0.1",
    "fe80::5efe:8.8.8.8",
    "fec0::1",
    "100::1",
    "3fff::1",
    "5f00::1",
    "4000::1",
    "fe80::1%eth0",
]
# Every way to write 127.0.0.1 and its like in a URL.
SPELLINGS = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "0",
    "\uff11\uff12\uff17.0.0.1",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "169.254.169.254",
    "localhost",
    "LOCALHOST.",
    "any.thing.localhost",
]


@pytest.mark.parametrize("text", PRIVATE)
def test_an_address_that_is_not_public_is_refused_before_connecting(text: str) -> None:
    """Loopback, private, link-local, metadata, multicast, and what carries them inside IPv6."""
    egress = Egress(EgressSettings(), connect_timeout_s=LOOKS_UP_S, lookup=lambda _host, _port: [text])
    with pytest.raises(BlockedAddressError):
        egress.connect("evil.example", 80)


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_host_that_is_a_private_address_is_refused_however_it_is_written(host: str) -> None:
    """Nobody is asked for it, so that no name server can have another opinion."""
    egress = Egress(EgressSettings(), connect_timeout_s=LOOKS_UP_S, lookup=nobody)
    with pytest.raises(BlockedAddressError):
        egress.connect(host, 80)


def test_one_private_address_among_public_ones_refuses_the_host() -> None:
    """Every address is checked, not only the first: the second could be asked next."""
    egress = Egress(
        EgressSettings(), connect_timeout_s=LOOKS_UP_S, lookup=lambda _host, _port: ["93.184.216.34", "127.0.0.1"]
    )
    with pytest.raises(BlockedAddressError):
        egress.connect("mixed.example", 80)


def test_the_address_that_was_checked_is_the_one_connected_to() -> None:
    """The name is looked up once: a second answer (DNS rebinding) is never asked for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        lookups = []

        def flipping(host: str, port: int) -> list[str]:
            lookups.append(host)
            return ["127.0.0.1"] if len(lookups) == 1 else ["127.0.0.9"]

        egress = Egress(EgressSettings(allow=("127.0.0.1/32",)), connect_timeout_s=5, lookup=flipping)
        with egress.connect("flip.example", listener.getsockname()[1]) as connection:
            assert connection.getpeername()[0] == "127.0.0.1"

    assert lookups == ["flip.example"]


def test_a_connection_that_the_host_resets_at_once_is_a_failure_of_the_host() -> None:
    """ConnectError, or the first request fails; any other OSError would be taken for one of the archive's disk."""

    def reset_all(listener: socket.socket) -> None:
        with suppress(OSError):  # it was closed
            while True:
                connection, _ = listener.accept()
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:
        thread = threading.Thread(target=reset_all, args=(listener,), daemon=True)
        thread.start()
        egress = Egress(EgressSettings(allow=("127.0.0.1/32",)), connect_timeout_s=5)
        try:
            for _ in range(100):
                with suppress(ConnectError):
                    egress.connect("127.0.0.1", listener.getsockname()[1]).close()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("override", "expected"), [("127.0.0.1:{port}", "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("[::1]:{port}", "::1")]
)
def test_a_setting_names_address_and_port_of_a_host(override: str, expected: str) -> None:
    """`resolve` is asked before DNS; with a port of its own or the request's."""
    family = socket.AF_INET6 if ":" in expected else socket.AF_INET
    with socket.create_server((expected, 0), family=family) as listener:
        port = listener.getsockname()[1]
        settings = EgressSettings(
            allow=("127.0.0.0/8", "::1/128"), resolve={"wiki.example": override.format(port=port)}
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


@pytest.mark.parametrize(
    ("code", "exists"), [(socket.EAI_NONAME, False), (socket.EAI_NODATA, False), (socket.EAI_AGAIN, True)]
)
def test_name_servers_that_fail_are_no_answer(monkeypatch: pytest.MonkeyPatch, code: int, exists: bool) -> None:
    """NXDOMAIN and a name without an address are final; SERVFAIL and time-outs (EAI_AGAIN) are not."""
    monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=socket.gaierror(code, "x")))
    with pytest.raises(UnknownHostError) as caught:
        Egress(EgressSettings(), connect_timeout_s=LOOKS_UP_S).connect("wiki.example", 80)

    assert isinstance(caught.value, NoSuchHostError) is not exists
    assert f"dns: {caught.value}".startswith(NO_SUCH_HOST) is not exists


def test_a_closed_port_is_a_connect_error() -> None:
    """It may be open later: the error is transient."""
    settings = EgressSettings(allow=("127.0.0.0/8",), resolve={"a.example": "127.0.0.1:1"})
    with pytest.raises(ConnectError):
        Egress(settings, connect_timeout_s=1).connect("a.example", 80)


@pytest.mark.parametrize("host", ["localhost", "web.localhost.", "127.1", "[::ffff:127.0.0.1]"])
def test_an_allowed_loopback_is_reached_by_each_of_its_names(host: str) -> None:
    """For tests and intranets: one family allowed is enough, and nobody is asked (RFC 6761)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = EgressSettings(allow=("127.0.0.0/8",))
        egress = Egress(settings, connect_timeout_s=5, lookup=nobody)
        with egress.connect(host, listener.getsockname()[1]) as connection:
            assert connection.getpeername()[0] == "127.0.0.1"


def test_an_allowed_network_does_not_vouch_for_what_an_address_carries() -> None:
    """6to4 of a private address stays refused when only the outer form is allowed, and Teredo too."""
    for address in ("2002:7f00:1::", "2001:0:a00:1::ffff:ffff"):
        egress = Egress(
            EgressSettings(allow=("2002::/16", "10.0.0.0/8")),
            connect_timeout_s=LOOKS_UP_S,
            lookup=partial(answer, address),
        )
        with pytest.raises(BlockedAddressError):
            egress.connect("tunnel.example", 80)


def test_a_refused_network_is_refused_though_public_or_allowed() -> None:
    """`refuse` is for servers of one's own that the world may see and a page must not use."""
    settings = EgressSettings(refuse=("93.184.216.0/24", "127.0.0.9/32", "::/0"), allow=("127.0.0.0/8",))
    for host in ("93.184.216.34", "127.0.0.9", "[2606:4700::1111]"):
        with pytest.raises(BlockedAddressError, match="refuse"):
            Egress(settings, connect_timeout_s=LOOKS_UP_S, lookup=nobody).connect(host, 80)


def test_our_own_public_address_is_refused() -> None:
    """Services at our own public address may trust this machine (C-03)."""
    egress = Egress(
        EgressSettings(),
        connect_timeout_s=LOOKS_UP_S,
        lookup=lambda _host, _port: ["93.184.216.34"],
        is_own=lambda _address: True,
    )
    with pytest.raises(BlockedAddressError, match="this machine"):
        egress.connect("ours.example", 80)


@pytest.mark.parametrize("port", [0, 22, 25, 6000, 6667])
def test_ports_that_browsers_refuse_are_refused_before_anything_is_looked_up(port: int) -> None:
    """An HTTP request must not be able to talk to a mail server (Fetch, 2.9)."""
    with pytest.raises(BlockedPortError):
        Egress(EgressSettings(), connect_timeout_s=1, lookup=nobody).connect("a.example", port)


@pytest.mark.parametrize(
    "host", ["ads.example", "ADS.example.", "tracker.example", "a.b.tracker.example", "0x5db8d822"]
)
def test_a_blocked_host_is_never_asked(host: str) -> None:
    """However it is spelled; a star takes all below it."""
    settings = EgressSettings(block=("ads.example", "*.tracker.example", "93.184.216.34"))
    with pytest.raises(BlockedHostError):
        Egress(settings, connect_timeout_s=1, lookup=nobody).connect(host, 80)


@pytest.mark.parametrize("host", ["a..b", "example.org..", "[fe80::1%25lo]", "a@b", "1.2.3.4.5"])
def test_what_is_no_host_is_refused_before_anything_is_looked_up(host: str) -> None:
    """No second parser may find another meaning in it."""
    with pytest.raises(BlockedError):
        Egress(EgressSettings(), connect_timeout_s=1, lookup=nobody).connect(host, 80)
