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
from core.sqlite_uri import read_only_uri
from core.timestamps import warc_date
from crawler.crawllog import rotate
from crawler.frontier.redis import RedisFrontier
from crawler.worker import SNAPSHOT_ORDER

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


def take_shared(frontier: RedisFrontier, *, now: datetime) -> str:
    """Let Redis copy a frontier that machines share, and have its workers rotate their crawl logs.

    Each worker does so within a second, or when it is back; its new log begins after the copy.

    Returns:
        The copy's file on the server; empty when the server does not tell.

    Raises:
        UnavailableError: the user may not, or Redis could not write the copy.
        TransientError: the server does not answer.
    """
    file = frontier.save()
    frontier.give_order(SNAPSHOT_ORDER, "", warc_date(now))
    return file


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
        copy_database(layout.frontier_db, partial)
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


def copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite database that others may be writing; a target that is there is replaced.

    Raises:
        sqlite3.Error: one of them cannot be read, or written.
    """
    target.unlink(missing_ok=True)
    with (
        closing(sqlite3.connect(read_only_uri(source), uri=True, timeout=60)) as opened,
        closing(sqlite3.connect(target)) as made,
    ):
        # All pages in one step: the copy of a file that is written to begins anew with each write.
        opened.backup(made, pages=-1)


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
