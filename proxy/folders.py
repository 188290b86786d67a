"""Folders whose entries are on disk."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Force the folder's entries to disk, so that a name survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
