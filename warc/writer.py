"""WARC file being written: append, sync, roll over, roll back; I/O errors become Weboid errors.

A batch is on disk before it is acknowledged, else rolled back: the file always ends with its last whole record.
"""

import fcntl
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from core.captures import RecordLocation
from core.config.settings import ProxySettings
from core.errors import (
    DedupUnavailableError,
    DiskFullError,
    IndexUnavailableError,
    TransientError,
    UnavailableError,
    WeboidError,
    is_disk_full,
)
from core.layout import OPEN_SUFFIX
from core.timestamps import timestamp14, warc_date
from warc.local_storage import sync_folder
from warc.record_builder import Part, warcinfo_member

# Gathered before they are written; the system takes at most 1,024 pieces in one call (IOV_MAX).
BUFFER_BYTES = 4 << 20
BUFFER_PIECES = 1000
SOFTWARE = f"Weboid {version('weboid')}"


class WarcFile:
    """Writer of ``PREFIX-*.warc.gz.open``; the suffix is removed at the end. For use from one thread.

    Call `append`, then `sync`, then `keep`; `take_back` discards records that were not kept, also after OSError.
    """

    def __init__(
        self,
        folder: Path,
        prefix: str,
        *,
        settings: ProxySettings,
        now: Callable[[], datetime],
        closed: Callable[[str], None] = lambda _name: None,
        facts: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.f: BinaryIO | None = None
        self.path: Path | None = None  # while it is open
        self.finalname: str | None = None  # its name once it is closed
        self._folder = folder
        self._prefix = prefix
        self._limit_bytes = settings.warc_limit_bytes
        self._token = secrets.token_hex(4)  # of this writer's files, so that no two processes have the same name
        self._serial = 0
        self._limit = timedelta(seconds=settings.warc_limit_s)
        self._since = now()
        self._now = now
        self._closed = closed
        self._facts = facts
        self.end = 0  # the file's length including all appended data; 0 when none is open
        self._synced = self._committed = 0
        self._gathered: list[Part] = []
        self._waiting = 0

    def append(self, pieces: Iterable[Part]) -> RecordLocation:
        """Append one member and return its location. It is not on disk yet."""
        self._opened()
        start = self.end
        for piece in pieces:
            self._gathered.append(piece)
            size = len(piece)
            self.end += size
            self._waiting += size
            if self._waiting > BUFFER_BYTES:
                self._write_out()
        return RecordLocation(str(self.finalname), start, self.end - start)

    def sync(self) -> None:
        """Write all appended data to disk."""
        if self.f is None or self.end == self._synced:
            return
        self._write_out()
        os.fdatasync(self.f.fileno())
        self._synced = self.end

    def keep(self) -> None:
        """Mark all synced data as permanent: other processes may refer to it now."""
        self._committed = self._synced

    def roll_over(self) -> None:
        """Close the file when it has reached its size or its age; the next append opens another."""
        of_age = bool(self._limit) and self._now() - self._since >= self._limit
        if self.end >= self._limit_bytes or (self.f is not None and of_age):
            self.close()

    def open(self, serial: int) -> BinaryIO:
        """Create the file of that number and return it, not locked yet."""
        self.finalname = f"{self._prefix}-{timestamp14(self._now())}-{self._token}-{serial:05d}.warc.gz"
        self.path = self._folder / f"{self.finalname}{OPEN_SUFFIX}"
        self.f = self.path.open("wb")
        return self.f

    def take_back(self) -> None:
        """Remove data that was not kept, so that the file ends with a whole record."""
        self._gathered.clear()
        self._waiting = 0
        if self.f is None:
            return
        os.ftruncate(self.f.fileno(), self._committed)
        self.f.seek(self._committed)
        self.end = self._synced = self._committed
        if self.end == 0:
            self._begin()

    def close(self) -> None:
        """Rename the file to its final name; an empty one is removed."""
        if self.f is None or self.path is None:
            return
        self.sync()
        if self.end == 0:
            self.path.unlink()
        else:
            self.path.rename(self.path.with_name(str(self.finalname)))
            sync_folder(self.path.parent)
            self._closed(self.path.name.removesuffix(OPEN_SUFFIX))
        self.leave()

    def leave(self) -> None:
        """Close the file under its current name: recovery will add its missing index rows."""
        if self.f is None:
            return
        self.sync()
        self.f.close()
        self.f = self.path = None
        self.end = self._synced = self._committed = 0

    def _opened(self) -> BinaryIO:
        while self.f is None:
            file = self.open(self._serial)
            self._serial += 1
            # Lock it against recovery, which may have removed it already.
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = os.path.samestat(os.fstat(file.fileno()), Path(str(self.path)).stat())
            except (BlockingIOError, FileNotFoundError):
                is_ours = False
            if not is_ours:
                file.close()
                self.f = None
                continue
            sync_folder(self._folder)
            self._since = self._now()
            self._synced = self._committed = 0
            self._begin()
        return self.f

    def _begin(self) -> None:
        date = warc_date(self._now())
        name, facts = str(self.finalname), self._facts()
        info = warcinfo_member(name, date=date, software=SOFTWARE, facts=facts)
        self._gathered.append(info)
        self.end = self._waiting = len(info)

    def _write_out(self) -> None:
        assert self.f is not None
        descriptor = self.f.fileno()
        pieces = iter(self._gathered)
        while group := list(islice(pieces, BUFFER_PIECES)):
            left = sum(map(len, group)) - os.writev(descriptor, group)
            if left:  # a nearly full disk accepts a part; the next call raises the cause
                rest = memoryview(b"".join(group))[-left:]
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
        self._gathered.clear()
        self._waiting = 0


def failed_component(error: WeboidError) -> str:
    """Return the component that failed: "index", "dedup" or "disk"."""
    if isinstance(error, IndexUnavailableError):
        return "index"
    return "dedup" if isinstance(error, DedupUnavailableError | TransientError) else "disk"


def to_weboid_error(error: Exception) -> WeboidError:
    """Convert an I/O error to a WeboidError, with the original as its cause."""
    if isinstance(error, WeboidError):
        return error
    converted: WeboidError = UnavailableError(f"The archive cannot be written: {error}.")
    if is_disk_full(error):
        converted = DiskFullError("The disk is full: free some space, then resume.")
    converted.__cause__ = error
    return converted


def log_failure(log: logging.Logger, event: str, error: Exception) -> None:
    """Log an I/O error with its traceback; a full disk briefly, as the run reports it itself."""
    if isinstance(to_weboid_error(error), DiskFullError):
        log.info("%s error=%s", event, error)
    else:
        log.error("%s", event, exc_info=error)
