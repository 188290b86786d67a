"""SHA-256 checksums of closed WARCs: the SHA256SUMS file and the index.

A line is written once and never changed: a file that does not match its checksum is always damaged. Files are hashed in
the background; one that was closed without (the proxy was killed) gets its line from the next proxy, or from
``weboid collection rebuild``.

SHA256SUMS.chain has a line for each line of SHA256SUMS, and for each that an erasure replaced: a link, and the line. A
link is the SHA-256 of the last link, a line end and the line; so a link that is known elsewhere proves all lines before.
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
from typing import BinaryIO

from core.errors import IndexUnavailableError, WeboidError
from core.layout import Layout
from warc.index.protocol import CaptureIndex
from warc.local_storage import closed_warcs, replace_file, sync_folder
from warc.writer import log_failure

log = logging.getLogger(__name__)

# As coreutils write it: two spaces, or a space and an asterisk for binary mode.
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
CLOSE_READ_BYTES = 1 << 30  # limit of hashing at shutdown
_CHAIN_LINE = re.compile(r"([0-9a-f]{64})  (([0-9a-f]{64})  (.+))\n")
_CHAIN_START = "0" * 64


@dataclass(slots=True)
class ChecksumList:
    """Content of SHA256SUMS."""

    # A file's SHA-256 in hexadecimal; of several lines for one file the first.
    by_name: dict[str, str] = field(default_factory=dict)
    bad: list[int] = field(default_factory=list)  # numbers of lines that are malformed or contradict an earlier one


@dataclass(slots=True)
class ChecksumChain:
    """Content of SHA256SUMS.chain."""

    head: str = _CHAIN_START  # the last link
    by_name: dict[str, str] = field(default_factory=dict)  # the last SHA-256 of each file
    links: set[str] = field(default_factory=set)  # those that follow from the lines before them
    broken_line: int = 0  # number of the first line that does not follow from those before; 0: none
    size: int = 0  # bytes of the whole lines

    def add(self, sha256: str, name: str) -> str:
        """Append a file's sum; return the line of the chain."""
        line = f"{sha256}  {name}"
        self.head = hashlib.sha256(f"{self.head}\n{line}".encode()).hexdigest()
        self.links.add(self.head)
        self.by_name[name] = sha256
        return f"{self.head}  {line}\n"


def read_chain(layout: Layout) -> ChecksumChain:
    """Read the chain; an empty one without the file. A truncated last line is ignored."""
    chain = ChecksumChain()
    try:
        lines = layout.checksum_chain.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return chain
    for number, data in enumerate(lines, 1):
        if not data.endswith(b"\n"):
            break
        match = _CHAIN_LINE.fullmatch(data.decode("utf-8", "replace"))
        if not chain.broken_line and (match is None or chain.add(match[3], match[4]) != match[0]):
            chain.broken_line = number
        if chain.broken_line and match is not None:  # the chain continues from the existing lines
            chain.head, chain.by_name[match[4]] = match[1], match[3]
        chain.size += len(data)
    return chain


def chain_problems(chain: ChecksumChain, sums: ChecksumList) -> Iterator[str]:
    """Yield what contradicts the chain, a sentence each. Read the chain before SHA256SUMS, which is written first."""
    if chain.broken_line:
        yield f"Line {chain.broken_line} does not match the lines before it: one of them was changed."
    for name, sha256 in chain.by_name.items():
        if name not in sums.by_name:
            yield f"SHA256SUMS had a line for {name}, which is gone."
        elif sums.by_name[name] != sha256:
            yield f"SHA256SUMS had a different checksum for {name}: the line was changed."


def _extend_chain(layout: Layout, sums: Mapping[str, str], *, replaced: bool = False) -> None:
    """Append the sums of files that the chain does not have; with `replaced` also those that differ."""
    chain = read_chain(layout)
    known = chain.by_name
    added = {name: value for name, value in sums.items() if name not in known or (replaced and known[name] != value)}
    lines = [chain.add(value, name) for name, value in added.items()]
    if not lines:
        return
    with layout.checksum_chain.open("ab") as file:
        file.truncate(chain.size)  # of a writer that was killed in the midst of a line
        file.write("".join(lines).encode())
        file.flush()
        os.fsync(file.fileno())
    sync_folder(layout.archive)


def read_sums(layout: Layout) -> ChecksumList:
    """Read the lines; none when there is no such file."""
    try:
        return _parse(layout.checksums.read_bytes())
    except FileNotFoundError:
        return ChecksumList()


