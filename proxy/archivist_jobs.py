"""Jobs of the archivist, their records and index rows, and the backlog of rows for an unreachable index.

A record whose payload another machine is writing waits for a later batch, and barriers wait behind it. Once a batch's
payloads are published its records stay on disk, and their rows are written before anything else, idempotently. A file
with rows in the backlog keeps its ``.open`` suffix, for recovery.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from core.captures import CONFIRMED_HEADER, LOGIN_HEADER, RecordLocation, RecordType
from core.digests import sha256_digest
from core.errors import IndexUnavailableError, TransientError
from core.media_types import identified_type
from core.page_manifest import PageInfo
from core.timestamps import warc_date_at
from net.backoff import ExponentialBackoff
from proxy.exchange import RecordedExchange
from proxy.visit_registry import VisitSession
from warc import record_builder
from warc.dedup.payloads import Claim, OriginalRecord, PayloadKey
from warc.index.protocol import CaptureIndex, CaptureRow, QualityRow

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
    """Artifacts to write, `done` resolves to their locations; without any, a barrier: all jobs before it are on disk."""

    artifacts: tuple[PendingArtifact, ...]
    done: "Future[list[RecordLocation]]" = field(default_factory=Future)


Job = RecordedExchange | WriteJob


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
        self.keys: set[PayloadKey] = set()  # what other machines are writing
        self._since: dict[PayloadKey, float] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def sort(
        self,
        batch: list[Job],
        keys: Mapping[int, PayloadKey | None],
        answers: Mapping[PayloadKey, OriginalRecord | Claim],
        now: float,
    ) -> SortedBatch:
        """Sort the jobs into ready, postponed and overdue by `answers` to the `keys` of their ids."""
        busy = {key for key, answer in answers.items() if answer is Claim.BUSY}
        self.keys |= busy
        self._since = {key: self._since.get(key, now) for key in self.keys}
        done = SortedBatch()
        for job in batch:
            key = keys.get(id(job))
            if key is not None and key in busy and isinstance(job, RecordedExchange):
                late = now - self._since[key] > self._limit_s
                (done.overdue if late else done.put_off).append(job)
            elif isinstance(job, WriteJob) and not job.artifacts and (done.put_off or self._jobs):
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
        self.keys.clear()
        return jobs

    def too_late(self) -> TransientError:
        """Return the error for an overdue job."""
        return TransientError(
            f"Another machine has been writing the same payload for over {self._limit_s:.0f} s: check whether its "
            "disk responds. The page is tried again."
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
    ends: dict[str, int] = field(default_factory=dict)  # file name -> bytes that the index covers after this batch

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
        # Rows of records that stay on disk even if their transaction fails; None: the index covers all.
        self.unwritten: IndexBatch | None = None
        self._since: float | None = None
        self._pauses = ExponentialBackoff(FIRST_PAUSE_S, LAST_PAUSE_S)
        # The error that exhausted the patience; None while the index answers or patience is left.
        self.lost: IndexUnavailableError | None = None

    def clear(self) -> None:
        """Clear the backlog and the outage: the index has answered and is complete."""
        if self._since is not None:
            log.warning("index.back seconds=%.1f", time.monotonic() - self._since)
        self.unwritten, self._since, self.lost = None, None, None
        self._pauses.reset()

    def write(self) -> None:
        """Write the backlog, if there is one; it is kept after IndexUnavailableError."""
        if self.unwritten is None:
            return
        with self._index.transaction():
            self.unwritten.write(self._index)
        self.clear()

    def write_with_retries(self) -> None:
        """Write the backlog, retrying until patience ends with IndexUnavailableError."""
        while True:
            try:
                self.write()
            except IndexUnavailableError as error:
                if not self.wait(error):
                    raise
            else:
                return

    def wait(self, error: IndexUnavailableError) -> bool:
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

    def check(self) -> None:
        """Check whether an unavailable index answers again; never raises."""
        if self._since is None:
            return
        try:
            self.write()
            self._index.check()
        except IndexUnavailableError as error:
            log.debug("index.unavailable error=%s", error)
        else:
            self.clear()


# Up to here a record is joined and deflated in one call.
_ONE_CALL_BYTES = 1 << 20
_AGENT_CHARS = 1000
# WARC/1.1, 6.7.2 and 6.7.3
IDENTICAL_PAYLOAD = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
SERVER_NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
RESPONSE_TYPE = "application/http; msgtype=response"
REQUEST_TYPE = "application/http; msgtype=request"
# As OpenSSL spells them and as WARC-Protocol does.
_TLS_VERSIONS = {"TLSv1.3": "tls/1.3", "TLSv1.2": "tls/1.2", "TLSv1.1": "tls/1.1", "TLSv1": "tls/1.0", "SSLv3": "ssl/3"}


def response_members(recorded: RecordedExchange) -> tuple[Iterable[record_builder.Part], bytes]:
    """Build the gzip members of a `response`, in parts, and of its `request`."""
    spool, head, entry = recorded.spool, recorded.head.raw, recorded.entry
    # WARC-Identified-Payload-Type (WARC/1.1), when the payload is unambiguous.
    mime = identified_type(entry.identified, entry.mime) if entry.digest else ""
    identified = f"WARC-Identified-Payload-Type: {mime}\r\n" if mime else ""
    front = (
        f"{_common(RecordType.RESPONSE, recorded)}"
        f"{identified}"
        f"Content-Type: {RESPONSE_TYPE}\r\n"
        f"WARC-Block-Digest: {sha256_digest(recorded.block)}\r\n"
        f"Content-Length: {len(head) + spool.size}\r\n\r\n"
    ).encode() + head
    beginning = next(spool.pieces(), b"")
    if record_builder.is_packed(entry.mime, recorded.head.get(b"content-encoding"), spool.size, beginning):
        principal: Iterable[record_builder.Part] = record_builder.store_pieces(
            front, spool.pieces(), record_builder.RECORD_END
        )
    elif spool.size <= _ONE_CALL_BYTES:
        principal = (record_builder.compress(b"".join((front, *spool.pieces(), record_builder.RECORD_END))),)
    else:
        principal = record_builder.compress_pieces(
            chain[bytes | bytearray]((front,), spool.pieces(), (record_builder.RECORD_END,))
        )
    return principal, _request_member(recorded)


def revisit_members(
    recorded: RecordedExchange, original: OriginalRecord | None, original_id: str = ""
) -> tuple[Iterable[record_builder.Part], bytes]:
    """Build the gzip members of a `revisit` that refers to `original`, and of its `request` (WARC/1.1, 6.7.2).

    WARC-Truncated, for the block is the response's head only. A 304 has the profile server-not-modified (6.7.3), and no
    original when it confirms another visit's copy; with `CONFIRMED_HEADER`, and without a block, the browser received
    what it confirms.
    """
    # Readers show a block's status and headers with the payload: of a capture these are the original's.
    head = recorded.head.raw if recorded.confirms is None else b""
    if recorded.head.status == 304:
        profile = f"WARC-Profile: {SERVER_NOT_MODIFIED}\r\n"
        if recorded.confirms is not None:
            profile += f"{CONFIRMED_HEADER}: {recorded.entry.status} {recorded.entry.mime}\r\n"
    else:
        profile = f"WARC-Profile: {IDENTICAL_PAYLOAD}\r\nWARC-Truncated: length\r\n"
    refers_to = f"WARC-Refers-To: {original_id}\r\n" if original_id else ""
    if original is not None:
        refers_to += (
            f"WARC-Refers-To-Target-URI: {original.url}\r\n"
            f"WARC-Refers-To-Date: {warc_date_at(original.captured_ms)}\r\n"
        )
    front = (
        f"{_common(RecordType.REVISIT, recorded)}"
        f"{profile}{refers_to}"
        f"Content-Type: {RESPONSE_TYPE}\r\n"
        f"WARC-Block-Digest: {sha256_digest(head)}\r\n"
        f"Content-Length: {len(head)}\r\n\r\n"
    ).encode()
    return (record_builder.compress(front + head + record_builder.RECORD_END),), _request_member(recorded)


def _common(kind: RecordType, recorded: RecordedExchange) -> str:
    """Return the header lines that `response` and `revisit` share; assigns the record's id."""
    entry = recorded.entry
    entry.record_id = record_builder.new_record_id()
    digest = f"WARC-Payload-Digest: {entry.digest}\r\n" if entry.digest else ""
    # Only a proxy on the way may know where the origin is ([egress] via).
    address = f"WARC-IP-Address: {entry.remote_ip}\r\n" if entry.remote_ip else ""
    truncated = tls = ""
    if entry.truncated and kind is RecordType.RESPONSE:
        truncated = f"WARC-Truncated: {entry.truncated}\r\n"
    # The adopted extension fields WARC-Protocol, one for each protocol, and WARC-Cipher-Suite.
    http = f"WARC-Protocol: {entry.protocol or recorded.head.version.decode('ascii', 'replace').lower()}\r\n"
    if entry.tls_version:  # and the certificate (C-14)
        tls = (
            f"WARC-Protocol: {_TLS_VERSIONS.get(entry.tls_version, entry.tls_version)}\r\n"
            f"WARC-Cipher-Suite: {entry.tls_cipher}\r\n"
        )
        if entry.tls_certificate:
            tls += f"WARC-TLS-Certificate: sha256:{entry.tls_certificate}\r\n"
    if entry.tls_error:
        tls += f"WARC-TLS-Verification: failed; {record_builder.one_line(entry.tls_error)}\r\n"
    return (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {entry.record_id}\r\n"
        f"WARC-Date: {warc_date_at(entry.started_ms)}\r\nWARC-Target-URI: {entry.url}\r\n"
        f"{address}{_page_facts(recorded.visit)}{digest}{truncated}{http}{tls}"
    )


