"""WARCs whose data may be in the bucket alone: the file beside it that names the object, and paths of such WARCs.

``NAME.warc.gz.s3.json`` is written when the server has confirmed the object. Imports nothing of object storage until a
WARC is read from it (`warc.object_storage`).
"""

import io
import json
import os
import shutil
import zlib
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path, PosixPath
from typing import Any

from core.config.settings import StorageSettings
from core.errors import PermanentError, UnavailableError, WeboidError
from core.layout import Layout

OBJECT_SUFFIX = ".s3.json"


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
                from warc.object_storage import open_object

                stream = open_object(read_settings(self.parent.parent), stored)
            except WeboidError as error:
                raise OSError(str(error)) from error
            return io.BufferedReader(stream) if buffering else stream


def blocks_folder(root: Path) -> Path:
    """Return the folder of cached blocks."""
    return root / "cache" / "warcs"


def forget_blocks(root: Path, name: str) -> None:
    """Delete the cached blocks of a WARC."""
    shutil.rmtree(blocks_folder(root) / name, ignore_errors=True)
