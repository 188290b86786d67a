"""What is known of a URL that has no copy: the reader's other four answers (A09).

The frontier's books are the crawler's, which playback does not know; whoever starts the front may
hand it a `Status` that reads them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class Standing(StrEnum):
    """Where a URL stands."""

    QUEUED = "queued"  # to be visited
    VISITING = "visiting"  # right now
    REFUSED = "refused"  # not to be visited: its site, a rule or an operator said so
    FAILED = "failed"  # attempts were made, and are used up
    DONE = "done"  # visited; the copy is in the index, or was taken out of it


@dataclass(frozen=True, slots=True)
class Attempted:
    """An attempt that brought nothing: when it ended, and why."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """What the books say about a URL.

    Attributes:
        standing: where it stands.
        since: since when.
        until: QUEUED: not before; REFUSED: until then; None: nobody set a moment.
        reason: why, a constant first, e.g. ``robots: …``; empty when there is nothing to say.
        attempts: what was tried, oldest first.
    """

    standing: Standing
    since: datetime
    until: datetime | None = None
    reason: str = ""
    attempts: Sequence[Attempted] = ()

    @property
    def is_waiting(self) -> bool:
        """Return whether it was tried, and waits for its site until the next attempt."""
        return self.standing is Standing.QUEUED and bool(self.attempts)


class Status(Protocol):
    """Who knows the books. From any thread; `standing` is asked once for a page that a reader opens."""

    def standing(self, url: str) -> QueueStanding | None:
        """Where the URL stands; None when it was never added.

        Raises:
            TransientError: the books cannot be read at the moment.
        """
        ...

    def standings(self, urls: Sequence[str]) -> Mapping[str, QueueStanding]:
        """Where those of the URLs stand of which there is something to be said; one look for all.

        What holds for their hosts is not looked at: `QueueStanding.until` is the URL's own.

        Raises:
            TransientError: the books cannot be read at the moment.
        """
        ...