def _page_facts(visit: VisitSession) -> str:
    """Return the headers that name the visit, and the login if one was used."""
    page = f"WARC-Page-ID: {visit.page_id}\r\n" if visit.page_id else ""
    return f"{page}{LOGIN_HEADER}: {visit.login}\r\n" if visit.login else page


def _request_member(recorded: RecordedExchange) -> bytes:
    entry, request = recorded.entry, recorded.request
    front = (
        f"WARC/1.1\r\nWARC-Type: request\r\nWARC-Record-ID: {record_builder.new_record_id()}\r\n"
        f"WARC-Date: {warc_date_at(entry.started_ms)}\r\nWARC-Target-URI: {entry.url}\r\n"
        f"WARC-Concurrent-To: {entry.record_id}\r\n{_page_facts(recorded.visit)}"
        f"Content-Type: {REQUEST_TYPE}\r\n"
        f"WARC-Block-Digest: {sha256_digest(request)}\r\n"
        f"Content-Length: {len(request)}\r\n\r\n"
    ).encode()
    return record_builder.compress(front + request + record_builder.RECORD_END)


def user_agent_of(request: bytes) -> str:
    """Return the User-Agent in the head of a request; empty without one."""
    for line in request.partition(record_builder.RECORD_END)[0].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"user-agent":
            return record_builder.one_line(value.decode("latin-1"))[:_AGENT_CHARS]
    return ""
