"""How checks stand, for those who watch a run."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.config.settings import Settings
from core.layout import Layout
from crawler.status.collection_status import StatusReader
from qa.check_status import ChecksReader


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Of a collection without a registry."""
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    return layout


@pytest.fixture
def reader(layout: Layout) -> Iterator[ChecksReader]:
    """Reads how its checks stand."""
    with ChecksReader(layout, "") as opened:
        yield opened


def test_a_registry_that_grows_is_asked_the_more_seldom(layout: Layout) -> None:
    """Counting takes a share of the time at most, however often the status is asked for."""
    now, asked = [0.0], []

    class Set(SystemClock):
        def monotonic(self) -> float:
            return now[0]

    def count(_now: datetime) -> None:
        asked.append(now[0])
        now[0] += 1.0  # so long it takes

    reader = StatusReader(None, lambda: None, settings=Settings(), clock=Set(), checks=count)
    for moment in range(0, 60, 2):
        now[0] = max(now[0], float(moment))
        reader.status()

    assert asked == [0.0, 22.0, 44.0]
