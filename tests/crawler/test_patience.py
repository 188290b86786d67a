"""Stores that are away for a while."""

import pytest

from core.clock import SystemClock
from core.errors import TransientError, UnavailableError
from crawler import patience
from crawler.patience import Patience
from crawler.waiting import GoingOn, Waiting


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "FIRST_PAUSE_S", 0.001)


async def test_a_store_that_is_away_is_asked_until_it_answers() -> None:
    """It is told once that it is away, and once that it is back."""
    told: list[Waiting | GoingOn] = []
    failures = [TransientError("Redis does not answer."), TransientError("Nor now.")]

    def verb() -> str:
        if failures:
            raise failures.pop(0)
        return "answer"

    asking = Patience(SystemClock(), told.append)

    assert await asking.ask(verb) == "answer"
    assert [type(each) for each in told] == [Waiting, GoingOn]
    assert told[0] == Waiting("store", "Redis does not answer.")


async def test_a_store_that_cannot_be_used_is_not_waited_for() -> None:
    """A wrong password does not mend itself."""

    def verb() -> None:
        raise UnavailableError("The password is wrong.")

    with pytest.raises(UnavailableError):
        await Patience(SystemClock(), lambda _: None).ask(verb)
