"""Client for Save Page Now 2 of the Internet Archive.

It takes a key of an account of theirs, and some minutes. What it answers decides whether it is asked
again: later, when the trouble was its own or the day's limit is reached; not for long, when the page
cannot be archived. Errors come with status 200 both when it is asked and while it works.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote, urlencode

from links.archives.archive_answers import ArchiveMemento, FormatError, read_object, timestamp_of
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
    """What came of it."""

    SAVED = "saved"
    LATER = "later"  # not now; asking again may help
    NEVER = "never"  # that page cannot be archived there


@dataclass(frozen=True, slots=True)
class SaveResult:
    """What came of having a page archived.

    Attributes:
        outcome: in a word.
        copy: the copy; None without one. It may take a while until its address shows it.
        reason: the service's code, and what it said.
    """

    outcome: SaveOutcome
    copy: ArchiveMemento | None = None
    reason: str = ""


class SavePageNow:
    """Has pages archived. Belongs to one event loop."""

    def __init__(
        self,
        asker: ArchiveClient,
        key: str,
        *,
        monotonic: Callable[[], float],
        origin: str = "https://web.archive.org",
    ) -> None:
        """Take who asks, and the account's key, ``key:secret``."""
        self._asker = asker
        self._monotonic = monotonic
        self._origin = origin
        self._headers = {"Accept": "application/json", "Authorization": f"LOW {key}"}

    async def take(self, url: str) -> SaveResult:
        """Have the page archived, and wait until it is.

        Raises:
            ArchiveTroubleError: the service gave no answer, or does not know the key.
        """
        for _ in range(SESSION_TRIES):
            body = urlencode({"url": url, "skip_first_archive": "1"}).encode()
            headers = {**self._headers, "Content-Type": "application/x-www-form-urlencoded"}
            told = await self._ask(ArchiveRequest(f"{self._origin}/save", "POST", headers, body))
            job = told.get("job_id")
            code = _code(told)
            if isinstance(job, str) and job and not code:
                told = await self._finished(job)
                code = _code(told)
            if code != _SESSIONS:
                said = told.get("message")
                message = " ".join(said.split())[:300] if isinstance(said, str) else ""
                if code:
                    outcome = SaveOutcome.LATER if code in TRANSIENT else SaveOutcome.NEVER
                    return SaveResult(outcome, reason=f"{code}: {message}" if message else code)
                if told.get("status") != "success":
                    return SaveResult(SaveOutcome.LATER, reason=message or "it is not finished")
                stamp, original = (
                    timestamp_of(str(told.get("timestamp", ""))),
                    told.get("original_url"),
                )
                if not stamp or not isinstance(original, str):
                    return SaveResult(SaveOutcome.LATER, reason="it does not say which copy")
                if not is_same_page(original, url):
                    return SaveResult(
                        SaveOutcome.NEVER, reason=f"what was archived is {original[:200]}"
                    )
                status = told.get("http_status")
                known = status if isinstance(status, int) and 100 <= status <= 599 else None
                return SaveResult(
                    SaveOutcome.SAVED,
                    ArchiveMemento(
                        "wayback", make_archive_url("wayback", url, stamp), stamp, known
                    ),
                )
            await self._asker.sleep(POLL_S)
        return SaveResult(SaveOutcome.LATER, reason=_SESSIONS)

    async def _finished(self, job: str) -> dict[str, Any]:
        """The last word on a job; a pending one when it takes too long."""
        until = self._monotonic() + LONGEST_S
        address = f"{self._origin}/save/status/{quote(job, safe='')}"
        while True:
            await self._asker.sleep(POLL_S)
            told = await self._ask(ArchiveRequest(address, headers=self._headers))
            if told.get("status") != "pending" or self._monotonic() >= until:
                return told

    async def _ask(self, question: ArchiveRequest) -> dict[str, Any]:
        reply = await self._asker.ask(SERVICE, question)
        if is_refusal(reply):
            said = f"it answered {reply.status}; see the key in [links] save_key_file"
            raise ArchiveUnavailableError(SERVICE, ArchiveFailure.REFUSED, said)
        try:
            return read_object(reply.text)
        except FormatError as error:
            raise ArchiveUnavailableError(SERVICE, ArchiveFailure.NONSENSE, str(error)) from error


def _code(told: dict[str, Any]) -> str:
    """The error's code without its prefix; empty when there is none."""
    if told.get("status") != "error":
        return ""
    code = told.get("status_ext")
    return code.removeprefix("error:")[:80] if isinstance(code, str) and code else "unknown"
