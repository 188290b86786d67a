"""Timeouts of blocking sockets: cancellable deadlines and TCP keep-alive."""

import socket
import threading
import time
from asyncio.trsock import TransportSocket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from core.errors import TransientError

# Keep-alive: idle time, number of probes and their interval before the connection is closed.
SILENCE_S, PROBE_S, PROBES = 15, 5, 3


def enable_keepalive(sock: socket.socket | TransportSocket) -> None:
    """Enable TCP keep-alive: an error half a minute after the peer disappeared (tcp(7))."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
    gone_ms = 1000 * (SILENCE_S + PROBE_S * PROBES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, gone_ms)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class WaitCancelledError(TransientError):
    """Cancellation of a wait."""


class CancelSignal:
    """One-time cancellation, set by any thread, that wakes all waiters by their functions (`waking`)."""

    __slots__ = ("_lock", "_wakers", "is_set")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], object]] = []
        self.is_set = False

    def set(self) -> None:
        """Cancel and wake all waiters. A wake-up function must neither block nor raise."""
        with self._lock:
            self.is_set = True
            for wake in self._wakers:
                wake()

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` at `set` during the block; WaitCancelledError if that was before or meanwhile."""
        with self._lock:
            if self.is_set:
                raise WaitCancelledError("It was cancelled before it started.")
            self._wakers.append(wake)
        try:
            yield
        except Exception as error:
            if self.is_set:  # what failed, failed because of it
                raise WaitCancelledError("It was ended.") from error
            raise
        finally:
            with self._lock:
                self._wakers.remove(wake)
        if self.is_set:
            raise WaitCancelledError("It was ended.")


class CancellableTimeout:
    """Time limit of several steps together, with a signal that ends it earlier."""

    __slots__ = ("_end", "cut")

    def __init__(self, timeout_s: float, *, cut: CancelSignal | None = None) -> None:
        self.cut = cut or CancelSignal()
        self._end = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """Return the remaining seconds; zero after the end."""
        return max(self._end - time.monotonic(), 0.0)

    def renewed(self, timeout_s: float) -> "CancellableTimeout":
        """Return a new time limit with the same signal."""
        return CancellableTimeout(timeout_s, cut=self.cut)
