"""Collection folder: creation, version, mark of trials; lock, inherited by all writers and freed with the last."""

import asyncio
import fcntl
import os
import sqlite3
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from core import errors
from core.clock import Clock
from core.config.settings import Settings
from core.layout import COLLECTION_VERSION, CONFIG_FILE, Layout, read_only_uri
from core.timestamps import warc_date
from warc.local_storage import replacing_file


def trial_mark_path(layout: Layout) -> Path:
    """Return the path of the file that marks a collection as a trial's."""
    return layout.root / "trial.json"


def is_trial(root: Path) -> bool:
    """Return True when the collection is a trial's copy."""
    return trial_mark_path(Layout(root)).exists()


def check_trial_clock(root: Path) -> None:
    """Raise ConfigError when the collection, with which a shifted clock would be used, is not a trial."""
    if not is_trial(root):
        raise errors.ConfigError(
            f"The clock is moved, and {root} is not a copy for a trial: create one with `weboid wiki trial "
            "--keep DIR`, or omit --clock-offset and WEBOID_CLOCK_OFFSET."
        )


# The option that names each, and its setting.
_SHARED_STORES = (
    *(("database", "index", "url"), ("frontier", "frontier", "url")),
    *(("dedup", "proxy", "dedup_url"), ("storage", "storage", "url")),
)


def check_trial_stores(settings: Settings) -> None:
    """Raise ConfigError when a store, with which a moved clock would be used, is shared by machines."""
    for option, group, key in _SHARED_STORES:
        if getattr(getattr(settings, group), key):
            raise errors.ConfigError(
                f"The clock is moved, and --{option} (WEBOID_{option.upper()}, [{group}] {key}) is a store outside the trial copy: omit it, or omit "
                "--clock-offset and WEBOID_CLOCK_OFFSET."
            )


def trial_settings(settings: Settings) -> Settings:
    """Return the settings of a trial, which uses its own stores whatever the profile names."""
    own = {group: replace(getattr(settings, group), **{key: ""}) for _, group, key in _SHARED_STORES}
    return replace(settings, **own)


LOCK_WAIT_S = 10.0  # proxies of a killed run may still be writing their last records
LOCK_POLL_S = 0.1
PATH_LIMIT = 450  # bytes; SQLite opens files whose absolute path has 512 at most, with the ending of a journal
_OURS = ("archive", "ca", "cache", "db", "logins", "reports")


@dataclass(frozen=True, slots=True)
class Collection:
    """An open collection; `lock_fd` is what child processes inherit."""

    layout: Layout
    lock_fd: int


def read_collection(root: Path) -> Layout:
    """Return the layout of a collection, not locked; UnavailableError: there is none; CollectionVersionError."""
    layout = Layout(root)
    if not layout.marker.exists():
        raise errors.UnavailableError(
            f"There is no collection at {root}; `weboid archive` creates one, --collection selects one."
        )
    _check_version(layout)
    return layout


@asynccontextmanager
async def open_collection(root: Path, *, clock: Clock, shared: bool = False) -> AsyncIterator[Collection]:
    """Lock the collection at `root` until the end of the block; create it when it is missing.

    A cluster's proxies hold a `shared` lock together. Raises CollectionInUseError, CollectionVersionError (it was made
    by another version), UnavailableError (`root` cannot be made, or holds something else).
    """
    layout = Layout(root)
    try:
        make_collection(layout, clock)
        lock_fd = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if errors.is_disk_full(error):
            raise errors.DiskFullError(f"The disk that holds {root} is full: free some space.") from error
        raise errors.UnavailableError(
            f"{root} cannot be written: {error.strerror or error}. Give --collection a writable folder."
        ) from error
    try:
        deadline = clock.monotonic() + LOCK_WAIT_S
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        is_locked = False
        while not is_locked:
            try:
                fcntl.flock(lock_fd, kind | fcntl.LOCK_NB)
                is_locked = True
            except BlockingIOError as error:
                if clock.monotonic() > deadline:
                    raise errors.CollectionInUseError(_used_by(lock_fd, layout)) from error
                await asyncio.sleep(LOCK_POLL_S)
        _check_version(layout)
        yield Collection(layout, lock_fd)
    finally:
        os.close(lock_fd)


def _used_by(lock_fd: int, layout: Layout) -> str:
    """Describe the process that holds the lock, and the next step."""
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return (
            f"Another process is writing {layout.root}: wait for it, stop it, or name another folder with --collection."
        )
    return (
        f"The proxies of a cluster are writing {layout.root}: add URLs to its frontier with --frontier, "
        "stop the proxies (`weboid proxy`), or name another folder with --collection."
    )


def make_collection(layout: Layout, clock: Clock) -> None:
    """Create missing folders and the marker; UnavailableError where something else is, or for a long path; OSError."""
    if not layout.marker.exists():
        length = len(os.fsencode(layout.root.absolute()))
        if length > PATH_LIMIT:
            raise errors.UnavailableError(
                f"The path of the collection has {length} bytes; use one of at most {PATH_LIMIT}."
            )
        foreign = layout.root.exists() and any(map(_is_foreign, layout.root.iterdir()))
        if foreign and not layout.marker.exists():  # another proxy may have made it meanwhile
            raise errors.UnavailableError(
                f"{layout.root} has other files and no collection.toml: give --collection an empty or new folder."
            )
        layout.root.mkdir(parents=True, exist_ok=True)
        with suppress(PermissionError):  # another's folder that we may write
            layout.root.chmod(0o700)  # captures with a login, take-downs and keys are in it
        date = warc_date(clock.now())
        name = "".join(char for char in layout.root.name if char.isalnum() or char in "-_.")
        text = f'version = {COLLECTION_VERSION}\nname = "{name}"\nmade = "{date}"\n'
        with replacing_file(layout.marker) as partial:  # of two that start together either may be the one that stays
            partial.write_text(text)
    for folder in (layout.archive, layout.databases, layout.reports):
        folder.mkdir(exist_ok=True)
    # Containers that must not see these two mount empty folders over them, and need a place to do so.
    for folder in (layout.ca, layout.logins):
        folder.mkdir(mode=0o700, exist_ok=True)
    layout.quality_pictures.mkdir(parents=True, exist_ok=True)
    layout.url_lists.mkdir(exist_ok=True)


def _is_foreign(path: Path) -> bool:
    """Return True for an entry that comes from no other proxy, new file system or Docker image.

    A new Docker volume begins with the folders that the image has at its mount point, all empty.
    """
    if path.name in (".lock", "lost+found", CONFIG_FILE) or path.name.endswith(".new"):
        return False
    is_own_folder = path.name in _OURS and path.is_dir() and not path.is_symlink()
    return not is_own_folder or any(not each.is_dir() for each in path.rglob("*"))


def _check_version(layout: Layout) -> None:
    try:
        marker = tomllib.loads(layout.marker.read_text())
    except (OSError, ValueError) as error:
        raise errors.CollectionVersionError(f"{layout.marker} cannot be read: {error}.") from error
    version = marker.get("version")
    if version != COLLECTION_VERSION:
        raise errors.CollectionVersionError(
            f"{layout.root} is a collection of version {version!r}; this release writes version "
            f"{COLLECTION_VERSION}. Use the release that made it, or another folder."
        )


def copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite database that may be in use; an existing target is replaced."""
    target.unlink(missing_ok=True)
    with (
        closing(sqlite3.connect(read_only_uri(source), uri=True, timeout=60)) as opened,
        closing(sqlite3.connect(target)) as copy,
    ):
        # All pages in one step: a concurrent write would restart a stepwise backup.
        opened.backup(copy, pages=-1)
