"""The checker that holds access logs against what hosts were promised."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.gaps import GapRules, VisitSpan, main, prove, read_log
from core.errors import InputError

RULES = GapRules(visits_per_host=1, min_delay_s=1.0, tolerance_s=0.01)


def _broken(*log: VisitSpan, rules: GapRules = RULES, blocks: tuple[VisitSpan, ...] = ()) -> list[str]:
    return [breach.rule for breach in prove(log, rules, blocks).breaches]


def test_visits_with_the_delay_between_them_break_nothing() -> None:
    """Hosts take turns as they like; the smallest gap of one host is told."""
    proof = prove([VisitSpan("a", 0, 1), VisitSpan("a", 2, 3), VisitSpan("b", 0.5, 1.5), VisitSpan("a", 5, 6)], RULES)

    assert (proof.hosts, proof.visits, proof.most_together) == (2, 4, 1)
    assert proof.smallest_gap_s == 1.0
    assert proof.breaches == []


def test_a_visit_too_soon_is_found() -> None:
    """Also when the lines are not in order."""
    assert _broken(VisitSpan("a", 1.5, 2), VisitSpan("a", 0, 1)) == ["gap"]


def test_two_visits_together_are_found() -> None:
    """One that lies within another has no gap to measure."""
    assert _broken(VisitSpan("a", 0, 10), VisitSpan("a", 4, 5)) == ["together"]


def test_a_gap_counts_from_any_visit_that_ended_before() -> None:
    """With two visits allowed, the one that still goes on does not hide the one that ended."""
    two = GapRules(visits_per_host=2, min_delay_s=1.0)

    assert _broken(VisitSpan("a", 0, 10), VisitSpan("a", 1, 2), VisitSpan("a", 2.5, 3), rules=two) == ["gap"]
    assert _broken(VisitSpan("a", 0, 10), VisitSpan("a", 1, 2), VisitSpan("a", 3, 4), rules=two) == []


def test_what_lies_within_the_tolerance_is_nobodys_fault() -> None:
    """Two readings of a clock differ by a little."""
    assert _broken(VisitSpan("a", 0, 1), VisitSpan("a", 1.995, 3)) == []
    assert _broken(VisitSpan("a", 0, 1), VisitSpan("a", 1.985, 3)) == ["gap"]
    assert _broken(VisitSpan("a", 0, 1.005), VisitSpan("a", 1, 2), rules=GapRules(min_delay_s=0)) == []


def test_requests_of_one_visit_are_one_visit() -> None:
    """Subresources come at the same time as their page."""
    log = [VisitSpan("a", 0, 1, "x"), VisitSpan("a", 0.2, 3, "x"), VisitSpan("a", 0.3, 0.4, "x")]

    assert _broken(*log) == []
    assert _broken(*log, VisitSpan("a", 3.5, 4, "y")) == ["gap"]
    assert _broken(*log, VisitSpan("b", 0, 4, "x")) == []


def test_a_host_with_a_delay_of_its_own_is_measured_by_it() -> None:
    """A Crawl-delay holds instead of the profile's."""
    own = GapRules(min_delay_s=1.0, delays={"a": 5.0})

    assert _broken(VisitSpan("a", 0, 1), VisitSpan("a", 3, 4), rules=own) == ["gap"]
    assert _broken(VisitSpan("b", 0, 1), VisitSpan("b", 3, 4), rules=own) == []


def test_a_visit_in_a_block_is_found() -> None:
    """One that had begun before may end in it; another host is not concerned."""
    block = VisitSpan("a", 10, 20)

    assert _broken(VisitSpan("a", 15, 16), blocks=(block,)) == ["block"]
    assert _broken(VisitSpan("a", 9, 16), VisitSpan("a", 20, 21), VisitSpan("b", 15, 16), blocks=(block,)) == []


_TICKS = st.integers(0, 40)
_LOGS = st.lists(
    st.builds(
        lambda host, begin, length: VisitSpan(host, begin, begin + length),
        st.sampled_from("ab"),
        _TICKS,
        st.integers(1, 12),
    ),
    max_size=12,
)


@given(log=_LOGS, together=st.integers(1, 3), delay=st.integers(0, 5))
def test_the_checker_agrees_with_the_definition(log: list[VisitSpan], together: int, delay: int) -> None:
    """Looking at every pair finds the same hosts guilty, of the same."""
    rules = GapRules(visits_per_host=together, min_delay_s=delay, tolerance_s=0)
    guilty = {(breach.rule, breach.host) for breach in prove(log, rules).breaches}
    expected = set()
    for number, visit in enumerate(log):
        others = [each for place, each in enumerate(log) if place != number]
        same = [each for each in others if each.host == visit.host]
        if sum(each.begin <= visit.begin < each.end for each in same) >= together:
            expected.add(("together", visit.host))
        if any(each.end <= visit.begin < each.end + delay for each in same):
            expected.add(("gap", visit.host))

    assert guilty == expected


@given(hosts=st.lists(st.lists(st.tuples(st.floats(0, 5), st.floats(1, 9)), min_size=1, max_size=6), max_size=4))
def test_who_keeps_the_promise_is_never_blamed(hosts: list[list[tuple[float, float]]]) -> None:
    """Each visit begins a second or more after the one before it."""
    log = []
    for number, visits in enumerate(hosts):
        moment = 1_700_000_000.0
        for length, pause in visits:
            log.append(VisitSpan(f"h{number}", moment, moment + length))
            moment += length + pause

    assert prove(log, RULES).breaches == []


def test_a_log_is_read_in_both_forms(tmp_path: Path) -> None:
    """JSON lines and plain ones mix."""
    path = tmp_path / "access.log"
    line = {"host": "A.example.", "begin": 1, "end": 2.5, "visit": 7, "path": "/x"}
    path.write_text(f"# a comment\n{json.dumps(line)}\n\nb.example 3 4\nb.example 5 6 x\n")

    assert read_log(path) == [
        VisitSpan("a.example", 1.0, 2.5, "7"),
        VisitSpan("b.example", 3.0, 4.0),
        VisitSpan("b.example", 5.0, 6.0, "x"),
    ]


@pytest.mark.parametrize(
    "line", ["a 1", "a 2 1", "a nan 1", "a 1 inf", '{"host": "a"}', "{", '{"host": "a", "begin": []}']
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    """A log that is misread would prove anything."""
    path = tmp_path / "access.log"
    path.write_text(f"a 1 2\n{line}\n")

    with pytest.raises(InputError, match=r"access\.log, line 2"):
        read_log(path)


def test_the_command_says_it_with_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0: kept, 1: broken, 2: nothing proven; the last line is for machines."""
    log, blocks, empty = tmp_path / "log", tmp_path / "blocks", tmp_path / "empty"
    log.write_text("a 0 1\na 2 3\n")
    blocks.write_text("a 1.5 2.5\n")
    empty.write_text("")

    assert main([str(log), "--min-delay", "1"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert figures["gaps_breaches"] == 0.0
    assert figures["gaps_smallest_s"] == 1.0
    assert main([str(log), "--delay", "a=2"]) == 1
    assert main([str(log), "--blocked", str(blocks)]) == 1
    assert main([str(empty)]) == 2
    assert main([str(tmp_path / "missing")]) == 2
