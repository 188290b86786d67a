"""Scanning the payloads of a collection: those first that came last, each once a scanner's version.

What was scanned is known by its verdict, so a scan that was interrupted goes on where it stopped, and
a change of the signatures' version makes every payload one to be scanned again. Capture and playback
wait for none of this.
"""

import hashlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from core.captures import Capture, RecordLocation
from core.errors import ConfigError, PermanentError, TransientError, WeboidError
from core.records import ArtifactKind, RecordType, parse_artifact_uri
from core.timestamps import moment
from playback.database import Database
from playback.decisions.store import DecisionStore
from playback.decisions.verdicts import Verdict, judged, keep
from playback.scanning.clamd import TooLargeToScanError

log = logging.getLogger(__name__)

MOST_BYTES = 25_000_000  # a payload's; clamd's own StreamMaxLength is 25 MB or more
_ROWS = 500  # of the index at a time
UNSETTLED = "unsettled"  # in place of signatures that clamd may not have read yet
_BATCH = 100  # verdicts a transaction
_TRIES = 3
# Made by our own browser or by us, of bytes that were scanned themselves.
_OWN = {ArtifactKind.VIEW, ArtifactKind.FULL_PAGE, ArtifactKind.THUMBNAIL, ArtifactKind.PAGEINFO}
_PAYLOADS = """
SELECT id, url, urlkey, captured_ms, record_type, mime, status, digest, filename, "offset", length
FROM captures WHERE id < :before AND id > :after ORDER BY id DESC LIMIT :limit
"""


class Scanner(Protocol):
    """What tells whether bytes are a threat. From any thread."""

    def version(self) -> str:
        """The program with its signatures' version."""
        ...

    def scan(self, body: bytes) -> str:
        """The threat's name; empty when there is none."""
        ...


