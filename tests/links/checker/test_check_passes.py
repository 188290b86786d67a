"""Passes: noted, gone on with, foretold (W38)."""

from datetime import timedelta

import pytest
from sqlalchemy import insert

from core.config.settings import LinksSettings
from links.checker import check_schedule
from links.checker.check_schedule import NAMED_RUN, CheckRunRow, checks_per_s, interval_of
from links.checker.due_urls import ALL_HOSTS, HostShare
from links.feedback.marks import LinkMark, MarkKind, put_marks
from links.registry.database import RegistryStore
from links.registry.schema import passes as table
from links.states import DEFAULT, LinkState
from tests.support.check_rows import watch
from tests.support.server_farm import DayClock

NOW = DayClock().now()


def _row(part: str, seconds: int, done: int) -> CheckRunRow:
    started = int(NOW.timestamp()) - seconds
    return CheckRunRow(1, part, started, int(NOW.timestamp()), done, done, 1)


@pytest.mark.parametrize(
    ("rows", "rate"),
    [
        ([], None),
        ([_row("1/1", 60, 10)], None),
        ([_row("1/1", 100, 2_000)], 20.0),
        ([_row("1/1", 100, 2_000), _row("1/1", 7_200, 72)], 20.0),
        ([_row("1/2", 100, 2_000), _row("2/2", 100, 1_000)], 30.0),
        ([_row("1/1", 7_200, 72)], 0.01),
    ],
    ids=["none", "short", "long", "less-to-do", "parts", "slow"],
)
def test_the_rate_is_that_of_passes_that_had_much_to_do(rows: list[CheckRunRow], rate: float | None) -> None:
    """A short one waits for its hosts more than it works; parts add up."""
    assert checks_per_s(rows, now=NOW) == rate


@pytest.mark.parametrize(("seconds", "fits"), [(100, True), (30 * 86_400, False)], ids=["fast", "slow"])
def test_a_pass_that_would_take_too_long_is_told(sqlite_store: RegistryStore, seconds: int, fits: bool) -> None:
    """With what would help; nothing is told before a rate was seen."""
    watch(sqlite_store, [f"http://h{number}.example/" for number in range(60)], day=3_000)
    settings = LinksSettings(pass_days=1)
    with sqlite_store.reading() as rows:
        assert check_schedule.run_forecast(rows, settings, now=NOW) is None
    with sqlite_store.writing() as rows:
        started = int(NOW.timestamp()) - seconds
        ended = int(NOW.timestamp())
        rows.execute(insert(table).values(part="1/1", started=started, ended=ended, due=1_000, done=1_000))

    with sqlite_store.reading() as rows:
        forecast = check_schedule.run_forecast(rows, settings, now=NOW)

    assert forecast is not None
    assert forecast.fits is fits
    assert forecast.sentence


def test_the_gap_of_the_largest_host_counts(sqlite_store: RegistryStore) -> None:
    """As people set it: with a hundred seconds a thousand links take longer than a day (W38)."""
    watch(sqlite_store, [f"http://a.example/{number}" for number in range(1_000)], day=3_000)
    begun = int(NOW.timestamp()) - 100
    gap = LinkMark(0, MarkKind.SETTING, "a.example", "agreed", "me", begun, key="gap_s", value="100")
    with sqlite_store.writing() as rows:
        row = {"part": "1/1", "started": begun, "ended": begun + 100, "due": 2_000, "done": 2_000}
        rows.execute(insert(table).values(row))
    settings = LinksSettings(pass_days=1)

    with sqlite_store.writing() as rows:
        before = check_schedule.run_forecast(rows, settings, now=NOW)
        put_marks(rows, [gap])
        after = check_schedule.run_forecast(rows, settings, now=NOW)

    assert before is not None
    assert after is not None
    assert (before.fits, after.fits) == (True, False)
    assert "gap_s" in after.sentence


def test_a_pass_that_was_broken_off_is_gone_on_with(sqlite_store: RegistryStore) -> None:
    """Each part has its own; one that ended is followed by another; named ones are not told."""
    with sqlite_store.writing() as rows:
        first = check_schedule.begin_run(rows, ALL_HOSTS, horizon=1, now=NOW)
        other = check_schedule.begin_run(rows, HostShare(1, 2), horizon=1, now=NOW)
        again = check_schedule.begin_run(rows, ALL_HOSTS, horizon=1, now=NOW + timedelta(hours=1))
        check_schedule.end_run(rows, first.id, now=NOW + timedelta(hours=2))
        following = check_schedule.begin_run(rows, ALL_HOSTS, horizon=1, now=NOW + timedelta(hours=3))
        check_schedule.new_run(rows, check_schedule.NAMED_RUN, 1, now=NOW + timedelta(hours=4))

    assert again.id == first.id
    assert len({first.id, other.id, following.id}) == 3
    with sqlite_store.reading() as rows:
        assert NAMED_RUN not in {row.part for row in check_schedule.latest_runs(rows, limit=9)}
        assert check_schedule.latest_runs(rows, limit=9)[0].id == following.id


def test_every_state_has_an_interval() -> None:
    """By which what falls due each day is foretold."""
    assert all(interval_of(state, DEFAULT) > 0 for state in LinkState)
