"""A simulated year: what lives is never called dead, what is gone is found within four weeks."""

import pytest

from bench.links_web import DAYS, SimulatedLink, web
from bench.links_year import GAP_S, LIMIT_DAYS, YearTally, year
from links.states import DEFAULT, IABOT

pytestmark = pytest.mark.slow

_LINKS = 1500


@pytest.fixture(scope="module")
def small_web() -> list[SimulatedLink]:
    """Return links over hosts that are fine, flaky, away, maintained, gone, back, parked, refusing, limiting."""
    return web(_LINKS, seed=3)


@pytest.fixture(scope="module")
def tally(small_web: list[SimulatedLink]) -> YearTally:
    """Simulate a year of `small_web` by the default rules."""
    return year(small_web, DEFAULT)


def test_nothing_that_lives_is_called_dead_in_a_year(tally: YearTally) -> None:
    """Through outages of up to twelve days, flaky hosts, maintenance, refusals and rate limits."""
    assert tally.false_dead == 0


def test_everything_that_is_gone_is_found_within_four_weeks(tally: YearTally, small_web: list[SimulatedLink]) -> None:
    """By 404, 410, DNS, closed ports, time-outs, parked domains and pages that only say so."""
    gone = [end for link in small_web for end in link.ends if end.start < DAYS - LIMIT_DAYS]
    assert len(gone) > 100
    assert len(tally.delays) + tally.hidden >= len(gone) * 0.95  # what came back sooner was never gone
    assert max(tally.delays) <= LIMIT_DAYS


def test_no_host_is_asked_closer_than_allowed_in_a_year(tally: YearTally) -> None:
    """Whoever it is, and whatever it answers."""
    assert tally.gap_kept >= 1 - 1e-9
    assert tally.smallest_gap_s >= GAP_S - 1e-6


def test_what_comes_back_is_seen(tally: YearTally) -> None:
    """Dead links are looked at for ever, once a month at least."""
    assert tally.revived
    assert max(tally.revived) <= 2 * 31  # a flaky host may fail at the one look of a month


def test_the_web_is_hard_enough_to_tell_rules_apart() -> None:
    """Preset `iabot` calls living links dead in a third of such a web: nine days are too short."""
    assert year(web(_LINKS // 3, seed=3), IABOT).false_dead > 0


def test_a_year_is_the_same_each_time() -> None:
    """The clock and chance are arguments."""
    one, other = (year(web(100, seed=5), DEFAULT) for _ in range(2))
    assert one == other
