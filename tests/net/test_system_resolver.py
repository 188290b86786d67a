"""Look-ups and connections that end in time: the resolver's bounds, and the race of addresses."""

import ipaddress

from net.egress import by_turns


def test_the_families_take_turns() -> None:
    """The first address's family begins, as the system's preference has it (RFC 8305, 4)."""
    six = [ipaddress.ip_address(f"2001:db8::{n}") for n in range(3)]
    four = [ipaddress.ip_address(f"192.0.2.{n}") for n in range(2)]

    assert by_turns([*six, *four]) == [six[0], four[0], six[1], four[1], six[2]]
