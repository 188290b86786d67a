"""Reviewers: who may judge copies, and the actions of their buttons.

Reading is for everyone, as elsewhere on the front. A verdict moves the copy that readers are offered, so
it takes a right: to come from a network that a setting names, or to say a token that only reviewers have,
as ``Authorization: Bearer …`` or, in a browser, as the password of any name. Both are off by default.

Everything blocks; Starlette runs it in threads.
"""

import base64
import binascii
import hmac
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import Connection
from starlette.requests import Request

from core.clock import Clock
from core.errors import TransientError
from core.playback_check import QaVerdict
from links.feedback.reporter_limits import ReporterDigests
from links.registry.database import RegistryStore
from net.address_policy import rate_limit_prefix
from playback.web.client_address import ClientAddresses, Network, within
from playback.web.rate_limits import RateLimiter
from playback.web.registry.registry_forms import FormTokens
from playback.web.registry.registry_pages import BusyError
from qa.check_store import find_checks, record_review, want_repair
from qa.check_table import CheckedPage, RepairState

MOST_NAME = 255  # characters
CHALLENGE = {"WWW-Authenticate": 'Basic realm="Weboid quality", charset="UTF-8"'}


@dataclass(frozen=True, slots=True)
class ReviewerRules:
    """The rules.

    Attributes:
        readers: how a reader's address is found.
        networks: whose people may judge.
        token: what others say who may; empty: nobody can.
    """

    readers: ClientAddresses = field(default_factory=ClientAddresses)
    networks: tuple[Network, ...] = ()
    token: str = field(default="", repr=False)

    @property
    def is_anybody(self) -> bool:
        """Whether there is anyone who may judge."""
        return bool(self.networks or self.token)

    def name_of(self, request: Request) -> str | None:
        """What the reviewer says to be called, maybe nothing; None: who asks is no reviewer."""
        kind, _, said = request.headers.get("authorization", "").partition(" ")
        name, word = "", said.strip()
        if kind.lower() == "basic":
            name, word = _basic(said.strip())
        elif kind.lower() != "bearer":
            word = ""
        same = hmac.compare_digest(word.encode("utf-8", "replace"), self.token.encode())
        if self.token and same:
            return name[:MOST_NAME]
        if not self.networks or self.readers.is_relayed(request):
            return None
        return "" if within(self.readers.address_of(request), self.networks) else None


class ReviewGate:
    """Holds the rules against requests, and makes and reads the tokens of forms. From any thread.

    Args:
        reviewers: who may judge.
        reporters: makes what only this front can make.
        door: how often others may ask.
        clock: tells the time.
    """

    def __init__(
        self,
        reviewers: ReviewerRules,
        reporters: Callable[[], ReporterDigests],
        door: RateLimiter,
        clock: Clock,
    ) -> None:
        self.reviewers = reviewers
        self._reporters = reporters
        self._door = door
        self._clock = clock

    def name_of(self, request: Request) -> str | None:
        """What the reviewer says to be called, maybe nothing; None: who asks is no reviewer."""
        return self.reviewers.name_of(request)

    def count(self, request: Request) -> None:
        """Count a question of somebody who is no reviewer.

        Raises:
            BusyError: those were too many.
        """
        if self.name_of(request) is None:
            wait = self._door.wait_s(request, self._clock.monotonic())
            if wait:
                raise BusyError(wait)

    def token(self, request: Request, purpose: str) -> str:
        """What a form carries that this reviewer may send.

        Raises:
            UnavailableError: the key of tokens can neither be read nor made.
        """
        return FormTokens(self._reporters()).make(purpose, self._range(request), self._now())

    def holds(self, request: Request, token: str, purpose: str) -> bool:
        """Whether a form carries what was made for it, a while ago at most.

        Raises:
            UnavailableError: the key of tokens can neither be read nor made.
        """
        return FormTokens(self._reporters()).holds(
            token, purpose, self._range(request), self._now()
        )

    def _range(self, request: Request) -> str:
        return rate_limit_prefix(self._door.address_of(request))

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _basic(said: str) -> tuple[str, str]:
    """Name and password of RFC 7617; empty ones when they cannot be read."""
    try:
        text = base64.b64decode(said, validate=True).decode()
    except (binascii.Error, ValueError):
        return "", ""
    name, _, password = text.partition(":")
    return name, password


_PATIENCE_S = 5.0
_WRITERS = 2
PENDING_REPAIRS = frozenset({RepairState.WANTED, RepairState.BEGUN})


class ReviewAction(StrEnum):
    """What a reviewer's button does."""

    GOOD = "good"
    BAD = "bad"
    CLEAR = "clear"
    RECRAWL = "recrawl"


ACTION_VERDICTS = {
    ReviewAction.GOOD: QaVerdict.GOOD,
    ReviewAction.BAD: QaVerdict.BROKEN,
    ReviewAction.CLEAR: QaVerdict.UNCHECKED,
}


class ReviewActions:
    """Does it. From any thread.

    Args:
        registry: gives the registry.
        clock: tells when.
    """

    def __init__(self, registry: Callable[[], RegistryStore], clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._writers = threading.BoundedSemaphore(_WRITERS)

    def do(self, act: ReviewAction, page_id: str, level: str, *, by: str, note: str) -> bool:
        """Do it; False when nothing is known of the capture any more.

        Raises:
            TransientError: the registry does not answer; nothing was done.
        """
        now = self._clock.now()
        with self._writing() as rows:
            if act is ReviewAction.RECRAWL:
                # What waits already goes on waiting, and what is under way is not begun again.
                known = find_checks(rows, [page_id])
                waits = any(row.repair in PENDING_REPAIRS for row in known)
                return waits or want_repair(rows, page_id, level, now=now)
            return record_review(
                rows, page_id, level, ACTION_VERDICTS[act], by=by, note=note, now=now
            )

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A connection that writes; when others wait for one already, nobody waits long."""
        if not self._writers.acquire(timeout=_PATIENCE_S):
            raise TransientError("The link registry is being written to.")
        try:
            with self._registry().writing() as rows:
                yield rows
        finally:
            self._writers.release()


def active_actions(row: CheckedPage) -> list[ReviewAction]:
    """Which of the buttons are down."""
    down = {
        ReviewAction.GOOD: row.review is QaVerdict.GOOD,
        ReviewAction.BAD: row.review is QaVerdict.BROKEN,
        ReviewAction.RECRAWL: row.repair in PENDING_REPAIRS,
    }
    return [act for act, is_down in down.items() if is_down]
