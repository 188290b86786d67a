"""Which address can be no replacement, as far as its own text tells: nothing is asked (W17)."""

import ipaddress
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from core.addresses import is_public
from core.errors import InputError
from core.hosts import BAD_PORTS, is_local_name
from core.urls import host_of
from links.locator import locate
from links.observed import shown

MAX_ADDRESS_LENGTH: Final = 4_000
# RFC 6762, 7686, 8375 and ICANN's "internal": names that lead into somebody's own network.
_NO_WEB = frozenset({"local", "internal", "onion", "home.arpa"})


class RefusedAddressError(InputError):
    """That address can be no replacement.

    Attributes:
        reason: a short constant, e.g. ``same`` or ``private``; see `Refusal`.
    """

    def __init__(self, message: str, *, reason: "Refusal") -> None:
        super().__init__(message)
        self.reason = reason


class Refusal(StrEnum):
    """Why an address can be no replacement."""

    SAME = "same"
    TOO_LONG = "too-long"
    PRIVATE = "private"
    PORT = "port"
    POLICY = "policy"
    UNREACHABLE = "unreachable"
    OTHER_COPY = "other-copy"


def refusal_of(address: str) -> Refusal | None:
    """Why an address can be nobody's replacement, as far as its own text tells.

    >>> refusal_of("http://10.1.2.3/"), refusal_of("http://nas.local/"), refusal_of("http://a.org/")
    (<Refusal.PRIVATE: 'private'>, <Refusal.PRIVATE: 'private'>, None)
    """
    if len(address) > MAX_ADDRESS_LENGTH:
        return Refusal.TOO_LONG
    host = host_of(address)
    port = locate(address).port
    if port in BAD_PORTS and port:
        return Refusal.PORT
    try:
        number = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        labels = host.split(".")
        ends = {".".join(labels[-count:]) for count in (1, 2)}
        is_private = is_local_name(host) or not ends.isdisjoint(_NO_WEB)
        return Refusal.PRIVATE if is_private else None
    return None if is_public(number) else Refusal.PRIVATE


_WHY: Final[Mapping[Refusal, str]] = {
    Refusal.SAME: "it is the same URL",
    Refusal.TOO_LONG: f"it is longer than {MAX_ADDRESS_LENGTH:,} characters",
    Refusal.PRIVATE: "it does not lead to the public web",
    Refusal.PORT: "its port is none of the web's",
    Refusal.UNREACHABLE: "the registry knows it as unreachable, too",
}


def refused(address: str, reason: Refusal, why: str = "") -> RefusedAddressError:
    """The error that says why that address can be no replacement."""
    return RefusedAddressError(
        f"{shown(address)} can be no replacement: {why or _WHY[reason]}.", reason=reason
    )
