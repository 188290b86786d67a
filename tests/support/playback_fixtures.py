"""A collection built record by record, and the real replay, front and browser around it."""

import asyncio
import contextlib
import hashlib
import html
import http.client
import io
import json
import os
import queue
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from core.captures import LOGIN_HEADER, ArtifactKind, Capture, RecordLocation, RecordType, artifact_uri
from core.layout import OPEN_SUFFIX, Layout
from core.page_classes import PageClass
from core.page_manifest import PageInfo, PageResource, PageScreen, VisitOutcome
from core.playback_check import PlaybackCheck, check_record
from core.timestamps import from_unix_milliseconds, parse_warc_date, timestamp14, unix_milliseconds, warc_date
from core.url_keys import replay_key
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import Level, LevelActor, target_of
from playback.playback_server import serve
from playback.web.asgi_app import WebOptions
from playback.web.rate_limits import RateLimitPolicy, parse_networks
from tests.support.services.ports import free_port
from tests.support.services.processes import browser_path
from warc.index.protocol import CAPTURES_DDL, CaptureRow, QualityRow, capture_row, columns, quality_row

ROOT = Path(__file__).parents[2]
PYWB_PYTHON = ROOT / ".venv-replay" / "bin" / "python"
NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
FRONT = "http://front.test"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def png(colour: str = "red", size: tuple[int, int] = (8, 8)) -> bytes:
    """Return a PNG image of one colour."""
    with io.BytesIO() as buffer:
        Image.new("RGB", size, colour).save(buffer, "PNG")
        return buffer.getvalue()


def index_row(of: Capture) -> CaptureRow:
    """Return the capture as a row of the index."""
    return capture_row(
        of.url,
        unix_milliseconds(of.captured_at),
        of.record_type.value,
        of.location,
        mime=of.mime,
        digest=of.digest,
        status=of.status,
        original=of.original,
        page_id=of.page_id,
        truncated=of.truncated,
        login=of.login,
    )


