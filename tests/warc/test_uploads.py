"""Uploads of a collection: what waits, confirmation, removal, outage, erasure, a lost disk."""

import random
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.config.settings import StorageSettings
from core.errors import CollectionInUseError, PermanentError, TransientError
from core.layout import Layout
from tests.support.clocks import ShiftedClock
from tests.support.playback_fixtures import CollectionBuilder
from tests.support.polling import wait_until
from tests.support.services.s3_server import S3Server
from warc import object_storage, uploads
from warc.checksums import add_missing_sums, read_sums
from warc.erasure import erase_records
from warc.index.sqlite import SqliteCaptureIndex
from warc.local_storage import object_file, stored_warc
from warc.object_storage import ObjectStorage, blocks_folder
from warc.rebuild import rebuild_index
from warc.uploads import UploadQueue, UploadWorker, read_state
from warc.verification import verify_collection

pytestmark = pytest.mark.slow

_SECRET = b"the secret of the wombat"
_CLOCK = SystemClock()


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[CollectionBuilder]:
    """Yield a sound collection with two WARCs of captures."""
    with closing(CollectionBuilder(tmp_path / "collection")) as made:
        made.page("https://a.example/", "<p>page")
        for number in range(4):
            made.response(f"https://a.example/{number}", _SECRET * (number + 1), warc=f"captures-{number % 2}.warc.gz")
        cover_warcs(made.layout)
        yield made


def cover_warcs(layout: Layout) -> None:
    """Note all WARCs as closed and completely indexed."""
    with closing(SqliteCaptureIndex(layout.captures_db)) as index:
        for path in layout.archive.glob("*.gz"):
            index.cover(path.name, path.stat().st_size)
        add_missing_sums(layout, index)


def _names(layout: Layout) -> list[str]:
    return sorted(path.name for path in layout.archive.glob("*.gz"))


def test_uploaded_files_do_not_wait(s3: S3Server, builder: CollectionBuilder) -> None:
    """Each WARC and the checksums are in the bucket, once; local files stay."""
    layout, settings = builder.layout, s3.settings()
    queue, names = UploadQueue(layout, settings), _names(builder.layout)
    assert sorted(path.name for path in queue.pending()) == names
    assert sorted(queue.upload(_CLOCK)) == names == _names(layout)
    assert (queue.pending(), queue.upload(_CLOCK)) == ([], [])
    there = {each.name for each in ObjectStorage(settings).objects()}
    assert there == {*names, "SHA256SUMS", "SHA256SUMS.chain"}
    state = read_state(layout, settings)
    assert state is not None
    assert (state.pending_files, state.uploaded_files, state.remote_files, state.error) == (0, len(names), 0, "")
    assert read_state(layout, StorageSettings()) is None


@pytest.mark.parametrize(("keep", "left"), [("7d", 0), ("largest", None), ("always", 3), ("9d", 3)])
def test_local_files_are_removed_as_set(s3: S3Server, builder: CollectionBuilder, keep: str, left: int | None) -> None:
    """Local files go at their age or by their size, and a collection of objects is sound."""
    layout = builder.layout
    sizes = [path.stat().st_size for path in layout.archive.glob("*.gz")]
    queue = UploadQueue(layout, s3.settings(keep_local=f"{max(sizes)}B" if keep == "largest" else keep))
    queue.upload(_CLOCK)
    queue.upload(ShiftedClock(timedelta(days=8)))
    here = [path.stat().st_size for path in layout.archive.glob("*.gz")]
    assert len(here) == left if left is not None else 0 < sum(here) <= max(sizes)
    result = verify_collection(layout)
    assert (result.faults, result.files) == ([], len(sizes))
    assert result.size == sum(sizes)


def test_a_file_stays_until_its_object_is_there(s3: S3Server, builder: CollectionBuilder) -> None:
    """An object that is gone at the time of the removal is uploaded again before the file may go."""
    layout, settings = builder.layout, s3.settings()
    UploadQueue(layout, settings).upload(_CLOCK)
    name, bucket = _names(layout)[0], settings.url.removeprefix("s3://").partition("/")[0]
    s3.client.delete_object(Bucket=bucket, Key=f"wiki/{name}")
    queue = UploadQueue(layout, replace(settings, keep_local="0s"))
    with pytest.raises(PermanentError, match="is pending again"):
        queue.upload(_CLOCK)
    assert (layout.archive / name).exists()
    queue.upload(_CLOCK)
    assert _names(layout) == []
    assert verify_collection(layout).faults == []


def test_a_damaged_file_stops_no_other(s3: S3Server, builder: CollectionBuilder) -> None:
    """A file that does not match SHA256SUMS is reported and stays; the others are uploaded."""
    layout, settings = builder.layout, s3.settings(keep_local="0s")
    name, *others = _names(layout)
    path = layout.archive / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(PermanentError, match="SHA256SUMS"):
        UploadQueue(layout, settings).upload(_CLOCK)
    assert _names(layout) == [name]
    assert {each.name for each in ObjectStorage(settings).objects()} >= {*others}
    state = read_state(layout, settings)
    assert state is not None
    assert state.pending_files == 1
    assert name in state.error


