"""The SQLite frontier's counts: in all, by job, by minute. Kept up to date, never counted anew."""
# ruff: noqa: S608 - only names of columns are pieced together; values are parameters

import sqlite3
from collections import Counter
from collections.abc import Sequence

from core.timestamps import moment as to_moment
from crawler.frontier.base import FrontierStats, ItemState, JobCounts, Minute

_MINUTE_MS = 60_000
_MINUTES_KEPT = 60
_ENDED = (ItemState.DONE, ItemState.SKIPPED, ItemState.DEAD)


class Tally:
    """What one transaction changes in the counts, written at its end.

    Every move of an item from one state to another is told once.
    """

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter()
        self._jobs: dict[int, Counter[str]] = {}
        self._ended: Counter[str] = Counter()
        self._rest_ms = 0

    def moved(
        self, job_id: int, old: ItemState | None, new: ItemState | None, count: int = 1
    ) -> None:
        """Items of a job went from one state to another; None: they came anew, or are history."""
        job = self._jobs.setdefault(job_id, Counter())
        for state, by in ((old, -count), (new, count)):
            if state is not None:
                self._totals[state] += by
                job[state] += by
        if new in _ENDED:
            self._ended[new] += count

    def stored(self, job_id: int, count: int) -> None:
        """A completed item of the job stored so many bytes."""
        for counts in (self._totals, self._jobs.setdefault(job_id, Counter()), self._ended):
            counts["bytes"] += count

    def count(self, name: str, by: int = 1) -> None:
        """Another column of `totals` changed."""
        self._totals[name] += by

    def rested(self, until_ms: int) -> None:
        """A host rests until then."""
        self._rest_ms = max(self._rest_ms, until_ms)

    def write(self, db: sqlite3.Connection, now_ms: int) -> None:
        """Add all of it to the books; what ended did so at that moment."""
        _add(db, "UPDATE totals SET {}", self._totals)
        if self._rest_ms:
            db.execute("UPDATE totals SET rest_ms = ?1 WHERE rest_ms < ?1", (self._rest_ms,))
        for job_id, counts in self._jobs.items():
            _add(db, "UPDATE jobs SET {} WHERE id = ?", counts, job_id)
        if any(self._ended.values()):
            minute = now_ms // _MINUTE_MS
            if not _add(db, "UPDATE minutes SET {} WHERE minute = ?", self._ended, minute):
                names = (*_ENDED, "bytes")
                db.execute(
                    f"INSERT INTO minutes (minute, {', '.join(names)}) VALUES (?, ?, ?, ?, ?)",
                    (minute, *(self._ended[name] for name in names)),
                )
                db.execute("DELETE FROM minutes WHERE minute < ?", (minute - _MINUTES_KEPT,))


def _add(db: sqlite3.Connection, query: str, counts: Counter[str], *where: int) -> bool:
    changes = {name: by for name, by in counts.items() if by}
    if not changes:
        return False
    terms = ", ".join(f"{name} = {name} + ?" for name in changes)
    return db.execute(query.format(terms), (*changes.values(), *where)).rowcount > 0


def job_id(db: sqlite3.Connection, job: str, now_ms: int) -> int:
    """The job's number; a new job begins now."""
    row = db.execute("SELECT id FROM jobs WHERE job = ?", (job,)).fetchone()
    if row is not None:
        return int(row[0])
    made = db.execute("INSERT INTO jobs (job, began_ms) VALUES (?, ?)", (job, now_ms))
    return made.lastrowid or 0


def paused(db: sqlite3.Connection) -> str | None:
    """Why claims are paused; None when they are not."""
    reason: str | None = db.execute("SELECT paused FROM totals").fetchone()[0]
    return reason


def stats(db: sqlite3.Connection, now_ms: int) -> FrontierStats:
    """The counts; claims whose lease ran out count as queued."""
    (expired,) = db.execute("SELECT count(*) FROM claims WHERE lease_ms <= ?", (now_ms,)).fetchone()
    queued, claimed, *rest = db.execute(
        "SELECT queued, claimed, done, skipped, dead, later, due, duplicates, hosts, bytes, "
        "version, paused FROM totals"
    ).fetchone()
    return FrontierStats(queued + expired, claimed - expired, *rest)


def counts(db: sqlite3.Connection) -> dict[ItemState, int]:
    """Items by state."""
    numbers = db.execute(f"SELECT {', '.join(ItemState)} FROM totals").fetchone()
    return dict(zip(ItemState, numbers, strict=True))


def job_counts(db: sqlite3.Connection, job: str) -> JobCounts:
    """One job's counts; zeros for one that is unknown."""
    row = db.execute(
        "SELECT queued, claimed, done, skipped, dead, bytes, began_ms FROM jobs WHERE job = ?",
        (job,),
    ).fetchone()
    if row is None:
        return JobCounts(0, 0, 0, 0, 0, 0, None)
    queued, claimed, done, skipped, dead, stored, began_ms = row
    return JobCounts(queued, claimed, done, skipped, dead, stored, to_moment(began_ms))


def minutes(db: sqlite3.Connection, now_ms: int, count: int) -> Sequence[Minute]:
    """The last `count` minutes, oldest first."""
    last = now_ms // _MINUTE_MS
    first = last + 1 - max(min(count, _MINUTES_KEPT), 0)
    rows = db.execute(
        "SELECT minute, done, skipped, dead, bytes FROM minutes WHERE minute BETWEEN ? AND ?",
        (first, last),
    )
    found = {row[0]: row[1:] for row in rows}
    return [
        Minute(to_moment(minute * _MINUTE_MS), *found.get(minute, (0, 0, 0, 0)))
        for minute in range(first, last + 1)
    ]
