"""Access to a proxy's control over TCP: only with the secret."""

import asyncio
import gzip
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.errors import ProxyUnavailableError
from core.layout import Layout
from proxy.control.client import NewArtifact, ProxyClient
from proxy.control.frames import TAG_BYTES
from proxy.control.handshake import HELLO, NONCE_BYTES
from proxy.process import RunningProxy, run_proxy
from tests.support.control_proxy import OTHER, SECRET, SETTINGS, address
from tests.support.proxy_fixtures import check

pytestmark = pytest.mark.proxy


async def test_a_holder_of_the_secret_works_as_over_the_unix_socket(stands: RunningProxy) -> None:
    """Visit, artifact, seal and status; several at once."""
    client = ProxyClient(address(stands), SECRET)
    async with client.visit("one", bucket="default") as visit, client.visit("two", bucket="default"):
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


Change = Callable[[int, bytes], list[bytes]]


@asynccontextmanager
async def between(proxy: tuple[str, int], side: str, change: Change) -> AsyncIterator[ProxyClient]:
    """Yield a worker's client behind a relay that changes the frames of one side."""
    open_writers: list[asyncio.StreamWriter] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*proxy)
        open_writers.extend((writer, far_writer))
        far_writer.write(await reader.readexactly(len(HELLO) + NONCE_BYTES))
        writer.write(await far_reader.readexactly(NONCE_BYTES))
        far_writer.write(await reader.readexactly(32))
        writer.write(await far_reader.readexactly(32))
        await asyncio.gather(pass_on("worker", reader, far_writer), pass_on("proxy", far_reader, writer))

    async def pass_on(from_side: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        ("worker", lambda n, frame: [_swapped(frame, b"urn:text", b"urn:tent") if n == 1 else frame]),
        ("worker", lambda n, frame: [_swapped(frame, b"kept", b"fake") if n == 1 else frame]),
        ("worker", lambda n, frame: [frame, frame] if n == 1 else [frame]),
        ("proxy", lambda n, frame: [_swapped(frame, b"locations", b"lolations") if n else frame]),
        ("proxy", lambda n, frame: [frame, frame] if n == 0 else [frame]),
    ],
    ids=["head", "body", "repeated", "answer", "old answer"],
)
async def test_what_is_changed_on_its_way_ends_the_connection(tmp_path: Path, side: str, change: Change) -> None:
    """A frame that was altered or repeated: nothing of it is believed, or written."""
    url, date = "http://a.example/", SystemClock().now()
    artifact = NewArtifact(f"urn:text:{url}", "text/plain", b"kept")
    control = ("127.0.0.1", 0, SECRET)

    async def visit_once(client: ProxyClient) -> None:
        async with client.visit("one", bucket="default") as visit:
            await visit.write([artifact], document=url, date=date)
            await visit.seal(grace_s=0)

    with run_proxy(Layout(tmp_path), SETTINGS, control=control) as started:
        async with between(address(started), side, change) as client:
            with pytest.raises(ProxyUnavailableError, match=r"changed in transit|closed"):
                await visit_once(client)

    written = b"".join(gzip.decompress(path.read_bytes()) for path in tmp_path.rglob("*.warc.gz"))
    assert b"urn:tent" not in written
    assert b"fake" not in written


async def test_an_honest_relay_changes_nothing(stands: RunningProxy) -> None:
    """The relay of the test above is not itself what ends the connection."""
    async with between(address(stands), "worker", lambda _, frame: [frame]) as client:
        assert (await client.status())["pid"]


async def test_a_proxy_that_is_leaving_opens_no_visit(tmp_path: Path) -> None:
    """The worker is told so, and asks another."""
    control = ("127.0.0.1", 0, SECRET)
    with run_proxy(Layout(tmp_path), SETTINGS, control=control) as started:
        client = ProxyClient(address(started), SECRET)
        async with client.visit("one", bucket="default") as visit:
            started.proxy.leaving = True
            with pytest.raises(ProxyUnavailableError, match="use another"):
                async with client.visit("two", bucket="default"):
                    raise AssertionError("opened")
            url, date = "http://a.example/", SystemClock().now()
            data = NewArtifact(f"urn:text:{url}", "text/plain", b"kept")
            written = await visit.write([data], document=url, date=date)
            await visit.seal(grace_s=0)

    assert len(written) == 1
    check(Layout(tmp_path))
