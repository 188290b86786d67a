"""Counts of checks and repairs for the status of a run."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from core.config.settings import Settings
from core.layout import Layout
from core.playback_check import PlaybackCheck, QaVerdict
from core.timestamps import warc_date
from crawler.status.collection_status import CollectionStatus, CopyCheckSummary, StatusReader
from crawler.status.status_server import exposition
from links.registry.database import RegistryStore, open_registry_read_only
from qa.check_store import begin_repair, count_checks, end_repair, store_checks
from qa.check_table import CheckedPage, RepairState
from tests.support.clocks import ManualClock
from tests.support.services.registries import open_registry
from weboid.cli.crawl.crawl_status import status_lines

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Return the layout of a collection without a registry."""
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    return layout


def counts(layout: Layout) -> CopyCheckSummary | None:
    """Return the counts of its checks; None without a registry that can be read."""
    store = open_registry_read_only(layout, "")
    if store is None:
        return None
    with closing(store):
        return count_checks(store, now=NOW)


def checked(store: RegistryStore, page_id: str, verdict: QaVerdict, *, minutes_ago: int) -> None:
    """Keep a check."""
    at = NOW - timedelta(minutes=minutes_ago)
    moment = warc_date(at)
    check = PlaybackCheck(page_id, "https://a.example/", moment, "images", moment, "e", verdict)
    with store.writing() as rows:
        store_checks(rows, [CheckedPage(check, "a.example")], at)


def test_looks_and_repairs_are_counted_in_all_and_by_the_minute(layout: Layout) -> None:
    """Before there is a registry nothing is told, and none is made; then JSON, metrics and lines agree."""
    assert counts(layout) is None
    assert not layout.links_db.exists()

    with closing(open_registry(layout)) as store:
        checked(store, "p1", QaVerdict.GOOD, minutes_ago=0)
        checked(store, "p2", QaVerdict.GOOD, minutes_ago=5)
        checked(store, "p3", QaVerdict.BROKEN, minutes_ago=50)
        with store.writing() as rows:
            begin_repair(rows, "p3", "p4", now=NOW)
            end_repair(rows, "p3", RepairState.DONE_BETTER, "p4", now=NOW)
    status = CollectionStatus(NOW, None, None, counts(layout))
    text_format = exposition(status, version="1").decode()
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text_format)
        for sample in family.samples
    }

    facts = status.to_dict()["checks"]
    assert facts["verdicts"] == {"good": 2, "doubtful": 0, "broken": 1, "unchecked": 0}
    assert facts["repairs"]["done-better"] == facts["per_minute"]["1"]["good"] == 1
    assert facts["unrecorded"] == 3
    assert samples["weboid_checks", "good"] == 2.0
    assert samples["weboid_checks_per_minute", "1", "good"] == 1.0
    assert samples["weboid_checks_per_minute", "10", "good"] == 0.2
    assert samples["weboid_checks_per_minute", "10", "broken"] == 0.0
    assert samples["weboid_repairs", "done-better"] == 1.0
    assert samples["weboid_repairs_per_minute", "10", "done-better"] == 0.1
    assert samples["weboid_checks_unrecorded",] == 3.0
    shown = {line[:12].strip(): line[12:] for line in status_lines(status, columns=None)}
    assert shown["Checked"] == "1 broken, 2 good; 1.0 a minute now"
    assert shown["Repairs"] == "1 done-better"


@pytest.mark.parametrize("version", ["0001", "9999"])
def test_a_registry_of_another_version_is_not_touched(layout: Layout, version: str) -> None:
    """The process that reads may be newer or older than the one that writes."""
    with closing(open_registry(layout)) as store:
        with store.writing() as rows:
            rows.execute(text("UPDATE link_version SET version_num = :other"), {"other": version})

        assert counts(layout) is None

        with store.reading() as rows:
            stored_version = rows.execute(text("SELECT version_num FROM link_version")).scalar_one()
    assert stored_version == version


def test_a_registry_that_grows_is_counted_more_seldom(layout: Layout) -> None:
    """Counting takes a share of the time at most, however often the status is asked for."""
    clock, counted = ManualClock(), []

    def count(_now: datetime) -> None:
        counted.append(clock.seconds)
        clock.seconds += 1.0  # so long it takes

    reader = StatusReader(None, lambda: None, settings=Settings(), clock=clock, checks=count)
    for moment in range(0, 60, 2):
        clock.seconds = max(clock.seconds, float(moment))
        reader.status()

    assert counted == [0.0, 22.0, 44.0]
