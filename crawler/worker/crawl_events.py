"""Crawl events and the crawl log.

The log is rotated at `CRAWL_LOG_LIMIT_BYTES` and by `weboid queue snapshot` (U20). A line is written with one call to a
file opened for appending, so several processes may share a log on one machine, and no rotation splits or loses a line.
"""

from __future__ import annotations

import itertools
import json
import os
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from core.clock import Clock
from core.errors import DiskFullError, UnavailableError, is_disk_full
from core.json_values import json_facts
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import timestamp14, warc_date
from net.backoff import WaitEnded, WaitStarted
from warc.local_storage import locked_folder

if TYPE_CHECKING:
    from core.playback_check import QaVerdict


@dataclass(frozen=True, slots=True)
class PageDone:
    """Event: a page was archived, or given up."""

    url: str  # the page
    page: PageInfo | None  # its manifest; None when there is none
    error: str  # why it was given up; empty when it was not
    attempts: int  # number of attempts


@dataclass(frozen=True, slots=True)
class PageSkipped:
    """Event: a page was skipped by a rule, with the reason."""

    url: str
    reason: str


@dataclass(frozen=True, slots=True)
class PageDeferred:
    """Event: a claimed page was deferred until a moment, with the reason."""

    url: str
    reason: str
    until: datetime


@dataclass(frozen=True, slots=True)
class PageRetried:
    """Event: a visit failed and will be tried again."""

    url: str
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class LinksAdded:
    """Event: links of a page were added to the frontier, with the number of new URLs."""

    url: str
    count: int


@dataclass(frozen=True, slots=True)
class PageChecked:
    """Event: a copy was checked."""

    url: str  # the page
    page_id: str  # the checked capture
    level: str  # of playback
    verdict: QaVerdict  # the check's verdict
    score: float | None  # from 0 to 1; None when nothing could be compared
    reason: str  # a sentence; empty for a good copy


@dataclass(frozen=True, slots=True)
class PageRepaired:
    """Event: the repair of a capture with a broken copy has ended."""

    url: str  # the page
    page_id: str  # the broken capture
    state: str  # the result, a `qa.check_store.RepairState`
    reason: str  # a sentence
    repair_page_id: str  # the new capture; empty without one


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Event: counts of the whole frontier, every few seconds."""

    queued: int  # as in `FrontierStats`
    claimed: int
    done: int
    skipped: int
    dead: int
    per_minute: float  # pages that ended per minute, recently
    paused: str | None = None  # why claims are paused; None when they are not


@dataclass(frozen=True, slots=True)
class IndexRestored:
    """Event: closed WARCs missing from the captures index are being indexed again; `text` names them."""

    text: str


@dataclass(frozen=True, slots=True)
class SnapshotMade:
    """Event: a shared frontier's snapshot was made at that moment; crawl logs are rotated."""

    at: datetime


@dataclass(frozen=True, slots=True)
class FileRecovered:
    """Event: a proxy recovered an interrupted WARC."""

    text: str  # description of the recovery
    lost: bool  # whether stored records cannot be read any more
    facts: dict[str, Any]  # the same as JSON values

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Self:
        """Build the event from `warc.recovery.WarcRecovery.to_dict`."""
        return cls(facts["text"], bool(facts["lost_bytes"] or facts["lost_records"]), facts)


@dataclass(frozen=True, slots=True)
class DiskSpaceLow:
    """Event: no page starts, since less than the reserve is free."""

    free_bytes: int  # on the collection's disk
    wanted_bytes: int  # free bytes needed to continue


@dataclass(frozen=True, slots=True)
class DiskSpaceRestored:
    """Event: there is enough disk space again, after this many seconds."""

    seconds: float


PageEvent = PageDone | PageSkipped | PageRetried | PageDeferred | LinksAdded | PageChecked | PageRepaired
StoreEvent = DiskSpaceLow | DiskSpaceRestored | FileRecovered | IndexRestored | SnapshotMade
Event = PageEvent | StoreEvent | QueueStatus | WaitStarted | WaitEnded


