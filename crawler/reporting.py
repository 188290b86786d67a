"""What a collection holds, read without disturbing whoever writes it."""

import contextlib
import fcntl
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from core.clock import Clock
from core.errors import UnavailableError
from core.layout import OPEN_SUFFIX, Layout
from core.pages import Outcome
from core.settings import Settings
from crawler.frontier.base import Frontier
from crawler.overview import Overview, overview, plain
from proxy.index.opening import open_index, unindexed

KEPT_S = 0.5  # who asks twice within so long is told the same
COUNTING_SHARE = 20
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Holdings:
    """What lies in a collection's folder.

    Attributes:
        root: the folder.
        in_use: whether a process writes it.
        outcomes: pages by outcome.
        responses, revisits, artifacts: records by kind.
        warcs: files, those being written included.
        warc_bytes: their size.
        free_bytes: on the disk that holds them.
        reserve_bytes: no page begins when less is free.
        classes: pages by class (`core.classes`); what was not judged has the empty name.
        unindexed: closed WARCs that the collection's own index does not wholly cover.
    """

    root: str
    in_use: bool
    outcomes: dict[str, int]
    responses: int
    revisits: int
    artifacts: int

    warcs: int
    warc_bytes: int
    free_bytes: int
    reserve_bytes: int
    classes: dict[str, int] = field(default_factory=dict)
    unindexed: int = 0

    @property
    def bytes_per_page(self) -> int | None:
        """Stored bytes by page, parts that pages share counted once; None without a page."""
        pages = sum(self.outcomes.get(each, 0) for each in (Outcome.COMPLETE, Outcome.PARTIAL))
        return round(self.warc_bytes / pages) if pages else None


@dataclass(frozen=True, slots=True)
class Checks:
    """What looks at copies found (`crawler.quality`), and what became of it.

    Attributes:
        verdicts: copies by the verdict that counts; a person's goes before the machine's.
        per_minute: looks a minute by verdict, over the last so many minutes.
        repairs: pages by how their repair stands.
        repairs_per_minute: repairs that ended a minute, by how, over the last so many minutes.
        unrecorded: checks that are not in a WARC yet as they are.
    """

    verdicts: dict[str, int]
    per_minute: dict[int, dict[str, float]]
    repairs: dict[str, int]
    repairs_per_minute: dict[int, dict[str, float]]
    unrecorded: int


@dataclass(frozen=True, slots=True)
class Status:
    """A collection, its frontier, or both at a moment.

    Attributes:
        at: the moment.
        holdings: None when there is only a frontier that machines share.
        frontier: None when the collection has none yet.
        checks: None when there is no link registry, where they are kept.
    """

    at: datetime
    holdings: Holdings | None
    frontier: Overview | None
    checks: Checks | None = None

    def to_dict(self) -> dict[str, Any]:
        """The status as JSON values: the collection's on top, with the frontier's main counts."""
        found: dict[str, Any] = {"at": self.at.isoformat()}
        if self.holdings is not None:
            found |= asdict(self.holdings)
            found["bytes_per_page"] = self.holdings.bytes_per_page
        stats = self.frontier.stats if self.frontier is not None else None
        for name in ("queued", "claimed", "done", "skipped", "dead"):
            found[name] = getattr(stats, name) if stats is not None else 0
        found["dead_letters"] = self.frontier.dead_letters if self.frontier is not None else ()
        found["frontier"] = self.frontier.to_dict() if self.frontier is not None else None
        found["checks"] = plain(asdict(self.checks)) if self.checks is not None else None
        return found


def status_of(
    layout: Layout | None, frontier: Frontier | None, *, settings: Settings, now: datetime
) -> Status:
    """The status at `now`.

    Args:
        layout: of a collection that exists; None when there is none here.
        frontier: its own, or a shared one; None when there is none yet.
        settings: the profile: where the index is, and what is kept free.
        now: the moment.

    Raises:
        CollectionVersionError: a store was made by another version.
        UnavailableError: the frontier does not answer.
    """
    return Status(
        at=now,
        holdings=None if layout is None else holdings(layout, settings),
        frontier=None if frontier is None else overview(frontier, now=now),
    )


