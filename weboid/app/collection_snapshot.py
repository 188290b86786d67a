"""Consistent copies of a collection's databases: frontier snapshots, trial copies, and limits of a moved clock.

The folder is a collection without WARCs, which every command accepts as ``--collection``. The crawl log is rotated
with it: the new log holds what came at the time of the copy or later.
"""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import func, select

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import ConfigError, DiskFullError, InputError, UnavailableError
from core.layout import CONFIG_FILE, Layout, read_only_uri
from core.timestamps import warc_date
from crawler.collection import is_trial, make_collection, trial_mark_path
from crawler.frontier.redis_frontier import RedisFrontier
from crawler.worker.crawl_events import rotate_crawl_log
from crawler.worker.worker_pool import SNAPSHOT_ORDER
from links.registry.database import copy_rows, open_registry_read_only, open_registry_store
from links.registry.schema import urls

_MARGIN = 1.1


@dataclass(frozen=True, slots=True)
class FrontierSnapshot:
    """Result of a frontier snapshot."""

    folder: Path  # a collection with the frontier's copy
    size_bytes: int  # size of the copy
    log: Path | None  # the rotated crawl log; None when there was none


def snapshot_shared_frontier(frontier: RedisFrontier, *, now: datetime) -> str:
    """Start Redis's own copy, and crawl log rotation; return its file on the server, empty if unknown.

    Raises UnavailableError: the user lacks permission, or Redis could not write the copy.
    """
    file = frontier.save()
    frontier.give_order(SNAPSHOT_ORDER, "", warc_date(now))
    return file


def snapshot_frontier(layout: Layout, folder: Path, *, now: datetime) -> FrontierSnapshot:
    """Copy the frontier of the collection into a new folder, and rotate its crawl log."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already: name a new or empty folder.")
    copy = Layout(folder)
    try:
        copy.databases.mkdir(parents=True, exist_ok=True)
        database = layout.frontier_db
        files = (path for path in database.parent.glob(f"{database.name}*") if path.is_file())
        needed, free = sum(path.stat().st_size for path in files), shutil.disk_usage(folder).free
        if free < needed * _MARGIN:
            raise DiskFullError(f"The copy needs {needed:,} bytes, and {free:,} are free on the disk of {folder}.")
        partial = copy.frontier_db.with_suffix(".partial")
        copy_database(layout.frontier_db, partial)
        log = rotate_crawl_log(layout.crawl_log, now=now)
        _fsync(partial)
        partial.rename(copy.frontier_db)
        # The marker is written last: a folder without it is not recognised as a collection.
        shutil.copyfile(layout.marker, copy.marker)
        _fsync(copy.marker)
        _fsync(copy.databases)
        _fsync(folder)
    except sqlite3.Error as error:
        raise UnavailableError(f"{layout.frontier_db} cannot be copied: {error}.") from error
    except OSError as error:
        if error.errno == 28:  # ENOSPC
            raise DiskFullError(f"The disk that holds {folder} is full: free some.") from error
        raise UnavailableError(f"{folder} cannot be written: {error.strerror or error}.") from error
    return FrontierSnapshot(folder, copy.frontier_db.stat().st_size, log)


def copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite database that may be in use; an existing target is replaced."""
    target.unlink(missing_ok=True)
    with (
        closing(sqlite3.connect(read_only_uri(source), uri=True, timeout=60)) as opened,
        closing(sqlite3.connect(target)) as made,
    ):
        # All pages in one step: a concurrent write would restart a stepwise backup.
        opened.backup(made, pages=-1)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


COPY_URLS_LIMIT = 2_000_000  # of a registry in PostgreSQL: about 1 GB in the copy
_NAMES = ("links_db", "captures_db", "decisions_db")


def make_trial_copy(layout: Layout, root: Path, database_url: str = "") -> Layout:
    """Copy registry, captures index and decisions into a new folder that is marked as a trial.

    Frontier, WARCs, logins and keys are not copied, nor decisions in the PostgreSQL at `database_url`.
    """
    if not database_url and not layout.links_db.exists():
        raise UnavailableError(f"{layout.root} has no link registry: `weboid wiki add` makes one.")
    if root.exists() and any(root.iterdir()):
        raise ConfigError(f"{root} is not empty: name a new folder for the trial.")
    if database_url:
        from warc.index.postgres import take_snapshot  # needs PostgreSQL's driver

        store = open_registry_read_only(layout, database_url)
        if store is None:
            raise UnavailableError("The database has no link registry: `weboid wiki add` makes one.")
        with closing(store):
            with store.reading() as rows:
                count = rows.execute(select(func.count()).select_from(urls)).scalar_one()
            if count > COPY_URLS_LIMIT:
                raise InputError(
                    f"The registry has {count:,} links, and a trial copies {COPY_URLS_LIMIT:,} at most. Read the wiki "
                    "into a collection of its own, without --database and [index] url: `weboid wiki add URL "
                    "--collection DIR`, `weboid wiki sweep --now --collection DIR`; then `weboid wiki trial "
                    "--collection DIR`."
                )
            copy = _new_copy(layout, root)
            with closing(open_registry_store(copy)) as own, store.reading() as there, own.writing() as here:
                copy_rows(there, here)
        take_snapshot(database_url, copy.captures_db)
        return copy
    copy = _new_copy(layout, root)
    for name in _NAMES:
        source: Path = getattr(layout, name)
        if source.exists():
            copy_database(source, getattr(copy, name))
    return copy


def _new_copy(layout: Layout, root: Path) -> Layout:
    copy = Layout(root)
    make_collection(copy, SystemClock())
    trial_mark_path(copy).write_text(json.dumps({"copy_of": str(layout.root.absolute())}) + "\n")
    if layout.marker.exists():
        copy.marker.write_bytes(layout.marker.read_bytes())
    if (config := layout.root / CONFIG_FILE).exists():
        (copy.root / CONFIG_FILE).write_bytes(config.read_bytes())
    return copy


def check_trial_clock(root: Path) -> None:
    """Raise ConfigError when the collection, with which a moved clock would be used, is no trial's."""
    if not is_trial(root):
        raise ConfigError(
            f"The clock is moved, and {root} is no copy for a trial: make one with `weboid wiki trial "
            "--keep DIR`, or leave out --clock-offset and WEBOID_CLOCK_OFFSET."
        )


def check_trial_stores(settings: Settings) -> None:
    """Raise ConfigError when a store, with which a moved clock would be used, is shared by machines."""
    named = {
        "--database (WEBOID_DATABASE, [index] url)": settings.index.url,
        "--frontier (WEBOID_FRONTIER, [frontier] url)": settings.frontier.url,
        "--dedup (WEBOID_DEDUP, [proxy] dedup_url)": settings.proxy.dedup_url,
        "--storage (WEBOID_STORAGE, [storage] url)": settings.storage.url,
    }
    for name, url in named.items():
        if url:
            raise ConfigError(
                f"The clock is moved, and {name} names a store that is no copy: leave it out, or leave "
                "out --clock-offset and WEBOID_CLOCK_OFFSET."
            )
