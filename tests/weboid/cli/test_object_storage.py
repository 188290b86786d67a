"""Object storage as an operator meets it: an outage during a run, a killed upload, no local file left."""

import hashlib
import json
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from core.layout import Layout
from core.page_manifest import PageResource
from core.timestamps import timestamp14
from tests.support.commands import WeboidRunner, profile_for
from tests.support.playback_fixtures import NOW, CollectionBuilder, png, running_replay
from tests.support.services.s3_server import S3Server, s3  # noqa: F401 fixture
from tests.support.sites.web import TestWeb
from tests.support.stored_records import RULES
from tests.warc.test_uploads import cover_warcs
from tests.weboid.cli.test_maintenance import PLAIN
from warc.object_storage import ObjectStorage, read_settings
from warc.uploads import UploadQueue
from weboid.app.collection_config import write_config_table

pytestmark = [pytest.mark.browser, pytest.mark.proxy]


@pytest.fixture
def weboid(s3: S3Server, web: TestWeb, tmp_path: Path) -> Iterator[WeboidRunner]:  # noqa: F811 fixture
    """Yield a runner whose profile names a bucket and keeps no local copies."""
    settings = s3.settings()
    storage = {"url": settings.url, "endpoint_url": settings.endpoint_url, "keep_local": "0s"}
    yield WeboidRunner(tmp_path, profile_for(web, tmp_path / "profile.toml", storage=storage))
    s3.relay.come_back()


def _local(weboid: WeboidRunner) -> list[str]:
    return [path.name for path in Layout(weboid.collection).archive.glob("*.warc.gz")]


def test_a_run_during_an_outage_loses_nothing(s3: S3Server, weboid: WeboidRunner) -> None:  # noqa: F811 fixture
    """Pages are archived while the bucket is away; what waits is shown, uploaded later, and everything uses it."""
    profile = ("--profile", str(weboid.profile))
    s3.relay.leave()
    assert weboid.archive(PLAIN).code == 0
    waiting = _local(weboid)
    status = json.loads(weboid.call("status", "--json", *profile).out)
    assert status["uploads"]["pending_files"] == len(waiting) > 0
    assert "does not answer" in status["uploads"]["error"]
    assert "Failing since" in weboid.call("status", *profile).out
    assert weboid.call("collection", "upload", *profile).code != 0
    s3.relay.come_back()
    planned = json.loads(weboid.call("collection", "upload", "--dry-run", "--json", *profile).out)
    assert {each["file"] for each in planned["pending"]} == set(waiting)
    uploaded = json.loads(weboid.call("collection", "upload", "--json", *profile).out)
    assert (set(uploaded["uploaded"]), uploaded["pending_files"], uploaded["remote_files"]) == (
        set(waiting),
        0,
        len(waiting),
    )
    assert _local(weboid) == []

    # A later run uploads by itself, and reads the payloads of the first.
    assert weboid.archive(f"{RULES}/document.pdf").code == 0
    assert _local(weboid) == []
    assert weboid.call("verify", "collection").code == 0
    assert weboid.call("collection", "rebuild", *profile).code == 0
    exported = json.loads(weboid.call("export", "all.wacz", "--upload", "--json", *profile).out)
    assert exported["warcs"] >= 2 * len(waiting)
    assert exported["missing_warcs"] == []
    assert [each.rpartition("/")[2] for each in exported["uploaded"]] == ["all.wacz"]
    assert "Uploads" in weboid.call("status", *profile).out


def test_an_upload_that_was_killed_continues(s3: S3Server, weboid: WeboidRunner) -> None:  # noqa: F811 fixture
    """After kill -9 between two parts the command finishes the upload, and only then the file goes."""
    with closing(CollectionBuilder(weboid.collection)) as builder:
        body = random.Random(1).randbytes(18 << 20)
        builder.response("https://a.example/", body, warc="captures-0.warc.gz")
        builder.layout.marker.write_text("version = 1\n")
        cover_warcs(builder.layout)
    command = ("collection", "upload", "--json", "--profile", str(weboid.profile))
    s3.relay.hold_request(b"partNumber=2")
    process = weboid.start(*command)
    assert s3.relay.held.wait(120)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    s3.relay.cut()
    assert _local(weboid) == ["captures-0.warc.gz"]
    assert json.loads(weboid.call(*command).out)["uploaded"] == ["captures-0.warc.gz"]
    assert _local(weboid) == []
    assert weboid.call("verify", "collection").code == 0


def test_copies_are_replayed_from_the_bucket(s3: S3Server, weboid: WeboidRunner) -> None:  # noqa: F811 fixture
    """Page and picture come from the bucket; what is in the cache also while it is away, all else is a 503."""
    with closing(CollectionBuilder(weboid.collection)) as builder:
        builder.page("https://a.example/", "<p>wombats<img src=/a.png>")
        builder.response("https://a.example/a.png", png(), mime="image/png", warc="pictures-0.warc.gz")
        builder.layout.marker.write_text("version = 1\n")
        cover_warcs(builder.layout)
    assert weboid.call("collection", "upload", "--profile", str(weboid.profile)).code == 0
    assert _local(weboid) == []
    with running_replay(weboid.collection) as replay:
        page = replay.get(f"/c/{timestamp14(NOW)}mp_/https://a.example/")
        assert (page.status, "wombats" in page.text) == (200, True)
        s3.relay.leave()
        shutil.rmtree(weboid.collection / "cache" / "playback", ignore_errors=True)
        assert replay.get(f"/c/{timestamp14(NOW)}im_/https://a.example/a.png").status == 503
        s3.relay.come_back()
        assert replay.get(f"/c/{timestamp14(NOW)}im_/https://a.example/a.png").status == 200