class Reader(Protocol):
    """What reads payloads. From one thread; `close` it."""

    def read(self, capture: Capture, *, limit: int) -> list[bytes]:
        """The forms of the payload that are to be scanned."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


@dataclass(slots=True)
class Found:
    """What a scan has come to.

    Attributes:
        scanner: the program and its signatures, as verdicts name it.
        threats: the verdicts that name one, with a URL at which the payload was captured.
        highest: the newest row of the index that was looked at.
    """

    scanner: str
    scanned: int = 0
    clean: int = 0
    skipped: int = 0
    read_bytes: int = 0
    highest: int = 0
    threats: list[tuple[Verdict, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan of one collection.

    Attributes:
        database: its captures index.
        decisions: where verdicts are kept.
        scanner: who judges.
        reader: makes a reader of payloads; each job has one of its own.
        now: the time.
        most_bytes: the largest payload that is scanned.
        jobs: how many payloads are scanned at once.
        signatures: the daemon's database folder, whose files count towards the version: the number
            that clamd tells is of ClamAV's own signatures only. None: that number is all.
        settle: how long after a file has changed clamd may still go by what was there before.
    """

    database: Database
    decisions: DecisionStore
    scanner: Scanner
    reader: Callable[[], Reader]
    now: Callable[[], datetime]
    most_bytes: int = MOST_BYTES
    jobs: int = 2
    signatures: Path | None = None
    settle: timedelta = timedelta()

    def version(self) -> str:
        """The scanner as verdicts name it.

        Raises:
            UnavailableError: it does not answer.
            ConfigError: the signatures' folder cannot be read.
        """
        version = self.scanner.version()
        if self.signatures is None:
            return version
        changed, digest = _files_of(self.signatures)
        is_young = self.settle and self.now().timestamp() - changed < self.settle.total_seconds()
        return f"{version}+{UNSETTLED if is_young else digest}"

    def run(
        self,
        *,
        after: int = 0,
        again: bool = False,
        progress: Callable[[int, int], object] = lambda _done, _all: None,
        stopped: threading.Event | None = None,
    ) -> Found:
        """Scan what has no verdict of this scanner, newest first, and say what was found.

        What was found is kept as it goes, also when an error ends the scan.

        Args:
            after: only rows of the index that are newer than this one.
            again: also payloads that have a verdict.
            progress: told how many rows of the index are done, and of how many.
            stopped: once it is set, the scan ends after what is under way.

        Raises:
            UnavailableError: the scanner does not answer.
            TransientError: index or verdicts cannot be read or written.
        """
        found = Found(self.version(), highest=after)
        with ExitStack() as stack:
            readers: queue.SimpleQueue[Reader] = queue.SimpleQueue()
            for _ in range(self.jobs):
                reader = self.reader()
                stack.callback(reader.close)
                readers.put(reader)
            pool = stack.enter_context(ThreadPoolExecutor(self.jobs))
            seen: set[str] = set()
            for rows, done, total in self._parts(after):
                found.highest = max(found.highest, rows[0]["id"])
                wanted = self._wanted(rows, found.scanner, seen, again=again)
                for start in range(0, len(wanted), _BATCH):
                    if stopped is not None and stopped.is_set():
                        return found
                    jobs = [
                        pool.submit(self._judged, capture, found.scanner, readers)
                        for capture in wanted[start : start + _BATCH]
                    ]
                    self._keep(jobs, wanted[start : start + _BATCH], found)
                progress(done, total)
        return found

    def _parts(self, after: int) -> Iterator[tuple[list[Any], int, int]]:
        """Rows of the index, newest first, a part at a time; how many are done, and of how many."""
        before, top = 2**62, None
        while True:
            values = {"before": before, "after": after, "limit": _ROWS}
            rows = self.database.rows(_PAYLOADS, values)
            if not rows:
                return
            top = rows[0]["id"] if top is None else top
            before = rows[-1]["id"]
            yield rows, top - before + 1, top - after

    def _wanted(
        self, rows: list[Any], scanner: str, seen: set[str], *, again: bool
    ) -> list[Capture]:
        """The captures among the rows whose payloads are to be scanned, each payload once."""
        captures: dict[str, Capture] = {}
        for row in rows:
            capture = _capture(row)
            if capture is not None and _is_foreign(capture):
                captures.setdefault(capture.digest, capture)
        if again:  # verdicts of before this scan do not count, so its own are remembered
            new = captures.keys() - seen
            seen |= new
            return [capture for digest, capture in captures.items() if digest in new]
        known = judged(self.decisions, list(captures), scanner)
        return [capture for digest, capture in captures.items() if digest not in known]

    def _keep(
        self, jobs: list[Future[tuple[Verdict, int]]], captures: list[Capture], found: Found
    ) -> None:
        """Wait for the jobs, and keep what they found; an error of one is raised after that."""
        verdicts, failure = [], None
        for job, capture in zip(jobs, captures, strict=True):
            if failure is not None and job.cancel():
                continue
            error = job.exception()
            if error is not None:
                failure = failure or error
                continue
            verdict, size = job.result()
            verdicts.append(verdict)
            found.scanned += not verdict.skipped
            found.skipped += bool(verdict.skipped)
            found.clean += not verdict.skipped and not verdict.threat
            found.read_bytes += size
            if verdict.threat:
                found.threats.append((verdict, capture.url))
        keep(self.decisions, verdicts)
        if failure is not None:
            raise failure

    def _judged(
        self, capture: Capture, scanner: str, readers: "queue.SimpleQueue[Reader]"
    ) -> tuple[Verdict, int]:
        """The verdict of a capture's payload, and how many bytes were scanned for it."""
        reader = readers.get()
        try:
            bodies = reader.read(capture, limit=self.most_bytes)
            threat = next((name for name in map(self._scanned, bodies) if name), "")
            return Verdict(capture.digest, threat, scanner, self.now()), sum(map(len, bodies))
        except (TooLargeToScanError, PermanentError) as error:
            return Verdict(capture.digest, "", scanner, self.now(), str(error)), 0
        except WeboidError:
            raise
        except Exception as error:
            log.exception("scan.internal_error digest=%s", capture.digest)
            why = f"internal error: {type(error).__name__}"
            return Verdict(capture.digest, "", scanner, self.now(), why), 0
        finally:
            readers.put(reader)

    def _scanned(self, body: bytes) -> str:
        """The threat in the body; what clamd could not do once it may do at once."""
        for _ in range(_TRIES - 1):
            try:
                return self.scanner.scan(body)
            except TransientError:
                continue
        return self.scanner.scan(body)


def _is_foreign(capture: Capture) -> bool:
    """True when its payload came from outside; revisits have that of another record."""
    artifact = parse_artifact_uri(capture.url)
    return artifact is None or artifact[0] not in _OWN


def _capture(row: Any) -> Capture | None:
    """The row as far as a reader needs it; None when it has no payload of its own."""
    if row["record_type"] not in (RecordType.RESPONSE, RecordType.RESOURCE):
        return None
    return Capture(
        url=row["url"],
        urlkey=row["urlkey"],
        captured_at=moment(row["captured_ms"]),
        record_type=RecordType(row["record_type"]),
        mime=row["mime"],
        status=row["status"],
        digest=row["digest"],
        location=RecordLocation(row["filename"], row["offset"], row["length"]),
    )


def _files_of(folder: Path) -> tuple[float, str]:
    """When one of the folder's files last changed, and a short digest of names, sizes and times.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        files = [(each.name, each.stat()) for each in sorted(folder.iterdir()) if each.is_file()]
    except OSError as error:
        raise ConfigError(f"The signatures' folder cannot be read: {error}.") from error
    lines = [f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in files]
    digest = hashlib.sha256("\n".join(lines).encode(errors="replace")).hexdigest()[:12]
    return max((stat.st_mtime for _, stat in files), default=0.0), digest
