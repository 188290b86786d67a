"""What a collection holds, read without disturbing whoever writes it."""

import fcntl
import os
import shutil
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from core.layout import Layout
from core.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.base import FrontierStats, ItemState
from crawler.frontier.sqlite import SqliteFrontier
from proxy.index.sqlite import SqliteCaptureIndex

DEAD_LETTERS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Status:
    """A collection at a moment.

    Attributes:
        in_use: whether a process writes it.
        outcomes: pages by outcome.
        dead_letters: the latest pages given up, with the last reason.
        free_bytes: on the disk that holds the WARCs.
    """

    root: str
    in_use: bool
    outcomes: dict[str, int]
    queued: int
    claimed: int
    done: int
    dead: int
    dead_letters: tuple[tuple[str, str], ...]
    responses: int
    revisits: int
    artifacts: int
    warcs: int
    warc_bytes: int
    free_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The status as JSON values."""
        return asdict(self)


def status_of(layout: Layout, *, now: datetime) -> Status:
    """The collection's status.

    Raises:
        CollectionVersionError: a store was made by another version.
    """
    counts, outcomes = _captured(layout)
    books, dead_letters = _frontier(layout, now)
    sizes = [path.stat().st_size for path in layout.archive.glob("*.warc.gz*")]
    return Status(
        root=str(layout.root),
        in_use=in_use(layout),
        outcomes=outcomes,
        queued=books.queued if books else 0,
        claimed=books.claimed if books else 0,
        done=books.done if books else 0,
        dead=books.dead if books else 0,
        dead_letters=dead_letters,
        responses=counts.get("captures.response", 0),
        revisits=counts.get("captures.revisit", 0),
        artifacts=counts.get("captures.resource", 0),
        warcs=len(sizes),
        warc_bytes=sum(sizes),
        free_bytes=shutil.disk_usage(layout.root).free,
    )


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


def _captured(layout: Layout) -> tuple[dict[str, int], dict[str, int]]:
    if not layout.captures_db.exists():
        return {}, {}
    index = SqliteCaptureIndex(layout.captures_db)
    try:
        return index.counts(), index.outcomes()
    finally:
        index.close()


def _frontier(
    layout: Layout, now: datetime
) -> tuple[FrontierStats | None, tuple[tuple[str, str], ...]]:
    if not layout.frontier_db.exists():
        return None, ()
    with SqliteFrontier(
        layout.frontier_db, settings=FrontierSettings(), politeness=PolitenessSettings()
    ) as frontier:
        dead = frontier.ls(ItemState.DEAD, limit=DEAD_LETTERS_SHOWN)
        letters = ((each.item.url, each.attempts[-1].reason) for each in dead if each.attempts)
        return frontier.stats(now), tuple(letters)
