"""The DevTools pipe: framing, answers, events, and the end of the browser."""

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BrowserUnavailableError
from render.cdp import CdpConnection, CommandError, stretched
from tests.support.examples import examples

pytestmark = pytest.mark.asyncio(loop_scope="session")


class BrowserPeer:
    """The browser's side of the pipe."""

    def __init__(self) -> None:
        read_fd, self.write_fd = os.pipe()
        self.read_fd, write_fd = os.pipe()
        os.set_blocking(self.write_fd, False)
        self.connection = CdpConnection(read_fd, write_fd)

    def say(self, *messages: dict[str, Any]) -> None:
        """Send messages."""
        os.write(self.write_fd, b"".join(json.dumps(m, separators=(",", ":")).encode() + b"\0" for m in messages))

    async def sent_messages(self) -> list[dict[str, Any]]:
        """Return the messages that were sent to the browser in one piece."""
        piece = await asyncio.to_thread(os.read, self.read_fd, 1 << 20)
        return [json.loads(each) for each in piece.split(b"\0")[:-1]]

    def hang_up(self) -> None:
        """End, as a browser does."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def close(self) -> None:
        """Close everything."""
        self.connection.close()
        self.hang_up()
        os.close(self.read_fd)


@pytest_asyncio.fixture(loop_scope="session")
async def peer() -> AsyncIterator[BrowserPeer]:
    peer = BrowserPeer()
    yield peer
    peer.close()


async def test_an_answer_reaches_who_asked(peer: BrowserPeer) -> None:
    """Commands given at once are sent at once; answers may come in any order."""
    first = asyncio.ensure_future(peer.connection.send("A.a", {"x": 1}, "session"))
    second = asyncio.ensure_future(peer.connection.send("B.b"))
    commands = await peer.sent_messages()
    peer.say({"id": commands[1]["id"], "result": {"n": 2}}, {"id": commands[0]["id"], "result": {"n": 1}})

    assert (await first, await second) == ({"n": 1}, {"n": 2})
    assert [each.get("sessionId") for each in commands] == ["session", None]


async def test_a_refusal_names_its_command(peer: BrowserPeer) -> None:
    """The browser's own words are kept."""
    going = asyncio.ensure_future(peer.connection.send("A.a"))
    await asyncio.sleep(0)
    peer.say({"id": 1, "error": {"code": -32000, "message": "no such thing"}})

    with pytest.raises(CommandError, match=r"A\.a failed: no such thing"):
        await going


async def test_events_go_to_their_session(peer: BrowserPeer) -> None:
    """The browser's own, a session's, and nobody's."""
    events: list[tuple[str, str]] = []
    done = asyncio.Event()
    peer.connection.listen("", lambda name, _: events.append(("", name)))

    def last(name: str, _: dict[str, Any]) -> None:
        events.append(("s", name))
        done.set()

    peer.connection.listen("s", last)
    peer.say(
        {"method": "T.browser", "params": {}},
        {"method": "T.unknown", "params": {}, "sessionId": "x"},
        {"method": "T.session", "params": {}, "sessionId": "s"},
    )
    await done.wait()

    assert events == [("", "T.browser"), ("s", "T.session")]


async def test_events_that_nobody_reads_are_not_decoded(peer: BrowserPeer) -> None:
    """Not even looked at: the text behind the name need not be JSON."""
    events: list[str] = []
    done = asyncio.Event()

    def listen(name: str, _: dict[str, Any]) -> None:
        events.append(name)
        done.set()

    peer.connection.listen("", listen)
    os.write(peer.write_fd, b'{"method":"Network.dataReceived",!\0')
    peer.say({"method": "Page.loadEventFired", "params": {}})
    await done.wait()

    assert events == ["Page.loadEventFired"]


@settings(max_examples=examples(40))
@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=8), cuts=st.lists(st.integers(0, 400), max_size=12))
async def test_messages_survive_any_chunking(texts: list[str], cuts: list[int]) -> None:
    """However the pipe cuts the bytes, the same messages come out."""
    peer = BrowserPeer()
    received_texts: list[str] = []
    done = asyncio.Event()

    def listen(_: str, params: dict[str, Any]) -> None:
        received_texts.append(params["text"])
        if len(received_texts) == len(texts):
            done.set()

    peer.connection.listen("", listen)
    raw = b"".join(json.dumps({"method": "T.t", "params": {"text": t}}).encode() + b"\0" for t in texts)
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    for start, end in itertools.pairwise(edges):
        os.write(peer.write_fd, raw[start:end])
        await asyncio.sleep(0)
    async with asyncio.timeout(120):
        await done.wait()
    peer.close()

    assert received_texts == texts


