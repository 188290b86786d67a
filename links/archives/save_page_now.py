"""Client for Save Page Now 2 of the Internet Archive; it needs a key, and a capture takes minutes.

The answer determines the retry: later for the service's failures or an exhausted daily limit, not for long for a
page that cannot be archived. Errors come with status 200.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote, urlencode

from links.archives.archive_answers import ArchiveMemento, parse_answer, read_object, text_value, timestamp_of
from links.archives.archive_client import (
    ArchiveClient,
    ArchiveFailure,
    ArchiveRequest,
    ArchiveUnavailableError,
    is_refusal,
)
from links.archives.archive_urls import is_same_page, make_archive_url

SERVICE: Final = "save-page-now"  # apart from the Wayback Machine: one may be busy, the other not
POLL_S: Final = 2.0
LONGEST_S: Final = 240.0  # a capture takes two minutes at most, waiting in line comes on top
SESSION_TRIES: Final = 22
_SESSIONS = "user-session-limit"
# The trouble is theirs, the line's, or today's. All else is the page's own (links.md 2.1).
TRANSIENT: Final = frozenset(
    (
        *(_SESSIONS, "celery", "soft-time-limit-exceeded", "proxy-error", "browsing-timeout"),
        *("no-browsers-available", "redis-error", "capture-location-error", "job-failed"),
        *("too-many-daily-captures", "too-many-requests", "bandwidth-limit-exceeded"),
        *("max-daily-bandwidth-from-ip", "bad-gateway", "gateway-timeout", "service-unavailable"),
        *("internal-server-error", "read-timeout", "cannot-fetch", "protocol-error"),
    )
)


class SaveOutcome(StrEnum):
    """Outcome of a capture request."""

    SAVED = "saved"
    LATER = "later"  # not now; asking again may help
    NEVER = "never"  # that page cannot be archived there


@dataclass(frozen=True, slots=True)
class SaveResult:
    """Result of a capture request."""

    outcome: SaveOutcome  # the outcome
    copy: ArchiveMemento | None = None  # its address may take a while to work; None without one
    reason: str = ""  # the service's code and message


@dataclass(eq=False)
class SavePageNow:
    """Client that requests captures. Bound to one event loop."""

    asker: ArchiveClient
    key: InitVar[str]  # of the account, ``key:secret``
    _: KW_ONLY
    monotonic: Callable[[], float]
    origin: str = "https://web.archive.org"

    def __post_init__(self, key: str) -> None:
        self._headers = {"Accept": "application/json", "Authorization": f"LOW {key}"}

    async def take(self, url: str) -> SaveResult:
        """Send a capture request, and wait for its end; ArchiveUnavailableError if refused or unanswered."""
        for _ in range(SESSION_TRIES):
            body = urlencode({"url": url, "skip_first_archive": "1"}).encode()
            headers = {**self._headers, "Content-Type": "application/x-www-form-urlencoded"}
            status = await self._ask(ArchiveRequest(f"{self.origin}/save", "POST", headers, body))
            job = status.get("job_id")
            if isinstance(job, str) and job and not _code(status):
                request = ArchiveRequest(f"{self.origin}/save/status/{quote(job, safe='')}", headers=self._headers)
                until, is_pending = self.monotonic() + LONGEST_S, True
                while is_pending:
                    await self.asker.sleep(POLL_S)
                    status = await self._ask(request)
                    is_pending = status.get("status") == "pending" and self.monotonic() < until
            if _code(status) != _SESSIONS:
                return _result_of(status, url)
            await self.asker.sleep(POLL_S)
        return SaveResult(SaveOutcome.LATER, reason=_SESSIONS)

    async def _ask(self, request: ArchiveRequest) -> dict[str, Any]:
        response = await self.asker.ask(SERVICE, request)
        if is_refusal(response):
            reason = f"it answered {response.status}; see the key in [links] save_key_file"
            raise ArchiveUnavailableError(SERVICE, ArchiveFailure.REFUSED, reason)
        return parse_answer(SERVICE, response, read_object)


def _result_of(status: dict[str, Any], url: str) -> SaveResult:
    code, message = _code(status), " ".join(text_value(status, "message").split())[:300]
    if code:
        outcome = SaveOutcome.LATER if code in TRANSIENT else SaveOutcome.NEVER
        return SaveResult(outcome, reason=f"{code}: {message}" if message else code)
    if status.get("status") != "success":
        return SaveResult(SaveOutcome.LATER, reason=message or "it is not finished")
    stamp, original = timestamp_of(str(status.get("timestamp", ""))), status.get("original_url")
    if not stamp or not isinstance(original, str):
        return SaveResult(SaveOutcome.LATER, reason="it does not say which copy")
    if not is_same_page(original, url):
        return SaveResult(SaveOutcome.NEVER, reason=f"what was archived is {original[:200]}")
    reported = status.get("http_status")
    http_status = reported if isinstance(reported, int) and 100 <= reported <= 599 else None
    address = make_archive_url("wayback", url, stamp)
    return SaveResult(SaveOutcome.SAVED, ArchiveMemento("wayback", address, stamp, http_status))


def _code(status: dict[str, Any]) -> str:
    """Return the error's code without its prefix; empty when there is none."""
    if status.get("status") != "error":
        return ""
    return text_value(status, "status_ext").removeprefix("error:")[:80] or "unknown"
