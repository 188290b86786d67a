"""What to say of an error for which a record was not written."""

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
    if isinstance(error, OSError) and error.errno in (28, 122):  # ENOSPC, EDQUOT
        told: WeboidError = DiskFullError("The disk is full: free some space, then go on.")
    else:
        told = UnavailableError(f"The archive cannot be written: {error}.")
    told.__cause__ = error
    return told
