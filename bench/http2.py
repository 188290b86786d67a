"""Would HTTP/2 to origins be faster? Six HTTP/1.1 connections of ours beside one of HTTP/2.

Not one of the suite's benchmarks: it needs nginx, and the package ``h2``. All clients load the same resources from the same nginx over TLS, each time
with new connections and no session to resume, through a relay that delays every byte by half the
round-trip time. Chromium has at most six requests to one host under way through a proxy that speaks
HTTP/1.1 with it: so the second column is what HTTP/2 towards origins alone could bring, and the
third what it could bring if the browser spoke it to us, too.

    python -m bench.http2 [rounds]
"""

import multiprocessing
import random
import select
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded
from h2.settings import SettingCodes

from bench.certificate import write_certificate
from core.config.settings import EgressSettings, ProxySettings
from net.egress import Egress
from net.http1 import find_head_end, parse_response_head
from proxy.upstream import UpstreamConnector

HOST = "origin.example"
BROWSER_CONNECTIONS = 6
WINDOW = 16 << 20
SETS = (20, 100)
ROUND_TRIPS_MS = (0, 20, 50)


def main() -> None:
    """Print a table: milliseconds for a page, CPU microseconds for a request."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        nginx, plain, multiplexed = start_nginx(folder)
        try:
            heads = ("HTTP/1.1, 6 connections", "HTTP/2, 6 at a time", "HTTP/2, all at once")
            print("resources  round trip ", *(head.rjust(24) for head in heads))
            for count in SETS:
                for round_trip_ms in ROUND_TRIPS_MS:
                    compare(folder, count, round_trip_ms, (plain, multiplexed), rounds)
        finally:
            nginx.terminate()
            nginx.wait()


def compare(folder: Path, count: int, round_trip_ms: int, ports: tuple[int, int], rounds: int) -> None:
    """Load one set in each way, by turns, and print the medians."""
    paths = [f"/{number}" for number in range(count)]
    relays = [DelayRelay(port, round_trip_ms / 2000) for port in ports]
    certificate = str(folder / "origin.pem")
    ways: list[Callable[[], Callable[[], int]]] = [
        lambda: http1(relays[0].port, certificate, paths),
        lambda: http2(relays[1].port, certificate, paths, at_once=BROWSER_CONNECTIONS),
        lambda: http2(relays[1].port, certificate, paths, at_once=count),
    ]
    taken: list[list[tuple[float, float]]] = [[] for _ in ways]
    expected = sum((folder / "www" / path[1:]).stat().st_size for path in paths)
    for _ in range(rounds):
        for way, results in zip(ways, taken, strict=True):
            load = way()  # certificate stores are read once in a process's life
            began, cpu = time.perf_counter(), time.process_time()
            assert load() == expected
            results.append((time.perf_counter() - began, time.process_time() - cpu))
    for relay in relays:
        relay.stop()
    cells = []
    for results in taken:
        page_ms = statistics.median(seconds for seconds, _ in results) * 1000
        request_us = statistics.median(cpu for _, cpu in results) / count * 1e6
        cells.append(f"{page_ms:7.0f} ms {request_us:6.0f} us".rjust(24))
    print(f"{count:9}  {round_trip_ms:7} ms ", *cells, flush=True)


def http1(port: int, certificate: str, paths: Sequence[str]) -> Callable[[], int]:
    """Return a function that loads `paths` by our egress, with a browser's connections, and returns the byte count."""
    settings = EgressSettings(allow=("127.0.0.0/8",), resolve={HOST: f"127.0.0.1:{port}"}, ca_file=certificate)
    egress = Egress(settings, connect_timeout_s=10)
    upstream = UpstreamConnector(egress, ProxySettings(), settings)
    left, received = deque(paths), [0] * BROWSER_CONNECTIONS

    def work(number: int) -> None:
        while left:
            with suppress(IndexError):
                received[number] += ask(upstream, left.popleft())

    def load() -> int:
        numbers = range(BROWSER_CONNECTIONS)
        threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        upstream.close()
        return sum(received)

    return load


