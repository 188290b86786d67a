"""Tests of `net.timeouts`."""

import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from net import egress
from net.connect_errors import UnknownHostError
from net.egress import ATTEMPTS, CACHE_SIZE, FOUND_S, NOT_FOUND_S, ConnectionRace, Resolver
from net.timeouts import CancellableTimeout, CancelSignal, WaitCancelledError
from tests.support.clocks import ManualClock

V4, V6 = ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")


def free_on_both() -> tuple[socket.socket, socket.socket]:
    """Bind one port of ::1 and of 127.0.0.1; a port that is free on one may be taken on the other."""
    for _ in range(100):
        six = socket.socket(socket.AF_INET6)
        six.bind(("::1", 0))
        try:
            return six, socket.create_server(("127.0.0.1", six.getsockname()[1]))
        except OSError:
            six.close()
    raise AssertionError("no port is free on both")


@pytest.fixture
def dead_and_alive() -> Iterator[int]:
    """Yield a port that answers on 127.0.0.1, and on ::1 drops every connection attempt."""
    with ExitStack() as stack:
        dead, alive = free_on_both()
        stack.enter_context(dead)
        stack.enter_context(alive)
        dead.listen(0)
        port = dead.getsockname()[1]
        for _ in range(4):  # nobody accepts: the queue is full, and Linux drops further SYNs
            filler = stack.enter_context(socket.socket(socket.AF_INET6))
            filler.settimeout(0)
            filler.connect_ex(("::1", port))
        yield port


def test_a_dead_address_does_not_cost_the_time_out(dead_and_alive: int) -> None:
    """The next one starts a quarter of a second later and wins."""
    with ConnectionRace(CancellableTimeout(5.0)).run([V6, V4], dead_and_alive).sock as winner:
        assert winner.getpeername()[0] == "127.0.0.1"


def test_a_host_whose_addresses_are_all_dead_costs_the_time_out_once(dead_and_alive: int) -> None:
    """All attempts share one patience."""
    patience = CancellableTimeout(0.6)
    with pytest.raises(OSError, match="no answer"):
        ConnectionRace(patience).run([V6, V6, V6], dead_and_alive)

    assert patience.left_s == 0


def test_an_address_that_refuses_gives_way_at_once() -> None:
    """Nothing is waited for when nothing is under way."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        refused = ipaddress.ip_address("127.0.0.2")
        with ConnectionRace(CancellableTimeout(5.0)).run([refused, V6, V4], port).sock as winner:
            assert winner.getpeername()[0] == "127.0.0.1"


def test_no_more_addresses_are_tried_than_the_limit() -> None:
    """A name may have thousands; eight that refuse are enough."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        refused = [ipaddress.ip_address(f"127.0.1.{n}") for n in range(ATTEMPTS)]
        with pytest.raises(ConnectionRefusedError):
            ConnectionRace(CancellableTimeout(5.0)).run([*refused, V4], port)


def test_a_race_ends_when_nobody_wants_it_any_more(dead_and_alive: int) -> None:
    """The seal of a visit does not wait for a connection that will not come."""
    cut = CancelSignal()
    threading.Timer(0.05, cut.set).start()
    with pytest.raises(WaitCancelledError):
        ConnectionRace(CancellableTimeout(60.0, cut=cut)).run([V6], dead_and_alive)


def test_a_look_up_that_hangs_ends_when_it_is_cut() -> None:
    """The seal of a visit does not wait for a name server."""
    hang = threading.Event()
    cut = CancelSignal()
    threading.Timer(0.05, cut.set).start()
    names = Resolver(lambda _host, _port: ["192.0.2.1"] * hang.wait(120))
    with pytest.raises(WaitCancelledError):
        names.addresses("slow.example", 80, patience=CancellableTimeout(60.0, cut=cut))
    hang.set()


def test_at_most_so_many_look_ups_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that names a thousand hosts cannot make a thousand threads."""
    monkeypatch.setattr(egress, "LOOKUPS_AT_ONCE", 3)
    running, most, lock, go = 0, 0, threading.Lock(), threading.Event()

    def lookup(_host: str, _port: int) -> list[str]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        go.wait(120)
        with lock:
            running -= 1
        return ["192.0.2.1"]

    names = Resolver(lookup)
    answers: list[object] = []
    waiting = [
        threading.Thread(
            target=lambda n=n: answers.append(names.addresses(f"h{n}.example", 80, patience=CancellableTimeout(20.0)))
        )
        for n in range(12)
    ]
    for each in waiting:
        each.start()
    while len(names._answers) < 12:
        waiting[0].join(0.001)
    waiting[0].join(0.1)  # time for a thread too many to begin
    go.set()
    for each in waiting:
        each.join()

    assert len(answers) == 12
    assert most <= 3


def test_one_look_up_serves_all_who_ask_meanwhile() -> None:
    """Six connections to a host are one question."""
    lookups, go = [], threading.Event()

    def lookup(host: str, _port: int) -> list[str]:
        lookups.append(host)
        go.wait(120)
        return ["192.0.2.1"]

    names = Resolver(lookup)
    waiting = [
        threading.Thread(target=names.addresses, args=("a.example", 80), kwargs={"patience": p})
        for p in [CancellableTimeout(20.0) for _ in range(6)]
    ]
    for each in waiting:
        each.start()
    go.set()
    for each in waiting:
        each.join()

    assert lookups == ["a.example"]


def test_answers_are_kept_for_a_minute_and_failures_for_seconds() -> None:
    """A name that fails is not asked for at each request, nor forgotten for long."""
    clock, lookups = ManualClock(), []

    def lookup(host: str, _port: int) -> list[str]:
        lookups.append(host)
        if host == "bad.example":
            raise UnknownHostError("bad.example does not resolve.")
        return ["192.0.2.1"]

    names = Resolver(lookup, monotonic=clock.monotonic)
    for _ in range(2):
        names.addresses("good.example", 80, patience=CancellableTimeout(5.0))
        with pytest.raises(UnknownHostError):
            names.addresses("bad.example", 80, patience=CancellableTimeout(5.0))
    assert lookups == ["good.example", "bad.example"]
    clock.seconds += NOT_FOUND_S + 1
    with pytest.raises(UnknownHostError):
        names.addresses("bad.example", 80, patience=CancellableTimeout(5.0))
    names.addresses("good.example", 80, patience=CancellableTimeout(5.0))
    assert lookups == ["good.example", "bad.example", "bad.example"]
    clock.seconds += FOUND_S
    names.addresses("good.example", 80, patience=CancellableTimeout(5.0))
    assert lookups[3:] == ["good.example"]


def test_the_memory_for_names_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes first; a page full of names does not grow the process."""
    assert CACHE_SIZE == 4096
    monkeypatch.setattr(egress, "CACHE_SIZE", 3)
    lookups = []

    def lookup(host: str, _port: int) -> list[str]:
        lookups.append(host)
        return ["192.0.2.1"]

    names = Resolver(lookup)
    for host in ("a", "b", "c", "d", "d", "c", "b", "a"):
        names.addresses(host, 80, patience=CancellableTimeout(5.0))

    assert lookups == ["a", "b", "c", "d", "a"]
