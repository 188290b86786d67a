"""The one stage that decides and writes: dedup, WARC, disk, index, acknowledgement, in that order.

One thread a process takes what has gathered (group commit) and, holding the index's write lock:
looks each payload up, writes `response` or `revisit`, forces the files to disk, then commits the
rows. So of many equal payloads exactly one becomes a `response`, in all processes together; a
digest is known only when its record is on disk; and nothing is acknowledged before that.

A batch that fails is taken back whole, and every visit in it is told.
"""

import logging
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from core.captures import Capture, RecordLocation
from core.digests import sha256_digest
from core.errors import DiskFullError, UnavailableError, WeboidError
from core.layout import Layout
from core.pages import PageInfo, parse_pageinfo
from core.records import ArtifactKind, RecordType, parse_artifact_uri
from core.settings import ProxySettings
from core.timestamps import milliseconds, to_milliseconds, warc_date
from proxy.builder import (
    Headers,
    Original,
    member,
    new_record_id,
    response_members,
    revisit_members,
)
from proxy.exchange import Recorded
from proxy.index import CaptureIndex, key_or_empty
from proxy.ledger import Kept
from proxy.visits import Visit
from proxy.warcfile import WarcFile

log = logging.getLogger(__name__)

LINGER_S = 0.02  # how long a batch waits for company when nobody waits for it
BATCH_RECORDS = 500
BATCH_BYTES = 32 << 20
EXIT_DISK = 74  # sysexits.h: EX_IOERR


@dataclass(frozen=True, slots=True)
class Artifact:
    """A record that the worker made of a page, to be written as `resource`.

    Attributes:
        uri: ``urn:KIND:URL``.
        date: the moment of the page it belongs to.
        target: the page's URL, for WARC-Refers-To-Target-URI.
        document: the URL of the document it was made of, for WARC-Concurrent-To.
    """

    uri: str
    content_type: str
    date: datetime
    target: str
    document: str
    visit: Visit
    data: bytes


@dataclass(slots=True)
class _Write:
    artifacts: tuple[Artifact, ...]
    done: "Future[list[RecordLocation]]" = field(default_factory=Future)


@dataclass(slots=True)
class _Barrier:
    done: "Future[None]" = field(default_factory=Future)


_Job = Recorded | _Write | _Barrier


