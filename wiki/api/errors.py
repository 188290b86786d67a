"""Exceptions of the MediaWiki API client, grouped by the caller's next step."""

from core.errors import InputError, TransientError


class WikiAwayError(TransientError):
    """No usable answer from the wiki: retry later."""

    def __init__(self, text: str, *, retry_s: float = 0.0, is_unsent: bool = False) -> None:
        super().__init__(text)
        self.retry_s = retry_s  # requested pause (Retry-After); 0: none given
        self.is_unsent = is_unsent  # nothing can have been executed


class ReadOnlyError(WikiAwayError):
    """Wiki in read-only mode at the moment."""


class ThrottledError(WikiAwayError):
    """Rate limit reached, or database lag above maxlag."""


class LoggedOutError(InputError):
    """Missing or failed login where the wiki requires one."""


class PermissionDeniedError(InputError):
    """Action denied to the account: block, protection, missing right, abuse filter, captcha."""

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class WikiRefusedError(InputError):
    """Request refused by the API for another reason."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"The wiki says {code}: {text}")
        self.code = code


class WikiMovedError(InputError):
    """Redirect of the wiki to another address; secrets are not sent there without confirmation."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"The wiki has moved to {address}; run `weboid wiki add {address}` if that is meant."
        )
        self.address = address
