"""Who reaches a proxy's control over TCP: those who hold the secret, and nobody else."""

import asyncio
import gzip
import hmac
import itertools
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.clock import SystemClock
from core.config.settings import EgressSettings, ProxySettings, Settings
from core.errors import BodyTooLargeError, ConfigError, ProxyUnavailableError
from core.layout import Layout
from proxy.control import frames
from proxy.control.client import NewArtifact, ProxyClient
from proxy.control.frames import (
    HELLO,
    NONCE_BYTES,
    TAG_BYTES,
    ClusterSecret,
    ForgedFrameError,
    pack_frame,
    receive_frame,
)
from proxy.control.server import MAX_UNAUTHENTICATED, TcpControlServer
from proxy.process import RunningProxy, TcpControl, run_proxy
from proxy.request_log import RequestOutcome
from tests.support.examples import examples
from tests.support.proxy_fixtures import Browser, check

pytestmark = pytest.mark.proxy

SECRET, OTHER = ClusterSecret.of("s" * 32), ClusterSecret.of("t" * 32)
SETTINGS = Settings(
    egress=EgressSettings(allow=("127.0.0.0/8",)), proxy=ProxySettings(disk_reserve_bytes=0)
)


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningProxy]:
    """A proxy with control over TCP."""
    layout = Layout(tmp_path_factory.mktemp("collection"))
    with run_proxy(layout, SETTINGS, control=TcpControl("127.0.0.1", 0, SECRET)) as started:
        yield started


def address(stands: RunningProxy) -> tuple[str, int]:
    """Where its control listens."""
    return "127.0.0.1", stands.control_port


def said(stands: RunningProxy, *pieces: bytes) -> bytes:
    """All that it answers to these bytes until it hangs up; our side stays open."""
    with closing(socket.create_connection(address(stands))) as sock:
        sock.settimeout(20)
        with suppress(OSError):
            for piece in pieces:
                sock.sendall(piece)
        answer = b""
        with suppress(ConnectionError):
            while piece := sock.recv(65536):
                answer += piece
        return answer


async def test_a_holder_of_the_secret_works_as_over_the_unix_socket(stands: RunningProxy) -> None:
    """Visit, artifact, seal and status; several at once."""
    client = ProxyClient(address(stands), SECRET)
    async with (
        client.visit("one", bucket="default") as visit,
        client.visit("two", bucket="default"),
    ):
        given_ = visit.credentials
        status = await client.status()
        assert (given_.host, given_.port) == stands.proxy.reached_at
        assert await visit.seal(grace_s=0) == []

    assert status["visits"] == 2
    assert status["spki"] == stands.proxy.ca.spki


async def test_another_secret_is_refused_with_the_remedy(stands: RunningProxy) -> None:
    """The worker is told what to look at, and never which part was wrong."""
    with pytest.raises(ProxyUnavailableError, match="same secret"):
        await ProxyClient(address(stands), OTHER).status()


async def test_a_worker_speaks_to_no_proxy_that_does_not_prove_itself() -> None:
    """Somebody who took the port over is told nothing but a nonce and a proof."""
    heard, over = b"", asyncio.Event()

    async def false_proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        writer.write(bytes(NONCE_BYTES) * 2)
        heard = await reader.read(-1)
        writer.close()
        over.set()

    server = await asyncio.start_server(false_proxy, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ProxyUnavailableError, match="does not hold"):
            await ProxyClient(server.sockets[0].getsockname()[:2], SECRET).status()
        await over.wait()

    assert len(heard) == len(HELLO) + NONCE_BYTES + 32
    assert SECRET.key not in heard


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


Change = Callable[[int, bytes], list[bytes]]