def test_a_bucket_is_named_or_refused(weboid: WeboidRunner) -> None:
    """Without a bucket there is nothing to upload; a malformed address is an error of the setting."""
    with closing(CollectionBuilder(weboid.collection)) as builder:
        builder.layout.marker.write_text("version = 1\n")
    assert "[storage]" in weboid.call("collection", "upload").err
    write_config_table(weboid.collection, "storage", {"url": "https://example.org/"})
    assert "s3://bucket/prefix" in weboid.call("collection", "upload").err
    write_config_table(weboid.collection, "storage", {"url": "s3://bucket/a", "keep_local": "sometimes"})
    assert "keep_local" in weboid.call("collection", "upload").err


def test_an_erasure_replaces_the_object(s3: S3Server, weboid: WeboidRunner) -> None:  # noqa: F811 fixture
    """While the bucket is away the command says that it waits; the next one puts the tombstone there."""
    with closing(CollectionBuilder(weboid.collection)) as builder:
        for name in ("gone", "stays", "later"):
            builder.response(f"https://a.example/{name}", b"private words", warc=f"captures-{name}.warc.gz")
        builder.layout.marker.write_text("version = 1\n")
        cover_warcs(builder.layout)
    profile = ("--profile", str(weboid.profile))
    assert weboid.call("collection", "upload", *profile).code == 0
    for name in ("gone", "later"):
        assert weboid.call("takedown", "add", f"https://a.example/{name}", "--reason", "Order 7").code == 0
    erased = json.loads(weboid.call("takedown", "erase", "1", "--yes", "--json").out)
    assert (erased["erased"], "are replaced" in erased["storage"]) == (1, True)
    assert _local(weboid) == []
    # What is not in the cache cannot be read, so the bucket goes away only when the file was rewritten.
    storage = read_settings(weboid.collection)
    with UploadQueue(Layout(weboid.collection), storage)._locked():
        waits = json.loads(weboid.call("takedown", "erase", "2", "--yes", "--json").out)
    assert (waits["erased"], "still has them" in waits["storage"]) == (1, True)
    assert weboid.call("collection", "upload", *profile).code == 0
    assert weboid.call("verify", "collection").code == 0
    objects = {each.name: each.size for each in ObjectStorage(storage).objects()}
    assert objects["captures-gone.warc.gz"] != objects["captures-stays.warc.gz"]
    assert objects["captures-later.warc.gz"] != objects["captures-stays.warc.gz"]


def test_an_import_knows_files_in_the_bucket(weboid: WeboidRunner, tmp_path: Path) -> None:
    """A file that was imported is not imported again when only its object is left."""
    with closing(CollectionBuilder(tmp_path / "other")) as builder:
        builder.response("https://a.example/", b"words", warc="captures-0.warc.gz")
        file = str(builder.layout.archive / "captures-0.warc.gz")
    profile = ("--profile", str(weboid.profile))
    assert json.loads(weboid.call("import", file, "--json", *profile).out)["files"][0]["state"] == "imported"
    assert weboid.call("collection", "upload", *profile).code == 0
    assert _local(weboid) == []
    assert json.loads(weboid.call("import", file, "--json", *profile).out)["files"][0]["state"] == "known"
    assert _local(weboid) == []
    assert weboid.call("verify", "collection").code == 0


def test_checks_report_that_the_bucket_is_away(s3: S3Server, weboid: WeboidRunner) -> None:  # noqa: F811 fixture
    """It is no damage: they end as without any other service, also where the cache has some of the page."""
    with closing(CollectionBuilder(weboid.collection)) as builder:
        at = NOW + timedelta(minutes=1)
        page_id = hashlib.sha256(f"https://a.example/ {at}".encode()).hexdigest()[:32]  # as `page` has it
        picture = builder.response(
            "https://a.example/a.png", png(), mime="image/png", warc="pictures-0.warc.gz", at=at, page_id=page_id
        )
        part = PageResource(picture.url, status=200, resource_type="Image", digest=str(picture.digest))
        builder.page("https://a.example/", "<p>wombats<img src=/a.png>", at=at, text="wombats", resources=[part])
        builder.layout.marker.write_text("version = 1\n")
        cover_warcs(builder.layout)
    profile = ("--profile", str(weboid.profile))
    assert weboid.call("collection", "upload", *profile).code == 0
    assert "1 good" in weboid.call("qa", "https://a.example/", *profile).out
    for each in (Layout(weboid.collection).root / "cache").glob("*/pictures-*"):
        shutil.rmtree(each)
    shutil.rmtree(weboid.collection / "cache" / "playback", ignore_errors=True)
    s3.relay.leave()
    for command in (("qa", "https://a.example/", "--again", *profile), ("verify", "collection")):
        ran = weboid.call(*command)
        assert (ran.code, ran.out.strip()) == (3, ""), ran
        assert "weboid: The server of s3://" in ran.err
        assert "does not answer" in ran.err
    assert weboid.call("search", "wombats").code == 0  # the index is here
    assert weboid.call("verify", "collection", "--quick").code == 0
