"""Helpers of the tests of every frontier: a location, some items, short questions.

An implementation joins the contract suite and the model by a `FrontierLocation` of its own: see `conftest`.
"""

import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from core.config.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.base import Frontier, FrontierItem, ItemState, NewItem
from crawler.frontier.sqlite_database import SUPERSEDED
from crawler.frontier.sqlite_frontier import SqliteFrontier

A1, A2, A3 = (NewItem(f"https://a.example.org/{page}") for page in (1, 2, 3))
B1, B2 = (NewItem(f"https://b.example.org/{page}") for page in (1, 2))
C1 = NewItem("https://c.example.org/1")
A, B, C = "a.example.org", "b.example.org", "c.example.org"
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
ALL_THAT_ENDED = timedelta(0)
LEASE = timedelta(seconds=FrontierSettings().lease_s)
NO_DELAY = PolitenessSettings(delay_factor=0, min_delay_s=0, max_delay_s=0)


class FrontierLocation(Protocol):
    """Location of one frontier; empty at first.

    Attributes:
        cuts_rests_at_once: after a clock was put back the next claim cuts every host's rest, not
            only those of hosts that something waits for.
    """

    cuts_rests_at_once: bool

    def open(self, politeness: PolitenessSettings | None = None, settings: FrontierSettings | None = None) -> Frontier:
        """Open the frontier that is stored here, as another process would."""
        ...

    def age(self, items: int) -> None:
        """Let it look as if so many items had come and gone, without the wait."""
        ...


class SqlitePlace:
    """A file."""

    cuts_rests_at_once = True

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, politeness: PolitenessSettings | None = None, settings: FrontierSettings | None = None) -> Frontier:
        """See `FrontierLocation`."""
        return SqliteFrontier(self._path, politeness=politeness, settings=settings)

    def age(self, items: int) -> None:
        """See `FrontierLocation`."""
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute(
                "INSERT INTO items (seq, id, url, host_id, job_id, lane, place, hops, hops_off, "
                "via, memo, ended, added_ms) "
                "SELECT ifnull(max(seq), 0) + ?, x'00', '', 0, 0, 2, 0, 0, 0, '', '', ?, 0 "
                "FROM items",
                (items, SUPERSEDED),
            )


def claim_one(frontier: Frontier, now: datetime, worker: str = "w") -> FrontierItem:
    """Claim up to ten items and return the only one there is."""
    (item,) = frontier.claim(now=now, worker=worker, limit=10)
    return item


def claimed_urls(frontier: Frontier, now: datetime, limit: int = 10) -> list[str]:
    """Claim items and return their URLs."""
    return [item.url for item in frontier.claim(now=now, worker="w", limit=limit)]


def state_of(frontier: Frontier, url: str) -> ItemState | None:
    """Return the state of the URL; None when the frontier does not know it."""
    record = frontier.find(url)
    return None if record is None else record.state


def visit(frontier: Frontier, now: datetime, **ending: object) -> FrontierItem:
    """Claim the first item and complete it."""
    (item,) = frontier.claim(now=now, worker="w", limit=1)
    assert frontier.complete(item, now=now, **{"outcome": "ok", **ending})  # type: ignore[arg-type]
    return item


def work_off(frontier: Frontier, now: datetime) -> list[str]:
    """Complete one item after the other, each a minute after the last; URLs in that order."""
    order = []
    while items := frontier.claim(now=now, worker="w"):
        order.append(items[0].url)
        assert frontier.complete(items[0], now=now, outcome="ok")
        now += MINUTE
    return order
