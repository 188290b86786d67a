"""Large, deep, slow and idle requests hold up nobody else (P-21), and several processes are one replay."""

import asyncio
import contextlib
import http.client
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from isal import igzip

from core.timestamps import timestamp14
from playback.playback_server import serve
from playback.replay.sanitizer.prescan import DEEPEST
from tests.support.playback_fixtures import (
    NOW,
    CollectionBuilder,
    ReplayProcess,
    ServedCollection,
    StoredReply,
    fetch,
    png,
    running_replay,
)
from tests.support.services.ports import free_port

pytestmark = pytest.mark.playback

MOST_IN_FLIGHT = 256_000_000  # bytes, as docs/explanation/serving.md says

TS = timestamp14(NOW)
SITE = "https://load.example"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplayProcess]:
    """Run a replay of hostile captures, and of one image that other clients request."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("load") / "collection")
    with contextlib.closing(builder):
        builder.response(f"{SITE}/i.png", png(), mime="image/png")
        builder.response(f"{SITE}/large.png", png() + os.urandom(8_000_000), mime="image/png")
        for name, body in HOSTILE.items():
            codings = {"bomb": "gzip", "bomb-of-a-bomb": "gzip, gzip"}.get(name, "identity")
            headers = (("Content-Encoding", codings),)
            mime = "text/css" if name.endswith(".css") else "text/html"
            builder.response(f"{SITE}/{name}", body, mime=mime, headers=headers)
        with running_replay(builder.layout.root, "http://front.test", "--deadline-s", "1") as replay:
            yield replay


def _bomb(layers: int, size: int) -> bytes:
    body = b"<p>" + bytes(size)
    for _ in range(layers):
        body = igzip.compress(body, 3)
    return body


HOSTILE = {
    # Larger than what is read of a page.
    "bomb": _bomb(1, 12_000_000),
    "bomb-of-a-bomb": _bomb(2, 12_000_000),
    "deep": b"<div>" * 10_000,
    "deep-formatting": b"<b><i><u>" * 5_000 + b"<p>" * 1_000,
    "a-line": b"<p>" + b"word " * 300_000,
    "a-tag": b"<p " + b"a=b " * 200_000 + b">",
    "srcset": b"<img srcset='" + b"a , " * 200_000 + b"'>",
    "charset": b"<meta " * 200 + b"charset" * 500 + b"=" * 1_000,
    "open-comments": b"<!--" * 300_000,
    "style": b"<p style='" + b"a:b;" * 100_000 + b"'>",
    "nested.css": b"a{" * 100_000,
    "comments.css": b"/*" * 400_000,
    "urls.css": b"p{background:url(" * 50_000,
}


def test_another_client_is_answered_while_hostile_pages_are_made(loaded: ReplayProcess) -> None:
    """Each ends, shown or refused, and no answer about something else waits for it."""
    done: dict[str, StoredReply] = {}

    def ask(names: Iterator[str]) -> None:
        for name in names:
            modifier = "cs_" if name.endswith(".css") else ""
            done[name] = loaded.get(f"/c/{TS}{modifier}/{SITE}/{name}")

    names = iter(list(HOSTILE))
    threads = [threading.Thread(target=ask, args=(names,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    answered = 0
    while any(thread.is_alive() for thread in threads):
        assert loaded.get(f"/c/{TS}im_/{SITE}/i.png").body == png()
        answered += 1

    assert answered >= len(HOSTILE)
    assert set(done) == set(HOSTILE)
    assert {reply.status for reply in done.values()} <= {200, 404}
    assert {done["bomb"].status, done["bomb-of-a-bomb"].status} == {404}


@pytest.fixture(scope="module")
def costly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplayProcess]:
    """Run a replay of pages that are expensive to sanitise, and of ordinary ones."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("costly") / "collection")
    styled = "".join(f'<p style="width:calc({place}px + 1px);color:\\72 ed">x</p>' for place in range(1_500)).encode()
    styled += b"<p>words of a long page" * 20_000
    with contextlib.closing(builder):
        builder.response(f"{SITE}/nested", b"<div>" * 60_000 + b"the innermost words")
        for number in range(_STYLED):
            builder.response(f"{SITE}/styled-{number}", b"%d" % number + styled)
        for number in range(8):
            builder.response(f"{SITE}/page-{number}", b"<p>ordinary</p>")
        with running_replay(builder.layout.root, "http://front.test", "--deadline-s", "4", "--makers", "2") as replay:
            yield replay


