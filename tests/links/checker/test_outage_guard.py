"""Tests of `links.checker.outage_guard`."""

from hypothesis import given
from hypothesis import strategies as st

from links.check_result import CheckMethod, CheckResult, CheckVerdict
from links.checker.due_urls import DueUrl
from links.checker.outage_guard import OutageGuard
from links.checker.result_store import UrlCheckResult
from links.states import LinkHealth
from tests.support.check_farm import Days


def _result(number: int, *, answers: bool) -> tuple[DueUrl, UrlCheckResult]:
    url = DueUrl(number, b"", 0, f"h{number % 7}.example", "", 0, LinkHealth(), is_new=False)
    verdict = CheckVerdict.OK if answers else CheckVerdict.FAILING
    finding = CheckResult(1, verdict, CheckMethod.GET, http=200 if answers else None)
    return url, UrlCheckResult(number, finding, Days().now())


@given(st.lists(st.booleans(), max_size=60))
def test_what_is_held_back_comes_out_once(answering: list[bool]) -> None:
    """In the order in which it came."""
    guard = OutageGuard(silent_hosts=5)
    came: list[int] = []
    for number, answers in enumerate(answering):
        came += [result.url_id for _, result in guard.take(*_result(number, answers=answers))]
        assert not answers or guard.held == 0
    came += [result.url_id for _, result in guard.let_go()]

    assert came == list(range(len(answering)))
