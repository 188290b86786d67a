"""The frontier at a glance: rates, reasons, leases, and the same numbers as metrics."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from core.config.settings import FrontierSettings, PolitenessSettings
from core.layout import Layout
from crawler.frontier.base import PROXY_SERVICE, WORKER_SERVICE, Frontier, Lane, MinuteCounts, NewItem, pages_per_minute
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.status.collection_status import (
    ENDED_SAMPLED,
    HOSTS_SHOWN,
    REASONS_SHOWN,
    CollectionStatus,
    parse_members,
    read_overview,
)
from crawler.status.status_server import exposition

NOW = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
QUICK = PolitenessSettings(min_delay_s=0.0, max_delay_s=0.0, visits_per_host=1_000)


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    with open_frontier(layout, FrontierSettings(), QUICK) as opened:
        yield opened


def _add(frontier: Frontier, count: int, *, job: str = "", host: str = "a.example") -> None:
    urls = (f"https://{host}/{job}{number}" for number in range(count))
    frontier.add([NewItem(url, job=job) for url in urls], now=NOW - 30 * MINUTE)


def _minute(ago: int, done: int) -> MinuteCounts:
    begins_at = NOW.replace(second=0) - ago * MINUTE
    return MinuteCounts(begins_at, done=done, skipped=0, dead=0, bytes=0)


def test_an_empty_frontier_has_an_overview_of_zeros(frontier: Frontier) -> None:
    """No rate, no prediction, empty lists; it is JSON."""
    view = read_overview(frontier, now=NOW)

    assert (view.stats.queued, view.eta, view.stopping) == (0, None, None)
    assert set(view.per_minute.values()) == {0.0}
    assert (view.jobs, view.leases, view.dead, view.proxies) == ({}, (), (), {})
    assert json.loads(json.dumps(view.to_dict()))["stats"]["queued"] == 0


def test_rates_are_measured_from_the_first_minute_with_anything_in_it() -> None:
    """A crawl that began two minutes ago, in the midst of one, is not averaged over an hour."""
    minutes = [_minute(ago, 0) for ago in range(59, 2, -1)]
    minutes += [_minute(2, 30), _minute(1, 60), _minute(0, 30)]

    assert pages_per_minute(minutes, 60, now=NOW) == pytest.approx(60.0)
    assert pages_per_minute(minutes, 1, now=NOW) == pytest.approx(60.0)
    assert pages_per_minute([_minute(ago, 0) for ago in range(59, -1, -1)], 10, now=NOW) == 0.0


@given(st.lists(st.integers(0, 500), min_size=60, max_size=60), st.sampled_from([1, 10, 60]))
def test_a_rate_lies_between_nothing_and_the_best_minute(counts: list[int], window: int) -> None:
    """A part of a minute counts for half a minute at least, so it may double."""
    minutes = [_minute(59 - place, count) for place, count in enumerate(counts)]

    assert 0.0 <= pages_per_minute(minutes, window, now=NOW) <= 2 * max(counts)


def test_what_is_left_is_predicted_from_the_last_ten_minutes(frontier: Frontier) -> None:
    """Not while it is paused, nor from too little."""
    _add(frontier, 110)
    for number, item in enumerate(frontier.claim(now=NOW - 10 * MINUTE, worker="w", limit=10)):
        ended = NOW - 10 * MINUTE + number * MINUTE
        frontier.complete(item, now=ended, outcome="complete", duration=timedelta(seconds=1))
    view = read_overview(frontier, now=NOW)
    frontier.pause("lunch")
    paused = read_overview(frontier, now=NOW)

    assert view.stats.queued == 100
    assert view.eta is not None
    assert timedelta(minutes=90) < view.eta < timedelta(minutes=115)
    assert (paused.eta, paused.stats.paused) == (None, "lunch")


def test_the_longest_queue_bounds_what_is_left(frontier: Frontier) -> None:
    """However fast the others are, one host takes its time."""
    _add(frontier, 50, host="slow.example")
    for item in frontier.claim(now=NOW - MINUTE, worker="w", limit=10):
        took = timedelta(hours=1)
        frontier.complete(item, now=NOW - MINUTE, outcome="complete", duration=took)
    view = read_overview(frontier, now=NOW)

    assert view.per_minute[10] > 5
    assert view.eta == timedelta(hours=40)
    assert [each.host for each in view.slowest] == ["slow.example"]


def test_reasons_are_grouped_by_what_stands_before_the_colon(frontier: Frontier) -> None:
    """With examples, the largest group first."""
    _add(frontier, 5)
    for number, item in enumerate(frontier.claim(now=NOW, worker="w", limit=5)):
        reason = f"dns: no such name {number}" if number < 3 else "tls: expired"
        frontier.fail(item, now=NOW, reason=reason)
    view = read_overview(frontier, now=NOW)

    assert [(group.reason, group.count) for group in view.dead] == [("dns", 3), ("tls", 2)]
    assert all(reason.startswith("dns: ") for _, reason in view.dead[0].examples)
    assert len(view.dead_letters) == 5


def test_a_lease_says_who_holds_what_since_when(frontier: Frontier) -> None:
    """The beginning stays when it is renewed."""
    _add(frontier, 1)
    (item,) = frontier.claim(now=NOW - MINUTE, worker="host:7.1")
    frontier.renew(item, now=NOW)
    (lease,) = read_overview(frontier, now=NOW).leases

    assert (lease.worker, lease.url, lease.since) == ("host:7.1", item.url, NOW - MINUTE)
    assert lease.until == NOW + timedelta(seconds=FrontierSettings().lease_s)


def test_jobs_orders_and_members_are_told(frontier: Frontier) -> None:
    """A job without items too; plain lists under the empty name; a stop with its manner."""
    _add(frontier, 2)
    _add(frontier, 3, job="news")
    frontier.give_order("job", "news", "{}")
    frontier.give_order("job", "later", "{}")
    frontier.give_order("stop", "", "")
    frontier.put_note(PROXY_SERVICE, "p1", '{"visits": 3, "free_bytes": 5}', now=NOW)
    frontier.put_note(PROXY_SERVICE, "p2", "nonsense", now=NOW)
    frontier.put_note(WORKER_SERVICE, "w1", "[1]", now=NOW, until=NOW + MINUTE)
    frontier.put_note(WORKER_SERVICE, "w2", "{}", now=NOW - MINUTE, until=NOW - MINUTE / 2)
    view = read_overview(frontier, now=NOW)

    assert {name: each.queued for name, each in view.jobs.items()} == {"": 2, "news": 3, "later": 0}
    assert view.stopping == "gently"
    assert view.proxies == {"p1": {"visits": 3, "free_bytes": 5}, "p2": {}}
    assert view.workers == {"w1": {}}


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=5))
def test_whatever_a_member_says_is_no_reason_to_fail(notes: dict[str, str]) -> None:
    """It is there; what it says counts only when it is an object."""
    members = parse_members(notes)

    assert members.keys() == notes.keys()
    assert all(isinstance(facts, dict) for facts in members.values())


@pytest.mark.slow
def test_every_list_is_bounded(frontier: Frontier) -> None:
    """However many hosts and reasons there are."""
    hosts = HOSTS_SHOWN * 40
    items = [NewItem(f"https://h{number}.example/", Lane.NOW) for number in range(hosts)]
    frontier.add(items, now=NOW)
    for number, item in enumerate(frontier.claim(now=NOW, worker="w", limit=hosts)):
        frontier.fail(item, now=NOW, reason=f"reason {number}: x")
    view = read_overview(frontier, now=NOW)
    text = exposition(CollectionStatus(NOW, None, view), version="1").decode()

    assert len(view.slowest) <= HOSTS_SHOWN
    assert len(view.dead) == REASONS_SHOWN
    assert sum(group.count for group in view.dead) <= ENDED_SAMPLED
    assert len(text.splitlines()) < 300


def test_metrics_are_what_prometheus_reads(frontier: Frontier) -> None:
    """Its own parser finds the numbers; counters are those that never fall."""
    _add(frontier, 4, job='we"ird\n\\name')
    frontier.give_order("job", 'we"ird\n\\name', "{}")
    (item,) = frontier.claim(now=NOW, worker="w")
    frontier.complete(item, now=NOW, outcome="complete", stored_bytes=1_000)
    frontier.put_note(PROXY_SERVICE, "p1", '{"visits": 3, "free_bytes": true}', now=NOW)
    status = CollectionStatus(NOW, None, read_overview(frontier, now=NOW))
    text = exposition(status, version="1.2").decode()
    family_by_name = {family.name: family for family in text_string_to_metric_families(text)}
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in family_by_name.values()
        for sample in family.samples
    }

    assert samples["weboid_up",] == 1.0
    assert samples["weboid_frontier_items", "queued"] == 3.0
    assert samples["weboid_frontier_items", "done"] == 1.0
    assert samples["weboid_frontier_stored_bytes_total",] == 1_000.0
    assert samples["weboid_job_items", "queued", 'we"ird\n\\name'] == 3.0
    assert samples["weboid_proxy_visits", "p1"] == 3.0
    assert not family_by_name["weboid_proxy_free_bytes"].samples
    assert {family.name for family in family_by_name.values() if family.type == "counter"} == {
        "weboid_frontier_duplicates",
        "weboid_frontier_stored_bytes",
    }
    assert all(family.documentation for family in family_by_name.values())
    assert all(name.startswith("weboid_") for name in family_by_name)


def test_no_url_is_a_label(frontier: Frontier) -> None:
    """A time series for each page would be the end of whoever collects them."""
    _add(frontier, 3)
    for item in frontier.claim(now=NOW, worker="w", limit=3):
        frontier.fail(item, now=NOW, reason="broken")

    text = exposition(CollectionStatus(NOW, None, read_overview(frontier, now=NOW)), version="1").decode()

    assert "https://" not in text


def test_when_nothing_can_be_read_the_metrics_say_so() -> None:
    """An absent metric raises no alarm; a zero does."""
    text = exposition(None, version="1").decode()
    names = {family.name for family in text_string_to_metric_families(text)}

    assert "weboid_up 0.0" in text
    assert names == {"weboid_up", "weboid_build_info"}
