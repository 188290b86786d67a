"""WARCs that are in the bucket alone: paths, streams, records by blocks, and the bounds of the cache."""

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
from warc.local_storage import closed_warcs
from warc.object_storage import StoredReader
from warc.record_reader import Request, open_record
from warc.stored_warcs import WarcPath, blocks_folder, forget_blocks, object_file, read_settings, stored_warc
from warc.uploads import UploadQueue

pytestmark = pytest.mark.slow

_NAME = "captures-0.warc.gz"
_BODIES = [bytes([65 + number]) * 100 + number.to_bytes(3, "big") * 300_000 for number in range(6)]


@pytest.fixture
def moved(s3: S3Server, tmp_path: Path) -> Iterator[tuple[Layout, list[tuple[str, int, int]]]]:
    """A collection whose WARC is in the bucket alone, and the places of its records."""
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
