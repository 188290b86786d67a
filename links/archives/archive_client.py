"""Client for other web archives: one request per service at a time, with back-off.

After 429, 503 or no answer the service is paused, and requests fail at once. `http_fetch` sends the requests.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.errors import TransientError
from core.web_dates import parse_retry_after

ANSWER_BYTES: Final = 8_000_000  # TimeMaps of famous pages have tens of thousands of lines
GAP_S: Final = 1.0  # between two questions to one service
FIRST_PAUSE_S: Final = 30.0
LONGEST_PAUSE_S: Final = 3_600.0
LONGEST_ASKED_S: Final = 86_400.0  # of what a Retry-After may ask for
_BUSY = frozenset((429, 503))
NOT_THERE: Final = frozenset((404, 410))
REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_REFUSED = frozenset((401, 402, 403, 407, 451))


class ArchiveFailure(StrEnum):
    """Reason for an answer without evidence about a copy."""

    UNREACHABLE = "unreachable"  # no answer, or an error of the server's
    BUSY = "busy"  # it asked to be left alone
    REFUSED = "refused"  # it does not answer us
    NONSENSE = "nonsense"  # it answered, and nothing that was asked for
    TOO_LARGE = "too-large"


class ArchiveUnavailableError(TransientError):
    """Failed archive request: no evidence about copies. `retry_s` is 0 when the archive gave no time."""

    def __init__(self, service: str, failure: ArchiveFailure, reason: str, *, retry_s: float = 0.0) -> None:
        later = f"; no requests for {retry_s:.0f} s" if retry_s else ""
        super().__init__(f"The archive {service} gave no answer ({failure}): {reason}{later}.")
        self.service = service
        self.failure = failure
        self.retry_s = retry_s


class NoReplyError(Exception):
    """Transport failure raised by an `ArchiveFetch`; `ArchiveClient` adds the service."""

    def __init__(self, failure: ArchiveFailure, reason: str) -> None:
        super().__init__(reason)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class ArchiveRequest:
    """HTTP request to an archive."""

    url: str  # the address
    method: str = "GET"  # the HTTP method
    headers: Mapping[str, str] = field(default_factory=dict)  # besides those of every request
    body: bytes = b""  # the request body
    hops: int = 0  # maximum number of redirects followed
    limit_bytes: int = ANSWER_BYTES  # a longer answer counts as none
    is_head_enough: bool = False  # the body is not needed, and is cut off early


@dataclass(frozen=True, slots=True)
class ArchiveResponse:
    """HTTP response of an archive."""

    status: int  # its HTTP status
    url: str  # the final URL after redirects
    headers: Mapping[str, str] = field(default_factory=dict)  # lower case; repeats joined by ", "
    body: bytes = b""  # decoded

    @property
    def text(self) -> str:
        """Return the body as text; invalid UTF-8 is replaced."""
        return self.body.decode("utf-8", "replace")


ArchiveFetch = Callable[[ArchiveRequest], Awaitable[ArchiveResponse]]  # may raise NoReplyError


@dataclass(slots=True)
class _ServiceThrottle:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_at: float = 0.0
    closed_until: float = 0.0
    failures: int = 0


@dataclass(eq=False)
class ArchiveClient:
    """Client that serializes requests per service. Bound to one event loop."""

    fetch: ArchiveFetch
    _: KW_ONLY
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    gap_s: float = GAP_S  # between two requests to one service
    _throttles: dict[str, _ServiceThrottle] = field(default_factory=dict, init=False)

    async def ask(self, service: str, request: ArchiveRequest) -> ArchiveResponse:
        """Send the request; ArchiveUnavailableError without a response, or for a 5xx, a 429 or a refusal."""
        throttle = self._throttles.setdefault(service, _ServiceThrottle())
        async with throttle.lock:
            closed = max(throttle.closed_until - self.monotonic(), 0.0)
            if closed:
                reason = "it was busy or silent a moment ago"
                raise ArchiveUnavailableError(service, ArchiveFailure.BUSY, reason, retry_s=closed)
            wait = throttle.next_at - self.monotonic()
            if wait > 0:
                await self.sleep(wait)
            try:
                response = await self.fetch(request)
            except NoReplyError as error:
                # A long answer is a sign of life.
                pause = 0.0 if error.failure is not ArchiveFailure.UNREACHABLE else self._shut(throttle)
                raise ArchiveUnavailableError(service, error.failure, str(error), retry_s=pause) from error
            finally:
                throttle.next_at = self.monotonic() + self.gap_s
            # With Memento-Datetime the status is the copy's (RFC 7089, 4.5).
            status = 200 if "memento-datetime" in response.headers else response.status
            if status in _BUSY:
                now = self.now()
                limit = timedelta(seconds=LONGEST_ASKED_S)
                requested = parse_retry_after(response.headers.get("retry-after", ""), now=now, limit=limit)
                pause = self._shut(throttle, (None if requested is None else requested.total_seconds()))
                reason = f"it answered {response.status}"
                raise ArchiveUnavailableError(service, ArchiveFailure.BUSY, reason, retry_s=pause)
            if status >= 500:
                reason = f"it answered {response.status}"
                raise ArchiveUnavailableError(service, ArchiveFailure.UNREACHABLE, reason, retry_s=self._shut(throttle))
            throttle.failures = 0
            return response

    def _shut(self, throttle: _ServiceThrottle, requested_s: float | None = None) -> float:
        pause = min(FIRST_PAUSE_S * 2 ** min(throttle.failures, 16), LONGEST_PAUSE_S)
        pause = pause if requested_s is None else requested_s
        throttle.failures += 1
        throttle.closed_until = self.monotonic() + pause
        return pause


def is_refusal(response: ArchiveResponse) -> bool:
    """Return True for a status that refuses this client altogether (401, 403 …)."""
    return response.status in _REFUSED