class StatusReader:
    """Reads the status again and again, for as many as ask, at a bounded cost. Thread-safe.

    The frontier's part is always as cheap. Index and registry count their rows, which takes longer the
    more there are, so each is asked so seldom that it takes no more than a twentieth of the time.
    """

    def __init__(
        self,
        layout: Layout | None,
        frontier: Callable[[], Frontier | None],
        *,
        settings: Settings,
        clock: Clock,
        checks: Callable[[datetime], Checks | None] = lambda _now: None,
    ) -> None:
        """Take what `status_of` takes; `frontier` and `checks` are asked each time: both may come later."""
        self._layout = layout
        self._frontier = frontier
        self._clock = clock
        self._lock = threading.Lock()
        self._status: Status | None = None
        self._read_at = float("-inf")
        self._holdings = _Seldom(
            clock, lambda: None if layout is None else holdings(layout, settings)
        )
        self._checks = _Seldom(clock, lambda: checks(clock.now()))

    def status(self) -> Status:
        """The status, `KEPT_S` old at most but for what the index counts.

        Raises:
            CollectionVersionError, UnavailableError: as `status_of`.
        """
        with self._lock:
            began = self._clock.monotonic()
            if self._status is not None and began - self._read_at < KEPT_S:
                return self._status
            frontier = self._frontier()
            now = self._clock.now()
            self._status = Status(
                at=now,
                holdings=self._current_holdings(),
                frontier=None if frontier is None else overview(frontier, now=now),
                checks=self._checks.read(),
            )
            self._read_at = self._clock.monotonic()
            return self._status

    def _current_holdings(self) -> Holdings | None:
        if self._layout is None:
            return None
        found = self._holdings.read()
        assert found is not None
        return replace(found, in_use=in_use(self._layout), free_bytes=_free(self._layout))


class _Seldom(Generic[_T]):
    """What takes the longer the more there is, read so seldom that it takes a share of the time at most."""

    def __init__(self, clock: Clock, read: Callable[[], _T]) -> None:
        self._clock = clock
        self._read = read
        self._found: tuple[_T] | None = None
        self._until = float("-inf")

    def read(self) -> _T:
        """What was read last, or is now."""
        began = self._clock.monotonic()
        if self._found is None or began >= self._until:
            self._found = (self._read(),)
            ended = self._clock.monotonic()
            self._until = ended + COUNTING_SHARE * (ended - began)
        return self._found[0]


def holdings(layout: Layout, settings: Settings) -> Holdings:
    """What lies in the collection.

    Raises:
        CollectionVersionError: its index was made by another version.
        UnavailableError: the folder is gone, or the index does not answer.
    """
    counts, outcomes, classes = _captured(layout, settings)
    sizes = [_size(path) for path in layout.archive.glob("*.warc.gz*")]
    return Holdings(
        root=str(layout.root),
        in_use=in_use(layout),
        outcomes=outcomes,
        classes=classes,
        unindexed=0 if settings.index.url else len(unindexed(layout)),
        responses=counts.get("captures.response", 0),
        revisits=counts.get("captures.revisit", 0),
        artifacts=counts.get("captures.resource", 0),
        warcs=len(sizes),
        warc_bytes=sum(sizes),
        free_bytes=_free(layout),
        reserve_bytes=settings.proxy.disk_reserve_bytes,
    )


def _free(layout: Layout) -> int:
    """What is free on the collection's disk."""
    try:
        return shutil.disk_usage(layout.root).free
    except OSError as error:
        raise UnavailableError(
            f"{layout.root} cannot be read: {error.strerror or error}."
        ) from error


def _size(path: Path) -> int:
    """The file's size, also when it is closed, and so renamed, between two looks."""
    for name in (path, path.with_name(path.name.removesuffix(OPEN_SUFFIX))):
        with contextlib.suppress(FileNotFoundError):
            return name.stat().st_size
    return 0


def in_use(layout: Layout) -> bool:
    """Whether a process, or a cluster, holds the collection's lock."""
    try:
        descriptor = os.open(layout.lock, os.O_RDWR)  # NFS asks for it
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if layout.proxies.is_dir() and any(layout.proxies.iterdir()):  # there is, or was, a cluster
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def _captured(layout: Layout, settings: Settings) -> tuple[dict[str, int], ...]:
    if not settings.index.url and not layout.captures_db.exists():
        return {}, {}, {}
    with closing(open_index(layout, settings.index)) as index:
        return index.counts(), index.outcomes(), index.classes()
