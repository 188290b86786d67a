"""Egress: connections to checked web addresses only, resolved by the system's resolver (getaddrinfo).

A page can name any host, and a host's name server can return any address (C-03, C-04): each connection uses the
address that was checked, and one that is not globally reachable is refused unless a setting allows its network.

The system's resolver cannot be interrupted: lookups run in at most `LOOKUPS_AT_ONCE` threads; callers wait at most
their own time limit; concurrent requests for a name share one lookup.
"""

import errno
import ipaddress
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import product, zip_longest

from cachetools import TLRUCache

from core.config.settings import EgressSettings
from core.errors import BadUrlError
from core.hosts import UpstreamProxy, UpstreamProxyScheme, canonical_host, join_host_port
from net import connect_errors
from net.address_policy import Address, Addresses, EgressPolicy, destinations, is_own, literal_address
from net.timeouts import CancellableTimeout
from net.upstream_proxy import open_http_tunnel, open_socks_tunnel, socket_timeout

Lookup = Callable[[str, int], list[str]]

FOUND_S = 60.0  # browsers keep an answer as long; the address is checked on every use all the same
NOT_FOUND_S = 5.0
CACHE_SIZE = 4096
LOOKUPS_AT_ONCE = 128
LOOKUP_LIMIT_S = 10.0


# Of errors of the resolver those that are an answer; without one it is `EAI_AGAIN`.
_NO_SUCH_HOST = {socket.EAI_NONAME: "does not exist (NXDOMAIN)", socket.EAI_NODATA: "has no address"}


def system_lookup(host: str, port: int) -> list[str]:
    """Resolve the host with the system's resolver, or raise UnknownHostError."""
    try:
        address_infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in _NO_SUCH_HOST:
            raise connect_errors.NoSuchHostError(f"no such host: {host} {_NO_SUCH_HOST[error.errno]}.") from error
        raise connect_errors.UnknownHostError(f"{host} does not resolve: {error}.") from error
    except (OSError, ValueError) as error:
        raise connect_errors.UnknownHostError(f"{host} does not resolve: {error}.") from error
    return [str(info[4][0]) for info in address_infos]


class Resolver:
    """Resolver with a cache. Thread-safe."""

    def __init__(self, lookup: Lookup = system_lookup, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lookup = lookup
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: TLRUCache[str, Addresses | connect_errors.UnknownHostError] = TLRUCache(
            CACHE_SIZE, lambda _, each, now: now + (FOUND_S if isinstance(each, tuple) else NOT_FOUND_S), monotonic
        )
        self._answers: dict[str, Future[Addresses]] = {}
        self._pending: deque[tuple[str, int, float, Future[Addresses]]] = deque()  # host, port, until when, answer
        self._threads = 0

    def addresses(self, host: str, port: int, *, patience: CancellableTimeout) -> Addresses:
        """Return the host's addresses, at least one; UnknownHostError or WaitCancelledError otherwise."""
        timeout_s = min(patience.left_s, LOOKUP_LIMIT_S)
        with self._lock:
            known, answer = self._known.get(host), self._answers.get(host)
            if known is None and answer is None:
                answer = self._answers[host] = Future()
                self._pending.append((host, port, self._monotonic() + timeout_s, answer))
                if self._threads < LOOKUPS_AT_ONCE:
                    self._threads += 1
                    threading.Thread(target=self._work, name="lookup", daemon=True).start()
        if isinstance(known, tuple):
            return known
        if known is not None:  # a fresh one: an exception that is raised twice grows its traceback
            raise type(known)(str(known))
        assert answer is not None
        if not answer.done():
            over = threading.Event()
            answer.add_done_callback(lambda _: over.set())
            with patience.cut.waking(over.set):
                over.wait(timeout_s)
            if not answer.done():
                raise connect_errors.UnknownHostError(f"{host} did not resolve within {timeout_s:.0f} s.")
        return answer.result()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._pending:
                    self._threads -= 1
                    return
                host, port, due, answer = self._pending.popleft()
            outcome = self._resolve(host, port, due)
            with self._lock:
                del self._answers[host]
                self._known[host] = outcome
            if isinstance(outcome, tuple):
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)

    def _resolve(self, host: str, port: int, due: float) -> Addresses | connect_errors.UnknownHostError:
        if self._monotonic() > due:
            return connect_errors.UnknownHostError(f"{host} was not resolved: too many names at once.")
        try:
            texts = dict.fromkeys(self._lookup(host, port))
            # A zone id ("%eth0") belongs to link-local addresses, which are not on the web.
            addresses = tuple(ipaddress.ip_address(text.partition("%")[0]) for text in texts)
        except connect_errors.UnknownHostError as error:
            return error
        except Exception as error:  # noqa: BLE001 every error is passed on to the waiting callers
            return connect_errors.UnknownHostError(f"{host} does not resolve: {error}.")
        return addresses or connect_errors.UnknownHostError(f"{host} has no address.")


