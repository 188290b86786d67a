"""Checks during a run: which pages, in which order, and what becomes of checks that fail."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.profile import parse_settings
from core.config.settings import QualitySettings
from core.errors import ConfigError
from core.page_classes import PageClass
from core.page_manifest import MissingResource, PageInfo, VisitOutcome
from qa.live_checks import CheckBacklog, is_sampled, suspicion_weight

PAGE = PageInfo("p", "https://a.example/", "https://a.example/", "2026-11-22T12:00:00Z",
                VisitOutcome.COMPLETE, status=200, page_class=PageClass.OK)  # fmt: skip
SUSPECT = replace(PAGE, outcome=VisitOutcome.PARTIAL, missing=(MissingResource("https://a.example/x", "missing"),))


def page(number: int, like: PageInfo = PAGE) -> PageInfo:
    return replace(like, page_id=f"p{number}")


def taken(backlog: CheckBacklog) -> list[str]:
    """Take all that waits; return the page ids in order."""
    return [backlog.take().page_id for _ in range(len(backlog))]


def test_the_most_suspect_page_is_looked_at_first() -> None:
    """Of equal ones, the one that waits longest."""
    backlog = CheckBacklog(QualitySettings())
    for each in (page(1), page(2), page(3, SUSPECT)):
        backlog.add(each)

    assert taken(backlog) == ["p3", "p1", "p2"]


def test_when_too_many_wait_the_least_suspect_are_left_out() -> None:
    """A crawl that is faster than looks loses the latest of its ordinary pages."""
    backlog = CheckBacklog(QualitySettings(backlog=2))
    for each in (page(1), page(2), page(3), page(4, SUSPECT)):
        backlog.add(each)

    assert backlog.left_out == 2
    assert taken(backlog) == ["p4", "p1"]


@pytest.mark.parametrize("outcome", [VisitOutcome.FAILED, VisitOutcome.SKIPPED])
def test_what_was_not_kept_is_not_looked_at(outcome: VisitOutcome) -> None:
    """There is no copy of it."""
    backlog = CheckBacklog(QualitySettings())
    backlog.add(replace(PAGE, outcome=outcome))

    assert len(backlog) == 0


@given(st.lists(st.tuples(st.integers(0, 999), st.booleans())), st.integers(0, 20))
def test_no_more_wait_than_may(pages: list[tuple[int, bool]], most: int) -> None:
    """And what waits is never less suspect than what was left out."""
    backlog = CheckBacklog(QualitySettings(backlog=most))
    added = [page(number, SUSPECT if is_odd else PAGE) for number, is_odd in pages]
    for each in added:
        backlog.add(each)

    assert len(backlog) == min(len(added), max(most, 1))
    assert backlog.left_out == len(added) - len(backlog)
    waiting = [backlog.take() for _ in range(len(backlog))]
    weights = [suspicion_weight(each) for each in waiting]
    everything = sorted(map(suspicion_weight, added), reverse=True)
    assert weights == everything[: len(weights)]


@given(st.text(st.characters(codec="utf-8")), st.floats(0, 1), st.floats(1, 20))
def test_a_share_is_drawn_by_the_page_alone(page_id: str, share: float, weight: float) -> None:
    """The same answer each time; none of nothing, all of everything, and suspect ones sooner."""
    assert is_sampled(page_id, weight, share) is is_sampled(page_id, weight, share)
    assert not is_sampled(page_id, weight, 0.0)
    assert is_sampled(page_id, weight, 1.0)
    assert is_sampled(page_id, weight, share) or not is_sampled(page_id, 1.0, share)


def test_about_the_share_is_drawn() -> None:
    """Of ten thousand pages a tenth, more or less."""
    drawn = sum(is_sampled(str(number), 1.0, 0.1) for number in range(10_000))

    assert 900 < drawn < 1_100


@pytest.mark.parametrize("share", ["1.5", "-0.1"])
def test_a_share_that_is_none_is_refused(share: str) -> None:
    """The text names it."""
    with pytest.raises(ConfigError, match="share"):
        parse_settings(f"[quality]\nshare = {share}\n")
