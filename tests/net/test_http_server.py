"""Limits on connections of the shared HTTP server, over real sockets."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from core.errors import UnavailableError
from net.http_server import ConnectionLimits, HttpServer, connection_limit, open_listener, running

_GET = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"
_LONG = 64 << 20  # more than any socket buffers


class _HeldApplication:
    """Answers ``/`` when the request has come, ``/held`` when released, and ``/long`` with more than sockets buffer."""

    def __init__(self) -> None:
        self.begun = asyncio.Semaphore(0)
        self.released = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun.release()
        if scope["path"] == "/held":
            await self.released.wait()
        while scope["method"] == "POST":
            if not (await receive()).get("more_body"):  # the body's end, or the peer left
                break
        body = b"x" * _LONG if scope["path"] == "/long" else b"ok"
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        if scope["path"] == "/long":
            while (await receive())["type"] != "http.disconnect":
                pass
            self.left.set()


@asynccontextmanager
async def _served(limits: ConnectionLimits) -> AsyncIterator[tuple[_HeldApplication, tuple[str, int]]]:
    application = _HeldApplication()
    listener = open_listener("127.0.0.1", 0)
    address = listener.getsockname()[:2]
    server = HttpServer(application, limits, timeout_graceful_shutdown=1)
    async with running(server, listener):
        yield application, address


async def _ask(address: tuple[str, int], request: bytes = _GET, **more: Any) -> bytes:
    reader, writer = await asyncio.open_connection(*address, **more)
    with contextlib.closing(writer):
        writer.write(request)
        return await reader.readline()


async def _end_of(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(120):
        with contextlib.suppress(ConnectionResetError):
            while await reader.read(1 << 20):
                pass


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HTTP/1.1\r\nHo", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx", _GET],
    ids=["silent", "head", "body", "kept-alive"],
)
async def test_waiting_connections_make_room_for_who_asks(begun: bytes) -> None:
    """Idle ones, begun heads, begun bodies and kept-alive connections hold nobody up."""
    async with _served(ConnectionLimits(5)) as (_, address):
        idle = []
        for _ in range(12):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(begun)
            idle.append(writer)
            if begun == _GET:
                await reader.readline()
        answer = await _ask(address)
        for writer in idle:
            writer.close()

    assert answer == b"HTTP/1.1 200 OK\r\n"


async def test_one_peer_makes_room_out_of_its_own_connections() -> None:
    """Beyond its share a peer closes its own, so that another's connection stays."""
    async with _served(ConnectionLimits(10, per_peer=3)) as (_, address):
        other_reader, other = await asyncio.open_connection(*address, local_addr=("127.0.0.2", 0))
        many = [await asyncio.open_connection(*address) for _ in range(20)]
        answers = [await _ask(address)]
        other.write(_GET)
        answers.append(await other_reader.readline())
        for _, writer in many:
            writer.close()
        other.close()

    assert answers == [b"HTTP/1.1 200 OK\r\n"] * 2


async def test_when_all_are_being_answered_new_requests_get_503() -> None:
    """Whoever is being answered is never dropped for another."""
    async with _served(ConnectionLimits(3)) as (application, address):
        held = [await asyncio.open_connection(*address) for _ in range(3)]
        for _, writer in held:
            writer.write(_GET.replace(b"/ ", b"/held ", 1))
            await application.begun.acquire()
        refused = await _ask(address)
        application.released.set()
        answers = [await reader.readline() for reader, _ in held]
        for _, writer in held:
            writer.close()

    assert refused == b"HTTP/1.1 503 Service Unavailable\r\n"
    assert answers == [b"HTTP/1.1 200 OK\r\n"] * 3


@pytest.mark.parametrize("first", [b"", _GET], ids=["first", "second"])
async def test_a_head_that_does_not_come_ends_the_connection(first: bytes) -> None:
    """The first head of a connection and later ones, also when they arrive in part."""
    async with _served(ConnectionLimits(5, head_s=0.2)) as (_, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(first)
        if first:
            assert await reader.readuntil(b"ok")
        writer.write(b"GET / HT")
        await _end_of(reader)
        writer.close()


async def test_a_reader_that_takes_nothing_is_dropped() -> None:
    """The answer that is buffered for a client that stopped reading is given up."""
    async with _served(ConnectionLimits(5, stall_s=0.2)) as (application, address):
        client = socket.create_connection(address)
        with contextlib.closing(client):
            client.sendall(_GET.replace(b"/ ", b"/long ", 1))
            async with asyncio.timeout(120):
                await application.left.wait()


@pytest.mark.slow
async def test_a_slow_reader_that_goes_on_gets_all() -> None:
    """The limit is for standing still, not for the whole answer."""
    async with _served(ConnectionLimits(5, stall_s=5)) as (_, address):
        reader, writer = await asyncio.open_connection(*address, limit=4_096)
        writer.write(_GET.replace(b"/ ", b"/long ", 1))
        await reader.readuntil(b"\r\n\r\n")
        taken = len(await reader.readexactly(_LONG))
        writer.close()

    assert taken == _LONG


async def test_pipelined_requests_are_answered_in_turn() -> None:
    """A request that comes with the one before it does not wait for the head's timer."""
    async with _served(ConnectionLimits(5)) as (_, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(_GET * 3)
        for _ in range(3):
            assert await reader.readuntil(b"ok")
        writer.close()


def test_a_port_that_is_taken_is_named() -> None:
    """The sentence says which, and what to do."""
    with open_listener("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UnavailableError, match=f"port {port}.*choose another"):
            open_listener("127.0.0.1", port)


def test_the_number_of_connections_leaves_room_for_other_files() -> None:
    """Each connection that needs two files counts twice."""
    assert 16 <= connection_limit(4_000, files_each=100) <= connection_limit(4_000) <= 4_000
