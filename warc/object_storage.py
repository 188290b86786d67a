"""Objects in a bucket of an S3-compatible server: verified uploads that can be resumed, reads by range, listing.

A WARC that is in the bucket alone is read as a stream (`open_object`), or its records in blocks (`StoredReader`), of
which ``cache/warcs`` keeps those used last.
"""

import base64
import hashlib
import io
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from core.config.settings import StorageSettings
from core.errors import PermanentError, TransientError, UnavailableError, WeboidError
from core.layout import Layout
from warc.local_storage import OBJECT_SUFFIX, StoredWarc

PART_BYTES = 16 << 20  # of a multipart upload; a longer file has larger parts
_MOST_PARTS = 9_000  # S3 takes 10,000
_READ_BYTES = 8 << 20
BLOCK_BYTES = 1 << 20  # of the cache
_TRIM_EVERY = 32  # blocks that a process adds between two checks of the cache size
_TOUCH_S = 60.0  # accuracy of a block's last use
_added = 0
_TIMEOUT_S = 10  # to connect
_READ_TIMEOUT_S = 60
# Answers that no retry changes without the operator.
_REFUSALS = {
    "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket", "AllAccessDisabled", "403",
    "ExpiredToken", "InvalidBucketName", "PermanentRedirect", "AuthorizationHeaderMalformed",
}  # fmt: skip


class ObjectFacts(NamedTuple):
    """Facts about an object, as the server gives them."""

    name: str  # below the prefix
    size: int
    etag: str  # with its quotation marks
    sha256: str = ""  # of the content in hexadecimal, as the uploader stored it; empty when unknown


