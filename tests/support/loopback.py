"""HTTP on this machine: requests without the web's certificates, which take 30 ms to load, and servers of a test."""

import ssl
import sys
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import httpx

get = partial(httpx.get, verify=False, timeout=120)
post = partial(httpx.post, verify=False, timeout=120)


class LoopbackServer(ThreadingHTTPServer):
    """HTTP server that answers within its block; that a client has left is no error."""

    daemon_threads = True
    request_queue_size = 128  # a browser opens more at once than the usual 5

    def __init__(
        self, handler: Callable[..., BaseHTTPRequestHandler], *, port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        """Take the port, any free one by default."""
        super().__init__(("127.0.0.1", port), handler)
        self.origin = f"http{'s' if tls else ''}://127.0.0.1:{self.server_port}"
        if tls is not None:  # each connection's thread makes the handshake
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback of any other error."""
        if not isinstance(sys.exception(), ConnectionError | ssl.SSLError):
            super().handle_error(request, client_address)
