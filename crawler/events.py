"""What happens while a crew works, as values; whoever shows a run matches on them."""

from dataclasses import dataclass
from datetime import datetime

from core.pages import PageInfo
from core.quality import Verdict
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
class PageChecked:
    """A copy was looked at.

    Attributes:
        url: the page.
        page_id: which capture of it.
        level: of playback.
        verdict: what is to be thought of the copy.
        score: from 0 to 1; None when nothing could be compared.
        reason: a sentence; empty when all is well.
    """

    url: str
    page_id: str
    level: str
    verdict: Verdict
    score: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class PageRepaired:
    """A capture whose copy was broken was made again, or cannot be.

    Attributes:
        url: the page.
        page_id: the capture that was broken.
        state: how it ended, as `links.books.quality.RepairState` says it.
        reason: a sentence.
        repair_page_id: the new capture; empty when none came about.
    """

    url: str
    page_id: str
    state: str
    reason: str
    repair_page_id: str


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


@dataclass(frozen=True, slots=True)
class IndexRestored:
    """Closed WARCs that the captures index did not cover are being indexed again; `text` says which."""

    text: str


@dataclass(frozen=True, slots=True)
class SnapshotMade:
    """The frontier that machines share was copied at that moment: crawl logs begin anew."""

    at: datetime


Event = (
    PageDone
    | PageSkipped
    | PageTriedAgain
    | PagePutOff
    | LinksAdded
    | PageChecked
    | PageRepaired
    | Standing
    | Paused
    | Resumed
    | Waiting
    | GoingOn
    | FileRecovered
    | IndexRestored
    | SnapshotMade
)
