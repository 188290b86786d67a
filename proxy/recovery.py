"""After a crash: WARCs cut to their last whole record, and what the index missed put into it.

A WARC that nobody writes and that still has its ``.open`` suffix was interrupted. A gzip member is
a record, so the file is whole up to the last member that inflates with a good checksum. Records
that reached the disk but not the index are added from the file: the WARCs are the truth.
"""

import fcntl
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from core.captures import Capture, RecordLocation
from core.digests import sha256_digest
from core.errors import InputError
from core.layout import OPEN_SUFFIX, Layout
from core.pages import PageInfo, parse_pageinfo
from core.records import ArtifactKind, RecordType, parse_artifact_uri
from core.timestamps import milliseconds, parse_warc_date, to_milliseconds
from proxy.builder import Original
from proxy.http1 import Body, Framing
from proxy.index import CaptureIndex, key_or_empty
from proxy.payloads.protocol import PayloadKey, Payloads
from proxy.warcfile import sync_folder

READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was done to one interrupted WARC.

    Attributes:
        cut: bytes after its last whole record that were cut off.
        indexed: records that the index had missed.
    """

    filename: str
    cut: int
    indexed: int


def recover(
    layout: Layout, index: CaptureIndex, payloads: Payloads, *, bucket: str, min_bytes: int = 1
) -> list[Recovered]:
    """Close every interrupted WARC of the collection that no living process writes.

    Args:
        layout: the collection.
        index: its captures index.
        payloads: the dedup index, which learns of every payload in these WARCs: their writer may
            have died before it could say so.
        bucket: the dedup bucket that payloads are filed under.
        min_bytes: payloads shorter than it are not filed.

    Raises:
        DedupUnavailableError: `payloads` does not answer; try again.
        OSError: a file cannot be read, cut or renamed.
    """
    done = []
    with _alone(layout):
        for path in sorted(layout.archive.glob(f"*{OPEN_SUFFIX}")):
            try:
                opened = path.open("r+b")
            except FileNotFoundError:
                continue  # a living proxy has closed it
            with opened as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue  # a living proxy writes it
                if not path.exists():
                    continue
                recovered = _recover_one(path, file.fileno(), index, bucket, min_bytes)
                if payloads.shared:
                    payloads.add(index.payloads_of(recovered.filename))
                _close(path, recovered.filename)
                done.append(recovered)
        if done:
            index.settle()
        payloads.bury()
    return done


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """One process recovers at a time: none buries the dead while another reads what they wrote."""
    with (layout.databases / "recovery.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _recover_one(
    path: Path, descriptor: int, index: CaptureIndex, bucket: str, min_bytes: int
) -> Recovered:
    filename = path.name.removesuffix(OPEN_SUFFIX)
    size = path.stat().st_size
    covered = index.indexed_to(filename)
    whole = last_whole_member(path, start=covered if covered <= size else 0)
    if whole < size:
        os.ftruncate(descriptor, whole)
        os.fsync(descriptor)
    start = min(covered, whole)
    found = index_file(path, filename, index, bucket=bucket, min_bytes=min_bytes, start=start)
    return Recovered(filename, size - whole, found.rows)


def _close(path: Path, filename: str) -> None:
    """Give the file its final name; an empty one is removed."""
    if path.stat().st_size:
        path.rename(path.with_name(filename))
    else:
        path.unlink()
    sync_folder(path.parent)


def last_whole_member(path: Path, *, start: int = 0) -> int:
    """Where the last gzip member ends that inflates with a good checksum; `start` begins one."""
    whole = start
    with path.open("rb") as file:
        file.seek(start)
        inflater = zlib.decompressobj(31)
        position = start
        while data := file.read(READ_BYTES):
            while data:
                try:
                    inflater.decompress(data)
                except zlib.error:
                    return whole
                if not inflater.eof:
                    position += len(data)
                    break
                position += len(data) - len(inflater.unused_data)
                whole = position
                data = inflater.unused_data
                inflater = zlib.decompressobj(31)
    return whole


def rebuild(
    layout: Layout,
    *,
    bucket: str,
    min_bytes: int = 1,
    also: Sequence[str] = (),
    shared: Payloads | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> dict[str, int]:
    """Make the captures index anew from the WARCs; the old one stays until the new one is whole.

    Args:
        layout: the collection.
        bucket: the dedup bucket that payloads are filed under.
        min_bytes: payloads shorter than it are not filed.
        also: buckets that are read only.
        shared: the dedup index of several machines: it learns of every payload here, and knows
            where the payloads of revisits lie that have none here.
        progress: told each file's name and rows as it is done.

    Returns:
        Rows by table, as `CaptureIndex.counts`.

    Raises:
        InputError: a WARC cannot be read; the text names it, and the old index stays.
        DedupUnavailableError: `shared` does not answer; the old index stays.
    """
    fresh = layout.captures_db.with_suffix(".rebuilding")
    _remove(fresh)
    index = CaptureIndex(fresh)
    try:
        for path in sorted(layout.archive.glob("*.warc.gz*")):
            filename = path.name.removesuffix(OPEN_SUFFIX)
            found = index_file(path, filename, index, bucket=bucket, min_bytes=min_bytes)
            if shared is not None:
                shared.add(found.payloads)
            if progress is not None:
                progress(filename, found.rows)
        index.settle()
        if shared is not None:
            shared.bury()
            _adopt_orphans(index, shared, bucket, also)
        counts = index.counts()
        index.checkpoint()
    finally:
        index.close()
    _remove(layout.captures_db)
    fresh.rename(layout.captures_db)
    sync_folder(layout.databases)
    return counts


def _adopt_orphans(index: CaptureIndex, shared: Payloads, bucket: str, also: Sequence[str]) -> None:
    """Find the payloads that other machines hold. A chunked one's key is not in the revisit."""
    orphans = {row: PayloadKey(digest, bucket) for row, digest in index.orphans().items()}
    found = shared.find(set(orphans.values()), also)
    with index.transaction():
        index.adopt({row: found[key] for row, key in orphans.items() if key in found})


