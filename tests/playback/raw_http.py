"""A client that sends bytes, whatever they are, and reads all that comes back."""

import re
import socket
from contextlib import suppress
from urllib.parse import urlsplit

from tests.support.playback_fixtures import StoredReply

_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)+)\r\n")


def exchange(origin: str, sent: bytes, *, ends: bool = True) -> bytes:
    """Send bytes and return the response until the server closes; `ends`: close the sending side."""
    address = urlsplit(origin)
    received = b""
    with socket.create_connection((address.hostname, address.port), timeout=120) as client:
        with suppress(OSError):
            client.sendall(sent)
            if ends:
                client.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while piece := client.recv(65_536):
                received += piece
    return received


def replies(received: bytes) -> list[StoredReply]:
    """Parse the responses of a server; assert that the bytes contain nothing else."""
    responses = []
    while received:
        head = _HEAD.match(received)
        assert head is not None, received[:200]
        lines = head[2].decode("latin-1").split("\r\n")[:-1]
        headers = [(line.partition(": ")[0], line.partition(": ")[2]) for line in lines]
        length = int({name.lower(): value for name, value in headers}.get("content-length", "0"))
        body = received[head.end() :]
        responses.append(StoredReply(int(head[1]), headers, body[:length]))
        received = body[length:]
    return responses