CRAWL_LOG_LIMIT_BYTES = 256 << 20
_LINE_LIMIT_BYTES = 1 << 20
RETRY = "retry"  # in addition to the outcomes: the visit failed and will be tried again


@dataclass(eq=False, repr=False)
class CrawlLog:
    """Append-only log at `path`, created when it is missing, in a folder that exists; one writer per process."""

    path: Path
    _: KW_ONLY
    clock: Clock
    limit_bytes: int = CRAWL_LOG_LIMIT_BYTES
    _file: int | None = field(default=None, init=False)

    def close(self) -> None:
        """Close the file; the next event opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def note(self, event: Event) -> None:
        """Write the line of an event that ended an attempt; DiskFullError, UnavailableError if it cannot be written."""
        if isinstance(event, SnapshotMade):
            rotate_crawl_log(self.path, now=event.at, older=True)
            return
        line = crawl_log_line(event, now=self.clock.now())
        if line is None:
            return
        data = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
        try:
            file = self._current()
            size = os.fstat(file).st_size
            if size and size + len(data) > self.limit_bytes:
                rotate_crawl_log(self.path, now=self.clock.now(), only=file)
            os.write(self._current(), data)
        except OSError as error:
            if is_disk_full(error):
                raise DiskFullError(f"The disk that holds {self.path} is full: free some space.") from error
            raise UnavailableError(f"{self.path} cannot be written: {error.strerror or error}.") from error

    def _current(self) -> int:
        """Return a descriptor of the file now at the path, reopened after a rotation by any process."""
        if self._file is not None and not _is_at(self._file, self.path):
            self.close()
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o644)
        return self._file


def rotate_crawl_log(path: Path, *, now: datetime, only: int | None = None, older: bool = False) -> Path | None:
    """Rename the log to include the moment, under a lock; return the new path, None when there is nothing to rename.

    Nothing is done when another file than the descriptor `only` is at the path by now; with `older` (all workers that
    share a folder get a snapshot's event), unless the log was begun before the moment. Raises UnavailableError.
    """
    try:
        with locked_folder(path.parent):
            if not path.exists() or (only is not None and not _is_at(only, path)):
                return None
            if older:
                with path.open("rb") as file:
                    line = file.readline(_LINE_LIMIT_BYTES)
                with suppress(ValueError, KeyError, TypeError):
                    if str(json.loads(line)["time"]) >= warc_date(now):
                        return None
            stem = f"{path.stem}-{timestamp14(now)}"
            names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(1)))
            candidates = (path.with_name(f"{name}{path.suffix}") for name in names)
            target = next(each for each in candidates if not each.exists())
            path.rename(target)
            return target
    except OSError as error:
        raise UnavailableError(f"{path} cannot be rotated: {error.strerror or error}.") from error


def crawl_log_line(event: Event, *, now: datetime) -> dict[str, Any] | None:
    """Return an event's log line: time, outcome, status, URL and reason; None for other events."""
    page = None
    facts: dict[str, Any] = {"time": warc_date(now)}
    match event:
        case PageRetried():
            facts |= {"outcome": RETRY, "url": event.url, "reason": event.reason, "attempt": event.attempts}
        case PageSkipped():
            facts |= {"outcome": str(VisitOutcome.SKIPPED), "url": event.url, "reason": event.reason}
        case PageDone():
            page = event.page
            ended = page.outcome if page else VisitOutcome.COMPLETE
            outcome = str(VisitOutcome.FAILED if event.error else ended)
            reason = event.error or (page.reason if page else "")
            facts |= {"outcome": outcome, "url": event.url, "reason": reason, "attempt": event.attempts}
        case _:
            return None
    if page is not None:
        facts |= {
            **json_facts(page, "status final_url mime records seconds page_id", bytes="stored_bytes"),
            "class": page.page_class,
        }
    return facts


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
