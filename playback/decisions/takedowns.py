"""Take-downs: what must not be shown, and why (P-22)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class TakedownKind(StrEnum):
    """What a take-down names."""

    URL = "url"
    PREFIX = "prefix"
    HOST = "host"
    CAPTURE = "capture"
    DIGEST = "digest"


class Effect(StrEnum):
    """What a reader is told."""

    BLOCK = "block"  # 451, with the public reason; still listed
    HIDE = "hide"  # as if it had never been captured


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be shown: a record, or a page.

    Attributes:
        url: its URL; of an artifact the ``urn:``, which stands for the URL within it.
        timestamp: its moment, 14 digits.
        digest: its payload's; empty when none is known.
        page_id: the page it was captured for; empty when none is known.
    """

    url: str
    timestamp: str = ""
    digest: str = ""
    page_id: str = ""


@dataclass(frozen=True, slots=True)
class Takedown:
    """One decision that something must not be shown.

    Attributes:
        reason: for readers, when the effect is to block.
        ticket: where it was asked for; not for readers.
        actor: who decided.
        expires_at: when it ends by itself; None: never.
    """

    number: int
    kind: TakedownKind
    what: str
    timestamp: str
    effect: Effect
    reason: str
    ticket: str
    actor: str
    decided_at: datetime
    expires_at: datetime | None


class Takedowns:
    """All that hold now, ready to be asked for each record."""

    def __init__(self, takedowns: Iterable[Takedown]) -> None:
        self._takedowns = tuple(takedowns)

    def on(self, subject: Subject) -> Takedown | None:
        """The take-down that holds for the subject, hiding before blocking; None: it may be shown."""
        del subject
        return None
