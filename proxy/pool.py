"""Connections to origins, lent one exchange at a time; so many to one origin and no more.

Idle ones are lent first. When an origin has as many as it may (`[egress] connections_per_host`)
whoever wants one waits, and is served in the order of asking.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.connection import Connection, Origin
from proxy.cuts import CutError, Patience
from proxy.ways_out import ConnectError

IDLE_S = 20.0
IDLE_TOTAL = 512


@dataclass(slots=True, eq=False)
class _Waiter:
    """Somebody who waits; `served` once it has a connection, or the right to open one."""

    fresh: bool
    woken: threading.Event = field(default_factory=threading.Event)
    served: bool = False
    connection: Connection | None = None


@dataclass(slots=True)
class _Host:
    """What is open to one origin: `count` of all, lent or idle."""

    count: int = 0
    idle: list[Connection] = field(default_factory=list)
    waiters: deque[_Waiter] = field(default_factory=deque)


class Pool:
    """Who may have which connection. Thread-safe; closes outside its lock."""

    def __init__(self, limit: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._hosts: dict[Origin, _Host] = {}
        self._idle: dict[Connection, None] = {}  # all of them, the oldest first
        self._lock = threading.Lock()

    def borrow(
        self, origin: Origin, patience: Patience, *, fresh: bool, strict: bool = False
    ) -> Connection | None:
        """An idle connection; None when the caller may open a new one, and then must.

        What was opened by that right comes back by `give_back` or `release`, and the right itself
        by `release`. With `fresh` it is always a new one; with `strict` one whose certificate
        verified, or a new one.

        Raises:
            ConnectError: no turn came in time.
            CutError: the patience was ended.
        """
        while True:
            connection, waiter = self._take(origin, fresh=fresh, strict=strict)
            if waiter is not None:
                connection = self._wait(origin, waiter, patience)
            if connection is None:
                return None
            unfit = fresh or not _suits(connection, strict=strict)
            if not unfit and not self._is_spent(connection):
                return connection
            connection.sock.close()  # its place is ours now
            if unfit:
                return None
            self.release(origin)

    def give_back(self, connection: Connection) -> None:
        """Take back a connection that can serve another exchange."""
        now = connection.idle_since = self._monotonic()
        with self._lock:
            host = self._hosts[connection.origin]
            waiter = _first(host)
            if waiter is not None:
                _serve(waiter, connection)
                return
            host.idle.append(connection)
            self._idle[connection] = None
            spent = self._spent(now)
        self._drop(spent)

    def release(self, origin: Origin) -> None:
        """Say that a connection was closed, or could not be opened."""
        with self._lock:
            host = self._hosts[origin]
            waiter = _first(host)
            if waiter is not None:
                _serve(waiter, None)
                return
            host.count -= 1
            if host.count == 0:
                del self._hosts[origin]

    def close(self) -> None:
        """Close every idle connection."""
        with self._lock:
            idle = list(self._idle)
            for connection in idle:
                self._forget(connection)
        self._drop(idle)

    def _take(
        self, origin: Origin, *, fresh: bool, strict: bool
    ) -> tuple[Connection | None, _Waiter | None]:
        with self._lock:
            host = self._hosts.setdefault(origin, _Host())
            fit = [] if fresh else [each for each in host.idle if _suits(each, strict=strict)]
            if fit:
                connection = fit[-1]  # the warmest
                self._forget(connection)
                return connection, None
            if host.count < self._limit:
                host.count += 1
                return None, None
            if host.idle:
                connection = host.idle[0]
                self._forget(connection)
                return connection, None
            waiter = _Waiter(fresh)
            host.waiters.append(waiter)
            return None, waiter

    def _wait(self, origin: Origin, waiter: _Waiter, patience: Patience) -> Connection | None:
        try:
            with patience.cut.waking(waiter.woken.set):
                waiter.woken.wait(patience.left_s)
        except CutError:
            self._leave(origin, waiter)
            raise
        with self._lock:
            if waiter.served:
                return waiter.connection
            self._hosts[origin].waiters.remove(waiter)
        host, port, _ = origin
        raise ConnectError(
            f"{host}:{port} has its {self._limit} connections, and none came free in time "
            "([egress] connections_per_host)."
        )

    def _leave(self, origin: Origin, waiter: _Waiter) -> None:
        """Stop waiting; what was served meanwhile goes on to the next."""
        with self._lock:
            if not waiter.served:
                self._hosts[origin].waiters.remove(waiter)
                return
        if waiter.connection is None:
            self.release(origin)
        else:
            self.give_back(waiter.connection)

    def _spent(self, now: float) -> list[Connection]:
        """The oldest idle ones, as far as they idled too long or there are too many; forgotten."""
        spent: list[Connection] = []
        for connection in self._idle:
            if now - connection.idle_since <= IDLE_S and len(self._idle) - len(spent) <= IDLE_TOTAL:
                break
            spent.append(connection)
        for connection in spent:
            self._forget(connection)
        return spent

    def _drop(self, connections: list[Connection]) -> None:
        for connection in connections:
            connection.sock.close()
            self.release(connection.origin)

    def _forget(self, connection: Connection) -> None:
        self._hosts[connection.origin].idle.remove(connection)
        del self._idle[connection]

    def _is_spent(self, connection: Connection) -> bool:
        return self._monotonic() - connection.idle_since > IDLE_S or connection.readable()


def _suits(connection: Connection, *, strict: bool) -> bool:
    return not (strict and connection.tls.error)


def _first(host: _Host) -> _Waiter | None:
    return host.waiters.popleft() if host.waiters else None


def _serve(waiter: _Waiter, connection: Connection | None) -> None:
    waiter.served, waiter.connection = True, connection
    waiter.woken.set()
