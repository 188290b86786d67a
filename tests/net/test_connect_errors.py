"""Tests of `net.connect_errors`."""

import threading

import pytest

from net.connect_errors import UnknownHostError
from net.egress import Resolver
from net.timeouts import CancellableTimeout


def test_a_look_up_that_hangs_ends_with_the_patience() -> None:
    """The thread stays behind; whoever waited goes on."""
    hang = threading.Event()
    # By a clock that stands still the look-up never begins too late.
    names = Resolver(lambda _host, _port: ["192.0.2.1"] * hang.wait(60), monotonic=lambda: 0.0)
    with pytest.raises(UnknownHostError, match="within"):
        names.addresses("slow.example", 80, patience=CancellableTimeout(0.05))
    hang.set()


@pytest.mark.parametrize("answer", [[], ["not an address"], ["192.0.2.1", ""]])
def test_an_answer_without_an_address_is_no_answer(answer: list[str]) -> None:
    """Whatever a name server says, there is an address or there is an error."""
    with pytest.raises(UnknownHostError):
        Resolver(lambda _host, _port: answer).addresses("a.example", 80, patience=CancellableTimeout(5.0))
