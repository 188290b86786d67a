"""Local storage: the collection's WARC files, durable folder entries, disk reserve, scratch folders.

A WARC whose data is in the bucket alone has ``NAME.warc.gz.s3.json``, which names the object, written when the server
has confirmed it. Nothing of `warc.object_storage` is imported until a WARC is read from it.
"""

import fcntl
import io
import json
import os
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path, PosixPath
from typing import Any

from core.errors import DiskFullError, PermanentError, WeboidError
from core.layout import OPEN_SUFFIX, Layout

OBJECT_SUFFIX = ".s3.json"


@dataclass(frozen=True, slots=True)
class StoredWarc:
    """Object that holds a WARC, as the server confirmed it."""

    name: str
    size: int
    sha256: str  # in hexadecimal; empty for one that another tool uploaded
    etag: str
    confirmed: float  # Unix time of the confirmation

    def write(self, path: Path) -> None:
        """Write the file beside the WARC at that path."""
        replace_file(object_file(path), json.dumps(asdict(self)))


@lru_cache(maxsize=1_000)
def _parse(data: bytes) -> StoredWarc:
    return StoredWarc(**json.loads(data))


def object_file(path: Path) -> Path:
    """Return the path of the file that names the WARC's object."""
    return path.with_name(path.name + OBJECT_SUFFIX)


def stored_warc(path: Path | str) -> StoredWarc | None:
    """Return the object of the WARC at that path, or None."""
    try:
        file = os.open(f"{path}{OBJECT_SUFFIX}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PermanentError(f"{path}{OBJECT_SUFFIX} cannot be opened: {error}.") from error
    try:
        return _parse(os.read(file, 10_000))
    except (OSError, ValueError, TypeError) as error:
        raise PermanentError(f"{path}{OBJECT_SUFFIX} cannot be read: {error}.") from error
    finally:
        os.close(file)


class WarcPath(PosixPath):
    """Path of a WARC; size and content are those of the object when the file is in the bucket alone."""

    __slots__ = ()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status; of an object size and modification time are those that the file had."""
        try:
            return super().stat(follow_symlinks=follow_symlinks)
        except FileNotFoundError:
            if (stored := stored_warc(self)) is None:
                raise
            status = Path(f"{self}{OBJECT_SUFFIX}").stat()
            return os.stat_result((*status[:6], stored.size, *status[7:10]), {"st_mtime_ns": status.st_mtime_ns})

    def open(self, mode: str = "r", buffering: int = -1, *rest: Any, **more: Any) -> Any:
        """Open the file, or the object for reading."""
        try:
            return super().open(mode, buffering, *rest, **more)
        except FileNotFoundError:
            stored = stored_warc(self)
            if stored is None or mode != "rb":
                raise
            try:
                from warc.object_storage import open_object

                stream = open_object(self.parent.parent, stored)
            except WeboidError as error:
                raise OSError(str(error)) from error
            return io.BufferedReader(stream) if buffering else stream


CLOSED_SUFFIX = ".warc.gz"


def closed_warcs(layout: Layout) -> list[Path]:
    """Return the collection's closed WARCs, by name, also those whose data is in the bucket alone."""
    objects = {Path(str(each).removesuffix(OBJECT_SUFFIX)) for each in layout.archive.glob(f"*{OBJECT_SUFFIX}")}
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
def write_transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Lock a SQLite database for writing; commit at the end of the block, or roll back on any error."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # most errors of a commit have ended it
            database.execute("ROLLBACK")
        raise


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock (flock) on a folder against other processes during the block."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def enable_wal(database: sqlite3.Connection, path: Path) -> None:
    """Set the journal mode WAL; SQLite itself does not wait for others that set it, whatever its busy timeout."""
    if database.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        with locked_folder(path.parent):
            database.execute("PRAGMA journal_mode = WAL")


def replace_file(path: Path, data: str | bytes, *, mode: int = 0o666) -> None:
    """Write the file durably as a whole, by one writer: readers, and a crash, see the old or the new content."""
    fresh = path.with_name(f".{path.name}.new")
    descriptor = os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
    except OSError:  # the disk is full
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def replacing_file(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Yield an empty file that replaces `path` at the block's end, unless it fails. For any number of writers."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode))
    try:
        yield fresh
        fresh.replace(path)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


class PresenceFile:
    """File of a living process in a folder that processes share: locked until `close`, which removes it."""

    def __init__(self, path: Path, content: bytes = b"") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, unlocked = path, path.with_name(f".{path.name}")
        self._file = unlocked.open("xb", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self.write(content)
        unlocked.rename(path)  # known to others only when it is locked

    def write(self, content: bytes) -> None:
        """Replace the content, as long as before, so that other machines see it now."""
        os.pwrite(self._file.fileno(), content, 0)
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def dead_presences(folder: Path) -> list[Path]:
    """Return the files of dead processes."""
    dead = []
    for path in sorted(folder.glob("[!.]*")):
        with suppress(BlockingIOError, FileNotFoundError), path.open("r+b") as file:  # alive, or already removed
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # NFS gives an exclusive lock only to who may write
            dead.append(path)
    return dead


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
    SPOOL = ".spool-"  # in a collection: bodies that a recorder does not keep in memory


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
