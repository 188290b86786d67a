"""Tests of `links.checker.outage_guard`."""

from hypothesis import given
from hypothesis import strategies as st

from links.check_result import CheckMethod, CheckResult, CheckVerdict
from links.checker.outage_guard import OutageGuard
from links.checker.result_store import UrlCheckResult
from links.registry.urls import UrlRow
from tests.support.check_rows import url_row
from tests.support.server_farm import DayClock


def _result(number: int, *, answers: bool) -> tuple[UrlRow, UrlCheckResult]:
    url = url_row(f"http://h{number % 7}.example/{number}", id=number)
    verdict = CheckVerdict.OK if answers else CheckVerdict.FAILING
    finding = CheckResult(1, verdict, CheckMethod.GET, http=200 if answers else None)
    return url, UrlCheckResult(number, finding, DayClock().now())


@given(st.lists(st.booleans(), max_size=60))
def test_what_is_held_back_comes_out_once(answering: list[bool]) -> None:
    """In the order in which it came."""
    guard = OutageGuard()
    came: list[int] = []
    for number, answers in enumerate(answering):
        came += [result.url_id for _, result in guard.take(*_result(number, answers=answers))]
        assert not answers or guard.held == 0
    came += [result.url_id for _, result in guard.let_go()]

    assert came == list(range(len(answering)))