def ask(upstream: UpstreamConnector, path: str) -> int:
    """Fetch one path; return the size of the body in bytes."""
    connection = upstream.lend((HOST, 443, True))
    connection.send(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
    data = bytearray()
    while (end := find_head_end(data)) < 0:
        data += connection.sock.recv(16384)
    length = int(parse_response_head(bytes(data[:end])).get(b"content-length") or 0)
    size = len(data) - end
    while size < length:
        size += len(connection.sock.recv(16384))
    upstream.give_back(connection)
    return size


def http2(port: int, certificate: str, paths: Sequence[str], *, at_once: int) -> Callable[[], int]:
    """Return a function that loads `paths` on one connection whose windows never close, and returns the byte count."""
    context = ssl.create_default_context(cafile=certificate)
    context.set_alpn_protocols(["h2"])

    def load() -> int:
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with context.wrap_socket(raw, server_hostname=HOST) as sock:
                return converse(sock, deque(paths), at_once)

    return load


def converse(sock: ssl.SSLSocket, left: deque[str], at_once: int) -> int:
    """Ask for every path; bytes of the bodies."""
    size, under_way = 0, 0
    spoken = H2Connection(H2Configuration(header_encoding=None))
    spoken.initiate_connection()
    spoken.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
    spoken.increment_flow_control_window(WINDOW)
    while left or under_way:
        while left and under_way < at_once:
            headers = [(":method", "GET"), (":authority", HOST), (":scheme", "https")]
            stream = spoken.get_next_available_stream_id()
            spoken.send_headers(stream, [*headers, (":path", left.popleft())], end_stream=True)
            under_way += 1
        if frames := spoken.data_to_send():
            sock.sendall(frames)
        for event in spoken.receive_data(sock.recv(65536)):
            if isinstance(event, DataReceived):
                size += len(event.data)
            under_way -= isinstance(event, StreamEnded)
    return size


class DelayRelay:
    """A process that passes bytes on, each after a delay; TCP's own round trips are not delayed."""

    def __init__(self, target: int, delay_s: float) -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = listener.getsockname()[1]
        self._process = multiprocessing.Process(target=_relay, args=(listener, target, delay_s), daemon=True)
        self._process.start()
        listener.close()

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.join()


def _relay(listener: socket.socket, target: int, delay_s: float) -> None:
    peers: dict[socket.socket, socket.socket] = {}
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()
    while True:
        timeout = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
        readable, _, _ = select.select([listener, *peers], [], [], timeout)
        now = time.monotonic()
        for sock in readable:
            if sock is listener:
                client, server = (listener.accept()[0], socket.create_connection(("127.0.0.1", target)))
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peers[client], peers[server] = server, client
                continue
            try:
                data = sock.recv(65536)
            except OSError:
                data = b""
            waiting.append((now + delay_s, peers[sock], data))
            if not data:
                del peers[sock]
        while waiting and waiting[0][0] <= time.monotonic():
            _, sock, data = waiting.popleft()
            with suppress(OSError):
                if data:
                    sock.sendall(data)
                else:
                    sock.shutdown(socket.SHUT_WR)


def start_nginx(folder: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start nginx with one port for HTTP/1.1 and one for HTTP/2; it serves resources of 2 to 50 KB."""
    www = folder / "www"
    www.mkdir()
    sizes = random.Random(1)
    for number in range(max(SETS)):
        (www / str(number)).write_bytes(sizes.randbytes(sizes.randint(2_000, 50_000)))
    folder.chmod(0o755)
    write_certificate(folder / "origin.pem", HOST)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = one.getsockname()[1], two.getsockname()[1]
    servers = "".join(
        f"server {{ listen 127.0.0.1:{port} ssl{http2}; root {www};"
        f" ssl_certificate {folder}/origin.pem; ssl_certificate_key {folder}/origin.pem; }}\n"
        for port, http2 in zip(ports, ("", " http2"), strict=True)
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/log;"
        "events { worker_connections 1024; }\n"
        f"http {{ access_log off; sendfile on; tcp_nodelay on;\n{servers}}}\n"
    )
    process = subprocess.Popen(["nginx", "-c", str(config)], stderr=subprocess.DEVNULL)
    for _ in range(200):
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", ports[1])).close()
            return process, *ports
        threading.Event().wait(0.02)
    process.terminate()
    raise SystemExit(f"nginx does not start: {(folder / 'log').read_text()}")


if __name__ == "__main__":
    main()
