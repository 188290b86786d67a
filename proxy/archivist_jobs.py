"""Jobs of the archivist, index rows of a batch, and the backlog of rows for an unreachable index.

A record whose payload another machine is writing waits for a later batch, and flush barriers wait behind it. Before a
batch's payloads are published its records can be rolled back. Afterwards they stay on disk, and their rows are written
before anything else, idempotently. A file with rows in the backlog keeps its ``.open`` suffix, for recovery.
"""

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime

from core.captures import Capture, RecordLocation, RecordType
from core.errors import IndexUnavailableError, TransientError
from core.page_manifest import PageInfo
from core.timestamps import truncate_to_milliseconds
from net.backoff import ExponentialBackoff
from proxy.exchange import RecordedExchange
from proxy.visit_registry import VisitSession
from warc.dedup.payloads import Claim, OriginalRecord, PayloadKey
from warc.index.protocol import CaptureIndex, CaptureRow, QualityRow, capture_row, key_or_empty

# A batch takes milliseconds; a living process that needs longer has a stuck disk.
BUSY_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class PendingArtifact:
    """Artifact that the worker derived from a page, to be written as a record of that kind."""

    uri: str  # ``urn:KIND:URL``
    content_type: str
    date: datetime  # WARC-Date: the moment of the page it belongs to
    document: str  # the URL of the source document, for WARC-Concurrent-To
    visit: VisitSession
    data: bytes
    kind: RecordType = RecordType.RESOURCE


@dataclass(slots=True)
class WriteJob:
    """Artifacts to write; `done` resolves to their locations."""

    artifacts: tuple[PendingArtifact, ...]
    done: "Future[list[RecordLocation]]" = field(default_factory=Future)


@dataclass(slots=True)
class FlushBarrier:
    """Barrier that is completed when all jobs before it are on disk."""

    done: "Future[None]" = field(default_factory=Future)


Job = RecordedExchange | WriteJob | FlushBarrier


@dataclass(slots=True)
class SortedBatch:
    """Batch split into jobs that are ready, postponed, and postponed beyond the time limit."""

    ready: list[Job] = field(default_factory=list)
    put_off: list[Job] = field(default_factory=list)
    overdue: list[RecordedExchange] = field(default_factory=list)


class PostponedJobs:
    """Jobs that wait for other machines, with the payload keys they wait for. Not thread-safe."""

    def __init__(self, limit_s: float = BUSY_LIMIT_S) -> None:
        self._limit_s = limit_s
        self._jobs: list[Job] = []
        self._waiting: set[PayloadKey] = set()  # what they wait for
        self._since: dict[PayloadKey, float] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def keys(self) -> list[PayloadKey]:
        """Return the payload keys that other machines are writing."""
        return list(self._waiting)

    def sort(
        self,
        batch: list[Job],
        keys: Mapping[int, PayloadKey | None],
        answers: Mapping[PayloadKey, OriginalRecord | Claim],
        now: float,
    ) -> SortedBatch:
        """Sort the jobs into ready, postponed and overdue by `answers` to the `keys` of their ids."""
        busy = {key for key, answer in answers.items() if answer is Claim.BUSY}
        self._waiting |= busy
        self._since = {key: self._since.get(key, now) for key in self._waiting}
        done = SortedBatch()
        for job in batch:
            key = keys.get(id(job))
            if key is not None and key in busy and isinstance(job, RecordedExchange):
                late = now - self._since[key] > self._limit_s
                (done.overdue if late else done.put_off).append(job)
            elif isinstance(job, FlushBarrier) and (done.put_off or self._jobs):
                done.put_off.append(job)
            else:
                done.ready.append(job)
        return done

    def add(self, jobs: list[Job]) -> int:
        """Add jobs to wait; return the bytes they hold."""
        self._jobs += jobs
        return sum(job.spool.size for job in jobs if isinstance(job, RecordedExchange))

    def take(self) -> list[Job]:
        """Take out and return the postponed jobs, for another try."""
        jobs, self._jobs = self._jobs, []
        self._waiting.clear()
        return jobs

    def too_late(self) -> TransientError:
        """Return the error for an overdue job."""
        return TransientError(
            f"Another machine has been writing the same payload for over {self._limit_s:.0f} s:"
            " see whether its disk answers. The page is tried again."
        )


