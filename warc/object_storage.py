"""Objects in a bucket of an S3-compatible server: verified uploads that can be resumed, reads by range, listing."""

import base64
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from core.config.settings import StorageSettings
from core.errors import PermanentError, TransientError, UnavailableError, WeboidError

PART_BYTES = 16 << 20  # of a multipart upload; a longer file has larger parts
_MOST_PARTS = 9_000  # S3 takes 10,000
_READ_BYTES = 8 << 20
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
        """Map the library's errors during the block."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
        from botocore.exceptions import ConnectionError as BotoConnectionError

        place = f"{self.url}/{name}".rstrip("/")
        try:
            yield
        except ClientError as error:
            code, status = error.response["Error"].get("Code", ""), error.response["ResponseMetadata"]["HTTPStatusCode"]
            if code in _REFUSALS:
                raise UnavailableError(
                    f"The server refuses {place} ({code}): check [storage] and the credentials (environment, ~/.aws)."
                ) from error
            if status in (404, 412, 416):
                raise PermanentError(
                    f"{place} is not there, or was replaced: run `weboid collection verify`."
                ) from error
            raise TransientError(f"{place}: {error}.") from error
        except (BotoConnectionError, HTTPClientError, OSError) as error:
            raise TransientError(f"The server of {place} does not answer: {error}.") from error
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
            found = self._call("head_object", name)
        except PermanentError:
            return None
        sha256 = found.get("Metadata", {}).get("sha256", "")
        return ObjectFacts(name, found["ContentLength"], found["ETag"], sha256)

    def read(self, name: str, start: int, size: int, *, etag: str = "") -> bytes:
        """Return bytes of an object, fewer at its end; with `etag` only of that object."""
        condition = {"IfMatch": etag} if etag else {}
        found = self._call("get_object", name, Range=f"bytes={start}-{start + size - 1}", **condition)
        with self._errors(name):
            data: bytes = found["Body"].read(size + 1)
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
        size, there = path.stat().st_size, self.head(name)
        if there is not None and there.size == size and (there.sha256 or self.sha256_of(there)) == sha256:
            on_bytes(size)
            self._purge(name, replaces=replaces)
            return there._replace(sha256=sha256)
        if there is not None and not replaces:
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
        found = self.head(name)
        if found is None or found.size != size or (found.etag != etag and self.sha256_of(found) != sha256):
            raise TransientError(f"{self.url}/{name} is not what was uploaded: it is uploaded again.")
        self._purge(name, replaces=replaces)
        return found._replace(sha256=sha256)

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
        """Return the checksums by which the server checks a transfer."""
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
    return PermanentError(f"{path.name} does not match SHA256SUMS and is not uploaded: run `weboid collection verify`.")
