"""How SQLite files are opened for reading, also on media where nothing can be written."""

import os
from pathlib import Path


def is_frozen(path: Path) -> bool:
    """Return True for a file at rest in a folder that cannot be written: a backup, a read-only mount.

    A log beside it says that somebody may be writing.
    """
    return not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()


def read_only_uri(path: Path) -> str:
    """Return the URI by which SQLite opens the file for reading.

    A file in WAL mode needs a lock file beside it. Where none can be made, a file at rest is opened
    as immutable, without locks (https://sqlite.org/uri.html#uriimmutable).
    """
    how = "mode=ro&immutable=1" if is_frozen(path) else "mode=ro"
    return f"{path.absolute().as_uri()}?{how}"
