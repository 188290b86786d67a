"""Thread-safe resolver (getaddrinfo), bounded in time, threads and memory.

The system's resolver cannot be interrupted: lookups run in at most `LOOKUPS_AT_ONCE` threads; callers wait at most
their own time limit; concurrent requests for a name share one lookup.
"""

import ipaddress
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from net.address_policy import Addresses
from net.connect_errors import UnknownHostError
from net.timeouts import CancellableTimeout

Lookup = Callable[[str, int], list[str]]

FOUND_S = 60.0  # browsers keep an answer as long; the address is checked on every use all the same
NOT_FOUND_S = 5.0
CACHE_SIZE = 4096
LOOKUPS_AT_ONCE = 128
LOOKUP_LIMIT_S = 10.0


def system_lookup(host: str, port: int) -> list[str]:
    """Resolve the host with the system's resolver, or raise UnknownHostError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise UnknownHostError(f"{host} does not resolve: {error}.") from error
    return [str(info[4][0]) for info in found]


@dataclass(frozen=True, slots=True)
class _PendingLookup:
    host: str
    port: int
    due: float
    answer: Future[Addresses]


class Resolver:
    """Resolver with a cache. Thread-safe."""

    def __init__(self, lookup: Lookup = system_lookup, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lookup = lookup
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, Addresses | UnknownHostError]] = {}
        self._answers: dict[str, Future[Addresses]] = {}
        self._pending: deque[_PendingLookup] = deque()
        self._threads = 0

    def addresses(self, host: str, port: int, *, patience: CancellableTimeout) -> Addresses:
        """Return the host's addresses, at least one; UnknownHostError or WaitCancelledError otherwise."""
        timeout_s = min(patience.left_s, LOOKUP_LIMIT_S)
        answer = self._enqueue(host, port, timeout_s)
        if not answer.done():
            over = threading.Event()
            answer.add_done_callback(lambda _: over.set())
            with patience.cut.waking(over.set):
                over.wait(timeout_s)
            if not answer.done():
                raise UnknownHostError(f"{host} did not resolve within {timeout_s:.0f} s.")
        return answer.result()

    def _enqueue(self, host: str, port: int, timeout_s: float) -> Future[Addresses]:
        now = self._monotonic()
        with self._lock:
            known = self._known.get(host)
            if known is not None and known[0] > now:
                settled: Future[Addresses] = Future()
                if isinstance(known[1], UnknownHostError):
                    # A fresh one: an exception that is raised twice grows its traceback.
                    settled.set_exception(UnknownHostError(str(known[1])))
                else:
                    settled.set_result(known[1])
                return settled
            answer = self._answers.get(host)
            if answer is not None:
                return answer
            answer = self._answers[host] = Future()
            self._pending.append(_PendingLookup(host, port, now + timeout_s, answer))
            if self._threads < LOOKUPS_AT_ONCE:
                self._threads += 1
                threading.Thread(target=self._work, name="lookup", daemon=True).start()
            return answer

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._pending:
                    self._threads -= 1
                    return
                pending = self._pending.popleft()
            outcome = self._resolve(pending)
            lifetime = FOUND_S if isinstance(outcome, tuple) else NOT_FOUND_S
            with self._lock:
                del self._answers[pending.host]
                self._known.pop(pending.host, None)  # so that it goes to the end, as the newest
                if len(self._known) >= CACHE_SIZE:
                    del self._known[next(iter(self._known))]
                self._known[pending.host] = (self._monotonic() + lifetime, outcome)
            if isinstance(outcome, tuple):
                pending.answer.set_result(outcome)
            else:
                pending.answer.set_exception(outcome)

    def _resolve(self, pending: _PendingLookup) -> Addresses | UnknownHostError:
        if self._monotonic() > pending.due:
            return UnknownHostError(f"{pending.host} was not looked up: too many names at once.")
        try:
            texts = dict.fromkeys(self._lookup(pending.host, pending.port))
            # A zone id ("%eth0") belongs to link-local addresses, which are not on the web.
            addresses = tuple(ipaddress.ip_address(text.partition("%")[0]) for text in texts)
        except UnknownHostError as error:
            return error
        except Exception as error:  # noqa: BLE001 whoever waits must be told, whatever it was
            return UnknownHostError(f"{pending.host} does not resolve: {error}.")
        return addresses or UnknownHostError(f"{pending.host} has no address.")
