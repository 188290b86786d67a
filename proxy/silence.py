"""Noticing that the other machine of a TCP connection is gone: the system asks, and then says so."""

import socket
from asyncio.trsock import TransportSocket

# Nothing heard for so long: asked so often, with such pauses; then the connection is over.
SILENCE_S, PROBE_S, PROBES = 15, 5, 3


def watch(sock: socket.socket | TransportSocket) -> None:
    """End the connection with an error half a minute after the other machine went (tcp(7))."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
    gone_ms = 1000 * (SILENCE_S + PROBE_S * PROBES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, gone_ms)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
