"""Differences of two texts: nothing lost, nothing invented, never more work than was allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playback.web import text_diff
from playback.web.text_diff import DiffBudget, DiffKind, compare_texts, edit_runs, paragraphs

_few = st.lists(st.sampled_from("abc"), max_size=12)
_texts = st.lists(st.sampled_from(["one two", "one  three", "two", "x, y", ""]), max_size=12)


@given(_few, _few, st.sampled_from([0, 5, 10_000]))
def test_edits_lead_from_one_text_to_the_other(old: list[str], new: list[str], steps: int) -> None:
    """Whatever the budget: runs follow one another, cover both, and what is the same is the same."""
    i = k = 0
    for is_same, start, end, at, until in edit_runs(old, new, DiffBudget(steps)):
        assert (start, at) == (i, k)
        assert end > start or until > at
        if is_same:
            assert old[start:end] == new[at:until]
        i, k = end, until
    assert (i, k) == (len(old), len(new))


@given(_few, _few)
def test_with_enough_budget_the_edit_is_the_shortest(old: list[str], new: list[str]) -> None:
    """As many items stay as the longest common subsequence has."""
    table = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, a in enumerate(old):
        for k, b in enumerate(new):
            table[i + 1][k + 1] = table[i][k] + 1 if a == b else max(table[i][k + 1], table[i + 1][k])
    common_length = sum(end - start for same, start, end, _, _ in edit_runs(old, new, DiffBudget(10_000)) if same)

    assert common_length == table[-1][-1]


@given(_texts, _texts)
def test_both_texts_can_be_read_off_the_rows(before: list[str], after: list[str]) -> None:
    """Nothing is lost but what is folded, and that is counted."""
    difference = compare_texts("\n".join(before), "\n".join(after))
    olds, news = paragraphs("\n".join(before)), paragraphs("\n".join(after))
    sides: list[list[str]] = [[], []]
    for row in difference.rows:
        if row.kind is DiffKind.FOLDED:
            at = len(sides[0])
            sides[0] += olds[at : at + row.count]
            sides[1] += news[len(sides[1]) : len(sides[1]) + row.count]
            continue
        for side, pieces in zip(sides, (row.before, row.after), strict=True):
            if pieces:
                side.append("".join(piece.text for piece in pieces))

    assert sides == [olds, news]
    assert difference.is_none == (olds == news)


def test_a_word_is_marked_within_its_paragraph() -> None:
    """The rest of the paragraph stays unmarked, on both sides."""
    difference = compare_texts("It was a dark night.\nEnd", "It was a stormy night.\nEnd\nNew")
    row = difference.rows[0]

    assert [(each.text, each.is_changed) for each in row.before] == [
        ("It was a ", False), ("dark", True), (" night.", False),
    ]  # fmt: skip
    assert (difference.changed, difference.added, difference.removed) == (1, 1, 0)


def test_scripts_without_spaces_change_by_the_character() -> None:
    """A sentence of ideographs is no single word."""
    row = compare_texts("今日は雨です", "今日は雪です").rows[0]

    assert [each.text for each in row.before if each.is_changed] == ["雨"]


def test_white_space_is_no_change() -> None:
    """Nor are empty lines and line ends."""
    assert compare_texts("a  b\r\n\n c", "a b\nc\n").is_none


def test_long_unchanged_stretches_are_folded() -> None:
    """Around a change two paragraphs stay; of a long paragraph what is next to the change."""
    lines = [f"line {number}" for number in range(50)]
    long = " ".join(f"word{number}" for number in range(500))
    difference = compare_texts("\n".join([*lines, long]), "\n".join([*lines, long.replace("word250", "x")]))

    assert [row.kind for row in difference.rows] == [DiffKind.FOLDED, DiffKind.SAME, DiffKind.SAME, DiffKind.CHANGED]
    assert difference.rows[0].count == 48
    assert sum(len(piece.text) for piece in difference.rows[-1].before) < 700
    assert [piece.is_gap for piece in difference.rows[-1].before] == [
        True, False, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\n".join("ab"[n % 2] for n in range(9_000)), "\n".join("ab"[n % 3 > 0] for n in range(9_000))),
        ("a b " * 70_000, "b c " * 70_000),
        ("\n".join(map(str, range(20_000))), "\n".join(map(str, range(20_000, 40_000)))),
        ("x" * 2_000_000, "y" * 2_000_000),
    ],
    ids=["repeating lines", "repeating words", "nothing in common", "one long word"],
)
def test_hostile_texts_cost_no_more_than_the_budget(before: str, after: str) -> None:
    """The work is counted: what is left of the budget is never far below nothing."""
    spent = []
    original = DiffBudget.__init__

    def noted(self: DiffBudget, steps: int) -> None:
        original(self, steps)
        spent.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_diff.DiffBudget, "__init__", noted)
        difference = compare_texts(before, after, steps=100_000)

    assert difference.is_coarse or difference.is_cut
    assert len(difference.rows) <= text_diff.MOST_ROWS
    # A round of the algorithm is not broken off in its midst.
    assert spent[0].left > -50_000