def test_a_worker_survives_an_outage(s3: S3Server, builder: CollectionBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the server is away files wait and the error is shown; afterwards all is uploaded."""
    monkeypatch.setattr(uploads, "RETRY_S", 0.05)
    monkeypatch.setattr(uploads, "POLL_S", 0.05)
    layout, settings = builder.layout, s3.settings()
    s3.relay.leave()
    worker = UploadWorker(layout, settings, _CLOCK)
    try:
        wait_until(lambda: bool((state := read_state(layout, settings)) and state.error))
        failing = read_state(layout, settings)
        assert failing is not None
        assert (failing.pending_files, failing.failing_since > 0) == (len(_names(layout)), True)
        s3.relay.come_back()
        wait_until(lambda: UploadQueue(layout, settings).pending() == [])
        builder.response("https://a.example/late", b"late", warc="captures-9.warc.gz")
        cover_warcs(layout)
    finally:
        s3.relay.come_back()
        worker.close()
    state = read_state(layout, settings)
    assert state is not None
    assert (state.pending_files, state.error, state.failing_since) == (0, "", 0.0)


def test_a_stop_ends_an_upload_between_parts(
    s3: S3Server, builder: CollectionBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is stopped sends no further part; the error is none of the bucket's, and the rest waits."""
    monkeypatch.setattr(object_storage, "PART_BYTES", 5 << 20)
    layout, settings = builder.layout, s3.settings()
    UploadQueue(layout, settings).upload(_CLOCK)
    builder.response("https://a.example/large", random.Random(1).randbytes(11 << 20), warc="captures-8.warc.gz")
    cover_warcs(layout)
    s3.relay.hold_request(b"partNumber=2")
    worker = UploadWorker(layout, settings, _CLOCK)
    assert s3.relay.held.wait(120)
    closing_worker = threading.Thread(target=worker.close, kwargs={"stopped": True})
    closing_worker.start()
    wait_until(lambda: worker._stopped)
    s3.relay.go_on()
    closing_worker.join()
    state = read_state(layout, settings)
    assert state is not None
    assert (state.pending_files, state.error) == (1, "")
    assert UploadQueue(layout, settings).upload(_CLOCK) == ["captures-8.warc.gz"]


def test_one_process_uploads_at_a_time(s3: S3Server, builder: CollectionBuilder) -> None:
    """A second one is refused while the first is at work."""
    queue = UploadQueue(builder.layout, s3.settings())
    refused: list[BaseException] = []

    def second(_count: int) -> None:
        try:
            queue.upload(_CLOCK)
        except CollectionInUseError as error:
            refused.append(error)

    queue.upload(_CLOCK, on_bytes=second)
    assert len(refused) == len(_names(builder.layout))


def test_an_erasure_reaches_the_bucket(s3: S3Server, builder: CollectionBuilder) -> None:
    """A record of a WARC in the bucket alone is erased there, and in the cache of blocks."""
    layout, settings = builder.layout, s3.settings(keep_local="0s")
    gone = builder.response("https://a.example/gone", b"private words", warc="captures-5.warc.gz")
    builder.response("https://a.example/stays", b"public words", warc="captures-5.warc.gz")
    cover_warcs(layout)
    queue = UploadQueue(layout, settings)
    queue.upload(_CLOCK)
    before = stored_warc(layout.archive / gone.location.filename)
    blocks_folder(layout.root).joinpath(gone.location.filename).mkdir(parents=True)
    tombstones = {gone.location.filename: {gone.location.offset: (("reason", "order"),)}}
    assert [each.url for each in erase_records(layout, tombstones)] == [gone.url]
    assert [path.name for path in queue.pending()] == [gone.location.filename]
    assert not [*blocks_folder(layout.root).iterdir()]
    assert queue.upload(_CLOCK) == [gone.location.filename]
    after = stored_warc(layout.archive / gone.location.filename)
    assert before is not None
    assert after is not None
    assert after.sha256 == read_sums(layout).by_name[after.name] != before.sha256
    assert _names(layout) == []
    object_facts = ObjectStorage(settings).head(after.name)
    assert object_facts is not None
    assert (object_facts.size, object_facts.sha256) == (after.size, after.sha256)
    assert verify_collection(layout).faults == []


def test_a_collection_is_rebuilt_from_the_bucket(s3: S3Server, builder: CollectionBuilder, tmp_path: Path) -> None:
    """On a new disk the bucket's WARCs are indexed and verified without a copy of them."""
    layout, settings = builder.layout, s3.settings()
    UploadQueue(layout, settings).upload(_CLOCK)
    fresh = Layout(tmp_path / "fresh")
    for folder in (fresh.archive, fresh.databases):
        folder.mkdir(parents=True)
    assert sorted(UploadQueue(fresh, settings).adopt(_CLOCK)) == _names(layout)
    counts = rebuild_index(fresh, bucket="default")
    assert counts["captures"] == rebuild_index(layout, bucket="default")["captures"] > 0
    assert verify_collection(fresh).faults == []
    assert _names(fresh) == []
    assert fresh.checksums.read_bytes() == layout.checksums.read_bytes()


def test_verification_finds_what_the_bucket_lost(s3: S3Server, builder: CollectionBuilder) -> None:
    """An object that is gone, or another one, is a fault of its file; a bucket that does not answer is none."""
    layout, settings = builder.layout, s3.settings(keep_local="0s")
    names = _names(layout)
    UploadQueue(layout, settings).upload(_CLOCK)
    bucket = settings.url.removeprefix("s3://").partition("/")[0]
    s3.client.delete_object(Bucket=bucket, Key=f"wiki/{names[0]}")
    s3.client.put_object(Bucket=bucket, Key=f"wiki/{names[1]}", Body=b"other")
    faults = verify_collection(layout).faults
    assert {each.filename for each in faults} == {*names[:2]}
    s3.relay.leave()
    try:
        with pytest.raises(TransientError):
            verify_collection(layout)
        with pytest.raises(TransientError):
            UploadQueue(layout, settings).adopt(_CLOCK)
    finally:
        s3.relay.come_back()
    assert all(object_file(layout.archive / name).exists() for name in names)
