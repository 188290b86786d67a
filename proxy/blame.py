"""What to say of an error for which a record was not written."""

import errno
import logging
import sqlite3

from core.errors import (
    DedupUnavailableError,
    DiskFullError,
    IndexUnavailableError,
    TransientError,
    UnavailableError,
    WeboidError,
)


def blamed(error: WeboidError) -> str:
    """What part of us could not do its work."""
    match error:
        case IndexUnavailableError():
            return "index"
        case DedupUnavailableError() | TransientError():
            return "dedup"
        case _:
            return "disk"


def as_ours(error: Exception) -> WeboidError:
    """An I/O error in our terms, its cause kept."""
    if isinstance(error, WeboidError):
        return error
    if _is_full(error):
        told: WeboidError = DiskFullError("The disk is full: free some space, then go on.")
    else:
        told = UnavailableError(f"The archive cannot be written: {error}.")
    told.__cause__ = error
    return told


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL


def log_failure(log: logging.Logger, event: str, error: Exception) -> None:
    """Log an I/O error with its traceback; a full disk, which the run tells in one line, briefly."""
    if isinstance(as_ours(error), DiskFullError):
        log.info("%s error=%s", event, error)
    else:
        log.error("%s", event, exc_info=error)
