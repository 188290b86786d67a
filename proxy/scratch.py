"""Folders in the system's temporary one, for what a process needs while it lives.

A process that is killed cannot remove its own. So each holds a lock while its owner lives, and whoever
needs a folder next removes those whose lock is free. One without a lock is nobody's to remove: its owner
may be about to take it.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

_LOCK = ".lock"


class Scratch(StrEnum):
    """What a folder is for: the beginning of its name."""

    RUN = "weboid-run-"  # control sockets, the tally of bytes, the authority's certificate
    MEDIA = "weboid-media-"
    VERIFY = "weboid-verify-"


@contextmanager
def scratch_folder(kind: Scratch) -> Iterator[Path]:
    """A private folder until the end of the block; those that were left behind go now.

    Raises:
        OSError: the temporary folder cannot be written.
    """
    sweep(Path(tempfile.gettempdir()))
    root = Path(tempfile.mkdtemp(prefix=kind))
    try:
        # Locked before it has its name: nobody who sweeps finds it free.
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


def sweep(base: Path) -> list[Path]:
    """Remove the folders in `base` whose owners are gone, and say which."""
    return [
        root for kind in Scratch for root in base.glob(f"{kind}*") if _is_ours(root) and _left(root)
    ]


def _is_ours(root: Path) -> bool:
    """Whether it is a folder of our own user: others' names, and links to elsewhere, mean nothing."""
    with suppress(OSError):
        return not root.is_symlink() and root.stat().st_uid == os.geteuid()
    return False


def _left(root: Path) -> bool:
    """Whether it was left behind; then it is gone."""
    with suppress(OSError):
        descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(root, ignore_errors=True)
        finally:
            os.close(descriptor)
        return True
    return False