class ObjectStorage:
    """Objects below the prefix of a bucket. Thread-safe.

    All methods raise TransientError when the server does not answer, UnavailableError when it refuses the bucket or
    the credentials, and PermanentError for an object that is missing or another one.
    """

    def __init__(self, settings: StorageSettings) -> None:
        self.url = settings.url.rstrip("/")
        self._bucket, _, prefix = self.url.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._has_sha256 = settings.checksum == "sha256"
        try:
            import botocore.session
            from botocore.config import Config
        except ImportError as error:
            raise UnavailableError("Object storage needs botocore: run pip install 'weboid[s3]'.") from error
        with self._errors(""):
            session = botocore.session.get_session()
            self._client: Any = session.create_client(
                "s3",
                region_name=settings.region or session.get_config_variable("region") or "us-east-1",
                endpoint_url=settings.endpoint_url or None,
                config=Config(
                    connect_timeout=_TIMEOUT_S,
                    read_timeout=_READ_TIMEOUT_S,
                    retries={"mode": "standard", "max_attempts": 2},
                    s3={"addressing_style": settings.addressing},
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError, SSLError
        from botocore.exceptions import ConnectionError as BotoConnectionError

        place = f"{self.url}/{name}".rstrip("/")
        try:
            yield
        except ClientError as error:
            code, status = error.response["Error"].get("Code", ""), error.response["ResponseMetadata"]["HTTPStatusCode"]
            if code in _REFUSALS:
                raise UnavailableError(
                    f"The server refuses access to {place} ({code}): check [storage] and the credentials (environment, ~/.aws)."
                ) from error
            if status in (404, 412, 416):
                raise PermanentError(f"{place} does not exist, or was replaced: run `weboid verify`.") from error
            raise TransientError(f"{place}: {error}.") from error
        except SSLError as error:
            hint = "for a server with an authority of its own, name that one's certificate in AWS_CA_BUNDLE"
            raise TransientError(
                f"The certificate of the server of {place} does not verify: {hint}. {error}."
            ) from error
        except (BotoConnectionError, HTTPClientError, OSError) as error:
            raise TransientError(f"The server of {place} does not answer: {error}.") from error
        except NoCredentialsError as error:
            hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of ~/.aws/credentials"
            raise UnavailableError(f"There are no credentials for {place}: {hint}.") from error
        except BotoCoreError as error:
            raise UnavailableError(f"{place} cannot be used: {error}.") from error

    def _call(self, method: str, name: str, **values: Any) -> Any:
        with self._errors(name):
            return getattr(self._client, method)(Bucket=self._bucket, Key=self._prefix + name, **values)

    def check(self) -> None:
        """Ask the server for the bucket; raises as all methods."""
        with self._errors(""):
            self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)

    def head(self, name: str) -> ObjectFacts | None:
        """Return the facts of an object; None when there is none."""
        try:
            answer = self._call("head_object", name)
        except PermanentError:
            return None
        sha256 = answer.get("Metadata", {}).get("sha256", "")
        return ObjectFacts(name, answer["ContentLength"], answer["ETag"], sha256)

    def read(self, name: str, start: int, size: int, *, etag: str = "") -> bytes:
        """Return bytes of an object, fewer at its end; with `etag` only of that object."""
        condition = {"IfMatch": etag} if etag else {}
        answer = self._call("get_object", name, Range=f"bytes={start}-{start + size - 1}", **condition)
        with self._errors(name):
            data: bytes = answer["Body"].read(size + 1)
        if len(data) > size:
            raise PermanentError(f"The server of {self.url} ignores ranges.")
        return data

    def sha256_of(self, facts: ObjectFacts) -> str:
        """Read an object as a whole; return its SHA-256 in hexadecimal."""
        digest, at = hashlib.sha256(), 0
        while at < facts.size:
            data = self.read(facts.name, at, min(_READ_BYTES, facts.size - at), etag=facts.etag)
            digest.update(data)
            at += len(data) or facts.size
        return digest.hexdigest()

    def objects(self) -> Iterator[ObjectFacts]:
        """Yield the objects below the prefix, folders excluded, without their SHA-256."""
        with self._errors(""):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix, Delimiter="/"):
                for each in page.get("Contents", ()):
                    yield ObjectFacts(each["Key"].removeprefix(self._prefix), each["Size"], each["ETag"])

    def write(self, name: str, data: bytes) -> None:
        """Write an object of these bytes, whatever is there; the server checks the transfer by its checksums."""
        metadata = {"sha256": hashlib.sha256(data).hexdigest()}
        self._call("put_object", name, Body=data, Metadata=metadata, **self._checksums(data))

    def upload(
        self,
        path: Path,
        name: str,
        sha256: str,
        *,
        replaces: bool = False,
        on_bytes: Callable[[int], None] = lambda _count: None,
    ) -> ObjectFacts:
        """Upload a file of that SHA-256 unless it is there; return what the server confirmed.

        The server checks each transfer by MD5 and, unless the settings say otherwise, SHA-256; then the ETag must be
        that of the file, or else the object is read back. A large file is sent in parts, those of an interrupted upload
        are used. With `replaces` another object of the name is replaced, all its versions included, else it is an error.
        """
        size, existing = path.stat().st_size, self.head(name)
        if existing is not None and existing.size == size and (existing.sha256 or self.sha256_of(existing)) == sha256:
            on_bytes(size)
            self._purge(name, replaces=replaces)
            return existing._replace(sha256=sha256)
        if existing is not None and not replaces:
            raise PermanentError(
                f"{self.url}/{name} is another file: name another prefix in [storage] url, or remove the object."
            )
        part_bytes = max(PART_BYTES, -(-size // _MOST_PARTS))
        if size <= part_bytes:
            data = path.read_bytes()
            if hashlib.sha256(data).hexdigest() != sha256:
                raise _changed(path)
            self.write(name, data)
            etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
            on_bytes(size)
        else:
            etag = self._upload_parts(path, name, sha256, part_bytes, on_bytes)
        uploaded = self.head(name)
        if uploaded is None or uploaded.size != size or (uploaded.etag != etag and self.sha256_of(uploaded) != sha256):
            raise TransientError(f"{self.url}/{name} differs from the uploaded file: it is uploaded again.")
        self._purge(name, replaces=replaces)
        return uploaded._replace(sha256=sha256)

    def _upload_parts(
        self, path: Path, name: str, sha256: str, part_bytes: int, on_bytes: Callable[[int], None]
    ) -> str:
        """Upload the file in parts, without those of an earlier attempt; return the ETag that it must have."""
        upload_id, done = "", dict[int, Any]()
        with self._errors(name):
            uploads = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=self._prefix + name)
            for each in uploads.get("Uploads", ()):
                if each["Key"] == self._prefix + name:
                    upload_id = each["UploadId"]
            if upload_id:
                pages = self._client.get_paginator("list_parts")
                for page in pages.paginate(Bucket=self._bucket, Key=self._prefix + name, UploadId=upload_id):
                    done |= {each["PartNumber"]: each for each in page.get("Parts", ())}
        if not upload_id:
            algorithm = {"ChecksumAlgorithm": "SHA256"} if self._has_sha256 else {}
            begun = self._call("create_multipart_upload", name, Metadata={"sha256": sha256}, **algorithm)
            upload_id = begun["UploadId"]
        whole, digests, parts = hashlib.sha256(), b"", []
        with path.open("rb") as file:
            for number, data in enumerate(iter(lambda: file.read(part_bytes), b""), 1):
                whole.update(data)
                md5 = hashlib.md5(data, usedforsecurity=False)
                digests += md5.digest()
                known = done.get(number)
                if known is None or known["Size"] != len(data) or known["ETag"].strip('"') != md5.hexdigest():
                    place = {"UploadId": upload_id, "PartNumber": number}
                    known = self._call("upload_part", name, Body=data, **place, **self._checksums(data))
                sums = self._checksums(data)
                sums.pop("ContentMD5")
                parts.append({"PartNumber": number, "ETag": known["ETag"], **sums})
                on_bytes(len(data))
        if whole.hexdigest() != sha256:
            self._call("abort_multipart_upload", name, UploadId=upload_id)
            raise _changed(path)
        try:
            self._call("complete_multipart_upload", name, UploadId=upload_id, MultipartUpload={"Parts": parts})
        except TransientError as error:
            # Parts of another kind, as of another [storage] checksum: the next attempt starts over.
            if "(InvalidRequest)" in str(error) or "(InvalidPart)" in str(error):
                self._call("abort_multipart_upload", name, UploadId=upload_id)
            raise
        return f'"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"'

    def _checksums(self, data: bytes) -> dict[str, str]:
        md5 = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        if not self._has_sha256:
            return {"ContentMD5": md5}
        return {"ContentMD5": md5, "ChecksumSHA256": base64.b64encode(hashlib.sha256(data).digest()).decode()}

    def _purge(self, name: str, *, replaces: bool) -> None:
        """Delete the versions that a bucket with versioning keeps of a replaced object."""
        if not replaces:
            return
        key = self._prefix + name
        with self._errors(name):
            for page in self._client.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=key):
                for each in page.get("Versions", ()):
                    if each["Key"] == key and not each["IsLatest"]:
                        self._call("delete_object", name, VersionId=each["VersionId"])


