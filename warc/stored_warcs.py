"""WARCs whose data may be in the bucket alone: the file beside it that names the object, reads through a cache.

``NAME.warc.gz.s3.json`` is written when the server has confirmed the object. `WarcPath` reads the local file, or else
streams the object; records are read by `StoredReader` in blocks, of which ``cache/warcs`` keeps those used last.
"""

import io
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any

from core.config.settings import StorageSettings
from core.errors import PermanentError, TransientError, UnavailableError, WeboidError
from core.layout import Layout

if TYPE_CHECKING:  # loaded where WARCs are in object storage alone
    from warc.object_storage import ObjectStorage

OBJECT_SUFFIX = ".s3.json"
BLOCK_BYTES = 1 << 20
_STREAM_BYTES = 8 << 20
_TRIM_EVERY = 32  # blocks that a process adds between two looks at the size of the cache
_TOUCH_S = 60.0  # accuracy of a block's last use
_added = 0
Request = Callable[[], bytes]
Run = Callable[[Request], bytes]
"""Runs a request to the server, so that a caller with an event loop can do it in a thread."""


@dataclass(frozen=True, slots=True)
class StoredWarc:
    """Object that holds a WARC, as the server confirmed it."""

    name: str
    size: int
    sha256: str  # in hexadecimal; empty for one that another tool uploaded
    etag: str
    confirmed: float  # Unix time of the confirmation

    @property
    def version(self) -> str:
        """Return a part of file names that differs for another object of the name."""
        return f"{zlib.crc32(self.etag.encode()):08x}"

    def to_json(self) -> str:
        """Return the content of the file beside the WARC."""
        return json.dumps(asdict(self))


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


def storage_file(root: Path) -> Path:
    """Return the path of the file with the settings by which the collection's objects are read."""
    return Layout(root).databases / "storage.json"


def check_bucket(root: Path) -> None:
    """Ask the server for the bucket where the collection has WARCs there alone.

    Raises TransientError or UnavailableError: they cannot be read now, which is no damage.
    """
    from warc.object_storage import open_storage

    remote = next(
        (
            each
            for each in Layout(root).archive.glob(f"*{OBJECT_SUFFIX}")
            if not each.with_name(each.name.removesuffix(OBJECT_SUFFIX)).exists()
        ),
        None,
    )
    if remote is not None:
        open_storage(read_settings(root)).check()


@lru_cache(maxsize=8)
def _settings(path: Path, _changed_ns: int) -> StorageSettings:
    try:
        return StorageSettings(**json.loads(path.read_bytes())["settings"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnavailableError(f"{path} cannot be read: run `weboid collection upload`.") from error


def read_settings(root: Path) -> StorageSettings:
    """Return the settings by which objects were uploaded last; UnavailableError: none were."""
    path = storage_file(root)
    try:
        return _settings(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise UnavailableError(f"{path} is missing: run `weboid collection upload` with [storage] url.") from error


class WarcPath(PosixPath):
    """Path of a WARC; size and content are those of the object when the file is in the bucket alone."""

    __slots__ = ()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status; of an object size and modification time are those that the file had."""
        try:
            return super().stat(follow_symlinks=follow_symlinks)
        except FileNotFoundError:
            stored = stored_warc(self)
            if stored is None:
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
                from warc.object_storage import open_storage

                stream = _ObjectStream(open_storage(read_settings(self.parent.parent)), stored)
            except WeboidError as error:
                raise OSError(str(error)) from error
            return io.BufferedReader(stream) if buffering else stream


class _ObjectStream(io.RawIOBase):
    """Object as a file, read ahead more the longer it is read in order. Errors are OSError."""

    def __init__(self, storage: "ObjectStorage", stored: StoredWarc) -> None:
        self._storage, self._stored = storage, stored
        self._at, self._base, self._data, self._ahead = 0, 0, b"", BLOCK_BYTES // 4

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._stored.size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._stored.size or not len(buffer):
            return 0
        within = self._at - self._base
        if not 0 <= within < len(self._data):
            self._ahead = min(2 * self._ahead, _STREAM_BYTES) if within == len(self._data) else BLOCK_BYTES // 4
            size = min(max(self._ahead, len(buffer)), self._stored.size - self._at)
            try:
                self._data = self._storage.read(self._stored.name, self._at, size, etag=self._stored.etag)
            except WeboidError as error:
                raise OSError(str(error)) from error
            self._base, within = self._at, 0
        piece = self._data[within : within + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


class StoredReader:
    """Reader of a WARC's object by blocks, which the collection's cache keeps."""

    def __init__(self, folder: str, stored: StoredWarc, run: Run) -> None:
        """`folder` holds the WARCs; `run` sends the requests."""
        self._folder, self._stored, self._run = folder, stored, run
        # As text: paths as objects cost more than opening the file.
        self._blocks = f"{os.path.dirname(folder)}/cache/warcs/{stored.name}/{stored.version}-"  # noqa: PTH120

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the object, fewer at its end. PermanentError: it is gone; TransientError: not available."""
        first, last = offset // BLOCK_BYTES, (min(offset + size, self._stored.size) - 1) // BLOCK_BYTES
        if first == last:
            return self._block(first, offset - first * BLOCK_BYTES, offset + size - first * BLOCK_BYTES)
        return b"".join(
            self._block(number, max(offset - number * BLOCK_BYTES, 0), offset + size - number * BLOCK_BYTES)
            for number in range(first, last + 1)
        )

    def _block(self, number: int, start: int, end: int) -> bytes:
        end, path = min(end, BLOCK_BYTES), f"{self._blocks}{number}"
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if os.fstat(file).st_mtime < time.time() - _TOUCH_S:
                    os.utime(file)
                return os.pread(file, end - start, start)
            finally:
                os.close(file)
        from warc.object_storage import open_storage

        at = number * BLOCK_BYTES
        size = min(BLOCK_BYTES, self._stored.size - at)
        try:
            settings = read_settings(Path(self._folder).parent)
            data = self._run(lambda: open_storage(settings).read(self._stored.name, at, size, etag=self._stored.etag))
        except UnavailableError as error:  # of the operator, who can end it meanwhile
            raise TransientError(str(error)) from error
        if len(data) != size:
            raise PermanentError(f"The object of {self._stored.name} is shorter than it was.")
        with suppress(OSError):  # a full disk, or a folder that this process may not write
            fresh = Path(f"{path}.{os.getpid()}-{id(data)}")
            fresh.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(data)
            fresh.replace(path)
            self._trim(settings.cache_bytes)
        return data[start:end]

    def _trim(self, limit: int) -> None:
        """Delete the blocks used least recently, sometimes, where the cache is larger than the limit."""
        global _added  # noqa: PLW0603 of all readers of this process
        _added += 1
        if _added % _TRIM_EVERY and limit > _TRIM_EVERY * BLOCK_BYTES:
            return
        blocks = [(each.stat(), each) for each in blocks_folder(Path(self._folder).parent).glob("*/*")]
        left = sum(status.st_size for status, _ in blocks) - limit
        for status, each in sorted(blocks, key=lambda block: block[0].st_mtime):
            if left <= 0:
                break
            each.unlink(missing_ok=True)
            left -= status.st_size


def blocks_folder(root: Path) -> Path:
    """Return the folder of cached blocks."""
    return root / "cache" / "warcs"


def forget_blocks(root: Path, name: str) -> None:
    """Delete the cached blocks of a WARC."""
    shutil.rmtree(blocks_folder(root) / name, ignore_errors=True)
