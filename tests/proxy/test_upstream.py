"""So many connections to one origin and no more; who waits is served in turn."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from core.config.settings import EgressSettings, ProxySettings
from net.connect_errors import ConnectError
from net.egress import Egress
from net.timeouts import CancellableTimeout, CancelSignal, WaitCancelledError
from net.tls_client import TlsFacts
from proxy.upstream import IDLE_S, ConnectionPool, OriginConnection, UpstreamConnector
from tests.support.examples import examples

ORIGIN = ("origin.example", 80, False)


class PeerConnections:
    """Connections whose other ends the test holds."""

    def __init__(self, pool: ConnectionPool) -> None:
        self.pool = pool
        self.ends: list[socket.socket] = []

    def connection(self) -> OriginConnection:
        """Return a connection that counts for the pool until it is closed."""
        ours, theirs = socket.socketpair()
        self.ends += [ours, theirs]
        return OriginConnection(ours, ORIGIN, "192.0.2.1", on_close=lambda each: self.pool.release(each.origin))

    def borrow(self, *, fresh: bool = False, timeout_s: float = 0.0) -> OriginConnection:
        """Borrow a connection as `Upstream.lend` does, without a network."""
        lent = self.pool.borrow(ORIGIN, CancellableTimeout(timeout_s), fresh=fresh)
        return self.connection() if lent is None else lent

    def close(self) -> None:
        """Close every end."""
        for end in self.ends:
            end.close()


@pytest.fixture
def peers() -> Iterator[PeerConnections]:
    """Yield a pool for two connections per origin."""
    made = PeerConnections(ConnectionPool(2))
    yield made
    made.close()


def test_who_insists_takes_the_place_of_a_connection_that_is_unfit(peers: PeerConnections) -> None:
    """No more are open than may be, and none whose certificate did not verify is lent."""
    lent = [peers.borrow(), peers.borrow()]
    for each in lent:
        each.tls = TlsFacts(error="expired: x")
        peers.pool.give_back(each)
    strict = peers.pool.borrow(ORIGIN, CancellableTimeout(0.0), fresh=False, strict=True)

    assert strict is None
    assert [each.sock.fileno() == -1 for each in lent] == [True, False]
    assert peers.pool._hosts[ORIGIN].count == 2


def waits(peers: PeerConnections, results: list[object], *, fresh: bool = False) -> threading.Thread:
    """Start a thread that borrows and adds its connection or error to the results."""

    def borrow() -> None:
        try:
            results.append(peers.borrow(fresh=fresh, timeout_s=20))
        except ConnectError as error:
            results.append(error)

    before = len(peers.pool._hosts[ORIGIN].waiters)
    thread = threading.Thread(target=borrow)
    thread.start()
    while len(peers.pool._hosts[ORIGIN].waiters) == before:
        thread.join(0.001)
    return thread


def test_an_idle_connection_is_lent_before_a_new_one_is_made(peers: PeerConnections) -> None:
    """The one that came back last is the warmest."""
    first, second = peers.borrow(), peers.borrow()
    peers.pool.give_back(first)
    peers.pool.give_back(second)

    assert peers.borrow() is second
    assert peers.borrow() is first


def test_a_connection_too_many_waits_and_fails_when_no_turn_comes(peers: PeerConnections) -> None:
    """The error names the limit and the setting."""
    peers.borrow()
    peers.borrow()
    with pytest.raises(ConnectError, match=r"2 connections.*connections_per_host"):
        peers.borrow(timeout_s=0.01)


def test_who_waits_is_served_in_the_order_of_asking(peers: PeerConnections) -> None:
    """A connection that comes back goes to the first, the place of a closed one to the next."""
    one, two = peers.borrow(), peers.borrow()
    first: list[object] = []
    second: list[object] = []
    threads = [waits(peers, first), waits(peers, second)]
    peers.pool.give_back(one)
    threads[0].join(120)
    assert first == [one]
    assert second == []
    two.close()
    threads[1].join(120)
    assert second
    assert second[0] not in (one, two)


def test_one_who_needs_a_new_connection_gets_the_place_of_an_idle_one(peers: PeerConnections) -> None:
    """A POST is not sent on a connection that may be closing; the limit holds all the same."""
    peers.borrow()
    idle = peers.borrow()
    peers.pool.give_back(idle)
    new = peers.borrow(fresh=True)

    assert new is not idle
    assert idle.sock.fileno() == -1
    with pytest.raises(ConnectError):
        peers.borrow()


def test_one_who_waits_for_a_new_connection_gets_a_place_when_one_comes_back(peers: PeerConnections) -> None:
    """The connection that comes back is closed to make room."""
    one, _ = peers.borrow(), peers.borrow()
    results: list[object] = []
    thread = waits(peers, results, fresh=True)
    peers.pool.give_back(one)
    thread.join(120)

    assert results != [one]
    assert one.sock.fileno() == -1


def test_waiting_ends_when_it_is_cut_and_the_turn_goes_on(peers: PeerConnections) -> None:
    """The seal of a visit does not wait; nobody behind loses a place."""
    one, _ = peers.borrow(), peers.borrow()
    cut, caught = CancelSignal(), []

    def wait() -> None:
        try:
            peers.pool.borrow(ORIGIN, CancellableTimeout(60, cut=cut), fresh=False)
        except WaitCancelledError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not peers.pool._hosts[ORIGIN].waiters:
        thread.join(0.001)
    results: list[object] = []
    behind = waits(peers, results)
    cut.set()
    thread.join(120)
    peers.pool.give_back(one)
    behind.join(120)

    assert len(caught) == 1
    assert results == [one]


def test_a_connection_that_was_closed_while_idle_is_not_lent(peers: PeerConnections) -> None:
    """Its place goes to a new one."""
    connection = peers.borrow()
    peers.pool.give_back(connection)
    peers.ends[1].close()

    assert peers.borrow() is not connection
    assert peers.pool._hosts[ORIGIN].count == 1


def test_a_connection_that_idled_too_long_is_not_lent() -> None:
    """Servers close them by then."""
    now = [0.0]
    peers = PeerConnections(ConnectionPool(2, monotonic=lambda: now[0]))
    connection = peers.borrow()
    peers.pool.give_back(connection)
    now[0] += IDLE_S + 1

    assert peers.borrow() is not connection
    peers.close()


def test_what_idled_too_long_is_closed_when_another_comes_back() -> None:
    """A server's farewell must not keep a descriptor until the host is asked again."""
    now = [0.0]
    peers = PeerConnections(ConnectionPool(2, monotonic=lambda: now[0]))
    old, new = peers.borrow(), peers.borrow()
    peers.pool.give_back(old)
    now[0] += IDLE_S + 1
    peers.pool.give_back(new)

    assert old.sock.fileno() == -1
    assert peers.pool._hosts[ORIGIN].count == 1
    peers.close()


