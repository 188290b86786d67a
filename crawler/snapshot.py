"""A copy of a collection's frontier as it was at one moment, while it is being worked on (U19, U20).

The copy is made in one read transaction by SQLite's own backup: no worker waits, and what is committed
meanwhile is not in it. It lies in a folder that is itself a collection without WARCs, so that every
command that looks into a frontier takes it as its ``--collection``, and a crawl can go on from it.
The crawl log is rotated with it: what stands in the new log came after the copy, or at its very time.
"""

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from core.errors import DiskFullError, InputError, UnavailableError
from core.layout import Layout
from crawler.crawllog import rotate

_MARGIN = 1.1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was made.

    Attributes:
        folder: a collection with the frontier's copy.
        size_bytes: of the copy.
        log: the crawl log up to now, under its new name; None when there was none.
    """

    folder: Path
    size_bytes: int
    log: Path | None


def take(layout: Layout, folder: Path, *, now: datetime) -> Snapshot:
    """Copy the frontier of the collection into a new folder, and rotate its crawl log.

    Raises:
        InputError: the folder is there already and not empty.
        UnavailableError: the frontier cannot be read, or the folder not be made.
        DiskFullError: the copy would not fit.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already: name a new or empty folder.")
    copy = Layout(folder)
    try:
        copy.databases.mkdir(parents=True, exist_ok=True)
        _require_room(layout.frontier_db, folder)
        partial = copy.frontier_db.with_suffix(".partial")
        _copy(layout.frontier_db, partial)
        log = rotate(layout.crawl_log, now=now)
        _force(partial)
        partial.rename(copy.frontier_db)
        # The marker comes last: a folder without it is no collection, and nobody takes it for one.
        shutil.copyfile(layout.marker, copy.marker)
        _force(copy.marker)
        _force(copy.databases)
        _force(folder)
    except sqlite3.Error as error:
        raise UnavailableError(f"{layout.frontier_db} cannot be copied: {error}.") from error
    except OSError as error:
        if error.errno == 28:  # ENOSPC
            raise DiskFullError(f"The disk that holds {folder} is full: free some.") from error
        raise UnavailableError(f"{folder} cannot be written: {error.strerror or error}.") from error
    return Snapshot(folder, copy.frontier_db.stat().st_size, log)


def _copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    with (
        closing(sqlite3.connect(f"file:{_quoted(source)}?mode=ro", uri=True)) as opened,
        closing(sqlite3.connect(target)) as made,
    ):
        # All pages in one step: the copy of a file that is written to begins anew with each write.
        opened.backup(made, pages=-1)


def _quoted(path: Path) -> str:
    return str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _require_room(source: Path, folder: Path) -> None:
    wanted = sum(
        path.stat().st_size for path in source.parent.glob(f"{source.name}*") if path.is_file()
    )
    free = shutil.disk_usage(folder).free
    if free < wanted * _MARGIN:
        raise DiskFullError(
            f"The copy needs {wanted:,} bytes, and {free:,} are free on the disk of {folder}."
        )


def _force(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