class CollectionBuilder:
    """Writes captures as the proxy and the worker do: a WARC record, then its index row."""

    def __init__(self, root: Path, *, is_there: bool = False) -> None:
        self.layout = Layout(root)
        self.layout.archive.mkdir(parents=True, exist_ok=is_there)
        self.layout.databases.mkdir(exist_ok=is_there)
        self._database = sqlite3.connect(self.layout.captures_db, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.executescript(CAPTURES_DDL)

    def close(self) -> None:
        """Close the index."""
        self._database.close()

    def response(
        self,
        url: str,
        body: bytes,
        *,
        mime: str = "text/html",
        content_type: str | None = None,
        status: int = 200,
        headers: tuple[tuple[str, str], ...] = (),
        at: datetime = NOW,
        page_id: str | None = None,
        warc: str = "captures-00000.warc.gz",
        is_open: bool = False,
        login: str = "",
        posted: tuple[str, bytes] | None = None,
    ) -> Capture:
        """Write a `response` record and its row; `is_open` writes to the WARC as not yet closed.

        A `request` record for `posted`, a Content-Type and a body, follows it.
        """
        lines = [("Content-Type", content_type or mime), *headers]
        location, digest = self._write(
            url, body, RecordType.RESPONSE, at, warc, is_open, _http(status, lines),
            _page(page_id, login),
        )  # fmt: skip
        if posted is not None:
            line = f"POST {urlsplit(url).path} HTTP/1.1"
            head = StatusAndHeaders(line, [("Content-Type", posted[0])], is_http_request=True)
            self._write(url, posted[1], RecordType.REQUEST, at, warc, is_open, head, _page(page_id))
        return self.index(
            Capture(
                url, replay_key(url), at, RecordType.RESPONSE, mime, status, digest, location,
                page_id=page_id, login=login or None,
            )
        )  # fmt: skip

    def check(self, check: PlaybackCheck, *, page_id: str = "of-a-check") -> None:
        """Write a check of a page's copy as the worker does; it is no capture of the page."""
        uri = artifact_uri(ArtifactKind.PAGEINFO, check.url)
        at = parse_warc_date(check.checked_at)
        location, digest = self._write(
            uri,
            check_record(check, page_id),
            RecordType.RESOURCE,
            at,
            "artifacts-00000.warc.gz",
            False,
            None,
            {"Content-Type": "application/json", **_page(page_id)},
        )
        self.index(
            Capture(
                uri, "", at, RecordType.RESOURCE, "application/json", None, digest, location,
                page_id=page_id,
            )
        )  # fmt: skip
        row = quality_row(check, location)
        marks = ", ".join("?" * len(row))
        self._database.execute(f"INSERT INTO qualities ({columns(QualityRow)}) VALUES ({marks})", row)

    def revisit(
        self, url: str, original: Capture, *, at: datetime = NOW, warc: str = "captures-00001.warc.gz"
    ) -> Capture:
        """Write a `revisit` record of `original`, possibly at another URL, and its row."""
        location, _ = self._write(
            url,
            b"",
            RecordType.REVISIT,
            at,
            warc,
            False,
            _http(200, [("Content-Type", original.mime)]),
            {
                "WARC-Payload-Digest": original.digest,
                "WARC-Refers-To-Target-URI": original.url,
                "WARC-Refers-To-Date": warc_date(original.captured_at),
                "WARC-Profile": ("http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"),
                **_page(original.page_id, original.login or ""),
            },
        )
        return self.index(
            replace(
                original,
                url=url,
                urlkey=replay_key(url),
                captured_at=at,
                record_type=RecordType.REVISIT,
                location=location,
                original=original.location,
            )
        )

    def artifact(
        self,
        kind: ArtifactKind,
        url: str,
        body: bytes,
        *,
        mime: str,
        at: datetime = NOW,
        page_id: str | None = None,
        login: str = "",
    ) -> Capture:
        """Write a `resource` record and its row."""
        uri = artifact_uri(kind, url)
        content_type = f"{mime}; charset=utf-8" if mime.startswith("text/") else mime
        location, digest = self._write(
            uri,
            body,
            RecordType.RESOURCE,
            at,
            "artifacts-00000.warc.gz",
            False,
            None,
            {"Content-Type": content_type, **_page(page_id, login)},
        )
        return self.index(
            Capture(
                uri, replay_key(uri), at, RecordType.RESOURCE, mime, None, digest, location,
                page_id=page_id, login=login or None,
            )
        )  # fmt: skip

    def page(
        self,
        url: str,
        dom: str | None = None,
        *,
        at: datetime = NOW,
        title: str = "",
        outcome: VisitOutcome = VisitOutcome.COMPLETE,
        reason: str = "",
        status: int | None = 200,
        mime: str = "text/html",
        final_url: str | None = None,
        shot: bytes | None = None,
        text: str | None = None,
        page_class: PageClass = PageClass.OK,
        evidence: tuple[str, ...] = (),
        screen: PageScreen | None = None,
        login: str = "",
        stored: str = "everything",
        left_out: int = 0,
        resources: Sequence[PageResource] = (),
        notes: tuple[str, ...] = (),
    ) -> str:
        """Write a page with the given artifacts, its manifest and its rows; return its identifier."""
        page_id = hashlib.sha256(f"{url} {at}".encode()).hexdigest()[:32]
        if dom is not None:
            self.artifact(ArtifactKind.DOM, url, dom.encode(), mime="text/html", at=at, page_id=page_id, login=login)
        if shot is not None:
            for kind in (ArtifactKind.VIEW, ArtifactKind.FULL_PAGE):
                self.artifact(kind, url, shot, mime="image/png", at=at, page_id=page_id, login=login)
            with Image.open(io.BytesIO(shot)) as image, io.BytesIO() as buffer:
                image.convert("RGB").save(buffer, "JPEG")
                small = buffer.getvalue()
            self.artifact(ArtifactKind.THUMBNAIL, url, small, mime="image/jpeg", at=at, page_id=page_id, login=login)
        if text is not None:
            self.artifact(ArtifactKind.TEXT, url, text.encode(), mime="text/plain", at=at, page_id=page_id, login=login)
        info = PageInfo(
            page_id=page_id, url=url, final_url=final_url or url, captured_at=warc_date(at),
            outcome=outcome, reason=reason, status=status, mime=mime, title=title,
            page_class=page_class, class_score=0.9, class_evidence=evidence,
            screen=screen, login=login, stored=stored, left_out=left_out,
            resources=tuple(resources), notes=notes,
        )  # fmt: skip
        self.artifact(
            ArtifactKind.PAGEINFO, url, info.to_json(), mime="application/json", at=at,
            page_id=page_id, login=login,
        )  # fmt: skip
        self._database.execute(
            "INSERT INTO pages VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                page_id, url, replay_key(url), timestamp14(at), _milliseconds(at), info.final_url,
                outcome, reason, status, mime, title, 3, 4_321, 1.5, page_class, 0.9,
                "\n".join(evidence), info.device, info.language, info.login,
            ),
        )  # fmt: skip
        return page_id

    def index(self, capture: Capture) -> Capture:
        """Add the capture's row; return the capture, cut to milliseconds."""
        capture = replace(capture, captured_at=from_unix_milliseconds(unix_milliseconds(capture.captured_at)))
        original = capture.original
        self._database.execute(
            "INSERT INTO captures (urlkey, timestamp, captured_ms, url, record_type, mime, status,"
            " digest, filename, offset, length, orig_filename, orig_offset, orig_length, page_id,"
            " truncated, login) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                capture.urlkey, timestamp14(capture.captured_at),
                _milliseconds(capture.captured_at), capture.url, capture.record_type, capture.mime,
                capture.status, capture.digest, capture.location.filename, capture.location.offset,
                capture.location.length, original and original.filename,
                original and original.offset, original and original.length, capture.page_id,
                capture.truncated, capture.login,
            ),
        )  # fmt: skip
        return capture

    def _write(
        self,
        url: str,
        body: bytes,
        kind: RecordType,
        at: datetime,
        warc: str,
        is_open: bool,
        http_headers: StatusAndHeaders | None,
        more: dict[str, str] | None = None,
    ) -> tuple[RecordLocation, str]:
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        headers = {"WARC-Date": warc_date(at), "WARC-Payload-Digest": digest, **(more or {})}
        content_type = headers.pop("Content-Type", None)
        path = self.layout.archive / (warc + OPEN_SUFFIX if is_open else warc)
        with path.open("ab") as file:
            writer = WARCWriter(file, gzip=True, warc_version="1.1")
            record = writer.create_warc_record(
                url,
                kind,
                payload=io.BytesIO(body),
                length=len(body),  # else warcio buffers in a file that it leaves open
                warc_headers_dict=headers,
                http_headers=http_headers,
                warc_content_type=content_type or "",
            )
            start = file.tell()
            writer.write_record(record)
            return RecordLocation(warc, start, file.tell() - start), digest


