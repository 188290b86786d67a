"""Exception tree; each class says what its caller can do next.

WeboidError
├── InputError              the user mends what was typed or written
│   ├── ConfigError         a setting, a profile or a collection.toml
│   └── BadUrlError         a URL that nobody can fetch; `reason` says why
├── TransientError          try again later
│   └── IndexUnavailableError
├── PermanentError          note it and go on with the rest
│   ├── BodyTooLargeError   a message over a limit
│   └── PictureError        a picture that cannot be read
├── UnavailableError        something must be installed, started or freed first
│   ├── BrowserUnavailableError
│   ├── ProxyUnavailableError
│   ├── CollectionInUseError
│   ├── CollectionVersionError
│   ├── DiskFullError
│   ├── DedupUnavailableError
│   └── LimitReachedError   a run's own limit
└── InvariantError          our own mistake: crash and report

Foreign errors are mapped to one of these once, at the seam, with their cause kept.
"""


class WeboidError(Exception):
    """Base of every error this project raises; its text is a sentence for the user."""


class InputError(WeboidError):
    """What the user gave cannot be used; the text names the place and the remedy."""


class ConfigError(InputError):
    """A setting is unknown, of the wrong type, or out of range."""


class BadUrlError(InputError):
    """The text is no URL that can be fetched.

    Attributes:
        reason: a short constant naming the broken rule, e.g. ``"port"`` or ``"invisible"``.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class TransientError(WeboidError):
    """It may work later: retry with a delay."""


class IndexUnavailableError(TransientError):
    """The captures index of several machines does not answer, so nothing can be acknowledged."""


class OverloadedError(TransientError):
    """Too much is asked for at the moment.

    Attributes:
        retry_after_s: whole seconds after which to ask again.
    """

    def __init__(self, message: str, *, retry_after_s: int = 5) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class PermanentError(WeboidError):
    """It will not work however often it is tried: note it and go on."""


class BodyTooLargeError(PermanentError):
    """A message is larger than its limit."""


class PictureError(PermanentError):
    """A picture is damaged, of another format than PNG, JPEG and WebP, or too large to be compared."""


class MakingFailedError(PermanentError):
    """A copy cannot be made safe within the limits of time and memory."""


class UnavailableError(WeboidError):
    """Something must be installed, started or freed first; the text says what."""


class BrowserUnavailableError(UnavailableError):
    """No browser was found, it did not start, or it died."""


class ProxyUnavailableError(UnavailableError):
    """The proxy did not start, or its control socket closed."""


class CollectionInUseError(UnavailableError):
    """Another process holds the collection."""


class CollectionVersionError(UnavailableError):
    """The collection was made by another version."""


class DiskFullError(UnavailableError):
    """Free bytes are below the reserve: free some, then go on."""


class DedupUnavailableError(UnavailableError):
    """The shared dedup index does not answer, so nothing can be written exactly once."""


class LimitReachedError(UnavailableError):
    """A run has used up what its settings allow it."""


class InvariantError(WeboidError):
    """A rule of ours is broken: stop, this is a bug."""