@asynccontextmanager
async def between(proxy: tuple[str, int], side: str, change: Change) -> AsyncIterator[ProxyClient]:
    """A worker's client, and somebody on its way to the proxy who changes the frames of one side."""
    open_writers: list[asyncio.StreamWriter] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*proxy)
        open_writers.extend((writer, far_writer))
        far_writer.write(await reader.readexactly(len(HELLO) + NONCE_BYTES))
        writer.write(await far_reader.readexactly(NONCE_BYTES))
        far_writer.write(await reader.readexactly(32))
        writer.write(await far_reader.readexactly(32))
        await asyncio.gather(
            pass_on("worker", reader, far_writer), pass_on("proxy", far_reader, writer)
        )

    async def pass_on(
        from_side: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            for number in itertools.count():
                size = await reader.readexactly(4)
                head = await reader.readexactly(int.from_bytes(size, "big"))
                length = json.loads(head)["body"]
                rest = await reader.readexactly(TAG_BYTES + (length + TAG_BYTES if length else 0))
                frame = size + head + rest
                for each in change(number, frame) if from_side == side else [frame]:
                    writer.write(each)
        writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        yield ProxyClient(server.sockets[0].getsockname()[:2], SECRET)
        for writer in open_writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # their ends are told in the loop's next turn


def _swapped(frame: bytes, old: bytes, new: bytes) -> bytes:
    assert old in frame
    assert len(old) == len(new)
    return frame.replace(old, new, 1)


@pytest.mark.parametrize(
    ("side", "change"),
    [
        (
            "worker",
            lambda n, frame: [_swapped(frame, b"urn:text", b"urn:tent") if n == 1 else frame],
        ),
        ("worker", lambda n, frame: [_swapped(frame, b"kept", b"fake") if n == 1 else frame]),
        ("worker", lambda n, frame: [frame, frame] if n == 1 else [frame]),
        ("proxy", lambda n, frame: [_swapped(frame, b"locations", b"lolations") if n else frame]),
        ("proxy", lambda n, frame: [frame, frame] if n == 0 else [frame]),
    ],
    ids=["head", "body", "repeated", "answer", "old answer"],
)
async def test_what_is_changed_on_its_way_ends_the_connection(
    tmp_path: Path, side: str, change: Change
) -> None:
    """A frame that was altered or repeated: nothing of it is believed, or written."""
    url, date = "http://a.example/", SystemClock().now()
    artifact = NewArtifact(f"urn:text:{url}", "text/plain", b"kept")
    control = TcpControl("127.0.0.1", 0, SECRET)

    async def visit_once(client: ProxyClient) -> None:
        async with client.visit("one", bucket="default") as visit:
            await visit.write([artifact], document=url, date=date)
            await visit.seal(grace_s=0)

    with run_proxy(Layout(tmp_path), SETTINGS, control=control) as started:
        async with between(address(started), side, change) as client:
            with pytest.raises(ProxyUnavailableError, match=r"changed on its way|closed"):
                await visit_once(client)

    written = b"".join(gzip.decompress(path.read_bytes()) for path in tmp_path.rglob("*.warc.gz"))
    assert b"urn:tent" not in written
    assert b"fake" not in written


async def test_an_honest_relay_changes_nothing(stands: RunningProxy) -> None:
    """What stands between them in the test above is not itself what ends the connection."""
    async with between(address(stands), "worker", lambda _, frame: [frame]) as client:
        assert (await client.status())["pid"]


@given(
    body=st.binary(max_size=40),
    at=st.integers(min_value=0),
    bit=st.integers(0, 7),
    first=st.booleans(),
)
def test_no_frame_with_one_bit_changed_is_taken(
    body: bytes, at: int, bit: int, first: bool
) -> None:
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
        with pytest.raises(ForgedFrameError, match="changed on its way"):
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
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_stranger_hears_a_nonce_at_most(stands: RunningProxy, data: bytes) -> None:
    """Whatever is said: no frame, no error text, no hint, and the connection ends."""
    for begin in (b"", HELLO):
        told = begin + data + bytes(72)  # enough that nothing waits for more
        assert len(said(stands, told)) in (0, NONCE_BYTES)


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
    assert said(stands, beginning) == b""


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

    assert len(said(stands, HELLO + ours, good)) == NONCE_BYTES
    assert len(said(stands, HELLO + ours, proof)) == NONCE_BYTES


def test_a_stranger_who_dawdles_is_cut_off_in_all(
    stands: RunningProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is for the whole conversation, not for each byte of it."""
    monkeypatch.setattr(frames, "HANDSHAKE_LIMIT_S", 0.3)
    assert said(stands) == b""
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


def test_too_many_strangers_at_once_are_not_heard(stands: RunningProxy) -> None:
    """They cost a bounded number of threads; a worker is served when they are gone."""
    assert isinstance(stands.control, TcpControlServer)
    before = threading.active_count()
    crowd = [socket.create_connection(address(stands)) for _ in range(MAX_UNAUTHENTICATED + 50)]
    extra = crowd[-1]
    extra.settimeout(10)
    assert extra.recv(1) == b""
    assert threading.active_count() - before <= MAX_UNAUTHENTICATED + 10
    for sock in crowd:
        sock.close()
    pause = threading.Event()
    for _ in range(500):
        with suppress(ProxyUnavailableError):
            assert asyncio.run(ProxyClient(address(stands), SECRET).status())["pid"]
            return
        pause.wait(0.02)
    raise AssertionError("No worker was served after the crowd had gone.")


@pytest.mark.parametrize("text", ["", "short", "x" * 31, f"  {'x' * 31}  ", "x" * 5000])
def test_a_weak_secret_is_refused(text: str) -> None:
    """The text says how to make one, and never what was given."""
    with pytest.raises(ConfigError, match="openssl rand"):
        ClusterSecret.of(text)


def test_a_secret_shows_itself_nowhere() -> None:
    """Logs hold representations."""
    assert "sss" not in f"{SECRET} {SECRET!r}"
    assert ClusterSecret.of(f" {'s' * 32}\n") == SECRET


async def test_a_proxy_that_is_leaving_opens_no_visit(tmp_path: Path) -> None:
    """The worker is told so, and asks another."""
    control = TcpControl("127.0.0.1", 0, SECRET)
    with run_proxy(Layout(tmp_path), SETTINGS, control=control) as started:
        client = ProxyClient(address(started), SECRET)
        async with client.visit("one", bucket="default") as visit:
            started.proxy.leaving = True
            with pytest.raises(ProxyUnavailableError, match="ask another"):
                async with client.visit("two", bucket="default"):
                    raise AssertionError("opened")
            url, date = "http://a.example/", SystemClock().now()
            data = NewArtifact(f"urn:text:{url}", "text/plain", b"kept")
            written = await visit.write([data], document=url, date=date)
            await visit.seal(grace_s=0)

    assert len(written) == 1
    check(Layout(tmp_path))


@pytest.mark.parametrize("listen", ["127.0.0.1", "0.0.0.0"])
async def test_a_page_gets_nothing_from_the_proxys_own_ports(tmp_path: Path, listen: str) -> None:
    """Its network is allowed, and yet no way leads to control or to the proxy itself (C-01)."""
    everything = replace(
        SETTINGS, egress=EgressSettings(allow=("127.0.0.0/8", "0.0.0.0/8", "::1/128"))
    )
    control = TcpControl(listen, 0, SECRET)
    with run_proxy(Layout(tmp_path), everything, control=control) as started:
        client = ProxyClient(address(started), SECRET)
        hosts = ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"]
        hosts += ["127.0.0.9"] if listen == "0.0.0.0" else []
        async with client.visit("page", bucket="default") as visit:
            given_ = visit.credentials
            statuses = await asyncio.to_thread(
                lambda: [
                    _ask(given_.port, given_.username, given_.password, f"http://{host}:{port}/")
                    for host in hosts
                    for port in (started.control_port, given_.port if host != "127.0.0.9" else 1)
                ]
            )
            entries = await visit.seal(grace_s=1)
        assert isinstance(started.control, TcpControlServer)
        refused = started.control.refused

    assert set(statuses) == {403}
    assert {entry.kept for entry in entries} == {RequestOutcome.BLOCKED}
    assert refused == 0


def _ask(port: int, username: str, password: str, url: str) -> int:
    browser = Browser(port, username, password)
    try:
        return browser.get(url).status
    finally:
        browser.close()