async def test_a_long_answer_arrives_whole(peer: BrowserPeer) -> None:
    """A screenshot may be thirty million characters."""
    going = asyncio.ensure_future(peer.connection.send("A.a"))
    await asyncio.sleep(0)
    raw = b'{"id":1,"result":{"data":"' + b"x" * 30_000_000 + b'"}}\0'
    loop = asyncio.get_running_loop()
    sent = 0

    def push() -> None:
        nonlocal sent
        sent += os.write(peer.write_fd, raw[sent : sent + 1_000_000])
        if sent == len(raw):
            loop.remove_writer(peer.write_fd)

    loop.add_writer(peer.write_fd, push)

    assert len((await going)["data"]) == 30_000_000


async def test_commands_wait_for_a_slow_reader(peer: BrowserPeer) -> None:
    """A pipe that is full takes the rest later, in order."""
    for number in range(100):
        peer.connection.post("A.a", {"number": number, "padding": "x" * 10_000})
    numbers: list[int] = []
    rest = b""
    os.set_blocking(peer.read_fd, False)
    while len(numbers) < 100:
        await asyncio.sleep(0)
        with contextlib.suppress(BlockingIOError):
            rest += os.read(peer.read_fd, 1 << 16)
        *whole, rest = rest.split(b"\0")
        numbers += [json.loads(each)["params"]["number"] for each in whole]

    assert numbers == list(range(100))


async def test_a_dead_browser_fails_everybody(peer: BrowserPeer) -> None:
    """Pending commands fail, and so do later ones."""
    going = asyncio.ensure_future(peer.connection.send("A.a"))
    await asyncio.sleep(0)
    peer.hang_up()

    with pytest.raises(BrowserUnavailableError):
        await going
    with pytest.raises(BrowserUnavailableError):
        await peer.connection.send("B.b")
    peer.connection.post("C.c")
    assert peer.connection.closed.is_set()


async def test_an_ended_session_fails_its_own_commands_only(peer: BrowserPeer) -> None:
    """A crashed page does not answer any more."""
    gone = asyncio.ensure_future(peer.connection.send("A.a", {}, "gone"))
    here = asyncio.ensure_future(peer.connection.send("B.b", {}, "here"))
    await asyncio.sleep(0)
    peer.connection.forget("gone", "crashed")
    peer.say({"id": 2, "result": {}})

    with pytest.raises(CommandError, match="crashed"):
        await gone
    assert await here == {}


async def test_what_is_no_json_ends_the_connection(peer: BrowserPeer) -> None:
    """There is no telling where the next message starts."""
    os.write(peer.write_fd, b"{oops\0")
    async with asyncio.timeout(120):
        await peer.connection.closed.wait()

    with pytest.raises(BrowserUnavailableError, match="not JSON"):
        await peer.connection.send("A.a")


async def test_a_cancelled_command_is_forgotten(peer: BrowserPeer) -> None:
    """Its late answer disturbs nobody."""
    going = asyncio.ensure_future(peer.connection.send("A.a"))
    await asyncio.sleep(0)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    after = asyncio.ensure_future(peer.connection.send("B.b"))
    await asyncio.sleep(0)
    peer.say({"id": 1, "result": {}}, {"id": 2, "result": {"late": False}})

    assert await after == {"late": False}


@pytest.mark.parametrize(("wanted", "limit_s"), [(0.5, 8.0), (2.0, 16.0), (50.0, 32.0)])
async def test_a_limit_grows_with_the_processes_on_each_processor(
    monkeypatch: pytest.MonkeyPatch, wanted: float, limit_s: float
) -> None:
    """Never shorter than on a machine of one's own, never longer than four times that."""
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    monkeypatch.setattr("os.getloadavg", lambda: (wanted * 3, 0.0, 0.0))

    assert stretched(8.0) == limit_s
