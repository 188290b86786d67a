"""An HTTPS origin for the proxy benchmark: keep-alive, bodies of any size, each path its own payload.

``GET /<bytes>/<key>``: a body of that many incompressible bytes that depends on the key alone, not on a query.
``python -m bench.origin CERT`` prints its port and serves until standard input ends.
"""

import hashlib
import os
import socket
import ssl
import sys
import threading
from collections.abc import Iterator

BLOCK = 1 << 16
SHORT = 1 << 16  # a body up to here goes out in one piece with its head


def body_of(size: int, key: bytes, noise: bytes) -> Iterator[bytes | memoryview]:
    """Yield `size` bytes that no compressor shortens and no two keys share; most of them are not copied."""
    stamp = hashlib.sha256(key).digest()
    first = min(size - len(stamp), SHORT)
    yield stamp + noise[:first]
    left = size - len(stamp) - first
    while left > 0:
        part = memoryview(noise)[:left]
        yield part
        left -= len(part)


def serve(connection: socket.socket, context: ssl.SSLContext, noise: bytes) -> None:
    """Answer one connection until it ends."""
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(connection, server_side=True) as tls:
            unread = b""
            while True:
                while b"\r\n\r\n" not in unread:
                    piece = tls.recv(BLOCK)
                    if not piece:
                        return
                    unread += piece
                head, _, unread = unread.partition(b"\r\n\r\n")
                path = head.split(b" ", 2)[1]
                _, size, key = path.partition(b"?")[0].split(b"/", 2)
                head = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n" % int(size)
                for part in body_of(int(size), key, noise):
                    tls.sendall(head + part if head else part)
                    head = b""
    except OSError:
        return


def main() -> None:
    """Serve until standard input ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1])
    noise = os.urandom(1 << 20)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listener.getsockname()[1], flush=True)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, context, noise), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
