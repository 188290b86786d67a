"""One connection to whichever of a host's addresses answers first (RFC 8305, in its simple form).

The attempts start a quarter of a second apart, the families by turns, so that a dead IPv6 address
costs a quarter of a second and not the whole time-out.
"""

import errno
import ipaddress
import os
import select
import socket
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from proxy.addresses import Address
from proxy.cuts import Patience

STAGGER_S = 0.25  # RFC 8305, 5: the recommended delay between two attempts
ATTEMPTS = 8  # a name may have thousands of addresses; all are checked, so many are tried


def by_turns(addresses: Sequence[Address]) -> list[Address]:
    """The addresses, families by turns, beginning with the first one's (RFC 8305, 4)."""
    first = [each for each in addresses if each.version == addresses[0].version]
    second = [each for each in addresses if each.version != addresses[0].version]
    return [each for pair in zip_longest(first, second) for each in pair if each is not None]


class Race:
    """The attempts to connect to one host. `run` returns the winner and closes the others."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._running: dict[int, socket.socket] = {}
        self._poller = select.poll()
        self._failure = OSError(errno.ETIMEDOUT, "no answer")

    def run(self, addresses: Sequence[Address], port: int) -> socket.socket:
        """The first connection that is made; blocking, without a time-out.

        Raises:
            OSError: none was made; the last failure.
            CutError: the patience was ended.
        """
        wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller.register(wake, select.POLLIN)
        try:
            with self._patience.cut.waking(lambda: os.eventfd_write(wake, 1)):
                winner = self._run(by_turns(addresses)[:ATTEMPTS], port)
            return self._running.pop(winner)
        finally:
            os.close(wake)
            for loser in self._running.values():
                loser.close()

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
            ready = self._poller.poll(wait_s * 1000 + 1)
            for number, _ in ready:
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
        self._running[attempt.fileno()] = attempt
        self._poller.register(attempt, select.POLLOUT)

    def _made(self, number: int) -> bool:
        """Whether that attempt, which is over, made the connection."""
        attempt = self._running.get(number)
        if attempt is None:  # the wish to end
            return False
        code = attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._failure = OSError(code, os.strerror(code))
            self._poller.unregister(number)
            self._running.pop(number).close()
            return False
        attempt.settimeout(None)
        attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return True
