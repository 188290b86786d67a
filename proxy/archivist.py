"""The one stage that decides and writes: dedup, WARC, disk, index, acknowledgement, in that order.

One thread a process takes what has gathered (group commit) and, holding the index's write lock:
looks each payload up, writes `response` or `revisit`, forces the files to disk, then commits the
rows. So of many equal payloads exactly one becomes a `response`, in all processes together; a
digest is known only when its record is on disk; and nothing is acknowledged before that.

A batch that fails is taken back whole, and every visit in it is told.
"""

import logging
import os
import shutil
import threading
from collections import deque
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
from core.timestamps import timestamp14_at, to_milliseconds, warc_date
from proxy.builder import (
    Headers,
    Original,
    member,
    new_record_id,
    response_members,
    revisit_members,
)
from proxy.exchange import Recorded
from proxy.index import CaptureIndex, CaptureRow, PayloadKey, key_or_empty, row_of
from proxy.ledger import Kept, LedgerEntry
from proxy.visits import Visit
from proxy.warcfile import WarcFile

log = logging.getLogger(__name__)

LINGER_S = 0.05  # how long a batch waits for company when nobody waits for it
BATCH_BYTES = 16 << 20  # a batch of so many bytes waits no longer
# Handed over and not yet on disk: more than that, and a slow disk slows the crawl instead of
# filling the memory.
BACKLOG_BYTES = 96 << 20
BACKLOG_RECORDS = 5_000
_RESPONSE, _REVISIT = RecordType.RESPONSE.value, RecordType.REVISIT.value
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
        self._jobs: deque[_Job] = deque()
        self._backlog = 0  # bytes
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._arrived = threading.Event()  # there is something to do
        self._urgent = threading.Event()  # somebody waits, or there is much to do
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="archivist", daemon=True)
        self._thread.start()

    def hand_over(self, recorded: Recorded) -> None:
        """Take an exchange; its ledger entry says later how it was kept."""
        with self._lock:
            while self._backlog > BACKLOG_BYTES or len(self._jobs) > BACKLOG_RECORDS:
                self._room.wait()
            self._jobs.append(recorded)
            self._backlog += recorded.spool.size
            if self._backlog > BATCH_BYTES:
                self._urgent.set()
        # Waking the thread for each record would cost more than the record.
        if not self._arrived.is_set():
            self._arrived.set()

    def write(self, artifacts: tuple[Artifact, ...]) -> list[RecordLocation]:
        """Write artifacts; returns when they are on disk and in the index.

        Raises:
            DiskFullError: the disk is full.
            WeboidError: they could not be written.
        """
        job = _Write(artifacts)
        self._ask(job)
        return job.done.result()

    def flush(self) -> None:
        """Return when all that was handed over before is on disk and in the index."""
        barrier = _Barrier()
        self._ask(barrier)
        barrier.done.result()

    def _ask(self, job: _Job) -> None:
        with self._lock:
            self._jobs.append(job)
        self._urgent.set()
        self._arrived.set()

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
        self._closing = True
        self._urgent.set()
        self._arrived.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._arrived.wait()
            closing = self._closing
            self._urgent.wait(LINGER_S)
            self._arrived.clear()
            self._urgent.clear()
            batch = self._take()
            if batch:
                self._settle(batch)
            if closing and not batch:
                break
            if closing:
                self._arrived.set()
        self._captures.close()
        self._artifacts.close()
        self._index.close()

    def _take(self) -> list[_Job]:
        """All that has gathered."""
        with self._lock:
            batch = list(self._jobs)
            self._jobs.clear()
            self._backlog = 0
            self._room.notify_all()
        return batch

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
        rows: list[CaptureRow] = []
        pages: list[PageInfo] = []
        locations: dict[int, list[RecordLocation]] = {}
        kept: list[tuple[LedgerEntry, Kept, RecordLocation]] = []
        exchanges = [job for job in batch if isinstance(job, Recorded)]
        keys = {id(job): self._payload_key(job) for job in exchanges}
        with self._index.transaction():
            originals = self._index.originals({key for key in keys.values() if key is not None})
            known = set(originals)
            for job in batch:
                if isinstance(job, Recorded):
                    kept.append(self._write_exchange(job, keys[id(job)], originals, rows))
                elif isinstance(job, _Write):
                    locations[id(job)] = [
                        self._write_artifact(a, rows, pages) for a in job.artifacts
                    ]
            self._captures.sync()
            self._artifacts.sync()
            self._index.add_rows(rows)
            self._index.add_payloads({k: o for k, o in originals.items() if k not in known})
            for page in pages:
                self._index.add_page(page)
            for file in (self._captures, self._artifacts):
                if file.finalname is not None:
                    self._index.cover(file.finalname, file.end)
        for entry, how, location in kept:
            entry.filename, entry.offset, entry.length = (
                location.filename,
                location.offset,
                location.length,
            )
            entry.kept = how
        self._captures.roll_over()
        self._artifacts.roll_over()
        return locations

    def _payload_key(self, recorded: Recorded) -> PayloadKey | None:
        """What dedup knows the payload by; None when it is not to be shared."""
        if recorded.payload is None or recorded.entry.truncated:
            return None
        if recorded.payload_size < self._settings.dedup_min_bytes:
            return None
        return sha256_digest(recorded.payload), recorded.visit.bucket

    def _write_exchange(
        self,
        recorded: Recorded,
        key: PayloadKey | None,
        originals: dict[PayloadKey, Original],
        rows: list[CaptureRow],
    ) -> tuple[LedgerEntry, Kept, RecordLocation]:
        """Write `response` or `revisit` with its `request`; add its row, and its payload's."""
        entry = recorded.entry
        original = None if key is None else originals.get(key)
        if original is None:
            coded = recorded.body is not recorded.payload
            entry.digest = sha256_digest(recorded.body) if coded or key is None else key[0]
            principal, request = response_members(recorded)
        else:
            entry.digest = original.digest
            principal, request = revisit_members(recorded, original)
        location = self._captures.append(principal)
        self._captures.append((request,))
        if original is None and key is not None:
            originals[key] = Original(
                entry.digest,
                entry.url,
                entry.started_ms,
                location.filename,
                location.offset,
                location.length,
            )
        if entry.status != 304:  # it has no payload of its own to play back
            rows.append(_exchange_row(recorded, location, original))
        return entry, Kept.RESPONSE if original is None else Kept.REVISIT, location

    def _write_artifact(
        self, artifact: Artifact, rows: list[CaptureRow], pages: list[PageInfo]
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
            row_of(
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


def _exchange_row(recorded: Recorded, at: RecordLocation, original: Original | None) -> CaptureRow:
    entry = recorded.entry
    return CaptureRow(
        urlkey=key_or_empty(entry.url),
        timestamp=timestamp14_at(entry.started_ms),
        captured_ms=entry.started_ms,
        url=entry.url,
        record_type=_RESPONSE if original is None else _REVISIT,
        mime=entry.mime or "application/octet-stream",
        status=entry.status,
        digest=entry.digest,
        filename=at.filename,
        offset=at.offset,
        length=at.length,
        orig_filename=None if original is None else original.filename,
        orig_offset=None if original is None else original.offset,
        orig_length=None if original is None else original.length,
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
