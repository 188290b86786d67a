"""The labelled pairs: the judge's precision and recall, and that the set is what it says.

Every fifth pair of a kind is judged here, all of them in `bench.qa_labelled`.
"""

from collections import Counter

import pytest

from core.playback_check import QaVerdict
from qa.compare.content_comparison import compare_texts
from qa.compare.picture_comparison import compare_pictures
from qa.compare.verdict_rules import judge_copy
from tests.support.labelled.kinds import RULES, LabelledKind
from tests.support.labelled.pairs import LabelledPair, read_pairs

pytestmark = pytest.mark.slow
# Kinds that a picture cannot tell where there is little text: the words do.
_BY_WORDS = frozenset({LabelledKind.LANGUAGE})


@pytest.fixture(scope="module")
def verdicts() -> list[tuple[LabelledPair, QaVerdict, QaVerdict]]:
    """Return every fifth pair of each kind, without pictures, with verdicts by pictures alone and with texts."""
    judged_pairs = []
    kinds: Counter[LabelledKind] = Counter()
    for pair in read_pairs():
        kinds[pair.kind] += 1
        if kinds[pair.kind] % 5 != 1:
            continue
        picture = compare_pictures(pair.seen, pair.shown)
        text = compare_texts(pair.seen_text, pair.shown_text)
        slim = LabelledPair(pair.site, pair.kind, pair.number, b"", b"", "", "")
        judged_pairs.append((slim, picture.verdict, judge_copy(picture, text).verdict))
    return judged_pairs


def _shares(called: list[tuple[LabelledPair, QaVerdict]]) -> tuple[float, float]:
    tally = Counter((verdict is QaVerdict.BROKEN, pair.broken) for pair, verdict in called)
    rightly = tally[True, True]
    return rightly / (rightly + tally[True, False]), rightly / (rightly + tally[False, True])


@pytest.mark.timeout(1_200)
def test_broken_is_called_broken(verdicts: list[tuple[LabelledPair, QaVerdict, QaVerdict]]) -> None:
    """Precision is at least 0.97 and recall 0.95, by pictures alone and with texts."""
    by_pictures = _shares([(pair, verdict) for pair, verdict, _ in verdicts])
    by_all = _shares([(pair, verdict) for pair, _, verdict in verdicts])
    wrong = [(pair.name, one, all_) for pair, one, all_ in verdicts if pair.broken != (all_ == "broken")]

    assert by_all[0] >= 0.97, wrong
    assert by_all[1] >= 0.95, wrong
    assert by_pictures[0] >= 0.97, wrong
    assert by_pictures[1] >= 0.95, wrong


@pytest.mark.timeout(1_200)
def test_what_is_the_same_is_good(verdicts: list[tuple[LabelledPair, QaVerdict, QaVerdict]]) -> None:
    """No page that is as it was is even doubtful."""
    same = [verdict for pair, one, all_ in verdicts if pair.kind is LabelledKind.IDENTICAL for verdict in (one, all_)]

    assert set(same) == {QaVerdict.GOOD}


def test_the_set_holds_every_kind(verdicts: list[tuple[LabelledPair, QaVerdict, QaVerdict]]) -> None:
    """A fifth of at least 180 pairs of 20 sites, of every kind that has a rule, and as many of either label."""
    kinds = Counter(pair.kind for pair, *_ in verdicts)
    broken = sum(pair.broken for pair, *_ in verdicts)

    assert set(kinds) == set(RULES) == set(LabelledKind)
    assert len(verdicts) >= 60
    assert len({pair.site for pair, *_ in verdicts}) >= 20
    assert 0.4 <= broken / len(verdicts) <= 0.7
