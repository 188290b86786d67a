"""A client that uses a proxy as a browser does: CONNECT, TLS, as many requests as it may.

Run as a process of its own, so that it does not share the interpreter with what is measured:
``python -m bench.proxy_client PROXY_PORT AUTH HOST PORT SIZE COUNT CONNECTIONS KEY SAME`` prints
the seconds from the first request to the last response.
"""

import base64
import socket
import ssl
import sys

from bench.turns import take_turns

BLOCK = 1 << 14  # a TLS record


class ProxyLoadClient:
    """One connection through the proxy, opened again whenever the proxy has closed it."""

    def __init__(self, port: int, auth: str, host: str, origin_port: int) -> None:
        self._address = ("127.0.0.1", port)
        credentials = base64.b64encode(auth.encode()).decode()
        authorization = f"Proxy-Authorization: Basic {credentials}\r\n" if auth != "-" else ""
        target = f"{host}:{origin_port}"
        self._connect = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n".encode()
        self._host = host
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._tls: ssl.SSLSocket | None = None
        self._buffer = bytearray(BLOCK)

    def get(self, path: str, headers: str = "") -> int:
        """Fetch the path; how many bytes its body had."""
        tls = self._tls or self._open()
        tls.sendall(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n{headers}\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            piece = tls.recv(BLOCK)
            if not piece:
                raise ConnectionError("no response")
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise ConnectionError(head.decode("latin-1"))
        lines = head.lower().split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        left = length - len(rest)
        while left > 0:
            got = tls.recv_into(self._buffer)
            if not got:
                raise ConnectionError("cut short")
            left -= got
        if b"connection: close" in lines:
            tls.close()
            self._tls = None
        return length

    def _open(self) -> ssl.SSLSocket:
        raw = socket.create_connection(self._address)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.sendall(self._connect)
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = raw.recv(BLOCK)
            if not piece:
                raise ConnectionError("no tunnel")
            answer += piece
        if b" 200 " not in answer.split(b"\r\n", 1)[0]:
            raise ConnectionError(answer.decode("latin-1"))
        self._tls = self._context.wrap_socket(raw, server_hostname=self._host)
        return self._tls


def main() -> None:
    """Fetch COUNT URLs over CONNECTIONS connections; print the seconds it took."""
    port, auth, host, origin_port, size, count, connections, key, same = sys.argv[1:]

    def fetch(client: ProxyLoadClient, number: int) -> None:
        query = f"?{number}" if same == "1" else ""
        client.get(f"/{size}/{key}{'' if same == '1' else number}{query}")

    def connect() -> ProxyLoadClient:
        return ProxyLoadClient(int(port), auth, host, int(origin_port))

    print(take_turns(int(count), int(connections), connect, fetch))


if __name__ == "__main__":
    main()
