"""Ports for servers that the tests start by number."""

import itertools
import os
import socket

_FIRST, _EACH = 12_000, 5_000  # below the range that the kernel gives to whoever asks for any port
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw3").removeprefix("gw")) % 4
_ports = (_FIRST + _WORKER * _EACH + place % _EACH for place in itertools.count(os.getpid() % _EACH // 2 * 2, 2))


def free_port() -> int:
    """Return a port that nobody listens on, and whose next one is free, too, for copies.

    Each process of the suite has ports of its own, so that none is taken between this and its use.
    """
    return next(port for port in _ports if _is_free(port) and _is_free(port + 1))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
