"""Tests of `proxy.control.frames`."""

import asyncio
import hmac
import socket
import threading
from contextlib import closing, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BodyTooLargeError, ConfigError, ProxyUnavailableError
from proxy.control import handshake
from proxy.control.client import ProxyClient
from proxy.control.frames import pack_frame, receive_frame
from proxy.control.handshake import HELLO, NONCE_BYTES, ClusterSecret, ForgedFrameError
from proxy.process import RunningProxy
from tests.support.control_proxy import SECRET, address
from tests.support.examples import examples

pytestmark = pytest.mark.proxy


def reply_to(stands: RunningProxy, *pieces: bytes) -> bytes:
    """Return all that the proxy answers to these bytes until it closes; our side stays open."""
    with closing(socket.create_connection(address(stands))) as sock:
        sock.settimeout(120)
        with suppress(OSError):
            for piece in pieces:
                sock.sendall(piece)
        answer = b""
        with suppress(ConnectionError):
            while piece := sock.recv(65536):
                answer += piece
        return answer


async def test_a_worker_speaks_to_no_proxy_that_does_not_prove_itself() -> None:
    """Somebody who took the port over is told nothing but a nonce and a proof."""
    received, over = b"", asyncio.Event()

    async def false_proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        writer.write(bytes(NONCE_BYTES) * 2)
        received = await reader.read(-1)
        writer.close()
        over.set()

    server = await asyncio.start_server(false_proxy, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ProxyUnavailableError, match="does not know the cluster"):
            await ProxyClient(server.sockets[0].getsockname()[:2], SECRET).status()
        await over.wait()

    assert len(received) == len(HELLO) + NONCE_BYTES + 32
    assert SECRET.key not in received


async def test_a_proxy_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its machine's system still says that all is well; the visit is made elsewhere."""
    monkeypatch.setattr("proxy.control.client.ANSWER_LIMIT_S", 0.2)
    over = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun = await reader.readexactly(len(HELLO) + NONCE_BYTES)
        writer.write(bytes(NONCE_BYTES))
        writer.write(SECRET.proof(b"proxy", begun[len(HELLO) :], bytes(NONCE_BYTES)))
        await over.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with server:
        client = ProxyClient(server.sockets[0].getsockname()[:2], SECRET)
        with pytest.raises(ProxyUnavailableError, match="not answered for 0 seconds"):
            await client.status()
        over.set()


@given(body=st.binary(max_size=40), at=st.integers(min_value=0), bit=st.integers(0, 7), first=st.booleans())
def test_no_frame_with_one_bit_changed_is_taken(body: bytes, at: int, bit: int, first: bool) -> None:
    """Size, JSON, body and tags alike; also in a frame that is not the first."""
    sent, received = (SECRET.tags(b"worker", b"w" * 32, b"p" * 32) for _ in range(2))
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        if not first:
            ours.sendall(pack_frame({"verb": "status"}, b"before", sent))
            assert receive_frame(theirs, received)
        frame = bytearray(pack_frame({"verb": "write"}, body, sent))
        frame[at % len(frame)] ^= 1 << bit
        ours.sendall(frame)
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises((ProxyUnavailableError, BodyTooLargeError)):
            receive_frame(theirs, received)


def test_a_frame_that_was_left_out_is_noticed_at_the_next() -> None:
    """Tags are numbered."""
    sent, received = (SECRET.tags(b"worker", b"w" * 32, b"p" * 32) for _ in range(2))
    pack_frame({"verb": "write"}, b"body", sent)
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        ours.sendall(pack_frame({"verb": "seal"}, b"", sent))
        with pytest.raises(ForgedFrameError, match="changed in transit"):
            receive_frame(theirs, received)


def test_the_tags_of_one_side_are_not_those_of_the_other() -> None:
    """So that nothing can be sent back to who said it."""
    sent, received = (SECRET.tags(role, b"w" * 32, b"p" * 32) for role in (b"worker", b"proxy"))
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        ours.sendall(pack_frame({"verb": "status"}, b"", sent))
        with pytest.raises(ForgedFrameError, match="control ports"):
            receive_frame(theirs, received)


@given(data=st.binary(max_size=200))
@settings(max_examples=examples(40))
def test_a_stranger_hears_a_nonce_at_most(stands: RunningProxy, data: bytes) -> None:
    """Whatever is said: no frame, no error text, no hint, and the connection ends."""
    for begin in (b"", HELLO):
        message = begin + data + bytes(72)  # enough that nothing waits for more
        assert len(reply_to(stands, message)) in (0, NONCE_BYTES)


@pytest.mark.parametrize(
    "beginning",
    [
        b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03",
        pack_frame({"verb": "status"}),
    ],
    ids=["http", "tls", "frame"],
)
def test_what_is_no_greeting_gets_nothing(stands: RunningProxy, beginning: bytes) -> None:
    """A browser, a scanner and a worker without a secret hear not a byte."""
    assert reply_to(stands, beginning) == b""


def test_a_proof_of_another_conversation_is_worth_nothing(stands: RunningProxy) -> None:
    """Replayed as it was, or sent back to who said it."""
    ours = bytes(NONCE_BYTES)
    with closing(socket.create_connection(address(stands))) as sock:
        sock.sendall(HELLO + ours)
        theirs = sock.recv(NONCE_BYTES)
        good = SECRET.proof(b"worker", ours, theirs)
        sock.sendall(good)
        proof = sock.recv(32)
    assert hmac.compare_digest(proof, SECRET.proof(b"proxy", ours, theirs))

    assert len(reply_to(stands, HELLO + ours, good)) == NONCE_BYTES
    assert len(reply_to(stands, HELLO + ours, proof)) == NONCE_BYTES


def test_a_stranger_who_dawdles_is_cut_off_in_all(stands: RunningProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for the whole conversation, not for each byte of it."""
    monkeypatch.setattr(handshake, "HANDSHAKE_LIMIT_S", 0.3)
    assert reply_to(stands) == b""
    pause = threading.Event()
    with closing(socket.create_connection(address(stands))) as sock:
        ended = False
        for byte in HELLO[:1] * 100:
            try:
                sock.sendall(bytes([byte]))
                sock.settimeout(0.05)
                ended = sock.recv(1) == b""
                break
            except TimeoutError:
                pause.wait(0)
            except OSError:
                ended = True
                break
    assert ended


@pytest.mark.parametrize("text", ["", "short", "x" * 31, f"  {'x' * 31}  ", "x" * 5000])
def test_a_weak_secret_is_refused(text: str) -> None:
    """The text says how to make one, and never what was given."""
    with pytest.raises(ConfigError, match="openssl rand"):
        ClusterSecret.of(text)


def test_a_secret_shows_itself_nowhere() -> None:
    """Logs hold representations."""
    assert "sss" not in f"{SECRET} {SECRET!r}"
    assert ClusterSecret.of(f" {'s' * 32}\n") == SECRET
