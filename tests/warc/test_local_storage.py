"""Folders for what a process needs while it lives: gone when it ends, and after it was killed."""

import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.errors import PermanentError, TransientError
from core.layout import Layout
from tests.support.playback_fixtures import CollectionBuilder
from tests.support.services.s3_server import S3Server
from warc import object_storage
from warc.checksums import add_missing_sums
from warc.index.sqlite import SqliteCaptureIndex
from warc.local_storage import (
    ScratchKind,
    WarcPath,
    closed_warcs,
    enable_wal,
    object_file,
    remove_abandoned,
    scratch_folder,
    stored_warc,
)
from warc.object_storage import StoredReader, blocks_folder, forget_blocks, read_settings
from warc.record_reader import Request, open_record
from warc.uploads import UploadQueue

OWNER = """
import sys
from warc.local_storage import ScratchKind, scratch_folder
with scratch_folder(ScratchKind.RUN) as folder:
    (folder / "proxy0.sock").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the system's temporary folder for this test and the processes that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def owner() -> tuple["subprocess.Popen[str]", Path]:
    """Start a process that owns a scratch folder; return both."""
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.timeout(300)
def test_what_a_killed_process_left_goes_with_the_next_and_a_live_ones_stays(base: Path) -> None:
    """Whatever either is for; and one's own is gone at the end."""
    killed, left = owner()
    living, living_folder = owner()
    try:
        assert left.exists()
        killed.send_signal(signal.SIGKILL)
        killed.communicate()

        with scratch_folder(ScratchKind.VERIFY) as own:
            assert sorted(base.iterdir()) == sorted([living_folder, own])
            assert (living_folder / "proxy0.sock").exists()
        assert list(base.iterdir()) == [living_folder]
    finally:
        living.communicate("")

    assert not living_folder.exists()


def test_what_is_nobodys_for_sure_stays(tmp_path: Path) -> None:
    """A folder that nobody locked yet, one of another name, and what a link of such a name leads to."""
    (tmp_path / "weboid-run-new").mkdir()
    other = tmp_path / "weboid-other"
    other.mkdir()
    (other / ".lock").touch()
    (tmp_path / "weboid-run-link").symlink_to(other)
    (tmp_path / "weboid-run-file").touch()
    before = sorted(tmp_path.rglob("*"))

    assert remove_abandoned(tmp_path) == []

    assert sorted(tmp_path.rglob("*")) == before


pytestmark = pytest.mark.slow

_NAME = "captures-0.warc.gz"
_BODIES = [bytes([65 + number]) * 100 + number.to_bytes(3, "big") * 300_000 for number in range(6)]


@pytest.fixture
def moved(s3: S3Server, tmp_path: Path) -> Iterator[tuple[Layout, list[tuple[str, int, int]]]]:
    """Yield a collection whose WARC is in the bucket alone, and the places of its records."""
    with closing(CollectionBuilder(tmp_path / "collection")) as builder:
        captures = [
            builder.response(f"https://a.example/{number}", body, warc=_NAME) for number, body in enumerate(_BODIES)
        ]
        layout = builder.layout
        with closing(SqliteCaptureIndex(layout.captures_db)) as index:
            add_missing_sums(layout, index)
        before = (layout.archive / _NAME).stat()
        assert UploadQueue(layout, s3.settings(keep_local="0s")).upload(SystemClock()) == [_NAME]
        assert not (layout.archive / _NAME).exists()
        after = WarcPath(layout.archive / _NAME).stat()
        assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        places = [(each.location.filename, each.location.offset, each.location.length) for each in captures]
        yield layout, places


def _body(layout: Layout, place: tuple[str, int, int]) -> bytes:
    with open_record(layout.archive, *place) as record:
        return b"".join(record.content)


Moved = tuple[Layout, list[tuple[str, int, int]]]


def test_records_are_read_through_the_cache(s3: S3Server, moved: Moved) -> None:
    """Each record is what it was; a second reading needs no server."""
    layout, places = moved
    assert [_body(layout, place) for place in places] == _BODIES
    s3.relay.leave()
    try:
        assert [_body(layout, place) for place in places] == _BODIES
        forget_blocks(layout.root, _NAME)
        with pytest.raises(TransientError):
            _body(layout, places[0])
    finally:
        s3.relay.come_back()
    assert _body(layout, places[0]) == _BODIES[0]


def test_the_cache_is_bounded(s3: S3Server, moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks over the limit are deleted, those used least recently first."""
    monkeypatch.setattr(object_storage, "BLOCK_BYTES", 4_000)
    layout, places = moved
    queue = UploadQueue(layout, replace(read_settings(layout.root), cache_bytes=9_000))
    queue.upload(SystemClock())
    assert [_body(layout, place) for place in places] == _BODIES
    blocks = [each.stat().st_size for each in blocks_folder(layout.root).glob("*/*")]
    assert 0 < sum(blocks) <= 9_000


def test_a_stream_is_the_file(moved: Moved) -> None:
    """Reading in order, seeking and the end are those of a file."""
    layout, places = moved
    (path,) = closed_warcs(layout)
    with path.open("rb") as file:
        whole = file.read()
        file.seek(places[2][1])
        assert file.read(places[2][2]) == whole[places[2][1] :][: places[2][2]]
    assert len(whole) == path.stat().st_size
    with pytest.raises(FileNotFoundError):
        path.open("r+b")


def test_another_object_is_no_record(s3: S3Server, moved: Moved) -> None:
    """An object that was replaced behind our back is refused; a file beside the WARC may be damaged."""
    layout, places = moved
    bucket = read_settings(layout.root).url.removeprefix("s3://").partition("/")[0]
    s3.client.put_object(Bucket=bucket, Key=f"wiki/{_NAME}", Body=b"x" * 9_000)
    with pytest.raises(PermanentError, match="replaced"):
        _body(layout, places[0])
    object_file(layout.archive / _NAME).write_text("{")
    with pytest.raises(PermanentError, match="cannot be read"):
        stored_warc(layout.archive / _NAME)
    with pytest.raises(PermanentError):
        _body(layout, places[0])


def test_requests_run_where_the_caller_says(moved: Moved) -> None:
    """Only what the cache lacks is requested, by the caller's function."""
    layout, _ = moved
    stored, requests = stored_warc(layout.archive / _NAME), []
    assert stored is not None

    def run(request: Request) -> bytes:
        requests.append(request)
        return request()

    reader = StoredReader(str(layout.archive), stored, run)
    assert reader.read(0, 10) == reader.read(0, 10)
    assert len(requests) == 1
    assert reader.read(stored.size - 3, 100) == reader.read(stored.size - 3, 3)


def test_wal_is_enabled_by_any_number_at_once(tmp_path: Path) -> None:
    """SQLite does not wait for another that sets the mode: with the pragma alone one round in fourteen fails."""
    failures = []

    def open_at(path: Path, start: threading.Barrier) -> None:
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as database:
            start.wait()
            try:
                enable_wal(database, path)
                database.execute("CREATE TABLE IF NOT EXISTS rows (number)")
            except sqlite3.OperationalError as error:
                failures.append(error)

    for number in range(60):
        start = threading.Barrier(8)
        openers = [threading.Thread(target=open_at, args=(tmp_path / f"{number}.sqlite", start)) for _ in range(8)]
        for each in openers:
            each.start()
        for each in openers:
            each.join()
    assert failures == []