def _page(page_id: str | None, login: str = "") -> dict[str, str]:
    page = {} if page_id is None else {"WARC-Page-ID": page_id}
    return {**page, LOGIN_HEADER: login} if login else page


def _http(status: int, headers: list[tuple[str, str]]) -> StatusAndHeaders:
    return StatusAndHeaders(f"{status} Archived", headers, protocol="HTTP/1.1")


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class StoredReply:
    """A response, its headers in order and its body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def __getitem__(self, name: str) -> str:
        return {key.lower(): value for key, value in self.headers}[name.lower()]

    @property
    def text(self) -> str:
        """Return the body, decoded as UTF-8."""
        return self.body.decode()


def fetch(origin: str, target: str, *, method: str = "GET", headers: dict[str, str] | None = None) -> StoredReply:
    """Request `target` exactly as it is written, without following redirects."""
    connection = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=120)
    with contextlib.closing(connection):
        connection.putrequest(method, target, skip_host="Host" in (headers or {}))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        return StoredReply(response.status, response.getheaders(), response.read())


@dataclass
class ReplayProcess:
    """A running replay."""

    process: subprocess.Popen[str]
    origin: str

    def get(self, target: str, **options: dict[str, str]) -> StoredReply:
        """Request `target` from the replay server."""
        return fetch(self.origin, target, headers=options.get("headers"))


@contextlib.contextmanager
def running_replay(root: Path, front_origin: str = FRONT, *options: str) -> Iterator[ReplayProcess]:
    """Run the real replay until the block ends."""
    command = [sys.executable, "-m", "playback.replay", "--collection", str(root)]
    with subprocess.Popen(
        [*command, "--front-origin", front_origin, *options],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            yield ReplayProcess(process, f"http://127.0.0.1:{ready['port']}")
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(timeout=120)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


@dataclass
class ReplayedCollection:
    """A live collection and the replay that reads it."""

    builder: CollectionBuilder
    replay: ReplayProcess


@pytest.fixture(scope="session")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplayedCollection]:
    """Run one replay for all tests; each adds what it needs at URLs of its own (`site`)."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("archived") / "collection")
    with contextlib.closing(builder), running_replay(builder.layout.root) as replay:
        yield ReplayedCollection(builder, replay)


