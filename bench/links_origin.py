"""The web of the benchmark of checks, in a process of its own: a name server and thousands of hosts.

``python -m bench.links_origin DELAY_S [CERTIFICATE]`` prints its ports as a line of JSON and serves until
its input ends: HTTP, and HTTPS with that certificate, on all of 127.0.0.0/8, and a name server that gives each ``nN.test`` an address there.
Answers come after a delay drawn about it, as they do from far away, so that connections stay open side by side.

    /fine/N   200 with type and length
    /get/N    405 to HEAD, the page to GET
    /moved/N  301 to /fine/N
    /gone/N   404, as is whatever ends in no number
    /stats    how many connections were open at most, and how many requests came
"""

import asyncio
import json
import random
import ssl
import struct
import sys
from typing import cast

import uvloop

PAGE = b"<!doctype html><title>A page</title><h1>A page</h1>" + b"<p>Words of a page.</p>" * 80
_FINE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(PAGE)
_ERROR = b"Content-Type: text/html\r\nContent-Length: 0\r\n\r\n"
_OCTETS = 250
_RNG = random.Random(1)


class OriginStats:
    """Counts of requests."""

    open = most = requests = 0


class LinkOriginConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, stats: OriginStats, delay_s: float) -> None:
        self._stats = stats
        self._delay_s = delay_s
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it."""
        self._transport = cast("asyncio.Transport", transport)
        self._stats.open += 1
        self._stats.most = max(self._stats.most, self._stats.open)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 asyncio's signature
        """Count it out."""
        self._stats.open -= 1

    def data_received(self, data: bytes) -> None:
        """Answer, later."""
        self._data += data
        if not self._data.endswith(b"\r\n\r\n"):
            return
        method, path, _ = self._data.split(b" ", 2)
        self._data = b""
        self._stats.requests += 1
        if path == b"/stats":
            self._send(json.dumps({"most": self._stats.most, "open": self._stats.open}).encode())
            return
        # Hosts are not all equally far away; answers in step would come in waves, with nothing between.
        delay_s = self._delay_s * _RNG.uniform(0.2, 1.8)
        asyncio.get_running_loop().call_later(delay_s, self._answer, method, path)

    def _answer(self, method: bytes, path: bytes) -> None:
        kind = path.split(b"/")[1]
        if kind == b"gone" or not path.rpartition(b"/")[2].isdigit():
            data = b"HTTP/1.1 404 Not Found\r\n" + _ERROR
        elif kind == b"moved":
            to = path.replace(b"moved", b"fine")
            data = b"HTTP/1.1 301 Moved\r\nLocation: " + to + b"\r\n" + _ERROR
        elif kind == b"get" and method == b"HEAD":
            data = b"HTTP/1.1 405 No\r\n" + _ERROR
        else:
            data = _FINE if method == b"HEAD" else _FINE + PAGE
        if not self._transport.is_closing():
            self._transport.write(data)

    def _send(self, body: bytes) -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


class OriginNameServer(asyncio.DatagramProtocol):
    """The name server: an address for each ``nN.test``, none of IPv6, and nothing else exists."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer at once."""
        question_end = data.index(b"\0", 12) + 5
        question = data[12:question_end]
        label = data[13 : 13 + data[12]]
        kind = data[question_end - 4 : question_end - 2]
        if not (label.startswith(b"n") and label[1:].isdigit()):
            flags, records = 0x8183, b""
        elif kind == b"\0\1":
            number = int(label[1:])
            address = bytes((127, 1 + number // _OCTETS, number % _OCTETS, 1))
            flags, records = 0x8180, b"\xc0\x0c\0\1\0\1\0\0\1\x2c\0\4" + address
        else:
            flags, records = 0x8180, b""
        head = data[:2] + struct.pack("!HHHHH", flags, 1, 1 if records else 0, 0, 0)
        self._transport.sendto(head + question + records, addr)


async def _serve(delay_s: float, certificate: str) -> None:
    loop = asyncio.get_running_loop()
    stats = OriginStats()
    server = await loop.create_server(lambda: LinkOriginConnection(stats, delay_s), "0.0.0.0", 0, backlog=8192)
    names, _ = await loop.create_datagram_endpoint(OriginNameServer, local_addr=("127.0.0.1", 0))
    ports = {"http": server.sockets[0].getsockname()[1], "names": names.get_extra_info("sockname")[1]}
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        secure = await loop.create_server(
            lambda: LinkOriginConnection(stats, delay_s), "0.0.0.0", 0, backlog=8192, ssl=context
        )
        ports["https"] = secure.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    server.close()


if __name__ == "__main__":
    uvloop.run(_serve(float(sys.argv[1]), "".join(sys.argv[2:])))
