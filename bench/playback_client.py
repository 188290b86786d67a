"""A client that asks an archive as browsers do: keep-alive connections, one request at a time on each.

Run as a process of its own, so that it does not share the interpreter with what is measured:
``python -m bench.playback_client PORT COUNT CONNECTIONS PATHS [ETAGS]`` asks COUNT times, by turns for
the paths in the file PATHS, and prints ``{"seconds": …, "ms": [median, p95], "bytes": …}``. With ETAGS
each path is asked for once before, and then only whether it has changed.
"""

import json
import socket
import sys
import time
from pathlib import Path

from bench.turns import take_turns

BLOCK = 1 << 18


class ReplayClient:
    """One connection, opened again whenever the server has closed it."""

    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self._socket: socket.socket | None = None

    def get(self, path: str, etag: str = "") -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        client = self._socket or self._open()
        known = f"If-None-Match: {etag}\r\n" if etag else ""
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._address[1]}\r\n{known}\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            piece = client.recv(BLOCK)
            if not piece:
                raise ConnectionError("no response")
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        status = int(first.split()[1])
        if status == 304:
            return status, headers, b""
        parts = [body]
        if "content-length" in headers:
            left = int(headers["content-length"]) - len(body)
            while left > 0:
                piece = client.recv(BLOCK)
                if not piece:
                    raise ConnectionError("cut short")
                parts.append(piece)
                left -= len(piece)
        else:
            self._chunks(client, parts)
        if headers.get("connection", "").lower() == "close":
            client.close()
            self._socket = None
        return status, headers, b"".join(parts)

    @staticmethod
    def _chunks(client: socket.socket, parts: list[bytes]) -> None:
        while not b"".join(parts[-2:]).endswith(b"0\r\n\r\n"):
            piece = client.recv(BLOCK)
            if not piece:
                return
            parts.append(piece)

    def _open(self) -> socket.socket:
        self._socket = socket.create_connection(self._address, timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket


def check(path: str, status: int, expected: int) -> None:
    """Raise ConnectionError for an unexpected status, so that nothing else is measured."""
    if status != expected:
        raise ConnectionError(f"{status} for {path}")


def main() -> None:
    """Ask COUNT times; print what it took."""
    port, count, connections = map(int, sys.argv[1:4])
    paths = Path(sys.argv[4]).read_text().split("\n")
    etags = {}
    if len(sys.argv) > 5:
        asking = ReplayClient(port)
        etags = {path: asking.get(path)[1]["etag"] for path in paths}
    took: list[float] = []
    sizes: list[int] = []

    def fetch(client: ReplayClient, number: int) -> None:
        path = paths[number % len(paths)]
        begun = time.perf_counter()
        status, _, body = client.get(path, etags.get(path, ""))
        took.append(time.perf_counter() - begun)
        check(path, status, 304 if etags else 200)
        sizes.append(len(body))

    seconds = take_turns(count, connections, lambda: ReplayClient(port), fetch)
    took.sort()
    ms = [1000 * took[len(took) // 2], 1000 * took[len(took) * 95 // 100]]
    print(json.dumps({"seconds": seconds, "ms": ms, "bytes": sum(sizes)}))


if __name__ == "__main__":
    main()