STAGGER_S = 0.25  # RFC 8305, 5: the recommended delay between two attempts
ATTEMPTS = 8  # a name may have thousands of addresses; all are checked, this many are tried


def by_turns(addresses: Sequence[Address]) -> list[Address]:
    """Return the addresses with alternating families, beginning with the first one's (RFC 8305, 4)."""
    first = [each for each in addresses if each.version == addresses[0].version]
    second = [each for each in addresses if each.version != addresses[0].version]
    return [each for pair in zip_longest(first, second) for each in pair if each is not None]


@dataclass(frozen=True, slots=True)
class EgressConnection:
    """Open connection to a host, direct or through a proxy."""

    sock: socket.socket
    remote_ip: str  # the host's address; empty when only the upstream proxy knows it
    via: UpstreamProxy | None = None
    absolute: bool = False  # requests use absolute form, for that proxy (RFC 9112, 3.2.2)


class ConnectionRace:
    """Parallel attempts to connect to one host. `run` returns the first success and closes the others."""

    def __init__(self, patience: CancellableTimeout) -> None:
        self._patience = patience
        self._running: dict[int, EgressConnection] = {}
        self._poller = select.poll()
        self._failure = OSError(errno.ETIMEDOUT, "no answer")

    def run(self, addresses: Sequence[Address], port: int) -> EgressConnection:
        """Return the first established connection, blocking, without a time-out; or the last OSError."""
        wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller.register(wake, select.POLLIN)
        try:
            with self._patience.cut.waking(lambda: os.eventfd_write(wake, 1)):
                winner = self._run(by_turns(addresses)[:ATTEMPTS], port)
            return self._running.pop(winner)
        finally:
            os.close(wake)
            for loser in self._running.values():
                loser.sock.close()

    def _run(self, addresses: Iterable[Address], port: int) -> int:
        waiting = iter(addresses)
        address = next(waiting, None)
        until_next_s = 0.0
        while (left_s := self._patience.left_s) > 0 and not self._patience.cut.is_set:
            if address is not None and until_next_s <= 0:
                self._start(address, port)
                address = next(waiting, None)
                until_next_s = STAGGER_S if self._running else 0.0
                continue
            if not self._running:
                break
            wait_s = left_s if address is None else min(left_s, until_next_s)
            for number, _ in self._poller.poll(wait_s * 1000 + 1):
                if self._made(number):
                    return number
            # The next one's turn has come, or one has failed and it need not wait for its turn.
            until_next_s = 0.0
        raise self._failure

    def _start(self, address: Address, port: int) -> None:
        family = socket.AF_INET if isinstance(address, ipaddress.IPv4Address) else socket.AF_INET6
        try:
            attempt = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self._failure = error
            return
        attempt.settimeout(0)
        code = attempt.connect_ex((str(address), port))
        if code not in (0, errno.EINPROGRESS):
            self._failure = OSError(code, os.strerror(code))
            attempt.close()
            return
        self._running[attempt.fileno()] = EgressConnection(attempt, str(address))  # a reset socket has no peer name
        self._poller.register(attempt, select.POLLOUT)

    def _made(self, number: int) -> bool:
        """Return True if that finished attempt established the connection."""
        if (connection := self._running.get(number)) is None:  # the wish to end
            return False
        attempt = connection.sock
        if code := attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._failure = OSError(code, os.strerror(code))
            self._poller.unregister(number)
            self._running.pop(number).sock.close()
            return False
        attempt.settimeout(None)
        attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return True


