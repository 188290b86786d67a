"""Replay's HTTP server: gevent's, with nothing said that the gate does not say."""

import os
import socket
import threading
from collections.abc import Callable
from typing import Any
from wsgiref.types import WSGIApplication

import gevent
from gevent.pool import Pool
from gevent.pywsgi import WSGIServer
from pywb.utils.geventserver import RequestURIWSGIHandler

from playback.replay.gate import Gate, Policy, response_headers

_MOST_CONNECTIONS = 200


class ReplayServer(WSGIServer):  # type: ignore[misc]
    """A server bound to `address`, which answers once `answer_with` has said what."""

    policy: Policy

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, log=None, handler_class=_Handler, spawn=Pool(_MOST_CONNECTIONS))
        self.init_socket()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self.address[1]
        return port

    def answer_with(self, application: WSGIApplication, policy: Policy) -> None:
        """Put `application` behind the gate and serve it."""
        self.policy = policy
        self.application = Gate(application, policy)

    def handle(self, client: socket.socket, address: object) -> None:
        """Serve one connection."""
        # Without it a kept-alive connection waits 40 ms for the acknowledgement of each answer.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().handle(client, address)


class _Handler(RequestURIWSGIHandler):  # type: ignore[misc]
    """Answers what is no HTTP with the headers of everything else (P-12)."""

    def handle_one_request(self) -> Any:
        result = super().handle_one_request()
        if isinstance(result, tuple):
            status = "414 URI Too Long" if result[0] == "414" else "400 Bad Request"
            return result[0], _bare_response(self.server.policy, status)
        return result

    def log_error(self, message: str, *arguments: object) -> None:
        """What a client does wrong is no event of ours."""


def _bare_response(policy: Policy, status: str) -> bytes:
    headers = [("Connection", "close"), *response_headers(policy, status, "", [], 0)]
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def on_end_of(descriptor: int, call: Callable[[], None]) -> None:
    """Have `call` called in a greenlet when that stream has ended, e.g. because a parent died."""
    watcher = gevent.get_hub().loop.async_()
    watcher.start(gevent.spawn, call)  # the loop itself must not block, and stopping a server does

    def wait() -> None:
        # Unbuffered: at exit a buffer's lock, held by this thread, would abort the process.
        while os.read(descriptor, 4096):
            pass
        watcher.send()

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()
