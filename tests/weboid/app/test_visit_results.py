"""Opinions from attempts that left no capture."""

from datetime import timedelta
from pathlib import Path

import pytest

from core.clock import SystemClock
from crawler.frontier.base import NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier
from links.checker.due_urls import AwaitingLink
from weboid.app import visit_results


@pytest.mark.parametrize(
    ("reason", "is_gone"),
    [
        ("robots: robots.txt cannot be fetched (connect: museum.example:443 cannot be reached)", True),
        ("robots: robots.txt cannot be fetched (dns: museum.example does not resolve)", True),
        ("robots: robots.txt cannot be fetched (status 503)", False),
        ("the worker is gone", False),
    ],
)
def test_a_host_that_gives_no_robots_txt_because_it_is_away_is_an_opinion(
    reason: str, *, is_gone: bool, tmp_path: Path
) -> None:
    """An unreachable host counts as evidence where robots.txt is obeyed: else its link would wait for ever."""
    url, now = "https://museum.example/a", SystemClock().now()
    with SqliteFrontier(tmp_path / "frontier.sqlite") as frontier:
        frontier.add([NewItem(url)], now=now)
        (item,) = frontier.claim(now=now, worker="w")
        frontier.release(item, now=now, reason=reason, not_before=now + timedelta(hours=1))
        record = frontier.find(url)

    opinion = visit_results._queue_opinion(AwaitingLink(1, url, now - timedelta(minutes=1), url), record)
    assert (opinion is not None and opinion[0].whole_host) is is_gone


def test_an_end_by_a_host_that_was_down_already_is_an_opinion(tmp_path: Path) -> None:
    """Also where it was found to be down by its robots.txt."""
    url, now = "https://museum.example/a", SystemClock().now()
    with SqliteFrontier(tmp_path / "frontier.sqlite") as frontier:
        frontier.add([NewItem(url)], now=now)
        (item,) = frontier.claim(now=now, worker="w")
        reason = "host down: robots.txt cannot be fetched: dns: museum.example does not resolve"
        frontier.fail(item, now=now, reason=reason)
        record = frontier.find(url)

    opinion = visit_results._queue_opinion(AwaitingLink(1, url, now - timedelta(minutes=1), url), record)
    assert opinion is not None
    assert opinion[0].whole_host
