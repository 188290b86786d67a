"""Output of a run while it works."""

import re

import pytest

from crawler.frontier.base import AddResult
from crawler.worker.crawl_events import PageSkipped, QueueStatus
from weboid.cli.support.run_output import RunReporter


def test_the_counter_never_passes_its_total(capsys: pytest.CaptureFixture[str]) -> None:
    """An item that came back after the last count of the frontier raises the total."""
    show = RunReporter()
    show.started(AddResult(added=2), 2)
    for number in range(2):
        show.event(PageSkipped(f"https://a.example/{number}", "robots"))
    show.event(QueueStatus(queued=0, claimed=0, done=2, skipped=0, dead=0, per_minute=1.0))
    show.event(PageSkipped("https://a.example/back", "robots"))

    counters = re.findall(r"^\[(\d+)/(\d+)\]", capsys.readouterr().out, re.MULTILINE)
    assert counters == [("1", "2"), ("2", "2"), ("3", "3")]
