"""Exception tree: each direct subclass of `WeboidError` defines the caller's next step.

Foreign errors are mapped to one of these once, where they occur, with their cause kept.
"""

import errno
import os


def is_disk_full(error: BaseException) -> bool:
    """Return whether the system or SQLite refused to write for want of space.

    SQLite's result codes are 13, SQLITE_FULL, and 4874, SQLITE_IOERR_SHMSIZE: its shared memory cannot be enlarged.
    """
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", 0) in (13, 4874)


class WeboidError(Exception):
    """Base of every error this project raises; its text is a sentence for the user."""


class InputError(WeboidError):
    """User input that cannot be used; the text, a template to translate with its values, names place and remedy."""

    def __init__(self, template: str = "", **values: object) -> None:
        super().__init__(template % values if values else template)
        self.template, self.values = template, values


class ConfigError(InputError):
    """Setting that is unknown, of the wrong type, or out of range."""


class BadUrlError(InputError):
    """Text that is not a URL that can be fetched."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        # A short constant naming the broken rule, e.g. ``"port"`` or ``"invisible"``.
        self.reason = reason


class TransientError(WeboidError):
    """Temporary failure: retry with a delay."""


class IndexUnavailableError(TransientError):
    """Shared captures index that does not answer, so no write can be acknowledged."""


class OverloadedError(TransientError):
    """Server or queue with too much waiting work: ask again after `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: int = 5) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s  # whole seconds after which to ask again


class PermanentError(WeboidError):
    """Failure that no retry changes: record it and continue."""


class BodyTooLargeError(PermanentError):
    """Message larger than its limit."""


class PictureError(PermanentError):
    """Picture that is damaged, of another format than PNG, JPEG and WebP, or too large to be compared."""


class MakingFailedError(PermanentError):
    """Copy that cannot be sanitised within the limits of time and memory."""


class UnavailableError(WeboidError):
    """Missing resource that must be installed, started or freed first; the text names it."""


class BrowserUnavailableError(UnavailableError):
    """Browser that was not found, did not start, or died."""


class ProxyUnavailableError(UnavailableError):
    """Proxy that did not start, or whose control socket closed."""


class CollectionInUseError(UnavailableError):
    """Collection locked by another process."""


class CollectionVersionError(UnavailableError):
    """Collection made by another version."""


class DiskFullError(UnavailableError):
    """Disk with less free space than the reserve: free some, then continue."""


class DedupUnavailableError(UnavailableError):
    """Shared dedup index that does not answer, so nothing can be written exactly once."""


class ListenError(UnavailableError):
    """Address on which a server cannot listen; an empty host is every address."""

    def __init__(self, host: str, port: int, error: Exception) -> None:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error).rstrip(".")
        super().__init__(
            f"Cannot listen on {host or 'every address'}, port {port}: {reason}. Stop the process that uses the port, "
            "or choose another one."
        )


class LimitReachedError(UnavailableError):
    """Limit of a run's settings that is used up."""


class InvariantError(WeboidError):
    """Broken internal rule: stop, this is a bug."""
