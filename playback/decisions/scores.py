"""Scores: how much of a page its copy showed when it was looked at (A20)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from core.timestamps import milliseconds, moment
from playback.decisions.store import DecisionStore, Values


@dataclass(frozen=True, slots=True)
class PageScore:
    """What a comparison of the copy with the capture's screenshot said.

    Attributes:
        url: of the page.
        timestamp: its capture's, 14 digits.
        level: the one that was looked at.
        version: of the sanitiser.
        score: from 0 to 1; `playback.scoring`.
        scored_at: when.
    """

    url: str
    timestamp: str
    level: str
    version: int
    score: float
    scored_at: datetime


def score_changes(scores: Iterable[PageScore]) -> list[tuple[str, Values]]:
    """The changes that keep these scores, each in place of an older one."""
    values = [
        {
            "url": each.url,
            "timestamp": each.timestamp,
            "level": each.level,
            "version": each.version,
            "score": each.score,
            "scored_ms": milliseconds(each.scored_at),
        }
        for each in scores
    ]
    forget = "DELETE FROM scores WHERE url = :url AND timestamp = :timestamp AND level = :level"
    keep = (
        "INSERT INTO scores (url, timestamp, level, version, score, scored_ms)"
        " VALUES (:url, :timestamp, :level, :version, :score, :scored_ms)"
    )
    return [(query, each) for each in values for query in (forget, keep)]


def read_scores(store: DecisionStore) -> list[PageScore]:
    """Every score, the lowest first.

    Raises:
        TransientError: the store cannot be read.
    """
    rows = store.rows(
        "SELECT url, timestamp, level, version, score, scored_ms FROM scores ORDER BY score, url",
        {},
    )
    return [
        PageScore(
            row["url"], row["timestamp"], row["level"], row["version"], row["score"],
            moment(row["scored_ms"]),
        )
        for row in rows
    ]  # fmt: skip
