"""The captures index, opened for reading while other processes write it."""

import sqlite3
from pathlib import Path

from core.errors import TransientError

_BUSY_TIMEOUT_S = 2.0


def open_index(path: Path, *, across_threads: bool = False) -> sqlite3.Connection | None:
    """A read-only connection to the captures index at `path`; None when there is none yet.

    The caller closes it. `across_threads` allows use in threads other than this one.

    Raises:
        TransientError: the file is there and cannot be read, or is no captures index.
    """
    if not path.exists():
        return None
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=not across_threads,
        )
    except sqlite3.Error as error:
        raise TransientError(f"The captures index cannot be opened: {error}.") from error
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA query_only = ON")
        tables = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE name IN ('captures', 'pages')"
        ).fetchone()[0]
    except sqlite3.Error as error:
        connection.close()
        raise TransientError(f"The captures index cannot be read: {error}.") from error
    if tables != 2:  # its writer has created the file, not yet the schema
        connection.close()
        return None
    return connection
