"""Reviewers: authorization, and the actions of their buttons.

A review can change the copy that readers are offered, so it needs authorization: a client address
in a configured network, or a token, sent as ``Authorization: Bearer …`` or, in a browser, as the
password of any user name. Both are off by default.
"""

import base64
import binascii
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from starlette.requests import Request

from core.clock import Clock
from core.playback_check import QaVerdict
from links.registry.database import RegistryStore
from playback.web.rate_limits import ClientAddresses, Network, within
from playback.web.registry.registry_service import RegistryWriters
from qa.check_store import find_checks, record_review, want_repair
from qa.check_table import CheckedPage, RepairState

MOST_NAME = 255  # characters
CHALLENGE = {"WWW-Authenticate": 'Basic realm="Weboid quality", charset="UTF-8"'}


@dataclass(frozen=True, slots=True)
class ReviewerRules:
    """Rules for reviewers."""

    readers: ClientAddresses = field(default_factory=ClientAddresses)
    networks: tuple[Network, ...] = ()  # networks whose clients may review
    token: str = field(default="", repr=False)  # token of other reviewers; empty: none

    def name_of(self, request: Request) -> str | None:
        """Return the reviewer's user name, maybe empty; None: not authorized."""
        kind, _, credentials = request.headers.get("authorization", "").partition(" ")
        name, token = "", credentials.strip()
        if kind.lower() == "basic":
            try:
                login = base64.b64decode(token, validate=True).decode()
            except (binascii.Error, ValueError):
                login = ""
            name, _, token = login.partition(":")
        elif kind.lower() != "bearer":
            token = ""
        same = hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        if self.token and same:
            return name[:MOST_NAME]
        if not self.networks or self.readers.is_relayed(request):
            return None
        return "" if within(self.readers.address_of(request), self.networks) else None


_WRITERS = 2
PENDING_REPAIRS = frozenset({RepairState.WANTED, RepairState.BEGUN})


class ReviewAction(StrEnum):
    """Action of a reviewer's button."""

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
    """Executor of actions. Thread-safe."""

    def __init__(self, registry: Callable[[], RegistryStore], clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._writers = RegistryWriters(_WRITERS)

    def do(self, act: ReviewAction, page_id: str, level: str, *, by: str, note: str) -> bool:
        """Execute the action; False when the capture is no longer known."""
        now = self._clock.now()
        with self._writers.waiting(), self._registry().writing() as rows:
            if act is ReviewAction.RECRAWL:
                # A pending repair is neither reset nor started again.
                waits = any(row.repair in PENDING_REPAIRS for row in find_checks(rows, [page_id]))
                return waits or want_repair(rows, page_id, level, now=now)
            return record_review(rows, page_id, level, ACTION_VERDICTS[act], by=by, note=note, now=now)


def active_actions(row: CheckedPage) -> list[ReviewAction]:
    """Return the actions that are in effect."""
    reviewed = [act for act in (ReviewAction.GOOD, ReviewAction.BAD) if row.review is ACTION_VERDICTS[act]]
    return [*reviewed, ReviewAction.RECRAWL] if row.repair in PENDING_REPAIRS else reviewed
