"""A TLS relay that keeps nothing: what a proxy in Python could reach at most on this machine.

``python -m bench.relay CERTIFICATE``: takes CONNECT, speaks TLS to both sides, passes each response
on as it comes, and does nothing else: no digests, no records. Prints its port; ends with its input.
"""

import socket
import ssl
import sys
import threading

BLOCK = 1 << 14  # a TLS record


def read_head(sock: socket.socket) -> bytes:
    """Return a message head and what came with it; empty at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(BLOCK)
        if not piece:
            return b""
        data += piece
    return data


def relay(browser: socket.socket, certificate: str) -> None:
    """Serve one connection until it ends."""
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(certificate)
    outside = ssl.create_default_context()
    outside.check_hostname = False
    outside.verify_mode = ssl.CERT_NONE
    host, port = read_head(browser).split(b" ", 2)[1].decode().rsplit(":", 1)
    browser.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    origin = socket.create_connection((host, int(port)))
    for sock in (browser, origin):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with (
        inside.wrap_socket(browser, server_side=True) as tls_browser,
        outside.wrap_socket(origin, server_hostname=host) as tls_origin,
    ):
        while request := read_head(tls_browser):
            tls_origin.sendall(request)
            data = read_head(tls_origin)
            head, _, rest = data.partition(b"\r\n\r\n")
            left = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) - len(rest)
            tls_browser.sendall(data)
            while left > 0:
                piece = tls_origin.recv(BLOCK)
                tls_browser.sendall(piece)
                left -= len(piece)


def main() -> None:
    """Serve until standard input ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listener.getsockname()[1], flush=True)

    def accept() -> None:
        while True:
            browser, _ = listener.accept()
            threading.Thread(target=relay, args=(browser, sys.argv[1]), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