@dataclass(slots=True)
class Indexed:
    """What of a file went into the index."""

    rows: int = 0
    payloads: dict[PayloadKey, Original] = field(default_factory=dict)


def index_file(
    path: Path, filename: str, index: CaptureIndex, *, bucket: str, min_bytes: int, start: int = 0
) -> Indexed:
    """Add the file's records from `start` on to the index.

    Raises:
        InputError: it is no WARC.
    """
    found = Indexed()
    with index.transaction():
        try:
            for capture, payload, page in _records(path, filename, index, bucket, start):
                index.add_captures((capture,))
                found.rows += 1
                if payload is not None and payload.size >= min_bytes:
                    key, original = PayloadKey(payload.digest, bucket), _original_of(capture)
                    index.add_payloads({key: original})  # a revisit in this file may refer to it
                    found.payloads.setdefault(key, original)
                if page is not None:
                    index.add_page(page)
        except ArchiveLoadFailed as error:
            raise InputError(f"{filename} cannot be read: {error}.") from error
        index.cover(filename, path.stat().st_size)
    return found


class _Payload(NamedTuple):
    digest: str
    size: int


def _records(
    path: Path, filename: str, index: CaptureIndex, bucket: str, start: int
) -> Iterator[tuple[Capture, _Payload | None, PageInfo | None]]:
    """(capture, the payload it brings for dedup, manifest) of each record."""
    with path.open("rb") as file:
        file.seek(start)
        iterator = ArchiveIterator(file)
        for record in iterator:
            if record.rec_type not in ("response", "revisit", "resource"):
                continue
            headers = record.rec_headers
            page = _page(record)
            payload = _payload(record) if record.rec_type == "response" else None
            # Offset and length are known only when the record has been read to its end.
            offset = iterator.get_record_offset()  # from the file's beginning, not from `start`
            location = RecordLocation(filename, offset, iterator.get_record_length())
            digest = headers.get_header("WARC-Payload-Digest") or "-"
            original = index.original_spelled(digest, bucket)
            capture = _capture(record, location, digest, original)
            if capture.status != 304:
                yield capture, None if capture.truncated else payload, page


def _payload(record: Any) -> _Payload | None:
    """What dedup knows the record's payload by: digest and size of the body without its coding."""
    coding = record.http_headers.get_header("Transfer-Encoding") if record.http_headers else None
    if not (coding or "").lower().endswith("chunked"):
        digest = record.rec_headers.get_header("WARC-Payload-Digest")
        return _Payload(digest, record.payload_length) if digest else None
    body, payload, size = Body(Framing.CHUNKED), hashlib.sha256(), 0
    while piece := record.raw_stream.read(READ_BYTES):
        taken = body.feed(piece)[1]
        payload.update(taken)
        size += len(taken)
    return _Payload(sha256_digest(payload), size) if body.done else None


def _page(record: Any) -> PageInfo | None:
    named = parse_artifact_uri(record.rec_headers.get_header("WARC-Target-URI") or "")
    if record.rec_type != "resource" or named is None or named[0] is not ArtifactKind.PAGEINFO:
        return None
    try:
        return parse_pageinfo(record.content_stream().read())
    except InputError:
        return None  # another tool's manifest: kept, but not ours to read


def _capture(
    record: Any, location: RecordLocation, digest: str, original: Original | None
) -> Capture:
    headers, http = record.rec_headers, record.http_headers
    url = headers.get_header("WARC-Target-URI") or ""
    content_type = http.get_header("Content-Type") if http else headers.get_header("Content-Type")
    status = http.get_statuscode() if http else None
    payload_at = None
    if record.rec_type == "revisit" and original is not None:
        payload_at = RecordLocation(original.filename, original.offset, original.length)
    return Capture(
        url=url,
        urlkey=key_or_empty(url),
        captured_at=to_milliseconds(parse_warc_date(headers.get_header("WARC-Date"))),
        record_type=RecordType(record.rec_type),
        mime=(content_type or "").partition(";")[0].strip().lower() or "application/octet-stream",
        status=int(status) if status and status.isdigit() else None,
        digest=digest,
        location=location,
        original=payload_at,
        page_id=headers.get_header("WARC-Page-ID"),
        truncated=headers.get_header("WARC-Truncated"),
    )


def _original_of(capture: Capture) -> Original:
    """What revisits of the capture's payload refer to."""
    at, captured_ms = capture.location, milliseconds(capture.captured_at)
    return Original(capture.digest, capture.url, captured_ms, at.filename, at.offset, at.length)


def _remove(database: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