@dataclass
class ServedCollection:
    """A live collection, and both servers as readers meet them."""

    builder: CollectionBuilder
    front: str
    replay: str

    def get(self, target: str, **options: dict[str, str]) -> StoredReply:
        """Request `target` from the front."""
        return fetch(self.front, target, headers=options.get("headers"))


# Tests ask more often than people do.
UNLIMITED = RateLimitPolicy(internal=parse_networks(["127.0.0.0/8"]))


@contextlib.contextmanager
def serving(builder: CollectionBuilder, index_url: str = "", full: str = "", **more: Any) -> Iterator[ServedCollection]:
    """Run the real `playback.playback_server.serve` in an event loop of its own until the block ends."""
    ready: queue.Queue[str] = queue.Queue()
    replay_port = free_port()
    names = {each.name for each in fields(WebOptions)}
    web = {"access": UNLIMITED} | {name: more[name] for name in more.keys() & names}

    async def run() -> None:
        await serve(
            builder.layout,
            replay_port=replay_port,
            on_ready=ready.put,
            index_url=index_url,
            full=full,
            options=WebOptions(**web),
            **{name: value for name, value in more.items() if name not in names},
        )

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(run())
        thread = threading.Thread(target=_run_out, args=(loop, task))
        thread.start()
        try:
            yield ServedCollection(builder, ready.get(timeout=120), f"http://127.0.0.1:{replay_port}")
        finally:
            loop.call_soon_threadsafe(task.cancel)
            thread.join(timeout=120)


def _run_out(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    asyncio.set_event_loop(loop)
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(task)


def decide(layout: Layout, level: Level | None, **target: str) -> None:
    """Give a link, a domain, a wiki or everything a level, as an operator does."""
    with contextlib.closing(open_decisions(layout)) as decisions:
        LevelStore(decisions).decide([target_of(**target)], level, actor=LevelActor("op"), now=NOW)


@dataclass
class FullSite:
    """A live collection whose copies may be shown in full."""

    builder: CollectionBuilder
    served: ServedCollection

    def page(self, url: str, html: str, *, at: datetime = NOW, mime: str = "text/html") -> str:
        """Write a page and its document; return its identifier."""
        page_id = self.builder.page(url, html, at=at)
        self.builder.response(url, html.encode(), mime=mime, at=at, page_id=page_id)
        return page_id

    def view(self, url: str, *, at: datetime = NOW, before: str = "") -> str:
        """Return the front's URL of the page's full view."""
        return f"{self.served.front}{before}/full-view/{timestamp14(at)}/{url}"

    def frame(self, url: str, *, at: datetime = NOW, before: str = "") -> str:
        """Return the URL of the copy in its frame, as the front gives it."""
        path = self.view(url, at=at, before=before).removeprefix(self.served.front)
        match = re.search(r'<iframe[^>]* src="([^"]+)"', self.served.get(path).text)
        assert match is not None
        return html.unescape(match[1])

    def ask(self, frame: str, target: str, dest: str = "iframe", **options: Any) -> StoredReply:
        """Request `target` from that frame's origin; `dest` is the browser's Sec-Fetch-Dest."""
        headers = {"Host": urlsplit(frame).netloc, **options.pop("headers", {})}
        if dest:
            headers["Sec-Fetch-Dest"] = dest
        return fetch(self.served.replay, target, headers=headers, **options)

    def part(self, frame: str, modifier: str, url: str, dest: str = "", **options: Any) -> StoredReply:
        """Request a resource of the page."""
        moment = frame.split("/c/")[1][:14]
        return self.ask(frame, f"/c/{moment}{modifier}/{url}", dest, **options)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCollection]:
    """Run front and replay for all tests; each adds what it needs at URLs of its own (`site`)."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("served") / "collection")
    with contextlib.closing(builder), serving(builder) as it:
        yield it


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullSite]:
    """Run front and replay with full copies, for all tests; every site below ``.example`` is allowed."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("full") / "collection")
    decide(builder.layout, Level.FULL, domain="example")
    with contextlib.closing(builder), serving(builder, full="local") as it:
        yield FullSite(builder, it)


