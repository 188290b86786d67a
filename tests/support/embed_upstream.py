"""An HTTP origin on a raw socket that sends the bytes a test specifies, and records its requests."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class EmbedUpstream:
    """A running origin.

    Attributes:
        origin: its address.
        answer: returns the bytes sent for a request's target; then the connection is closed.
        requests: heads of the requests.
        bodies: lengths of their bodies.
    """

    origin: str = ""
    port: int = 0
    answer: Callable[[str], bytes | Iterator[bytes]] = lambda _: b""
    requests: list[bytes] = field(default_factory=list)
    bodies: list[int] = field(default_factory=list)

    def fields(self, number: int = -1) -> dict[str, str]:
        """Return the header fields of a request, with names in lower case."""
        lines = self.requests[number].decode("latin-1").split("\r\n")[1:]
        return {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}


def page(body: bytes, *fields: str, status: str = "200 OK", kind: str = "text/html; charset=utf-8") -> bytes:
    """Return a response with that body."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body


@contextmanager
def running_upstream() -> Iterator[EmbedUpstream]:
    """Run an origin on a free port."""
    upstream = EmbedUpstream()
    server = socket.create_server(("127.0.0.1", 0))
    upstream.port = server.getsockname()[1]
    upstream.origin = f"http://127.0.0.1:{upstream.port}"
    threads: list[threading.Thread] = []

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(120)
            data = b""
            while b"\r\n\r\n" not in data:
                more = client.recv(65_536)
                if not more:
                    return
                data += more
            head, _, body = data.partition(b"\r\n\r\n")
            upstream.requests.append(head)
            upstream.bodies.append(_body_length(client, head, body))
            response = upstream.answer(head.split(b" ")[1].decode("latin-1"))
            for part in (response,) if isinstance(response, bytes) else response:
                client.sendall(part)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65_536):
                pass

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            thread = threading.Thread(target=serve, args=(client,), daemon=True)
            threads.append(thread)
            thread.start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield upstream
    with suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(120)
    for each in threads:
        each.join(120)


def _body_length(client: socket.socket, head: bytes, body: bytes) -> int:
    lowered = head.lower()
    size = len(body)
    if b"transfer-encoding: chunked" in lowered:
        tail = body[-5:]
        while not tail.endswith(b"0\r\n\r\n"):
            more = client.recv(1 << 20)
            size += len(more)
            tail = (tail + more)[-5:]
        return size
    if b"content-length:" not in lowered:
        return size
    length = int(lowered.partition(b"content-length:")[2].partition(b"\r\n")[0])
    while size < length:
        more = client.recv(1 << 20)
        if not more:
            return size
        size += len(more)
    return size
