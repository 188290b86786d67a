"""Histories: what was seen, in 25 bytes, and back."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvariantError
from links.check_history import LAST_DAY, RUNS, History, HistoryRun, add_check, pack_history, unpack_history

_DAYS = st.integers(0, LAST_DAY)
_CODES = st.integers(0, 255)
_LOOKS = st.lists(st.tuples(st.sampled_from([1, 18, 40, 66]), st.integers(0, 60)), max_size=40)


def _history_of(looks: list[tuple[int, int]]) -> History:
    history: History = ()
    for code, day in looks:
        history = add_check(history, code, day)
    return history


def test_the_same_code_makes_a_run_longer() -> None:
    """W54: a run has a first and a last day."""
    assert _history_of([(1, 10), (1, 17), (1, 24)]) == (HistoryRun(1, 10, 24),)


def test_a_new_code_begins_a_run() -> None:
    """The run before it stays."""
    assert _history_of([(1, 10), (1, 17), (18, 24)]) == (HistoryRun(1, 10, 17), HistoryRun(18, 24, 24))


def test_a_sixth_code_pushes_out_the_oldest() -> None:
    """Five runs are kept."""
    history = _history_of([(code, code) for code in range(1, 8)])
    assert [run.code for run in history] == [3, 4, 5, 6, 7]


def test_the_last_look_of_a_day_counts() -> None:
    """A HEAD that failed before the GET that did not leaves no trace."""
    assert _history_of([(1, 10), (40, 17), (1, 17)]) == (HistoryRun(1, 10, 17),)


def test_a_day_may_end_one_run_and_begin_the_next() -> None:
    """A run that began earlier is not taken back."""
    assert _history_of([(1, 10), (1, 17), (40, 17)]) == (HistoryRun(1, 10, 17), HistoryRun(40, 17, 17))


def test_what_comes_late_adds_nothing() -> None:
    """A look of a day before the last one."""
    assert _history_of([(1, 10), (1, 17), (40, 12)]) == (HistoryRun(1, 10, 17),)


@given(_LOOKS)
def test_a_history_is_always_in_order(looks: list[tuple[int, int]]) -> None:
    """Runs follow one another, differ from their neighbours, and are five at most."""
    history = _history_of(looks)
    assert len(history) <= RUNS
    assert all(run.first <= run.last for run in history)
    for old, new in pairwise(history):
        assert old.last <= new.first
        assert old.code != new.code


@given(_LOOKS)
def test_the_last_run_is_the_last_look(looks: list[tuple[int, int]]) -> None:
    """Of looks in order the newest run has the newest code and day."""
    looks.sort(key=lambda look: look[1])
    history = _history_of(looks)
    if looks:
        assert (history[-1].code, history[-1].last) == looks[-1]


@given(_LOOKS)
def test_unpacking_is_the_inverse(looks: list[tuple[int, int]]) -> None:
    """Nothing is lost in 25 bytes."""
    history = _history_of(looks)
    packed = pack_history(history)
    assert len(packed) <= 25
    assert unpack_history(packed) == history


@given(_CODES, _DAYS, _DAYS)
def test_every_code_and_day_fits(code: int, one: int, other: int) -> None:
    """The whole byte and the whole calendar."""
    history = (HistoryRun(code, min(one, other), max(one, other)),)
    assert unpack_history(pack_history(history)) == history


@given(st.binary(max_size=40))
def test_bytes_are_a_history_or_refused(packed: bytes) -> None:
    """Bytes that the database returns damaged are refused."""
    try:
        history = unpack_history(packed)
    except InvariantError:
        return
    assert pack_history(history) == packed


def test_an_empty_column_is_an_empty_history() -> None:
    """A URL that was never looked at."""
    assert unpack_history(None) == unpack_history(b"") == ()


@pytest.mark.parametrize(("code", "day"), [(256, 1), (-1, 1), (1, -1), (1, 65_536)])
def test_what_does_not_fit_is_refused(code: int, day: int) -> None:
    """A byte and a day number, no more."""
    with pytest.raises(InvariantError):
        add_check((), code, day)


def test_an_impossible_history_is_not_packed() -> None:
    """Six runs, or a run that ends before it begins."""
    with pytest.raises(InvariantError):
        pack_history(tuple(HistoryRun(code, code, code) for code in range(6)))
    with pytest.raises(InvariantError):
        pack_history((HistoryRun(1, 5, 4),))
