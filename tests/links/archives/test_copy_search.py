"""Choice of a copy."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from links.archives.archive_answers import ArchiveMemento
from links.archives.archive_urls import WEBOID, moment_of
from links.archives.copy_search import SearchStep, choose_versions, citation_day, pick_best_copy, plan_copies
from tests.support.archive_server import NOW

A = "http://a.test/"
AT = datetime(2015, 6, 1, tzinfo=UTC)


def _copy(year: int, service: str = "wayback", status: int | None = 200) -> ArchiveMemento:
    return ArchiveMemento(service, f"https://{service}.example/{year}", f"{year}0101000000", status)


OWN = ArchiveMemento(WEBOID, "https://front.example/page/20200101000000/http://a.test/", "20200101000000")


def test_the_nearest_before_the_day_is_chosen() -> None:
    """W30: what was there when the link was cited, rather than what came later, however near."""
    chosen = choose_versions(
        [_copy(2010), _copy(2014), _copy(2016), ArchiveMemento("wayback", "x", "20150602000000", 200)], AT, NOW
    )

    assert chosen["wayback"] == _copy(2014)


def test_the_nearest_after_the_day_is_second() -> None:
    """When nothing is older."""
    assert choose_versions([_copy(2019), _copy(2016)], AT, NOW)["wayback"] == _copy(2016)


def test_without_a_day_the_newest_is_chosen() -> None:
    """Nobody knows when it was cited."""
    assert choose_versions([_copy(2010), _copy(2019), _copy(2016)], None, NOW)["wayback"] == _copy(2019)


def test_each_archive_has_one() -> None:
    """W30: exactly one version in each."""
    chosen = choose_versions([_copy(2010), _copy(2014), _copy(2013, "perma")], AT, NOW)

    assert chosen == {"wayback": _copy(2014), "perma": _copy(2013, "perma")}


@pytest.mark.parametrize("status", [301, 302, 404, 410, 500, 503, 204])
def test_copies_of_errors_and_redirects_are_not_chosen(status: int) -> None:
    """T193158: a good one that is further off is chosen; without any the archive has none chosen (W30)."""
    bad = _copy(2014, status=status)

    assert choose_versions([bad, _copy(2010)], AT, NOW)["wayback"] == _copy(2010)
    assert choose_versions([bad], AT, NOW)["wayback"] == ArchiveMemento("wayback", "", "")


def test_dates_that_cannot_be_are_not_believed() -> None:
    """No archive is older than 1996, or from tomorrow."""
    old, late = (
        ArchiveMemento("wayback", "x", "19700101000000", 200),
        ArchiveMemento("wayback", "y", "20990101000000", 200),
    )

    assert choose_versions([old, late, _copy(2020)], None, NOW)["wayback"] == _copy(2020)


def test_a_copy_without_a_moment_is_the_last_resort() -> None:
    """It is better than nothing."""
    timeless = ArchiveMemento("wayback", "x", "")

    assert choose_versions([timeless, _copy(2019)], AT, NOW)["wayback"] == _copy(2019)
    assert choose_versions([timeless], AT, NOW)["wayback"] == timeless


_COPIES = st.lists(
    st.builds(_copy, st.integers(1990, 2030), st.sampled_from(["a", "b"]), st.sampled_from([None, 200, 301, 404]))
)


@given(_COPIES, st.none() | st.datetimes(timezones=st.just(UTC)))
def test_no_copy_that_was_passed_over_is_better(copies: list[ArchiveMemento], at: datetime | None) -> None:
    """Whatever there is, in whatever order: none before the day is nearer, none after it is preferred."""
    chosen = choose_versions(copies, at, NOW)

    assert chosen == choose_versions(reversed(copies), at, NOW)
    assert set(chosen) == {copy.service for copy in copies}
    for copy in copies:
        best = chosen[copy.service]
        good = copy.status in (None, 200) and "1996" <= copy.timestamp[:4] <= "2026"
        if not good:
            assert best != copy
            continue
        assert best.address
        if at is not None and moment_of(copy.timestamp) <= at:
            assert moment_of(copy.timestamp) <= moment_of(best.timestamp) <= at


def test_our_own_copy_is_first() -> None:
    """B12: remembered, then our own, then the archives in the order of the setting, then the nearest."""
    chosen = {copy.service: copy for copy in (OWN, _copy(2014), _copy(2010, "perma"))}

    assert pick_best_copy(chosen, ["perma", "wayback"], AT) == OWN
    del chosen[WEBOID]
    assert pick_best_copy(chosen, ["perma", "wayback"], AT) == _copy(2010, "perma")
    assert pick_best_copy(chosen, [], AT) == _copy(2014)
    assert pick_best_copy({"wayback": ArchiveMemento("wayback", "", "")}, [], AT) is None


@pytest.mark.parametrize(
    ("remembered", "copies", "is_dead", "is_sure", "step"),
    [
        (_copy(2001), [OWN, _copy(2014)], True, True, SearchStep.KEPT),
        (None, [OWN, _copy(2014)], True, True, SearchStep.OWN),
        (None, [_copy(2014)], True, False, SearchStep.FOUND),
        (None, [_copy(2014)], False, True, SearchStep.FOUND),
        (None, [], False, True, SearchStep.SAVE),
        (None, [_copy(2014, status=404)], False, True, SearchStep.SAVE),
        (None, [], True, True, SearchStep.UNFIXABLE),
        (None, [], True, False, SearchStep.LATER),
        (ArchiveMemento("wayback", "", ""), [], True, True, SearchStep.UNFIXABLE),
    ],
)
def test_what_is_done(
    remembered: ArchiveMemento | None, copies: list[ArchiveMemento], is_dead: bool, is_sure: bool, step: SearchStep
) -> None:
    """B12, and that a dead link is given up only when everybody who was asked has answered."""
    chosen = choose_versions(copies, AT, NOW)

    decided, _ = plan_copies(remembered, chosen, order=["wayback"], at=AT, is_dead=is_dead, is_sure=is_sure)

    assert decided is step


def test_the_day_that_matters() -> None:
    """B06: when it was read, else when the link was added; slips of the pen are neither."""
    read, added = AT, AT - timedelta(days=900)

    assert citation_day(read, added, NOW) == read
    assert citation_day(None, added, NOW) == added
    assert citation_day(datetime(1915, 6, 1, tzinfo=UTC), added, NOW) == added
    assert citation_day(NOW + timedelta(days=400), added, NOW) == added
    assert citation_day(None, None, NOW) is None
