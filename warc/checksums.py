"""SHA-256 checksums of closed WARCs: the SHA256SUMS file and the index.

The lines outlive the database, and ``sha256sum -c SHA256SUMS`` reads them. A line is written once
and never changed: a file that no longer has its checksum is damaged, whatever came over it.
Computing them is nobody's wait: a thread reads a file after it was closed. A file that was closed
without (the proxy was killed) gets its line from the next proxy, or from ``weboid index rebuild``.
"""

import fcntl
import hashlib
import logging
import os
import re
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import IndexUnavailableError, WeboidError
from core.layout import Layout
from warc.index.protocol import CaptureIndex
from warc.local_storage import log_failure, sync_folder

log = logging.getLogger(__name__)

# As coreutils write it: two spaces, or a space and an asterisk for binary mode.
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
CLOSE_READ_BYTES = 1 << 30  # whoever waits for the end of a process waits for so much reading
CLOSED_SUFFIX = ".warc.gz"


@dataclass(slots=True)
class ChecksumList:
    """What SHA256SUMS says.

    Attributes:
        by_name: a file's SHA-256 in hexadecimal; of several lines for one file the first.
        bad: numbers of lines that say nothing, or the contrary of an earlier one.
    """

    by_name: dict[str, str] = field(default_factory=dict)
    bad: list[int] = field(default_factory=list)


def read_sums(layout: Layout) -> ChecksumList:
    """The lines; none when there is no such file."""
    try:
        return _parse(layout.checksums.read_bytes())
    except FileNotFoundError:
        return ChecksumList()


def _parse(data: bytes) -> ChecksumList:
    sums = ChecksumList()
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        match = _LINE.fullmatch(line.rstrip("\r"))
        if match is None:
            if line.strip():
                sums.bad.append(number)
        elif sums.by_name.setdefault(match[2], match[1]) != match[1]:
            sums.bad.append(number)
    return sums


def add_sums(layout: Layout, found: Mapping[str, str]) -> None:
    """Add lines for files that have none; several processes may do so at the same time.

    Raises:
        OSError: they could not be written.
    """
    with _locked(layout) as descriptor:
        pieces = []
        while piece := os.read(descriptor, 1 << 20):
            pieces.append(piece)
        data = b"".join(pieces)
        known = _parse(data).by_name
        lines = "".join(f"{value}  {name}\n" for name, value in found.items() if name not in known)
        if not lines:
            return
        whole = data.rfind(b"\n") + 1
        rest = data[whole:].decode("utf-8", "replace")
        if _LINE.fullmatch(rest):  # somebody's editor left the last line end out
            lines = f"\n{lines}"
        elif rest:  # a writer was killed in the midst of a line: its file gets one again
            os.ftruncate(descriptor, whole)
        os.lseek(descriptor, 0, os.SEEK_END)
        left = lines.encode()
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)


@contextmanager
def _locked(layout: Layout) -> Iterator[int]:
    """The file, locked; made when it is not there."""
    while True:
        descriptor = os.open(layout.checksums, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still(layout.checksums, descriptor):
                sync_folder(layout.archive)
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the path still names the file: it may have been replaced while we waited."""
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def closed_warcs(layout: Layout) -> list[Path]:
    """The collection's closed WARCs, by name."""
    return sorted(p for p in layout.archive.glob(f"*{CLOSED_SUFFIX}") if p.is_file())


def warcs_without_sum(layout: Layout) -> list[Path]:
    """The closed WARCs that have no line.

    Raises:
        OSError: SHA256SUMS cannot be read.
    """
    known = read_sums(layout).by_name
    return [path for path in closed_warcs(layout) if path.name not in known]


def add_missing_sums(layout: Layout, index: CaptureIndex) -> list[str]:
    """Give every closed WARC its line and its row; the names of those that had no line.

    Lines that are there stay as they are. Lines that say nothing go. A file that cannot be read
    gets none.

    Raises:
        OSError: SHA256SUMS cannot be written.
    """
    sums = read_sums(layout)
    if sums.bad:
        _rewrite(layout, sums)
    new = []
    for path in closed_warcs(layout):
        if path.name not in sums.by_name:
            try:
                sums.by_name[path.name] = sha256_of(path)
            except OSError as error:
                log_failure(log, f"checksum.failed file={path.name}", error)
                continue
            add_sums(layout, {path.name: sums.by_name[path.name]})
            new.append(path.name)
        _note(index, path, sums.by_name[path.name])
    return new


def replace_sums(layout: Layout, found: Mapping[str, str]) -> None:
    """Give files other lines, for whoever rewrote them and is alone with the collection.

    Raises:
        OSError: SHA256SUMS cannot be written.
    """
    sums = read_sums(layout)
    sums.by_name.update(found)
    _rewrite(layout, sums)


def _rewrite(layout: Layout, sums: ChecksumList) -> None:
    fresh = layout.checksums.with_name(".SHA256SUMS.new")
    text = "".join(f"{value}  {name}\n" for name, value in sums.by_name.items())
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(layout.checksums)
    sync_folder(layout.archive)


def _note(index: CaptureIndex, path: Path, sha256: str) -> None:
    status = path.stat()
    index.close_file(
        path.name, size=status.st_size, sha256=sha256, closed_ms=status.st_mtime_ns // 1_000_000
    )


class ChecksumWorker:
    """Reads closed WARCs in a thread of its own, one after the other. `close` it.

    What was closed by this process comes first. What earlier ones left without a line is read when
    there is nothing else to do; at the end, what is too much of it is left to the next process.
    """

    def __init__(self, layout: Layout, open_index: Callable[[], CaptureIndex]) -> None:
        self._layout = layout
        self._open_index = open_index
        self._closed: deque[str] = deque()
        self._leftover: deque[str] = deque()
        self._failed: list[str] = []
        self._wake = threading.Event()
        self._closing = False
        self._spare = CLOSE_READ_BYTES
        self._thread = threading.Thread(target=self._run, name="checksums", daemon=True)
        self._thread.start()

    def put(self, filename: str) -> None:
        """Say that the WARC of that name was closed."""
        self._closed.append(filename)
        self._wake.set()

    def close(self) -> None:
        """Read what this process closed and a part of the rest, then end."""
        self._closing = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._leftover.extend(path.name for path in warcs_without_sum(self._layout))
        except OSError as error:
            log_failure(log, f"checksum.failed file={self._layout.checksums.name}", error)
        if self._leftover:
            self._wake.set()
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._closed or (self._leftover and self._spare > 0):
                self._attempt((self._closed or self._leftover).popleft())
            self._leftover.extend(self._failed)
            self._failed.clear()
            if self._closing:
                return

    def _attempt(self, filename: str) -> None:
        """Read it; what fails is left to the next process, or tried again when the index is back."""
        try:
            self._read(filename)
        except IndexUnavailableError as error:
            log.warning("checksum.not_noted file=%s error=%s", filename, error)
            self._failed.append(filename)
        except (OSError, sqlite3.Error, WeboidError) as error:
            log_failure(log, f"checksum.failed file={filename}", error)

    def _read(self, filename: str) -> None:
        path = self._layout.archive / filename
        if self._closing:
            self._spare -= path.stat().st_size
        known = read_sums(self._layout).by_name.get(filename)  # another proxy may have been quicker
        sha256 = known or sha256_of(path)
        if known is None:
            add_sums(self._layout, {filename: sha256})
        with closing(self._open_index()) as index:
            _note(index, path, sha256)
