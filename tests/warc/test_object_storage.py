"""Objects in the bucket of a real S3 server: confirmed uploads, parts, refusals, errors."""

import hashlib
import random
from dataclasses import replace
from pathlib import Path

import pytest

from bench.certificate import write_certificate
from core.errors import PermanentError, TransientError, UnavailableError
from tests.support.proxy_fixtures import ScriptedOrigin
from tests.support.services.s3_server import S3Server
from warc import object_storage
from warc.object_storage import ObjectStorage, open_storage

pytestmark = pytest.mark.slow

_LARGE = random.Random(1).randbytes(11 << 20)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return parts of the smallest size that S3 takes."""
    monkeypatch.setattr(object_storage, "PART_BYTES", 5 << 20)
    return 5 << 20


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Write a file of three parts."""
    path = tmp_path / "large.warc.gz"
    path.write_bytes(_LARGE)
    return path


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("checksum", ["sha256", "md5"])
def test_an_upload_is_what_is_read(s3: S3Server, tmp_path: Path, checksum: str) -> None:
    """Size, SHA-256 and ranges of the object are those of the file."""
    storage, path = ObjectStorage(s3.settings(checksum=checksum)), tmp_path / "a.warc.gz"
    path.write_bytes(b"0123456789")
    facts = storage.upload(path, path.name, _sha256(b"0123456789"))
    assert storage.head(path.name) == facts
    assert storage.read(path.name, 3, 4, etag=facts.etag) == b"3456"
    assert storage.sha256_of(facts) == facts.sha256
    assert [each.name for each in storage.objects()] == [path.name]


def test_parts_of_an_interrupted_upload_are_used(s3: S3Server, large: Path, parts: int) -> None:
    """After a cut within the second part only the missing parts are sent."""
    settings = s3.settings()
    storage, sent = ObjectStorage(settings), []

    def cut(count: int) -> None:
        sent.append(count)
        s3.relay.leave()

    with pytest.raises(TransientError):
        storage.upload(large, large.name, _sha256(_LARGE), on_bytes=cut)
    s3.relay.come_back()
    assert len(sent) == 1
    assert storage.head(large.name) is None
    requests: list[str] = []
    storage._client.meta.events.register("before-send.s3.UploadPart", lambda request, **_: requests.append(request.url))
    facts = storage.upload(large, large.name, _sha256(_LARGE))
    assert len(requests) == 2
    assert facts.size == len(_LARGE)
    assert storage.sha256_of(facts) == _sha256(_LARGE)


def test_a_damaged_file_is_not_uploaded(s3: S3Server, large: Path, parts: int) -> None:
    """A file without its checksum makes no object, in parts neither."""
    storage = ObjectStorage(s3.settings())
    for size in (parts - 1, len(_LARGE)):
        large.write_bytes(_LARGE[:size])
        with pytest.raises(PermanentError, match="SHA256SUMS"):
            storage.upload(large, large.name, "0" * 64)
        assert storage.head(large.name) is None


def test_damage_on_the_way_is_refused(s3: S3Server, tmp_path: Path) -> None:
    """The server refuses data that is not what was hashed."""
    storage, path = ObjectStorage(s3.settings()), tmp_path / "a.warc.gz"
    path.write_bytes(b"0123456789")

    def damage(request: object, **_: object) -> None:
        request.body = b"0123456780"  # type: ignore[attr-defined]

    storage._client.meta.events.register("before-send.s3.PutObject", damage)
    with pytest.raises(TransientError, match="Digest"):
        storage.upload(path, path.name, _sha256(b"0123456789"))
    assert storage.head(path.name) is None


def test_another_object_is_replaced_only_on_purpose(s3: S3Server, tmp_path: Path) -> None:
    """A name that another file has is an error; a replacement leaves no version of what was there."""
    settings = s3.settings()
    storage, path = ObjectStorage(settings), tmp_path / "a.warc.gz"
    bucket = settings.url.removeprefix("s3://").partition("/")[0]
    s3.client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    path.write_bytes(b"old")
    storage.upload(path, path.name, _sha256(b"old"))
    path.write_bytes(b"new")
    with pytest.raises(PermanentError, match="another file"):
        storage.upload(path, path.name, _sha256(b"new"))
    storage.upload(path, path.name, _sha256(b"new"), replaces=True)
    versions = s3.client.list_object_versions(Bucket=bucket)["Versions"]
    assert [(each["Key"], each["Size"]) for each in versions] == [("wiki/a.warc.gz", 3)]
    assert storage.read(path.name, 0, 3) == b"new"


def test_errors_name_what_to_do(s3: S3Server) -> None:
    """A missing object, a missing bucket and a server that is away are three errors."""
    settings = s3.settings()
    with pytest.raises(PermanentError):
        open_storage(settings).read("none.warc.gz", 0, 10)
    with pytest.raises(UnavailableError, match="NoSuchBucket"):
        ObjectStorage(replace(settings, url="s3://no-such-bucket/a")).check()
    with pytest.raises(TransientError, match="does not answer"):
        ObjectStorage(replace(settings, endpoint_url="http://127.0.0.1:1")).check()


def test_missing_credentials_and_an_unknown_authority_name_the_variable(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the operator's to give; a certificate that does not verify is no outage."""
    origin = ScriptedOrigin(write_certificate(tmp_path / "origin.pem", "localhost"))
    try:
        settings = replace(s3.settings(), endpoint_url=f"https://localhost:{origin.port}")
        with pytest.raises(TransientError, match=r"does not verify: .* AWS_CA_BUNDLE"):
            ObjectStorage(settings).check()
    finally:
        origin.close()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(UnavailableError, match="set AWS_ACCESS_KEY_ID"):
        ObjectStorage(s3.settings()).check()