@pytest.fixture
def site(request: pytest.FixtureRequest) -> str:
    """Return an origin that only this test uses."""
    return f"https://{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]}.example"


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[CollectionBuilder]:
    """Yield an empty collection for this test."""
    with contextlib.closing(CollectionBuilder(tmp_path / "collection")) as builder:
        yield builder


@pytest.fixture(scope="session")
def in_replay() -> Iterator[Callable[[str, list[object]], str]]:
    """Yield a function that calls one of `tests/support/replay_calls.py` in a process of its own."""
    script = Path(__file__).with_name("replay_calls.py")
    with subprocess.Popen(
        [sys.executable, str(script)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None

        def call(name: str, arguments: list[object]) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([name, arguments]) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert "error" not in answer, answer["error"]
            result: str = answer["result"]
            return result

        yield call
        process.stdin.close()


@dataclass
class LeakListener:
    """A listener to which a browser's every foreign name leads; what was asked of it."""

    port: int
    received: list[bytes] = field(default_factory=list)
    read: threading.Event = field(default_factory=threading.Event)

    @property
    def requests(self) -> list[bytes]:
        """Return the first bytes of each connection made until now, in order.

        Connections are read one after another, so all earlier ones are read when the last one is.
        """
        self.read.clear()
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.sendall(_LAST)
        assert self.read.wait(120)
        return list(self.received)


_LAST = b"the connection of the test itself"


@pytest.fixture
def leaks(leak_listener: LeakListener) -> LeakListener:
    """Return the listener, cleared of what it received before the test."""
    assert isinstance(leak_listener.requests, list)  # those of before were read
    leak_listener.received.clear()
    return leak_listener


@pytest.fixture(scope="session")
def leak_listener() -> Iterator[LeakListener]:
    """Accept connections and record their first bytes; answer nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        listener = LeakListener(server.getsockname()[1])

        def accept() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.settimeout(2)
                    with contextlib.suppress(OSError):
                        received = client.recv(4096)
                        if received == _LAST:
                            listener.read.set()
                        else:
                            listener.received.append(received)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener
        server.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=120)


@dataclass
class HeadlessBrowser:
    """The real headless shell, sandboxed, as an unprivileged user when the tests run as root."""

    home: Path

    def dump_dom(self, address: str, *, leaks: LeakListener | None = None, options: Sequence[str] = ()) -> str:
        """Return the document's HTML after it has loaded."""
        return self._run(address, "--dump-dom", *options, leaks=leaks)

    def screenshot(self, address: str, *, size: tuple[int, int] = (800, 600), dark: bool = False) -> Image.Image:
        """Return a screenshot of the window after the page has loaded."""
        target = self.home / "shot.png"
        self._run(
            address,
            f"--screenshot={target}",
            f"--window-size={size[0]},{size[1]}",
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        )
        with Image.open(target) as image:
            return image.convert("RGB")

    def _run(self, address: str, *options: str, leaks: LeakListener | None = None) -> str:
        mapped = f"MAP * 127.0.0.1:{leaks.port}, EXCLUDE 127.0.0.1" if leaks else "MAP * ~NOTFOUND"
        if leaks is None:
            mapped += ", EXCLUDE 127.0.0.1"
        command = [
            browser_path(), "--headless", "--disable-gpu", "--hide-scrollbars",
            "--force-color-profile=srgb", f"--user-data-dir={self.home / 'profile'}",
            f"--host-resolver-rules={mapped}", "--timeout=50000", "--virtual-time-budget=4000",
            *options, address,
        ]  # fmt: skip
        if os.geteuid() == 0:
            command = [
                "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *command
            ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=True,
            env={**os.environ, "HOME": str(self.home)}, cwd=self.home,
        )  # fmt: skip
        return done.stdout


@pytest.fixture
def browser() -> Iterator[HeadlessBrowser]:
    """Yield a browser with an empty profile."""
    home = Path(tempfile.mkdtemp(prefix="weboid-browser-"))
    if os.geteuid() == 0:
        os.chown(home, 65534, 65534)
    yield HeadlessBrowser(home)
    shutil.rmtree(home)