@lru_cache(maxsize=8)
def open_storage(settings: StorageSettings) -> ObjectStorage:
    """Return the storage of the settings, one a process; raises UnavailableError."""
    return ObjectStorage(settings)


def _changed(path: Path) -> WeboidError:
    return PermanentError(f"{path.name} does not match SHA256SUMS and is not uploaded: run `weboid verify`.")


class _ObjectStream(io.RawIOBase):
    """Object as a file, read ahead more the longer it is read in order. Errors are OSError."""

    def __init__(self, storage: ObjectStorage, stored: StoredWarc) -> None:
        self._storage, self._stored = storage, stored
        self._at, self._base, self._data, self._ahead = 0, 0, b"", BLOCK_BYTES // 4

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._stored.size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._stored.size or not len(buffer):
            return 0
        within = self._at - self._base
        if not 0 <= within < len(self._data):
            self._ahead = min(2 * self._ahead, _READ_BYTES) if within == len(self._data) else BLOCK_BYTES // 4
            size = min(max(self._ahead, len(buffer)), self._stored.size - self._at)
            try:
                self._data = self._storage.read(self._stored.name, self._at, size, etag=self._stored.etag)
            except WeboidError as error:
                raise OSError(str(error)) from error
            self._base, within = self._at, 0
        piece = self._data[within : within + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


def open_object(root: Path, stored: StoredWarc) -> io.RawIOBase:
    """Return the object of a WARC of that collection as a file opened for reading; raises as `open_storage`."""
    return _ObjectStream(open_storage(read_settings(root)), stored)


def storage_file(root: Path) -> Path:
    """Return the path of the file with the settings by which the collection's objects are read."""
    return Layout(root).databases / "storage.json"


def check_bucket(root: Path) -> None:
    """Ask for the bucket if WARCs are there alone; TransientError, UnavailableError: they cannot be read now."""
    beside = (str(each) for each in Layout(root).archive.glob(f"*{OBJECT_SUFFIX}"))
    if not all(Path(each.removesuffix(OBJECT_SUFFIX)).exists() for each in beside):
        open_storage(read_settings(root)).check()


@lru_cache(maxsize=8)
def _settings(path: Path, _changed_ns: int) -> StorageSettings:
    try:
        return StorageSettings(**json.loads(path.read_bytes())["settings"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnavailableError(f"{path} cannot be read: run `weboid collection upload`.") from error


def read_settings(root: Path) -> StorageSettings:
    """Return the settings by which objects were uploaded last; UnavailableError: none were."""
    path = storage_file(root)
    try:
        return _settings(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise UnavailableError(f"{path} is missing: run `weboid collection upload` with [storage] url.") from error


def blocks_folder(root: Path) -> Path:
    """Return the folder of cached blocks."""
    return root / "cache" / "warcs"


def forget_blocks(root: Path, name: str) -> None:
    """Delete the cached blocks of a WARC."""
    shutil.rmtree(blocks_folder(root) / name, ignore_errors=True)


class StoredReader:
    """Reader of a WARC's object by blocks, which the collection's cache keeps."""

    def __init__(self, folder: str, stored: StoredWarc, run: Callable[[Callable[[], bytes]], bytes]) -> None:
        """`folder` holds the WARCs; `run` sends the requests."""
        self._folder, self._stored, self._run = folder, stored, run
        # As text: paths as objects cost more than opening the file.
        version = f"{zlib.crc32(stored.etag.encode()):08x}"  # of another object of the name it is another
        self._blocks = f"{os.path.dirname(folder)}/cache/warcs/{stored.name}/{version}-"  # noqa: PTH120

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the object, fewer at its end. PermanentError: it is gone; TransientError: not available."""
        first, last = offset // BLOCK_BYTES, (min(offset + size, self._stored.size) - 1) // BLOCK_BYTES
        return b"".join(
            self._block(number, max(offset - number * BLOCK_BYTES, 0), offset + size - number * BLOCK_BYTES)
            for number in range(first, last + 1)
        )

    def _block(self, number: int, start: int, end: int) -> bytes:
        end, path = min(end, BLOCK_BYTES), f"{self._blocks}{number}"
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if os.fstat(file).st_mtime < time.time() - _TOUCH_S:
                    os.utime(file)
                return os.pread(file, end - start, start)
            finally:
                os.close(file)
        at = number * BLOCK_BYTES
        size = min(BLOCK_BYTES, self._stored.size - at)
        try:
            settings = read_settings(Path(self._folder).parent)
            data = self._run(lambda: open_storage(settings).read(self._stored.name, at, size, etag=self._stored.etag))
        except UnavailableError as error:  # of the operator, who can end it meanwhile
            raise TransientError(str(error)) from error
        if len(data) != size:
            raise PermanentError(f"The object of {self._stored.name} is shorter than it was.")
        with suppress(OSError):  # a full disk, or a folder that this process may not write
            fresh = Path(f"{path}.{os.getpid()}-{id(data)}")
            fresh.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(data)
            fresh.replace(path)
            self._trim(settings.cache_bytes)
        return data[start:end]

    def _trim(self, limit: int) -> None:
        """Delete the blocks used least recently, sometimes, where the cache is larger than the limit."""
        global _added  # noqa: PLW0603 of all readers of this process
        _added += 1
        if _added % _TRIM_EVERY and limit > _TRIM_EVERY * BLOCK_BYTES:
            return
        blocks = [(each.stat(), each) for each in blocks_folder(Path(self._folder).parent).glob("*/*")]
        left = sum(status.st_size for status, _ in blocks) - limit
        for status, each in sorted(blocks, key=lambda block: block[0].st_mtime):
            if left <= 0:
                break
            each.unlink(missing_ok=True)
            left -= status.st_size
