"""What happens while a crew works, as values; whoever shows a run matches on them."""

from dataclasses import dataclass
from datetime import datetime

from core.pages import PageInfo
from crawler.space import Paused, Resumed
from crawler.supervisor import FileRecovered
from crawler.waiting import GoingOn, Waiting


@dataclass(frozen=True, slots=True)
class PageDone:
    """A page is over: archived, or given up.

    Attributes:
        url: the page.
        page: its manifest; None when there is none.
        error: why it was given up; empty when it was not.
        attempts: how often it was tried.
    """

    url: str
    page: PageInfo | None
    error: str
    attempts: int


@dataclass(frozen=True, slots=True)
class PageSkipped:
    """A page was not archived on purpose, and why."""

    url: str
    reason: str


@dataclass(frozen=True, slots=True)
class PagePutOff:
    """A page is not visited now, although its turn has come, and why; not before that moment."""

    url: str
    reason: str
    until: datetime


@dataclass(frozen=True, slots=True)
class PageTriedAgain:
    """A page did not work and will be tried again."""

    url: str
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class LinksAdded:
    """URLs that a page links to joined the frontier; so many were new."""

    url: str
    count: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How the whole frontier stands, every few seconds.

    Attributes:
        queued, claimed, done, skipped, dead: as in `FrontierStats`.
        per_minute: pages that ended in a minute, lately.
        paused: why claims are paused; None when they are not.
    """

    queued: int
    claimed: int
    done: int
    skipped: int
    dead: int
    per_minute: float
    paused: str | None = None


Event = (
    PageDone
    | PageSkipped
    | PageTriedAgain
    | PagePutOff
    | LinksAdded
    | Standing
    | Paused
    | Resumed
    | Waiting
    | GoingOn
    | FileRecovered
)