def _parse(data: bytes) -> ChecksumList:
    sums = ChecksumList()
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if (match := _LINE.fullmatch(line.rstrip("\r"))) is None:
            if line.strip():
                sums.bad.append(number)
        elif sums.by_name.setdefault(match[2], match[1]) != match[1]:
            sums.bad.append(number)
    return sums


def add_sums(layout: Layout, sums_by_name: Mapping[str, str]) -> None:
    """Add lines for files that have none, or raise OSError; safe in several processes at once."""
    with _locked(layout) as file:
        file.seek(0)
        data = file.read()
        known = _parse(data).by_name
        lines = "".join(f"{value}  {name}\n" for name, value in sums_by_name.items() if name not in known)
        if not lines:
            return
        whole = data.rfind(b"\n") + 1
        rest = data[whole:].decode("utf-8", "replace")
        if _LINE.fullmatch(rest):  # an editor removed the last line end
            lines = f"\n{lines}"
        elif rest:  # a writer was killed in the midst of a line: its file gets one again
            file.truncate(whole)
        file.write(lines.encode())
        file.flush()
        os.fsync(file.fileno())
        # Also those that an older release wrote; one that was changed since stays a fault.
        _extend_chain(layout, {**known, **{name: value for name, value in sums_by_name.items() if name not in known}})


@contextmanager
def _locked(layout: Layout) -> Iterator[BinaryIO]:
    """Lock SHA256SUMS, creating it if missing, and yield it for reading and appending."""
    while True:
        with layout.checksums.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                is_current = os.path.samestat(layout.checksums.stat(), os.fstat(file.fileno()))
            except FileNotFoundError:
                is_current = False
            if is_current:  # otherwise it was replaced in the meantime
                sync_folder(layout.archive)
                yield file
                return


def sha256_of(path: Path) -> str:
    """Return the file's SHA-256 in hexadecimal. Raises OSError if it cannot be read."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def warcs_without_sum(layout: Layout) -> list[Path]:
    """Return the closed WARCs without a line. Raises OSError: SHA256SUMS cannot be read."""
    known = read_sums(layout).by_name
    return [path for path in closed_warcs(layout) if path.name not in known]


def add_missing_sums(layout: Layout, index: CaptureIndex) -> None:
    """Add the missing line and index row of every readable closed WARC."""
    sums = read_sums(layout)
    if sums.bad:
        _rewrite(layout, sums)
    for path in closed_warcs(layout):
        if path.name not in sums.by_name:
            try:
                sums.by_name[path.name] = sha256_of(path)
            except OSError as error:
                log_failure(log, f"checksum.failed file={path.name}", error)
                continue
            add_sums(layout, {path.name: sums.by_name[path.name]})
        _note(index, path, sums.by_name[path.name])


def replace_sums(layout: Layout, lines: Mapping[str, str]) -> None:
    """Update the lines of rewritten files; the caller has exclusive use of the collection."""
    sums = read_sums(layout)
    sums.by_name.update(lines)
    _rewrite(layout, sums)
    _extend_chain(layout, lines, replaced=True)


def _rewrite(layout: Layout, sums: ChecksumList) -> None:
    replace_file(layout.checksums, "".join(f"{value}  {name}\n" for name, value in sums.by_name.items()))


def _note(index: CaptureIndex, path: Path, sha256: str) -> None:
    status = path.stat()
    index.close_file(path.name, size=status.st_size, sha256=sha256, closed_ms=status.st_mtime_ns // 1_000_000)


class ChecksumWorker:
    """Background thread that hashes closed WARCs, this process's first. `close` it."""

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
        """Add a closed WARC to the queue."""
        self._closed.append(filename)
        self._wake.set()

    def close(self) -> None:
        """Hash the files that this process closed and some of the others, then end."""
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
        """Hash the file; a failure is left to the next process or retried later."""
        path = self._layout.archive / filename
        try:
            if self._closing:
                self._spare -= path.stat().st_size
            # Another proxy may have been quicker.
            if (sha256 := read_sums(self._layout).by_name.get(filename)) is None:
                sha256 = sha256_of(path)
                add_sums(self._layout, {filename: sha256})
            with closing(self._open_index()) as index:
                _note(index, path, sha256)
        except IndexUnavailableError as error:
            log.warning("checksum.not_noted file=%s error=%s", filename, error)
            self._failed.append(filename)
        except (OSError, sqlite3.Error, WeboidError) as error:
            log_failure(log, f"checksum.failed file={filename}", error)