def artifact_row(artifact: PendingArtifact, digest: str, at: RecordLocation) -> CaptureRow:
    """Return the index row of the artifact."""
    return capture_row(
        Capture(
            url=artifact.uri,
            urlkey=key_or_empty(artifact.uri),
            captured_at=truncate_to_milliseconds(artifact.date),
            record_type=artifact.kind,
            mime=artifact.content_type.partition(";")[0].strip(),
            status=None,
            digest=digest,
            location=at,
            page_id=artifact.visit.page_id or None,
            login=artifact.visit.login or None,
        )
    )


log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1  # between two tries; then longer each time
LAST_PAUSE_S = 2.0


@dataclass(slots=True)
class IndexBatch:
    """Index changes of one batch of records."""

    rows: list[CaptureRow] = field(default_factory=list)
    pages: list[PageInfo] = field(default_factory=list)
    qualities: list[QualityRow] = field(default_factory=list)
    originals: dict[PayloadKey, OriginalRecord] = field(default_factory=dict)
    # File name -> bytes that the index covers after this batch.
    ends: dict[str, int] = field(default_factory=dict)

    def write(self, index: CaptureIndex) -> None:
        """Write it into the index, in the caller's transaction."""
        index.add_rows(self.rows)
        for page in self.pages:
            index.add_page(page)
        index.add_qualities(self.qualities)
        for filename, end in self.ends.items():
            index.cover(filename, end)
        index.add_payloads(self.originals)


class IndexBacklog:
    """Availability of the index and rows not yet written to it. For use from one thread."""

    def __init__(self, index: CaptureIndex, patience_s: float) -> None:
        self._index = index
        self._patience_s = patience_s
        self._owed: IndexBatch | None = None
        self._since: float | None = None
        self._pauses = ExponentialBackoff(FIRST_PAUSE_S, LAST_PAUSE_S)
        # The error that exhausted the patience; None while the index answers or patience is left.
        self.lost: IndexUnavailableError | None = None

    @property
    def is_owing(self) -> bool:
        """Return whether records are on disk that the index does not cover."""
        return self._owed is not None

    def owe(self, batch: IndexBatch) -> None:
        """Keep the batch: its records stay on disk even if its transaction fails."""
        self._owed = batch

    def paid(self) -> None:
        """Clear the backlog and the outage: the index has answered and is complete."""
        if self._since is not None:
            log.warning("index.back seconds=%.1f", time.monotonic() - self._since)
        self._owed, self._since, self.lost = None, None, None
        self._pauses.reset()

    def pay(self) -> None:
        """Write the backlog, if there is one; it is kept after IndexUnavailableError."""
        if self._owed is None:
            return
        with self._index.transaction():
            self._owed.write(self._index)
        self.paid()

    def pay_patiently(self) -> None:
        """Write the backlog, retrying until patience ends with IndexUnavailableError."""
        while True:
            try:
                self.pay()
            except IndexUnavailableError as error:
                if not self.endure(error):
                    raise
            else:
                return

    def endure(self, error: IndexUnavailableError) -> bool:
        """Wait with exponential back-off before the next try; False when patience has ended."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
            log.warning("index.unavailable error=%s", error)
        left = self._since + self._patience_s - now
        if left <= 0:
            self.lost = error
            return False
        threading.Event().wait(min(self._pauses.next_s(), left))
        return True

    def look(self) -> None:
        """Check whether an unavailable index answers again; never raises."""
        if self._since is None:
            return
        try:
            self.pay()
            self._index.check()
        except IndexUnavailableError as error:
            log.debug("index.unavailable error=%s", error)
        else:
            self.paid()
