"""Diffs that people read."""

from hypothesis import given
from hypothesis import strategies as st

from wiki.wikitext.edit_messages import unified_diff_of


def test_a_change_is_shown_with_the_lines_around_it() -> None:
    """As `diff -u` shows it, with the page's own line numbers."""
    before = "".join(f"line {number}\n" for number in range(1, 100))
    after = before.replace("line 50\n", "line fifty\n")
    assert unified_diff_of(before, after, "Berlin").split("\n") == [
        "--- Berlin",
        "+++ Berlin (repaired)",
        "@@ -48,5 +48,5 @@",
        " line 48",
        " line 49",
        "-line 50",
        "+line fifty",
        " line 51",
        " line 52",
    ]


def test_nothing_changed_is_no_diff() -> None:
    """Not even a head."""
    assert unified_diff_of("a\n", "a\n", "Berlin") == ""


def test_a_page_paints_no_terminal() -> None:
    """Control characters are shown by their names."""
    shown = unified_diff_of("a", "\x1b[31mb\u202e\r", "T\x1b[2J")
    assert "\x1b" not in shown
    assert "+\\x1b[31mb\\u202e\\r" in shown


@given(st.text("ab\n", max_size=60), st.text("ab\n", max_size=60))
def test_a_diff_has_both_texts(before: str, after: str) -> None:
    """Every line that is only in one of them is shown with its sign."""
    shown = unified_diff_of(before, after).split("\n")
    gone = [line[1:] for line in shown[2:] if line.startswith("-")]
    come = [line[1:] for line in shown[2:] if line.startswith("+")]
    assert len(before.split("\n")) - len(gone) == len(after.split("\n")) - len(come)
    assert set(gone) <= set(before.split("\n"))
    assert set(come) <= set(after.split("\n"))


def test_a_large_page_with_one_change_costs_no_more_than_reading_it() -> None:
    """Two megabytes of the same line are not compared each with each."""
    before = "x\n" * 500_000
    shown = unified_diff_of(f"{before}a\n{before}", f"{before}b\n{before}")
    assert shown.count("\n") == 8