_STYLED = 12  # pages that count as large


def test_a_deeply_nested_page_is_made_within_the_deadline(costly: ReplayProcess) -> None:
    """Its elements are nested no deeper than a browser nests them, and its words stay."""
    reply = costly.get(f"/c/{TS}/{SITE}/nested")

    assert reply.status == 200
    assert "the innermost words" in reply.text
    assert reply.text.count("<div>") == DEEPEST


def test_costly_pages_hold_up_no_other_pages_first_copy(costly: ReplayProcess) -> None:
    """Large jobs leave a maker to small ones; beyond a number they are told to come again."""
    replies: list[StoredReply] = []

    def ask(number: int) -> None:
        replies.append(costly.get(f"/c/{TS}/{SITE}/styled-{number}"))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(_STYLED)]
    for thread in threads:
        thread.start()
    for number in range(8):
        assert costly.get(f"/c/{TS}/{SITE}/page-{number}").status == 200
    made_meanwhile = len(replies)
    for thread in threads:
        thread.join()

    assert made_meanwhile < _STYLED
    assert {reply.status for reply in replies} <= {200, 404, 503}
    refused = [reply for reply in replies if reply.status == 503]
    assert refused
    assert all(0 < int(reply["Retry-After"]) <= 60 for reply in refused)


@pytest.fixture
def _many_files() -> Iterator[None]:
    """Raise this process's limit of open files to its maximum: the test needs many sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_many_files")
def test_a_thousand_idle_connections_hold_up_nobody(loaded: ReplayProcess) -> None:
    """A connection that says nothing, or half of something, costs a socket and no worker."""
    address = urlsplit(loaded.origin)
    beginnings = (b"", b"GET /c/", b"GET / HTTP/1.1\r\nHost: ")
    with contextlib.ExitStack() as stack:
        for number in range(1_000):
            client = socket.create_connection((address.hostname, address.port), timeout=120)
            stack.enter_context(client)
            client.sendall(beginnings[number % 3])

        for _ in range(5):
            assert loaded.get(f"/c/{TS}im_/{SITE}/i.png").body == png()


def test_slow_readers_of_one_network_hold_up_nobody(loaded: ReplayProcess) -> None:
    """They ask for much, take nothing, and hold a quarter of what is held for all; others get theirs."""
    address = urlsplit(loaded.origin)
    request = f"GET /c/{TS}im_/{SITE}/large.png HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode()
    heads = []
    with contextlib.ExitStack() as stack:
        for _ in range(14):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect((address.hostname, address.port))
            client.sendall(request)
            client.settimeout(120)
            heads.append(client.recv(12))
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=120, source_address=("127.0.1.1", 0)
        )
        stack.enter_context(contextlib.closing(connection))
        connection.request("GET", f"/c/{TS}im_/{SITE}/large.png")
        response = connection.getresponse()
        body = response.read()
        assert loaded.get(f"/c/{TS}im_/{SITE}/i.png").body == png()
        assert _memory_kb(loaded.process.pid) < 700_000

    assert b"HTTP/1.1 503" in heads
    assert heads.count(b"HTTP/1.1 200") * 8_000_000 <= MOST_IN_FLIGHT // 4
    assert response.status == 200
    assert len(body) > 8_000_000


@pytest.mark.usefixtures("_many_files")
def test_idle_connections_do_not_end_the_front(collection: CollectionBuilder, tmp_path: Path) -> None:
    """More than it may have files: those that ask nothing are let go, and who asks is answered."""
    code = (
        "import asyncio, functools, pathlib, sys; from core.layout import Layout;"
        "from playback.playback_server import ServerOrigins, serve;"
        "ready = functools.partial(print, flush=True); root, port = sys.argv[1:];"
        "origins = ServerOrigins(f'http://127.0.0.1:{port}', 'http://replay.test');"
        "asyncio.run(serve(Layout(pathlib.Path(root)), port=int(port), origins=origins,"
        " with_replay=False, on_ready=ready))"
    )
    command = [sys.executable, "-c", code, str(collection.layout.root), str(free_port())]
    limited = ["sh", "-c", 'ulimit -n 300; exec "$@"', "sh", *command]
    with (
        (tmp_path / "log").open("w+") as log,
        subprocess.Popen(limited, stdout=subprocess.PIPE, stderr=log, text=True) as process,
        contextlib.ExitStack() as stack,
    ):
        assert process.stdout is not None
        try:
            address = urlsplit(process.stdout.readline().strip())
            for _ in range(500):
                client = stack.enter_context(socket.socket())
                client.connect((address.hostname, address.port))
            assert fetch(f"http://{address.netloc}", "/").status == 200
            assert process.poll() is None
        finally:
            process.terminate()
            process.wait(timeout=120)
        assert "Too many open files" not in (tmp_path / "log").read_text()


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCollection]:
    """Front, and replay in two processes."""
    collection = CollectionBuilder(tmp_path_factory.mktemp("workers") / "collection")
    ready: queue.Queue[str] = queue.Queue()
    port = free_port()
    stopped = asyncio.Event()

    async def run() -> None:
        task = asyncio.create_task(serve(collection.layout, replay_port=port, on_ready=ready.put, workers=2))
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    with asyncio.Runner() as runner:
        thread = threading.Thread(target=runner.run, args=(run(),))
        thread.start()
        try:
            yield ServedCollection(collection, ready.get(timeout=120), f"http://127.0.0.1:{port}")
        finally:
            runner.get_loop().call_soon_threadsafe(stopped.set)
            thread.join(timeout=120)
            collection.close()


def test_while_one_process_is_dead_the_other_answers_and_it_is_started_again(two_workers: ServedCollection) -> None:
    """No connection is refused meanwhile: the socket that listens is neither's own."""
    two_workers.builder.response(f"{SITE}/i.png", png(), mime="image/png")
    root = str(two_workers.builder.layout.root)
    before = _replays(root)
    assert len(before) == 2

    os.kill(min(before), signal.SIGKILL)
    request_count = 0
    while len(after := _replays(root)) < 2 or min(before) in after:
        request_count += 1
        assert fetch(two_workers.replay, f"/c/{TS}im_/{SITE}/i.png").body == png()

    assert request_count > 0
    assert len(after - before) == 1


