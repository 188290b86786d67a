"""Front and replay as one service: started together, kept alive, ended together."""

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from core.errors import ConfigError, UnavailableError
from core.layout import Layout
from core.timestamps import timestamp14
from playback.playback_server import ServerOrigins, serve
from tests.support.playback_fixtures import NOW, ROOT, CollectionBuilder, fetch, serving
from tests.support.services.ports import free_port

pytestmark = pytest.mark.playback

_SERVE = """
import asyncio, sys
from pathlib import Path
from core.layout import Layout
from core.timestamps import timestamp14
from playback.playback_server import serve
def say(origin): print(origin, flush=True)
asyncio.run(serve(Layout(Path(sys.argv[1])), replay_port=int(sys.argv[2]), on_ready=say))
print("ended", flush=True)
"""


def children_of(pid: int) -> list[int]:
    """Return the identifiers of the processes that `pid` started."""
    pids: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may end while it is looked at
            pids += map(int, (task / "children").read_text().split())
    return pids


def is_listening(port: int) -> bool:
    """True when something answers on that port."""
    # From another address: asking a free port for long from its own connects it to itself.
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)).close()
        return True
    return False


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_front_and_replay(collection: CollectionBuilder, name: signal.Signals) -> None:
    """Neither outlives the other, and both end within seconds."""
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(collection.layout.root), str(port)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        (replay,) = children_of(process.pid)
        assert is_listening(port)

        process.send_signal(name)
        process.communicate(timeout=120)

    assert not Path(f"/proc/{replay}").exists()
    assert not is_listening(port)


def test_a_killed_front_takes_replay_along(collection: CollectionBuilder) -> None:
    """Even when there was no time to end anything."""
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(collection.layout.root), str(port)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        (replay,) = children_of(process.pid)
        ended = os.pidfd_open(replay)
        process.kill()
        process.wait()

        try:
            signal.pidfd_send_signal(ended, 0)
            assert _wait_for_end(ended)
        except ProcessLookupError:
            pass
        finally:
            os.close(ended)


def test_a_dead_replay_is_started_again_on_its_port(collection: CollectionBuilder) -> None:
    """Copies are back within seconds, at the addresses that readers have open."""
    with serving(collection) as served:
        root, port = str(collection.layout.root), int(served.replay.rpartition(":")[2])
        (replay,) = [pid for pid in children_of(os.getpid()) if root in _command(pid)]
        os.kill(replay, signal.SIGKILL)
        gave_up = time.monotonic() + 30
        while replay in children_of(os.getpid()) or not is_listening(port):
            assert time.monotonic() < gave_up


async def test_the_level_full_without_pywb_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named Python that is not there is not replaced by a guess."""
    monkeypatch.setenv("WEBOID_REPLAY_PYTHON", str(tmp_path / "python"))

    with pytest.raises(UnavailableError, match="weboid setup full"):
        await serve(Layout(tmp_path), full="local")


def test_the_levels_up_to_images_need_no_pywb(collection: CollectionBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay and its makers run on the interpreter of the server itself."""
    monkeypatch.setenv("WEBOID_REPLAY_PYTHON", "/nowhere/python")
    url = "https://without-pywb.example/"
    collection.page(url, "<p>Words <b>in bold</b>", at=NOW)

    with serving(collection) as served:
        copy = fetch(served.replay, f"/c/{timestamp14(NOW)}/{url}")

    assert copy.status == 200
    assert "<b>in bold</b>" in copy.text


async def test_a_replay_that_does_not_start_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay ends at once when the interpreter for the level `full` has no pywb; so does serving."""
    monkeypatch.setenv("WEBOID_REPLAY_PYTHON", "/bin/false")

    with pytest.raises(UnavailableError, match="did not start"):
        await serve(Layout(tmp_path), full="local")


async def test_a_taken_port_is_reported(tmp_path: Path) -> None:
    """The text names the address."""
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(UnavailableError, match=str(port)):
            await serve(Layout(tmp_path), port=port)


async def test_front_and_replay_never_share_an_origin(tmp_path: Path) -> None:
    """The whole defence rests on two origins."""
    same = ServerOrigins(front="https://a.example", replay="https://a.example")
    with pytest.raises(ConfigError, match="different"):
        await serve(Layout(tmp_path), origins=same)
    with pytest.raises(ConfigError, match="origins"):
        await serve(Layout(tmp_path), host="0.0.0.0")


async def test_a_front_alone_leaves_the_copies_to_another_replay(
    collection: CollectionBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a cluster each is a service of its own, so that no replay is started here."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    port = free_port()
    origins = ServerOrigins(front=f"http://127.0.0.1:{port}", replay="http://copies.example")
    ready: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.create_task(
        serve(collection.layout, port=port, origins=origins, with_replay=False, on_ready=ready.put_nowait)
    )
    try:
        async with asyncio.timeout(120), httpx.AsyncClient(verify=False) as client:
            answer = await client.get(await ready.get())
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    assert answer.status_code == 200
    assert "http://copies.example" in answer.headers["content-security-policy"]


async def test_a_front_alone_needs_to_know_where_the_copies_are(tmp_path: Path) -> None:
    """Nothing is guessed."""
    with pytest.raises(ConfigError, match="copies"):
        await serve(Layout(tmp_path), with_replay=False)


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def _wait_for_end(pidfd: int) -> bool:
    readable, _, _ = select.select([pidfd], [], [], 20)
    return bool(readable)