def test_closing_twice_frees_one_place(peers: PeerConnections) -> None:
    """An exchange may close what it has closed."""
    first, _ = peers.borrow(), peers.borrow()
    first.close()
    first.close()
    peers.borrow()
    with pytest.raises(ConnectError):
        peers.borrow()


class LendingMachine(RuleBasedStateMachine):
    """Whatever is borrowed, given back, closed or left idle: the count is right."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.peers = PeerConnections(ConnectionPool(3, monotonic=lambda: self.now))
        self.lent: list[OriginConnection] = []

    @rule(fresh=st.booleans())
    def borrow(self, fresh: bool) -> None:
        """Borrow one more; expect a refusal exactly when three are lent."""
        if len(self.lent) == 3:
            with pytest.raises(ConnectError):
                self.peers.borrow(fresh=fresh)
        else:
            self.lent.append(self.peers.borrow(fresh=fresh))

    @precondition(lambda self: self.lent)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        """Give a connection back."""
        self.peers.pool.give_back(self.lent.pop(data.draw(st.integers(0, len(self.lent) - 1))))

    @precondition(lambda self: self.lent)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        """Close a connection as its borrower."""
        self.lent.pop(data.draw(st.integers(0, len(self.lent) - 1))).close()

    @rule()
    def grow_old(self) -> None:
        """Advance the clock until idle connections are too old."""
        self.now += IDLE_S + 1

    @invariant()
    def counts(self) -> None:
        """Lent and idle ones together are what counts, and never more than the limit."""
        host = self.peers.pool._hosts.get(ORIGIN)
        if host is None:
            assert self.lent == []
            return
        assert host.count == len(self.lent) + len(host.idle) <= 3
        assert all(connection.sock.fileno() >= 0 for connection in self.lent)

    def teardown(self) -> None:
        """Close every end."""
        self.peers.close()


def test_the_count_is_right_whatever_happens() -> None:
    """A place that leaked would shut a host out for ever."""
    run_state_machine_as_test(LendingMachine, settings=settings(max_examples=examples(20), stateful_step_count=20))


@pytest.mark.slow
@given(limit=st.integers(1, 4), clients=st.integers(2, 10))
@settings(max_examples=examples(10), suppress_health_check=list(HealthCheck))
def test_a_host_never_has_more_connections_than_the_limit(limit: int, clients: int) -> None:
    """Counted by the server, with many clients that take turns; all are served."""
    server = CountingServer()
    egress_settings = EgressSettings(allow=("127.0.0.0/8",), connections_per_host=limit)
    egress = Egress(egress_settings, connect_timeout_s=20)
    upstream = UpstreamConnector(egress, ProxySettings(connect_timeout_s=20), egress_settings)
    served: list[bytes] = []

    def ask(number: int) -> None:
        for round_ in range(4):
            connection = upstream.lend(("127.0.0.1", server.port, False), fresh=round_ == number % 4)
            connection.send(b"?")
            served.append(connection.sock.recv(1))
            if (number + round_) % 3:
                upstream.give_back(connection)
            else:
                connection.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    upstream.close()
    server.close()

    assert served == [b"!"] * (clients * 4)
    assert server.most <= limit


class CountingServer:
    """Answers each byte, and counts at each new connection how many there are."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.most = 0
        self.open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening, and end what is open."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.open:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.open.append(connection)
            self.most = max(self.most, sum(not has_left(each) for each in self.open))
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while connection.recv(1):
                connection.sendall(b"!")


def has_left(connection: socket.socket) -> bool:
    """Return whether the client has closed, read or not."""
    poller = select.poll()
    poller.register(connection, select.POLLRDHUP)
    return bool(poller.poll(0))
