"""Local storage: the collection's WARC files, durable folder entries, disk reserve, scratch folders.

A scratch folder has a lock held by its owner; the next process removes those whose lock is free, not those without one.
"""

import fcntl
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from core.errors import DiskFullError
from core.layout import OPEN_SUFFIX, Layout
from warc.stored_warcs import OBJECT_SUFFIX, WarcPath

CLOSED_SUFFIX = ".warc.gz"


def closed_warcs(layout: Layout) -> list[Path]:
    """Return the collection's closed WARCs, by name, also those whose data is in the bucket alone."""
    objects = {
        each.with_name(each.name.removesuffix(OBJECT_SUFFIX)) for each in layout.archive.glob(f"*{OBJECT_SUFFIX}")
    }
    here = (path for path in layout.archive.glob(f"*{CLOSED_SUFFIX}") if path.is_file())
    return sorted(map(WarcPath, objects.union(here)))


def open_warcs(layout: Layout) -> list[Path]:
    """Return the files that are being written, or were when their writer died."""
    return sorted(layout.archive.glob(f"*{OPEN_SUFFIX}"))


def sync_folder(folder: Path) -> None:
    """Write the folder's entries to disk, so that names survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_database(path: Path) -> None:
    """Remove a SQLite file and what belongs to it."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock (flock) on a folder against other processes during the block."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: str | bytes, *, mode: int = 0o666) -> None:
    """Write the file durably as a whole, by one writer: readers, and a crash, see the old or the new content."""
    fresh = path.with_name(f".{path.name}.new")
    descriptor = os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    sync_folder(path.parent)


@contextmanager
def replacing_file(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Yield an empty file in the same folder that takes the place of `path` at the end of the block.

    Readers see the old or the new content; after an error the old one stays. For any number of writers.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode))
    try:
        yield fresh
        fresh.replace(path)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


DISK_CHECK_S = 0.5


class DiskReserve:
    """Free space reserve, checked before a visit begins and while data arrives. Thread-safe."""

    def __init__(self, folder: Path, reserve_bytes: int) -> None:
        self.reserve_bytes = reserve_bytes
        self._folder = folder
        self._looked = float("-inf")
        self._low = False

    @property
    def free_bytes(self) -> int:
        """Return the free bytes."""
        return shutil.disk_usage(self._folder).free

    def require_reserve(self, margin: float = 1.0) -> None:
        """Check that a visit may begin: DiskFullError if less than `margin` times the reserve is free."""
        free = self.free_bytes
        if free < int(self.reserve_bytes * margin):
            raise DiskFullError(
                f"{free:,} bytes are free, the reserve is {self.reserve_bytes:,}: free some space, "
                "or lower [proxy] disk_reserve_bytes."
            )

    def is_low(self) -> bool:
        """Return whether running visits have used half of the reserve; measured twice a second."""
        now = time.monotonic()
        if now - self._looked > DISK_CHECK_S:
            self._looked = now
            self._low = self.free_bytes < self.reserve_bytes // 2
        return self._low


_LOCK = ".lock"


class ScratchKind(StrEnum):
    """Purpose of a scratch folder, as its name's prefix."""

    RUN = "weboid-run-"  # control sockets, the tally of bytes, the authority's certificate
    MEDIA = "weboid-media-"
    VERIFY = "weboid-verify-"
    BROWSER = "weboid-browser-"  # home and profile of a browser
    SPOOL = ".spool-"  # in a collection: bodies that a recorder does not hold in memory


@contextmanager
def scratch_folder(kind: ScratchKind, base: Path | None = None) -> Iterator[Path]:
    """Create a private folder in `base` during the block; remove abandoned ones there first."""
    base = base or Path(tempfile.gettempdir())
    remove_abandoned(base)
    root = Path(tempfile.mkdtemp(prefix=kind, dir=base))
    try:
        # Locked before it gets its name, so that a cleanup never finds it free.
        unnamed = root / f"{_LOCK}.new"
        descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            unnamed.rename(root / _LOCK)
            yield root
        finally:
            os.close(descriptor)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def remove_abandoned(base: Path) -> list[Path]:
    """Remove the folders in `base` whose owners have died; return their paths."""
    removed = []
    for root in (each for kind in ScratchKind for each in base.glob(f"{kind}*")):
        with suppress(OSError):  # it is gone, or a living process has locked it
            if root.is_symlink() or root.stat().st_uid != os.geteuid():
                continue
            descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                os.close(descriptor)  # NFS keeps a file that is removed while it is open
            shutil.rmtree(root, ignore_errors=True)
            removed.append(root)
    return removed