HTTPS_PORT = 443
TRIED_THROUGH_PROXY = 3  # addresses of one host; each costs a connection to the proxy
# Our own look-up, which detects private addresses, must not delay the request where only the proxy has a name server.
LOOKUP_BESIDE_PROXY_S = 3.0


class Egress:
    """Factory of outgoing connections. Thread-safe."""

    def __init__(
        self,
        settings: EgressSettings,
        *,
        connect_timeout_s: float,
        lookup: Lookup = system_lookup,
        is_own: Callable[[Address], bool] = is_own,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = EgressPolicy(settings, is_own=is_own)
        self._via_unknown_names = settings.via_unknown_names
        self._via_absolute_form = settings.via_absolute_form
        self._connect_timeout_s = connect_timeout_s
        self._resolver = Resolver(lookup, monotonic=monotonic)
        self._is_own = is_own
        self._listeners: frozenset[tuple[Address, int]] = frozenset()

    def refuse_listener(self, host: str, port: int) -> None:
        """Block connections to that address and port, where this process listens."""
        self._listeners |= {(ipaddress.ip_address(host), port)}

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect to the host within the connect time-out; raises as `open`."""
        patience = CancellableTimeout(self._connect_timeout_s)
        return self.open(host, port, patience=patience).sock

    def open(self, host: str, port: int, *, patience: CancellableTimeout, tunnel: bool = False) -> EgressConnection:
        """Open a connection through checked addresses; `tunnel`: bytes pass unchanged, despite absolute form.

        Raises BlockedError if policy refuses it, UnknownHostError, ConnectError, or WaitCancelledError.
        """
        host = self._permitted(host, port)
        via = self._policy.via.of(host)
        if via is not None and via.scheme is UpstreamProxyScheme.HTTP:
            return self._through_http(via, host, port, patience, tunnel=tunnel)
        endpoint = self._resolved(host, port, via, patience)
        addresses, real_port = endpoint or ((), port)
        checked = self._checked(host, addresses, real_port)
        if via is not None:
            targets = checked if endpoint else (None,)  # None: the proxy resolves the name
            return self._tunnel(via, open_socks_tunnel, host, targets, real_port, patience)
        try:
            return ConnectionRace(patience).run(checked, real_port)
        except OSError as error:
            raise connect_errors.ConnectError(f"{host}:{port} cannot be reached: {error}.") from error

    def address_of(self, host: str, *, patience: CancellableTimeout) -> str:
        """Return the host's lowest address as its representative, without connecting; raises as `open`."""
        host = self._permitted(host, HTTPS_PORT)
        via = self._policy.via.of(host)
        if (endpoint := self._resolved(host, HTTPS_PORT, via, patience)) is None:
            raise connect_errors.UnknownHostError(f"{host} is resolved by {via}.")
        return str(min(endpoint[0], key=lambda address: (address.version, int(address))))

    def _resolved(
        self, host: str, port: int, via: UpstreamProxy | None, patience: CancellableTimeout
    ) -> tuple[Addresses, int] | None:
        """Return the host's addresses and port; None when only the upstream proxy, by HTTP or ``socks5h``, resolves it."""
        known = self._policy.known_addresses(host, port)
        if known is not None or (via is not None and via.scheme is not UpstreamProxyScheme.SOCKS5):
            return known
        return self._resolver.addresses(host, port, patience=patience), port

    def _permitted(self, host: str, port: int) -> str:
        """Return the host in normalised form if policy permits it."""
        try:
            canonical = canonical_host(host)
        except BadUrlError as error:
            raise connect_errors.BlockedHostError(str(error)) from error
        self._policy.check_target(canonical, port)
        return canonical

    def _through_http(
        self, via: UpstreamProxy, host: str, port: int, patience: CancellableTimeout, *, tunnel: bool
    ) -> EgressConnection:
        """Open a tunnel to a checked address, even for http: with absolute form the proxy would resolve the name."""
        configured = self._policy.known_addresses(host, port)
        addresses: Sequence[Address | None]
        if configured is not None:
            addresses, port = self._checked(host, *configured), configured[1]
            tunnel = tunnel or join_host_port(str(addresses[0]), port) != f"{host}:{port}"  # a name would go astray
        else:
            try:
                short = patience.renewed(min(LOOKUP_BESIDE_PROXY_S, patience.left_s))
                addresses = self._checked(host, self._resolver.addresses(host, port, patience=short), port)
            except connect_errors.UnknownHostError as error:
                if not self._via_unknown_names:
                    raise connect_errors.UnknownHostError(
                        f"{host} has no address here, so it may not be public. [egress] via_unknown_names passes such "
                        f"names on to {via}."
                    ) from error
                addresses = (None,)  # the proxy resolves the name
        if not tunnel and self._via_absolute_form:
            known = str(addresses[0]) if configured is not None else ""
            return EgressConnection(self._reach(via, patience), known, via, absolute=True)
        try:
            return self._tunnel(via, open_http_tunnel, host, addresses, port, patience)
        except connect_errors.TunnelRefusedError as error:
            if tunnel:
                raise
            raise connect_errors.TunnelRefusedError(
                f"{error} Allow CONNECT to port {port} at that proxy, or set [egress] "
                "via_absolute_form = true, which lets the proxy resolve names."
            ) from error

    def _tunnel(
        self,
        via: UpstreamProxy,
        open_tunnel: Callable[[socket.socket, UpstreamProxy, str, int], None],
        host: str,
        addresses: Sequence[Address | None],
        port: int,
        patience: CancellableTimeout,
    ) -> EgressConnection:
        """Open a tunnel to the first address that the proxy reaches; None: to the host, whose name the proxy resolves."""
        failure = connect_errors.ConnectError(f"{host} has no address.")
        for address in addresses[:TRIED_THROUGH_PROXY]:
            sock = self._reach(via, patience)
            try:
                with socket_timeout(sock, patience, str(via)):
                    open_tunnel(sock, via, str(address or host), port)
            except connect_errors.TunnelRefusedError:  # by its rules, which are the same for the other addresses
                raise
            except connect_errors.ConnectError as error:
                failure = error
                continue
            return EgressConnection(sock, str(address or ""), via)
        raise failure

    def _reach(self, via: UpstreamProxy, patience: CancellableTimeout) -> socket.socket:
        """Connect to the proxy. Its address is configured by the operator and not checked."""
        literal = literal_address(via.host)
        try:
            addresses = (
                self._resolver.addresses(via.host, via.port, patience=patience) if literal is None else (literal,)
            )
            return ConnectionRace(patience).run(addresses, via.port).sock
        except (OSError, connect_errors.UnknownHostError) as error:
            raise connect_errors.ConnectError(f"The proxy {via} cannot be reached: {error}.") from error

    def _checked(self, host: str, addresses: Addresses, port: int) -> Addresses:
        checked = tuple(self._policy.check(host, each) for each in addresses)
        listeners = [listener for listener, own_port in self._listeners if port == own_port]
        for address, listener in product(checked, listeners):
            ends = (address, *destinations(address))
            if (
                listener in ends
                or any(each.is_unspecified for each in ends)
                or (listener.is_unspecified and any(self._is_own(each) for each in ends))
            ):
                raise connect_errors.BlockedAddressError(f"{host} port {port} is the proxy itself.")
        return checked
