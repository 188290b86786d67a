"""The held-out pairs: what the judge says of pages that its rules were not made with.

Every fourth design is judged here, all of them in `bench.qa_labelled`.
"""

from collections import Counter

import pytest

from bench.held_out import JUDGES, JudgedPair, judged, shares, wrong
from core.playback_check import QaVerdict
from tests.support.heldout.kinds import PairLabel
from tests.support.heldout.pairs import read_held_out, sites
from tests.support.heldout.plan import planned

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows() -> list[JudgedPair]:
    """Return the figures of every fourth design's pairs, without their pictures."""
    return [judged(pair, pixels=False) for pair in read_held_out(sites()[::4])]


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("judge", sorted(JUDGES))
def test_broken_is_called_broken(rows: list[JudgedPair], judge: str) -> None:
    """Precision is 0.97 and recall 0.95 where people would agree on a label, by pictures alone, too."""
    decided = [row for row in rows if row.label is not PairLabel.EITHER]
    verdict_of = JUDGES[judge]
    rates = shares(decided, verdict_of)

    assert rates.precision >= 0.97, wrong(decided, verdict_of)
    assert rates.recall >= 0.95, wrong(decided, verdict_of)


@pytest.mark.timeout(1_200)
def test_what_is_the_same_is_good(rows: list[JudgedPair]) -> None:
    """No page that is as it was is even doubtful."""
    same = [verdict_of(row) for row in rows if row.kind == "identical" for verdict_of in JUDGES.values()]

    assert set(same) == {QaVerdict.GOOD}


def test_the_set_is_what_was_planned(rows: list[JudgedPair]) -> None:
    """At least 150 pairs of 20 designs, with the labels that the plan gives them."""
    stored = Counter((row.site, row.kind, row.label) for row in rows)
    plan = list(planned())

    assert stored == Counter((each.site, each.kind, each.label) for each in plan if each.site in sites()[::4])
    assert {each.site for each in plan} == set(sites())
    assert len(plan) >= 150
    assert len(sites()) >= 20
