"""Archivist: the one thread of a process that dedups, writes WARCs and commits index rows (docs/explanation/proxy.md).

It takes all queued jobs as one batch (group commit). Nothing is acknowledged before the records are synced, their
claims settled and their rows committed. A batch that fails is rolled back as a whole; each visit in it gets the error.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from cachetools import FIFOCache

from core.captures import ArtifactKind, RecordLocation, RecordType, parse_artifact_uri
from core.config.settings import IndexSettings, ProxySettings
from core.digests import sha256_digest
from core.errors import DedupUnavailableError, IndexUnavailableError
from core.layout import Layout
from core.page_manifest import PageInfo
from core.playback_check import PlaybackCheck, parse_manifest
from core.timestamps import unix_milliseconds, warc_date
from proxy import archivist_jobs
from proxy.exchange import RecordedExchange
from proxy.request_log import RequestLogEntry, RequestOutcome
from warc.checksums import ChecksumWorker
from warc.dedup.payloads import Claim, LostClaimsError, OriginalRecord, PayloadKey
from warc.index.protocol import CaptureRow, capture_row, quality_row
from warc.index.sqlite import open_index, open_payloads
from warc.record_builder import artifact_member
from warc.writer import WarcFile, failed_component, log_failure, to_weboid_error

if TYPE_CHECKING:  # loaded where texts are indexed
    from warc.text_index.indexer import TextIndexThread

log = logging.getLogger(__name__)

RECORD_ID_LIMIT = 10_000  # a page's revisits mostly refer to what the same run has written
CHECK_S = 1.0  # interval of file age checks while idle
BATCH_WAIT_S = 0.05  # seconds to collect a batch when no caller is blocked on it
BATCH_BYTES = 16 << 20  # a larger batch is written at once
# Handed over and not yet on disk: more than that, and a slow disk slows the crawl instead of filling the memory.
BACKLOG_BYTES = 96 << 20
BACKLOG_RECORDS = 5_000
_RESPONSE, _REVISIT = RecordType.RESPONSE.value, RecordType.REVISIT.value
_CAPTURES, _ARTIFACTS = _PREFIXES = ("weboid", "artifacts")
FILES_LIMIT = 64  # open WARCs, each of a prefix that a client named
EXIT_DISK = 74  # sysexits.h: EX_IOERR


class Archivist:
    """Owner of the process's WARC files and its index connection. Thread-safe; `close` it."""

    def __init__(
        self,
        layout: Layout,
        settings: ProxySettings,
        index: IndexSettings,
        *,
        now: Callable[[], datetime],
        facts: Mapping[str, str],
    ) -> None:
        """Open the stores and start the thread; `facts` are written to each file's `warcinfo`."""
        self._settings = settings
        self._facts = dict(facts)
        self._ids: FIFOCache[tuple[str, int], str] = FIFOCache(RECORD_ID_LIMIT)  # of records, by file and offset
        self._index = open_index(layout, index)
        self._index_backlog = archivist_jobs.IndexBacklog(self._index, index.patience_s)
        self._payloads = open_payloads(layout, settings, self._index)
        self._put_off = archivist_jobs.PostponedJobs()
        self._texts: TextIndexThread | None = None
        if index.text:
            from classify.page_excerpt import visible_text
            from warc.text_index import indexer

            self._texts = indexer.TextIndexThread(layout, index.url, visible_text)
        self._checksums = ChecksumWorker(layout, lambda: open_index(layout, index))
        self._new_file = partial(
            WarcFile, layout.archive, settings=settings, now=now, closed=self._checksums.put, facts=lambda: self._facts
        )
        self._files = {prefix: self._new_file(prefix=prefix) for prefix in _PREFIXES}
        self._jobs: deque[archivist_jobs.Job] = deque()
        self._backlog = 0  # bytes
        self.taken = 0  # number of exchanges accepted so far
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._arrived = threading.Event()  # there is something to do
        self._urgent = threading.Event()  # a caller is blocked, or the backlog is large
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="archivist", daemon=True)
        self._thread.start()

    def hand_over(self, recorded: RecordedExchange) -> None:
        """Add an exchange to the queue; blocks while the backlog is full. Its log entry gets the outcome."""
        with self._lock:
            while self._backlog > BACKLOG_BYTES or len(self._jobs) > BACKLOG_RECORDS:
                self._room.wait()
            self._jobs.append(recorded)
            self.taken += 1
            self._backlog += recorded.spool.size
            if self._backlog > BATCH_BYTES:
                self._urgent.set()
        # Waking the thread for each record would cost more than the record.
        if not self._arrived.is_set():
            self._arrived.set()

    def write(self, artifacts: tuple[archivist_jobs.PendingArtifact, ...]) -> list[RecordLocation]:
        """Write artifacts; return when they are on disk and in the index, or raise WeboidError."""
        job = archivist_jobs.WriteJob(artifacts)
        with self._lock:
            self._jobs.append(job)
        self._urgent.set()
        self._arrived.set()
        return job.done.result()

    def flush(self) -> None:
        """Wait until all jobs accepted so far are on disk and in the index."""
        self.write(())

    @property
    def waiting(self) -> int:
        """Return the number of jobs that the writer has not taken yet."""
        return len(self._jobs)

    def require_stores(self) -> None:
        """Raise Dedup- or IndexUnavailableError if an index does not answer (after `patience_s`)."""
        self._payloads.check()
        if (lost := self._index_backlog.lost) is not None:
            raise IndexUnavailableError(str(lost))

    def close(self) -> None:
        """Write pending jobs, close the files and rename them to their final names."""
        self._closing = True
        self._urgent.set()
        self._arrived.set()
        self._thread.join()
        self._checksums.close()

    def _run(self) -> None:
        while True:
            if self._put_off:
                with suppress(DedupUnavailableError):  # the next claim reports it
                    self._payloads.wait(self._put_off.keys, BATCH_WAIT_S)
            elif self._arrived.wait(CHECK_S):
                self._urgent.wait(BATCH_WAIT_S)
            else:
                self._index_backlog.check()
                self._roll_over()  # idle files reach their age limit, too
                continue
            self._arrived.clear()
            self._urgent.clear()
            closing = self._closing
            with self._lock:
                batch = [*self._put_off.take(), *self._jobs]
                self._jobs.clear()
                self._backlog = 0
                self._room.notify_all()
            if batch:
                self._settle(batch)
            if closing and not batch:
                break
            if closing:
                self._arrived.set()
        self._index_backlog.check()
        for file in self._files.values():
            file.close() if self._index_backlog.unwritten is None else file.leave()
        self._payloads.close()
        # Before the index: its last connection merges the write-ahead log, which a reader's cannot.
        if self._texts is not None:
            self._texts.close()
        self._index.close()

    def _settle(self, batch: list[archivist_jobs.Job]) -> None:
        """Write the batch, retrying as needed, and complete every job with a result or an error."""
        while not self._try(batch):
            self._roll_back()

    def _try(self, batch: list[archivist_jobs.Job]) -> bool:
        """Write the batch; return False when it must be rolled back and tried again."""
        try:
            self._index_backlog.write()
            done, locations = self._commit(batch)
        except IndexUnavailableError as error:
            if self._index_backlog.wait(error):
                return False
            self._roll_back()
            for job in batch:
                self._fail(job, error)
        except DedupUnavailableError as error:
            # Reject the jobs that need a claim and write the others.
            log.warning("archivist.unclaimed error=%s", error)
            rest: list[archivist_jobs.Job] = []
            for job in batch:
                if isinstance(job, RecordedExchange) and self._payload_key(job) is not None:
                    self._fail(job, error)
                else:
                    rest.append(job)
            if rest:
                self._settle(rest)
        except LostClaimsError:
            log.warning("archivist.stalled records=%d", len(batch))
            return False
        except Exception as error:  # noqa: BLE001 passed on to the callers
            log_failure(log, "archivist.failed", error)
            self._roll_back()
            if len(batch) > 1:  # one of them may be to blame: each on its own
                for job in batch:
                    self._settle([job])
            else:
                self._fail(batch[0], error)
        else:
            self._complete(done, locations)
        return True

    def _complete(self, done: archivist_jobs.SortedBatch, locations: dict[int, list[RecordLocation]]) -> None:
        """Complete jobs whose records are on disk; postpone those that wait for another machine."""
        put_off = self._put_off.add(done.put_off)
        with self._lock:
            self._backlog += put_off
        for recorded in done.overdue:
            self._fail(recorded, self._put_off.too_late())
        for job in done.ready:
            if isinstance(job, RecordedExchange):
                job.spool.close()
                if job.visit.rules is not None:
                    job.visit.rules.note(job.entry)
            else:
                job.done.set_result(locations[id(job)])

    def _commit(
        self, batch: list[archivist_jobs.Job]
    ) -> tuple[archivist_jobs.SortedBatch, dict[int, list[RecordLocation]]]:
        changes = archivist_jobs.IndexBatch()
        locations: dict[int, list[RecordLocation]] = {}
        written: list[tuple[RequestLogEntry, RequestOutcome, RecordLocation]] = []
        keys = {id(job): self._payload_key(job) for job in batch if isinstance(job, RecordedExchange)}
        # Keys by the buckets whose payloads they may refer to; of two jobs with one payload the first decides.
        wanted: dict[tuple[str, ...], set[PayloadKey]] = {}
        sought = set[PayloadKey]()
        for job in batch:
            key = keys.get(id(job))
            if isinstance(job, RecordedExchange) and key is not None and key not in sought:
                sought.add(key)
                rules = job.visit.rules
                also = self._settings.dedup_also if rules is None else rules.also
                wanted.setdefault(tuple(also), set()).add(key)
        with self._certainly(), self._claimed(wanted) as answers:
            originals = {key: each for key, each in answers.items() if isinstance(each, OriginalRecord)}
            known = set(originals)
            done = self._put_off.sort(batch, keys, answers, time.monotonic())
            for job in done.ready:
                if isinstance(job, RecordedExchange):
                    written.append(self._write_exchange(job, keys[id(job)], originals, changes.rows))
                else:
                    locations[id(job)] = [self._write_artifact(a, changes) for a in job.artifacts]
            for file in self._files.values():
                file.sync()
            new = {k: o for k, o in originals.items() if k not in known}
            for file in self._files.values():
                if file.finalname is not None and file.end:  # a closed one is covered already
                    changes.ends[file.finalname] = file.end
            if self._payloads.shared:
                changes.originals = new  # what the shared index is made again from
            changes.write(self._index)
            # These records are on disk: their claims are settled.
            if self._payloads.settle(new):
                raise LostClaimsError
            if self._payloads.shared:
                self._keep()
            if self._index.shared:
                self._index_backlog.unwritten = changes
        self._index_backlog.clear()
        if self._texts is not None:
            self._texts.put(changes.pages)
        self._keep()
        for entry, outcome, location in written:
            entry.filename, entry.offset, entry.length = (location.filename, location.offset, location.length)
            entry.kept = outcome
        self._roll_over()
        return done, locations

    @contextmanager
    def _certainly(self) -> Iterator[None]:
        """Open an index transaction. If only its commit fails, its rows go to the backlog."""
        try:
            with self._index.transaction():
                yield
        except IndexUnavailableError:
            if self._index_backlog.unwritten is None:
                raise
            self._index_backlog.write_with_retries()

    def _file(self, prefix: str) -> WarcFile:
        """Return the file with that prefix that is being written."""
        if (file := self._files.get(prefix)) is None:
            file = self._files[prefix] = self._new_file(prefix=prefix)
        return file

    def _roll_over(self) -> None:
        surplus = len(self._files) - FILES_LIMIT
        for prefix, file in list(self._files.items()):
            try:
                if prefix not in _PREFIXES and (surplus > 0 or file.path is None):
                    file.close()
                    del self._files[prefix]
                    surplus -= 1
                    continue
                file.roll_over()
            except OSError as error:  # it stays open, whole, and is tried again
                log_failure(log, "archivist.not_closed", error)

    @contextmanager
    def _claimed(
        self, wanted: Mapping[tuple[str, ...], Collection[PayloadKey]]
    ) -> Iterator[dict[PayloadKey, OriginalRecord | Claim]]:
        """Claim the payloads, given by the buckets to search as well, and yield the answers; release them on failure.

        Without a bucket of their own they are looked up only.
        """
        answers: dict[PayloadKey, OriginalRecord | Claim] = {}
        try:
            for also, keys in wanted.items():
                answers |= self._payloads.claim([key for key in keys if key.bucket], also)
                if unowned := [key for key in keys if not key.bucket]:
                    answers |= self._payloads.find(unowned, also)
            yield answers
        except BaseException:
            self._payloads.release([key for key, each in answers.items() if each is Claim.YOURS])
            raise

    def _keep(self) -> None:
        for file in self._files.values():
            file.keep()

    def _payload_key(self, recorded: RecordedExchange) -> PayloadKey | None:
        """Return the dedup key of the payload; None when it must not be shared."""
        if recorded.payload is None or recorded.entry.truncated or recorded.entry.status == 304:
            return None
        if recorded.payload_size < self._settings.dedup_min_bytes:
            return None
        return PayloadKey(sha256_digest(recorded.payload), recorded.visit.bucket)

    def _write_exchange(
        self,
        recorded: RecordedExchange,
        key: PayloadKey | None,
        originals: dict[PayloadKey, OriginalRecord],
        rows: list[CaptureRow],
    ) -> tuple[RequestLogEntry, RequestOutcome, RecordLocation]:
        """Write `response` or `revisit` with its `request`; add its row, and its payload's."""
        entry = recorded.entry
        original = None if key is None else originals.get(key)
        is_confirmation = recorded.head.status == 304
        if is_confirmation:
            original, record_id = recorded.confirms or recorded.visit.confirmed_by(entry.url) or (None, "")
            entry.digest = "" if original is None else original.digest
            principal, request = archivist_jobs.revisit_members(recorded, original, record_id)
        elif original is None:
            if recorded.body is None:
                entry.digest = ""
            elif key is not None and recorded.body is recorded.payload:
                entry.digest = key.digest
            else:
                entry.digest = sha256_digest(recorded.body)
            principal, request = archivist_jobs.response_members(recorded)
        else:
            entry.digest = original.digest
            principal, request = archivist_jobs.revisit_members(
                recorded, original, self._ids.get((original.filename, original.offset), "")
            )
        file = self._file(_CAPTURES if recorded.visit.rules is None else recorded.visit.rules.prefix)
        if not file.end:  # the file that begins now names the client
            self._facts["http-header-user-agent"] = archivist_jobs.user_agent_of(recorded.request)
        location = file.append(principal)
        file.append((request,))
        if original is None and key is not None and key.bucket:
            self._ids[location.filename, location.offset] = entry.record_id
            originals[key] = OriginalRecord(
                entry.digest, entry.url, entry.started_ms, location.filename, location.offset, location.length
            )
        # A 304 to the browser's own question has no payload to play back.
        if not is_confirmation or recorded.confirms is not None:
            rows.append(
                capture_row(
                    entry.url,
                    entry.started_ms,
                    _RESPONSE if original is None else _REVISIT,
                    location,
                    mime=entry.mime or "application/octet-stream",
                    status=entry.status,
                    digest=entry.digest or "-",
                    original=original,
                    page_id=recorded.visit.page_id or None,
                    truncated=entry.truncated or None,
                    login=recorded.visit.login or None,
                )
            )
        is_revisit = is_confirmation or original is not None
        return entry, RequestOutcome.REVISIT if is_revisit else RequestOutcome.RESPONSE, location

    def _write_artifact(
        self, artifact: archivist_jobs.PendingArtifact, changes: archivist_jobs.IndexBatch
    ) -> RecordLocation:
        digest, record = artifact_member(
            artifact.uri,
            artifact.data,
            date=warc_date(artifact.date),
            page_id=artifact.visit.page_id,
            content_type=artifact.content_type,
            login=artifact.visit.login,
            concurrent=artifact.visit.records_of(artifact.document)[-1:],
            kind=artifact.kind,
        )
        rules = artifact.visit.rules
        location = self._file(_ARTIFACTS if rules is None else rules.prefix).append((record,))
        named = parse_artifact_uri(artifact.uri)
        manifest: PageInfo | PlaybackCheck | None = None
        if named is not None and named[0] is ArtifactKind.PAGEINFO:
            manifest = parse_manifest(artifact.data)
        if isinstance(manifest, PageInfo):
            changes.pages.append(manifest)
        elif manifest is not None:
            changes.qualities.append(quality_row(manifest, location))
        changes.rows.append(
            capture_row(
                artifact.uri,
                unix_milliseconds(artifact.date),
                artifact.kind.value,
                location,
                mime=artifact.content_type.partition(";")[0].strip(),
                digest=digest,
                page_id=artifact.visit.page_id or None,
                login=artifact.visit.login or None,
                is_findable=not isinstance(manifest, PlaybackCheck),
            )
        )
        return location

    def _roll_back(self) -> None:
        self._ids.clear()
        try:
            for file in self._files.values():
                file.take_back()
        except OSError:
            # The file's state is unknown. The next process truncates it after its last whole record.
            log.critical("archivist.lost", exc_info=True)
            os._exit(EXIT_DISK)

    def _fail(self, job: archivist_jobs.Job, error: Exception) -> None:
        failure = to_weboid_error(error)
        if isinstance(job, RecordedExchange):
            job.entry.kept = RequestOutcome.FAILED
            job.entry.reason = f"{failed_component(failure)}: {failure}"
            job.visit.failure = failure
            job.spool.close()
        else:
            job.done.set_exception(failure)
