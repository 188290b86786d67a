"""Caches of made values: in memory, behind it in files; one maker per value.

A key contains all that its value was made of, so values never expire; access is checked before a look-up (P-22).

Files are shared by all replay processes and restarts. Each begins with a digest of name and value, so damaged ones are
made again; a full or read-only disk only costs time. The least recently used are removed above a size limit.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from cachetools import LRUCache, TTLCache
from gevent.event import Event

from core.errors import MakingFailedError

_MAGIC = b"weboid-made-1\n"
_DIGEST_BYTES = 32
_HEAD_BYTES = len(_MAGIC) + _DIGEST_BYTES
_TOUCH_AFTER_S = 60.0  # a file that is read is marked as used no more often than that
_LOCK_WAIT_S = 12.0  # longer than making anything may take
_LOCK_STEP_S = 0.01
_SWEEP_TO = 0.9  # of the limit
_SWEEP_EVERY = 0.05  # of the limit written since the last one
_LEFTOVER_S = 3_600.0  # a file that is still unfinished then never will be
_PARTS = 2  # characters of a name that are its folder


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """Size of the cache."""

    values: int  # number of values
    size: int  # total bytes


@dataclass(eq=False)
class FileCache:
    """Values in files below `folder`, in 256 folders by name; processes wait for each other by file locks."""

    folder: Path
    _: KW_ONLY
    limit: int  # total size in bytes
    wait: Callable[[float], object]  # sleeps for that many seconds
    later: Callable[..., object]  # calls a function with arguments in the background
    now: Callable[[], float]  # returns the Unix time in seconds

    def __post_init__(self) -> None:
        self._written = self.limit  # so that the first stored value scans the folder
        self._lock_file: int | None = None

    def find(self, name: str) -> bytes | None:
        """Return the value of that name; None when it is missing or damaged."""
        path = self._path(name)
        try:
            with open(path, "rb") as file:  # noqa: PTH123 as text: it is asked for each page
                data = file.read()
                used = os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        value = data[_HEAD_BYTES:]
        if data[:_HEAD_BYTES] != _MAGIC + _digest(name, value):
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108 as above
            return None
        if self.now() - used > _TOUCH_AFTER_S:
            with contextlib.suppress(OSError):
                os.utime(path, (self.now(), self.now()))
        return value

    def keep(self, name: str, value: bytes) -> None:
        """Store the value; do nothing when that fails."""
        if len(value) > self.limit // 4:
            return
        path = self._path(name)
        unfinished = f"{path}.{secrets.token_hex(8)}.new"
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 as above
            file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                data = memoryview(_MAGIC + _digest(name, value) + value)
                while data:
                    data = data[os.write(file, data) :]
            finally:
                os.close(file)
            os.replace(unfinished, path)  # noqa: PTH105 as above
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)  # noqa: PTH108 as above
            return
        self._written += len(value)
        if self._written > self.limit * _SWEEP_EVERY:
            self._written = 0
            self.later(sweep_cache, self.folder, self.limit, self.now())

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Hold the lock of the name, if the disk allows it in time; yield False when it had to wait."""
        # The file of locks. It stays open: closing one of its descriptors would end them all.
        if self._lock_file is None:
            with contextlib.suppress(OSError):
                os.makedirs(self.folder, mode=0o700, exist_ok=True)  # noqa: PTH103 as above
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._lock_file = os.open(self.folder / ".locks", flags, 0o600)
        file = self._lock_file
        place = int(name[:12], 16)
        waited, ends = False, time.monotonic() + _LOCK_WAIT_S
        held = False
        while file is not None and not held and time.monotonic() < ends:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                held = True
            except BlockingIOError:
                waited = True
                self.wait(_LOCK_STEP_S)
            except OSError:
                break
        try:
            yield not waited
        finally:
            if held and file is not None:
                fcntl.lockf(file, fcntl.LOCK_UN, 1, place)

    def _path(self, name: str) -> str:
        return f"{self.folder}{os.sep}{name[:_PARTS]}{os.sep}{name}"


def cache_usage(folder: Path) -> CacheUsage:
    """Return the size of the cache folder."""
    files = list(_files(folder))
    return CacheUsage(len(files), sum(size for _, size, _ in files))


def clear_cache(folder: Path) -> CacheUsage:
    """Delete all values and return how much was deleted."""
    return _deleted(list(_files(folder, also_unfinished=True)))


def sweep_cache(folder: Path, limit: int, now: float) -> CacheUsage:
    """Delete the least recently used values until the others have fewer than `limit` bytes."""
    files = sorted(_files(folder, also_unfinished=True))
    old = now - _LEFTOVER_S
    dead = [each for each in files if each[2].endswith(".new") and each[0] < old]
    living = [each for each in files if not each[2].endswith(".new")]
    excess = sum(size for _, size, _ in living) - limit
    if excess > 0:
        excess += int(limit * (1 - _SWEEP_TO))
        for each in living:
            if excess <= 0:
                break
            dead.append(each)
            excess -= each[1]
    return _deleted(dead)


def _files(folder: Path, *, also_unfinished: bool = False) -> Iterator[tuple[float, int, str]]:
    """Yield last use, size and path of each value; skip foreign files."""
    with contextlib.suppress(OSError), os.scandir(folder) as parts:
        for part in parts:
            if len(part.name) != _PARTS or not part.is_dir(follow_symlinks=False):
                continue
            with contextlib.suppress(OSError), os.scandir(part.path) as entries:
                for entry in entries:
                    is_new = entry.name.endswith(".new")
                    if not entry.is_file(follow_symlinks=False) or (is_new and not also_unfinished):
                        continue
                    with contextlib.suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        yield status.st_mtime, status.st_size, entry.path


def _deleted(files: list[tuple[float, int, str]]) -> CacheUsage:
    count = size = 0
    for _, length, path in files:
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108 paths come as text
            count, size = count + 1, size + length
    return CacheUsage(count, size)


def _digest(name: str, value: bytes) -> bytes:
    return hashlib.blake2b(name.encode() + b"\0" + value, digest_size=_DIGEST_BYTES, usedforsecurity=False).digest()


FAILURE_S = 600.0
_MOST_FAILURES = 2_000


class MadeCache:
    """Values by their inputs; a failed one is not tried again for `FAILURE_S`, because each try occupies a maker."""

    def __init__(
        self, memory_bytes: int, files: FileCache | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._memory: LRUCache[str, bytes] = LRUCache(memory_bytes, len)
        self._files = files
        self._making: dict[str, Event] = {}
        self._failures: TTLCache[str, None] = TTLCache(_MOST_FAILURES, FAILURE_S, timer=monotonic)

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the value of `key`, or of `make` when it is missing; concurrent requests make it once.

        Raises MakingFailedError: it could not be made, now or within the last `FAILURE_S`.
        """
        name = hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()
        while True:
            if (value := self._memory.get(name)) is not None:
                return value
            if name in self._failures:
                raise MakingFailedError("Sanitising it failed a short while ago.")
            if (other := self._making.get(name)) is None:
                break
            other.wait()  # if it failed, it is this one's turn
        finished = self._making[name] = Event()
        try:
            value = None if self._files is None else self._files.find(name)
            if value is None and self._files is not None:
                with self._files.alone(name) as is_first:
                    value = None if is_first else self._files.find(name)
                    if value is None:
                        value = make()
                        self._files.keep(name, value)
            elif value is None:
                value = make()
            # One large page must not displace all others.
            if len(value) <= self._memory.maxsize // 4:
                self._memory[name] = value
            return value
        except MakingFailedError:
            self._failures[name] = None
            raise
        finally:
            del self._making[name]
            finished.set()