def test_what_one_process_made_the_other_finds_and_the_next_one_too(two_workers: ServedCollection) -> None:
    """A page is made once, whoever is asked, and how often at once."""
    two_workers.builder.page(f"{SITE}/page", "<p>made once</p>" + "<i>x</i>" * 1_000)
    folder = two_workers.builder.layout.made
    replies: list[StoredReply] = []

    def ask() -> None:
        replies.append(fetch(two_workers.replay, f"/c/{TS}/{SITE}/page"))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert {reply.status for reply in replies} == {200}
    assert len({reply.body for reply in replies}) == 1
    (path,) = folder.glob("??/*")
    marked = path.stat().st_mtime_ns
    with running_replay(two_workers.builder.layout.root, two_workers.front) as again:
        assert again.get(f"/c/{TS}/{SITE}/page").body == replies[0].body
    assert [each.stat().st_mtime_ns for each in folder.glob("??/*")] == [marked]


def _replays(root: str) -> set[int]:
    """Return the process identifiers of the collection's replay, without its maker processes."""
    pids = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                words = (entry / "cmdline").read_text().split("\0")
                if root in words and "--listen-fd" in words:
                    pids.add(int(entry.name))
    return pids


def _memory_kb(pid: int) -> int:
    with Path(f"/proc/{pid}/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