class Archivist:
    """Owns the process's WARCs and its index connection. Thread-safe; `close` it."""

    def __init__(
        self,
        layout: Layout,
        settings: ProxySettings,
        *,
        now: Callable[[], datetime],
        free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
    ) -> None:
        layout.archive.mkdir(parents=True, exist_ok=True)
        self._layout = layout
        self._settings = settings
        self._free_bytes = free_bytes
        self._index = CaptureIndex(layout.captures_db)
        limit = settings.warc_limit_bytes
        self._captures = WarcFile(layout.archive, "weboid", limit_bytes=limit, now=now)
        self._artifacts = WarcFile(layout.archive, "artifacts", limit_bytes=limit, now=now)
        # Bounded, so that a slow disk slows the crawl instead of filling the memory.
        self._jobs: queue.Queue[_Job | None] = queue.Queue(maxsize=256)
        self._thread = threading.Thread(target=self._run, name="archivist", daemon=True)
        self._thread.start()

    def hand_over(self, recorded: Recorded) -> None:
        """Take an exchange; its ledger entry says later how it was kept."""
        self._jobs.put(recorded)

    def write(self, artifacts: tuple[Artifact, ...]) -> list[RecordLocation]:
        """Write artifacts; returns when they are on disk and in the index.

        Raises:
            DiskFullError: the disk is full.
            WeboidError: they could not be written.
        """
        job = _Write(artifacts)
        self._jobs.put(job)
        return job.done.result()

    def flush(self) -> None:
        """Return when all that was handed over before is on disk and in the index."""
        barrier = _Barrier()
        self._jobs.put(barrier)
        barrier.done.result()

    def require_space(self) -> None:
        """Check the reserve.

        Raises:
            DiskFullError: less than the reserve is free.
        """
        free, reserve = self._free_bytes(self._layout.archive), self._settings.disk_reserve_bytes
        if free < reserve:
            raise DiskFullError(
                f"{free:,} bytes are free, the reserve is {reserve:,}: free some space, "
                "or lower [proxy] disk_reserve_bytes."
            )

    def close(self) -> None:
        """Write what is left, close the files, give them their final names."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            batch, going = self._gather()
            if batch:
                self._settle(batch)
        self._captures.close()
        self._artifacts.close()
        self._index.close()

    def _gather(self) -> tuple[list[_Job], bool]:
        """The next batch, and whether more will come."""
        batch: list[_Job] = []
        size = 0
        deadline = 0.0
        while len(batch) < BATCH_RECORDS and size < BATCH_BYTES:
            try:
                job = self._next(batch, deadline)
            except queue.Empty:
                break
            if job is None:
                return batch, False
            if not batch:
                deadline = time.monotonic() + LINGER_S
            batch.append(job)
            if isinstance(job, Recorded):
                size += job.spool.size
            else:
                deadline = 0.0  # someone waits: take what is there, and go
        return batch, True

    def _next(self, batch: list[_Job], deadline: float) -> _Job | None:
        if not batch:
            return self._jobs.get()
        left = deadline - time.monotonic()
        return self._jobs.get(timeout=left) if left > 0 else self._jobs.get_nowait()

    def _settle(self, batch: list[_Job]) -> None:
        """Write the batch and tell everyone, whatever happens."""
        try:
            locations = self._commit(batch)
        except Exception as error:
            log.exception("archivist.failed")
            self._take_back()
            if len(batch) > 1:  # one of them may be to blame: each on its own
                for job in batch:
                    self._settle([job])
            else:
                self._tell_failure(batch[0], error)
        else:
            for job in batch:
                if isinstance(job, _Write):
                    job.done.set_result(locations[id(job)])
                elif isinstance(job, _Barrier):
                    job.done.set_result(None)
        finally:
            for job in batch:
                if isinstance(job, Recorded):
                    job.spool.close()

    def _commit(self, batch: list[_Job]) -> dict[int, list[RecordLocation]]:
        rows: list[Capture] = []
        pages: list[PageInfo] = []
        locations: dict[int, list[RecordLocation]] = {}
        kept: list[tuple[Recorded, Kept, RecordLocation]] = []
        with self._index.transaction():
            for job in batch:
                if isinstance(job, Recorded):
                    kept.append(self._write_exchange(job, rows))
                elif isinstance(job, _Write):
                    locations[id(job)] = [
                        self._write_artifact(a, rows, pages) for a in job.artifacts
                    ]
            self._captures.sync()
            self._artifacts.sync()
            self._index.add_captures(rows)
            for page in pages:
                self._index.add_page(page)
            for file in (self._captures, self._artifacts):
                if file.finalname is not None:
                    self._index.cover(file.finalname, file.end)
        for recorded, how, location in kept:
            entry = recorded.entry
            entry.filename, entry.offset, entry.length = (
                location.filename,
                location.offset,
                location.length,
            )
            entry.kept = how
        self._captures.roll_over()
        self._artifacts.roll_over()
        return locations

    def _write_exchange(
        self, recorded: Recorded, rows: list[Capture]
    ) -> tuple[Recorded, Kept, RecordLocation]:
        """Write `response` or `revisit` with its `request`; add its row, and its payload's."""
        entry, visit = recorded.entry, recorded.visit
        dedup = recorded.payload is not None and not entry.truncated
        payload = sha256_digest(recorded.payload) if dedup else ""
        original = self._index.original(payload, visit.bucket) if dedup else None
        if original is None:
            entry.digest = sha256_digest(recorded.body)
            principal, request = response_members(recorded, visit.page_id)
        else:
            entry.digest = original.digest
            principal, request = revisit_members(recorded, visit.page_id, original)
        location = self._captures.append(principal)
        self._captures.append((request,))
        if original is None and dedup:
            self._index.add_payload(
                payload,
                visit.bucket,
                Original(
                    entry.digest,
                    entry.url,
                    milliseconds(recorded.started_at),
                    location.filename,
                    location.offset,
                    location.length,
                ),
            )
        if entry.status != 304:  # it has no payload of its own to play back
            rows.append(_exchange_row(recorded, location, original))
        return recorded, Kept.RESPONSE if original is None else Kept.REVISIT, location

    def _write_artifact(
        self, artifact: Artifact, rows: list[Capture], pages: list[PageInfo]
    ) -> RecordLocation:
        digest = sha256_digest(artifact.data)
        date = warc_date(artifact.date)
        concurrent = artifact.visit.records_of(artifact.document)
        headers: Headers = [
            ("WARC-Type", str(RecordType.RESOURCE)),
            ("WARC-Record-ID", new_record_id()),
            ("WARC-Date", date),
            ("WARC-Target-URI", artifact.uri),
            ("WARC-Page-ID", artifact.visit.page_id),
            *(("WARC-Concurrent-To", each) for each in concurrent[-1:]),
            ("WARC-Refers-To-Target-URI", artifact.target),
            ("WARC-Refers-To-Date", date),
            ("Content-Type", artifact.content_type),
            ("WARC-Payload-Digest", digest),
            ("WARC-Block-Digest", digest),
            ("Content-Length", str(len(artifact.data))),
        ]
        location = self._artifacts.append((member(headers, artifact.data),))
        rows.append(
            Capture(
                url=artifact.uri,
                urlkey=key_or_empty(artifact.uri),
                captured_at=to_milliseconds(artifact.date),
                record_type=RecordType.RESOURCE,
                mime=artifact.content_type.partition(";")[0].strip(),
                status=None,
                digest=digest,
                location=location,
                page_id=artifact.visit.page_id,
            )
        )
        named = parse_artifact_uri(artifact.uri)
        if named is not None and named[0] is ArtifactKind.PAGEINFO:
            pages.append(parse_pageinfo(artifact.data))
        return location

    def _take_back(self) -> None:
        try:
            self._captures.take_back()
            self._artifacts.take_back()
        except OSError:
            # Nothing can be trusted now. The next process cuts the file at its last whole record.
            log.critical("archivist.lost", exc_info=True)
            os._exit(EXIT_DISK)

    def _tell_failure(self, job: _Job, error: Exception) -> None:
        told = _as_ours(error)
        if isinstance(job, Recorded):
            job.entry.kept = Kept.FAILED
            job.entry.reason = f"disk: {told}"
            job.visit.failure = told
        else:
            job.done.set_exception(told)


def _exchange_row(
    recorded: Recorded, location: RecordLocation, original: Original | None
) -> Capture:
    entry = recorded.entry
    payload_at = None
    if original is not None:
        payload_at = RecordLocation(original.filename, original.offset, original.length)
    return Capture(
        url=entry.url,
        urlkey=key_or_empty(entry.url),
        captured_at=to_milliseconds(recorded.started_at),
        record_type=RecordType.RESPONSE if original is None else RecordType.REVISIT,
        mime=entry.mime or "application/octet-stream",
        status=entry.status,
        digest=entry.digest,
        location=location,
        original=payload_at,
        page_id=recorded.visit.page_id or None,
        truncated=entry.truncated or None,
    )


def _as_ours(error: Exception) -> WeboidError:
    """The error in our terms, its cause kept."""
    if isinstance(error, WeboidError):
        return error
    if isinstance(error, OSError) and error.errno in (28, 122):  # ENOSPC, EDQUOT
        told: WeboidError = DiskFullError("The disk is full: free some space, then go on.")
    else:
        told = UnavailableError(f"The archive cannot be written: {error}.")
    told.__cause__ = error
    return told
