"""Exceptions of the MediaWiki API client, by what the caller can do next."""

from core.errors import InputError, TransientError


class WikiAwayError(TransientError):
    """The wiki gave no answer that says anything: try later.

    Attributes:
        retry_s: how long it asks to be left alone; 0: it does not say.
        is_unsent: what was to be sent did not leave, so that nothing can have been done.
    """

    def __init__(self, said: str, *, retry_s: float = 0.0, is_unsent: bool = False) -> None:
        super().__init__(said)
        self.retry_s = retry_s
        self.is_unsent = is_unsent


class ReadOnlyError(WikiAwayError):
    """Nothing can be written at the moment."""


class ThrottledError(WikiAwayError):
    """We asked too often, or its database lags (maxlag)."""


class LoggedOutError(InputError):
    """The account is not logged in, and could not be; or the wiki must not be read without one."""


class PermissionDeniedError(InputError):
    """The account may not do that: blocked, protected, no such right, an abuse filter, a captcha.

    Attributes:
        code: the API's; empty when the server in front of it refused.
    """

    def __init__(self, said: str, *, code: str = "") -> None:
        super().__init__(said)
        self.code = code


class WikiRefusedError(InputError):
    """The API refused what it was asked, for a reason of its own.

    Attributes:
        code: the API's.
    """

    def __init__(self, code: str, said: str) -> None:
        super().__init__(f"The wiki says {code}: {said}")
        self.code = code


class WikiMovedError(InputError):
    """The wiki has another address now, and what is secret is not sent there unasked.

    Attributes:
        address: the new one.
    """

    def __init__(self, address: str) -> None:
        super().__init__(
            f"The wiki has moved to {address}; run `weboid wiki add {address}` if that is meant."
        )
        self.address = address


class HistoryGapError(InputError):
    """The wiki no longer keeps the changes that are asked for: every page must be read anew."""
